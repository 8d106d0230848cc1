//! Attributes that own their values, for clients, tools and tests; encoded in the canonical form.

use std::collections::BTreeMap;

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;

use super::wire::{
    TypedMap, WordList, nested, put_duration, put_nonempty, put_tag, put_time, put_varint, put_zigzag,
};
use super::{AttributeBag, SignedDuration, Timestamp, Value, ValueType};

/// A value that owns its bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum OwnedValue {
    /// STRING, URI, DNS_NAME, EMAIL_ADDRESS.
    String(Vec<u8>),
    /// INT64.
    Int64(i64),
    /// DOUBLE.
    Double(f64),
    /// BOOL.
    Bool(bool),
    /// TIMESTAMP.
    Timestamp(Timestamp),
    /// DURATION.
    Duration(SignedDuration),
    /// IP_ADDRESS.
    Bytes(Vec<u8>),
    /// STRING_MAP.
    StringMap(BTreeMap<Vec<u8>, Vec<u8>>),
}

impl OwnedValue {
    /// The type of an undeclared attribute with this value.
    pub fn value_type(&self) -> ValueType {
        match self {
            OwnedValue::String(_) => ValueType::String,
            OwnedValue::Int64(_) => ValueType::Int64,
            OwnedValue::Double(_) => ValueType::Double,
            OwnedValue::Bool(_) => ValueType::Bool,
            OwnedValue::Timestamp(_) => ValueType::Timestamp,
            OwnedValue::Duration(_) => ValueType::Duration,
            OwnedValue::Bytes(_) => ValueType::IpAddress,
            OwnedValue::StringMap(_) => ValueType::StringMap,
        }
    }

    /// As [`Value::append_key`].
    pub fn append_key(&self, out: &mut Vec<u8>) -> bool {
        let value = match self {
            OwnedValue::String(text) => Value::String(text),
            OwnedValue::Int64(number) => Value::Int64(*number),
            OwnedValue::Double(number) => Value::Double(*number),
            OwnedValue::Bool(value) => Value::Bool(*value),
            OwnedValue::Timestamp(instant) => Value::Timestamp(*instant),
            OwnedValue::Duration(duration) => Value::Duration(*duration),
            OwnedValue::Bytes(bytes) => Value::Bytes(bytes),
            OwnedValue::StringMap(_) => return false,
        };
        value.append_key(out)
    }

    /// The map of a message that has it.
    fn field(&self) -> TypedMap {
        match self {
            OwnedValue::String(_) => TypedMap::Strings,
            OwnedValue::Int64(_) => TypedMap::Int64s,
            OwnedValue::Double(_) => TypedMap::Doubles,
            OwnedValue::Bool(_) => TypedMap::Bools,
            OwnedValue::Timestamp(_) => TypedMap::Timestamps,
            OwnedValue::Duration(_) => TypedMap::Durations,
            OwnedValue::Bytes(_) => TypedMap::Bytes,
            OwnedValue::StringMap(_) => TypedMap::StringMaps,
        }
    }
}

impl From<Value<'_>> for OwnedValue {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::String(text) => OwnedValue::String(text.to_vec()),
            Value::Int64(number) => OwnedValue::Int64(number),
            Value::Double(number) => OwnedValue::Double(number),
            Value::Bool(value) => OwnedValue::Bool(value),
            Value::Timestamp(instant) => OwnedValue::Timestamp(instant),
            Value::Duration(duration) => OwnedValue::Duration(duration),
            Value::Bytes(bytes) => OwnedValue::Bytes(bytes.to_vec()),
            Value::StringMap(map) => {
                OwnedValue::StringMap(map.entries.iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect())
            }
        }
    }
}

impl From<&str> for OwnedValue {
    fn from(text: &str) -> Self {
        OwnedValue::String(text.as_bytes().to_vec())
    }
}

impl From<i64> for OwnedValue {
    fn from(number: i64) -> Self {
        OwnedValue::Int64(number)
    }
}

impl From<f64> for OwnedValue {
    fn from(number: f64) -> Self {
        OwnedValue::Double(number)
    }
}

impl From<bool> for OwnedValue {
    fn from(value: bool) -> Self {
        OwnedValue::Bool(value)
    }
}

impl From<Timestamp> for OwnedValue {
    fn from(instant: Timestamp) -> Self {
        OwnedValue::Timestamp(instant)
    }
}

impl From<SignedDuration> for OwnedValue {
    fn from(duration: SignedDuration) -> Self {
        OwnedValue::Duration(duration)
    }
}

impl From<std::net::IpAddr> for OwnedValue {
    fn from(address: std::net::IpAddr) -> Self {
        match address {
            std::net::IpAddr::V4(v4) => OwnedValue::Bytes(v4.octets().to_vec()),
            std::net::IpAddr::V6(v6) => OwnedValue::Bytes(v6.octets().to_vec()),
        }
    }
}

impl<K: Into<Vec<u8>>, V: Into<Vec<u8>>, const N: usize> From<[(K, V); N]> for OwnedValue {
    fn from(entries: [(K, V); N]) -> Self {
        OwnedValue::StringMap(entries.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }
}

/// Attributes by name, sorted. Names and texts are bytes, usually UTF-8.
///
/// To read them as a request would, encode and decode: `AttributeBag::decode(arena.alloc(attributes.to_bytes(0)), None, …)`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OwnedAttributes {
    values: BTreeMap<Vec<u8>, OwnedValue>,
}

