//! The attributes of one request, read by slot, and the record of what was read.

mod bits;
mod names;
mod received;
mod references;
mod search;
mod strict;

use std::cell::Cell;

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;

use self::references::References;
use self::search::TextBudget;
use super::wire::{AttributeEntry, CompressedAttributes, DecodeError, Payload, RawMap, Words, text_len};
use super::{SlotId, StringMap, Value, Vocabulary};

pub use names::NamedValue;
pub use received::ReceivedValue;
pub use references::{Condition, Reads, Reference, ReferenceMark};
pub use strict::StrictError;

/// The attributes of one request or report record.
///
/// Everything borrows: from the request bytes, from the vocabulary of the snapshot that serves the request, and from the
/// arena of the request. Reading through [`get`](Self::get) and [`lookup`](Self::lookup) records references;
/// [`peek`](Self::peek) does not. An attribute that a generator [made](Self::generate) is recorded as absent, which the received one was.
/// Values that were [set](Self::set), and those of later records of a delta report, override the received ones and are never recorded;
/// [`mark`](Self::mark) and [`rewind`](Self::rewind) undo the former.
///
/// Dictionary indexes are resolved when an attribute is first read; an invalid index makes its attribute absent and
/// affects no other.
pub struct AttributeBag<'a> {
    vocabulary: &'a Vocabulary,
    words: Words<'a>,
    entries: &'a [AttributeEntry<'a>],
    /// By slot: the location of its value.
    places: &'a mut [SlotPlace],
    /// Values of later records of a delta report, by name, also of names without a slot.
    delta: ArenaVec<'a, (&'a [u8], Value<'a>)>,
    overlay: ArenaVec<'a, Overlaid<'a>>,
    /// The outputs that expressions read now, by position.
    outputs: Cell<&'a [Option<Value<'a>>]>,
    references: References<'a>,
    texts: TextBudget,
}

/// A value that the request did not carry.
#[derive(Debug)]
struct Overlaid<'a> {
    slot: SlotId,
    value: Value<'a>,
    origin: Origin,
    is_read: Cell<bool>,
}

/// What a value that the request did not carry is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// It replaces the received one.
    Set,
    /// A generator made it, because none was received.
    Generated,
    /// A generator made it in vain: the received one counts.
    Declined,
}

impl<'a> Overlaid<'a> {
    fn new(slot: SlotId, value: Value<'a>, origin: Origin) -> Self {
        Self { slot, value, origin, is_read: Cell::new(false) }
    }

    /// Whether it was generated and read.
    fn is_generated_read(&self) -> bool {
        self.origin == Origin::Generated && self.is_read.get()
    }
}

/// The location of the value of a slot: 0 for none, else one more than an index, with two flags.
#[derive(Debug, Clone, Copy, Default)]
struct SlotPlace(u32);

impl SlotPlace {
    /// The index points into `delta`, not into `entries`.
    const DELTA: u32 = 1 << 30;
    /// A message word names this attribute: entries under its global index are ignored.
    const NAMED: u32 = 1 << 31;
    const INDEX: u32 = Self::DELTA - 1;

    fn index(self) -> Option<usize> {
        (self.0 & Self::INDEX).checked_sub(1).map(|index| index as usize)
    }

    fn is_delta(self) -> bool {
        self.0 & Self::DELTA != 0
    }

    fn is_named(self) -> bool {
        self.0 & Self::NAMED != 0
    }

    /// The same attribute at another index. No message has enough entries for an index that does not fit.
    fn at(self, index: usize, flag: u32) -> SlotPlace {
        match u32::try_from(index + 1) {
            Ok(index) if index <= Self::INDEX => SlotPlace(self.0 & Self::NAMED | flag | index),
            _ => self,
        }
    }
}

