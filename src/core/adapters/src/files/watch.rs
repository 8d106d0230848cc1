//! Notifications of changes of a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, Watcher};

use super::reads::PENDING_READS;

/// Debounce time of file changes, so that a burst of changes is read once.
pub(crate) const SETTLE_TIME: Duration = Duration::from_millis(50);

/// Notifies `changed` when the file changes, until the watcher is dropped. It watches the directory, because the file or the target of
/// its link may be replaced. Errors: one line.
pub(crate) async fn watch(
    path: &Path,
    limit: Duration,
    changed: Arc<tokio::sync::Notify>,
) -> Result<notify::RecommendedWatcher, String> {
    let (Some(directory), Some(name)) = (path.parent().map(Path::to_owned), path.file_name()) else {
        return Err(format!("cannot watch {}: it names no file", path.display()));
    };
    let (name, shown) = (name.to_owned(), directory.display().to_string());
    let concerns = move |path: &PathBuf| {
        // Kubernetes updates ConfigMaps through symbolic links whose names begin with two dots.
        path.file_name().is_some_and(|n| n == name || n.as_encoded_bytes().starts_with(b".."))
    };
    let start = move || {
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let closes = EventKind::Access(AccessKind::Close(AccessMode::Write));
            let matters = event
                .map_or(true, |e| (!e.kind.is_access() || e.kind == closes) && e.paths.iter().any(&concerns));
            if matters {
                changed.notify_one();
            }
        })?;
        watcher.watch(&directory, notify::RecursiveMode::NonRecursive)?;
        Ok::<_, notify::Error>(watcher)
    };
    match PENDING_READS.run(path, limit, start).await {
        Ok(Ok(watcher)) => Ok(watcher),
        Ok(Err(error)) => Err(format!("cannot watch {shown}: {error}")),
        Err(why) => Err(format!("cannot watch {shown}: {why}")),
    }
}
