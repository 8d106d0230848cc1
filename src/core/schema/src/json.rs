//! From messages to JSON: proto3 JSON of Istio's messages, Kubernetes' JSON of its own.

use std::collections::BTreeMap;

use base64::Engine as _;
use mixer_base::decimal;
use mixer_base::time::Timestamp;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind as Type, MapKey, MessageDescriptor, ReflectMessage, Value,
};
use serde_json::{Map, Value as Json, json};

use crate::descriptors;
use crate::encode::{INT_OR_STRING, QUANTITY, TIME, is_inline, is_wrapper};

/// Why a body has no JSON form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// No resource has such a message.
    #[error("unknown message type `{0}`")]
    UnknownType(String),
    /// The bytes are no such message.
    #[error("no message of type `{name}`: {cause}")]
    Malformed {
        /// The name of the message.
        name: String,
        /// What the decoder says.
        cause: String,
    },
}

/// The JSON form of a body: lowerCamelCase, without default values, enums by name, 64-bit integers as texts.
///
/// Errors: a type that no resource has, bytes that do not decode.
pub fn to_json(type_url: &str, body: &[u8]) -> Result<Json, JsonError> {
    Ok(object(&message(type_url, body)?))
}

/// A field that the messages of this program do not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField {
    /// The message in which it is.
    pub message: String,
    /// Its number.
    pub number: u32,
}

/// As [`to_json`], with the first field that it cannot show, if the body has one: what it says is lost.
///
/// Errors: as of [`to_json`].
pub fn to_json_with_unknown(type_url: &str, body: &[u8]) -> Result<(Json, Option<UnknownField>), JsonError> {
    let message = message(type_url, body)?;
    Ok((object(&message), unknown_field(&message)))
}

fn unknown_field(message: &DynamicMessage) -> Option<UnknownField> {
    let descriptor = message.descriptor();
    if let Some(field) = message.unknown_fields().next() {
        return Some(UnknownField { message: descriptor.full_name().to_owned(), number: field.number() });
    }
    if descriptor.full_name() == "google.protobuf.Any" {
        let bytes = message.get_field_by_number(2);
        let bytes = bytes.as_deref().and_then(Value::as_bytes).cloned().unwrap_or_default();
        // One that does not decode is shown by its bytes.
        return self::message(&text(message, 1), &bytes).ok().as_ref().and_then(unknown_field);
    }
    message.fields().find_map(|(_, content)| unknown_in(content))
}

fn unknown_in(content: &Value) -> Option<UnknownField> {
    match content {
        Value::Message(message) => unknown_field(message),
        Value::List(items) => items.iter().find_map(unknown_in),
        Value::Map(entries) => entries.values().find_map(unknown_in),
        _ => None,
    }
}

fn message(type_url: &str, body: &[u8]) -> Result<DynamicMessage, JsonError> {
    let name = type_url.rsplit_once('/').map_or(type_url, |(_, name)| name);
    let descriptor = descriptors::message(name).ok_or_else(|| JsonError::UnknownType(name.to_owned()))?;
    decode(descriptor, body)
}

fn decode(descriptor: MessageDescriptor, body: &[u8]) -> Result<DynamicMessage, JsonError> {
    let name = descriptor.full_name().to_owned();
    DynamicMessage::decode(descriptor, body)
        .map_err(|error| JsonError::Malformed { name, cause: error.to_string() })
}

fn number(message: &DynamicMessage, field: u32) -> i64 {
    match message.get_field_by_number(field).as_deref() {
        Some(Value::I64(value)) => *value,
        Some(Value::I32(value)) => i64::from(*value),
        _ => 0,
    }
}

