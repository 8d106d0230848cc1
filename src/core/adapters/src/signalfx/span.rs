//! Spans, as SignalFx takes them: Zipkin's JSON of version 2, with `null` for what is absent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Serialize, Serializer};

use mixer_attribute::Value;
use mixer_attribute::text::{ip_from_bytes, push_text};
use mixer_base::url::decode;
use mixer_delivery::Item;
use mixer_engine::adapter::{BoundInstance, Instance};

use crate::tracespan::{Outcome, SpanTemplate, is_sampled};

/// Tags of maps, of which each entry becomes a tag.
const LABELS: [&str; 2] = ["destination.labels", "source.labels"];
/// A tag that is left out.
const REPORTER: &str = "context.reporter.type";

/// A span as JSON.
#[derive(Debug, PartialEq)]
pub(super) struct SpanItem(pub(super) Box<[u8]>);

impl Item for SpanItem {
    fn size(&self) -> usize {
        size_of::<Self>() + self.0.len()
    }
}

/// How instances become spans.
pub(super) struct JsonTemplate {
    span: SpanTemplate,
    trace_id: Option<usize>,
    id: Option<usize>,
    parent_id: Option<usize>,
    tags: Vec<(String, usize)>,
    sampling: f64,
}

type Tags<'s> = BTreeMap<Cow<'s, str>, Cow<'s, str>>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Span<'s> {
    trace_id: Cow<'s, str>,
    name: Cow<'s, str>,
    parent_id: Option<Cow<'s, str>>,
    id: Cow<'s, str>,
    kind: &'static str,
    #[serde(serialize_with = "number")]
    timestamp: f64,
    #[serde(serialize_with = "number")]
    duration: f64,
    debug: (),
    shared: (),
    local_endpoint: Endpoint<'s>,
    remote_endpoint: Endpoint<'s>,
    annotations: (),
    tags: Tags<'s>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint<'s> {
    service_name: Option<Cow<'s, str>>,
    ipv4: Option<String>,
    ipv6: Option<String>,
    port: (),
}

/// Whole numbers without a point.
fn number<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match number.fract() == 0.0 && number.abs() < 9e18 {
        true => serializer.serialize_i64(*number as i64),
        false => serializer.serialize_f64(*number),
    }
}

impl JsonTemplate {
    pub(super) fn new(instance: &BoundInstance, sampling: f64) -> Self {
        let tags = instance.entries("span_tags").map(|(key, at)| (key.to_owned(), at)).collect();
        let [trace_id, id, parent_id] =
            ["trace_id", "span_id", "parent_span_id"].map(|field| instance.position(field));
        Self { span: SpanTemplate::new(instance), trace_id, id, parent_id, tags, sampling }
    }

    /// The JSON of an instance.
    pub(super) fn span(&self, instance: &Instance<'_>) -> Outcome<SpanItem> {
        let span = match self.span.read(instance, |trace_id| is_sampled(trace_id, self.sampling)) {
            Outcome::Span(span) => span,
            Outcome::None => return Outcome::None,
            Outcome::Impossible(why) => return Outcome::Impossible(why),
        };
        // compat(1.3): ids are sent as they came, and times are what 64 bits have of them.
        let text = |at: Option<usize>| match at.and_then(|at| instance.value(at)) {
            Some(Value::String(text)) => String::from_utf8_lossy(text),
            _ => Cow::Borrowed(""),
        };
        let (start, end) = (span.start as f64 / 1000.0, span.end as f64 / 1000.0);
        let full = String::from_utf8_lossy(span.name);
        let (name, query) = match full.rsplit_once('?') {
            Some((name, query)) => (name, Some(query)),
            None => (&*full, None),
        };
        let json = Span {
            trace_id: text(self.trace_id),
            name: Cow::Borrowed(name),
            parent_id: Some(text(self.parent_id)).filter(|id| !id.is_empty()),
            id: text(self.id),
            kind: if span.is_client { "CLIENT" } else { "SERVER" },
            timestamp: start,
            duration: end - start,
            debug: (),
            shared: (),
            local_endpoint: self.endpoint(instance, "source.name", "source.ip"),
            remote_endpoint: self.endpoint(instance, "destination.name", "destination.ip"),
            annotations: (),
            tags: self.tags(instance, query, span.http_status),
        };
        match serde_json::to_vec(&json) {
            Ok(json) => Outcome::Span(SpanItem(json.into())),
            Err(_) => Outcome::Impossible("it has no JSON"),
        }
    }

