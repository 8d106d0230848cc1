//! Values of attributes and how they are spelled in flags.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::cmd::go_syntax::{self, NumberError};
use mixer_attribute::{SignedDuration, Timestamp, ValueType};

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AttributeValue {
    /// A string.
    String(String),
    /// An integer.
    Int64(i64),
    /// A floating point number.
    Double(f64),
    /// A Boolean.
    Bool(bool),
    /// A timestamp.
    Timestamp(Timestamp),
    /// A duration.
    Duration(SignedDuration),
    /// Bytes, for example an IP address.
    Bytes(Vec<u8>),
    /// A string map.
    StringMap(BTreeMap<String, String>),
}

impl AttributeValue {
    /// Its type. Bytes are IP addresses.
    pub(crate) fn value_type(&self) -> ValueType {
        match self {
            AttributeValue::String(_) => ValueType::String,
            AttributeValue::Int64(_) => ValueType::Int64,
            AttributeValue::Double(_) => ValueType::Double,
            AttributeValue::Bool(_) => ValueType::Bool,
            AttributeValue::Timestamp(_) => ValueType::Timestamp,
            AttributeValue::Duration(_) => ValueType::Duration,
            AttributeValue::Bytes(_) => ValueType::IpAddress,
            AttributeValue::StringMap(_) => ValueType::StringMap,
        }
    }
}

/// The type of the values of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttributeType {
    /// Any text.
    String,
    /// `12`.
    Int64,
    /// `1.5`.
    Double,
    /// `true`.
    Bool,
    /// `2017-07-04T00:01:10Z`.
    Timestamp,
    /// `1m30s`.
    Duration,
    /// `c0:0:0:2`.
    Bytes,
    /// `192.0.2.1` or `2001:db8::1`, as the bytes of the address.
    Ip,
    /// `key:value;key:value`.
    StringMap,
    /// Auto-detected.
    Auto,
}

impl AttributeType {
    /// The order of detection.
    const ORDER: [AttributeType; 7] = [
        AttributeType::Int64,
        AttributeType::Double,
        AttributeType::Bool,
        AttributeType::Timestamp,
        AttributeType::Duration,
        AttributeType::Bytes,
        AttributeType::StringMap,
    ];

    /// The type whose flag sends values of a type of the vocabulary.
    pub(super) fn of(value_type: ValueType) -> Option<AttributeType> {
        Some(match value_type {
            ValueType::Unspecified => return None,
            ValueType::String | ValueType::EmailAddress | ValueType::Uri | ValueType::DnsName => {
                AttributeType::String
            }
            ValueType::Int64 => AttributeType::Int64,
            ValueType::Double => AttributeType::Double,
            ValueType::Bool => AttributeType::Bool,
            ValueType::Timestamp => AttributeType::Timestamp,
            ValueType::IpAddress => AttributeType::Ip,
            ValueType::Duration => AttributeType::Duration,
            ValueType::StringMap => AttributeType::StringMap,
        })
    }

