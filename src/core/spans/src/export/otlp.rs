//! OTLP: `opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest`.

use std::time::SystemTime;

use prost::Message;

use super::super::{Event, Span, SpanKind, Tag, Value};

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<OtlpSpan>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpSpan {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    events: Vec<OtlpEvent>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpEvent {
    #[prost(fixed64, tag = "1")]
    time_unix_nano: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "3")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "AnyValueKind", tags = "1, 2, 4")]
    kind: Option<AnyValueKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum AnyValueKind {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(double, tag = "4")]
    Number(f64),
}

/// `STATUS_CODE_ERROR`.
const ERROR: i32 = 2;
/// Flags: sampled, has-is-remote, is-remote.
const SAMPLED: u32 = 1;
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// Encodes a request.
pub(super) fn protobuf(spans: &[Span], service: &str) -> Vec<u8> {
    let resource = Resource {
        attributes: vec![
            attribute("service.name", service.to_owned().into()),
            attribute("service.version", env!("CARGO_PKG_VERSION").into()),
        ],
    };
    let scope = Scope { name: "mixer".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let scope_spans = ScopeSpans { scope: Some(scope), spans: spans.iter().map(convert).collect() };
    let spans = ResourceSpans { resource: Some(resource), scope_spans: vec![scope_spans] };
    Request { resource_spans: vec![spans] }.encode_to_vec()
}

fn convert(span: &Span) -> OtlpSpan {
    let context = &span.context;
    let mut attributes: Vec<KeyValue> = Vec::new();
    // The RPC conventions name a call by its full method name.
    if let Some((service, method)) = span.name.strip_prefix('/').and_then(|name| name.split_once('/')) {
        attributes.push(attribute("rpc.system", "grpc".into()));
        attributes.push(attribute("rpc.service", service.to_owned().into()));
        attributes.push(attribute("rpc.method", method.to_owned().into()));
    }
    attributes.extend(span.tags.iter().map(key_value));
    OtlpSpan {
        trace_id: context.trace.0.to_be_bytes().to_vec(),
        span_id: context.span.to_be_bytes().to_vec(),
        parent_span_id: match context.parent {
            0 => Vec::new(),
            parent => parent.to_be_bytes().to_vec(),
        },
        name: span.name.clone(),
        kind: match span.kind {
            SpanKind::Local => 1,
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        },
        start_time_unix_nano: nanos(span.started),
        end_time_unix_nano: nanos(span.started + span.took),
        attributes,
        events: span.events.iter().map(event).collect(),
        status: span.failed().then(|| Status { message: String::new(), code: ERROR }),
        flags: SAMPLED | HAS_IS_REMOTE | if span.remote_parent { IS_REMOTE } else { 0 },
    }
}

fn event(event: &Event) -> OtlpEvent {
    let name = event.fields.iter().find(|(name, _)| *name == "event");
    OtlpEvent {
        time_unix_nano: nanos(event.at),
        name: name.map_or_else(|| "log".to_owned(), |(_, value)| value.to_string()),
        attributes: event.fields.iter().filter(|(name, _)| *name != "event").map(key_value).collect(),
    }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    let kind = match value {
        Value::Text(text) => AnyValueKind::Text(text.into_owned()),
        Value::Bool(value) => AnyValueKind::Bool(value),
        Value::Number(number) => AnyValueKind::Number(number),
    };
    KeyValue { key: key.to_owned(), value: Some(AnyValue { kind: Some(kind) }) }
}

fn key_value((name, value): &Tag) -> KeyValue {
    attribute(name, value.clone())
}

/// Unix time in nanoseconds.
fn nanos(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