    fn tag<'s>(&self, instance: &Instance<'s>, name: &str) -> Option<Value<'s>> {
        let (_, at) = self.tags.iter().find(|(known, _)| known == name)?;
        instance.value(*at)
    }

    fn endpoint<'s>(&self, instance: &Instance<'s>, name: &str, address: &str) -> Endpoint<'s> {
        let service_name = match self.tag(instance, name) {
            Some(Value::String(name)) if !name.is_empty() => Some(String::from_utf8_lossy(name)),
            _ => None,
        };
        let address = match self.tag(instance, address) {
            Some(Value::Bytes(octets)) => ip_from_bytes(octets).map(|address| address.to_canonical()),
            _ => None,
        };
        let (ipv4, ipv6) = match address {
            Some(IpAddr::V4(address)) => (Some(address.to_string()), None),
            Some(IpAddr::V6(address)) => (None, Some(address.to_string())),
            None => (None, None),
        };
        Endpoint { service_name, ipv4, ipv6, port: () }
    }

    /// Later ones take precedence: labels, the query, tags, the status.
    fn tags<'s>(&'s self, instance: &Instance<'s>, query: Option<&str>, http_status: i64) -> Tags<'s> {
        let mut tags = Tags::new();
        for prefix in LABELS {
            let Some(Value::StringMap(map)) = self.tag(instance, prefix) else { continue };
            for (key, value) in map.entries.iter().filter(|(key, value)| !key.is_empty() && !value.is_empty())
            {
                let key = format!("{prefix}.{}", String::from_utf8_lossy(key));
                tags.insert(Cow::Owned(key), String::from_utf8_lossy(value));
            }
        }
        for (key, values) in query.and_then(parameters).into_iter().flatten() {
            tags.insert(Cow::Owned(key), Cow::Owned(values.join("; ")));
        }
        for (key, at) in &self.tags {
            let Some(value) = instance.value(*at) else { continue };
            if key == REPORTER || LABELS.contains(&key.as_str()) {
                continue;
            }
            let text = match value {
                Value::String(text) => String::from_utf8_lossy(text),
                other => {
                    let mut text = Vec::new();
                    push_text(&mut text, other);
                    Cow::Owned(String::from_utf8_lossy(&text).into_owned())
                }
            };
            if !text.is_empty() {
                tags.insert(Cow::Borrowed(key), text);
            }
        }
        if http_status != 0 {
            tags.insert("httpStatusCode".into(), http_status.to_string().into());
        }
        if http_status >= 500 {
            tags.insert("error".into(), "server error".into());
        }
        tags
    }
}

/// The parameters of a query, each with its values; `None` if it is not encoded as one.
fn parameters(query: &str) -> Option<BTreeMap<String, Vec<String>>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for part in query.split(['&', ';']).filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        all.entry(unescaped(key)?).or_default().push(unescaped(value)?);
    }
    Some(all)
}

fn unescaped(text: &str) -> Option<String> {
    let text = text.replace('+', " ");
    let decoded = decode(text.as_bytes(), |_| true).ok()?;
    Some(String::from_utf8_lossy(&decoded).into_owned())
}

#[cfg(test)]
mod tests {
    use super::parameters;

    #[test]
    fn queries_have_parameters() {
        for (query, expected) in [
            ("", Some("")),
            ("a=1&b=2&a=3", Some("a=1; 3,b=2")),
            ("a;b=%41+c&=x&&", Some("=x,a=,b=A c")),
            ("a=%4", None),
            ("%zz=1", None),
            ("a==b", Some("a==b")),
        ] {
            let shown = parameters(query).map(|all| {
                let all: Vec<_> =
                    all.into_iter().map(|(key, values)| format!("{key}={}", values.join("; "))).collect();
                all.join(",")
            });
            assert_eq!(shown.as_deref(), expected, "{query}");
        }
    }
}
