//! Protobuf encoding, appended to the caller's buffer.

use std::collections::HashMap;
use std::hash::Hash;

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use foldhash::fast::RandomState;

use super::reader::{LENGTH, VARINT};
use crate::{SignedDuration, global_index};

/// A [`SmallSet`] of more items is hashed.
const LINEAR: usize = 24;

/// Appends a base-128 varint, in as few bytes as possible.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Appends the tag of a field: field number and wire type.
pub(crate) fn put_tag(out: &mut Vec<u8>, field: u32, wire_type: u8) {
    put_varint(out, u64::from(field) << 3 | u64::from(wire_type));
}

/// Appends a sint32 field, even if it is 0.
pub(crate) fn put_zigzag(out: &mut Vec<u8>, field: u32, number: i32) {
    put_tag(out, field, VARINT);
    put_varint(out, u64::from(zigzag(number)));
}

/// Appends a varint field (integer, enum, Boolean) unless it is 0, the proto3 default. Negative int32 and int64 values
/// are passed sign-extended to 64 bits.
pub fn put_nonzero(out: &mut Vec<u8>, field: u32, number: u64) {
    if number != 0 {
        put_tag(out, field, VARINT);
        put_varint(out, number);
    }
}

/// Encodes zigzag: 0, -1, 1, -2, … become 0, 1, 2, 3, …
pub(crate) fn zigzag(number: i32) -> u32 {
    ((number << 1) ^ (number >> 31)).cast_unsigned()
}

/// Appends a string or bytes field, even if it is empty.
pub fn put_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    put_tag(out, field, LENGTH);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a string or bytes field unless it is empty.
pub fn put_nonempty(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    if !bytes.is_empty() {
        put_bytes(out, field, bytes);
    }
}

/// Appends a `google.protobuf.Duration` or `Timestamp` field, even if it is zero.
pub(crate) fn put_time(out: &mut Vec<u8>, field: u32, seconds: i64, nanos: i32) {
    nested(out, field, |out| {
        put_nonzero(out, 1, seconds.cast_unsigned());
        // An int32 is sign-extended on the wire.
        put_nonzero(out, 2, i64::from(nanos).cast_unsigned());
    });
}

/// Appends a `google.protobuf.Duration` field, even if it is zero. Seconds and nanoseconds have the same sign.
pub fn put_duration(out: &mut Vec<u8>, field: u32, duration: SignedDuration) {
    let nanos = i32::try_from(duration.nanos % 1_000_000_000).unwrap_or(0);
    put_time(out, field, duration.nanos / 1_000_000_000, nanos);
}

/// Appends a message field whose content `write` appends, even if it is empty.
pub fn nested(out: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    put_tag(out, field, LENGTH);
    // Most messages are short: one byte is reserved for the length, and a longer content is moved.
    let start = out.len();
    out.push(0);
    write(out);
    let len = out.len().saturating_sub(start + 1);
    match (u8::try_from(len), out.get_mut(start)) {
        (Ok(short @ ..0x80), Some(place)) => *place = short,
        _ => {
            let end = out.len();
            put_varint(out, len as u64);
            let width = out.len() - end;
            // Rotate the length to the front and the reserved byte to the end.
            if let Some(part) = out.get_mut(start..) {
                part.rotate_right(width);
                if let Some(content) = part.get_mut(width..) {
                    content.rotate_left(1);
                }
            }
            out.pop();
        }
    }
}

/// A set in insertion order: searched linearly while small, hashed when it grows.
pub(crate) struct SmallSet<'w, T> {
    items: ArenaVec<'w, T>,
    /// Exists above [`LINEAR`] items. The hash is seeded because clients choose the items.
    positions: Option<HashMap<T, usize, RandomState>>,
}

impl<'w, T: Copy + Eq + Hash> SmallSet<'w, T> {
    pub(crate) fn new_in(arena: &'w Bump) -> Self {
        Self { items: ArenaVec::new_in(arena), positions: None }
    }

    pub(crate) fn items(&self) -> &[T] {
        &self.items
    }

    /// The position of an item, and whether it is new.
    pub(crate) fn insert(&mut self, item: T) -> (usize, bool) {
        if let Some(position) = self.position(&item) {
            return (position, false);
        }
        let position = self.items.len();
        self.items.push(item);
        if let Some(positions) = &mut self.positions {
            positions.insert(item, position);
        } else if position >= LINEAR {
            self.positions = Some(self.items.iter().copied().zip(0..).collect());
        }
        (position, true)
    }

    /// Removes all but the first `len` items.
    pub(crate) fn truncate(&mut self, len: usize) {
        while self.items.len() > len
            && let Some(item) = self.items.pop()
        {
            if let Some(positions) = &mut self.positions {
                positions.remove(&item);
            }
        }
    }

    fn position(&self, item: &T) -> Option<usize> {
        match &self.positions {
            Some(positions) => positions.get(item).copied(),
            None => self.items.iter().position(|other| other == item),
        }
    }
}

/// The message words of an encoder: assigns every text its dictionary index.
pub(crate) struct WordList<'w> {
    global_word_count: u32,
    words: SmallSet<'w, &'w [u8]>,
}

impl<'w> WordList<'w> {
    /// Global words below `global_word_count` keep their global index.
    pub(crate) fn new_in(global_word_count: u32, arena: &'w Bump) -> Self {
        Self { global_word_count, words: SmallSet::new_in(arena) }
    }

    /// The index of a text.
    pub(crate) fn index(&mut self, text: &'w [u8]) -> i32 {
        self.index_of_global(global_index(text), text)
    }

    /// The index of a text whose index in the global dictionary is known.
    pub(crate) fn index_of_global(&mut self, global: Option<u32>, text: &'w [u8]) -> i32 {
        match global.filter(|index| *index < self.global_word_count).map(i32::try_from) {
            Some(Ok(index)) => index,
            _ => self.message_index(text),
        }
    }

    /// The index of a text as a message word, even if it is a global word.
    pub(crate) fn message_index(&mut self, text: &'w [u8]) -> i32 {
        // Word 0 is -1: the complement. No message is large enough for more than i32::MAX words.
        i32::try_from(self.words.insert(text).0).map_or(i32::MIN, |position| !position)
    }

    /// Appends the words as a repeated field.
    pub(crate) fn write(&self, out: &mut Vec<u8>, field: u32) {
        self.words.items().iter().for_each(|word| put_bytes(out, field, word));
    }
}
