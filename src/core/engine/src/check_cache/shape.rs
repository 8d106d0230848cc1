//! Shapes of cached answers: the attributes and map keys that decided them.

use std::collections::VecDeque;

use mixer_attribute::{AttributeBag, Condition, Reference, SlotId, Value, append_key_bytes};

/// Most shapes of a shard that are kept by use. Configuration needs a handful; only a condition that looks up a key sent by the client
/// produces more.
pub(super) const MAX_PROVEN: usize = 32;
/// Most new shapes of a shard; the next one evicts the oldest.
pub(super) const MAX_NEW: usize = 32;
/// One attribute or map key that an answer depends on.
#[derive(Debug, PartialEq, Eq)]
struct ShapeTest {
    slot: SlotId,
    key: Option<Box<[u8]>>,
    present: bool,
}

/// The attributes that an answer depends on.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) id: u64,
    tests: Vec<ShapeTest>,
    /// Recent hits and repeated writes.
    uses: u32,
}

/// The shapes of a shard.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    pub(super) proven: Vec<Shape>,
    pub(super) new: VecDeque<Shape>,
    next_id: u64,
}

impl Shapes {
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Shape> {
        self.proven.iter_mut().chain(&mut self.new)
    }

    /// Halves the use of every shape.
    pub(super) fn age(&mut self) {
        self.iter_mut().for_each(|shape| shape.uses /= 2);
    }

    /// The shape of these references, inserted if it is new.
    pub(super) fn of(&mut self, references: &[Reference<'_>]) -> Option<&mut Shape> {
        let known = self.iter_mut().position(|shape| shape.is_of(references));
        if let Some(at) = known {
            let shape = self.iter_mut().nth(at)?;
            shape.count_use();
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

    /// Keeps a shape that is no longer new if it was used more than the least used one.
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

impl Shape {
    fn new(id: u64, references: &[Reference<'_>]) -> Self {
        let tests = references
            .iter()
            .map(|r| ShapeTest {
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

    /// Counts a use.
    pub(super) fn count_use(&mut self) {
        self.uses = self.uses.saturating_add(1);
    }

    /// Writes the cache key of a request to `out`; false if the request is not of this shape.
    pub(super) fn key_of(&self, bag: &AttributeBag<'_>, caller: u32, out: &mut Vec<u8>) -> bool {
        out.clear();
        out.extend_from_slice(&caller.to_le_bytes());
        self.tests.iter().all(|test| test.append_to(bag, out))
    }
}

impl ShapeTest {
    /// Appends the tested value; false if the test fails. An absent key requires the map to be present: an answer without any map was
    /// decided by the absence of the whole attribute. An attribute that cannot be read is not absent: no generator makes it.
    fn append_to(&self, bag: &AttributeBag<'_>, out: &mut Vec<u8>) -> bool {
        let found = bag.peek_received(self.slot);
        match (&self.key, found) {
            (None, None) => !self.present && !bag.has_received(self.slot),
            (None, Some(value)) => self.present && value.append_key(out),
            (Some(_), None) => false,
            (Some(key), Some(Value::StringMap(map))) => match map.peek(key) {
                Some(value) => {
                    append_key_bytes(value, out);
                    self.present
                }
                None => !self.present,
            },
            (Some(_), Some(_)) => false,
        }
    }
}
