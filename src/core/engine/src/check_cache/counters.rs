//! Counters of check caches.

use mixer_base::shard::ShardedCounters;

/// Counters of all caches of a server. Exact: every look-up is a hit or a miss, and an answer that was written and neither evicted,
/// overwritten nor found expired is in the cache.
#[derive(Debug)]
pub struct CheckCacheCounters(ShardedCounters);

impl Default for CheckCacheCounters {
    fn default() -> Self {
        Self(ShardedCounters::new(6))
    }
}

impl CheckCacheCounters {
    pub(super) const HITS: usize = 0;
    pub(super) const MISSES: usize = 1;
    pub(super) const WRITES: usize = 2;
    pub(super) const EVICTIONS: usize = 3;
    pub(super) const BYTES_ADDED: usize = 4;
    pub(super) const BYTES_REMOVED: usize = 5;

    /// Answers found.
    pub fn hits(&self) -> u64 {
        self.0.total(Self::HITS)
    }

    /// Answers not found or expired.
    pub fn misses(&self) -> u64 {
        self.0.total(Self::MISSES)
    }

    /// Answers written.
    pub fn writes(&self) -> u64 {
        self.0.total(Self::WRITES)
    }

    /// Answers evicted.
    pub fn evictions(&self) -> u64 {
        self.0.total(Self::EVICTIONS)
    }

    /// Memory of the answers in all caches, in bytes.
    pub fn bytes(&self) -> u64 {
        // Read in this order, so that the difference is not negative.
        let removed = self.0.total(Self::BYTES_REMOVED);
        self.0.total(Self::BYTES_ADDED).saturating_sub(removed)
    }

    /// Counts a change of the memory of a cache.
    pub(super) fn count_bytes(&self, before: u64, after: u64) {
        self.0.add(Self::BYTES_ADDED, after.saturating_sub(before));
        self.0.add(Self::BYTES_REMOVED, before.saturating_sub(after));
    }

    pub(super) fn count(&self, what: usize) {
        self.add(what, 1);
    }

    pub(super) fn add(&self, what: usize, count: u64) {
        self.0.add(what, count);
    }
}
