//! The server-side cache of check answers.
//!
//! An answer is kept under the attributes that decided it: a *shape* (which attributes and map keys, present or absent) and a *key*
//! (their values, typed and length-prefixed). A request finds an answer only if every reference of it holds. Answers live no longer
//! than the configuration that gave them: who publishes another one that could decide otherwise makes another cache.
//!
//! Every worker has a shard of its own, so that none waits for another and all learn for themselves; the bounds are divided among
//! them. A caller who sends ever new values pushes out answers that were never asked for again before those that were. One who makes
//! ever new shapes gets at those that are in use only by using its own more often.
//! This room never decides anything and never reads an attribute in a way that would be recorded.
//! Spec: runtime.md section 13.

mod answer;

pub use answer::CheckAnswer;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::lock_api::{Mutex, RawMutex};
use quick_cache::unsync::Cache;
use quick_cache::{Equivalent, Lifecycle, Weighter};

use mixer_attribute::{AttributeBag, Condition, Reference, SlotId, Value};
use mixer_base::shard::{self, ShardedCounters};

/// Shapes that a shard keeps because they were of use. Configuration makes a handful; only a condition that looks up a key sent by
/// the caller makes more.
const MAX_PROVEN: usize = 32;
/// Shapes that a shard keeps because they are new; the oldest leaves for the next one.
const MAX_NEW: usize = 32;
/// Look-ups after which the use of every shape counts half.
const SHAPES_AGE: u32 = 1 << 14;
/// Entries of a shard for which room is made at the start.
const EXPECTED_ENTRIES: usize = 1 << 12;
/// Shards have at least so many entries.
const LEAST_ENTRIES: usize = 1 << 10;

/// Bounds of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckCacheLimits {
    /// Most answers.
    pub entries: usize,
    /// Most memory for keys and answers, in bytes.
    pub bytes: u64,
}

/// What happened in a cache; survives the cache. Exact: every look-up is a hit or a miss, and what was written and neither pushed
/// out, nor written again, nor found too old is there.
#[derive(Debug)]
pub struct CheckCacheCounters(ShardedCounters);

impl Default for CheckCacheCounters {
    fn default() -> Self {
        Self(ShardedCounters::new(4))
    }
}

impl CheckCacheCounters {
    const HITS: usize = 0;
    const MISSES: usize = 1;
    const WRITES: usize = 2;
    const EVICTIONS: usize = 3;

    /// Answers found.
    pub fn hits(&self) -> u64 {
        self.0.total(Self::HITS)
    }

    /// Answers not found, or found too old.
    pub fn misses(&self) -> u64 {
        self.0.total(Self::MISSES)
    }

    /// Answers kept.
    pub fn writes(&self) -> u64 {
        self.0.total(Self::WRITES)
    }

    /// Answers pushed out by others.
    pub fn evictions(&self) -> u64 {
        self.0.total(Self::EVICTIONS)
    }

    fn count(&self, what: usize) {
        self.0.add(what, 1);
    }
}

/// An answer that can be kept.
pub trait CachedAnswer {
    /// Its size in bytes.
    fn size(&self) -> usize;
}

/// Answers by what decided them.
///
/// The lock is a parameter so that the model of the cache can choose who gets it; everything else takes the default.
pub struct CheckCache<V: CachedAnswer, L: RawMutex = parking_lot::RawMutex> {
    shards: Box<[Aligned<V, L>]>,
    counters: Arc<CheckCacheCounters>,
}

/// Neighbouring cache lines are fetched in pairs.
#[repr(align(128))]
struct Aligned<V: CachedAnswer, L: RawMutex>(Mutex<L, Shard<V>>);

/// What one worker keeps.
struct Shard<V: CachedAnswer> {
    shapes: Shapes,
    lookups: u32,
    answers: Cache<Key, Entry<V>, Weight, foldhash::fast::RandomState, Counting>,
    scratch: Vec<u8>,
}

/// One attribute or map key that an answer depends on.
#[derive(Debug, PartialEq, Eq)]
struct Test {
    slot: SlotId,
    key: Option<Box<[u8]>>,
    present: bool,
}

/// The attributes that an answer depends on.
#[derive(Debug)]
struct Shape {
    id: u64,
    tests: Vec<Test>,
    /// How often an answer was found under it, or kept under it again, of late.
    uses: u32,
}

/// The shapes of a shard.
#[derive(Debug, Default)]
struct Shapes {
    proven: Vec<Shape>,
    new: VecDeque<Shape>,
    next_id: u64,
}

