//! What readers of bodies give back: room in windows.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

/// Shared by a session and the bodies of its requests, which other threads may read.
#[derive(Debug, Default)]
pub(super) struct Credit {
    /// Bytes that arrived and nobody read.
    buffered: AtomicUsize,
    /// Streams whose windows should be opened, with how much.
    opened: Mutex<Vec<(u32, usize)>>,
    any_opened: std::sync::atomic::AtomicBool,
    /// Whoever drives the connection.
    driver: AtomicWaker,
}

/// Bytes of bodies that may wait to be read; while there are more, the window of the connection stays as it is.
pub(super) const MAX_BUFFERED: usize = 4 << 20;

impl Credit {
    pub(super) fn buffer(&self, count: usize) {
        self.buffered.fetch_add(count, Ordering::Relaxed);
    }

    /// Whether the connection may send on.
    pub(super) fn has_room(&self) -> bool {
        self.buffered.load(Ordering::Relaxed) < MAX_BUFFERED
    }

    /// Bytes were read or thrown away.
    pub(super) fn take(&self, count: usize) {
        let before = self.buffered.fetch_sub(count, Ordering::Relaxed);
        if before >= MAX_BUFFERED && before - count < MAX_BUFFERED {
            self.driver.wake();
        }
    }

    /// The window of a stream should be opened.
    pub(super) fn open(&self, stream: u32, count: usize) {
        self.opened.lock().push((stream, count));
        self.any_opened.store(true, Ordering::Release);
        self.driver.wake();
    }

    pub(super) fn take_opened(&self) -> Vec<(u32, usize)> {
        if !self.any_opened.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.opened.lock())
    }

    /// Who is woken when there is something to send.
    pub(super) fn register(&self, waker: &std::task::Waker) {
        self.driver.register(waker);
    }
}
