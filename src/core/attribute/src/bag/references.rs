//! Referenced attributes: the record of reads, and its wire form.

use std::cell::RefCell;

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;

use super::bits::BitSet;
use super::{AttributeBag, Origin};
use crate::wire::{SmallSet, WordList, put_bytes, zigzag};
use crate::{SlotId, Value};

/// What a result depends on. The discriminants are the wire values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Condition {
    /// The attribute or key was absent.
    Absence = 1,
    /// The attribute or key had exactly this value.
    Exact = 2,
}

/// One attribute, or one key of a string map, that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference<'a> {
    /// The slot of the attribute; orders like its name.
    pub slot: SlotId,
    /// The name of the attribute.
    pub name: &'a str,
    /// The key that was looked up; `None` for the attribute itself.
    pub key: Option<&'a [u8]>,
    /// What was found.
    pub condition: Condition,
}

/// The reads that a client is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// All: an answer made from a generated attribute is not for a request that carries its own.
    All,
    /// Those of received attributes. compat(1.3): Istio Mixer tells of no others. Pinned by the scenario `preprocess-attributes`.
    Received,
}

/// A saved state of the references, see [`AttributeBag::mark_references`].
#[derive(Debug, Clone, Copy)]
pub struct ReferenceMark<'a> {
    read: &'a [u64],
    generated: &'a [bool],
    keys: usize,
}

/// The record of reads. Presence is not stored, because received attributes do not change.
pub(super) struct References<'a> {
    read: BitSet<'a>,
    /// Present maps that were read, which is no reference by itself. The bit after those of the slots is for a map that was passed on as a
    /// whole, whatever keys were looked up.
    maps: BitSet<'a>,
    keys: RefCell<SmallSet<'a, KeyRead<'a>>>,
}

/// Slot, key and whether the map had it.
type KeyRead<'a> = (SlotId, &'a [u8], bool);

impl<'a> References<'a> {
    pub(super) fn new(slots: usize, arena: &'a Bump) -> Self {
        Self {
            read: BitSet::new(slots, arena),
            maps: BitSet::new(slots + 1, arena),
            keys: RefCell::new(SmallSet::new_in(arena)),
        }
    }

    #[inline]
    pub(super) fn read(&self, slot: SlotId) {
        self.read.insert(slot.index());
    }

    #[inline]
    pub(super) fn map_read(&self, slot: SlotId) {
        self.maps.insert(slot.index());
    }

    pub(super) fn looked_up(&self, slot: SlotId, key: &'a [u8], present: bool) {
        self.keys.borrow_mut().insert((slot, key, present));
    }

    pub(super) fn clear(&self) {
        self.read.clear();
        self.maps.clear();
        self.keys.borrow_mut().truncate(0);
    }
}

