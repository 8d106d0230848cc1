//! How much memory the objects of a cluster take.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes of what refused objects share with others, after which it is dropped unless others have it.
pub(super) const MAX_REFUSED: usize = 1 << 20;

/// The bytes of everything that is known of one cluster, within a bound. One task a kind of objects counts.
#[derive(Debug)]
pub(super) struct Budget {
    used: AtomicUsize,
    most: usize,
    /// Whether something was left out and logged since it was made.
    is_logged: AtomicBool,
}

impl Budget {
    /// At most so many bytes.
    pub(super) fn of(most: usize) -> Self {
        Self { used: AtomicUsize::new(0), most, is_logged: AtomicBool::new(false) }
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether an eighth of all bytes is free: what was left out may have room.
    pub(super) fn has_room(&self) -> bool {
        self.used() <= self.most - self.most / 8
    }

    /// Takes so many bytes. Returns whether there are so many.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        let fits = used.saturating_add(bytes) <= self.most;
        if !fits {
            self.give(bytes);
            if !self.is_logged.swap(true, Ordering::Relaxed) {
                let most = self.most >> 20;
                tracing::error!(
                    target: "adapters",
                    "maxCacheMegabytes is too small for the objects of a cluster: {most}; calls about what is left out fail"
                );
            }
        }
        fits
    }

    /// Takes so many bytes, also if there are not so many.
    pub(super) fn charge(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives them back.
    pub(super) fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