fn text(message: &DynamicMessage, field: u32) -> String {
    let value = message.get_field_by_number(field);
    value.as_deref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A message.
fn object(message: &DynamicMessage) -> Json {
    let descriptor = message.descriptor();
    match descriptor.full_name() {
        "google.protobuf.Duration" => json!(duration(number(message, 1), number(message, 2))),
        "google.protobuf.Timestamp" | TIME => json!(timestamp(number(message, 1), number(message, 2))),
        "google.protobuf.Struct" => free_structure(message),
        "google.protobuf.Value" => free_value(message),
        "google.protobuf.ListValue" => free_list(message),
        "google.protobuf.Any" => any(message),
        QUANTITY => json!(text(message, 1)),
        INT_OR_STRING if number(message, 1) == 0 => json!(number(message, 2)),
        INT_OR_STRING => json!(text(message, 3)),
        _ if is_wrapper(&descriptor) => match descriptor.get_field(1) {
            Some(field) => value(&field.kind(), &message.get_field(&field)),
            None => Json::Null,
        },
        _ => Json::Object(fields(message)),
    }
}

fn fields(message: &DynamicMessage) -> Map<String, Json> {
    let mut object = Map::new();
    for descriptor in message.descriptor().fields() {
        if !message.has_field(&descriptor) {
            continue;
        }
        let content = message.get_field(&descriptor);
        match &*content {
            Value::Message(inner) if is_inline(&descriptor) => object.extend(fields(inner)),
            content => {
                object.insert(descriptor.json_name().to_owned(), field(&descriptor, content));
            }
        }
    }
    object
}

fn field(descriptor: &FieldDescriptor, content: &Value) -> Json {
    match content {
        Value::List(items) => items.iter().map(|item| value(&descriptor.kind(), item)).collect(),
        Value::Map(entries) => {
            let Type::Message(entry) = descriptor.kind() else { return Json::Null };
            let kind = entry.map_entry_value_field().kind();
            let sorted: BTreeMap<String, Json> =
                entries.iter().map(|(key, content)| (key_text(key), value(&kind, content))).collect();
            Json::Object(sorted.into_iter().collect())
        }
        content => value(&descriptor.kind(), content),
    }
}

fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}

fn value(kind: &Type, content: &Value) -> Json {
    match content {
        Value::Bool(value) => json!(value),
        Value::I32(value) => json!(value),
        Value::U32(value) => json!(value),
        Value::I64(value) => json!(value.to_string()),
        Value::U64(value) => json!(value.to_string()),
        Value::F32(value) => float(f64::from(*value)),
        Value::F64(value) => float(*value),
        Value::String(value) => json!(value),
        Value::Bytes(value) => json!(base64::engine::general_purpose::STANDARD.encode(value)),
        Value::EnumNumber(number) => match kind {
            Type::Enum(names) => names.get_value(*number).map_or(json!(number), |name| json!(name.name())),
            _ => json!(number),
        },
        Value::Message(message) => object(message),
        Value::List(_) | Value::Map(_) => Json::Null,
    }
}

