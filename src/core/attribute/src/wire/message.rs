//! A CompressedAttributes message, validated but not yet resolved against dictionaries.

use std::cell::Cell;

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;

use super::reader::{DecodeError, LENGTH, Reader, zigzag};
use super::words::Words;
use crate::{SignedDuration, Timestamp, Value};

/// The typed map that contains an entry; the discriminants are the field numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum TypedMap {
    Strings = 2,
    Int64s = 3,
    Doubles = 4,
    Bools = 5,
    Timestamps = 6,
    Durations = 7,
    Bytes = 8,
    StringMaps = 9,
}

impl TypedMap {
    /// The typed map for values of this kind.
    pub(crate) fn of(value: &Value<'_>) -> Self {
        match value {
            Value::String(_) => TypedMap::Strings,
            Value::Int64(_) => TypedMap::Int64s,
            Value::Double(_) => TypedMap::Doubles,
            Value::Bool(_) => TypedMap::Bools,
            Value::Timestamp(_) => TypedMap::Timestamps,
            Value::Duration(_) => TypedMap::Durations,
            Value::Bytes(_) => TypedMap::Bytes,
            Value::StringMap(_) => TypedMap::StringMaps,
        }
    }

    /// Of several entries with one name, the lowest rank wins. Istio Mixer 1.3 does the same.
    pub(crate) fn rank(self) -> u8 {
        match self {
            TypedMap::Strings => 0,
            TypedMap::StringMaps => 1,
            other => other as u8,
        }
    }
}

/// The value of an entry and how far it is resolved.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Payload<'a> {
    /// The dictionary index of a string.
    Word(i32),
    /// A string map that has not been read yet.
    Map(RawMap<'a>),
    /// Resolved.
    Value(Value<'a>),
    /// Present, but with an index that cannot be resolved.
    Unreadable,
}

/// The bytes of a validated StringMap message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawMap<'a>(&'a [u8]);

impl<'a> RawMap<'a> {
    /// An upper estimate of the number of pairs.
    pub(crate) fn size_hint(self) -> usize {
        // Six bytes: tag and length of the entry, tags and one-byte indexes of key and value.
        self.0.len() / 6
    }

    /// The pairs of indexes, in wire order, repeated keys included.
    pub(crate) fn pairs(self) -> impl Iterator<Item = (i32, i32)> + 'a {
        let mut reader = Reader::new(self.0);
        // The bytes are validated: no read below fails.
        std::iter::from_fn(move || {
            loop {
                if let Some((key, value)) = reader.short_entry(MAP_PAIR) {
                    return Some((zigzag(key), zigzag(value)));
                }
                if let Some((number, bytes)) = reader.short_field() {
                    if number == 1 {
                        return pair(bytes).ok();
                    }
                    continue;
                }
                let (field, wire_type) = reader.tag().ok()??;
                if field == 1 {
                    return pair(reader.bytes().ok()?).ok();
                }
                reader.skip(wire_type).ok()?;
            }
        })
    }
}

/// One entry of a typed map.
#[derive(Debug)]
pub(crate) struct AttributeEntry<'a> {
    /// The dictionary index of the name.
    pub(crate) index: i32,
    pub(crate) field: TypedMap,
    pub(crate) payload: Cell<Payload<'a>>,
}

/// The tag of a pair of a string map: field 1, length-delimited.
const MAP_PAIR: u8 = (1 << 3) | LENGTH;

/// The tag of an entry of [`TypedMap::Strings`].
const STRINGS_ENTRY: u8 = ((TypedMap::Strings as u8) << 3) | LENGTH;

/// Most words, values and map entries of one message. Proxies send less than a thousand.
pub const MAX_ELEMENTS: usize = 4 << 10;

/// Most fields of a long message, unknown ones and those of map entries included.
const MAX_FIELDS: usize = 4 * MAX_ELEMENTS;

/// Most bytes of the texts that the values of one message are, repeated references included, unless the message itself is longer. Proxies
/// send a few kilobytes.
pub const MAX_TEXT: usize = 1 << 20;

/// The words of messages without words.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DefaultWords<'a> {
    pub(crate) words: &'a [&'a [u8]],
    /// The length of the longest one.
    pub(crate) longest: usize,
}

