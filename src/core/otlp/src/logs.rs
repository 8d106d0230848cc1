//! Log records: `opentelemetry.proto.logs.v1`.

use prost::Message;

use crate::common::{AnyValue, KeyValue};

/// A log record.
#[derive(Clone, PartialEq, Message)]
pub struct LogRecord {
    /// When it happened, since 1970; 0: not known.
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    /// From 1 (trace) to 24 (fatal); 0: not known. See [`severity_number`].
    #[prost(int32, tag = "2")]
    pub severity_number: i32,
    /// The severity as its source wrote it.
    #[prost(string, tag = "3")]
    pub severity_text: String,
    /// The message.
    #[prost(message, optional, tag = "5")]
    pub body: Option<AnyValue>,
    /// With distinct keys. Those that are [pushed](crate::push_attribute) need not be here; their field is [`Self::ATTRIBUTES`].
    #[prost(message, repeated, tag = "6")]
    pub attributes: Vec<KeyValue>,
    /// The lower 8 bits are those of W3C's trace context.
    #[prost(fixed32, tag = "8")]
    pub flags: u32,
    /// 16 bytes, or none.
    #[prost(bytes = "vec", tag = "9")]
    pub trace_id: Vec<u8>,
    /// 8 bytes, or none.
    #[prost(bytes = "vec", tag = "10")]
    pub span_id: Vec<u8>,
    /// When it was observed, since 1970.
    #[prost(fixed64, tag = "11")]
    pub observed_time_unix_nano: u64,
    /// The kind of the event.
    #[prost(string, tag = "12")]
    pub event_name: String,
}

impl LogRecord {
    /// The field of the attributes.
    pub const ATTRIBUTES: u32 = 6;
}

/// The number of a severity by its usual names, in any case, as the appendix of OpenTelemetry's log data model maps those of syslog and of
/// others; 0 for any other text.
pub fn severity_number(text: &str) -> i32 {
    const NAMES: [(&str, i32); 16] = [
        ("trace", 1),
        ("debug", 5),
        ("info", 9),
        ("informational", 9),
        ("information", 9),
        ("notice", 10),
        ("warn", 13),
        ("warning", 13),
        ("error", 17),
        ("err", 17),
        ("critical", 18),
        ("crit", 18),
        ("alert", 19),
        ("fatal", 21),
        ("emergency", 21),
        ("emerg", 21),
    ];
    NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map_or(0, |(_, number)| *number)
}
