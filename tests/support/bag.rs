//! Encodes attributes as clients do.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost_types::{Duration, Timestamp};
use serde_yaml::Value;

use super::rpc::mixer::{CompressedAttributes, StringMap};

/// The value of one attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Attribute {
    Text(String),
    Int64(i64),
    Double(f64),
    Bool(bool),
    Timestamp(Timestamp),
    Duration(Duration),
    Bytes(Vec<u8>),
    StringMap(BTreeMap<String, String>),
}

/// Attributes by name.
pub(crate) type Attributes = BTreeMap<String, Attribute>;

/// Assigns indexes to words.
#[derive(Debug, Clone, Default)]
pub(crate) struct Words {
    words: Vec<String>,
    global: usize,
}

impl Words {
    /// All words in the message.
    pub(crate) fn of_message() -> Self {
        Self::default()
    }

    /// The first words of the global dictionary by their index, all others in the message.
    pub(crate) fn global(count: usize) -> Self {
        Self { words: Vec::new(), global: count }
    }

    /// The index of a word, which is added if it is new.
    pub(crate) fn index(&mut self, word: &str) -> i32 {
        let globals = ::mixer_attribute::GLOBAL_WORDS;
        if let Some(found) = globals.iter().take(self.global).position(|global| *global == word) {
            return i32::try_from(found).unwrap_or(i32::MAX);
        }
        let position = self.words.iter().position(|known| known == word).unwrap_or_else(|| {
            self.words.push(word.to_owned());
            self.words.len() - 1
        });
        -i32::try_from(position).unwrap_or(i32::MAX - 1) - 1
    }

    /// The words of the message so far.
    pub(crate) fn list(&self) -> Vec<Bytes> {
        self.words.iter().map(|word| Bytes::from(word.clone())).collect()
    }
}

/// Encodes without the list of words.
pub(crate) fn encode(attributes: &Attributes, words: &mut Words) -> CompressedAttributes {
    let mut message = CompressedAttributes::default();
    for (name, value) in attributes {
        let index = words.index(name);
        match value {
            Attribute::Text(text) => {
                let text = words.index(text);
                message.strings.insert(index, text);
            }
            Attribute::Int64(number) => {
                message.int64s.insert(index, *number);
            }
            Attribute::Double(number) => {
                message.doubles.insert(index, *number);
            }
            Attribute::Bool(flag) => {
                message.bools.insert(index, *flag);
            }
            Attribute::Timestamp(time) => {
                message.timestamps.insert(index, *time);
            }
            Attribute::Duration(length) => {
                message.durations.insert(index, *length);
            }
            Attribute::Bytes(bytes) => {
                message.bytes.insert(index, Bytes::from(bytes.clone()));
            }
            Attribute::StringMap(map) => {
                let entries = map.iter().map(|(key, value)| (words.index(key), words.index(value))).collect();
                message.string_maps.insert(index, StringMap { entries });
            }
        }
    }
    message
}

/// Encodes a self-contained message.
pub(crate) fn encode_alone(attributes: &Attributes, mut words: Words) -> CompressedAttributes {
    let mut message = encode(attributes, &mut words);
    message.words = words.list();
    message
}

/// Attributes grouped by type, in the format of scenarios.
pub(crate) fn grouped(node: &Value) -> Result<Attributes, String> {
    let mut attributes = Attributes::new();
    let Some(groups) = node.as_mapping() else { return Ok(attributes) };
    for (group, members) in groups {
        let group = group.as_str().ok_or("a group of attributes is not named")?;
        if group == "raw" {
            continue;
        }
        for (name, value) in members.as_mapping().ok_or_else(|| format!("{group} is no map"))? {
            let name = name.as_str().ok_or_else(|| format!("{group}: a name is not text"))?;
            let value = typed(group, value).ok_or_else(|| format!("{group} {name}: bad value {value:?}"))?;
            attributes.insert(name.to_owned(), value);
        }
    }
    Ok(attributes)
}