impl DefaultWords<'_> {
    /// An upper estimate of the texts of a message of `len` bytes: a reference takes at least three of them, and words of its own are no longer
    /// than the message.
    pub(crate) fn most_text(&self, len: usize) -> usize {
        most_text(len, self.longest.max(len))
    }
}

/// The words and entries of one attribute message, borrowed from its bytes.
///
/// Shape: every entry of the typed maps in wire order, including repeated keys. String maps stay encoded until they are read.
#[derive(Debug, Clone, Copy, Default)]
pub struct CompressedAttributes<'a> {
    pub(crate) words: &'a [&'a [u8]],
    pub(crate) entries: &'a [AttributeEntry<'a>],
}

impl<'a> CompressedAttributes<'a> {
    /// Validates a message and indexes its parts. Cost: linear in the bytes; allocates in `arena` only.
    ///
    /// Errors: invalid protobuf anywhere in the message; more than [`MAX_ELEMENTS`] or [`MAX_TEXT`].
    pub fn decode(body: &'a [u8], arena: &'a Bump) -> Result<Self, DecodeError> {
        Self::decode_with(body, &DefaultWords::default(), arena)
    }

    /// As [`decode`](Self::decode), for a message that uses `default_words` if it has no words.
    pub(crate) fn decode_with(
        body: &'a [u8],
        default_words: &DefaultWords<'_>,
        arena: &'a Bump,
    ) -> Result<Self, DecodeError> {
        let mut parts = Parts::new(body.len(), arena);
        parts.read(body)?;
        parts.finish().checked(body.len(), default_words)
    }

    /// Itself, if the texts of a message of `len` bytes are within bounds. Errors: more than [`MAX_TEXT`], and more than the message.
    pub(crate) fn checked(self, len: usize, default_words: &DefaultWords<'_>) -> Result<Self, DecodeError> {
        if default_words.most_text(len) > MAX_TEXT {
            self.check_text(len, default_words)?;
        }
        Ok(self)
    }

    fn check_text(&self, len: usize, default_words: &DefaultWords<'_>) -> Result<(), DecodeError> {
        let words = if self.words.is_empty() { default_words.words } else { self.words };
        let limit = MAX_TEXT.max(len);
        let longest = words.iter().map(|word| word.len()).max().unwrap_or(0);
        if most_text(len, longest.max(LONGEST_GLOBAL_WORD)) <= limit {
            return Ok(());
        }
        let mut left = limit;
        for entry in self.entries {
            let fewer = left.checked_sub(text_len(entry.payload.get(), words));
            left = fewer.ok_or(DecodeError::LongValues { limit })?;
        }
        Ok(())
    }

    /// An upper estimate of the bytes of the texts that its values are, as a message of `len` bytes; `longest_default` is the length of the longest
    /// word that it uses if it has no words. Cost: one look at each word, and at each entry if the estimate is above `few`.
    pub(crate) fn most_text(&self, len: usize, longest_default: usize, few: usize) -> usize {
        let own =
            |(bytes, longest): (usize, usize), word: &&[u8]| (bytes + word.len(), longest.max(word.len()));
        let (own_bytes, longest) = match self.words {
            [] => (0, longest_default),
            words => words.iter().fold((0, 0), own),
        };
        let longest = longest.max(LONGEST_GLOBAL_WORD);
        // The entries take what the words leave.
        let most = most_of_indexes(len.saturating_sub(own_bytes), longest);
        if most <= few {
            return most;
        }
        let text = |entry: &AttributeEntry<'_>| match entry.payload.get() {
            Payload::Word(_) => longest,
            Payload::Map(map) => most_of_indexes(map.0.len(), longest),
            Payload::Value(value) => value.text_len(),
            Payload::Unreadable => 0,
        };
        self.entries.iter().map(text).fold(0, usize::saturating_add)
    }

    /// The message words.
    pub fn words(&self) -> &'a [&'a [u8]] {
        self.words
    }

    /// Number of entries of all typed maps.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no typed map has an entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// At least the length of every word of the global dictionary.
const LONGEST_GLOBAL_WORD: usize = 64;

/// An upper estimate of the texts of a message of `len` bytes whose words have at most `longest` bytes.
fn most_text(len: usize, longest: usize) -> usize {
    (len / 3).saturating_mul(longest)
}

