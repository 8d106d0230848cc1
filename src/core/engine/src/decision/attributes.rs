//! Attributes as JSON, in the form that `check --attributes-file` reads.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value, json};

use mixer_attribute::{OwnedAttributes, OwnedValue, SignedDuration, Timestamp, ValueType};

/// Attributes by name.
pub type AttributeMap = Map<String, Value>;

/// Type names: a map with one of them as its only key is a typed value.
const TYPES: [&str; 9] =
    ["string", "int64", "double", "bool", "timestamp", "duration", "bytes", "ip", "stringmap"];

/// Every attribute as JSON. Bytes that are not UTF-8 become U+FFFD.
pub(crate) fn attribute_map(attributes: &OwnedAttributes) -> AttributeMap {
    attributes.iter().map(|(name, value)| (lossy(name), value_json(value))).collect()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A value as JSON: strings, integers, Booleans and string maps are plain JSON, other values name their type.
fn value_json(value: &OwnedValue) -> Value {
    match value {
        OwnedValue::String(text) => Value::from(lossy(text)),
        OwnedValue::Int64(number) => Value::from(*number),
        OwnedValue::Bool(truth) => Value::from(*truth),
        // A string, so that no reader takes it for an integer and NaN and infinities survive.
        OwnedValue::Double(number) => json!({"double": number.to_string()}),
        OwnedValue::Timestamp(instant) => json!({"timestamp": instant.rfc3339().to_string()}),
        OwnedValue::Duration(duration) => json!({"duration": duration.to_string()}),
        OwnedValue::Bytes(bytes) => match address(bytes) {
            Some(address) => json!({"ip": address.to_string()}),
            None => {
                let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                json!({"bytes": digits.join(":")})
            }
        },
        OwnedValue::StringMap(entries) => {
            let map: AttributeMap = entries.iter().map(|(k, v)| (lossy(k), Value::from(lossy(v)))).collect();
            let ambiguous = map.len() == 1 && map.keys().any(|key| TYPES.contains(&key.as_str()));
            if ambiguous { json!({"stringmap": map}) } else { Value::Object(map) }
        }
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(octets).into());
    }
    // An IPv4-mapped address would be read back as 4 bytes.
    let v6 = Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
    v6.to_ipv4_mapped().is_none().then_some(v6.into())
}

/// Parses attributes. `declared` returns the type of a name; a string under a name of another type is parsed as that type.
///
/// Errors: the attribute and what is wrong with it.
pub fn owned_attributes(
    map: &AttributeMap,
    declared: &dyn Fn(&str) -> Option<ValueType>,
) -> Result<OwnedAttributes, String> {
    map.iter()
        .map(|(name, value)| match owned_value(value, declared(name)) {
            Ok(value) => Ok((name.as_str(), value)),
            Err(cause) => Err(format!("attribute `{name}`: {cause}")),
        })
        .collect()
}

/// Parses a value; a string is parsed as `declared`. Errors: what was expected.
pub fn owned_value(value: &Value, declared: Option<ValueType>) -> Result<OwnedValue, String> {
    match (value, declared) {
        (Value::String(text), Some(kind)) => typed(text, kind),
        (Value::String(text), None) => Ok(text.as_str().into()),
        (Value::Bool(truth), _) => Ok((*truth).into()),
        (Value::Number(number), Some(ValueType::Double)) => {
            number.as_f64().map(OwnedValue::Double).ok_or_else(|| "number out of range".to_owned())
        }
        (Value::Number(number), _) => number
            .as_i64()
            .map(OwnedValue::Int64)
            .or_else(|| number.as_f64().map(OwnedValue::Double))
            .ok_or_else(|| "number out of range".to_owned()),
        (Value::Object(members), _) => match members.iter().next() {
            Some((name, inner)) if members.len() == 1 && TYPES.contains(&name.as_str()) => named(name, inner),
            _ => string_map(members),
        },
        (Value::Null | Value::Array(_), _) => {
            Err("expected a string, a number, a Boolean or a map".to_owned())
        }
    }
}

