//! File events for the store.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::{Mutex, RwLock};

use super::wake::Wake;
use mixer_base::file_writer::is_local_path;
use mixer_base::task::{External, panic_text};

/// Maximum number of watched directories outside the tree, the targets of links.
const MAX_OUTSIDE: usize = 64;

/// Maximum number of paths recorded between two scans.
const MAX_NOTED: usize = 1024;

/// The last event of a path, as far as it tells about writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastEvent {
    /// Its writer closed it, or it was renamed into place.
    Closed,
    /// It was written to; its writer has not closed it since.
    Written,
    /// Another event.
    Other,
}

/// The events since the last scan.
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// The paths named by events.
    pub(super) paths: BTreeMap<PathBuf, LastEvent>,
    /// The whole tree may have changed.
    pub(super) everything: bool,
    /// Events were lost or named no path: whether a writer closed its file may be unknown.
    pub(super) lost: bool,
    /// An operator says that no change is going on: what is gone or empty is meant.
    pub(super) is_complete: bool,
}

impl Noted {
    pub(super) fn note(&mut self, event: notify::Result<notify::Event>) {
        match event {
            Ok(event) if !event.need_rescan() && !event.paths.is_empty() && self.paths.len() < MAX_NOTED => {
                let last = last_event(event.kind);
                for path in event.paths {
                    let known = self.paths.entry(path).or_insert(last);
                    if last != LastEvent::Other {
                        *known = last;
                    }
                }
            }
            _ => (self.everything, self.lost) = (true, true),
        }
    }
}

/// Records the watched paths that an event says are removed.
fn note_removed(watched: &Mutex<Watched>, event: &notify::Result<notify::Event>) {
    let Ok(event) = event else { return };
    if event.kind.is_remove() {
        let mut watched = watched.lock();
        for path in &event.paths {
            if let Some((identity, _)) = watched.get_mut(path) {
                *identity = None;
            }
        }
    }
}

fn last_event(kind: EventKind) -> LastEvent {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both)) => LastEvent::Closed,
        EventKind::Modify(ModifyKind::Data(_)) => LastEvent::Written,
        _ => LastEvent::Other,
    }
}

/// What becomes of the thread of the library that reads the events.
#[derive(Debug, Default)]
pub(super) enum Life {
    /// It runs.
    #[default]
    Running,
    /// It panicked with this message.
    Panicked(String),
    /// It ended without a panic.
    Ended,
}

/// Dropped by the thread of the library when it ends, whatever ends it.
struct Presence {
    life: Arc<Mutex<Life>>,
    wake: Arc<Wake>,
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut life = self.life.lock();
        if matches!(*life, Life::Running) {
            *life = match std::thread::panicking() {
                true => Life::Panicked("the library that reads file events failed".to_owned()),
                false => Life::Ended,
            };
        }
        drop(life);
        self.wake.rescan();
    }
}

/// Watched paths, and whether recursively. One that was removed has no identity: the library has ended its watch, and what takes its place may
/// have its inode.
type Watched = BTreeMap<PathBuf, (Option<Identity>, bool)>;

/// Device, inode, and time of creation, if the file system has it: another directory may have the inode of one that was removed.
type Identity = (u64, u64, Option<std::time::SystemTime>);

fn identity(path: &Path) -> Option<Identity> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino(), metadata.created().ok()))
}

/// Watches a tree, its parent directory and the targets of its links.
pub(super) struct Watch {
    /// Until it is dropped.
    watcher: Option<RecommendedWatcher>,
    life: Arc<Mutex<Life>>,
    /// Not locked while the library is called, whose thread locks it.
    watched: Arc<Mutex<Watched>>,
    /// Events are relevant at, below and above these paths.
    interest: Arc<RwLock<Vec<PathBuf>>>,
    /// The canonical path of the root.
    real: Option<PathBuf>,
    #[cfg(test)]
    fault: Arc<std::sync::atomic::AtomicBool>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The library panics if its thread has ended.
        let watcher = self.watcher.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(watcher)));
    }
}