/// An upper estimate of the texts of so many bytes of pairs of indexes, if no word has more than `longest`, which is at least
/// [`LONGEST_GLOBAL_WORD`].
fn most_of_indexes(bytes: usize, longest: usize) -> usize {
    // A pair takes six bytes. It may have four, or two, if it leaves indexes out, each of which is that of the first global word, which is
    // short.
    bytes.div_ceil(3).saturating_mul(longest)
}

/// The bytes of the texts of a value: of a string map, those of all of its keys and values.
pub(crate) fn text_len(payload: Payload<'_>, words: &[&[u8]]) -> usize {
    let words = Words::of_names(words);
    let len = |index: i32| words.resolve(index).map_or(0, <[u8]>::len);
    match payload {
        Payload::Word(index) => len(index),
        Payload::Map(map) => map.pairs().map(|(key, value)| len(key) + len(value)).sum(),
        Payload::Value(value) => value.text_len(),
        Payload::Unreadable => 0,
    }
}

/// A message being decoded; a second occurrence of the same message field is merged into it.
pub(crate) struct Parts<'a> {
    /// At least the number of elements, except for those of map entries in a message that is too short to have too many.
    elements: usize,
    /// Fields that long parts may still have.
    fields: usize,
    words: ArenaVec<'a, &'a [u8]>,
    entries: ArenaVec<'a, AttributeEntry<'a>>,
}

impl<'a> Parts<'a> {
    /// Reserves what a message of `len` bytes usually needs.
    pub(crate) fn new(len: usize, arena: &'a Bump) -> Self {
        Self {
            elements: 0,
            fields: MAX_FIELDS,
            words: ArenaVec::with_capacity_in((len / 8).min(64), arena),
            entries: ArenaVec::with_capacity_in((len / 8).min(48), arena),
        }
    }

    pub(crate) fn finish(self) -> CompressedAttributes<'a> {
        CompressedAttributes { words: self.words.into_bump_slice(), entries: self.entries.into_bump_slice() }
    }

    pub(crate) fn read(&mut self, body: &'a [u8]) -> Result<(), DecodeError> {
        // An element takes at least two bytes, so that short messages need no count.
        self.elements += match self.elements + body.len() / 2 {
            most if most <= MAX_ELEMENTS => body.len() / 2,
            _ => count_elements(body, MAX_ELEMENTS.saturating_sub(self.elements), &mut self.fields)?,
        };
        let mut reader = Reader::new(body);
        loop {
            if let Some((key, word)) = reader.short_entry(STRINGS_ENTRY) {
                let payload = Cell::new(Payload::Word(zigzag(word)));
                self.entries.push(AttributeEntry { index: zigzag(key), field: TypedMap::Strings, payload });
                continue;
            }
            let (number, bytes) = match reader.short_field() {
                Some(field) => field,
                None => match reader.tag()? {
                    None => return Ok(()),
                    Some((number @ 1..=9, wire_type)) => (number, reader.bytes_of(number, wire_type)?),
                    Some((_, wire_type)) => {
                        reader.skip(wire_type)?;
                        continue;
                    }
                },
            };
            let field = match number {
                1 => {
                    self.words.push(bytes);
                    continue;
                }
                2 => TypedMap::Strings,
                3 => TypedMap::Int64s,
                4 => TypedMap::Doubles,
                5 => TypedMap::Bools,
                6 => TypedMap::Timestamps,
                7 => TypedMap::Durations,
                8 => TypedMap::Bytes,
                9 => TypedMap::StringMaps,
                _ => continue,
            };
            let (index, payload) = entry(field, bytes)?;
            self.entries.push(AttributeEntry { index, field, payload: Cell::new(payload) });
        }
    }
}

/// The number of elements of a message.
///
/// Cost: looks at no more than `fields`, whatever the length, and subtracts them. Errors: more than `most`, or more fields. Bytes that are
/// no message are left to the decoder.
fn count_elements(body: &[u8], most: usize, fields: &mut usize) -> Result<usize, DecodeError> {
    let mut elements = 0;
    let counted = each_field(body, fields, &mut |fields, number, bytes| {
        elements += usize::from(number <= 9);
        let is_map = number == TypedMap::StringMaps as u32;
        let counted = !is_map
            || each_field(bytes, fields, &mut |fields, number, map| {
                number != 2
                    || each_field(map, fields, &mut |_, number, _| {
                        elements += usize::from(number == 1);
                        elements <= most
                    })
            });
        counted && elements <= most
    });
    if counted { Ok(elements) } else { Err(DecodeError::TooManyElements { limit: MAX_ELEMENTS }) }
}

