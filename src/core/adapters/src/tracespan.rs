//! Spans of the template `tracespan`: what the adapters that send spans have in common. Their meaning is that of Istio Mixer 1.3.

use mixer_attribute::{Timestamp, Value};
use mixer_engine::adapter::{BoundInstance, Instance};

/// What `rewriteClientSpanId` combines with the id of a client's span, so that it differs from that of the server's.
const CLIENT_PAD: u64 = 0x3f6a_2ec3_c810_c2ab;

/// What becomes of an instance.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome<S> {
    /// It is a span.
    Span(S),
    /// It belongs to no trace, or its trace is not sampled.
    None,
    /// There is no such span: its times are impossible, or an id is too long.
    Impossible(&'static str),
}

/// Where the values of an instance are.
pub(crate) struct SpanTemplate {
    trace_id: Option<usize>,
    span_id: Option<usize>,
    parent_id: Option<usize>,
    name: Option<usize>,
    start: Option<usize>,
    end: Option<usize>,
    http_status: Option<usize>,
    is_client: Option<usize>,
    rewrites: Option<usize>,
    /// Name and address.
    source: [Option<usize>; 2],
    destination: [Option<usize>; 2],
    request_size: Option<usize>,
    response_size: Option<usize>,
}

/// A span as it was reported. Texts may be any bytes.
pub(crate) struct ReportedSpan<'v> {
    /// Never 0.
    pub(crate) trace_id: u128,
    /// Never 0.
    pub(crate) id: u64,
    /// Never 0.
    pub(crate) parent_id: Option<u64>,
    pub(crate) name: &'v [u8],
    pub(crate) is_client: bool,
    /// Nanoseconds since 1970.
    pub(crate) start: i128,
    /// Not before `start`.
    pub(crate) end: i128,
    /// 0 or less: none.
    pub(crate) http_status: i64,
    pub(crate) source: Party<'v>,
    pub(crate) destination: Party<'v>,
    /// Bytes.
    pub(crate) request_size: i64,
    /// Bytes.
    pub(crate) response_size: i64,
}

/// One end of a call.
#[derive(Clone, Copy)]
pub(crate) struct Party<'v> {
    pub(crate) name: &'v [u8],
    /// 4 or 16 bytes; anything else is none.
    pub(crate) address: &'v [u8],
}

impl<'v> ReportedSpan<'v> {
    /// The end of the call at which the span was taken.
    pub(crate) fn local(&self) -> Party<'v> {
        if self.is_client { self.source } else { self.destination }
    }
}

impl SpanTemplate {
    pub(crate) fn new(instance: &BoundInstance) -> Self {
        let at = |field: &str| instance.position(field);
        Self {
            trace_id: at("trace_id"),
            span_id: at("span_id"),
            parent_id: at("parent_span_id"),
            name: at("span_name"),
            start: at("start_time"),
            end: at("end_time"),
            http_status: at("httpStatusCode"),
            is_client: at("client_span"),
            rewrites: at("rewrite_client_span_id"),
            source: [at("source_name"), at("source_ip")],
            destination: [at("destination_name"), at("destination_ip")],
            request_size: at("request_total_size"),
            response_size: at("response_total_size"),
        }
    }

