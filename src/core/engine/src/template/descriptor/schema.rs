//! Linked message types.

use crate::template::Name;

/// The index of a message type in its [`Schema`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub(super) u32);

/// The index of an enum in its [`Schema`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EnumId(pub(super) u32);

/// Message types and enums, which refer to each other by index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schema {
    pub(super) messages: Vec<MessageType>,
    pub(super) enums: Vec<EnumType>,
}

impl Schema {
    /// A message type. `None` for an index of another schema.
    pub fn message(&self, id: MessageId) -> Option<&MessageType> {
        self.messages.get(id.0 as usize)
    }

    /// An enum. `None` for an index of another schema.
    pub fn enumeration(&self, id: EnumId) -> Option<&EnumType> {
        self.enums.get(id.0 as usize)
    }

    /// All message types.
    pub fn messages(&self) -> &[MessageType] {
        &self.messages
    }
}

/// A message type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageType {
    /// Full name, for example `istio.policy.v1beta1.Value`.
    pub name: Name,
    /// Fields in number order.
    pub fields: Vec<MessageField>,
    /// Which of the messages it is that have a meaning of their own.
    pub well_known: Option<WellKnown>,
}

impl MessageType {
    /// The field with this name, as JSON or descriptors spell it.
    pub fn field(&self, name: &str) -> Option<&MessageField> {
        let json = self.fields.iter().find(|field| field.json_name == *name);
        json.or_else(|| self.fields.iter().find(|field| field.name == *name))
    }

    /// Its name without the package.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }
}

/// A message with a meaning of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WellKnown {
    /// `istio.policy.v1beta1.Value`
    Value,
    /// `istio.policy.v1beta1.IPAddress`
    IpAddress,
    /// `istio.policy.v1beta1.TimeStamp`
    TimeStamp,
    /// `istio.policy.v1beta1.Duration`
    Duration,
    /// `istio.policy.v1beta1.DNSName`
    DnsName,
    /// `istio.policy.v1beta1.EmailAddress`
    EmailAddress,
    /// `istio.policy.v1beta1.Uri`
    Uri,
    /// `istio.policy.v1beta1.StringMap`
    StringMap,
    /// `google.protobuf.Duration`
    GoogleDuration,
    /// `google.protobuf.Timestamp`
    GoogleTimestamp,
}

impl WellKnown {
    /// The message with this full name.
    pub(super) fn find(name: &str) -> Option<Self> {
        Some(match name {
            "istio.policy.v1beta1.Value" => Self::Value,
            "istio.policy.v1beta1.IPAddress" => Self::IpAddress,
            "istio.policy.v1beta1.TimeStamp" => Self::TimeStamp,
            "istio.policy.v1beta1.Duration" => Self::Duration,
            "istio.policy.v1beta1.DNSName" => Self::DnsName,
            "istio.policy.v1beta1.EmailAddress" => Self::EmailAddress,
            "istio.policy.v1beta1.Uri" => Self::Uri,
            "istio.policy.v1beta1.StringMap" => Self::StringMap,
            "google.protobuf.Duration" => Self::GoogleDuration,
            "google.protobuf.Timestamp" => Self::GoogleTimestamp,
            _ => return None,
        })
    }
}

/// A field of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageField {
    /// Protobuf field number.
    pub number: u32,
    /// The proto name.
    pub name: Name,
    /// The JSON name.
    pub json_name: Name,
    /// The type of one value.
    pub kind: Kind,
    /// How many there are.
    pub cardinality: Cardinality,
    /// Whether a value that is not sent differs from the default: of proto2, and of one in a `oneof` or with `optional`.
    pub has_presence: bool,
}

/// How many values a field has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cardinality {
    /// At most one.
    One,
    /// A list.
    Many {
        /// Whether numbers share one length-delimited field.
        packed: bool,
    },
    /// A map; the kind of the field is that of the values.
    Map {
        /// The type of its keys.
        key: Kind,
    },
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// `double`
    Double,
    /// `float`
    Float,
    /// `int64`
    Int64,
    /// `uint64`
    Uint64,
    /// `int32`
    Int32,
    /// `fixed64`
    Fixed64,
    /// `fixed32`
    Fixed32,
    /// `bool`
    Bool,
    /// `string`
    String,
    /// A group, or a type that does not exist: nothing can be set.
    Unsupported,
    /// A message.
    Message(MessageId),
    /// `bytes`
    Bytes,
    /// `uint32`
    Uint32,
    /// An enum.
    Enum(EnumId),
    /// `sfixed32`
    Sfixed32,
    /// `sfixed64`
    Sfixed64,
    /// `sint32`
    Sint32,
    /// `sint64`
    Sint64,
    /// A message or enum that the descriptors do not contain, by its full name.
    Missing(Name),
}

impl Kind {
    /// As `.proto` files spell it.
    pub fn name<'s>(&'s self, schema: &'s Schema) -> &'s str {
        match self {
            Self::Double => "double",
            Self::Float => "float",
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
            Self::Int32 => "int32",
            Self::Fixed64 => "fixed64",
            Self::Fixed32 => "fixed32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Unsupported => "group",
            Self::Message(id) => schema.message(*id).map_or("message", |message| &message.name),
            Self::Bytes => "bytes",
            Self::Uint32 => "uint32",
            Self::Enum(id) => schema.enumeration(*id).map_or("enum", |e| &e.name),
            Self::Sfixed32 => "sfixed32",
            Self::Sfixed64 => "sfixed64",
            Self::Sint32 => "sint32",
            Self::Sint64 => "sint64",
            Self::Missing(name) => name,
        }
    }

    /// Whether it is an integer, of any width.
    pub fn is_integer(&self) -> bool {
        matches!(
            self,
            Self::Int64
                | Self::Uint64
                | Self::Int32
                | Self::Fixed64
                | Self::Fixed32
                | Self::Uint32
                | Self::Sfixed32
                | Self::Sfixed64
                | Self::Sint32
                | Self::Sint64
        )
    }

    /// The message with a meaning of its own that it is.
    pub fn well_known(&self, schema: &Schema) -> Option<WellKnown> {
        match self {
            Self::Message(id) => schema.message(*id)?.well_known,
            _ => None,
        }
    }
}

/// An enum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnumType {
    /// Full name.
    pub name: Name,
    /// Names and numbers, in the order of the file.
    pub values: Vec<(Name, i32)>,
}

impl EnumType {
    /// The number of a name.
    pub fn number(&self, name: &str) -> Option<i32> {
        self.values.iter().find(|(known, _)| *known == *name).map(|(_, number)| *number)
    }

    /// Its name without the package.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }
}

/// A method of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method {
    /// For example `/metric.HandleMetricService/HandleMetric`.
    pub path: Name,
    /// Full name of its request.
    pub request: String,
    /// Full name of its response.
    pub response: String,
}
