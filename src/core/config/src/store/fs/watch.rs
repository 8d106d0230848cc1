//! Wakes the store when something happens to its files.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _, event::AccessKind};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

/// Most directories outside the tree that are watched because links lead there.
const MAX_OUTSIDE: usize = 64;

/// Most paths that are noted one by one.
const MAX_NOTED: usize = 1024;

/// What the system told since it was last asked.
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// What happened to these, as the watch names them.
    pub(super) paths: BTreeSet<PathBuf>,
    /// More happened than the paths say.
    pub(super) everything: bool,
}

impl Noted {
    fn note(&mut self, event: notify::Result<notify::Event>) {
        match event {
            Ok(event) if !event.need_rescan() && !event.paths.is_empty() && self.paths.len() < MAX_NOTED => {
                self.paths.extend(event.paths);
            }
            _ => self.everything = true,
        }
    }
}

/// Whether changes below `path` can only come from this machine, which then tells of them.
fn tells_everything(path: &Path) -> bool {
    /// Magic numbers of file systems whose files other machines or programs behind the kernel change: NFS, SMB, CIFS, SMB2, 9P, FUSE, Ceph,
    /// AFS, Lustre, GFS2 and OCFS2.
    const REMOTE: [u32; 11] = [
        0x6969,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x0102_1997,
        0x6573_5546,
        0x00c3_6400,
        0x5346_414f,
        0x0bd0_0bd0,
        0x0116_1970,
        0x7461_636f,
    ];
    // The kernel's type differs by machine; the number has 32 bits on all.
    rustix::fs::statfs(path).is_ok_and(|fs| !REMOTE.contains(&(fs.f_type as u32)))
}

/// Watches a tree, the way to it, and what its links lead to.
pub(super) struct Watch {
    watcher: RecommendedWatcher,
    /// Path and inode of what is watched.
    watched: BTreeMap<PathBuf, (u64, bool)>,
    /// Only what happens at, below or on the way to these matters.
    interest: Arc<RwLock<Vec<PathBuf>>>,
    /// Where the tree really is.
    real: Option<PathBuf>,
}

impl Watch {
    /// A watch on nothing yet.
    pub(super) fn new(signal: Arc<Notify>, noted: Arc<Mutex<Noted>>) -> notify::Result<Self> {
        let interest = Arc::new(RwLock::new(Vec::<PathBuf>::new()));
        let seen = interest.clone();
        let handler = move |event: notify::Result<notify::Event>| {
            let matters = match &event {
                Ok(event) => {
                    let reading = matches!(event.kind, EventKind::Access(kind)
                        if !matches!(kind, AccessKind::Close(notify::event::AccessMode::Write)));
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
            if matters {
                noted.lock().note(event);
                signal.notify_one();
            }
        };
        let config = notify::Config::default().with_follow_symlinks(false);
        let watcher = RecommendedWatcher::new(handler, config)?;
        Ok(Self { watcher, watched: BTreeMap::new(), interest, real: None })
    }

    /// A path that the watch named, as a path below `root`; `None` if it is not below, or deeper than is looked.
    pub(super) fn path_in(&self, root: &Path, path: &Path) -> Option<PathBuf> {
        let inside = path.strip_prefix(self.real.as_ref()?).ok()?;
        let depth = inside.components().count();
        (depth > 0 && depth <= super::walk::MAX_DEPTH).then(|| root.join(inside))
    }

    /// Watches what matters for `root` now, and nothing else. `links` are the links among its files. Returns whether the system will
    /// tell of every change.
    pub(super) fn aim(&mut self, root: &Path, links: &[PathBuf]) -> bool {
        let mut wanted: BTreeMap<PathBuf, bool> = BTreeMap::new();
        let mut interest = vec![root.to_owned()];
        let real = root.canonicalize().ok().filter(|r| r.is_dir());
        if let Some(real) = &real {
            wanted.insert(real.clone(), true);
            interest.push(real.clone());
        }
        self.real.clone_from(&real);
        let absolute = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        interest.push(absolute.clone());
        // The nearest directory that exists tells when the root appears, vanishes or is replaced.
        if let Some(parent) = absolute.ancestors().skip(1).find(|a| a.is_dir()) {
            wanted.entry(parent.to_owned()).or_insert(false);
        }
        let outside = links.iter().filter_map(|link| link.canonicalize().ok());
        let outside = outside.filter(|target| !real.as_ref().is_some_and(|real| target.starts_with(real)));
        let mut all_inside = true;
        for target in outside.take(MAX_OUTSIDE) {
            // The links in between may change where nothing is watched.
            all_inside = false;
            if let Some(parent) = target.parent() {
                wanted.entry(parent.to_owned()).or_insert(false);
            }
            interest.push(target);
        }
        *self.interest.write() = interest;
        self.apply(&wanted);
        all_inside && wanted.keys().all(|path| self.watched.contains_key(path) && tells_everything(path))
    }

    fn apply(&mut self, wanted: &BTreeMap<PathBuf, bool>) {
        let inode = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.ino());
        let stale = self
            .watched
            .iter()
            .filter(|(path, (old, recursive))| wanted.get(*path) != Some(recursive) || inode(path) != *old);
        for path in stale.map(|(path, _)| path.clone()).collect::<Vec<_>>() {
            // It may be gone already.
            let _ = self.watcher.unwatch(&path);
            self.watched.remove(&path);
        }
        for (path, recursive) in wanted {
            if self.watched.contains_key(path) {
                continue;
            }
            let mode = if *recursive { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
            // What cannot be watched is polled.
            if self.watcher.watch(path, mode).is_ok() {
                self.watched.insert(path.clone(), (inode(path), *recursive));
            }
        }
    }
}
