//! Reading by name, including names outside the vocabulary: for tools and tests, not for requests.

use std::collections::BTreeMap;

use super::{AttributeBag, Origin};
use crate::wire::Payload;
use crate::{StringMap, Value};

/// An attribute by its name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NamedValue<'a> {
    /// The name, not necessarily UTF-8.
    pub name: &'a [u8],
    /// The value; `None` if its index is invalid, so that it reads as absent.
    pub value: Option<Value<'a>>,
}

impl<'a> AttributeBag<'a> {
    /// Every attribute with its value, sorted by name. Records no references, nor do look-ups in the string maps.
    /// Cost: allocates; O(n log n).
    pub fn all(&self) -> Vec<NamedValue<'a>> {
        let mut owners: BTreeMap<&'a [u8], i32> = BTreeMap::new();
        for (text, index) in self.words.texts().iter().zip(0i32..) {
            owners.insert(text, !index);
        }
        // By name: the rank of the typed map, and the value.
        let mut named: BTreeMap<&'a [u8], (u8, Option<Value<'a>>)> = BTreeMap::new();
        for entry in self.entries {
            let Some(name) = self.words.resolve(entry.index) else { continue };
            let (rank, best) = named.entry(name).or_insert((u8::MAX, None));
            if owners.get(name).is_none_or(|owner| *owner == entry.index) && entry.field.rank() <= *rank {
                let value = self.resolve(entry.payload.get(), self.words, None);
                (*rank, *best) = (entry.field.rank(), value.map(|value| self.untracked(value)));
            }
        }
        let on_top = self.delta.iter().copied().chain(
            self.overlay
                .iter()
                .filter(|made| made.origin != Origin::Declined)
                .map(|made| (self.vocabulary.name(made.slot).as_bytes(), made.value)),
        );
        for (name, value) in on_top {
            named.insert(name, (0, Some(value)));
        }
        named.into_iter().map(|(name, (_, value))| NamedValue { name, value }).collect()
    }

    /// The attributes that the request did not carry or that replace its own, with their values; of one set twice both.
    pub fn made(&self) -> impl Iterator<Item = NamedValue<'a>> + '_ {
        let made = self.overlay.iter().filter(|made| made.origin != Origin::Declined);
        made.map(|made| NamedValue {
            name: self.vocabulary.name(made.slot).as_bytes(),
            value: Some(made.value),
        })
    }

    /// An upper estimate of the number of attributes that were sent, each entry of a string map counted. Allocates nothing; O(n).
    pub fn max_len(&self) -> usize {
        let entries = self.entries.iter().map(|entry| match entry.payload.get() {
            Payload::Map(raw) => raw.size_hint(),
            Payload::Value(Value::StringMap(map)) => map.entries.len(),
            Payload::Word(_) | Payload::Value(_) | Payload::Unreadable => 1,
        });
        entries.sum::<usize>() + self.delta.len() + self.overlay.len()
    }

    /// The same value without a source, so that look-ups in it are not recorded.
    fn untracked(&self, value: Value<'a>) -> Value<'a> {
        match value {
            Value::StringMap(StringMap { entries, source: Some(_) }) => {
                Value::StringMap(self.arena().alloc(StringMap { entries, source: None }))
            }
            other => other,
        }
    }
}
