//! Notifications of changes of files.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{EventKind, Watcher};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::reads::PENDING_READS;

/// Debounce time of file changes, so that a burst of changes is read once.
pub(crate) const SETTLE_TIME: Duration = Duration::from_millis(50);

/// Interval of looks for directories that were exchanged: of one that takes the place of another one, or to which a link on the way leads
/// now, no event tells.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Files that are watched, until this is dropped. The directories are watched, because a file or the target of its link may be replaced.
pub(crate) struct FileWatches {
    watches: Vec<FileWatch>,
    changed: Arc<Notify>,
    next_look: Instant,
}

struct FileWatch {
    path: PathBuf,
    limit: Duration,
    /// [`None`] while the directory is not there or cannot be watched.
    directory: Option<Directory>,
}

struct Directory {
    _watcher: notify::RecommendedWatcher,
    /// Whether it was removed or renamed.
    is_lost: Arc<AtomicBool>,
    identity: Identity,
}

/// Device and inode.
type Identity = (u64, u64);

fn identity(directory: &Path) -> std::io::Result<Identity> {
    std::fs::metadata(directory).map(|metadata| (metadata.dev(), metadata.ino()))
}

impl FileWatches {
    /// No file is watched. `changed` is notified when one changes, or its directory is removed.
    pub(crate) fn new(changed: Arc<Notify>) -> Self {
        Self { watches: Vec::new(), changed, next_look: Instant::now() + LOOK_INTERVAL }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    /// Watches a file. `limit`: how long an operation of its file system may take. Errors: one line.
    pub(crate) async fn add(&mut self, path: &Path, limit: Duration) -> Result<(), String> {
        let directory = Some(watch(path, limit, Arc::clone(&self.changed)).await?);
        self.watches.push(FileWatch { path: path.to_owned(), limit, directory });
        Ok(())
    }

    /// Waits until a directory took the place of one that was watched, and is watched: its file may be another one. Never ends without files.
    pub(crate) async fn exchanged(&mut self) {
        loop {
            sleep_until(self.next_look).await;
            self.next_look = Instant::now() + LOOK_INTERVAL;
            let mut is_exchanged = false;
            for watch in &mut self.watches {
                is_exchanged |= watch.look(&self.changed).await;
            }
            if is_exchanged {
                return;
            }
        }
    }
}

impl FileWatch {
    /// Whether the directory is another one, which is watched now.
    async fn look(&mut self, changed: &Arc<Notify>) -> bool {
        let Some(parent) = self.path.parent().map(Path::to_owned) else { return false };
        let now = PENDING_READS.run(&self.path, self.limit, move || identity(&parent)).await;
        // On a file system that hangs, or that cannot be read for a moment, nothing is known.
        let Ok(now) = now else { return false };
        let is_same = |directory: &Directory| {
            !directory.is_lost.load(Ordering::Relaxed)
                && now.as_ref().is_ok_and(|now| *now == directory.identity)
        };
        if self.directory.as_ref().is_some_and(is_same) {
            return false;
        }
        if now.is_err() {
            self.directory = None;
            return false;
        }
        self.directory = watch(&self.path, self.limit, Arc::clone(changed)).await.ok();
        self.directory.is_some()
    }
}

/// Notifies `changed` when the file changes, or its directory is removed. Errors: one line.
async fn watch(path: &Path, limit: Duration, changed: Arc<Notify>) -> Result<Directory, String> {
    let (Some(directory), Some(name)) = (path.parent().map(Path::to_owned), path.file_name()) else {
        return Err(format!("cannot watch {}: it names no file", path.display()));
    };
    let (name, shown) = (name.to_owned(), directory.display().to_string());
    let concerns = move |path: &PathBuf| {
        // Kubernetes updates ConfigMaps through symbolic links whose names begin with two dots.
        path.file_name().is_some_and(|n| n == name || n.as_encoded_bytes().starts_with(b".."))
    };
    let start = move || {
        let is_lost = Arc::new(AtomicBool::new(false));
        let (lost, watched) = (Arc::clone(&is_lost), directory.clone());
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let closes = EventKind::Access(AccessKind::Close(AccessMode::Write));
            let is_away = |e: &notify::Event| {
                let is_renamed = e.kind == EventKind::Modify(ModifyKind::Name(RenameMode::From));
                (e.kind.is_remove() || is_renamed) && e.paths.contains(&watched)
            };
            if event.as_ref().is_ok_and(is_away) {
                lost.store(true, Ordering::Relaxed);
                changed.notify_one();
            }
            let matters = event
                .map_or(true, |e| (!e.kind.is_access() || e.kind == closes) && e.paths.iter().any(&concerns));
            if matters {
                changed.notify_one();
            }
        })?;
        // Before it is watched: one that takes its place in between is found by the next look.
        let identity = identity(&directory)?;
        watcher.watch(&directory, notify::RecursiveMode::NonRecursive)?;
        Ok::<_, notify::Error>(Directory { _watcher: watcher, is_lost, identity })
    };
    match PENDING_READS.run(path, limit, start).await {
        Ok(Ok(watch)) => Ok(watch),
        Ok(Err(error)) => Err(format!("cannot watch {shown}: {error}")),
        Err(why) => Err(format!("cannot watch {shown}: {why}")),
    }
}
