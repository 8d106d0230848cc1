//! Parsing of texts (headers, metadata, configured constants) as values of a declared type.

use std::net::IpAddr;

use bumpalo::Bump;

use super::{OwnedValue, SignedDuration, Timestamp, Value, ValueType};

/// Parses a text as a value of a declared type; `None` if it is invalid, and for maps.
///
/// Shape: INT64 decimal; BOOL `true` or `false`; DURATION `1.5s`; TIMESTAMP RFC 3339; IP_ADDRESS dotted quad or IPv6 text.
/// White space around all but texts is ignored. Cost: allocates in the arena, for addresses only.
pub fn typed_text<'a>(text: &'a [u8], value_type: ValueType, arena: &'a Bump) -> Option<Value<'a>> {
    let trimmed = || std::str::from_utf8(text).ok().map(str::trim);
    Some(match value_type {
        ValueType::String
        | ValueType::Uri
        | ValueType::DnsName
        | ValueType::EmailAddress
        | ValueType::Unspecified => Value::String(text),
        ValueType::Int64 => Value::Int64(trimmed()?.parse().ok()?),
        ValueType::Double => Value::Double(trimmed()?.parse().ok()?),
        ValueType::Bool => Value::Bool(trimmed()?.parse().ok()?),
        ValueType::Duration => Value::Duration(SignedDuration::parse(trimmed()?).ok()?),
        ValueType::Timestamp => Value::Timestamp(Timestamp::parse_rfc3339(trimmed()?).ok()?),
        ValueType::IpAddress => Value::Bytes(match trimmed()?.parse().ok()? {
            IpAddr::V4(ip) => arena.alloc_slice_copy(&ip.octets()),
            IpAddr::V6(ip) => arena.alloc_slice_copy(&ip.octets()),
        }),
        ValueType::StringMap => return None,
    })
}

impl OwnedValue {
    /// The value, borrowed; `None` for maps, whose entries are not in a slice.
    pub fn as_value(&self) -> Option<Value<'_>> {
        Some(match self {
            OwnedValue::String(text) => Value::String(text),
            OwnedValue::Int64(number) => Value::Int64(*number),
            OwnedValue::Double(number) => Value::Double(*number),
            OwnedValue::Bool(value) => Value::Bool(*value),
            OwnedValue::Timestamp(instant) => Value::Timestamp(*instant),
            OwnedValue::Duration(duration) => Value::Duration(*duration),
            OwnedValue::Bytes(bytes) => Value::Bytes(bytes),
            OwnedValue::StringMap(_) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_parse_as_their_declared_type() {
        let arena = Bump::new();
        for (text, value_type, value) in [
            ("7", ValueType::Int64, Some(Value::Int64(7))),
            ("seven", ValueType::Int64, None),
            ("true", ValueType::Bool, Some(Value::Bool(true))),
            ("yes", ValueType::Bool, None),
            ("1.5s", ValueType::Duration, Some(Value::Duration(SignedDuration::from_millis(1500)))),
            ("10.0.0.1", ValueType::IpAddress, Some(Value::Bytes(&[10, 0, 0, 1]))),
            ("10.0.0", ValueType::IpAddress, None),
            ("a", ValueType::Uri, Some(Value::String(b"a"))),
            ("a", ValueType::StringMap, None),
        ] {
            assert_eq!(typed_text(text.as_bytes(), value_type, &arena), value, "{text} as {value_type}");
        }
    }
}