impl Shapes {
    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Shape> {
        self.proven.iter_mut().chain(&mut self.new)
    }

    /// The shape of these references, made if it is new.
    fn of(&mut self, references: &[Reference<'_>]) -> Option<&mut Shape> {
        let known = self.iter_mut().position(|shape| shape.is_of(references));
        if let Some(at) = known {
            let shape = self.iter_mut().nth(at)?;
            shape.uses = shape.uses.saturating_add(1);
            return Some(shape);
        }
        if self.new.len() >= MAX_NEW
            && let Some(oldest) = self.new.pop_front()
        {
            self.prove(oldest);
        }
        self.new.push_back(Shape::new(self.next_id, references));
        self.next_id += 1;
        self.new.back_mut()
    }

    /// Keeps a shape that is not new any more if it was of more use than another.
    fn prove(&mut self, shape: Shape) {
        if shape.uses == 0 {
            return;
        }
        if self.proven.len() < MAX_PROVEN {
            self.proven.push(shape);
        } else if let Some(least) = self.proven.iter_mut().min_by_key(|proven| proven.uses)
            && least.uses < shape.uses
        {
            *least = shape;
        }
    }
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    shape: u64,
    values: Box<[u8]>,
}

#[derive(Hash)]
struct KeyRef<'k> {
    shape: u64,
    values: &'k [u8],
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.shape == key.shape && *self.values == *key.values
    }
}

struct Entry<V> {
    expires: Instant,
    answer: V,
}

/// Weighs an entry so that both bounds hold: at least its share of the memory, and its size.
#[derive(Clone)]
struct Weight {
    least: u64,
}

impl<V: CachedAnswer> Weighter<Key, Entry<V>> for Weight {
    fn weight(&self, key: &Key, entry: &Entry<V>) -> u64 {
        let size = size_of::<Key>() + size_of::<Entry<V>>() + key.values.len() + entry.answer.size();
        self.least.max(size as u64)
    }
}

/// Counts what is pushed out.
#[derive(Clone)]
struct Counting {
    counters: Arc<CheckCacheCounters>,
}

impl<V> Lifecycle<Key, Entry<V>> for Counting {
    type RequestState = ();

    fn on_evict(&self, (): &mut Self::RequestState, _: Key, _: Entry<V>) {
        self.counters.count(CheckCacheCounters::EVICTIONS);
    }
}

impl<V: CachedAnswer, L: RawMutex> CheckCache<V, L> {
    /// An empty cache.
    pub fn new(limits: CheckCacheLimits, counters: Arc<CheckCacheCounters>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let count = (limits.entries / LEAST_ENTRIES).clamp(1, cores);
        let share = CheckCacheLimits { entries: limits.entries / count, bytes: limits.bytes / count as u64 };
        let shard = |_| Aligned(Mutex::new(Shard::new(share, Arc::clone(&counters))));
        Self { shards: (0..count).map(shard).collect(), counters }
    }

    /// Number of answers kept.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|Aligned(shard)| shard.lock().answers.len()).sum()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self) -> Option<&Mutex<L, Shard<V>>> {
        self.shards.get(shard::current() % self.shards.len()).map(|Aligned(shard)| shard)
    }

    /// Finds the answer to a request and gives it to `found`, with how long it still holds. Reads without recording. `caller` is
    /// whatever else the answer depends on, for example how many global words the caller knows.
    ///
    /// Cost: a lock that nobody else wants, and for each shape until the right one a look at the attributes that it names.
    pub fn find<R>(
        &self,
        bag: &AttributeBag<'_>,
        caller: u32,
        found: impl FnOnce(&V, Duration) -> R,
    ) -> Option<R> {
        let mut shard = self.shard()?.lock();
        let answer = shard.find(bag, caller);
        let what = if answer.is_some() { CheckCacheCounters::HITS } else { CheckCacheCounters::MISSES };
        self.counters.count(what);
        answer.map(|(answer, left)| found(answer, left))
    }

    /// Keeps an answer under the references that gave it. An answer that is not valid for any time is not kept.
    pub fn put(
        &self,
        bag: &AttributeBag<'_>,
        caller: u32,
        references: &[Reference<'_>],
        valid: Duration,
        answer: V,
    ) {
        if valid.is_zero() {
            return;
        }
        let Some(expires) = Instant::now().checked_add(valid) else { return };
        let Some(shard) = self.shard() else { return };
        if shard.lock().put(bag, caller, references, Entry { expires, answer }) {
            self.counters.count(CheckCacheCounters::WRITES);
        }
    }
}

