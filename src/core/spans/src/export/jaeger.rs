//! Jaeger batches in Thrift.

use super::super::span::micros;
use super::super::{Span, SpanKind, Tag, Value};
use super::thrift::Writer;
use super::zipkin::halves;

const STRING: i32 = 0;
const DOUBLE: i32 = 1;
const BOOL: i32 = 2;

/// The flag of a sampled trace.
const SAMPLED: i32 = 1;

/// Encodes one batch of one process.
pub(super) fn thrift(spans: &[Span], service: &str) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.fields(|writer| {
        writer.structure(1, |writer| {
            writer.text(1, service);
            let process = [("mixer.version", Value::from(env!("CARGO_PKG_VERSION")))];
            writer.list(2, process.iter(), tag);
        });
        writer.list(2, spans.iter(), write);
    });
    writer.into_bytes()
}

fn write(writer: &mut Writer, span: &Span) {
    let context = &span.context;
    let [high, low] = halves(context.trace.0.to_be_bytes());
    writer.id(1, low);
    writer.id(2, high);
    writer.id(3, context.span);
    writer.id(4, context.parent);
    writer.text(5, &span.name);
    writer.i32(7, SAMPLED);
    writer.i64(8, span.started_micros());
    writer.i64(9, span.took_micros());
    let side = match span.kind {
        SpanKind::Server => Some(("span.kind", Value::from("server"))),
        SpanKind::Client => Some(("span.kind", Value::from("client"))),
        SpanKind::Local => None,
    };
    let tags: Vec<&Tag> = side.iter().chain(&span.tags).collect();
    writer.list(10, tags.into_iter(), tag);
    writer.list(11, span.events.iter(), |writer, event| {
        writer.i64(1, micros(event.at));
        writer.list(2, event.fields.iter(), tag);
    });
}

fn tag(writer: &mut Writer, (name, value): &Tag) {
    writer.text(1, name);
    match value {
        Value::Text(text) => {
            writer.i32(2, STRING);
            writer.text(3, text);
        }
        Value::Number(number) => {
            writer.i32(2, DOUBLE);
            writer.double(4, *number);
        }
        Value::Bool(value) => {
            writer.i32(2, BOOL);
            writer.bool(5, *value);
        }
    }
}
