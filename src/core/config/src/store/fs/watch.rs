//! File events for the store.

mod fence;
mod noted;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{ErrorKind, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::{Mutex, RwLock};
use rustix::fs::{Mode, OFlags};

use super::scan::Coverage;
use super::wake::Wake;
use super::walk::is_configuration;
use crate::{Diagnostic, FieldPath};
use mixer_base::file_writer::is_local_path;
use mixer_base::regular_file;
use mixer_base::task::{External, panic_text};

use fence::{Fence, Told};
pub(super) use noted::{LastEvent, Noted};

/// Maximum number of watched directories outside the tree, the targets of links.
const MAX_OUTSIDE: usize = 64;

/// Most links that are followed on the way of one to its file: as many as Linux follows.
const MAX_STEPS: usize = 40;

/// The code of a directory that cannot be watched.
const UNWATCHED: &str = "store-unwatched";

/// Records which watches an event says are gone: those of a path that was removed or renamed and of all below it, which the library ends, and
/// any if events were lost.
fn note_removed(watched: &Mutex<Watched>, event: &notify::Result<notify::Event>) {
    let Ok(event) = event else { return };
    if event.need_rescan() {
        watched.lock().values_mut().for_each(|watch| watch.is_lost = true);
    } else if event.kind.is_remove() || matches!(event.kind, EventKind::Modify(ModifyKind::Name(_))) {
        let (mut watched, mut is_any) = (watched.lock(), false);
        for path in &event.paths {
            let below = watched.range_mut(path.clone()..);
            let below = below.take_while(|(watched, _)| watched.starts_with(path));
            below.for_each(|(_, watch)| is_any |= !std::mem::replace(&mut watch.is_lost, true));
        }
        if is_any {
            lose_shared(&mut watched);
        }
    }
}

/// A directory that was renamed may be watched by both of its paths, which the system takes for one watch: that of one path ends the other.
fn lose_shared(watched: &mut Watched) {
    let lost = watched.values().filter(|watch| watch.is_lost).filter_map(|watch| watch.identity);
    let lost: BTreeSet<Identity> = lost.collect();
    let shared =
        watched.values_mut().filter(|watch| watch.identity.is_some_and(|identity| lost.contains(&identity)));
    shared.for_each(|watch| watch.is_lost = true);
}

/// Counts a path once less; whether it was counted.
fn take_one(counted: &Mutex<HashMap<PathBuf, usize>>, path: &Path) -> bool {
    let mut counted = counted.lock();
    let Some(count) = counted.get_mut(path) else { return false };
    *count -= 1;
    if *count == 0 {
        counted.remove(path);
    }
    true
}

/// Whether an event at a path is relevant for one of these.
fn concerns(interest: &[PathBuf], path: &Path) -> bool {
    interest.iter().any(|of| path.starts_with(of) || of.starts_with(path))
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

/// Watched directories by path.
type Watched = BTreeMap<PathBuf, WatchedDirectory>;

#[derive(Debug, Clone, Copy)]
struct WatchedDirectory {
    identity: Option<Identity>,
    /// Whether its watch has ended, or may have. What takes its place may have its inode.
    is_lost: bool,
    /// Whether no other machine can change it.
    is_local: bool,
}

/// What [`Watch::aim`] found.
#[derive(Debug, Default)]
pub(super) struct Aim {
    /// Which changes will cause events.
    pub(super) coverage: Coverage,
    /// Whether a directory is watched that was not: it may have changed between the walk that found it and its watch.
    pub(super) is_new: bool,
    /// A directory that cannot be watched.
    pub(super) failure: Option<Diagnostic>,
}

/// Device, inode, and time of creation, if the file system has it: another directory may have the inode of one that was removed.
type Identity = (u64, u64, Option<std::time::SystemTime>);

fn identity(path: &Path) -> Option<Identity> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino(), metadata.created().ok()))
}