impl<V: CachedAnswer> Shard<V> {
    fn new(limits: CheckCacheLimits, counters: Arc<CheckCacheCounters>) -> Self {
        let entries = limits.entries.max(1);
        let weight = Weight { least: (limits.bytes / entries as u64).max(1) };
        let answers = Cache::with(
            entries.min(EXPECTED_ENTRIES),
            limits.bytes,
            weight,
            foldhash::fast::RandomState::default(),
            Counting { counters },
        );
        Self { shapes: Shapes::default(), lookups: 0, answers, scratch: Vec::new() }
    }

    fn find(&mut self, bag: &AttributeBag<'_>, caller: u32) -> Option<(&V, Duration)> {
        self.lookups = self.lookups.wrapping_add(1);
        if self.lookups.is_multiple_of(SHAPES_AGE) {
            self.shapes.iter_mut().for_each(|shape| shape.uses /= 2);
        }
        let mut place = None;
        for shape in self.shapes.iter_mut() {
            if !shape.key_of(bag, caller, &mut self.scratch) {
                continue;
            }
            let key = KeyRef { shape: shape.id, values: &self.scratch };
            let Some(entry) = self.answers.get(&key) else { continue };
            let left = entry.expires.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.answers.remove(&key);
                continue;
            }
            shape.uses = shape.uses.saturating_add(1);
            place = Some((shape.id, left));
            break;
        }
        let (shape, left) = place?;
        let entry = self.answers.peek(&KeyRef { shape, values: &self.scratch })?;
        Some((&entry.answer, left))
    }

    /// Whether the answer was kept.
    fn put(
        &mut self,
        bag: &AttributeBag<'_>,
        caller: u32,
        references: &[Reference<'_>],
        entry: Entry<V>,
    ) -> bool {
        let mut values = Vec::new();
        let Some(shape) = self.shapes.of(references) else { return false };
        if !shape.key_of(bag, caller, &mut values) {
            return false;
        }
        let key = Key { shape: shape.id, values: values.into() };
        self.answers.insert(key, entry);
        true
    }
}

impl Shape {
    fn new(id: u64, references: &[Reference<'_>]) -> Self {
        let tests = references
            .iter()
            .map(|r| Test {
                slot: r.slot,
                key: r.key.map(Box::from),
                present: r.condition == Condition::Exact,
            })
            .collect();
        Self { id, tests, uses: 0 }
    }

    fn is_of(&self, references: &[Reference<'_>]) -> bool {
        self.tests.len() == references.len()
            && self.tests.iter().zip(references).all(|(t, r)| {
                t.slot == r.slot
                    && t.present == (r.condition == Condition::Exact)
                    && t.key.as_deref() == r.key
            })
    }

    /// Writes the key of a request to `out`; false if the request is not of this shape.
    fn key_of(&self, bag: &AttributeBag<'_>, caller: u32, out: &mut Vec<u8>) -> bool {
        out.clear();
        out.extend_from_slice(&caller.to_le_bytes());
        self.tests.iter().all(|test| test.append_to(bag, out))
    }
}

impl Test {
    /// Appends the tested value; false if the test fails. An absent key needs the map to be there: a result without any map was
    /// decided by the absence of the whole attribute.
    fn append_to(&self, bag: &AttributeBag<'_>, out: &mut Vec<u8>) -> bool {
        let found = bag.peek_received(self.slot);
        match (&self.key, found) {
            (None, None) => !self.present,
            (None, Some(value)) => self.present && append_value(value, out),
            (Some(_), None) => false,
            (Some(key), Some(Value::StringMap(map))) => match map.peek(key) {
                Some(value) => self.present && append_bytes(value, out),
                None => !self.present,
            },
            (Some(_), Some(_)) => false,
        }
    }
}

fn append_bytes(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
    true
}

/// Appends type and value; false for whole maps, which are not comparable.
fn append_value(value: Value<'_>, out: &mut Vec<u8>) -> bool {
    let mut tagged = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        append_bytes(bytes, out)
    };
    match value {
        Value::String(bytes) => tagged(1, bytes),
        Value::Int64(number) => tagged(2, &number.to_le_bytes()),
        Value::Double(number) => tagged(3, &number.to_bits().to_le_bytes()),
        Value::Bool(flag) => tagged(4, &[u8::from(flag)]),
        Value::Timestamp(instant) => tagged(5, &instant.unix_nanos().to_le_bytes()),
        Value::Duration(duration) => tagged(6, &duration.nanos.to_le_bytes()),
        Value::Bytes(bytes) => tagged(7, bytes),
        Value::StringMap(_) => false,
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
