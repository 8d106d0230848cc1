//! Flow-control credit that readers of request bodies return to their session.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

/// Shared by a session and its request bodies, which other threads may read.
#[derive(Debug, Default)]
pub(super) struct FlowControl {
    /// Received bytes that are not read yet.
    buffered: AtomicUsize,
    /// WINDOW_UPDATEs to send: stream and increment.
    updates: Mutex<Vec<(u32, usize)>>,
    has_updates: AtomicBool,
    /// The task of the connection.
    driver: AtomicWaker,
}

/// Unread body bytes beyond which the connection window is not replenished.
pub(super) const MAX_BUFFERED: usize = 4 << 20;

impl FlowControl {
    pub(super) fn add_buffered(&self, count: usize) {
        self.buffered.fetch_add(count, Ordering::Relaxed);
    }

    /// Whether the connection window may be replenished.
    pub(super) fn has_room(&self) -> bool {
        self.buffered.load(Ordering::Relaxed) < MAX_BUFFERED
    }

    /// Subtracts bytes that were read or discarded.
    pub(super) fn remove_buffered(&self, count: usize) {
        let before = self.buffered.fetch_sub(count, Ordering::Relaxed);
        if before >= MAX_BUFFERED && before - count < MAX_BUFFERED {
            self.driver.wake();
        }
    }

    /// Requests a WINDOW_UPDATE for a stream.
    pub(super) fn request_update(&self, stream: u32, count: usize) {
        self.updates.lock().push((stream, count));
        self.has_updates.store(true, Ordering::Release);
        self.driver.wake();
    }

    pub(super) fn take_updates(&self) -> Vec<(u32, usize)> {
        if !self.has_updates.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.updates.lock())
    }

    /// Registers the waker of the connection task.
    pub(super) fn register(&self, waker: &std::task::Waker) {
        self.driver.register(waker);
    }
}
