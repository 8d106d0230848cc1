//! Bags of values that were received over another protocol.

use std::cell::Cell;

use bumpalo::Bump;

use super::AttributeBag;
use crate::wire::{AttributeEntry, Payload, TypedMap, Words};
use crate::{SlotId, Value, Vocabulary};

/// An attribute received over another protocol.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReceivedValue<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The slot; `None` for a name outside the vocabulary.
    pub slot: Option<SlotId>,
    /// The value. Look-ups in a string map are only recorded if its source is set to the slot.
    pub value: Value<'a>,
}

impl<'a> AttributeBag<'a> {
    /// A bag of these values; reads are recorded as for a received message. Names must be unique.
    ///
    /// Cost: linear; allocates in the arena only.
    pub fn of_received(values: &[ReceivedValue<'a>], vocabulary: &'a Vocabulary, arena: &'a Bump) -> Self {
        let mut bag = Self::empty(vocabulary, arena);
        let texts = arena.alloc_slice_fill_iter(values.iter().map(|received| received.name));
        bag.words = Words::of_names(texts);
        bag.entries =
            arena.alloc_slice_fill_iter(values.iter().enumerate().map(|(at, received)| AttributeEntry {
                // Word N has index !N. No message has enough words for an index that does not fit.
                index: i32::try_from(at).map_or(i32::MIN, |at| !at),
                field: TypedMap::of(&received.value),
                payload: Cell::new(Payload::Value(received.value)),
            }));
        for (at, received) in values.iter().enumerate() {
            if let Some(place) = received.slot.and_then(|slot| bag.places.get_mut(slot.index())) {
                *place = place.at(at, super::SlotPlace::NAMED);
            }
        }
        bag
    }
}
