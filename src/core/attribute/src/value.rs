//! Attribute values and their static types.

use super::{SignedDuration, SlotId, Timestamp};

/// The static type of an attribute or expression. The discriminants are those of `istio.policy.v1beta1.ValueType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum ValueType {
    /// No type: an unset dynamic field.
    #[default]
    Unspecified = 0,
    /// Bytes, usually UTF-8 text.
    String = 1,
    /// Signed 64-bit integer.
    Int64 = 2,
    /// IEEE 754 binary64.
    Double = 3,
    /// Boolean.
    Bool = 4,
    /// A point in time, UTC.
    Timestamp = 5,
    /// 4 or 16 bytes.
    IpAddress = 6,
    /// A mailbox, as text.
    EmailAddress = 7,
    /// A URI reference, as text.
    Uri = 8,
    /// A domain name, as text.
    DnsName = 9,
    /// Signed nanoseconds.
    Duration = 10,
    /// A map from text to text.
    StringMap = 11,
}

impl ValueType {
    /// Whether an attribute of this type can hold the values of another one: texts of all kinds are alike.
    pub fn holds(self, other: ValueType) -> bool {
        use ValueType::{DnsName, EmailAddress, String, Uri};
        let base = |t| if matches!(t, DnsName | EmailAddress | Uri) { String } else { t };
        base(self) == base(other)
    }

    /// Every type, in number order.
    pub const ALL: [ValueType; 12] = [
        ValueType::Unspecified,
        ValueType::String,
        ValueType::Int64,
        ValueType::Double,
        ValueType::Bool,
        ValueType::Timestamp,
        ValueType::IpAddress,
        ValueType::EmailAddress,
        ValueType::Uri,
        ValueType::DnsName,
        ValueType::Duration,
        ValueType::StringMap,
    ];

    /// The name in configuration files and error texts, for example `IP_ADDRESS`.
    pub fn name(self) -> &'static str {
        match self {
            ValueType::Unspecified => "VALUE_TYPE_UNSPECIFIED",
            ValueType::String => "STRING",
            ValueType::Int64 => "INT64",
            ValueType::Double => "DOUBLE",
            ValueType::Bool => "BOOL",
            ValueType::Timestamp => "TIMESTAMP",
            ValueType::IpAddress => "IP_ADDRESS",
            ValueType::EmailAddress => "EMAIL_ADDRESS",
            ValueType::Uri => "URI",
            ValueType::DnsName => "DNS_NAME",
            ValueType::Duration => "DURATION",
            ValueType::StringMap => "STRING_MAP",
        }
    }

    /// The type with this name in configuration files.
    pub fn from_name(name: &str) -> Option<ValueType> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }

    /// The type with this number.
    pub fn from_number(number: i64) -> Option<ValueType> {
        Self::ALL.into_iter().find(|t| *t as i64 == number)
    }
}

impl std::fmt::Display for ValueType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A string map. Entries are in wire order, with unique keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StringMap<'a> {
    /// Keys and values.
    pub entries: &'a [(&'a [u8], &'a [u8])],
    /// The received attribute whose key look-ups are recorded; `None` for computed maps.
    pub source: Option<SlotId>,
}

impl<'a> StringMap<'a> {
    /// The value of `key`, without recording the look-up. Cost: linear in the number of entries.
    pub fn peek(&self, key: &[u8]) -> Option<&'a [u8]> {
        self.entries.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }
}

/// A value in a bag or the result of an expression. It is `Copy`: texts and maps are borrowed from the request, the program
/// or the arena of the bag.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// STRING, URI, DNS_NAME, EMAIL_ADDRESS: bytes, not necessarily UTF-8.
    String(&'a [u8]),
    /// INT64.
    Int64(i64),
    /// DOUBLE.
    Double(f64),
    /// BOOL.
    Bool(bool),
    /// TIMESTAMP.
    Timestamp(Timestamp),
    /// DURATION.
    Duration(SignedDuration),
    /// IP_ADDRESS: 4 or 16 bytes if valid. Clients may send any length.
    Bytes(&'a [u8]),
    /// STRING_MAP.
    StringMap(&'a StringMap<'a>),
}

impl Value<'_> {
    /// The bytes of its texts: of a string map, those of all keys and values.
    pub(crate) fn text_len(&self) -> usize {
        match self {
            Value::String(text) | Value::Bytes(text) => text.len(),
            Value::StringMap(map) => map.entries.iter().map(|(key, value)| key.len() + value.len()).sum(),
            _ => 0,
        }
    }

    /// Appends type and value to the key of a cache: typed and length-prefixed, so that different values have different keys. False for
    /// maps, which are compared key by key.
    pub fn append_key(self, out: &mut Vec<u8>) -> bool {
        let mut tagged = |tag: u8, bytes: &[u8]| {
            out.push(tag);
            append_key_bytes(bytes, out);
            true
        };
        match self {
            Value::String(bytes) => tagged(1, bytes),
            Value::Int64(number) => tagged(2, &number.to_le_bytes()),
            Value::Double(number) => tagged(3, &number.to_bits().to_le_bytes()),
            Value::Bool(flag) => tagged(4, &[u8::from(flag)]),
            Value::Timestamp(instant) => tagged(5, &instant.unix_nanos().to_le_bytes()),
            Value::Duration(duration) => tagged(6, &duration.nanos.to_le_bytes()),
            Value::Bytes(bytes) => tagged(7, bytes),
            Value::StringMap(_) => false,
        }
    }
}

/// Appends bytes with their length to the key of a cache.
pub fn append_key_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}
