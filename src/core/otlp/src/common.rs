//! Attributes: `opentelemetry.proto.common.v1`.

use prost::bytes::BufMut;
use prost::{Message, encode_length_delimiter, length_delimiter_len};

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// A value.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// The value; `None` is an empty one.
    #[prost(oneof = "AnyValueKind", tags = "1, 2, 3, 4, 6")]
    pub kind: Option<AnyValueKind>,
}

/// The types of values that are exported.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum AnyValueKind {
    /// Text.
    #[prost(string, tag = "1")]
    Text(String),
    /// A Boolean.
    #[prost(bool, tag = "2")]
    Bool(bool),
    /// A whole number.
    #[prost(int64, tag = "3")]
    Int(i64),
    /// Any other number.
    #[prost(double, tag = "4")]
    Double(f64),
    /// A map.
    #[prost(message, tag = "6")]
    Map(KeyValueList),
}

/// The entries of a map.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValueList {
    /// With distinct keys.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<KeyValue>,
}

impl KeyValue {
    /// An attribute.
    pub fn new(key: impl Into<String>, value: impl Into<AnyValueKind>) -> Self {
        Self { key: key.into(), value: Some(AnyValue { kind: Some(value.into()) }) }
    }
}

impl From<&str> for AnyValueKind {
    fn from(text: &str) -> Self {
        AnyValueKind::Text(text.to_owned())
    }
}

impl From<String> for AnyValueKind {
    fn from(text: String) -> Self {
        AnyValueKind::Text(text)
    }
}

/// Appends an attribute to a message that has its attributes in `field`, without copies of its texts.
pub fn push_attribute(out: &mut Vec<u8>, field: u32, key: &str, value: &AnyValueKind) {
    let value_length = value.encoded_len();
    push_head(out, field, field_length(1, key.len()) + field_length(2, value_length));
    push_bytes(out, 1, key.as_bytes());
    push_head(out, 2, value_length);
    value.encode(out);
}

/// As [`push_attribute`], with a text.
pub fn push_text_attribute(out: &mut Vec<u8>, field: u32, key: &str, text: &str) {
    let value_length = field_length(1, text.len());
    push_head(out, field, field_length(1, key.len()) + field_length(2, value_length));
    push_bytes(out, 1, key.as_bytes());
    push_head(out, 2, value_length);
    push_bytes(out, 1, text.as_bytes());
}

/// Appends a field of bytes, text or a message.
pub(crate) fn push_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    push_head(out, field, bytes.len());
    out.put_slice(bytes);
}

/// Appends number and length of a field with a length; its bytes follow.
pub(crate) fn push_head(out: &mut Vec<u8>, field: u32, length: usize) {
    // A key is a varint as a length is: the number of the field and the wire type 2. Writing to a Vec cannot fail.
    let _ = encode_length_delimiter((field as usize) << 3 | 2, out);
    let _ = encode_length_delimiter(length, out);
}

/// Bytes of a field with a length.
pub(crate) fn field_length(field: u32, length: usize) -> usize {
    length_delimiter_len((field as usize) << 3 | 2) + length_delimiter_len(length) + length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Message)]
    struct Owner {
        #[prost(message, repeated, tag = "17")]
        attributes: Vec<KeyValue>,
    }

    #[test]
    fn pushed_attributes_are_those_of_the_message() {
        let long = "x".repeat(300);
        let map = KeyValueList { values: vec![KeyValue::new("k", "v")] };
        let kinds = [
            AnyValueKind::Text(long.clone()),
            AnyValueKind::Text(String::new()),
            AnyValueKind::Bool(false),
            AnyValueKind::Int(-1),
            AnyValueKind::Double(0.5),
            AnyValueKind::Map(map),
        ];
        let mut pushed = Vec::new();
        let mut owner = Owner::default();
        for (kind, key) in kinds.into_iter().zip([&*long, "a", "f", "b.c", "d", "e"]) {
            match &kind {
                AnyValueKind::Text(text) => push_text_attribute(&mut pushed, 17, key, text),
                other => push_attribute(&mut pushed, 17, key, other),
            }
            owner.attributes.push(KeyValue::new(key, kind));
        }
        assert_eq!(pushed, owner.encode_to_vec());
        assert_eq!(Owner::decode(&*pushed).unwrap(), owner);
    }
}
