//! How all events are told of what happened until now.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::{Condvar, Mutex};

/// How long an event may take at most.
const TELLING: Duration = Duration::from_secs(1);

/// What the thread of file events tells of the fence.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The path of the fence, and how often it was opened.
    state: Mutex<(PathBuf, u64)>,
    changed: Condvar,
}

impl Told {
    /// Notes that a file was opened; whether it is the fence.
    pub(super) fn tell(&self, path: &Path) -> bool {
        let mut state = self.state.lock();
        let is_fence = state.0 == path;
        if is_fence {
            state.1 += 1;
            self.changed.notify_all();
        }
        is_fence
    }
}

/// A file that this program alone opens. Once the thread of file events tells of that, it has told of all that happened before.
pub(super) struct Fence {
    _file: OwnedFd,
    path: PathBuf,
    /// How often it was opened.
    pub(super) opened: u64,
    told: Arc<Told>,
}

impl Fence {
    /// `None` where the system has no such files, or the file cannot be watched.
    pub(super) fn new(watcher: &mut RecommendedWatcher, told: Arc<Told>) -> Option<Self> {
        #[cfg(target_os = "linux")]
        {
            let file = rustix::fs::memfd_create("file-events", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
            let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            *told.state.lock() = (path.clone(), 0);
            watcher.watch(&path, RecursiveMode::NonRecursive).ok()?;
            Some(Self { _file: file, path, opened: 0, told })
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (watcher, told);
            None
        }
    }

    /// Another one, of which nothing was lost yet. This one has another path as long as it is open.
    pub(super) fn renewed(&self, watcher: &mut RecommendedWatcher) -> Option<Self> {
        let next = Self::new(watcher, Arc::clone(&self.told));
        _ = watcher.unwatch(&self.path);
        next
    }

    /// Waits until all is told that happened before; false if that takes longer than [`TELLING`].
    pub(super) fn pass(&mut self) -> bool {
        let limit = Instant::now() + TELLING;
        File::open(&self.path).is_ok_and(|_| {
            self.opened += 1;
            self.is_told(limit)
        })
    }

    fn is_told(&self, limit: Instant) -> bool {
        let mut state = self.told.state.lock();
        while state.1 < self.opened {
            if self.told.changed.wait_until(&mut state, limit).timed_out() {
                return state.1 >= self.opened;
            }
        }
        true
    }
}
