//! Which worker gets the next connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A counter of connections. The model has one of its own.
pub(super) trait Counter: Default {
    /// The count.
    fn get(&self) -> usize;
    /// Adds 1 if the count is `seen`; false if it is not.
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

/// The number of connections of every worker.
pub(super) struct Balance<C: Counter = AtomicUsize> {
    counts: Arc<[C]>,
}

impl<C: Counter> Balance<C> {
    /// No connections on `workers` workers, at least one.
    pub(super) fn new(workers: usize) -> Self {
        Self { counts: (0..workers.max(1)).map(|_| C::default()).collect() }
    }

    /// Claims a place on the worker that has the fewest connections. Of claims at the same time, no two count on the same place.
    pub(super) fn claim(&self) -> Claim<C> {
        loop {
            let counts = self.counts.iter().map(C::get).enumerate();
            let (worker, seen) = counts.min_by_key(|(_, count)| *count).unwrap_or_default();
            if self.counts.get(worker).is_some_and(|count| count.try_increment(seen)) {
                return Claim { counts: Arc::clone(&self.counts), worker };
            }
        }
    }

    /// Connections of each worker.
    pub(super) fn counts(&self) -> Vec<usize> {
        self.counts.iter().map(C::get).collect()
    }
}

/// One connection in the count of its worker. Dropped with the connection, however that ends.
pub(super) struct Claim<C: Counter = AtomicUsize> {
    counts: Arc<[C]>,
    worker: usize,
}

impl<C: Counter> Claim<C> {
    /// The number of the worker.
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