impl<'a> AttributeBag<'a> {
    /// Saves the state of the references, for [`reset_references`](Self::reset_references).
    pub fn mark_references(&self) -> ReferenceMark<'a> {
        ReferenceMark {
            read: self.references.read.copy(self.arena()),
            generated: self.arena().alloc_slice_fill_iter(self.overlay.iter().map(|made| made.is_read.get())),
            keys: self.references.keys.borrow().items().len(),
        }
    }

    /// Records that the values of a whole received map were used, which references cannot express.
    pub fn whole_map_used(&self) {
        self.references.maps.insert(self.vocabulary.len());
    }

    /// Whether a present map was read without a look-up of a key, or [used as a whole](Self::whole_map_used). The references do not
    /// distinguish such a request from one without the map, or with another, so its result must not be cached by the server.
    pub fn reads_map_without_key(&self) -> bool {
        let keys = self.references.keys.borrow();
        self.references.maps.iter().any(|index| !keys.items().iter().any(|(slot, ..)| slot.index() == index))
    }

    /// Restores the references saved in `mark`.
    pub fn reset_references(&self, mark: &ReferenceMark<'a>) {
        self.references.read.restore(mark.read);
        let mut were_read = mark.generated.iter().copied();
        self.overlay.iter().for_each(|made| made.is_read.set(were_read.next().unwrap_or(false)));
        self.references.keys.borrow_mut().truncate(mark.keys);
    }

    /// Whether the reads depend on who made a string map: the caller or a generator. The server's cache distinguishes these requests, the
    /// proxies of Istio do not: they compare the keys of a map, and a map that is absent has none of them.
    pub fn depends_on_origin_of_map(&self) -> bool {
        let keys = self.references.keys.borrow();
        // A key that is there is not found in an absent map.
        let reads_absent_keys_only = |map: SlotId| {
            let mut reads = keys.items().iter().filter(|(slot, ..)| *slot == map).peekable();
            reads.peek().is_some() && reads.all(|(.., present)| !present)
        };
        let mut maps = self.overlay.iter().filter(|made| matches!(made.value, Value::StringMap(_)));
        maps.any(|made| match made.origin {
            Origin::Set => false,
            Origin::Generated => made.is_read.get(),
            Origin::Declined => reads_absent_keys_only(made.slot),
        })
    }

    /// All references, sorted by name and key, without duplicates.
    pub fn references(&self) -> ArenaVec<'a, Reference<'a>> {
        self.references_of(Reads::All)
    }

    fn references_of(&self, reads: Reads) -> ArenaVec<'a, Reference<'a>> {
        let mut generated = self.overlay.iter().filter(|made| made.is_generated_read()).peekable();
        let mut read = self.references.read;
        if reads == Reads::All && generated.peek().is_some() {
            read = BitSet::new(self.vocabulary.len(), self.arena());
            read.restore(self.references.read.copy(self.arena()));
            generated.for_each(|made| read.insert(made.slot.index()));
        }
        let recorded = self.references.keys.borrow();
        let mut keys = ArenaVec::with_capacity_in(recorded.items().len(), self.arena());
        keys.extend_from_slice(recorded.items());
        keys.sort_unstable();
        let mut keys = keys.into_iter().peekable();
        let mut references = ArenaVec::with_capacity_in(32, self.arena());
        let make = |slot, key, present| Reference {
            slot,
            name: self.vocabulary.name(slot),
            key,
            condition: if present { Condition::Exact } else { Condition::Absence },
        };
        for index in read.iter() {
            let slot = SlotId(u32::try_from(index).unwrap_or(u32::MAX));
            while let Some((key_slot, key, present)) = keys.next_if(|key| key.0 < slot) {
                references.push(make(key_slot, Some(key), present));
            }
            references.push(make(slot, None, self.was_exact(slot)));
        }
        references.extend(keys.map(|(slot, key, present)| make(slot, Some(key), present)));
        references
    }

    /// Whether a slot that was read without a key is present, ignoring overrides set since.
    fn was_exact(&self, slot: SlotId) -> bool {
        match self.place(slot) {
            Some((place, _)) if place.is_delta() => true,
            Some((_, index)) => !matches!(self.received(index, slot), None | Some(Value::StringMap(_))),
            None => false,
        }
    }

    /// Appends the references as an encoded ReferencedAttributes.
    ///
    /// Global words from `global_word_count` on, which the client does not know, become message words. So does a map key
    /// `source.ip`, whose global index 0 means "no key". Shape: message words in order of use, then one match per reference
    /// of `reads` in the order of [`references`](Self::references). Cost: allocates in the arena only.
    pub fn encode_references(&self, global_word_count: u32, reads: Reads, out: &mut Vec<u8>) {
        let references = self.references_of(reads);
        let mut words = WordList::new_in(global_word_count, self.arena());
        let mut matches = ArenaVec::with_capacity_in(references.len(), self.arena());
        let mut last = None;
        for reference in &references {
            let key = match reference.key {
                None | Some(b"") => 0,
                Some(key) => match words.index(key) {
                    0 => words.message_index(key),
                    index => index,
                },
            };
            let name = match last {
                Some((slot, name)) if slot == reference.slot => name,
                _ => words.index_of_global(
                    self.vocabulary.global_word_of(reference.slot),
                    reference.name.as_bytes(),
                ),
            };
            last = Some((reference.slot, name));
            matches.push((name, reference.condition, key));
        }
        words.write(out, 1);
        for (name, condition, key) in matches {
            put_match(out, zigzag(name), condition, zigzag(key));
        }
    }
}

/// Appends one AttributeMatch as field 2. It is short enough to be built on the stack and appended at once.
fn put_match(out: &mut Vec<u8>, name: u32, condition: Condition, key: u32) {
    let mut bytes = [0u8; 16];
    let mut len = 0;
    let mut put = |byte: u8| {
        if let Some(place) = bytes.get_mut(len) {
            *place = byte;
            len += 1;
        }
    };
    let mut field = |tag: u8, mut number: u32| {
        if number == 0 {
            return;
        }
        put(tag);
        while number >= 0x80 {
            put(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        put(number.to_le_bytes()[0]);
    };
    field(0x08, name);
    field(0x10, condition as u32);
    field(0x20, key);
    put_bytes(out, 2, bytes.get(..len).unwrap_or_default());
}
