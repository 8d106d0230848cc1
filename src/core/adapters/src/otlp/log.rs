//! Log records.

use mixer_attribute::{Timestamp, Value};
use mixer_delivery::{Item, StoredItem};
use mixer_engine::adapter::{BoundInstance, Instance};
use mixer_otlp::{AnyValue, LogRecord, severity_number};
use prost::Message as _;

use super::attributes::{Attribute, any, attributes, push};
use super::params::{LogInfo, Params};
use crate::tracespan::{Id, id};

/// A log record on its way, encoded.
pub(super) struct Record(pub(super) Box<[u8]>);

impl Item for Record {
    fn size(&self) -> usize {
        size_of::<Self>() + self.0.len()
    }
}

impl StoredItem for Record {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.into()))
    }
}

/// How instances become log records.
pub(super) struct LogTemplate {
    name: String,
    timestamp: Option<usize>,
    severity: Option<usize>,
    body: Option<usize>,
    trace_id: Option<usize>,
    span_id: Option<usize>,
    attributes: Vec<Attribute>,
}

impl LogTemplate {
    pub(super) fn new(params: &Params, instance: &BoundInstance) -> Self {
        let none = LogInfo::default();
        let info = params.logs.get(&*instance.name).unwrap_or(&none);
        let all = attributes(params, instance, "variables");
        let at =
            |name: &str| all.iter().find(|attribute| *attribute.key == *name).map(|attribute| attribute.at);
        let (body, trace_id, span_id) = (at(&info.body), at(&info.trace_id), at(&info.span_id));
        let is_special = |attribute: &Attribute| [body, trace_id, span_id].contains(&Some(attribute.at));
        Self {
            name: instance.name.to_string(),
            timestamp: instance.position("timestamp"),
            severity: instance.position("severity"),
            body,
            trace_id,
            span_id,
            attributes: all.into_iter().filter(|attribute| !is_special(attribute)).collect(),
        }
    }

    /// The record of an instance that was reported at a time since 1970, in nanoseconds. An id that is none is left out.
    pub(super) fn record(&self, instance: &Instance<'_>, observed: u64) -> Record {
        let value = |at: Option<usize>| at.and_then(|at| instance.value(at));
        let text = |at: Option<usize>| match value(at) {
            Some(Value::String(text)) => text,
            _ => b"",
        };
        let severity = String::from_utf8_lossy(text(self.severity));
        let number = |at: Option<usize>, bytes: usize| match id(text(at), bytes) {
            Id::Number(number) => number,
            Id::None | Id::TooLong => 0,
        };
        let (trace_id, span_id) = (number(self.trace_id, 16), number(self.span_id, 8));
        let record = LogRecord {
            time_unix_nano: nanos(value(self.timestamp)),
            severity_number: severity_number(&severity),
            severity_text: severity.into_owned(),
            body: value(self.body).map(|value| AnyValue { kind: Some(any(value)) }),
            trace_id: if trace_id == 0 { Vec::new() } else { trace_id.to_be_bytes().into() },
            span_id: if span_id == 0 { Vec::new() } else { (span_id as u64).to_be_bytes().into() },
            observed_time_unix_nano: observed,
            event_name: self.name.clone(),
            ..LogRecord::default()
        };
        let mut encoded = Vec::with_capacity(512);
        // A Vec has room.
        let _ = record.encode(&mut encoded);
        for attribute in &self.attributes {
            if let Some(value) = instance.value(attribute.at) {
                push(&mut encoded, LogRecord::ATTRIBUTES, &attribute.name, value);
            }
        }
        Record(encoded.into())
    }
}

/// Nanoseconds since 1970; 0, which means that it is not known, for any other time.
fn nanos(time: Option<Value<'_>>) -> u64 {
    let Some(Value::Timestamp(Timestamp { seconds, nanos })) = time else { return 0 };
    u64::try_from(i128::from(seconds) * 1_000_000_000 + i128::from(nanos)).unwrap_or(0)
}
