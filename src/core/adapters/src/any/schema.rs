//! Schemas of the messages that an `Any` of the configuration may contain.

use mixer_base::http_status;

/// The schema of a message.
#[derive(Debug)]
pub(super) struct Schema {
    /// Full protobuf name.
    pub(super) name: &'static str,
    /// Form of its JSON.
    pub(super) shape: Shape,
}

/// The JSON form of a message.
#[derive(Debug)]
pub(super) enum Shape {
    /// A mapping of field names.
    Fields(&'static [FieldSchema]),
    /// The bare value of field 1.
    Wrapper(FieldType),
    /// `1.5s`.
    Duration,
    /// RFC 3339.
    Timestamp,
    /// Any mapping.
    Struct,
    /// Any value.
    Value,
    /// Any list.
    ListValue,
    /// A mapping with `@type`.
    Any,
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct FieldSchema {
    /// Protobuf number.
    pub(super) number: u32,
    /// snake_case.
    pub(super) name: &'static str,
    /// Type of one value.
    pub(super) field_type: FieldType,
    /// Number of values.
    pub(super) cardinality: Cardinality,
}

/// The number of values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cardinality {
    /// At most one.
    One,
    /// A list.
    Many,
    /// A map with string keys.
    Map,
}

/// The type of one value.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldType {
    /// bool
    Bool,
    /// int32
    Int32,
    /// int64
    Int64,
    /// uint32
    Uint32,
    /// uint64
    Uint64,
    /// float
    Float,
    /// double
    Double,
    /// string
    String,
    /// bytes, base64 in JSON
    Bytes,
    /// An enum: full name, names and numbers.
    Enum(&'static str, &'static [(&'static str, i64)]),
    /// A message.
    Message(&'static Schema),
}

impl Schema {
    /// Whether an `Any` keeps its JSON under `value`.
    pub(super) fn is_well_known(&self) -> bool {
        !matches!(self.shape, Shape::Fields(_)) || self.name == EMPTY.name
    }
}

const fn one(number: u32, name: &'static str, field_type: FieldType) -> FieldSchema {
    FieldSchema { number, name, field_type, cardinality: Cardinality::One }
}

const fn many(number: u32, name: &'static str, field_type: FieldType) -> FieldSchema {
    FieldSchema { number, name, field_type, cardinality: Cardinality::Many }
}

const fn text(number: u32, name: &'static str) -> FieldSchema {
    one(number, name, FieldType::String)
}

const fn fields(name: &'static str, fields: &'static [FieldSchema]) -> Schema {
    Schema { name, shape: Shape::Fields(fields) }
}

const fn wrapper(name: &'static str, field_type: FieldType) -> Schema {
    Schema { name, shape: Shape::Wrapper(field_type) }
}

static EMPTY: Schema = fields("google.protobuf.Empty", &[]);
static DURATION: Schema = Schema { name: "google.protobuf.Duration", shape: Shape::Duration };
static ANY: Schema = Schema { name: "google.protobuf.Any", shape: Shape::Any };
static QUOTA_VIOLATION: Schema =
    fields("google.rpc.QuotaFailure.Violation", &[text(1, "subject"), text(2, "description")]);
static PRECONDITION_VIOLATION: Schema = fields(
    "google.rpc.PreconditionFailure.Violation",
    &[text(1, "type"), text(2, "subject"), text(3, "description")],
);
static FIELD_VIOLATION: Schema =
    fields("google.rpc.BadRequest.FieldViolation", &[text(1, "field"), text(2, "description")]);
static LINK: Schema = fields("google.rpc.Help.Link", &[text(1, "description"), text(2, "url")]);

/// Every message allowed in `@type`, in name order.
pub(super) static SCHEMAS: &[Schema] = &[
    Schema { name: "google.protobuf.Any", shape: Shape::Any },
    wrapper("google.protobuf.BoolValue", FieldType::Bool),
    wrapper("google.protobuf.BytesValue", FieldType::Bytes),
    wrapper("google.protobuf.DoubleValue", FieldType::Double),
    Schema { name: "google.protobuf.Duration", shape: Shape::Duration },
    fields("google.protobuf.Empty", &[]),
    wrapper("google.protobuf.FloatValue", FieldType::Float),
    wrapper("google.protobuf.Int32Value", FieldType::Int32),
    wrapper("google.protobuf.Int64Value", FieldType::Int64),
    Schema { name: "google.protobuf.ListValue", shape: Shape::ListValue },
    wrapper("google.protobuf.StringValue", FieldType::String),
    Schema { name: "google.protobuf.Struct", shape: Shape::Struct },
    Schema { name: "google.protobuf.Timestamp", shape: Shape::Timestamp },
    wrapper("google.protobuf.UInt32Value", FieldType::Uint32),
    wrapper("google.protobuf.UInt64Value", FieldType::Uint64),
    Schema { name: "google.protobuf.Value", shape: Shape::Value },
    fields("google.rpc.BadRequest", &[many(1, "field_violations", FieldType::Message(&FIELD_VIOLATION))]),
    fields("google.rpc.DebugInfo", &[many(1, "stack_entries", FieldType::String), text(2, "detail")]),
    fields("google.rpc.Help", &[many(1, "links", FieldType::Message(&LINK))]),
    fields("google.rpc.LocalizedMessage", &[text(1, "locale"), text(2, "message")]),
    fields(
        "google.rpc.PreconditionFailure",
        &[many(1, "violations", FieldType::Message(&PRECONDITION_VIOLATION))],
    ),
    fields("google.rpc.QuotaFailure", &[many(1, "violations", FieldType::Message(&QUOTA_VIOLATION))]),
    fields("google.rpc.RequestInfo", &[text(1, "request_id"), text(2, "serving_data")]),
    fields(
        "google.rpc.ResourceInfo",
        &[text(1, "resource_type"), text(2, "resource_name"), text(3, "owner"), text(4, "description")],
    ),
    fields("google.rpc.RetryInfo", &[one(1, "retry_delay", FieldType::Message(&DURATION))]),
    fields(
        "google.rpc.Status",
        &[one(1, "code", FieldType::Int32), text(2, "message"), many(3, "details", FieldType::Message(&ANY))],
    ),
    fields(
        "istio.policy.v1beta1.DirectHttpResponse",
        &[
            one(1, "code", FieldType::Enum("istio.policy.v1beta1.HttpStatusCode", http_status::NAMES)),
            text(2, "body"),
            FieldSchema {
                number: 3,
                name: "headers",
                field_type: FieldType::String,
                cardinality: Cardinality::Map,
            },
        ],
    ),
];

/// The message with this full name.
pub(super) fn find(name: &str) -> Option<&'static Schema> {
    SCHEMAS.iter().find(|s| s.name == name)
}
