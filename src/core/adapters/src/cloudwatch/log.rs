//! Log entries.

use mixer_attribute::text::ip_text;
use mixer_attribute::{Timestamp, Value};
use mixer_delivery::Item;
use mixer_engine::adapter::{BoundInstance, Instance};

use super::params::Params;
use crate::go_template::{GoTemplate, Printing};

/// The message of an instance without a template: a line as of an access log.
const DEFAULT: &str = "{{or (.source_ip) \"-\"}} - {{or (.source_user) \"-\"}} \
     [{{or (.timestamp.Format \"2006-01-02T15:04:05Z07:00\") \"-\"}}] \"{{or (.method) \"-\"}} {{or (.url) \"-\"}} \
     {{or (.protocol) \"-\"}}\" {{or (.response_code) \"-\"}} {{or (.response_size) \"-\"}}";
/// Bytes of a message at most. The service takes 256 KiB with what it adds.
const MAX_MESSAGE: usize = (256 << 10) - 64;

/// An entry on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// Milliseconds since 1970.
    pub(super) at: i64,
    pub(super) message: Box<str>,
}

/// What the service adds to the size of a message, and more.
const OVERHEAD: usize = 32;

impl Item for Event {
    fn size(&self) -> usize {
        OVERHEAD + self.message.len()
    }
}

/// How instances become entries.
pub(super) struct LogTemplate {
    message: GoTemplate,
    printing: Printing,
    timestamp: Option<usize>,
    severity: Option<usize>,
    variables: Vec<(String, usize)>,
}

impl LogTemplate {
    /// Errors: no template, which was a problem of the parameters.
    pub(super) fn new(params: &Params, instance: &BoundInstance) -> Result<Self, String> {
        let template = params.logs.get(&*instance.name).map_or("", |info| info.payload_template.trim());
        let template = match template {
            "" => DEFAULT,
            _ => params.logs.get(&*instance.name).map_or(DEFAULT, |info| &info.payload_template),
        };
        Ok(Self {
            message: GoTemplate::parse(&instance.name, template)?,
            printing: if params.html_escape { Printing::Html } else { Printing::Plain },
            timestamp: instance.position("timestamp"),
            severity: instance.position("severity"),
            variables: instance.entries("variables").map(|(key, at)| (key.to_owned(), at)).collect(),
        })
    }

    /// The entry of an instance; one without a time has that of its report. `None`: its message is empty, which the service does not take.
    /// Errors: the template cannot be executed with these values.
    pub(super) fn event(&self, instance: &Instance<'_>, now: Timestamp) -> Result<Option<Event>, String> {
        let of = |at: Option<usize>| at.and_then(|at| instance.value(at));
        let time = match of(self.timestamp) {
            Some(Value::Timestamp(time)) => time,
            _ => now,
        };
        let variable = |key: &str| {
            let (_, at) = self.variables.iter().find(|(known, _)| known == key)?;
            instance.value(*at)
        };
        let address = match variable("source_ip") {
            Some(Value::Bytes(bytes)) => Some(ip_text(bytes).to_string()),
            _ => None,
        };
        let value = |key: &str| match (key, &address) {
            ("timestamp", _) => Some(Value::Timestamp(time)),
            ("severity", _) => of(self.severity),
            ("source_ip", Some(text)) => Some(Value::String(text.as_bytes())),
            _ => variable(key),
        };
        let mut message = Vec::new();
        self.message.execute(&value, self.printing, &mut message)?;
        let mut message = String::from_utf8_lossy(&message).into_owned();
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        if message.is_empty() {
            return Ok(None);
        }
        let at = time.unix_nanos().div_euclid(1_000_000).max(0);
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        Ok(Some(Event { at, message: message.into() }))
    }
}
