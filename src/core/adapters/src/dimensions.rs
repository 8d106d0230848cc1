//! Dimensions of quotas that select an override: values of any type, written as text.

use std::net::IpAddr;

use mixer_attribute::text::{ip_from_bytes, push_text};
use mixer_attribute::{SignedDuration, StringMap, Timestamp, Value};
use mixer_config::message::Entries;
use mixer_engine::adapter::{BoundInstance, Instance, QuotaKey};

/// The dimensions of an override, all of which must match.
#[derive(Debug)]
pub(crate) struct Dimensions(Vec<DimensionMatch>);

impl Dimensions {
    /// Resolves dimensions as configured against those of an instance.
    pub(crate) fn new(configured: &Entries<Option<String>>, instance: &BoundInstance) -> Self {
        let resolve = |(name, text): (&str, &Option<String>)| DimensionMatch {
            position: instance.entries("dimensions").find(|(key, _)| *key == name).map(|(_, at)| at),
            // compat(1.3): null is the empty text.
            text: Pattern::new(text.as_deref().unwrap_or_default()),
        };
        Self(configured.iter().map(resolve).collect())
    }

    /// Their names, of those of the instance, and their texts.
    pub(crate) fn describe(&self, names: &[String]) -> QuotaKey {
        let describe = |dimension: &DimensionMatch| {
            let name = dimension.position.and_then(|at| names.get(at)).cloned();
            (name.unwrap_or_default(), dimension.text.text.to_string())
        };
        self.0.iter().map(describe).collect()
    }

    /// Whether the values of an instance match.
    pub(crate) fn match_all(&self, instance: &Instance<'_>) -> bool {
        let holds = |dimension: &DimensionMatch| {
            dimension.text.matches(dimension.position.and_then(|at| instance.value(at)))
        };
        self.0.iter().all(holds)
    }
}

/// One dimension of an override.
#[derive(Debug)]
struct DimensionMatch {
    /// `None`: the instance has no such dimension.
    position: Option<usize>,
    text: Pattern,
}

/// Configuration text with its value in every type.
#[derive(Debug)]
struct Pattern {
    text: Box<str>,
    int: Option<i64>,
    double: Option<f64>,
    bool: Option<bool>,
    timestamp: Option<Timestamp>,
    duration: Option<SignedDuration>,
    ip: Option<IpAddr>,
}

impl Pattern {
    fn new(text: &str) -> Self {
        Self {
            text: text.into(),
            int: text.parse().ok(),
            double: text.parse().ok(),
            bool: match text {
                "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
                "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
                _ => None,
            },
            timestamp: Timestamp::from_text(text.as_bytes()),
            duration: SignedDuration::parse(text).ok(),
            // Istio Mixer compares addresses as text: only the canonical form matches.
            ip: text.parse().ok().filter(|ip: &IpAddr| ip.to_canonical().to_string() == text),
        }
    }

    /// Whether the text denotes `value`. compat(1.3): empty text matches any number, Boolean or time, because it does not parse
    /// and then compares like an absent value; pinned by `an_empty_override_matches_what_it_cannot_be`.
    fn matches(&self, value: Option<Value<'_>>) -> bool {
        let or_empty = |parsed: Option<bool>| parsed.unwrap_or(self.text.is_empty());
        match value {
            None => self.text.is_empty(),
            Some(Value::String(bytes)) => bytes == self.text.as_bytes(),
            Some(Value::Int64(value)) => or_empty(self.int.map(|p| p == value)),
            Some(Value::Double(value)) => or_empty(self.double.map(|p| p == value)),
            Some(Value::Bool(value)) => or_empty(self.bool.map(|p| p == value)),
            Some(Value::Timestamp(value)) => or_empty(self.timestamp.map(|p| p == value)),
            Some(Value::Duration(value)) => or_empty(self.duration.map(|p| p == value)),
            Some(Value::Bytes(bytes)) => self.ip.is_some_and(|ip| ip_from_bytes(bytes) == Some(ip)),
            Some(Value::StringMap(map)) => is_map_text(self.text.as_bytes(), map),
        }
    }
}

/// Whether `text` is `stringmap[k1:v1 k2:v2]` with the entries of `map`, keys sorted.
fn is_map_text(text: &[u8], map: &StringMap<'_>) -> bool {
    let mut shown = Vec::with_capacity(text.len());
    push_text(&mut shown, Value::StringMap(map));
    shown == text
}