    /// The span of an instance, if its trace is sampled.
    pub(crate) fn read<'v>(
        &self,
        instance: &Instance<'v>,
        samples: impl FnOnce(u128) -> bool,
    ) -> Outcome<ReportedSpan<'v>> {
        let value = |at: Option<usize>| at.and_then(|at| instance.value(at));
        let text = |at: Option<usize>| match value(at) {
            Some(Value::String(text)) => text,
            _ => b"",
        };
        let number = |at: Option<usize>| match value(at) {
            Some(Value::Int64(number)) => number,
            _ => 0,
        };
        let is_true = |at: Option<usize>| value(at) == Some(Value::Bool(true));
        let party = |[name, address]: [Option<usize>; 2]| {
            let address: &[u8] = match value(address) {
                Some(Value::Bytes(octets)) => octets,
                _ => &[],
            };
            Party { name: text(name), address }
        };
        let (trace_id, span_id) = match (id(text(self.trace_id), 16), id(text(self.span_id), 8)) {
            (Id::TooLong, _) | (_, Id::TooLong) => return Outcome::Impossible("an id is too long"),
            (Id::Number(trace), Id::Number(span)) => (trace, span as u64),
            _ => return Outcome::None,
        };
        if !samples(trace_id) {
            return Outcome::None;
        }
        let is_client = is_true(self.is_client);
        let mut parent_id = match id(text(self.parent_id), 8) {
            Id::Number(parent) => Some(parent as u64),
            Id::TooLong | Id::None => None,
        };
        let mut own_id = span_id;
        if is_true(self.rewrites) {
            match is_client {
                true => own_id ^= CLIENT_PAD,
                false => parent_id = Some(span_id ^ CLIENT_PAD),
            }
        }
        let times = (nanos(value(self.start)), nanos(value(self.end)));
        let (Some(start), Some(end)) = times else {
            return Outcome::Impossible("it has no start or end, or one before 1970");
        };
        if end < start {
            return Outcome::Impossible("it ends before it starts");
        }
        if own_id == 0 {
            return Outcome::Impossible("its id is zero");
        }
        Outcome::Span(ReportedSpan {
            trace_id,
            id: own_id,
            parent_id: parent_id.filter(|id| *id != 0),
            name: text(self.name),
            is_client,
            start,
            end,
            http_status: number(self.http_status),
            source: party(self.source),
            destination: party(self.destination),
            request_size: number(self.request_size),
            response_size: number(self.response_size),
        })
    }
}

/// Whether a trace is among the part of all traces that is sent. compat(1.3): the high half of its id decides, so that traces with short ids
/// are always sampled; pinned by adapters-remote/zipkin.
#[cfg(any(feature = "adapter-signalfx", feature = "adapter-stackdriver", feature = "adapter-zipkin"))]
pub(crate) fn is_sampled(trace_id: u128, part: f64) -> bool {
    let high = (trace_id >> 64) as u64;
    part >= 1.0 || high >> 1 < (part * (1_u64 << 63) as f64) as u64
}

/// An id in hexadecimal digits.
pub(crate) enum Id {
    Number(u128),
    /// It is empty, zero, or no hexadecimal number of whole bytes.
    None,
    TooLong,
}

pub(crate) fn id(digits: &[u8], most_bytes: usize) -> Id {
    let is_hex = digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit);
    if !is_hex {
        return Id::None;
    }
    if digits.len() > 2 * most_bytes {
        return Id::TooLong;
    }
    let number = std::str::from_utf8(digits).ok().and_then(|digits| u128::from_str_radix(digits, 16).ok());
    number.filter(|number| *number != 0).map_or(Id::None, Id::Number)
}

/// The status of gRPC that stands for one of HTTP: its number and its name.
#[cfg(any(feature = "adapter-stackdriver", feature = "adapter-zipkin"))]
pub(crate) fn status_of(http: i64) -> (i32, &'static str) {
    match http {
        200..400 => (0, "OK"),
        400 => (3, "INVALID_ARGUMENT"),
        401 => (16, "UNAUTHENTICATED"),
        403 => (7, "PERMISSION_DENIED"),
        404 => (5, "NOT_FOUND"),
        429 => (8, "RESOURCE_EXHAUSTED"),
        499 => (1, "CANCELLED"),
        501 => (12, "UNIMPLEMENTED"),
        503 => (14, "UNAVAILABLE"),
        504 => (4, "DEADLINE_EXCEEDED"),
        _ => (2, "UNKNOWN"),
    }
}

/// Nanoseconds since 1970; `None` before, or without a time.
fn nanos(time: Option<Value<'_>>) -> Option<i128> {
    match time {
        Some(Value::Timestamp(Timestamp { seconds, nanos })) if seconds >= 0 => {
            Some(i128::from(seconds) * 1_000_000_000 + i128::from(nanos))
        }
        _ => None,
    }
}
