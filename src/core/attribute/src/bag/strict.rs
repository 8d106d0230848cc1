//! Later records of a delta report: decoded strictly, applied to the first.

use bumpalo::collections::Vec as ArenaVec;

use super::{AttributeBag, SlotPlace};
use crate::wire::{AttributeEntry, CompressedAttributes, Payload, SmallSet, TypedMap, Words};
use crate::{StringMap, Value};

/// Why a later record of a delta report was not applied. The texts are Istio Mixer's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StrictError {
    /// Indexes outside both dictionaries, in the order found.
    #[error("{}", undefined_text(.0))]
    Undefined(Vec<i32>),
    /// An attribute that occurs twice in the record; the name is empty if its index is invalid.
    #[error("duplicate attribute {name} (type {value_type})")]
    Duplicate {
        /// The name.
        name: String,
        /// The Go type of the second value.
        value_type: &'static str,
    },
}

fn undefined_text(indexes: &[i32]) -> String {
    use std::fmt::Write as _;
    let mut text = match indexes.len() {
        1 => "1 error occurred:".to_owned(),
        n => format!("{n} errors occurred:"),
    };
    for index in indexes {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n\t* attribute index {index} is not defined in the available dictionaries");
    }
    text.push_str("\n\n");
    text
}

impl<'a> AttributeBag<'a> {
    /// Applies a later record of a delta report: its attributes replace those of the same name and are never recorded.
    ///
    /// Errors: see [`StrictError`]; the bag is then unchanged.
    pub fn apply_delta(
        &mut self,
        record: &CompressedAttributes<'a>,
        default_words: Option<Words<'a>>,
    ) -> Result<(), StrictError> {
        let words = self.words_of(record, default_words);
        self.texts.renew();
        let applied = self.delta.len();
        self.strict_values(record, words)?;
        for index in applied..self.delta.len() {
            let slot = self.delta.get(index).and_then(|(name, _)| self.vocabulary.slot(name));
            if let Some(place) = slot.and_then(|slot| self.places.get_mut(slot.index())) {
                *place = place.at(index, SlotPlace::DELTA);
            }
        }
        Ok(())
    }

    /// Number of values that later records of a delta report have set so far.
    pub(crate) fn delta_len(&self) -> usize {
        self.delta.len()
    }

    /// The indexes of those values that the slots of the vocabulary still have.
    pub(crate) fn delta_indexes(&self) -> impl Iterator<Item = usize> {
        self.places.iter().filter(|place| place.is_delta()).filter_map(|place| place.index())
    }

    /// Appends all values of a record to the delta values, or none.
    fn strict_values(
        &mut self,
        record: &CompressedAttributes<'a>,
        words: Words<'a>,
    ) -> Result<(), StrictError> {
        let applied = self.delta.len();
        let mut undefined = Vec::new();
        let mut seen: SmallSet<'_, &[u8]> = SmallSet::new_in(self.arena());
        for entry in self.in_field_order(record) {
            let mut resolve = |index| {
                words.resolve(index).unwrap_or_else(|| {
                    undefined.push(index);
                    &[]
                })
            };
            let name = resolve(entry.index);
            let value = match entry.payload.get() {
                Payload::Word(index) => Some(Value::String(resolve(index))),
                Payload::Map(raw) => {
                    self.map_pairs(raw).into_iter().for_each(|(key, value)| {
                        resolve(key);
                        resolve(value);
                    });
                    let entries = self.map_entries(raw, words);
                    entries.map(|entries| {
                        Value::StringMap(self.arena().alloc(StringMap { entries, source: None }))
                    })
                }
                Payload::Value(value) => Some(value),
                Payload::Unreadable => None,
            };
            let (_, new) = seen.insert(name);
            if !new && entry.field != TypedMap::Strings {
                self.delta.truncate(applied);
                let name = String::from_utf8_lossy(name).into_owned();
                return Err(StrictError::Duplicate { name, value_type: go_type(entry.field) });
            }
            if let Some(value) = value {
                self.delta.push((name, value));
            }
        }
        if undefined.is_empty() {
            return Ok(());
        }
        self.delta.truncate(applied);
        Err(StrictError::Undefined(undefined))
    }

    /// The entries by field, in wire order; of repeated keys the last.
    fn in_field_order(&self, record: &CompressedAttributes<'a>) -> ArenaVec<'a, &'a AttributeEntry<'a>> {
        let mut order = ArenaVec::with_capacity_in(record.entries.len(), self.arena());
        order.extend(record.entries.iter().enumerate().map(|(i, entry)| (entry.field, entry.index, i)));
        order.sort_unstable();
        // Reversed, so that deduplication keeps the last on the wire.
        order.reverse();
        order.dedup_by_key(|(field, index, _)| (*field, *index));
        order.sort_unstable_by_key(|(field, _, i)| (*field, *i));
        let mut entries = ArenaVec::with_capacity_in(order.len(), self.arena());
        entries.extend(order.into_iter().filter_map(|(_, _, i)| record.entries.get(i)));
        entries
    }
}

fn go_type(field: TypedMap) -> &'static str {
    match field {
        TypedMap::Strings => "string",
        TypedMap::Int64s => "int64",
        TypedMap::Doubles => "float64",
        TypedMap::Bools => "bool",
        TypedMap::Timestamps => "time.Time",
        TypedMap::Durations => "time.Duration",
        TypedMap::Bytes => "[]uint8",
        TypedMap::StringMaps => "attribute.StringMap",
    }
}
