//! Spans, as Zipkin's JSON of version 2.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::Serialize;

use mixer_attribute::Value;
use mixer_attribute::text::go_text;
use mixer_base::decimal;
use mixer_engine::adapter::{BoundInstance, Instance};

use crate::tracespan::{Outcome, Party, SpanTemplate, is_sampled, status_of};

/// The name of an endpoint without one.
const UNNAMED: &str = "default";

/// How instances become JSON.
pub(super) struct JsonTemplate {
    span: SpanTemplate,
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

impl JsonTemplate {
    pub(super) fn new(instance: &BoundInstance, sampling: f64) -> Self {
        let tags = instance.entries("span_tags").map(|(key, at)| (key.to_owned(), at)).collect();
        Self { span: SpanTemplate::new(instance), tags, sampling }
    }

    /// The JSON of an instance.
    pub(super) fn span(&self, instance: &Instance<'_>) -> Outcome<Box<[u8]>> {
        let span = match self.span.read(instance, |trace_id| is_sampled(trace_id, self.sampling)) {
            Outcome::Span(span) => span,
            Outcome::None => return Outcome::None,
            Outcome::Impossible(why) => return Outcome::Impossible(why),
        };
        let (first, second) = if span.is_client { ("Sent", "Received") } else { ("Received", "Sent") };
        let annotation =
            |time, verb, size| Annotation { timestamp: micros(time), value: format!("{verb} {size} bytes") };
        let took = span.end - span.start;
        let json = Span {
            timestamp: micros(span.start),
            duration: if took == 0 { 0 } else { micros(took).max(1) },
            trace_id: match span.trace_id >> 64 {
                0 => format!("{:016x}", span.trace_id),
                _ => format!("{:032x}", span.trace_id),
            },
            id: format!("{:016x}", span.id),
            parent_id: span.parent_id.map(|id| format!("{id:016x}")),
            name: String::from_utf8_lossy(span.name),
            kind: if span.is_client { "CLIENT" } else { "SERVER" },
            local_endpoint: endpoint(span.local()),
            annotations: [
                annotation(span.start, first, span.request_size),
                annotation(span.end, second, span.response_size),
            ],
            tags: self.tags(instance, span.http_status),
        };
        match serde_json::to_vec(&json) {
            Ok(json) => Outcome::Span(json.into()),
            Err(_) => Outcome::Impossible("it has no JSON"),
        }
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
            let (_, status) = status_of(http_status);
            tags.insert("http.status_code", http_status.to_string().into());
            tags.insert("opencensus.status_description", status.into());
            if status != "OK" {
                tags.insert("error", status.into());
            }
        }
        tags
    }
}

/// Microseconds, rounded half up.
fn micros(nanos: i128) -> i64 {
    i64::try_from((nanos + 500) / 1000).unwrap_or(i64::MAX)
}

fn endpoint(party: Party<'_>) -> Endpoint<'_> {
    let octets = party.address;
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
    let service_name = match party.name {
        b"" => UNNAMED.into(),
        name => String::from_utf8_lossy(name),
    };
    Endpoint { service_name, ipv4, ipv6 }
}