fn named(kind: &str, inner: &Value) -> Result<OwnedValue, String> {
    let text = || scalar(inner);
    match kind {
        "string" => Ok(text()?.as_str().into()),
        "int64" => typed(&text()?, ValueType::Int64),
        "double" => typed(&text()?, ValueType::Double),
        "bool" => typed(&text()?, ValueType::Bool),
        "timestamp" => typed(&text()?, ValueType::Timestamp),
        "duration" => typed(&text()?, ValueType::Duration),
        "ip" => typed(&text()?, ValueType::IpAddress),
        "bytes" => hex(&text()?),
        _ => string_map(inner.as_object().ok_or("expected a map")?),
    }
}

fn string_map(members: &AttributeMap) -> Result<OwnedValue, String> {
    let pairs = members.iter().map(|(key, value)| Ok((key.as_bytes().to_vec(), scalar(value)?.into_bytes())));
    pairs.collect::<Result<_, String>>().map(OwnedValue::StringMap)
}

fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        _ => Err("expected a scalar".to_owned()),
    }
}

fn hex(text: &str) -> Result<OwnedValue, String> {
    let byte = |part: &str| {
        u8::from_str_radix(part, 16)
            .map_err(|_| format!("`{part}` is not a byte; expected hex such as 0a:ff"))
    };
    text.split(':').map(byte).collect::<Result<_, _>>().map(OwnedValue::Bytes)
}

/// Parses a string as a value of a type.
fn typed(text: &str, kind: ValueType) -> Result<OwnedValue, String> {
    let expected = |what: &str| format!("`{text}` is not a valid {kind}; expected {what}");
    match kind {
        ValueType::Int64 => text.parse().map(OwnedValue::Int64).map_err(|_| expected("a whole number")),
        ValueType::Double => text.parse().map(OwnedValue::Double).map_err(|_| expected("a number")),
        ValueType::Bool => text.parse().map(OwnedValue::Bool).map_err(|_| expected("true or false")),
        ValueType::Timestamp => Timestamp::parse_rfc3339(text)
            .map(OwnedValue::Timestamp)
            .map_err(|_| expected("a time such as 2026-01-02T03:04:05Z")),
        ValueType::Duration => SignedDuration::parse(text)
            .map(OwnedValue::Duration)
            .map_err(|_| expected("a duration such as 1m30s")),
        ValueType::IpAddress => {
            text.parse::<IpAddr>().map(OwnedValue::from).map_err(|_| expected("an address such as 10.0.0.1"))
        }
        ValueType::StringMap => Err(expected("a map of texts")),
        _ => Ok(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_round_trips_through_json() {
        let mut all = OwnedAttributes::new();
        all.insert("text", "a");
        all.insert("number", 7_i64);
        all.insert("double", 2.0_f64);
        all.insert("truth", true);
        all.insert("instant", Timestamp { seconds: 1_500_000_000, nanos: 120 });
        all.insert("length", SignedDuration::from_millis(-1500));
        all.insert("v4", OwnedValue::Bytes(vec![10, 0, 0, 1]));
        all.insert("v6", OwnedValue::from("2001:db8::1".parse::<IpAddr>().unwrap()));
        all.insert(
            "mapped",
            OwnedValue::Bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 1].to_vec()),
        );
        all.insert("bytes", OwnedValue::Bytes(vec![1, 255]));
        all.insert("map", OwnedValue::from([("k", "v"), ("l", "w")]));
        all.insert("odd", OwnedValue::from([("ip", "v")]));
        let map = attribute_map(&all);
        assert_eq!(owned_attributes(&map, &|_| None), Ok(all));
    }

    #[test]
    fn a_string_is_parsed_as_the_declared_type() {
        let value = |text: &str, kind| owned_value(&Value::from(text), Some(kind));
        assert_eq!(value("10.0.0.1", ValueType::IpAddress), Ok(OwnedValue::Bytes(vec![10, 0, 0, 1])));
        assert_eq!(value("1m", ValueType::Duration), Ok(SignedDuration::from_secs(60).into()));
        assert_eq!(
            value("x", ValueType::Int64).unwrap_err(),
            "`x` is not a valid INT64; expected a whole number"
        );
    }
}