/// A value of a type by its name in scenarios.
pub(crate) fn typed(kind: &str, value: &Value) -> Option<Attribute> {
    Some(match kind {
        "string" => Attribute::Text(text(value)?),
        "int64" => Attribute::Int64(value.as_i64()?),
        "double" => Attribute::Double(value.as_f64()?),
        "bool" => Attribute::Bool(value.as_bool()?),
        "timestamp" => Attribute::Timestamp(value.as_str()?.parse().ok()?),
        "duration" => Attribute::Duration(go_duration(value.as_str()?)?),
        "bytes" => Attribute::Bytes(hex(value.as_str()?)?),
        "stringmap" => Attribute::StringMap(
            value
                .as_mapping()?
                .iter()
                .map(|(key, value)| Some((text(key)?, text(value)?)))
                .collect::<Option<_>>()?,
        ),
        _ => return None,
    })
}

/// Text, or `{repeat: TEXT, count: N}`.
fn text(value: &Value) -> Option<String> {
    if let Some(text) = value.as_str() {
        return Some(text.to_owned());
    }
    let count = usize::try_from(value.get("count")?.as_u64()?).ok()?;
    Some(value.get("repeat")?.as_str()?.repeat(count))
}

/// Adds `words` and entries with literal indexes.
pub(crate) fn add_raw(raw: &Value, message: &mut CompressedAttributes) -> Result<(), String> {
    let index = |value: &Value| value.as_i64().and_then(|index| i32::try_from(index).ok());
    for (group, members) in raw.as_mapping().into_iter().flatten() {
        let group = group.as_str().unwrap_or_default();
        let bad = || format!("raw {group}: not understood");
        if group == "words" {
            let words = members.as_sequence().ok_or_else(bad)?;
            message
                .words
                .extend(words.iter().filter_map(Value::as_str).map(|word| Bytes::from(word.to_owned())));
            continue;
        }
        for (name, value) in members.as_mapping().ok_or_else(bad)? {
            let name = index(name).ok_or_else(bad)?;
            match group {
                "strings" => drop(message.strings.insert(name, index(value).ok_or_else(bad)?)),
                "int64s" => drop(message.int64s.insert(name, value.as_i64().ok_or_else(bad)?)),
                "doubles" => drop(message.doubles.insert(name, value.as_f64().ok_or_else(bad)?)),
                "bools" => drop(message.bools.insert(name, value.as_bool().ok_or_else(bad)?)),
                "bytes" => {
                    let bytes = value.as_str().and_then(hex).ok_or_else(bad)?;
                    message.bytes.insert(name, Bytes::from(bytes));
                }
                "string_maps" => {
                    let entries = value.as_mapping().ok_or_else(bad)?.iter();
                    let entries = entries.map(|(key, value)| Some((index(key)?, index(value)?)));
                    let entries = entries.collect::<Option<_>>().ok_or_else(bad)?;
                    message.string_maps.insert(name, StringMap { entries });
                }
                _ => return Err(bad()),
            }
        }
    }
    Ok(())
}

/// Bytes of hexadecimal text.
pub(crate) fn hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|start| u8::from_str_radix(text.get(start..start + 2)?, 16).ok()).collect()
}

/// Nanoseconds of a Go duration such as `1h2m3.5s`.
pub(crate) fn go_nanos(text: &str) -> Option<i128> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut nanos = 0.0_f64;
    let mut exact = 0_i128;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let scale: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        match number.parse::<i128>() {
            Ok(whole) => exact += whole * scale,
            Err(_) => nanos += number.parse::<f64>().ok()? * scale as f64,
        }
        rest = after;
    }
    Some(sign * (exact + nanos.round() as i128))
}

/// The duration message of a Go duration.
pub(crate) fn go_duration(text: &str) -> Option<Duration> {
    let nanos = go_nanos(text)?;
    let seconds = i64::try_from(nanos / 1_000_000_000).ok()?;
    Some(Duration { seconds, nanos: i32::try_from(nanos % 1_000_000_000).ok()? })
}

/// Nanoseconds of a duration message; none is zero.
pub(crate) fn nanos_of(duration: Option<&Duration>) -> i128 {
    duration.map_or(0, |d| i128::from(d.seconds) * 1_000_000_000 + i128::from(d.nanos))
}
