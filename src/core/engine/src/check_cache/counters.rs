//! Counters of check caches.

use mixer_base::shard::ShardedCounters;

/// Counters of all caches of a server. Exact: every look-up is a hit or a miss, and an answer that was written and neither evicted,
/// overwritten nor found expired is in the cache.
#[derive(Debug)]
pub struct CheckCacheCounters(ShardedCounters);

impl Default for CheckCacheCounters {
    fn default() -> Self {
        Self(ShardedCounters::new(4))
    }
}

impl CheckCacheCounters {
    pub(super) const HITS: usize = 0;
    pub(super) const MISSES: usize = 1;
    pub(super) const WRITES: usize = 2;
    pub(super) const EVICTIONS: usize = 3;

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

    pub(super) fn count(&self, what: usize) {
        self.0.add(what, 1);
    }
}