impl<'a> AttributeBag<'a> {
    /// A bag without attributes.
    pub fn empty(vocabulary: &'a Vocabulary, arena: &'a Bump) -> Self {
        Self {
            vocabulary,
            words: Words::none(),
            entries: &[],
            places: arena.alloc_slice_fill_copy(vocabulary.len(), SlotPlace::default()),
            delta: ArenaVec::new_in(arena),
            overlay: ArenaVec::new_in(arena),
            outputs: Cell::new(&[]),
            references: References::new(vocabulary.len(), arena),
            texts: TextBudget::new(Self::SEARCH_LIMIT),
        }
    }

    /// Decodes an encoded CompressedAttributes. A message without words uses `default_words`.
    ///
    /// Errors: invalid protobuf. Invalid dictionary indexes are no error.
    pub fn decode(
        body: &'a [u8],
        default_words: Option<Words<'a>>,
        vocabulary: &'a Vocabulary,
        arena: &'a Bump,
    ) -> Result<Self, DecodeError> {
        Ok(Self::new(&CompressedAttributes::decode(body, arena)?, default_words, vocabulary, arena))
    }

    /// A bag of decoded attributes. A message without words uses `default_words`.
    pub fn new(
        attributes: &CompressedAttributes<'a>,
        default_words: Option<Words<'a>>,
        vocabulary: &'a Vocabulary,
        arena: &'a Bump,
    ) -> Self {
        let mut bag = Self::empty(vocabulary, arena);
        bag.fill(attributes, default_words);
        bag
    }

    /// Clears all values and references and fills the bag with other attributes, as [`new`](Self::new) does.
    pub fn replace(&mut self, attributes: &CompressedAttributes<'a>, default_words: Option<Words<'a>>) {
        self.places.fill(SlotPlace::default());
        self.delta.clear();
        self.overlay.clear();
        self.outputs.set(&[]);
        self.references.clear();
        self.texts.renew();
        self.fill(attributes, default_words);
    }

    fn fill(&mut self, attributes: &CompressedAttributes<'a>, default_words: Option<Words<'a>>) {
        self.words = self.words_of(attributes, default_words);
        self.entries = attributes.entries;
        for slot in self.words.named() {
            if let Some(place) = self.places.get_mut(slot.index()) {
                place.0 = SlotPlace::NAMED;
            }
        }
        for (i, entry) in self.entries.iter().enumerate() {
            let Some(place) = self
                .words
                .slot(entry.index, self.vocabulary)
                .and_then(|slot| self.places.get_mut(slot.index()))
            else {
                continue;
            };
            if entry.index >= 0 && place.is_named() {
                continue;
            }
            // Within one typed map the last entry wins, across maps the one of the lowest rank.
            let earlier = place.index().and_then(|earlier| self.entries.get(earlier));
            if earlier.is_none_or(|earlier| earlier.field.rank() >= entry.field.rank()) {
                *place = place.at(i, 0);
            }
        }
    }

