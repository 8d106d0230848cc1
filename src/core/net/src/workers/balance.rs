//! Assigns new connections to workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A connection counter. The model has its own implementation.
pub(super) trait Counter: Default {
    /// The count.
    fn get(&self) -> usize;
    /// Adds 1 if the current count is `seen`; false otherwise.
    fn try_increment(&self, seen: usize) -> bool;
    /// Subtracts 1.
    fn decrement(&self);
}

impl Counter for AtomicUsize {
    fn get(&self) -> usize {
        self.load(Ordering::Relaxed)
    }

    fn try_increment(&self, seen: usize) -> bool {
        self.compare_exchange_weak(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn decrement(&self) {
        self.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The connection count of every worker.
pub(super) struct Balance<C: Counter = AtomicUsize> {
    counts: Arc<[C]>,
}

impl<C: Counter> Balance<C> {
    /// Counters for `workers` workers, at least one.
    pub(super) fn new(workers: usize) -> Self {
        Self { counts: (0..workers.max(1)).map(|_| C::default()).collect() }
    }

    /// Claims a slot on the worker with the fewest connections. Concurrent claims never get the same slot.
    pub(super) fn claim(&self) -> Claim<C> {
        loop {
            let counts = self.counts.iter().map(C::get).enumerate();
            let (worker, seen) = counts.min_by_key(|(_, count)| *count).unwrap_or_default();
            if self.counts.get(worker).is_some_and(|count| count.try_increment(seen)) {
                return Claim { counts: Arc::clone(&self.counts), worker };
            }
        }
    }

    /// Connections by worker.
    pub(super) fn counts(&self) -> Vec<usize> {
        self.counts.iter().map(C::get).collect()
    }
}

/// A connection counted for its worker; released on drop.
pub(super) struct Claim<C: Counter = AtomicUsize> {
    counts: Arc<[C]>,
    worker: usize,
}

impl<C: Counter> Claim<C> {
    /// The index of the worker.
    pub(super) fn worker(&self) -> usize {
        self.worker
    }
}

impl<C: Counter> Drop for Claim<C> {
    fn drop(&mut self) {
        if let Some(count) = self.counts.get(self.worker) {
            count.decrement();
        }
    }
}

#[cfg(test)]
mod model;
