//! Spans: `opentelemetry.proto.trace.v1`.

use prost::Message;

use crate::common::KeyValue;

/// The flag of a sampled trace.
pub const SPAN_FLAG_SAMPLED: u32 = 1;
/// The flag that [`SPAN_FLAG_IS_REMOTE`] is known.
pub const SPAN_FLAG_HAS_IS_REMOTE: u32 = 0x100;
/// The flag of a span whose parent is in another process.
pub const SPAN_FLAG_IS_REMOTE: u32 = 0x200;

/// A span.
#[derive(Clone, PartialEq, Message)]
pub struct Span {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// 8 bytes, or none.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    /// The operation.
    #[prost(string, tag = "5")]
    pub name: String,
    /// Its role in a call.
    #[prost(enumeration = "SpanKind", tag = "6")]
    pub kind: i32,
    /// Since 1970.
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    /// Since 1970.
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    /// With distinct keys.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// In the order of their times.
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<SpanEvent>,
    /// Whether it failed.
    #[prost(message, optional, tag = "15")]
    pub status: Option<SpanStatus>,
    /// See [`SPAN_FLAG_SAMPLED`] and the others.
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

/// Something that happened at one time of a span.
#[derive(Clone, PartialEq, Message)]
pub struct SpanEvent {
    /// Since 1970.
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    /// What happened.
    #[prost(string, tag = "2")]
    pub name: String,
    /// With distinct keys.
    #[prost(message, repeated, tag = "3")]
    pub attributes: Vec<KeyValue>,
}

/// Whether a span failed.
#[derive(Clone, PartialEq, Message)]
pub struct SpanStatus {
    /// For people.
    #[prost(string, tag = "2")]
    pub message: String,
    /// The status.
    #[prost(enumeration = "StatusCode", tag = "3")]
    pub code: i32,
}

/// The role of a span in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum SpanKind {
    /// Not known.
    Unspecified = 0,
    /// Not a call.
    Internal = 1,
    /// It serves a call.
    Server = 2,
    /// It makes a call.
    Client = 3,
}

/// The status of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum StatusCode {
    /// Not set.
    Unset = 0,
    /// It succeeded.
    Ok = 1,
    /// It failed.
    Error = 2,
}
