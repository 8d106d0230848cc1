//! How all events are told of what happened until now.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How long an event may take at most.
const TELLING: Duration = Duration::from_secs(1);

/// A file that this program alone opens. Once the thread of file events tells of that, it has told of all that happened before.
pub(super) struct Fence {
    _file: OwnedFd,
    pub(super) path: PathBuf,
    /// How often it was opened.
    opened: u64,
    pub(super) told: Arc<(Mutex<u64>, Condvar)>,
}

impl Fence {
    /// `None` where the system has no such files.
    pub(super) fn new() -> Option<Self> {
        #[cfg(target_os = "linux")]
        {
            let file = rustix::fs::memfd_create("file-events", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
            let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            Some(Self { _file: file, path, opened: 0, told: Arc::default() })
        }
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Waits until all is told that happened before; false if that takes longer than [`TELLING`].
    pub(super) fn pass(&mut self) -> bool {
        let limit = Instant::now() + TELLING;
        // Two openings in succession would be told once.
        self.is_told(limit)
            && File::open(&self.path).is_ok_and(|_| {
                self.opened += 1;
                self.is_told(limit)
            })
    }

    fn is_told(&self, limit: Instant) -> bool {
        let (told, changed) = &*self.told;
        let mut told = told.lock();
        while *told < self.opened {
            if changed.wait_until(&mut told, limit).timed_out() {
                return *told >= self.opened;
            }
        }
        true
    }
}