/// The links on the way of a link to its file, by the place of each in directories that are none: itself, and those to directories.
fn steps(link: &Path) -> Vec<PathBuf> {
    let (Some(parent), Some(name)) = (link.parent(), link.file_name()) else { return Vec::new() };
    let Ok(mut at) = parent.canonicalize() else { return Vec::new() };
    let (mut steps, mut left) = (Vec::new(), vec![name.to_owned()]);
    while let Some(part) = left.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        // An absolute target begins with the root directory, which takes the place of all.
        let next = at.join(part);
        match std::fs::read_link(&next) {
            Ok(target) if steps.len() < MAX_STEPS => {
                let parts = target.components().rev().filter(|part| *part != Component::CurDir);
                left.extend(parts.map(|part| part.as_os_str().to_owned()));
                steps.push(next);
            }
            _ => at = next,
        }
    }
    steps
}

/// Watches the directories of a tree, its parent directory and the targets of its links, each by itself: the recursive watch of the library
/// leaves out, without a word, directories that it cannot watch at once or of which it missed the event.
pub(super) struct Watch {
    /// Until it is dropped.
    watcher: Option<RecommendedWatcher>,
    life: Arc<Mutex<Life>>,
    /// Not locked while the library is called, whose thread locks it.
    watched: Arc<Mutex<Watched>>,
    /// Events are relevant at, below and above these paths.
    interest: Arc<RwLock<Vec<PathBuf>>>,
    /// How often this program opens files, of which no event told yet.
    own: Arc<Mutex<HashMap<PathBuf, usize>>>,
    fence: Option<Fence>,
    /// The canonical path of the root.
    real: Option<PathBuf>,
    /// The files that are watched themselves.
    files: Vec<PathBuf>,
    /// The name of directories that cannot be watched.
    #[cfg(test)]
    pub(super) unwatchable: Option<&'static str>,
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
        let of_interest = Arc::clone(&interest);
        let is_relevant = move |event: &notify::Result<notify::Event>| match event {
            Ok(event) => {
                let reading = matches!(event.kind, EventKind::Access(kind)
                    if !matches!(kind, AccessKind::Close(AccessMode::Write)));
                let interest = seen.read();
                !reading
                    && (event.paths.is_empty() || event.paths.iter().any(|path| concerns(&interest, path)))
            }
            Err(_) => true,
        };
        #[cfg(test)]
        let fault = Arc::new(std::sync::atomic::AtomicBool::new(false));
        #[cfg(test)]
        let injected = Arc::clone(&fault);
        let watched = Arc::<Mutex<Watched>>::default();
        let noted = Arc::clone(&watched);
        let own = Arc::<Mutex<HashMap<PathBuf, usize>>>::default();
        let of_own = Arc::clone(&own);
        let told = Arc::<Told>::default();
        let of_fence = Arc::clone(&told);
        let handler = move |event: notify::Result<notify::Event>| {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                task.check();
                if let Ok(opened) = &event
                    && matches!(opened.kind, EventKind::Access(AccessKind::Open(_)))
                {
                    if opened.paths.first().is_some_and(|path| of_fence.tell(path)) {
                        return;
                    }
                    let is_ours = |path: &PathBuf| take_one(&of_own, path);
                    let is_seen = |path: &Path| is_configuration(path) && concerns(&of_interest.read(), path);
                    let paths = opened.paths.iter().filter(|path| is_seen(path) && !is_ours(path));
                    paths.for_each(|path| presence.wake.opened(path));
                    return;
                }
                note_removed(&noted, &event);
                if event.as_ref().is_ok_and(notify::Event::need_rescan) {
                    of_own.lock().clear();
                }
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
        let mut watcher = RecommendedWatcher::new(handler, config)?;
        let fence = Fence::new(&mut watcher, told);
        Ok(Self {
            watcher: Some(watcher),
            fence,
            life,
            watched,
            interest,
            own,
            real: None,
            files: Vec::new(),
            #[cfg(test)]
            unwatchable: None,
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

    /// As if an event of the fence was lost.
    #[cfg(test)]
    pub(super) fn lose_fence(&mut self) {
        self.fence.iter_mut().for_each(|fence| fence.opened += 1);
    }

    /// Ends the watch of a directory as if its events were lost, then says that events were lost.
    #[cfg(test)]
    pub(super) fn lose(&mut self, directory: &Path) -> notify::Result<notify::Event> {
        let path = directory.canonicalize().expect("a directory");
        self.watcher.as_mut().expect("a watcher").unwatch(&path).expect("it is watched");
        let overflow = || Ok(notify::Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan));
        note_removed(&self.watched, &overflow());
        overflow()
    }

    /// Waits until all events were told of what happened before; false if that takes too long.
    pub(super) fn has_told_all(&mut self) -> bool {
        if self.ended().is_none() && self.fence.as_mut().is_some_and(Fence::pass) {
            return true;
        }
        // The library panics if its thread has ended.
        if self.ended().is_none()
            && let Some((fence, watcher)) = self.fence.as_ref().zip(self.watcher.as_mut())
        {
            // The event may be lost, and so would be that of the next one.
            self.fence = fence.renewed(watcher);
        }
        false
    }

    /// This program is about to open a file below `root`.
    pub(super) fn opens(&self, root: &Path, path: &Path) {
        let told = self.told_of(root, path);
        let mut own = self.own.lock();
        told.into_iter().for_each(|path| *own.entry(path).or_default() += 1);
    }

    /// It could not.
    pub(super) fn has_not_opened(&self, root: &Path, path: &Path) {
        for path in self.told_of(root, path) {
            take_one(&self.own, &path);
        }
    }

    /// The paths of the events that tell of a file below `root` when it is opened: by its directory, and by itself, if it has other names.
    fn told_of(&self, root: &Path, path: &Path) -> Vec<PathBuf> {
        let Some(real) = self.real_path(root, path) else { return Vec::new() };
        let watched = self.watched.lock();
        let by_directory = real.parent().is_some_and(|directory| watched.contains_key(directory));
        let known = if self.files.is_empty() { None } else { identity(path) };
        let is_it = |file: &&PathBuf| {
            known.is_some() && watched.get(*file).is_some_and(|watched| watched.identity == known)
        };
        let by_itself = self.files.iter().find(is_it);
        by_directory.then_some(real).into_iter().chain(by_itself.cloned()).collect()
    }

    /// Stands between the openings of a file before and after this: the system tells of two in succession once.
    pub(super) fn divide(root: &Path) {
        let flags = OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        drop(rustix::fs::open(root, flags, Mode::empty()));
    }

    /// Opens a file so that who follows the openings of others does not count this one. `divides`: it may have been opened by others just now.
    pub(super) fn open(&self, root: &Path, path: &Path, divides: bool) -> std::io::Result<(File, Metadata)> {
        if divides {
            Self::divide(root);
        }
        self.opens(root, path);
        let opened = regular_file::open(path);
        if opened.is_err() {
            self.has_not_opened(root, path);
        }
        if divides {
            Self::divide(root);
        }
        opened
    }

    /// The path of events about a file below `root`.
    fn real_path(&self, root: &Path, path: &Path) -> Option<PathBuf> {
        Some(self.real.as_ref()?.join(path.strip_prefix(root).ok()?))
    }

    /// A path from an event as a path below `root`; `None` if it is not below, or too deep.
    pub(super) fn path_in(&self, root: &Path, path: &Path) -> Option<PathBuf> {
        let inside = path.strip_prefix(self.real.as_ref()?).ok()?;
        let depth = inside.components().count();
        (depth > 0 && depth <= super::walk::MAX_DEPTH).then(|| root.join(inside))
    }

    /// Adjusts the watches to the current state of `root`. `links` are the links among its files, `directories` those that the last walk read,
    /// below `root`; `files` are watched themselves: others are mounted over them, or they have other names.
    pub(super) fn aim(
        &mut self,
        root: &Path,
        links: &[PathBuf],
        directories: &[PathBuf],
        files: Vec<PathBuf>,
    ) -> Aim {
        self.files.clone_from(&files);
        let mut required: BTreeSet<PathBuf> = files.into_iter().collect();
        let mut interest = vec![root.to_owned()];
        let real = root.canonicalize().ok().filter(|r| r.is_dir());
        if let Some(real) = &real {
            required.insert(real.clone());
            let inside = directories.iter().filter_map(|directory| directory.strip_prefix(root).ok());
            required.extend(inside.map(|inside| real.join(inside)).filter(|directory| directory.is_dir()));
            interest.push(real.clone());
        }
        self.real.clone_from(&real);
        let absolute = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        interest.push(absolute.clone());
        // The nearest existing ancestor reports when the root appears, disappears or is replaced.
        if let Some(parent) = absolute.ancestors().skip(1).find(|a| a.is_dir()) {
            required.insert(parent.to_owned());
        }
        let is_inside = |target: &Path| real.as_ref().is_some_and(|real| target.starts_with(real));
        let targets = links.iter().filter_map(|link| link.canonicalize().ok());
        let (inside, outside): (Vec<_>, Vec<_>) = targets.partition(|target| is_inside(target));
        // Those are below directories that a walk does not read.
        required.extend(inside.iter().filter_map(|target| target.parent().map(Path::to_owned)));
        // What a link leads through may be outside although its file is inside.
        let steps: BTreeSet<PathBuf> = links.iter().flat_map(|link| steps(link)).collect();
        let (steps, through): (Vec<_>, Vec<_>) = steps.into_iter().partition(|step| is_inside(step));
        required.extend(steps.iter().filter_map(|step| step.parent().map(Path::to_owned)));
        let all_inside = outside.is_empty() && through.is_empty();
        for target in outside.into_iter().chain(through).take(MAX_OUTSIDE) {
            if let Some(parent) = target.parent() {
                required.insert(parent.to_owned());
            }
            interest.push(target);
        }
        *self.interest.write() = interest;
        let (is_new, failure) = self.apply(&required);
        let watched = self.watched.lock();
        let coverage = if !required.iter().all(|path| watched.contains_key(path)) {
            Coverage::None
        } else if all_inside && watched.values().all(|watch| watch.is_local) {
            Coverage::Full
        } else {
            Coverage::Partial
        };
        Aim { coverage, is_new, failure }
    }

    /// Watches these directories and no other. Returns whether one is watched that was not, and why one cannot be.
    fn apply(&mut self, required: &BTreeSet<PathBuf>) -> (bool, Option<Diagnostic>) {
        let known: Vec<PathBuf> = self.watched.lock().keys().cloned().collect();
        let now: Vec<Option<Identity>> = known.iter().map(|path| identity(path)).collect();
        let mut watched = self.watched.lock();
        for (path, now) in known.iter().zip(now) {
            if let Some(watch) = watched.get_mut(path) {
                watch.is_lost |= !required.contains(path) || now.is_none() || now != watch.identity;
            }
        }
        lose_shared(&mut watched);
        let lost: Vec<PathBuf> =
            watched.extract_if(.., |_, watch| watch.is_lost).map(|(path, _)| path).collect();
        drop(watched);
        for path in &lost {
            // It may already be removed.
            let _ = self.watcher.as_mut().map(|watcher| watcher.unwatch(path));
        }
        let (mut is_new, mut failure) = (false, None);
        for path in required {
            if self.watched.lock().contains_key(path) {
                continue;
            }
            let (identity, is_local) = (identity(path), is_local_path(path));
            let watch = WatchedDirectory { identity, is_lost: false, is_local };
            // Known before it is watched, so that its removal is recorded.
            self.watched.lock().insert(path.clone(), watch);
            let Some(watcher) = &mut self.watcher else { break };
            let outcome = watcher.watch(path, RecursiveMode::NonRecursive);
            #[cfg(test)]
            let outcome = match self.unwatchable {
                Some(name) if path.ends_with(name) => {
                    _ = watcher.unwatch(path);
                    Err(notify::Error::new(ErrorKind::MaxFilesWatch))
                }
                _ => outcome,
            };
            match outcome {
                Ok(()) => is_new = true,
                Err(error) => {
                    self.watched.lock().remove(path);
                    let is_full = matches!(error.kind, ErrorKind::MaxFilesWatch);
                    if path.is_dir() {
                        failure.get_or_insert((path, error));
                    }
                    if is_full {
                        break;
                    }
                }
            }
        }
        let failure = failure.map(|(path, error)| {
            let hint = match error.kind {
                ErrorKind::MaxFilesWatch => "raise fs.inotify.max_user_watches",
                _ => "make it readable, or move it out of the configuration",
            };
            let message = format!("{} cannot be watched: {error}", path.display());
            Diagnostic::warning(UNWATCHED, FieldPath::root(), message)
                .with_hint(format!("its tree is looked at every second, and changes take longer: {hint}"))
                .accepted_by_istio()
        });
        (is_new, failure)
    }
}
