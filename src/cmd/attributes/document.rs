//! Attributes as a YAML or JSON document.

use serde_json::Value;

use super::set::AttributeSet;
use super::value::{AttributeType, AttributeValue};

/// Reads attributes from a YAML or JSON map.
///
/// A scalar stands for itself, a map of scalars is a string map, and `{timestamp: …}`, `{duration: …}`, `{bytes: …}`, `{ip: …}`,
/// `{string: …}`, `{int64: …}`, `{double: …}`, `{bool: …}` and `{stringmap: …}` name the type.
pub(crate) fn parse_document(text: &str) -> Result<AttributeSet, String> {
    let document: Value = serde_yaml::from_str(text).map_err(|e| e.to_string())?;
    let Value::Object(members) = document else {
        return Err("expected a map of attribute names and values".to_owned());
    };
    let mut set = AttributeSet::default();
    for (name, value) in members {
        let value = document_value(&value).map_err(|cause| format!("attribute `{name}`: {cause}"))?;
        set.set(&name, value, None);
    }
    Ok(set)
}

fn document_value(value: &Value) -> Result<AttributeValue, String> {
    match value {
        Value::String(text) => Ok(AttributeValue::String(text.clone())),
        Value::Bool(value) => Ok(AttributeValue::Bool(*value)),
        Value::Number(number) => number
            .as_i64()
            .map(AttributeValue::Int64)
            .or_else(|| number.as_f64().map(AttributeValue::Double))
            .ok_or_else(|| "number out of range".to_owned()),
        Value::Object(members) => {
            if let Some((name, inner)) = members.iter().next().filter(|_| members.len() == 1)
                && let Some(typed) = typed_value(name, inner)
            {
                return typed;
            }
            members
                .iter()
                .map(|(key, value)| Ok((key.clone(), scalar_text(value)?)))
                .collect::<Result<_, String>>()
                .map(AttributeValue::StringMap)
        }
        Value::Null | Value::Array(_) => Err("expected a scalar or a map".to_owned()),
    }
}

fn typed_value(name: &str, inner: &Value) -> Option<Result<AttributeValue, String>> {
    let value_type = match name {
        "string" => AttributeType::String,
        "int64" => AttributeType::Int64,
        "double" => AttributeType::Double,
        "bool" => AttributeType::Bool,
        "timestamp" => AttributeType::Timestamp,
        "duration" => AttributeType::Duration,
        "bytes" => AttributeType::Bytes,
        "stringmap" => return Some(map_value(inner)),
        "ip" => AttributeType::Ip,
        _ => return None,
    };
    Some(scalar_text(inner).and_then(|text| value_type.parse(&text)))
}

fn map_value(inner: &Value) -> Result<AttributeValue, String> {
    let members = inner.as_object().ok_or("expected a map")?;
    let pairs = members.iter().map(|(key, value)| Ok((key.clone(), scalar_text(value)?)));
    pairs.collect::<Result<_, String>>().map(AttributeValue::StringMap)
}

fn scalar_text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        _ => Err("expected a scalar".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_attribute::SignedDuration;

    #[test]
    fn documents_specify_types_that_yaml_lacks() {
        let set = parse_document(
            "source.user: ann\nresponse.code: 200\nsource.ip: {ip: 192.0.2.1}\nrequest.headers: {a: b, c: 7}\n\
             response.duration: {duration: 2s}\nx: {string: '5'}\ny: 0.5\nz: true\n",
        )
        .unwrap();
        let value = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone()).unwrap();
        assert_eq!(value("source.user"), AttributeValue::String("ann".to_owned()));
        assert_eq!(value("response.code"), AttributeValue::Int64(200));
        assert_eq!(value("source.ip"), AttributeValue::Bytes(vec![192, 0, 2, 1]));
        assert_eq!(value("x"), AttributeValue::String("5".to_owned()));
        assert_eq!(value("response.duration"), AttributeValue::Duration(SignedDuration::from_secs(2)));
        assert!(matches!(value("request.headers"), AttributeValue::StringMap(m) if m["c"] == "7"));
        assert!(parse_document("- a\n").is_err());
        assert!(parse_document("a: [1]\n").is_err());
    }
}
