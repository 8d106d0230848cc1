//! Answers by the attributes that decided them.

use std::hash::BuildHasher as _;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use mixer_attribute::{OwnedAttributes, append_key_bytes};
use mixer_base::bounded::{Bounded, BoundedTable, Modified, WhenFull};
use mixer_wire::istio::mixer::v1::ReferencedAttributes;

use crate::shape::{Shape, Shapes};

/// Bounds of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLimits {
    /// Most answers; 0 disables the cache.
    pub entries: usize,
    /// Most memory for keys and answers, in bytes.
    pub bytes: usize,
}

/// How long and how often an answer may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// When it was asked for. Of two answers to one question, the later one stays.
    pub since: Instant,
    /// The last instant at which it may be used; `None` for no limit.
    pub expires: Option<Instant>,
    /// How often it may be used; `None` for no limit.
    pub uses: Option<u32>,
}

/// A value that can be cached. A clone shares it.
pub trait CachedValue: Clone {
    /// Its size on the heap, in bytes.
    fn heap_bytes(&self) -> usize;
}

#[derive(Debug)]
struct Entry<V> {
    key: Box<[u8]>,
    lifetime: Lifetime,
    value: V,
}

impl<V: CachedValue> Bounded for Entry<V> {
    fn heap_bytes(&self) -> usize {
        self.key.len() + self.value.heap_bytes()
    }
}

impl<V> Entry<V> {
    /// Counts a use. Returns whether there was one left.
    fn take(&mut self, now: Instant) -> bool {
        let Lifetime { expires, uses, .. } = &mut self.lifetime;
        if expires.is_some_and(|expires| now > expires) || *uses == Some(0) {
            return false;
        }
        if let Some(uses) = uses {
            *uses -= 1;
        }
        true
    }
}

/// Answers by the attributes that decided them.
///
/// The referenced attributes of an answer are its *shape*, their values in the request its *key*: typed, length-prefixed, and compared as
/// bytes, so that no collision of hashes can authorise a request; hashes are seeded. A request hits an answer if all conditions of the shape
/// hold, those of absence included, and all values are equal. `scope` is anything else that an answer belongs to, such as the name of a quota.
///
/// Bounded in entries and in bytes; the entry that was not used for the longest time leaves first.
/// Cost of a look-up: for each shape up to the matching one a read of its attributes; one hash. No allocation once the buffer has grown.
/// Spec: proxy.md, "Client caches"; attributes.md, "Consumers of references".
#[derive(Debug)]
pub struct DecisionCache<V: CachedValue> {
    shapes: Shapes,
    table: BoundedTable<Entry<V>>,
    entries: usize,
    /// Time without a use after which an entry expires, instead of its own lifetime.
    idle: Option<Duration>,
    hasher: RandomState,
    scratch: Vec<u8>,
}

impl<V: CachedValue> DecisionCache<V> {
    /// An empty cache.
    pub fn new(limits: CacheLimits) -> Self {
        Self {
            shapes: Shapes::default(),
            table: BoundedTable::new(limits.bytes, WhenFull::Evict),
            entries: limits.entries,
            idle: None,
            hasher: RandomState::default(),
            scratch: Vec::new(),
        }
    }

    /// With entries that expire when they are not used for so long.
    #[must_use]
    pub fn with_idle_expiry(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }

    /// The answer to a request; counts as a use of it. An answer that may not be used any more is removed.
    pub fn get(&mut self, scope: &[u8], attributes: &OwnedAttributes, now: Instant) -> Option<V> {
        for at in 0..self.shapes.len() {
            let Some((id, shape)) = self.shapes.get(at) else { break };
            begin_key(id, scope, &mut self.scratch);
            if !shape.append_key(attributes, &mut self.scratch) {
                continue;
            }
            let (key, idle) = (&self.scratch, self.idle);
            let hash = self.hasher.hash_one(&key[..]);
            let is_key = |entry: &Entry<V>| *entry.key == key[..];
            let found = self.table.modify(hash, is_key, 0, |entry| {
                if !entry.take(now) {
                    return (Modified::Removed, None);
                }
                if let Some(idle) = idle {
                    entry.lifetime.expires = now.checked_add(idle);
                }
                (Modified::Used, Some(entry.value.clone()))
            });
            if let Some(Some(value)) = found {
                self.shapes.use_at(at);
                return Some(value);
            }
        }
        None
    }

    /// Stores the answer to a request, unless a later one is stored. `global_words` is the number of global words that the request said to
    /// know. Returns whether it is stored: not if its references cannot be understood, or if it is too large.
    pub fn insert(
        &mut self,
        scope: &[u8],
        attributes: &OwnedAttributes,
        references: &ReferencedAttributes,
        global_words: usize,
        value: V,
        lifetime: Lifetime,
    ) -> bool {
        if self.entries == 0 || lifetime.uses == Some(0) {
            return false;
        }
        let Some(shape) = Shape::of(references, attributes, global_words) else { return false };
        let (id, shape) = self.shapes.learn(shape);
        begin_key(id, scope, &mut self.scratch);
        if !shape.append_key(attributes, &mut self.scratch) {
            return false;
        }
        let key = &self.scratch;
        let hash = self.hasher.hash_one(&key[..]);
        let is_key = |entry: &Entry<V>| *entry.key == key[..];
        if self.table.find(hash, is_key).is_some_and(|known| known.lifetime.since > lifetime.since) {
            return false;
        }
        self.table.remove(hash, is_key);
        while self.table.len() >= self.entries {
            self.table.evict_one(0);
        }
        let entry = Entry { key: key[..].into(), lifetime, value };
        let is_stored = self.table.insert(hash, entry, 0);
        if self.scratch.capacity() > MAX_SCRATCH {
            self.scratch = Vec::new();
        }
        is_stored
    }

    /// Number of answers, those that may not be used any more included.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no answers.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Memory of keys and answers, in bytes.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }
}

/// A larger buffer for keys is given back.
const MAX_SCRATCH: usize = 64 << 10;

fn begin_key(shape: u64, scope: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&shape.to_le_bytes());
    append_key_bytes(scope, out);
}
