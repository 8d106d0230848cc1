//! Log entries.

use std::collections::BTreeMap;
use std::sync::Arc;

use mixer_attribute::text::{go_text, ip_text};
use mixer_attribute::{Timestamp, Value, ValueType};
use mixer_delivery::Item;
use mixer_engine::adapter::{BoundInstance, Instance};
use prost::Message as _;

use super::labels::{ResourceTemplate, label, timestamp};
use super::params::{HttpMapping, LogInfo};
use super::place::Place;
use super::wire::{HttpRequest, LogEntry};
use crate::go_template::{GoTemplate, Printing};

/// Bytes of a text at most. Google takes 256 KiB for an entry.
const MAX_TEXT: usize = 100 << 10;
/// Names of severities, and their numbers.
const SEVERITIES: [(&str, i32); 8] = [
    ("debug", 100),
    ("info", 200),
    ("notice", 300),
    ("warning", 400),
    ("error", 500),
    ("critical", 600),
    ("alert", 700),
    ("emergency", 800),
];

/// An entry on its way.
pub(super) struct Logged {
    /// The name of its log.
    pub(super) log: Arc<str>,
    pub(super) entry: LogEntry,
    size: usize,
}

impl Logged {
    pub(super) fn of(log: impl Into<Arc<str>>, entry: LogEntry) -> Self {
        let size = size_of::<Self>() + 2 * entry.encoded_len();
        Self { log: log.into(), entry, size }
    }
}

impl Item for Logged {
    fn size(&self) -> usize {
        self.size
    }
}

/// How instances become entries.
pub(super) struct LogTemplate {
    log: Arc<str>,
    text: GoTemplate,
    severity: Option<usize>,
    /// Names and positions of the variables, with whether they are addresses.
    variables: BTreeMap<String, (usize, bool)>,
    labels: Vec<String>,
    mapping: Option<HttpMapping>,
    resource: ResourceTemplate,
}

impl LogTemplate {
    /// Errors: no template, which was a problem of the parameters.
    pub(super) fn new(project: &str, info: &LogInfo, instance: &BoundInstance) -> Result<Self, String> {
        let is_address =
            |at: usize| instance.leaves.get(at).is_some_and(|leaf| leaf.value_type == ValueType::IpAddress);
        let variables = instance.entries("variables").map(|(key, at)| (key.to_owned(), (at, is_address(at))));
        Ok(Self {
            log: format!("projects/{project}/logs/{}", instance.name.replace('/', "%2F")).into(),
            text: GoTemplate::parse(&instance.name, &info.payload_template)?,
            severity: instance.position("severity"),
            variables: variables.collect(),
            labels: info.label_names.clone(),
            mapping: info.http_mapping.clone(),
            resource: ResourceTemplate::new(instance),
        })
    }

    /// The entry of an instance, with why its text is incomplete, if it is.
    pub(super) fn entry(
        &self,
        instance: &Instance<'_>,
        place: &Place,
        now: Timestamp,
    ) -> (Logged, Option<String>) {
        let value = |name: &str| {
            let (at, _) = self.variables.get(name)?;
            instance.value(*at)
        };
        let mut text = Vec::new();
        let failure = self.text.execute(&value, Printing::Text(|_| {}), &mut text).err();
        let mut text = String::from_utf8_lossy(&text).into_owned();
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        let severity = match self.severity.and_then(|at| instance.value(at)) {
            Some(Value::String(name)) => number_of(name),
            _ => 0,
        };
        let of_label = |name: &String| {
            let is_address = self.variables.get(name).is_some_and(|(_, is_address)| *is_address);
            let text = match value(name) {
                None => "<nil>".to_owned(),
                Some(Value::Bytes(octets)) if is_address => ip_text(octets).to_string(),
                Some(Value::String(_)) => label(value(name)),
                Some(other) => go_text(other).to_string(),
            };
            (name.clone(), text)
        };
        let entry = LogEntry {
            text_payload: Some(text),
            insert_id: crate::uuid::random(),
            http_request: self.mapping.as_ref().map(|mapping| request(mapping, &value)),
            resource: self.resource.resource(instance, place),
            timestamp: Some(timestamp(now)),
            severity,
            labels: self.labels.iter().map(of_label).collect(),
        };
        (Logged::of(Arc::clone(&self.log), entry), failure)
    }
}

fn number_of(severity: &[u8]) -> i32 {
    let named = SEVERITIES.iter().find(|(name, _)| severity.eq_ignore_ascii_case(name.as_bytes()));
    named.map_or(0, |(_, number)| *number)
}

/// The request that variables describe.
fn request<'v>(mapping: &HttpMapping, value: &dyn Fn(&str) -> Option<Value<'v>>) -> HttpRequest {
    let text = |name: &str| match value(name) {
        Some(Value::String(_)) => label(value(name)),
        _ => String::new(),
    };
    let number = |name: &str| match value(name) {
        Some(Value::Int64(number)) => number,
        _ => 0,
    };
    let url = text(&mapping.url);
    let latency = match value(&mapping.latency) {
        Some(Value::Duration(latency)) => Some(prost_types::Duration {
            seconds: latency.nanos / 1_000_000_000,
            nanos: i32::try_from(latency.nanos % 1_000_000_000).unwrap_or(0),
        }),
        _ => None,
    };
    HttpRequest {
        request_method: text(&mapping.method),
        request_url: url.split('#').next().unwrap_or_default().to_owned(),
        request_size: number(&mapping.request_size),
        status: i32::try_from(number(&mapping.status)).unwrap_or(0),
        response_size: number(&mapping.response_size),
        user_agent: text(&mapping.user_agent),
        remote_ip: label(value(&mapping.remote_ip)),
        referer: text(&mapping.referer),
        server_ip: label(value(&mapping.local_ip)),
        latency: latency.filter(|latency| (latency.seconds, latency.nanos) != (0, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::number_of;

    #[test]
    fn severities_are_those_of_google() {
        for (name, number) in
            [("Warning", 400), ("INFO", 200), ("emergency", 800), ("Default", 0), ("bogus", 0), ("", 0)]
        {
            assert_eq!(number_of(name.as_bytes()), number, "{name}");
        }
    }
}