    fn words_of(&self, attributes: &CompressedAttributes<'a>, default_words: Option<Words<'a>>) -> Words<'a> {
        match default_words {
            Some(words) if attributes.words.is_empty() => words,
            _ => Words::new(attributes.words, self.vocabulary, self.arena()),
        }
    }

    /// The vocabulary whose slots this bag uses.
    pub fn vocabulary(&self) -> &'a Vocabulary {
        self.vocabulary
    }

    /// The arena of the request, for computed values.
    pub fn arena(&self) -> &'a Bump {
        self.delta.bump()
    }

    /// Reads an attribute and records the reference: EXACT if it was received, ABSENCE if not, nothing for a received string map.
    #[inline]
    pub fn get(&self, slot: SlotId) -> Option<Value<'a>> {
        if let Some(overlaid) = self.overlaid(slot) {
            overlaid.is_read.set(true);
            return Some(overlaid.value);
        }
        let value = match self.place(slot) {
            Some((place, index)) if place.is_delta() => {
                return self.delta.get(index).map(|(_, value)| *value);
            }
            Some((_, index)) => self.received(index, slot),
            None => match slot.output_position() {
                Some(position) => return self.outputs.get().get(position).copied().flatten(),
                None => None,
            },
        };
        if matches!(value, Some(Value::StringMap(_))) {
            self.references.map_read(slot);
        } else {
            self.references.read(slot);
        }
        value
    }

    /// Reads an attribute without recording a reference.
    pub fn peek(&self, slot: SlotId) -> Option<Value<'a>> {
        if let Some(overlaid) = self.overlaid(slot) {
            return Some(overlaid.value);
        }
        match self.place(slot) {
            Some((place, index)) if place.is_delta() => self.delta.get(index).map(|(_, value)| *value),
            Some((_, index)) => self.received(index, slot),
            None => self.outputs.get().get(slot.output_position()?).copied().flatten(),
        }
    }

    /// Sets the outputs of adapters that expressions read, by [position](SlotId::of_output); reads of them are not recorded. Returns
    /// those before.
    pub fn set_outputs(&self, outputs: &'a [Option<Value<'a>>]) -> &'a [Option<Value<'a>>] {
        self.outputs.replace(outputs)
    }

    /// Reads the received value of an attribute, ignoring values set on top, without recording a reference: the value that a
    /// recorded reference refers to.
    pub fn peek_received(&self, slot: SlotId) -> Option<Value<'a>> {
        match self.place(slot)? {
            (place, _) if place.is_delta() => None,
            (_, index) => self.received(index, slot),
        }
    }

    /// Whether the bag has the attribute, even with an invalid index. Records no reference.
    pub fn contains(&self, slot: SlotId) -> bool {
        self.overlaid(slot).is_some() || self.has_received(slot)
    }

    /// Whether the attribute was received, even with an invalid index: then no generator makes it. Records no reference.
    pub fn has_received(&self, slot: SlotId) -> bool {
        self.place(slot).is_some()
    }

    /// The bytes of the texts of all received attributes of the vocabulary. Cost: linear in the vocabulary and in the entries of string maps.
    pub fn text_len(&self) -> usize {
        let len = |place: &SlotPlace| match place.index() {
            None => 0,
            Some(index) if place.is_delta() => self.delta.get(index).map_or(0, |(_, value)| value.text_len()),
            Some(index) => {
                let entry = self.entries.get(index);
                entry.map_or(0, |entry| text_len(entry.payload.get(), self.words.texts()))
            }
        };
        self.places.iter().map(len).sum()
    }

    /// Looks a key up in a string map and records the reference if the map was received.
    pub fn lookup(&self, map: &StringMap<'a>, key: &'a [u8]) -> Option<&'a [u8]> {
        let value = map.peek(key);
        if let Some(slot) = map.source {
            self.references.looked_up(slot, key, value.is_some());
        }
        value
    }

    /// Overrides an attribute; reads of it are not recorded.
    pub fn set(&mut self, slot: SlotId, value: Value<'a>) {
        self.overlay.push(Overlaid::new(slot, value, Origin::Set));
    }

    /// Adds an attribute that a generator made, unless the bag has it, even with an invalid index. What reads it depends on the absence
    /// of a received one, which is recorded.
    pub fn generate(&mut self, slot: SlotId, value: Value<'a>) {
        let origin = if self.contains(slot) { Origin::Declined } else { Origin::Generated };
        self.overlay.push(Overlaid::new(slot, value, origin));
    }

    /// Removes what was received of an attribute: it reads as absent. Overrides stay.
    pub fn unset(&mut self, slot: SlotId) {
        if let Some(place) = self.places.get_mut(slot.index()) {
            place.0 &= SlotPlace::NAMED;
        }
    }

    /// The number of overrides so far, for [`rewind`](Self::rewind).
    pub fn mark(&self) -> usize {
        self.overlay.len()
    }

    /// Removes the overrides set since `mark`.
    pub fn rewind(&mut self, mark: usize) {
        self.overlay.truncate(mark);
    }

    #[inline]
    fn overlaid(&self, slot: SlotId) -> Option<&Overlaid<'a>> {
        self.overlay.iter().rev().find(|made| made.slot == slot && made.origin != Origin::Declined)
    }

    #[inline]
    fn place(&self, slot: SlotId) -> Option<(SlotPlace, usize)> {
        let place = *self.places.get(slot.index())?;
        Some((place, place.index()?))
    }

    /// The value of a received entry; resolved on first use.
    #[inline]
    fn received(&self, index: usize, slot: SlotId) -> Option<Value<'a>> {
        let entry = self.entries.get(index)?;
        match entry.payload.get() {
            Payload::Value(value) => Some(value),
            Payload::Unreadable => None,
            unresolved => {
                let value = self.resolve(unresolved, self.words, Some(slot));
                entry.payload.set(value.map_or(Payload::Unreadable, Payload::Value));
                value
            }
        }
    }

    /// The value of a payload; `None` if an index is invalid.
    fn resolve(&self, payload: Payload<'a>, words: Words<'a>, source: Option<SlotId>) -> Option<Value<'a>> {
        match payload {
            Payload::Value(value) => Some(value),
            Payload::Unreadable => None,
            Payload::Word(index) => words.resolve(index).map(Value::String),
            Payload::Map(raw) => {
                let entries = self.map_entries(raw, words)?;
                Some(Value::StringMap(self.arena().alloc(StringMap { entries, source })))
            }
        }
    }

    /// The entries of a string map as texts; `None` if an index is invalid.
    fn map_entries(&self, raw: RawMap<'a>, words: Words<'a>) -> Option<&'a [(&'a [u8], &'a [u8])]> {
        let mut entries = ArenaVec::with_capacity_in(raw.size_hint(), self.arena());
        let texts = |(key, value): (i32, i32)| Some((words.resolve(key)?, words.resolve(value)?));
        if !raw.pairs().all(|pair| texts(pair).map(|texts| entries.push(texts)).is_some()) {
            // An invalid index is harmless if a later entry replaces the key.
            entries.clear();
            for pair in self.map_pairs(raw) {
                entries.push(texts(pair)?);
            }
        }
        // A text may occur twice, also under different indexes.
        Some(last_by_key(entries).into_bump_slice())
    }

    /// The entries of a string map as indexes, with unique keys.
    fn map_pairs(&self, raw: RawMap<'a>) -> ArenaVec<'a, (i32, i32)> {
        let mut pairs = ArenaVec::with_capacity_in(raw.size_hint(), self.arena());
        pairs.extend(raw.pairs());
        last_by_key(pairs)
    }
}

