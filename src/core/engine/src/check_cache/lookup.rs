//! Finds the answer to a request.

use std::time::{Duration, Instant};

use parking_lot::lock_api::RawMutex;

use super::{CacheKeyRef, CachedAnswer, CheckCache, CheckCacheCounters, Miss, Shard};
use mixer_attribute::AttributeBag;

/// Look-ups after which the use counts of all shapes are halved.
const SHAPE_AGING_INTERVAL: u64 = 1 << 14;

impl<V: CachedAnswer, L: RawMutex> CheckCache<V, L> {
    /// Finds the answer to a request and passes it to `found` with its remaining validity. Records no references. `caller` is anything
    /// else that the answer depends on, for example how many global words the client knows. An answer that `found` cannot use is a miss.
    ///
    /// Errors: there is none; the value allows to store one.
    ///
    /// Cost: an uncontended lock, and for each shape up to the matching one a read of its attributes.
    pub fn find<R>(
        &self,
        bag: &AttributeBag<'_>,
        caller: u32,
        found: impl FnOnce(&V, Duration) -> Option<R>,
    ) -> Result<R, Miss> {
        let Some(shard) = self.shard() else { return Err(Miss(0)) };
        let mut shard = shard.lock();
        shard.begin_lookup(self.epoch.current());
        let answer = shard.find(bag, caller).and_then(|(answer, left)| found(answer, left));
        let what = if answer.is_some() { CheckCacheCounters::HITS } else { CheckCacheCounters::MISSES };
        self.counters.count(what);
        answer.ok_or(Miss(shard.lookups))
    }
}

impl<V: CachedAnswer> Shard<V> {
    /// Counts a look-up. Answers that were decided after an earlier one end if the epoch is another since.
    fn begin_lookup(&mut self, epoch: u64) {
        self.lookups = self.lookups.wrapping_add(1);
        if epoch != self.epoch {
            (self.epoch, self.valid_from) = (epoch, Miss(self.lookups));
        }
    }

    fn find(&mut self, bag: &AttributeBag<'_>, caller: u32) -> Option<(&V, Duration)> {
        if self.lookups.is_multiple_of(SHAPE_AGING_INTERVAL) {
            self.shapes.age();
        }
        let mut hit = None;
        for shape in self.shapes.iter_mut() {
            if !shape.key_of(bag, caller, &mut self.scratch) {
                continue;
            }
            let key = CacheKeyRef { shape: shape.id, values: &self.scratch };
            let Some(entry) = self.answers.get(&key) else { continue };
            let left = entry.expires.saturating_duration_since(Instant::now());
            if left.is_zero() || entry.miss < self.valid_from {
                let before = self.answers.weight();
                self.answers.remove(&key);
                self.counters.count_bytes(before, self.answers.weight());
                continue;
            }
            shape.count_use();
            hit = Some((shape.id, left));
            break;
        }
        let (shape, left) = hit?;
        let entry = self.answers.peek(&CacheKeyRef { shape, values: &self.scratch })?;
        Some((&entry.answer, left))
    }
}
