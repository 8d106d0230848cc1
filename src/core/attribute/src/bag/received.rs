//! Bags of values that another protocol brought, decoded by whoever speaks it.

use std::cell::Cell;

use bumpalo::Bump;

use super::AttributeBag;
use crate::wire::{Entry, Field, Payload, Words};
use crate::{SlotId, Value, Vocabulary};

/// An attribute as another protocol brought it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReceivedValue<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its slot; `None` for a name that the vocabulary does not have.
    pub slot: Option<SlotId>,
    /// Its value. A string map of a slot names that slot as its source, or look-ups in it are not recorded.
    pub value: Value<'a>,
}

impl<'a> AttributeBag<'a> {
    /// A bag of these values; reads of them are recorded like reads of a received message. Names must differ from each other.
    ///
    /// Cost: linear in the values, memory from the arena alone.
    pub fn of_received(values: &[ReceivedValue<'a>], vocabulary: &'a Vocabulary, arena: &'a Bump) -> Self {
        let mut bag = Self::empty(vocabulary, arena);
        let texts = arena.alloc_slice_fill_iter(values.iter().map(|received| received.name));
        bag.words = Words::of_names(texts);
        bag.entries = arena.alloc_slice_fill_iter(values.iter().enumerate().map(|(at, received)| Entry {
            // Word N is the complement of N. Messages are far shorter than the indexes that would not fit.
            index: i32::try_from(at).map_or(i32::MIN, |at| !at),
            field: Field::of(&received.value),
            payload: Cell::new(Payload::Value(received.value)),
        }));
        for (at, received) in values.iter().enumerate() {
            if let Some(place) = received.slot.and_then(|slot| bag.places.get_mut(slot.index())) {
                *place = place.at(at, super::Place::NAMED);
            }
        }
        bag
    }
}
