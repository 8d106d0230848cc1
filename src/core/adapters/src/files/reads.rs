//! Operations on files that may never end.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout_at};

/// The operations of all handlers on files.
pub(crate) static PENDING_READS: LazyLock<PendingReads> = LazyLock::new(PendingReads::default);

/// Operations on files, each on a thread, at most one of a path: nothing cancels an operation on a file system that hangs, so that each
/// would hold a thread for good, and the threads of the process are bounded.
#[derive(Default)]
pub(crate) struct PendingReads(Mutex<HashMap<PathBuf, Weak<tokio::sync::Mutex<()>>>>);

/// Why an operation has no result.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It goes on.
    Late,
    /// It was not begun, because an earlier one on the path goes on.
    Busy,
    /// It panicked, or the process ends.
    Failed(JoinError),
}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unread::Late => f.write_str("no complete answer in time"),
            Unread::Busy => f.write_str("an earlier operation on the file has not ended"),
            Unread::Failed(error) => error.fmt(f),
        }
    }
}

impl PendingReads {
    /// Runs `operation` on `path` on a thread, once earlier ones of that path have ended. Waits for both up to `limit`.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        path: &Path,
        limit: Duration,
        operation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unread> {
        let due = Instant::now() + limit;
        let turn = timeout_at(due, self.turn(path).lock_owned()).await.map_err(|_| Unread::Busy)?;
        let operation = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            operation()
        });
        timeout_at(due, operation).await.map_err(|_| Unread::Late)?.map_err(Unread::Failed)
    }

    fn turn(&self, path: &Path) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lock();
        if let Some(turn) = turns.get(path).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(path.to_owned(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_file_that_hangs_holds_one_thread() {
        let reads = PendingReads::default();
        let begun = Arc::new(AtomicUsize::new(0));
        let (wake, asleep) = mpsc::channel::<()>();
        let asleep = Arc::new(Mutex::new(asleep));
        let path = Path::new("/hung/file");
        let read = |limit: Duration| {
            let (begun, asleep) = (Arc::clone(&begun), Arc::clone(&asleep));
            let hang = move || {
                begun.fetch_add(1, Ordering::Relaxed);
                asleep.lock().recv().unwrap();
            };
            reads.run(path, limit, hang)
        };
        assert!(matches!(read(Duration::from_millis(5)).await, Err(Unread::Late)));
        for _ in 0..20 {
            assert!(matches!(read(Duration::from_millis(5)).await, Err(Unread::Busy)));
        }
        // Other files are read.
        let minute = Duration::from_secs(60);
        assert!(reads.run(Path::new("/other/file"), minute, || ()).await.is_ok());
        assert!(begun.load(Ordering::Relaxed) <= 1);
        // The file system answers again: the first read ends, and the next begins.
        for _ in 0..2 {
            wake.send(()).unwrap();
        }
        assert!(read(minute).await.is_ok());
        assert_eq!(begun.load(Ordering::Relaxed), 2);
        // A turn is passed on a moment before the one who had it lets go of it.
        let held = || reads.0.lock().values().filter(|turn| turn.strong_count() > 0).count();
        let released = async {
            while held() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(tokio::time::timeout(minute, released).await.is_ok());
    }
}
