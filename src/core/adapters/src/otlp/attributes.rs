//! Attributes of points, log records and spans.

use mixer_attribute::Value;
use mixer_attribute::text::push_text;
use mixer_engine::adapter::{BoundInstance, Instance};
use mixer_otlp::{AnyValueKind, KeyValue, KeyValueList, push_attribute, push_text_attribute};

use super::names::name;
use super::params::Params;
use crate::cut::cut;

/// An attribute of an instance, and where its value is.
pub(super) struct Attribute {
    pub(super) name: Box<str>,
    /// The name that the configuration has for it.
    pub(super) key: Box<str>,
    pub(super) at: usize,
}

/// The attributes of a map field. Their names are distinct.
pub(super) fn attributes(params: &Params, instance: &BoundInstance, field: &str) -> Vec<Attribute> {
    let entries = instance.entries(field);
    entries.map(|(key, at)| Attribute { name: name(params, key).into(), key: key.into(), at }).collect()
}

/// Appends the attributes of a series, whose texts are cut at 1024 bytes. What is absent is left out.
pub(super) fn push_dimensions(
    out: &mut Vec<u8>,
    field: u32,
    attributes: &[Attribute],
    instance: &Instance<'_>,
) {
    for attribute in attributes {
        match instance.value(attribute.at) {
            None => {}
            Some(Value::String(text)) if text.len() > crate::cut::MAX_BYTES => {
                let mut text = text.to_vec();
                cut(&mut text);
                push_text_attribute(out, field, &attribute.name, &String::from_utf8_lossy(&text));
            }
            Some(long @ (Value::StringMap(_) | Value::Bytes(_))) => {
                let mut text = Vec::new();
                push_text(&mut text, long);
                cut(&mut text);
                push_text_attribute(out, field, &attribute.name, &String::from_utf8_lossy(&text));
            }
            Some(value) => push(out, field, &attribute.name, value),
        }
    }
}

/// Appends an attribute.
pub(super) fn push(out: &mut Vec<u8>, field: u32, name: &str, value: Value<'_>) {
    match value {
        Value::String(text) => push_text_attribute(out, field, name, &String::from_utf8_lossy(text)),
        other => push_attribute(out, field, name, &any(other)),
    }
}

/// A value. Numbers, Booleans and maps are themselves; everything else is text, in which bytes that are not UTF-8 become U+FFFD.
pub(super) fn any(value: Value<'_>) -> AnyValueKind {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match value {
        Value::Int64(number) => AnyValueKind::Int(number),
        Value::Double(number) => AnyValueKind::Double(number),
        Value::Bool(value) => AnyValueKind::Bool(value),
        Value::String(bytes) => AnyValueKind::Text(text(bytes)),
        Value::StringMap(map) => {
            let mut entries = map.entries.to_vec();
            entries.sort_unstable();
            let values = entries.into_iter().map(|(key, value)| KeyValue::new(text(key), text(value)));
            AnyValueKind::Map(KeyValueList { values: values.collect() })
        }
        other => {
            let mut shown = Vec::new();
            push_text(&mut shown, other);
            AnyValueKind::Text(text(&shown))
        }
    }
}
