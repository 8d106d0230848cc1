//! What readers of request bodies return to their session: flow-control credit, and memory.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

/// Memory of a process for the requests of one connection.
pub trait MemoryAccount: std::fmt::Debug + Send + Sync {
    /// Acquires bytes. Returns false, and changes nothing, if there are none left.
    fn acquire(&self, bytes: usize) -> bool;

    /// Releases bytes.
    fn release(&self, bytes: usize);
}

/// An account without limit, for tests.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnlimitedMemory;

impl MemoryAccount for UnlimitedMemory {
    fn acquire(&self, _: usize) -> bool {
        true
    }

    fn release(&self, _: usize) {}
}

/// Bytes that a connection acquires from its account at once.
const GRAIN: usize = 4 << 10;
/// Bytes of requests that do not count in the account: a connection with one call at a time is served although others took all.
const FREE: usize = 16 << 10;

/// Shared by a session and its request bodies, which other threads may read.
#[derive(Debug)]
pub(super) struct FlowControl {
    /// Received bytes that are not read yet.
    buffered: AtomicUsize,
    /// WINDOW_UPDATEs to send: stream and increment.
    updates: Mutex<Vec<(u32, usize)>>,
    has_updates: AtomicBool,
    /// The task of the connection.
    driver: AtomicWaker,
    held: Mutex<Held>,
    /// Most bytes of requests in memory.
    max_request_bytes: usize,
    account: Box<dyn MemoryAccount>,
}

/// Memory of requests.
#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    /// Taken from the account: `bytes` without those that are free, in grains.
    acquired: usize,
}

/// Unread body bytes beyond which the connection window is not replenished.
pub(super) const MAX_BUFFERED: usize = 4 << 20;

impl FlowControl {
    pub(super) fn new(max_request_bytes: usize, account: Box<dyn MemoryAccount>) -> Self {
        Self {
            buffered: AtomicUsize::default(),
            updates: Mutex::default(),
            has_updates: AtomicBool::default(),
            driver: AtomicWaker::new(),
            held: Mutex::default(),
            max_request_bytes,
            account,
        }
    }

    /// Counts bytes of a request. Returns false, and counts nothing, beyond the limit of the connection or of its account.
    pub(super) fn hold(&self, count: usize) -> bool {
        let mut held = self.held.lock();
        let bytes = held.bytes.saturating_add(count);
        let needed = in_grains(bytes);
        if bytes > self.max_request_bytes
            || needed > held.acquired && !self.account.acquire(needed - held.acquired)
        {
            return false;
        }
        *held = Held { bytes, acquired: needed.max(held.acquired) };
        true
    }

    /// Returns bytes that [`hold`](Self::hold) counted.
    pub(super) fn release(&self, count: usize) {
        let mut held = self.held.lock();
        held.bytes = held.bytes.saturating_sub(count);
        let needed = in_grains(held.bytes);
        if held.acquired > needed {
            self.account.release(held.acquired - needed);
            held.acquired = needed;
        }
    }

    /// Acquires bytes for what the connection keeps besides requests. Returns false, and changes nothing, if its account has none left.
    pub(super) fn keep(&self, count: usize) -> bool {
        self.account.acquire(count)
    }

    /// Returns bytes that [`keep`](Self::keep) acquired.
    pub(super) fn give_up(&self, count: usize) {
        self.account.release(count);
    }

    /// Bytes of requests in memory.
    pub(super) fn held(&self) -> usize {
        self.held.lock().bytes
    }

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

impl Drop for FlowControl {
    fn drop(&mut self) {
        let acquired = self.held.get_mut().acquired;
        if acquired > 0 {
            self.account.release(acquired);
        }
    }
}

/// What `bytes` take from the account.
fn in_grains(bytes: usize) -> usize {
    bytes.saturating_sub(FREE).div_ceil(GRAIN) * GRAIN
}
