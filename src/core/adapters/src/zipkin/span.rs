//! Spans, as Zipkin's JSON of version 2.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::Serialize;

use mixer_attribute::text::go_text;
use mixer_attribute::{Timestamp, Value};
use mixer_base::decimal;
use mixer_engine::adapter::{BoundInstance, Instance};

/// What `rewriteClientSpanId` combines with the id of a client's span, so that it differs from that of the server's.
const CLIENT_PAD: u64 = 0x3f6a_2ec3_c810_c2ab;
/// The name of an endpoint without one.
const UNNAMED: &str = "default";

/// What becomes of an instance.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// Its JSON.
    Span(Box<[u8]>),
    /// It belongs to no trace, or its trace is not sampled.
    None,
    /// Zipkin has no such span: its times are impossible, or an id is too long.
    Impossible(&'static str),
}

/// Where the values of an instance are.
pub(super) struct SpanTemplate {
    trace_id: Option<usize>,
    span_id: Option<usize>,
    parent_id: Option<usize>,
    name: Option<usize>,
    start: Option<usize>,
    end: Option<usize>,
    http_status: Option<usize>,
    is_client: Option<usize>,
    rewrites: Option<usize>,
    /// Name and address of the client and of the server.
    client: [Option<usize>; 2],
    server: [Option<usize>; 2],
    request_size: Option<usize>,
    response_size: Option<usize>,
    tags: Vec<(String, usize)>,
    sampling: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Span<'s> {
    #[serde(skip_serializing_if = "is_zero")]
    timestamp: i64,
    #[serde(skip_serializing_if = "is_zero")]
    duration: i64,
    trace_id: String,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_id: Option<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: Cow<'s, str>,
    kind: &'static str,
    local_endpoint: Endpoint<'s>,
    annotations: [Annotation; 2],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<&'s str, Cow<'s, str>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint<'s> {
    service_name: Cow<'s, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv4: Option<Ipv4Addr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv6: Option<Ipv6Addr>,
}

#[derive(Serialize)]
struct Annotation {
    timestamp: i64,
    value: String,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl SpanTemplate {
    pub(super) fn new(instance: &BoundInstance, sampling: f64) -> Self {
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
            client: [at("source_name"), at("source_ip")],
            server: [at("destination_name"), at("destination_ip")],
            request_size: at("request_total_size"),
            response_size: at("response_total_size"),
            tags: instance.entries("span_tags").map(|(key, at)| (key.to_owned(), at)).collect(),
            sampling,
        }
    }

    pub(super) fn span(&self, instance: &Instance<'_>) -> Outcome {
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
        let (trace_id, span_id) = match (id(text(self.trace_id), 16), id(text(self.span_id), 8)) {
            (Id::TooLong, _) | (_, Id::TooLong) => return Outcome::Impossible("an id is too long"),
            (Id::Number(trace), Id::Number(span)) => (trace, span as u64),
            _ => return Outcome::None,
        };
        if !self.samples(trace_id) {
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
        let (first, second) = if is_client { ("Sent", "Received") } else { ("Received", "Sent") };
        let annotation =
            |time, verb, size| Annotation { timestamp: micros(time), value: format!("{verb} {size} bytes") };
        let [name, address] = if is_client { self.client } else { self.server };
        let span = Span {
            timestamp: micros(start),
            duration: if end == start { 0 } else { micros(end - start).max(1) },
            trace_id: match trace_id >> 64 {
                0 => format!("{trace_id:016x}"),
                _ => format!("{trace_id:032x}"),
            },
            id: format!("{own_id:016x}"),
            parent_id: parent_id.filter(|id| *id != 0).map(|id| format!("{id:016x}")),
            name: String::from_utf8_lossy(text(self.name)),
            kind: if is_client { "CLIENT" } else { "SERVER" },
            local_endpoint: endpoint(text(name), value(address)),
            annotations: [
                annotation(start, first, number(self.request_size)),
                annotation(end, second, number(self.response_size)),
            ],
            tags: self.tags(instance, number(self.http_status)),
        };
        match serde_json::to_vec(&span) {
            Ok(json) => Outcome::Span(json.into()),
            Err(_) => Outcome::Impossible("it has no JSON"),
        }
    }

    /// compat(1.3): the high half of the trace id decides, so that traces with short ids are always sampled.
    fn samples(&self, trace_id: u128) -> bool {
        let high = (trace_id >> 64) as u64;
        self.sampling >= 1.0 || high >> 1 < (self.sampling * (1_u64 << 63) as f64) as u64
    }

    fn tags<'s>(&'s self, instance: &Instance<'s>, http_status: i64) -> BTreeMap<&'s str, Cow<'s, str>> {
        let mut tags: BTreeMap<&str, Cow<'_, str>> = BTreeMap::new();
        for (key, at) in &self.tags {
            let Some(value) = instance.value(*at) else { continue };
            let text = match value {
                Value::String(text) => String::from_utf8_lossy(text),
                Value::Int64(number) => number.to_string().into(),
                Value::Double(number) => decimal::plain(number).to_string().into(),
                other => go_text(other).to_string().into(),
            };
            tags.insert(key, text);
        }
        if http_status > 0 {
            let status = status_of(http_status);
            tags.insert("http.status_code", http_status.to_string().into());
            tags.insert("opencensus.status_description", status.into());
            if status != "OK" {
                tags.insert("error", status.into());
            }
        }
        tags
    }
}

/// An id in hexadecimal digits.
enum Id {
    Number(u128),
    /// It is empty, zero, or no hexadecimal number of whole bytes.
    None,
    TooLong,
}

fn id(digits: &[u8], most_bytes: usize) -> Id {
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

/// Nanoseconds since 1970; `None` before, or without a time.
fn nanos(time: Option<Value<'_>>) -> Option<i128> {
    match time {
        Some(Value::Timestamp(Timestamp { seconds, nanos })) if seconds >= 0 => {
            Some(i128::from(seconds) * 1_000_000_000 + i128::from(nanos))
        }
        _ => None,
    }
}

/// Microseconds, rounded half up.
fn micros(nanos: i128) -> i64 {
    i64::try_from((nanos + 500) / 1000).unwrap_or(i64::MAX)
}

fn endpoint<'s>(name: &'s [u8], address: Option<Value<'_>>) -> Endpoint<'s> {
    let octets: &[u8] = match address {
        Some(Value::Bytes(octets)) => octets,
        _ => &[],
    };
    let (ipv4, ipv6) = match (<[u8; 4]>::try_from(octets), <[u8; 16]>::try_from(octets)) {
        (Ok(four), _) => (Some(Ipv4Addr::from(four)), None),
        (_, Ok(sixteen)) => {
            let address = Ipv6Addr::from(sixteen);
            match address.to_ipv4_mapped() {
                Some(mapped) => (Some(mapped), None),
                None => (None, Some(address)),
            }
        }
        _ => (Some(Ipv4Addr::UNSPECIFIED), None),
    };
    let service_name = match name {
        b"" => UNNAMED.into(),
        name => String::from_utf8_lossy(name),
    };
    Endpoint { service_name, ipv4, ipv6 }
}

/// The status of gRPC that stands for one of HTTP.
fn status_of(http: i64) -> &'static str {
    match http {
        200..400 => "OK",
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        501 => "UNIMPLEMENTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "UNKNOWN",
    }
}