impl Watch {
    /// A watch without paths, whose thread is `task`.
    pub(super) fn new(wake: Arc<Wake>, task: Arc<External>) -> notify::Result<Self> {
        let interest = Arc::new(RwLock::new(Vec::<PathBuf>::new()));
        let seen = interest.clone();
        let life: Arc<Mutex<Life>> = Arc::default();
        let presence = Presence { life: Arc::clone(&life), wake };
        let is_relevant = move |event: &notify::Result<notify::Event>| match event {
            Ok(event) => {
                let reading = matches!(event.kind, EventKind::Access(kind)
                    if !matches!(kind, AccessKind::Close(AccessMode::Write)));
                let interest = seen.read();
                !reading
                    && (event.paths.is_empty()
                        || event
                            .paths
                            .iter()
                            .any(|p| interest.iter().any(|i| p.starts_with(i) || i.starts_with(p))))
            }
            Err(_) => true,
        };
        #[cfg(test)]
        let fault = Arc::new(std::sync::atomic::AtomicBool::new(false));
        #[cfg(test)]
        let injected = Arc::clone(&fault);
        let watched = Arc::<Mutex<Watched>>::default();
        let noted = Arc::clone(&watched);
        let handler = move |event: notify::Result<notify::Event>| {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                task.check();
                note_removed(&noted, &event);
                #[cfg(test)]
                assert!(!injected.load(std::sync::atomic::Ordering::Relaxed), "on purpose");
                if is_relevant(&event) {
                    presence.wake.note(event);
                }
            }));
            if let Err(panic) = outcome {
                *presence.life.lock() = Life::Panicked(panic_text(&*panic));
                resume_unwind(panic);
            }
        };
        let config = notify::Config::default().with_follow_symlinks(false);
        let watcher = RecommendedWatcher::new(handler, config)?;
        Ok(Self {
            watcher: Some(watcher),
            life,
            watched,
            interest,
            real: None,
            #[cfg(test)]
            fault,
        })
    }

    /// Why the thread of the library has ended: its panic, if there was one. `None` while it runs.
    pub(super) fn ended(&self) -> Option<Option<String>> {
        match &*self.life.lock() {
            Life::Running => None,
            Life::Panicked(text) => Some(Some(text.clone())),
            Life::Ended => Some(None),
        }
    }

    /// Makes the thread of the library panic at its next event.
    #[cfg(test)]
    pub(super) fn inject_panic(&self) {
        self.fault.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// A path from an event as a path below `root`; `None` if it is not below, or too deep.
    pub(super) fn path_in(&self, root: &Path, path: &Path) -> Option<PathBuf> {
        let inside = path.strip_prefix(self.real.as_ref()?).ok()?;
        let depth = inside.components().count();
        (depth > 0 && depth <= super::walk::MAX_DEPTH).then(|| root.join(inside))
    }

    /// Adjusts the watches to the current state of `root`. `links` are the links among its files. Returns whether all changes
    /// will cause events.
    pub(super) fn aim(&mut self, root: &Path, links: &[PathBuf]) -> bool {
        let mut required: BTreeMap<PathBuf, bool> = BTreeMap::new();
        let mut interest = vec![root.to_owned()];
        let real = root.canonicalize().ok().filter(|r| r.is_dir());
        if let Some(real) = &real {
            required.insert(real.clone(), true);
            interest.push(real.clone());
        }
        self.real.clone_from(&real);
        let absolute = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        interest.push(absolute.clone());
        // The nearest existing ancestor reports when the root appears, disappears or is replaced.
        if let Some(parent) = absolute.ancestors().skip(1).find(|a| a.is_dir()) {
            required.entry(parent.to_owned()).or_insert(false);
        }
        let outside = links.iter().filter_map(|link| link.canonicalize().ok());
        let outside = outside.filter(|target| !real.as_ref().is_some_and(|real| target.starts_with(real)));
        let mut all_inside = true;
        for target in outside.take(MAX_OUTSIDE) {
            // Intermediate links are not watched.
            all_inside = false;
            if let Some(parent) = target.parent() {
                required.entry(parent.to_owned()).or_insert(false);
            }
            interest.push(target);
        }
        *self.interest.write() = interest;
        self.apply(&required);
        let watched = self.watched.lock();
        all_inside && required.keys().all(|path| watched.contains_key(path) && is_local_path(path))
    }

    fn apply(&mut self, required: &BTreeMap<PathBuf, bool>) {
        let known = self.watched.lock().clone();
        for (path, (before, recursive)) in &known {
            if required.get(path) != Some(recursive) || identity(path) != *before {
                // It may already be removed.
                let _ = self.watcher.as_mut().map(|watcher| watcher.unwatch(path));
                self.watched.lock().remove(path);
            }
        }
        for (path, recursive) in required {
            // Known before it is watched, so that its removal is recorded.
            match self.watched.lock().entry(path.clone()) {
                Entry::Occupied(_) => continue,
                Entry::Vacant(entry) => entry.insert((identity(path), *recursive)),
            };
            let mode = if *recursive { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
            // Paths that cannot be watched are polled.
            if self.watcher.as_mut().is_none_or(|watcher| watcher.watch(path, mode).is_err()) {
                self.watched.lock().remove(path);
            }
        }
    }
}
