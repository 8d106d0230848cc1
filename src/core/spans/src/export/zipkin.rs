//! Zipkin v1 in Thrift, as Istio Mixer sends it, and v2 in JSON.

use serde_json::{Map, Value as Json, json};

use super::super::span::micros;
use super::super::{Event, Span, SpanKind};
use super::thrift::Writer;

/// The type of a binary annotation: string.
const STRING: i32 = 6;

/// An event as the text of an annotation: a JSON object with sorted members.
fn annotation(event: &Event) -> String {
    let mut fields: Vec<_> = event.fields.iter().map(|(name, value)| (*name, value.to_json())).collect();
    fields.sort_by_key(|(name, _)| *name);
    let members: Map<String, Json> =
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Json::Object(members).to_string()
}

/// The endpoint of a span: the service name only.
fn endpoint(writer: &mut Writer, number: i16, service: &str) {
    writer.structure(number, |writer| {
        writer.i32(1, 0);
        writer.i16(2, 0);
        writer.text(3, service);
    });
}

/// Encodes a list of spans in Thrift.
pub(super) fn thrift(spans: &[Span], service: &str) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.items(spans.iter(), |writer, span| {
        let context = &span.context;
        let trace = context.trace.0.to_be_bytes();
        let [high, low] = halves(trace);
        writer.id(1, low);
        writer.text(3, &span.name);
        writer.id(4, context.span);
        if context.parent != 0 {
            writer.id(5, context.parent);
        }
        let (started, ended) = (span.started_micros(), span.started_micros() + span.took_micros());
        let ends = match span.kind {
            SpanKind::Server => vec![(started, "sr".to_owned()), (ended, "ss".to_owned())],
            SpanKind::Client => vec![(started, "cs".to_owned()), (ended, "cr".to_owned())],
            SpanKind::Local => Vec::new(),
        };
        let events = span.events.iter().map(|event| (micros(event.at), annotation(event)));
        let annotations: Vec<_> = ends.into_iter().chain(events).collect();
        writer.list(6, annotations.into_iter(), |writer, (at, text)| {
            writer.i64(1, at);
            writer.text(2, &text);
            endpoint(writer, 3, service);
        });
        let local = (span.kind == SpanKind::Local).then(|| ("lc", service.to_owned()));
        let tags = span.tags.iter().map(|(name, value)| (*name, value.to_string()));
        let tags: Vec<_> = local.into_iter().chain(tags).collect();
        writer.list(8, tags.into_iter(), |writer, (name, value)| {
            writer.text(1, name);
            writer.text(2, &value);
            writer.i32(3, STRING);
            endpoint(writer, 4, service);
        });
        writer.bool(9, false);
        writer.i64(10, started);
        writer.i64(11, span.took_micros());
        if high != 0 {
            writer.id(12, high);
        }
    });
    writer.into_bytes()
}

/// The upper and the lower 64 bits.
pub(super) fn halves(id: [u8; 16]) -> [u64; 2] {
    let id = u128::from_be_bytes(id);
    [(id >> 64) as u64, id as u64]
}

/// Encodes a list of spans in JSON.
pub(super) fn json(spans: &[Span], service: &str) -> Vec<u8> {
    let spans: Vec<Json> = spans
        .iter()
        .map(|span| {
            let mut json = json!({
                "traceId": span.context.trace.to_string(),
                "id": format!("{:016x}", span.context.span),
                "name": span.name,
                "timestamp": span.started_micros(),
                "duration": span.took_micros(),
                "localEndpoint": {"serviceName": service},
            });
            let Some(members) = json.as_object_mut() else { return json };
            if span.context.parent != 0 {
                members.insert("parentId".to_owned(), format!("{:016x}", span.context.parent).into());
            }
            match span.kind {
                SpanKind::Server => drop(members.insert("kind".to_owned(), "SERVER".into())),
                SpanKind::Client => drop(members.insert("kind".to_owned(), "CLIENT".into())),
                SpanKind::Local => {}
            }
            let tags: Map<String, Json> = span
                .tags
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.to_string().into()))
                .collect();
            members.insert("tags".to_owned(), tags.into());
            let events: Vec<Json> = span
                .events
                .iter()
                .map(|event| json!({"timestamp": micros(event.at), "value": annotation(event)}))
                .collect();
            members.insert("annotations".to_owned(), events.into());
            json
        })
        .collect();
    // A JSON value always serializes.
    serde_json::to_vec(&spans).unwrap_or_default()
}
