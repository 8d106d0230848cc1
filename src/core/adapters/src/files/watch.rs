//! Notifications of changes of a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, Watcher};

use super::reads::PENDING_READS;

/// Debounce time of file changes, so that a burst of changes is read once.
pub(crate) const SETTLE_TIME: Duration = Duration::from_millis(50);

/// A file that is watched, until this is dropped.
pub(crate) struct FileWatch {
    _watcher: notify::RecommendedWatcher,
    is_lost: Arc<AtomicBool>,
}

impl FileWatch {
    /// Whether the directory was removed. Of one that takes its place nothing is told: it is to be watched anew.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }
}

/// Notifies `changed` when the file changes, or its directory is removed. It watches the directory, because the file or the target of
/// its link may be replaced. Errors: one line.
pub(crate) async fn watch(
    path: &Path,
    limit: Duration,
    changed: Arc<tokio::sync::Notify>,
) -> Result<FileWatch, String> {
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
            let is_removed = |e: &notify::Event| e.kind.is_remove() && e.paths.contains(&watched);
            if event.as_ref().is_ok_and(is_removed) {
                lost.store(true, Ordering::Relaxed);
                changed.notify_one();
            }
            let matters = event
                .map_or(true, |e| (!e.kind.is_access() || e.kind == closes) && e.paths.iter().any(&concerns));
            if matters {
                changed.notify_one();
            }
        })?;
        watcher.watch(&directory, notify::RecursiveMode::NonRecursive)?;
        Ok::<_, notify::Error>(FileWatch { _watcher: watcher, is_lost })
    };
    match PENDING_READS.run(path, limit, start).await {
        Ok(Ok(watch)) => Ok(watch),
        Ok(Err(error)) => Err(format!("cannot watch {shown}: {error}")),
        Err(why) => Err(format!("cannot watch {shown}: {why}")),
    }
}
