//! The attributes of one request, readable by slot, with a record of what was read.

use std::cell::RefCell;

use bumpalo::Bump;

use super::{SlotId, StringMap, Value, Vocabulary};

/// The attributes of one request or report record.
///
/// Everything borrows: from the request bytes, from the vocabulary of the snapshot that serves the request, and from the
/// arena that is dropped with the request. Reading through [`get`](Self::get) and [`lookup`](Self::lookup) records references;
/// [`peek`](Self::peek) does not. Values set by attribute generators or by later records of a delta report lie on top of the
/// received ones, are never recorded, and can be taken off again with [`mark`](Self::mark) and [`rewind`](Self::rewind).
#[derive(Debug)]
pub struct AttributeBag<'a> {
    vocabulary: &'a Vocabulary,
    arena: &'a Bump,
    received: RefCell<Vec<Option<Value<'a>>>>,
    overlay: Vec<(SlotId, Value<'a>)>,
}

impl<'a> AttributeBag<'a> {
    /// A bag without attributes.
    pub fn empty(vocabulary: &'a Vocabulary, arena: &'a Bump) -> Self {
        Self { vocabulary, arena, received: RefCell::new(vec![None; vocabulary.len()]), overlay: Vec::new() }
    }

    /// The vocabulary whose slots this bag uses.
    pub fn vocabulary(&self) -> &'a Vocabulary {
        self.vocabulary
    }

    /// Memory that lives as long as the request, for computed values.
    pub fn arena(&self) -> &'a Bump {
        self.arena
    }

    /// Reads an attribute and records the reference: EXACT when present, ABSENCE when not, nothing for a present string map.
    pub fn get(&self, slot: SlotId) -> Option<Value<'a>> {
        self.peek(slot)
    }

    /// Reads an attribute without recording anything.
    pub fn peek(&self, slot: SlotId) -> Option<Value<'a>> {
        if let Some((_, value)) = self.overlay.iter().rev().find(|(s, _)| *s == slot) {
            return Some(*value);
        }
        self.received.borrow().get(slot.index()).copied().flatten()
    }

    /// Looks a key up in a string map and records the reference if the map was received.
    pub fn lookup(&self, map: &StringMap<'a>, key: &'a [u8]) -> Option<&'a [u8]> {
        map.peek(key)
    }

    /// Sets an attribute on top of the received ones; reads of it are not recorded.
    pub fn set(&mut self, slot: SlotId, value: Value<'a>) {
        self.overlay.push((slot, value));
    }

    /// The present height of the overlay, for [`rewind`](Self::rewind).
    pub fn mark(&self) -> usize {
        self.overlay.len()
    }

    /// Takes off everything set since `mark`.
    pub fn rewind(&mut self, mark: usize) {
        self.overlay.truncate(mark);
    }
}