/// Takes a field; returns whether to go on. The number is that of the fields which may follow.
type TakeField<'t> = &'t mut dyn FnMut(&mut usize, u32, &[u8]) -> bool;

/// Calls `take` for every length-delimited field up to the first that is malformed. Returns false if `take` does, or if there are more
/// fields than `left`.
fn each_field(body: &[u8], left: &mut usize, take: TakeField<'_>) -> bool {
    let mut reader = Reader::new(body);
    while let Ok(Some((number, wire_type))) = reader.tag() {
        let Some(fewer) = left.checked_sub(1) else { return false };
        *left = fewer;
        match reader.bytes_of(number, wire_type) {
            Ok(bytes) if !take(left, number, bytes) => return false,
            Ok(_) => {}
            Err(_) if reader.skip(wire_type).is_ok() => {}
            Err(_) => return true,
        }
    }
    true
}

/// Reads one map entry: field 1 is the key, field 2 the value, both optional.
#[inline]
fn entry<'a>(field: TypedMap, bytes: &'a [u8]) -> Result<(i32, Payload<'a>), DecodeError> {
    if field == TypedMap::Strings
        && let Some((index, word)) = short_pair(bytes)
    {
        return Ok((index, Payload::Word(word)));
    }
    let mut reader = Reader::new(bytes);
    let mut index = 0;
    let mut payload = default_payload(field);
    while let Some((number, wire_type)) = reader.tag()? {
        match number {
            1 => index = reader.zigzag_of(number, wire_type)?,
            2 => payload = read_payload(field, wire_type, &mut reader)?,
            _ => reader.skip(wire_type)?,
        }
    }
    Ok((index, payload))
}

fn default_payload<'a>(field: TypedMap) -> Payload<'a> {
    Payload::Value(match field {
        TypedMap::Strings => return Payload::Word(0),
        TypedMap::StringMaps => return Payload::Map(RawMap(&[])),
        TypedMap::Int64s => Value::Int64(0),
        TypedMap::Doubles => Value::Double(0.0),
        TypedMap::Bools => Value::Bool(false),
        TypedMap::Timestamps => Value::Timestamp(Timestamp::YEAR_ONE),
        TypedMap::Durations => Value::Duration(SignedDuration::ZERO),
        TypedMap::Bytes => Value::Bytes(&[]),
    })
}

#[inline]
fn read_payload<'a>(
    field: TypedMap,
    wire_type: u8,
    reader: &mut Reader<'a>,
) -> Result<Payload<'a>, DecodeError> {
    Ok(Payload::Value(match field {
        TypedMap::Strings => return Ok(Payload::Word(reader.zigzag_of(2, wire_type)?)),
        TypedMap::StringMaps => return raw_map(reader.bytes_of(2, wire_type)?).map(Payload::Map),
        TypedMap::Int64s => Value::Int64(reader.varint_of(2, wire_type)?.cast_signed()),
        TypedMap::Doubles => Value::Double(f64::from_bits(reader.fixed64_of(2, wire_type)?)),
        TypedMap::Bools => Value::Bool(reader.varint_of(2, wire_type)? != 0),
        TypedMap::Timestamps => Value::Timestamp(timestamp(reader.bytes_of(2, wire_type)?)?),
        TypedMap::Durations => Value::Duration(duration(reader.bytes_of(2, wire_type)?)?),
        TypedMap::Bytes => Value::Bytes(reader.bytes_of(2, wire_type)?),
    }))
}

/// Validates a StringMap message.
fn raw_map(bytes: &[u8]) -> Result<RawMap<'_>, DecodeError> {
    let mut reader = Reader::new(bytes);
    loop {
        if reader.short_entry(MAP_PAIR).is_some() {
            continue;
        }
        if let Some((number, bytes)) = reader.short_field() {
            if number == 1 {
                pair(bytes)?;
            }
            continue;
        }
        match reader.tag()? {
            None => return Ok(RawMap(bytes)),
            Some((number @ 1, wire_type)) => drop(pair(reader.bytes_of(number, wire_type)?)?),
            Some((_, wire_type)) => reader.skip(wire_type)?,
        }
    }
}