impl OwnedAttributes {
    /// No attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// All attributes of a bag, except those with an invalid index.
    pub fn from_bag(bag: &AttributeBag<'_>) -> Self {
        bag.all().into_iter().filter_map(|named| Some((named.name, named.value?))).collect()
    }

    /// Sets an attribute; returns its previous value.
    pub fn insert(&mut self, name: impl Into<Vec<u8>>, value: impl Into<OwnedValue>) -> Option<OwnedValue> {
        self.values.insert(name.into(), value.into())
    }

    /// The value of an attribute.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&OwnedValue> {
        self.values.get(name.as_ref())
    }

    /// Removes an attribute; returns its value.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) -> Option<OwnedValue> {
        self.values.remove(name.as_ref())
    }

    /// Names and values, in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &OwnedValue)> {
        self.values.iter().map(|(name, value)| (&**name, value))
    }

    /// Number of attributes.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The canonical encoding as CompressedAttributes. Global words below `global_word_count` are encoded as their global
    /// index: with 0 every word is a message word, with the length of [`GLOBAL_WORDS`](super::GLOBAL_WORDS) no global word is.
    pub fn to_bytes(&self, global_word_count: u32) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(global_word_count, &mut out);
        out
    }

    /// Appends the encoding of [`to_bytes`](Self::to_bytes).
    pub fn encode(&self, global_word_count: u32, out: &mut Vec<u8>) {
        let scratch = Bump::new();
        let mut words = WordList::new_in(global_word_count, &scratch);
        let entries = self.index(&mut words, &scratch);
        words.write(out, 1);
        write_entries(&entries, out);
    }

    /// Appends the typed maps only. The caller writes `words`, which several attribute sets share.
    pub(super) fn encode_without_words<'w>(
        &'w self,
        words: &mut WordList<'w>,
        scratch: &'w Bump,
        out: &mut Vec<u8>,
    ) {
        write_entries(&self.index(words, scratch), out);
    }

    /// Assigns every word its index, in canonical order, and sorts the entries into wire order.
    fn index<'w>(&'w self, words: &mut WordList<'w>, scratch: &'w Bump) -> ArenaVec<'w, Indexed<'w>> {
        let mut entries = ArenaVec::with_capacity_in(self.values.len(), scratch);
        for (name, value) in &self.values {
            let (field, index) = (value.field(), words.index(name));
            let value = match value {
                OwnedValue::String(text) => IndexedValue::Word(words.index(text)),
                OwnedValue::StringMap(map) => {
                    let mut pairs = ArenaVec::with_capacity_in(map.len(), scratch);
                    pairs.extend(map.iter().map(|(key, value)| {
                        let key = words.index(key);
                        (key, words.index(value))
                    }));
                    pairs.sort_unstable();
                    IndexedValue::Map(pairs)
                }
                plain => IndexedValue::Plain(plain),
            };
            entries.push(Indexed { field, index, value });
        }
        entries.sort_by_key(|entry| (entry.field, entry.index));
        entries
    }
}

impl<N: Into<Vec<u8>>, V: Into<OwnedValue>> FromIterator<(N, V)> for OwnedAttributes {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(attributes: I) -> Self {
        Self { values: attributes.into_iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }
}

/// An attribute with its words replaced by indexes.
struct Indexed<'w> {
    field: TypedMap,
    index: i32,
    value: IndexedValue<'w>,
}

enum IndexedValue<'w> {
    Word(i32),
    Map(ArenaVec<'w, (i32, i32)>),
    Plain(&'w OwnedValue),
}

fn write_entries(entries: &[Indexed<'_>], out: &mut Vec<u8>) {
    for entry in entries {
        nested(out, entry.field as u32, |out| {
            put_zigzag(out, 1, entry.index);
            match &entry.value {
                IndexedValue::Word(index) => put_zigzag(out, 2, *index),
                IndexedValue::Map(pairs) => nested(out, 2, |out| {
                    for (key, value) in pairs {
                        nested(out, 1, |out| {
                            put_zigzag(out, 1, *key);
                            put_zigzag(out, 2, *value);
                        });
                    }
                }),
                IndexedValue::Plain(value) => write_plain(value, out),
            }
        });
    }
}

fn write_plain(value: &OwnedValue, out: &mut Vec<u8>) {
    let varint = |out: &mut Vec<u8>, number| {
        put_tag(out, 2, 0);
        put_varint(out, number);
    };
    match value {
        OwnedValue::Int64(number) => varint(out, number.cast_unsigned()),
        OwnedValue::Bool(value) => varint(out, u64::from(*value)),
        OwnedValue::Double(number) => {
            put_tag(out, 2, 1);
            out.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        OwnedValue::Timestamp(instant) => {
            put_time(out, 2, instant.seconds, i32::try_from(instant.nanos).unwrap_or(0));
        }
        OwnedValue::Duration(duration) => put_duration(out, 2, *duration),
        OwnedValue::Bytes(bytes) => put_nonempty(out, 2, bytes),
        // Encoded by word index, not here.
        OwnedValue::String(_) | OwnedValue::StringMap(_) => {}
    }
}
