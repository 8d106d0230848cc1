//! Line formats. They are those of Istio Mixer 1.3.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::IpAddr;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;

use super::{Level, Params};
use mixer_attribute::text::{ip_from_bytes, ip_text, push_text};
use mixer_attribute::{Timestamp, Value};
use mixer_base::decimal;
use mixer_base::json::push_string;
use mixer_engine::adapter::{BoundInstance, Instance};

/// The two line formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineFormat {
    Json,
    Console,
}

/// The lines of one instance, with everything constant already rendered.
#[derive(Debug)]
pub(super) struct LineTemplate {
    form: LineFormat,
    /// Text between the time and the first member.
    name: Box<[u8]>,
    content: LineSource,
    members: Vec<MemberTemplate>,
}

/// The source of time and level.
#[derive(Debug)]
enum LineSource {
    /// A log entry: from the instance.
    Log { timestamp: Option<usize>, severity: Option<usize>, levels: BTreeMap<Box<[u8]>, Level> },
    /// A metric: the current time, and the configured level.
    Metric { level: Level },
}

#[derive(Debug)]
struct MemberTemplate {
    /// The quoted key and its colon.
    key: Box<[u8]>,
    position: Option<usize>,
    /// Whether an absent value is written as `null`.
    null: bool,
}

impl LineTemplate {
    pub(super) fn new(instance: &BoundInstance, form: LineFormat, params: &Params) -> Self {
        let member = |key: &str, position, null| {
            let mut text = Vec::new();
            push_string(&mut text, key.as_bytes());
            text.extend_from_slice(if form == LineFormat::Json { b":" } else { b": " });
            MemberTemplate { key: text.into(), position, null }
        };
        let (content, members) = if instance.template.name == "metric" {
            let mut members = vec![member("value", instance.position("value"), true)];
            members.extend(instance.entries("dimensions").map(|(key, at)| member(key, Some(at), true)));
            (LineSource::Metric { level: params.metric_level }, members)
        } else {
            let members =
                instance.entries("variables").map(|(key, at)| member(key, Some(at), false)).collect();
            let levels = params.severity_levels.iter().map(|(name, level)| (name.as_bytes().into(), *level));
            let (timestamp, severity) = (instance.position("timestamp"), instance.position("severity"));
            (LineSource::Log { timestamp, severity, levels: levels.collect() }, members)
        };
        let mut name = Vec::new();
        if form == LineFormat::Json {
            name.extend_from_slice(b"\",\"instance\":");
            push_string(&mut name, instance.name.as_bytes());
        } else {
            name.extend_from_slice(instance.name.as_bytes());
        }
        Self { form, name: name.into(), content, members }
    }

    /// Appends the line of an instance with its line feed. `now` is the time of metrics.
    pub(super) fn push(&self, out: &mut Vec<u8>, instance: &Instance<'_>, now: Timestamp) {
        let (level, time) = self.level_and_time(instance, now);
        match self.form {
            LineFormat::Json => {
                out.extend_from_slice(b"{\"level\":\"");
                out.extend_from_slice(level);
                out.extend_from_slice(b"\",\"time\":\"");
                push_time(out, time);
                out.extend_from_slice(&self.name);
                self.push_members(out, instance, b",", b",");
                out.extend_from_slice(b"}\n");
            }
            LineFormat::Console => {
                push_time(out, time);
                out.push(b'\t');
                out.extend_from_slice(level);
                out.push(b'\t');
                out.extend_from_slice(&self.name);
                if self.push_members(out, instance, b"\t{", b", ") {
                    out.push(b'}');
                }
                out.push(b'\n');
            }
        }
    }

    fn level_and_time(&self, instance: &Instance<'_>, now: Timestamp) -> (&'static [u8], Timestamp) {
        let (level, time) = match &self.content {
            LineSource::Metric { level } => (*level, now),
            LineSource::Log { timestamp, severity, levels } => {
                let value = |position: Option<usize>| position.and_then(|at| instance.value(at));
                let name = match value(*severity) {
                    Some(Value::String(name)) => name,
                    // An entry without severity has the empty one, which the configuration can name.
                    _ => b"",
                };
                let level = levels.get(name).copied().unwrap_or(Level::Info);
                let time = match value(*timestamp) {
                    Some(Value::Timestamp(time)) => time,
                    _ => Timestamp::YEAR_ONE,
                };
                (level, time)
            }
        };
        let name: &[u8] = match level {
            Level::Info => b"info",
            Level::Warning => b"warn",
            Level::Error => b"error",
        };
        (name, time)
    }

    /// Appends the members, `first` before the first and `next` before the others. Returns whether there are any.
    fn push_members(&self, out: &mut Vec<u8>, instance: &Instance<'_>, first: &[u8], next: &[u8]) -> bool {
        let mut separator = first;
        let mut any = false;
        for member in &self.members {
            let value = member.position.and_then(|at| instance.value(at));
            if value.is_none() && !member.null {
                continue;
            }
            out.extend_from_slice(separator);
            out.extend_from_slice(&member.key);
            match (value, &self.content) {
                // compat(1.3): addresses in metrics are written as base64; pinned by scenarios/report-metric-stdio.
                (Some(Value::Bytes(bytes)), LineSource::Metric { .. }) => {
                    push_quoted(out, Base64Display::new(bytes, &STANDARD));
                }
                _ => push_value(out, value),
            }
            separator = next;
            any = true;
        }
        any
    }
}

fn push_time(out: &mut Vec<u8>, time: Timestamp) {
    push_display(out, time.rfc3339_micros());
}

fn push_display(out: &mut Vec<u8>, what: impl std::fmt::Display) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{what}");
}

fn push_quoted(out: &mut Vec<u8>, what: impl std::fmt::Display) {
    out.push(b'"');
    push_display(out, what);
    out.push(b'"');
}

fn push_number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn push_address(out: &mut Vec<u8>, bytes: &[u8]) {
    // IPv4 addresses are frequent, and `Display` would dominate the cost of a member.
    let Some(IpAddr::V4(address)) = ip_from_bytes(bytes) else { return push_quoted(out, ip_text(bytes)) };
    let mut separator = b'"';
    for octet in address.octets() {
        out.push(separator);
        push_number(out, octet);
        separator = b'.';
    }
    out.push(b'"');
}

fn push_value(out: &mut Vec<u8>, value: Option<Value<'_>>) {
    match value {
        None => out.extend_from_slice(b"null"),
        Some(Value::String(text)) => push_string(out, text),
        Some(Value::Int64(number)) => push_number(out, number),
        Some(Value::Double(number)) if number.is_finite() => push_display(out, decimal::plain(number)),
        Some(Value::Double(number)) => push_quoted(out, decimal::plain(number)),
        Some(Value::Bool(truth)) => out.extend_from_slice(if truth { b"true" } else { b"false" }),
        Some(Value::Timestamp(time)) => push_quoted(out, time.rfc3339_micros()),
        Some(Value::Duration(duration)) => push_quoted(out, duration),
        Some(Value::Bytes(bytes)) => push_address(out, bytes),
        Some(map @ Value::StringMap(_)) => {
            let mut text = Vec::new();
            push_text(&mut text, map);
            push_string(out, &text);
        }
    }
}
