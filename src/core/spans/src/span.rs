//! Spans, their tags and events.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use mixer_delivery::Item;

use super::SpanContext;

/// The kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A call that this process served.
    Server,
    /// A call that this process made.
    Client,
    /// Work within this process.
    Local,
}

/// The value of a tag or of a field of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text.
    Text(Cow<'static, str>),
    /// A Boolean.
    Bool(bool),
    /// A number.
    Number(f64),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Value::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(Cow::Owned(text))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl Value {
    /// As JSON.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Text(text) => serde_json::Value::from(&**text),
            Value::Bool(value) => serde_json::Value::from(*value),
            Value::Number(number) => serde_json::Value::from(*number),
        }
    }
}

/// As text.
impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Text(text) => f.write_str(text),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Number(number) => write!(f, "{number}"),
        }
    }
}

/// A name and a value.
pub type Tag = (&'static str, Value);

/// An event within a span.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The time of the event.
    pub at: SystemTime,
    /// Its fields.
    pub fields: Vec<Tag>,
}

/// A finished span.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The operation.
    pub name: String,
    /// Its trace, id and parent.
    pub context: SpanContext,
    /// Whether its parent is in another process.
    pub remote_parent: bool,
    /// Server, client or local.
    pub kind: SpanKind,
    /// Start time.
    pub started: SystemTime,
    /// Duration.
    pub took: Duration,
    /// Tags.
    pub tags: Vec<Tag>,
    /// Events, in order.
    pub events: Vec<Event>,
}

impl Span {
    /// Whether it has the tag `error`.
    pub fn failed(&self) -> bool {
        self.tags.iter().any(|(name, value)| *name == "error" && *value == Value::Bool(true))
    }

    /// Start time in Unix microseconds.
    pub(super) fn started_micros(&self) -> i64 {
        micros(self.started)
    }

    /// Duration in microseconds; at least 1, because collectors read 0 as unknown.
    pub(super) fn took_micros(&self) -> i64 {
        i64::try_from(self.took.as_micros()).unwrap_or(i64::MAX).max(1)
    }
}

impl Item for Span {
    /// With what the allocator adds.
    fn size(&self) -> usize {
        let of_tags = |tags: &Vec<Tag>| {
            let texts = tags.iter().map(|(_, value)| match value {
                Value::Text(Cow::Owned(text)) => text.len() + 16,
                Value::Text(_) | Value::Bool(_) | Value::Number(_) => 0,
            });
            tags.capacity() * size_of::<Tag>() + 16 + texts.sum::<usize>()
        };
        let events = self.events.iter().map(|event| size_of::<Event>() + of_tags(&event.fields));
        // Twice: a queue that grows has room for as many spans as it holds.
        2 * size_of::<Self>() + self.name.len() + 32 + of_tags(&self.tags) + events.sum::<usize>()
    }
}

/// Unix time in microseconds.
pub(super) fn micros(at: SystemTime) -> i64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
