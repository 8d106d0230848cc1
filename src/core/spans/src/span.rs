//! A finished span.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use super::SpanContext;

/// Which side of a call a span is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A call that was answered.
    Server,
    /// A call that was made.
    Client,
    /// A part of the work.
    Local,
}

/// The value of a tag or of a field of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text.
    Text(Cow<'static, str>),
    /// Yes or no.
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
    fn from(truth: bool) -> Self {
        Value::Bool(truth)
    }
}

impl Value {
    /// As JSON.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Text(text) => serde_json::Value::from(&**text),
            Value::Bool(truth) => serde_json::Value::from(*truth),
            Value::Number(number) => serde_json::Value::from(*number),
        }
    }
}

/// As text.
impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Text(text) => f.write_str(text),
            Value::Bool(truth) => write!(f, "{truth}"),
            Value::Number(number) => write!(f, "{number}"),
        }
    }
}

/// A name and a value.
pub type Tag = (&'static str, Value);

/// Something that happened within a span.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// When.
    pub at: SystemTime,
    /// What, field by field.
    pub fields: Vec<Tag>,
}

/// A piece of work and its place in a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// What was done.
    pub name: String,
    /// Where it belongs.
    pub context: SpanContext,
    /// Whether its parent is in another process.
    pub remote_parent: bool,
    /// Which side it is.
    pub kind: Kind,
    /// When it began.
    pub started: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// What is known of it.
    pub tags: Vec<Tag>,
    /// What happened meanwhile.
    pub events: Vec<Event>,
}

impl Span {
    /// Whether it says that something failed.
    pub fn failed(&self) -> bool {
        self.tags.iter().any(|(name, value)| *name == "error" && *value == Value::Bool(true))
    }

    /// Microseconds of its start since 1970.
    pub(super) fn started_micros(&self) -> i64 {
        micros(self.started)
    }

    /// Microseconds that it took; at least 1, since 0 is "unknown" to collectors.
    pub(super) fn took_micros(&self) -> i64 {
        i64::try_from(self.took.as_micros()).unwrap_or(i64::MAX).max(1)
    }
}

/// Microseconds since 1970.
pub(super) fn micros(at: SystemTime) -> i64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