/// The fast path for nearly all entries: exactly a key and a value, in this order, each of one or two bytes.
#[inline]
fn short_pair(bytes: &[u8]) -> Option<(i32, i32)> {
    let one = |byte: u8| zigzag(u32::from(byte));
    let two = |low: u8, high: u8| zigzag(u32::from(low & 0x7f) | u32::from(high) << 7);
    // Tag 8 is field 1, tag 16 is field 2, both varints; a byte from 128 on continues in the next.
    Some(match *bytes {
        [8, k @ ..0x80, 16, v @ ..0x80] => (one(k), one(v)),
        [8, k @ ..0x80, 16, v @ 0x80..=0xff, w @ ..0x80] => (one(k), two(v, w)),
        [8, k @ 0x80..=0xff, l @ ..0x80, 16, v @ ..0x80] => (two(k, l), one(v)),
        [8, k @ 0x80..=0xff, l @ ..0x80, 16, v @ 0x80..=0xff, w @ ..0x80] => (two(k, l), two(v, w)),
        _ => return None,
    })
}

/// One entry of a StringMap message.
#[inline]
fn pair(bytes: &[u8]) -> Result<(i32, i32), DecodeError> {
    if let Some(pair) = short_pair(bytes) {
        return Ok(pair);
    }
    let mut reader = Reader::new(bytes);
    let (mut key, mut value) = (0, 0);
    while let Some((number, wire_type)) = reader.tag()? {
        match number {
            1 => key = reader.zigzag_of(number, wire_type)?,
            2 => value = reader.zigzag_of(number, wire_type)?,
            _ => reader.skip(wire_type)?,
        }
    }
    Ok((key, value))
}

/// `seconds` and `nanos` of a Timestamp or Duration message.
fn seconds_and_nanos(bytes: &[u8]) -> Result<(i64, i32), DecodeError> {
    let mut reader = Reader::new(bytes);
    let (mut seconds, mut nanos) = (0, 0);
    while let Some((number, wire_type)) = reader.tag()? {
        match number {
            1 => seconds = reader.varint_of(number, wire_type)?.cast_signed(),
            // An int32 is its low 32 bits.
            2 => nanos = (reader.varint_of(number, wire_type)? as u32).cast_signed(),
            _ => reader.skip(wire_type)?,
        }
    }
    Ok((seconds, nanos))
}

/// Decodes a `google.protobuf.Timestamp` message; missing fields are 0.
///
/// Errors: invalid protobuf; [`TimestampRange`](DecodeError::TimestampRange) outside the years 1 to 9999 or for nanoseconds
/// outside 0 to 999999999.
pub fn timestamp(bytes: &[u8]) -> Result<Timestamp, DecodeError> {
    let (seconds, nanos) = seconds_and_nanos(bytes)?;
    match u32::try_from(nanos) {
        Ok(nanos)
            if nanos < 1_000_000_000
                && (Timestamp::YEAR_ONE.seconds..=Timestamp::MAX_SECONDS).contains(&seconds) =>
        {
            Ok(Timestamp { seconds, nanos })
        }
        _ => Err(DecodeError::TimestampRange { seconds, nanos }),
    }
}

/// Decodes a `google.protobuf.Duration` message; missing fields are 0.
///
/// Errors: invalid protobuf; [`DurationRange`](DecodeError::DurationRange) beyond 64-bit nanoseconds (about 292 years), or
/// when seconds and nanoseconds have different signs or the nanoseconds amount to a second.
pub fn duration(bytes: &[u8]) -> Result<SignedDuration, DecodeError> {
    let (seconds, nanos) = seconds_and_nanos(bytes)?;
    let fits =
        nanos.unsigned_abs() < 1_000_000_000 && !(seconds > 0 && nanos < 0) && !(seconds < 0 && nanos > 0);
    let total = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    match i64::try_from(total) {
        Ok(total) if fits => Ok(SignedDuration::from_nanos(total)),
        _ => Err(DecodeError::DurationRange { seconds, nanos }),
    }
}
