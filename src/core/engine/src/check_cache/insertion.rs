//! Stores an answer.

use std::time::{Duration, Instant};

use parking_lot::lock_api::RawMutex;

use super::{CacheEntry, CacheKey, CachedAnswer, CheckCache, CheckCacheCounters, Miss, Shard};
use mixer_attribute::{AttributeBag, Reference};

impl<V: CachedAnswer, L: RawMutex> CheckCache<V, L> {
    /// Stores an answer under its references, which was decided after `miss`. An answer with zero validity is not stored, and none
    /// replaces one that was decided after a later look-up: calls that wait for handlers may end in another order than they began.
    pub fn put(
        &self,
        bag: &AttributeBag<'_>,
        caller: u32,
        miss: Miss,
        references: &[Reference<'_>],
        valid: Duration,
        answer: V,
    ) {
        if valid.is_zero() {
            return;
        }
        let Some(expires) = Instant::now().checked_add(valid) else { return };
        let Some(shard) = self.shard() else { return };
        let mut shard = shard.lock();
        let before = shard.answers.weight();
        if shard.put(bag, caller, references, CacheEntry { expires, miss, answer }) {
            self.counters.count(CheckCacheCounters::WRITES);
            self.counters.count_bytes(before, shard.answers.weight());
        }
    }
}

impl<V: CachedAnswer> Shard<V> {
    /// Returns whether the answer was stored.
    fn put(
        &mut self,
        bag: &AttributeBag<'_>,
        caller: u32,
        references: &[Reference<'_>],
        entry: CacheEntry<V>,
    ) -> bool {
        let mut values = Vec::new();
        let Some(shape) = self.shapes.of(references) else { return false };
        if !shape.key_of(bag, caller, &mut values) {
            return false;
        }
        let key = CacheKey { shape: shape.id, values: values.into() };
        let known = self.answers.peek(&key).map(|known| known.miss);
        if known.is_some_and(|known| known > entry.miss) {
            return false;
        }
        let mut removed = 0;
        self.answers.insert_with_lifecycle(key, entry, &mut removed);
        self.counters.add(CheckCacheCounters::EVICTIONS, removed.saturating_sub(known.is_some().into()));
        true
    }
}
