//! The server-side cache of check answers.
//!
//! An answer is kept under the attributes that decided it: a *shape* (which attributes and map keys, present or absent) and a *key*
//! (their values, typed and length-prefixed). A request finds an answer only if every reference of it holds. A cache belongs to one
//! routing table and goes with it, so no answer outlives the configuration that gave it.
//! This room never decides anything and never reads an attribute in a way that would be recorded.
//! Spec: runtime.md section 13.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Lifecycle, Weighter};

use crate::core::attribute::{AttributeBag, Condition, Reference, SlotId, Value};

/// Shapes that are kept. Configuration makes a handful; only a condition that looks up a key sent by the caller makes more.
const MAX_SHAPES: usize = 128;
/// Entries for which room is made at the start.
const EXPECTED_ENTRIES: usize = 1 << 14;

/// Bounds of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckCacheLimits {
    /// Most answers.
    pub entries: usize,
    /// Most memory for keys and answers, in bytes.
    pub bytes: u64,
}

/// What happened in a cache; survives the cache.
#[derive(Debug, Default)]
pub struct CheckCacheCounters {
    /// Answers found.
    pub hits: AtomicU64,
    /// Answers not found, or found too old.
    pub misses: AtomicU64,
    /// Answers kept.
    pub writes: AtomicU64,
    /// Answers pushed out by others.
    pub evictions: AtomicU64,
}

/// An answer that can be kept.
pub trait CachedAnswer: Clone {
    /// Its size in bytes.
    fn size(&self) -> usize;
}

/// Answers by what decided them.
pub struct CheckCache<V: CachedAnswer> {
    shapes: ArcSwap<Vec<Arc<Shape>>>,
    next_shape: AtomicU64,
    answers: Cache<Key, Entry<V>, Weight, foldhash::fast::RandomState, Counting>,
    counters: Arc<CheckCacheCounters>,
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
    hits: AtomicU64,
}

#[derive(Clone, PartialEq, Eq, Hash)]
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

#[derive(Clone)]
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
        self.counters.evictions.fetch_add(1, Ordering::Relaxed);
    }
}

impl<V: CachedAnswer> CheckCache<V> {
    /// An empty cache.
    pub fn new(limits: CheckCacheLimits, counters: Arc<CheckCacheCounters>) -> Self {
        let entries = limits.entries.max(1);
        let weight = Weight { least: (limits.bytes / entries as u64).max(1) };
        let answers = Cache::with(
            entries.min(EXPECTED_ENTRIES),
            limits.bytes,
            weight,
            foldhash::fast::RandomState::default(),
            Counting { counters: Arc::clone(&counters) },
        );
        Self { shapes: ArcSwap::default(), next_shape: AtomicU64::new(0), answers, counters }
    }

    /// Number of answers kept.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finds the answer to a request, and how long it still holds. Reads without recording. `caller` is whatever else the answer
    /// depends on, for example how many global words the caller knows.
    pub fn get(&self, bag: &AttributeBag<'_>, caller: u32, scratch: &mut Vec<u8>) -> Option<(V, Duration)> {
        for shape in self.shapes.load().iter() {
            if !shape.key_of(bag, caller, scratch) {
                continue;
            }
            let key = KeyRef { shape: shape.id, values: scratch };
            let Some(entry) = self.answers.get(&key) else { continue };
            let left = entry.expires.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.answers.remove(&key);
                continue;
            }
            shape.hits.fetch_add(1, Ordering::Relaxed);
            self.counters.hits.fetch_add(1, Ordering::Relaxed);
            return Some((entry.answer, left));
        }
        self.counters.misses.fetch_add(1, Ordering::Relaxed);
        None
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
        let shape = self.shape(references);
        let mut values = Vec::new();
        if !shape.key_of(bag, caller, &mut values) {
            return;
        }
        let key = Key { shape: shape.id, values: values.into() };
        self.answers.insert(key, Entry { expires, answer });
        self.counters.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// The shape of these references, made if it is new. When there are too many, the one that was of least use goes.
    fn shape(&self, references: &[Reference<'_>]) -> Arc<Shape> {
        if let Some(known) = self.shapes.load().iter().find(|s| s.is_of(references)) {
            return Arc::clone(known);
        }
        let made = Arc::new(Shape::new(self.next_shape.fetch_add(1, Ordering::Relaxed), references));
        self.shapes.rcu(|shapes| {
            let mut shapes = Vec::clone(shapes);
            if !shapes.iter().any(|s| s.is_of(references)) {
                if shapes.len() >= MAX_SHAPES {
                    let useless =
                        shapes.iter().enumerate().min_by_key(|(_, s)| s.hits.load(Ordering::Relaxed));
                    if let Some(at) = useless.map(|(at, _)| at) {
                        shapes.swap_remove(at);
                    }
                }
                shapes.push(Arc::clone(&made));
            }
            shapes
        });
        self.shapes.load().iter().find(|s| s.is_of(references)).map_or(made, Arc::clone)
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
        Self { id, tests, hits: AtomicU64::new(0) }
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