/// A number as Go writes it: whole ones without a point, unless they are large.
fn float(value: f64) -> Json {
    if value.is_nan() {
        return json!("NaN");
    }
    if value.is_infinite() {
        return json!(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let text = decimal::json(value).to_string();
    match (text.parse::<i64>(), text.parse::<u64>()) {
        (Ok(whole), _) => json!(whole),
        (_, Ok(whole)) => json!(whole),
        _ => json!(value),
    }
}

/// The shortest of 0, 3, 6 and 9 digits of a fraction, with the point.
fn fraction(nanos: i64) -> String {
    let nanos = nanos.unsigned_abs();
    match nanos {
        0 => String::new(),
        n if n % 1_000_000 == 0 => format!(".{:03}", n / 1_000_000),
        n if n % 1_000 == 0 => format!(".{:06}", n / 1_000),
        n => format!(".{n:09}"),
    }
}

fn duration(seconds: i64, nanos: i64) -> String {
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    format!("{sign}{}{}s", seconds.unsigned_abs(), fraction(nanos))
}

fn timestamp(seconds: i64, nanos: i64) -> String {
    let whole = Timestamp { seconds, nanos: 0 }.rfc3339().to_string();
    let whole = whole.strip_suffix('Z').unwrap_or(&whole);
    format!("{whole}{}Z", fraction(nanos))
}

fn free_structure(message: &DynamicMessage) -> Json {
    let mut object = Map::new();
    if let Some(Value::Map(entries)) = message.get_field_by_number(1).as_deref() {
        let sorted: BTreeMap<_, _> = entries.iter().map(|(key, content)| (key_text(key), content)).collect();
        for (key, content) in sorted {
            object.insert(key, content.as_message().map_or(Json::Null, free_value));
        }
    }
    Json::Object(object)
}

fn free_value(message: &DynamicMessage) -> Json {
    let given = message.fields().next().map(|(field, content)| (field.number(), content.clone()));
    match given {
        Some((2, Value::F64(number))) => float(number),
        Some((3, Value::String(text))) => json!(text),
        Some((4, Value::Bool(value))) => json!(value),
        Some((5, Value::Message(inner))) => free_structure(&inner),
        Some((6, Value::Message(inner))) => free_list(&inner),
        _ => Json::Null,
    }
}

fn free_list(message: &DynamicMessage) -> Json {
    let items = message.get_field_by_number(1);
    let items = items.as_deref().and_then(Value::as_list).unwrap_or_default();
    items.iter().map(|item| item.as_message().map_or(Json::Null, free_value)).collect()
}

/// A message with its type; of an unknown type, or malformed, its bytes.
fn any(message: &DynamicMessage) -> Json {
    let url = text(message, 1);
    let bytes = message.get_field_by_number(2);
    let bytes = bytes.as_deref().and_then(Value::as_bytes).cloned().unwrap_or_default();
    let mut object = Map::new();
    object.insert("@type".to_owned(), json!(url));
    match to_json(&url, &bytes) {
        Ok(Json::Object(inner)) if !url.ends_with("/google.protobuf.Struct") => object.extend(inner),
        Ok(inner) => drop(object.insert("value".to_owned(), inner)),
        Err(_) => {
            let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
            object.insert("value".to_owned(), json!(encoded));
        }
    }
    Json::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_floats_are_short() {
        assert_eq!(duration(1, 250_000_000), "1.250s");
        assert_eq!(duration(0, -1), "-0.000000001s");
        assert_eq!(duration(-3, 0), "-3s");
        assert_eq!(timestamp(0, 1_000), "1970-01-01T00:00:00.000001Z");
        assert_eq!(float(3.0), json!(3));
        assert_eq!(float(12_345_678_901_234_567_890.0), json!(12_345_678_901_234_567_000_u64));
        assert_eq!(float(f64::NEG_INFINITY), json!("-Infinity"));
    }

    #[test]
    fn fields_that_are_not_known_are_told() {
        let rule = "type.googleapis.com/istio.policy.v1beta1.Rule";
        // `match: x`, one action with `handler: h` and an unknown field 15, as a newer source may have.
        let known = [0x0a, 1, b'x', 0x12, 3, 0x12, 1, b'h'];
        assert_eq!(to_json_with_unknown(rule, &known).unwrap().1, None);
        let newer = [0x0a, 1, b'x', 0x12, 5, 0x12, 1, b'h', 0x78, 1];
        let (json, unknown) = to_json_with_unknown(rule, &newer).unwrap();
        assert_eq!(json["match"], "x");
        let message = "istio.policy.v1beta1.Action".to_owned();
        assert_eq!(unknown, Some(UnknownField { message, number: 15 }));
        let structure = "type.googleapis.com/google.protobuf.Struct";
        assert_eq!(
            to_json_with_unknown(structure, &[0x78, 1]).unwrap().1.map(|field| field.number),
            Some(15)
        );
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        assert!(matches!(to_json("x/y.Z", b""), Err(JsonError::UnknownType(name)) if name == "y.Z"));
        let malformed = to_json("type.googleapis.com/istio.networking.v1alpha3.Gateway", b"\x0a\x05");
        assert!(matches!(malformed, Err(JsonError::Malformed { .. })));
    }
}
