//! `istio.mixer.v1.Attributes`, by name with typed values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mixer_attribute::{OwnedAttributes, OwnedValue, SignedDuration, Timestamp};
use mixer_config::NodeKind;

use super::super::reader::{Fields, Message, Value};

static ATTRIBUTES: Message = Message { name: "Attributes", unsupported: &[] };
static VALUE: Message = Message { name: "AttributeValue", unsupported: &[] };
static MAP: Message = Message { name: "StringMap", unsupported: &[] };

/// The attributes of a field; none if it is not set.
pub(super) fn of(holder: &Fields<'_>, field: &str) -> OwnedAttributes {
    let Some(attributes) = holder.message(field, &ATTRIBUTES) else { return OwnedAttributes::new() };
    let mut read = OwnedAttributes::new();
    if let Some(all) = attributes.get("attributes") {
        for (name, value) in all.entries() {
            if let Some(value) = value_of(&value) {
                read.insert(name, value);
            }
        }
    }
    attributes.finish();
    read
}

fn value_of(value: &Value<'_>) -> Option<OwnedValue> {
    let fields = value.message(&VALUE)?;
    let one = fields.one_of(&[
        "string_value",
        "int64_value",
        "double_value",
        "bool_value",
        "bytes_value",
        "timestamp_value",
        "duration_value",
        "string_map_value",
    ]);
    let Some((kind, value)) = one else {
        fields.required("an attribute needs a value, such as string_value");
        return None;
    };
    let read = match kind {
        "string_value" => value.text().map(OwnedValue::from),
        "int64_value" => number(&value).map(OwnedValue::Int64),
        "double_value" => double(&value).map(OwnedValue::Double),
        "bool_value" => value.boolean().map(OwnedValue::Bool),
        "bytes_value" => bytes(&value),
        "timestamp_value" => timestamp(&value),
        "duration_value" => value.duration().and_then(|duration| {
            let nanos = i64::try_from(duration.as_nanos()).ok()?;
            Some(OwnedValue::Duration(SignedDuration { nanos }))
        }),
        _ => map(&value),
    };
    fields.finish();
    read
}

fn number(value: &Value<'_>) -> Option<i64> {
    let number = match &value.node.kind {
        NodeKind::Int(number) => Some(*number),
        NodeKind::String(text) => text.parse().ok(),
        _ => None,
    };
    if number.is_none() {
        value.invalid("expected a whole number");
    }
    number
}

fn double(value: &Value<'_>) -> Option<f64> {
    let number = match &value.node.kind {
        NodeKind::Float(number) => Some(*number),
        NodeKind::Int(number) => Some(*number as f64),
        NodeKind::String(text) => text.parse().ok(),
        _ => None,
    };
    if number.is_none() {
        value.invalid("expected a number");
    }
    number
}

fn bytes(value: &Value<'_>) -> Option<OwnedValue> {
    let decoded = STANDARD.decode(value.text()?);
    if decoded.is_err() {
        value.invalid("expected bytes in base64");
    }
    decoded.ok().map(OwnedValue::Bytes)
}

fn timestamp(value: &Value<'_>) -> Option<OwnedValue> {
    let parsed = value.text()?.parse::<jiff::Timestamp>();
    if parsed.is_err() {
        value.invalid("expected a time, such as 2019-09-12T10:00:00Z");
    }
    let time = parsed.ok()?;
    // Nanoseconds count upwards, also before 1970.
    let (seconds, nanos) = (time.as_second(), time.subsec_nanosecond());
    let (seconds, nanos) = if nanos < 0 { (seconds - 1, nanos + 1_000_000_000) } else { (seconds, nanos) };
    Some(OwnedValue::Timestamp(Timestamp { seconds, nanos: u32::try_from(nanos).ok()? }))
}

fn map(value: &Value<'_>) -> Option<OwnedValue> {
    let fields = value.message(&MAP)?;
    let all = fields.get("entries").map(|all| all.entries()).unwrap_or_default();
    let text =
        |(key, value): (String, Value<'_>)| Some((key.into_bytes(), value.text()?.as_bytes().to_vec()));
    let map = all.into_iter().filter_map(text).collect();
    fields.finish();
    Some(OwnedValue::StringMap(map))
}
