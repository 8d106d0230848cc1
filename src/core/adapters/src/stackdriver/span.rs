//! Spans.

use std::collections::BTreeMap;

use mixer_attribute::Value;
use mixer_delivery::Item;
use mixer_engine::adapter::{BoundInstance, Instance};
use prost::Message as _;

use super::labels::label;
use super::wire::{
    AttributeKind, AttributeValue, Attributes, MessageEvent, MessageKind, RpcStatus, Span, TimeEvent,
    TimeEvents, Truncatable,
};
use crate::tracespan::{Outcome, SpanTemplate, is_sampled, status_of};

/// Longest name of a span and of an attribute, and longest value of an attribute, in bytes.
const MAX_NAME: usize = 128;
const MAX_VALUE: usize = 256;
/// The attribute that names the sender.
const AGENT: (&str, &str) = ("g.co/agent", concat!("mixer ", env!("CARGO_PKG_VERSION")));
/// Names of Istio's tags, and those of Google.
const RENAMED: [(&str, &str); 5] = [
    ("http.path", "/http/path"),
    ("http.host", "/http/host"),
    ("http.method", "/http/method"),
    ("http.user_agent", "/http/user_agent"),
    ("http.status_code", "/http/status_code"),
];

/// A span on its way.
#[derive(Debug, PartialEq)]
pub(super) struct SpanItem(pub(super) Span, usize);

impl Item for SpanItem {
    fn size(&self) -> usize {
        self.1
    }
}

/// How instances become spans.
pub(super) struct TraceTemplate {
    span: SpanTemplate,
    tags: Vec<(String, usize)>,
    sampling: f64,
    /// `projects/PROJECT/traces/`
    prefix: String,
}

impl TraceTemplate {
    pub(super) fn new(project: &str, sampling: f64, instance: &BoundInstance) -> Self {
        let tags = instance.entries("span_tags").map(|(key, at)| (key.to_owned(), at)).collect();
        let prefix = format!("projects/{project}/traces/");
        Self { span: SpanTemplate::new(instance), tags, sampling, prefix }
    }

    /// The span of an instance.
    pub(super) fn span(&self, instance: &Instance<'_>) -> Outcome<SpanItem> {
        let reported = match self.span.read(instance, |trace_id| is_sampled(trace_id, self.sampling)) {
            Outcome::Span(span) => span,
            Outcome::None => return Outcome::None,
            Outcome::Impossible(why) => return Outcome::Impossible(why),
        };
        let span_id = format!("{:016x}", reported.id);
        let (prefix, first, second) = match reported.is_client {
            true => ("Sent.", MessageKind::Sent, MessageKind::Received),
            false => ("Recv.", MessageKind::Received, MessageKind::Sent),
        };
        let name = format!("{prefix}{}", String::from_utf8_lossy(reported.name));
        let event = |nanos, kind: MessageKind, size| TimeEvent {
            time: Some(moment(nanos)),
            message: Some(MessageEvent { kind: kind as i32, uncompressed_size: size, compressed_size: size }),
        };
        let status = (reported.http_status > 0).then(|| {
            let (code, message) = status_of(reported.http_status);
            RpcStatus { code, message: message.to_owned() }
        });
        let span = Span {
            name: format!("{}{:032x}/spans/{span_id}", self.prefix, reported.trace_id),
            span_id,
            parent_span_id: reported.parent_id.map(|id| format!("{id:016x}")).unwrap_or_default(),
            display_name: Some(truncated(name, MAX_NAME)),
            start_time: Some(moment(reported.start)),
            end_time: Some(moment(reported.end)),
            attributes: Some(self.attributes(instance, reported.http_status)),
            time_events: Some(TimeEvents {
                events: vec![
                    event(reported.start, first, reported.request_size),
                    event(reported.end, second, reported.response_size),
                ],
            }),
            status,
            same_process_as_parent: Some(reported.is_client),
        };
        let size = size_of::<SpanItem>() + 2 * span.encoded_len();
        Outcome::Span(SpanItem(span, size))
    }

    fn attributes(&self, instance: &Instance<'_>, http_status: i64) -> Attributes {
        let mut map = BTreeMap::new();
        let mut dropped = 0;
        let mut add = |key: &str, value: AttributeKind| {
            let renamed = RENAMED.iter().find(|(name, _)| *name == key).map_or(key, |(_, renamed)| *renamed);
            if renamed.len() > MAX_NAME {
                dropped += 1;
            } else {
                map.insert(renamed.to_owned(), AttributeValue { value: Some(value) });
            }
        };
        let text = |text: String| AttributeKind::Text(truncated(text, MAX_VALUE));
        for (key, at) in &self.tags {
            match instance.value(*at) {
                // compat(1.3): Google has no such attributes.
                None | Some(Value::Double(_)) => {}
                Some(Value::Int64(number)) => add(key, AttributeKind::Int(number)),
                Some(Value::Bool(value)) => add(key, AttributeKind::Bool(value)),
                Some(Value::String(value)) => add(key, text(String::from_utf8_lossy(value).into_owned())),
                other => add(key, text(label(other))),
            }
        }
        if http_status > 0 {
            add("http.status_code", AttributeKind::Int(http_status));
        }
        add(AGENT.0, text(AGENT.1.to_owned()));
        Attributes { map, dropped }
    }
}

/// A text of at most so many bytes, and how many were cut off.
fn truncated(mut text: String, most: usize) -> Truncatable {
    let length = text.len();
    text.truncate(text.floor_char_boundary(most));
    let cut = i32::try_from(length - text.len()).unwrap_or(i32::MAX);
    Truncatable { value: text, truncated_byte_count: cut }
}

/// A moment in nanoseconds since 1970.
fn moment(nanos: i128) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: i64::try_from(nanos.div_euclid(1_000_000_000)).unwrap_or(i64::MAX),
        nanos: i32::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or(0),
    }
}
