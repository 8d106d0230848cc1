//! The server-side cache of check answers.
//!
//! An answer is stored under the attributes that decided it: a *shape* (which attributes and map keys, present or absent) and a *key*
//! (their values, typed and length-prefixed). A request hits an answer only if all of its references match. A configuration that could
//! decide differently is published with a new cache. A handler whose answers change without one, such as a list, advances the
//! [`AnswerEpoch`]: what was decided before is no longer found, and leaves as expired answers do.
//!
//! Every worker has its own shard, so no worker waits for another; the bounds are divided among the shards. Answers that were never
//! hit are evicted before those that were, and shapes are evicted by frequency: a flood of new values or shapes does not displace
//! those in use. Look-ups record no attribute references.

mod answer;
mod counters;
mod epoch;
mod insertion;
mod lookup;
mod shape;

pub use answer::CheckAnswer;
pub use counters::CheckCacheCounters;
pub use epoch::AnswerEpoch;

use std::sync::Arc;
use std::time::Instant;

use parking_lot::lock_api::{Mutex, RawMutex};
use quick_cache::unsync::Cache;
use quick_cache::{Equivalent, Lifecycle, Weighter};

use self::shape::Shapes;
use mixer_base::shard;

/// Most entries for which a shard reserves room at its creation.
const EXPECTED_ENTRIES: usize = 1 << 12;
/// Bytes of the table for an entry besides the entry itself. The table doubles when it is full: half of an entry is spare on average.
const SLOT_BYTES: usize = 32;
/// What the allocator adds to an allocation, in bytes.
const ALLOCATION_BYTES: usize = 16;
/// Fewest entries of a shard.
const MIN_SHARD_ENTRIES: usize = 1 << 10;

/// Bounds of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckCacheLimits {
    /// Most answers.
    pub entries: usize,
    /// Most memory for keys and answers, in bytes.
    pub bytes: u64,
}

/// An answer that can be cached.
pub trait CachedAnswer {
    /// Its size on the heap, in bytes, with what the allocator adds.
    fn size(&self) -> usize;
}

/// A look-up that found no answer. What is decided after it may be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Miss(u64);

/// Answers by the attributes that decided them.
///
/// The lock type is a parameter so that the model of the cache can schedule it; all other code uses the default.
pub struct CheckCache<V: CachedAnswer, L: RawMutex = parking_lot::RawMutex> {
    shards: Box<[AlignedShard<V, L>]>,
    counters: Arc<CheckCacheCounters>,
    epoch: Arc<AnswerEpoch>,
}

/// Aligned to two cache lines, because neighbouring lines are fetched in pairs.
#[repr(align(128))]
struct AlignedShard<V: CachedAnswer, L: RawMutex>(Mutex<L, Shard<V>>);

/// The cache of one worker.
struct Shard<V: CachedAnswer> {
    shapes: Shapes,
    /// The number of look-ups: the time of the shard.
    lookups: u64,
    /// The epoch of the last look-up, and the first look-up of that epoch: what was decided before it has ended.
    epoch: u64,
    valid_from: Miss,
    answers: Cache<CacheKey, CacheEntry<V>, EntryWeigher, foldhash::fast::RandomState, RemovalCounter>,
    scratch: Vec<u8>,
    counters: Arc<CheckCacheCounters>,
}

#[derive(PartialEq, Eq, Hash)]
struct CacheKey {
    shape: u64,
    values: Box<[u8]>,
}

#[derive(Hash)]
struct CacheKeyRef<'k> {
    shape: u64,
    values: &'k [u8],
}

impl Equivalent<CacheKey> for CacheKeyRef<'_> {
    fn equivalent(&self, key: &CacheKey) -> bool {
        self.shape == key.shape && *self.values == *key.values
    }
}

struct CacheEntry<V> {
    expires: Instant,
    /// The look-up after which it was decided.
    miss: Miss,
    answer: V,
}

/// Weighs an entry by its size, at least `bytes / entries` of the limits: so both bounds hold.
#[derive(Clone)]
struct EntryWeigher {
    min: u64,
}

impl<V: CachedAnswer> Weighter<CacheKey, CacheEntry<V>> for EntryWeigher {
    fn weight(&self, key: &CacheKey, entry: &CacheEntry<V>) -> u64 {
        let slot = size_of::<CacheKey>() + size_of::<CacheEntry<V>>() + SLOT_BYTES;
        let size = slot + slot / 2 + key.values.len() + ALLOCATION_BYTES + entry.answer.size();
        self.min.max(size as u64)
    }
}

/// Counts the entries that an insertion removes: those that it evicts, and the one that it replaces.
#[derive(Clone)]
struct RemovalCounter;

impl<V> Lifecycle<CacheKey, CacheEntry<V>> for RemovalCounter {
    type RequestState = u64;

    fn on_evict(&self, removed: &mut Self::RequestState, _: CacheKey, _: CacheEntry<V>) {
        *removed += 1;
    }
}

impl<V: CachedAnswer, L: RawMutex> CheckCache<V, L> {
    /// An empty cache. All of its answers end when `epoch` advances.
    pub fn new(limits: CheckCacheLimits, counters: Arc<CheckCacheCounters>, epoch: Arc<AnswerEpoch>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let count = (limits.entries / MIN_SHARD_ENTRIES).clamp(1, cores);
        let share = CheckCacheLimits { entries: limits.entries / count, bytes: limits.bytes / count as u64 };
        let shard = |_| AlignedShard(Mutex::new(Shard::new(share, Arc::clone(&counters))));
        Self { shards: (0..count).map(shard).collect(), counters, epoch }
    }

    /// Number of cached answers.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|AlignedShard(shard)| shard.lock().answers.len()).sum()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self) -> Option<&Mutex<L, Shard<V>>> {
        self.shards.get(shard::current() % self.shards.len()).map(|AlignedShard(shard)| shard)
    }
}

impl<V: CachedAnswer, L: RawMutex> Drop for CheckCache<V, L> {
    fn drop(&mut self) {
        for AlignedShard(shard) in &mut self.shards {
            self.counters.count_bytes(shard.get_mut().answers.weight(), 0);
        }
    }
}

impl<V: CachedAnswer> Shard<V> {
    fn new(limits: CheckCacheLimits, counters: Arc<CheckCacheCounters>) -> Self {
        let entries = limits.entries.max(1);
        let weigher = EntryWeigher { min: (limits.bytes / entries as u64).max(1) };
        let answers = Cache::with(
            entries.min(EXPECTED_ENTRIES),
            limits.bytes,
            weigher,
            foldhash::fast::RandomState::default(),
            RemovalCounter,
        );
        let (shapes, scratch) = (Shapes::default(), Vec::new());
        Self { shapes, lookups: 0, epoch: 0, valid_from: Miss(0), answers, scratch, counters }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