/// Keeps the last of the pairs with equal keys; the order stays. Cost: quadratic up to 32 pairs, sorts above.
pub fn last_by_key<'a, K: Copy + Ord, V: Copy>(mut pairs: ArenaVec<'a, (K, V)>) -> ArenaVec<'a, (K, V)> {
    const FEW: usize = 32;
    let repeated = |i: usize, key: K| pairs.iter().skip(i + 1).any(|(later, _)| *later == key);
    if pairs.len() <= FEW && !pairs.iter().enumerate().any(|(i, (key, _))| repeated(i, *key)) {
        return pairs;
    }
    let mut order = ArenaVec::with_capacity_in(pairs.len(), pairs.bump());
    order.extend(pairs.iter().enumerate().map(|(i, (key, _))| (*key, i)));
    order.sort_unstable();
    let mut is_last = ArenaVec::with_capacity_in(pairs.len(), pairs.bump());
    is_last.resize(pairs.len(), true);
    for pair in order.windows(2) {
        if let [(key, i), (next, _)] = pair
            && key == next
            && let Some(flag) = is_last.get_mut(*i)
        {
            *flag = false;
        }
    }
    let mut flags = is_last.iter();
    pairs.retain(|_| flags.next().copied().unwrap_or(true));
    pairs
}

impl std::fmt::Debug for AttributeBag<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = self.all();
        f.debug_map()
            .entries(all.iter().map(|named| (String::from_utf8_lossy(named.name), named.value)))
            .finish()
    }
}

#[cfg(test)]
mod tests;
