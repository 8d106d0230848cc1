//! Spans as OTLP.

use std::time::SystemTime;

use mixer_otlp::{
    AnyValueKind, KeyValue, Request, Resource, SPAN_FLAG_HAS_IS_REMOTE, SPAN_FLAG_IS_REMOTE,
    SPAN_FLAG_SAMPLED, SpanEvent, SpanStatus, StatusCode,
};
use prost::Message as _;

use super::super::{Event, Span, SpanKind, Tag, Value};

/// Encodes a request.
pub(super) fn protobuf(spans: &[Span], service: &str) -> Vec<u8> {
    let resource = Resource::new([
        ("service.name", service.into()),
        ("service.version", env!("CARGO_PKG_VERSION").into()),
    ]);
    let spans: Vec<Vec<u8>> = spans.iter().map(|span| convert(span).encode_to_vec()).collect();
    let mut request = Request::default();
    request.add(&resource, spans.iter().map(Vec::as_slice));
    request.into_bytes()
}

fn convert(span: &Span) -> mixer_otlp::Span {
    let context = &span.context;
    let mut attributes: Vec<KeyValue> = Vec::new();
    // The RPC conventions name a call by its full method name.
    if let Some((service, method)) = span.name.strip_prefix('/').and_then(|name| name.split_once('/')) {
        attributes.push(KeyValue::new("rpc.system", "grpc"));
        attributes.push(KeyValue::new("rpc.service", service));
        attributes.push(KeyValue::new("rpc.method", method));
    }
    attributes.extend(span.tags.iter().map(key_value));
    let kind = match span.kind {
        SpanKind::Local => mixer_otlp::SpanKind::Internal,
        SpanKind::Server => mixer_otlp::SpanKind::Server,
        SpanKind::Client => mixer_otlp::SpanKind::Client,
    };
    let failed = SpanStatus { message: String::new(), code: StatusCode::Error.into() };
    let of_parent = if span.remote_parent { SPAN_FLAG_IS_REMOTE } else { 0 };
    mixer_otlp::Span {
        trace_id: context.trace.0.to_be_bytes().to_vec(),
        span_id: context.span.to_be_bytes().to_vec(),
        parent_span_id: match context.parent {
            0 => Vec::new(),
            parent => parent.to_be_bytes().to_vec(),
        },
        name: span.name.clone(),
        kind: kind.into(),
        start_time_unix_nano: nanos(span.started),
        end_time_unix_nano: nanos(span.started + span.took),
        attributes,
        events: span.events.iter().map(event).collect(),
        status: span.failed().then_some(failed),
        flags: SPAN_FLAG_SAMPLED | SPAN_FLAG_HAS_IS_REMOTE | of_parent,
    }
}

fn event(event: &Event) -> SpanEvent {
    let name = event.fields.iter().find(|(name, _)| *name == "event");
    SpanEvent {
        time_unix_nano: nanos(event.at),
        name: name.map_or_else(|| "log".to_owned(), |(_, value)| value.to_string()),
        attributes: event.fields.iter().filter(|(name, _)| *name != "event").map(key_value).collect(),
    }
}

fn key_value((name, value): &Tag) -> KeyValue {
    let kind = match value.clone() {
        Value::Text(text) => AnyValueKind::Text(text.into_owned()),
        Value::Bool(value) => AnyValueKind::Bool(value),
        Value::Number(number) => AnyValueKind::Double(number),
    };
    KeyValue::new(*name, kind)
}

/// Unix time in nanoseconds.
fn nanos(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