    /// The shortest name of its flag.
    pub(super) fn flag(self) -> &'static str {
        match self {
            AttributeType::String => "-s",
            AttributeType::Int64 => "-i",
            AttributeType::Double => "-d",
            AttributeType::Bool => "-b",
            AttributeType::Timestamp => "-t",
            AttributeType::Duration => "--duration-attributes",
            AttributeType::Bytes => "--bytes-attributes",
            AttributeType::Ip => "--ip-attributes",
            AttributeType::StringMap => "--stringmap-attributes",
            AttributeType::Auto => "-a",
        }
    }

    /// What a value looks like, with an example; `None` where every text is one.
    pub(crate) fn expected(self) -> Option<&'static str> {
        match self {
            AttributeType::String | AttributeType::Auto => None,
            AttributeType::Int64 => Some("a whole number, for example 12"),
            AttributeType::Double => Some("a number, for example 1.5"),
            AttributeType::Bool => Some("true or false"),
            AttributeType::Timestamp => Some("a timestamp, for example 2017-07-04T00:01:10Z"),
            AttributeType::Duration => Some("a duration with a unit, for example 1m30s"),
            AttributeType::Bytes => Some("bytes in hexadecimal, for example c0:0:0:2"),
            AttributeType::Ip => Some("an IP address, for example 192.0.2.1 or 2001:db8::1"),
            AttributeType::StringMap => Some("entries key:value, separated by semicolons"),
        }
    }

    /// Parses a value. Errors: the text of Istio Mixer.
    pub(crate) fn parse(self, text: &str) -> Result<AttributeValue, String> {
        let number = |function: &'static str| move |error: NumberError| error.text(function, text);
        match self {
            AttributeType::String => Ok(AttributeValue::String(text.to_owned())),
            AttributeType::Int64 => {
                go_syntax::go_decimal(text).map(AttributeValue::Int64).map_err(number("ParseInt"))
            }
            AttributeType::Double => {
                go_syntax::go_float(text).map(AttributeValue::Double).map_err(number("ParseFloat"))
            }
            AttributeType::Bool => {
                go_syntax::go_bool(text).map(AttributeValue::Bool).map_err(number("ParseBool"))
            }
            AttributeType::Timestamp => Timestamp::parse_rfc3339(text).map(AttributeValue::Timestamp),
            AttributeType::Duration => SignedDuration::parse(text).map(AttributeValue::Duration),
            AttributeType::Bytes => parse_bytes(text).map(AttributeValue::Bytes),
            AttributeType::Ip => parse_ip(text).map(AttributeValue::Bytes),
            AttributeType::StringMap => parse_map(text).map(AttributeValue::StringMap),
            AttributeType::Auto => Ok(Self::ORDER
                .into_iter()
                .find_map(|value_type| value_type.parse(text).ok())
                .unwrap_or_else(|| AttributeValue::String(text.to_owned()))),
        }
    }
}

fn parse_bytes(text: &str) -> Result<Vec<u8>, String> {
    text.split(':')
        .map(|part| go_syntax::go_hex_byte(part).map_err(|error| error.text("ParseUint", part)))
        .collect()
}

fn parse_ip(text: &str) -> Result<Vec<u8>, String> {
    let address: IpAddr = text.parse().map_err(|_| format!("`{text}` is not an IP address"))?;
    Ok(match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    })
}

fn parse_map(text: &str) -> Result<BTreeMap<String, String>, String> {
    text.split(';')
        .map(|entry| match entry.split_once(':') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(format!("{entry} is not a valid key/value pair in the form key:value")),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(text: &str) -> &'static str {
        match AttributeType::Auto.parse(text).unwrap() {
            AttributeValue::String(_) => "string",
            AttributeValue::Int64(_) => "int64",
            AttributeValue::Double(_) => "double",
            AttributeValue::Bool(_) => "bool",
            AttributeValue::Timestamp(_) => "timestamp",
            AttributeValue::Duration(_) => "duration",
            AttributeValue::Bytes(_) => "bytes",
            AttributeValue::StringMap(_) => "stringmap",
        }
    }

    #[test]
    fn types_are_detected_in_a_fixed_order() {
        let table = [
            ("int64", vec!["5", "+5", "007", "1", "0", "10"]),
            ("double", vec!["9223372036854775808", "1.5", "1e3", ".5", "NaN", "inf"]),
            ("bool", vec!["true", "T", "f"]),
            ("timestamp", vec!["2017-07-04T00:01:10Z"]),
            ("duration", vec!["1h", "1.5s", "100ms", "3µs"]),
            ("bytes", vec!["ab", "ab:cd", "c0:0:0:2", "1d", "a:b:c"]),
            ("stringmap", vec!["k:v", "k:", ":v", "k:v;x:y", "1:zz", "100:1", "f:true"]),
            (
                "string",
                vec!["tRUE", "yes", "abc", "", "hello", "a b", "2017-07-04", "0x10", "1_000", "0x1p4"],
            ),
        ];
        for (expected, texts) in table {
            for text in texts {
                assert_eq!(detected(text), expected, "{text}");
            }
        }
    }
}
