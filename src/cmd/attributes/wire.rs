//! Attributes and durations on the wire.

use std::collections::BTreeMap;

use prost_types::{Duration as WireDuration, Timestamp as WireTimestamp};

use super::set::AttributeSet;
use super::value::AttributeValue;
use mixer_attribute::{GLOBAL_WORDS, SignedDuration, global_index};
use mixer_wire::istio::mixer::v1::{CompressedAttributes, StringMap};

/// Which words are encoded with the global dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Dictionary {
    /// None: the message has its own word list, as Istio mixc sends it.
    #[default]
    Message,
    /// All words that the global dictionary contains.
    Global,
}

impl Dictionary {
    /// The value of `global_word_count`.
    pub(crate) fn word_count(self) -> u32 {
        match self {
            Dictionary::Message => 0,
            Dictionary::Global => u32::try_from(GLOBAL_WORDS.len()).unwrap_or(0),
        }
    }
}

/// Encodes a set.
pub(crate) fn encode(set: &AttributeSet, dictionary: Dictionary) -> CompressedAttributes {
    let mut encoder =
        Encoder { dictionary, known: BTreeMap::new(), message: CompressedAttributes::default() };
    for (name, value) in set.iter() {
        encoder.add(name, value);
    }
    encoder.message
}

struct Encoder {
    dictionary: Dictionary,
    known: BTreeMap<String, i32>,
    message: CompressedAttributes,
}

impl Encoder {
    fn word(&mut self, text: &str) -> i32 {
        if self.dictionary == Dictionary::Global
            && let Some(index) = global_index(text.as_bytes()).and_then(|i| i32::try_from(i).ok())
        {
            return index;
        }
        if let Some(index) = self.known.get(text) {
            return *index;
        }
        self.message.words.push(text.as_bytes().to_vec().into());
        let index = i32::try_from(self.message.words.len()).map_or(i32::MIN, |n| -n);
        self.known.insert(text.to_owned(), index);
        index
    }

    fn add(&mut self, name: &str, value: &AttributeValue) {
        let name = self.word(name);
        match value {
            AttributeValue::String(text) => {
                let text = self.word(text);
                self.message.strings.insert(name, text);
            }
            AttributeValue::Int64(number) => drop(self.message.int64s.insert(name, *number)),
            AttributeValue::Double(number) => drop(self.message.doubles.insert(name, *number)),
            AttributeValue::Bool(value) => drop(self.message.bools.insert(name, *value)),
            AttributeValue::Timestamp(time) => {
                let nanos = i32::try_from(time.nanos).unwrap_or(0);
                self.message.timestamps.insert(name, WireTimestamp { seconds: time.seconds, nanos });
            }
            AttributeValue::Duration(duration) => {
                self.message.durations.insert(name, to_wire(*duration));
            }
            AttributeValue::Bytes(bytes) => drop(self.message.bytes.insert(name, bytes.clone().into())),
            AttributeValue::StringMap(map) => {
                let entries = map.iter().map(|(k, v)| (self.word(k), self.word(v))).collect();
                self.message.string_maps.insert(name, StringMap { entries });
            }
        }
    }
}

fn to_wire(duration: SignedDuration) -> WireDuration {
    let (seconds, nanos) = (duration.nanos / 1_000_000_000, duration.nanos % 1_000_000_000);
    WireDuration { seconds, nanos: i32::try_from(nanos).unwrap_or(0) }
}

/// Decodes a duration; saturates.
pub(crate) fn from_wire(duration: Option<WireDuration>) -> SignedDuration {
    let duration = duration.unwrap_or_default();
    let nanos = duration.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(duration.nanos));
    SignedDuration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::super::value::AttributeType;
    use super::*;

    #[test]
    fn words_are_shared_and_negative() {
        let mut set = AttributeSet::default();
        set.add_flag(AttributeType::String, "source.user=ann,source.name=ann").unwrap();
        let message = encode(&set, Dictionary::Message);
        assert_eq!(message.words, [&b"source.user"[..], b"ann", b"source.name"]);
        assert_eq!(message.strings, [(-1, -2), (-3, -2)].into());
        let shared = encode(&set, Dictionary::Global);
        assert_eq!(shared.words, [&b"ann"[..]]);
        assert_eq!(shared.strings, [(6, -1), (2, -1)].into());
    }
}
