//! The document `input` of a policy.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use regorus::Value as Rego;

use crate::authorization::{Layout, Properties};
use mixer_attribute::text::text;
use mixer_attribute::{Timestamp, Value};
use mixer_engine::adapter::Instance;

/// The names of its members. An engine has its own, so that no count of references is shared between threads.
#[derive(Debug)]
pub(super) struct Names {
    action: Rego,
    subject: Rego,
    properties: Rego,
    namespace: Rego,
    service: Rego,
    method: Rego,
    path: Rego,
    user: Rego,
    groups: Rego,
}

impl Default for Names {
    fn default() -> Self {
        let name = |text: &str| Rego::from(text);
        Self {
            action: name("action"),
            subject: name("subject"),
            properties: name("properties"),
            namespace: name("namespace"),
            service: name("service"),
            method: name("method"),
            path: name("path"),
            user: name("user"),
            groups: name("groups"),
        }
    }
}

type Members = BTreeMap<Rego, Rego>;

/// The document of an instance. Empty texts are left out.
pub(super) fn document(names: &Names, layout: &Layout, instance: &Instance<'_>) -> Rego {
    let mut action = Members::new();
    for (name, part) in [
        (&names.namespace, layout.namespace),
        (&names.service, layout.service),
        (&names.method, layout.method),
        (&names.path, layout.path),
    ] {
        let text = part.of(instance);
        if !text.is_empty() {
            action.insert(name.clone(), string(text));
        }
    }
    add_properties(names, &layout.action_properties, instance, &mut action);
    let mut subject = Members::new();
    let (user, groups) = (layout.user.of(instance), layout.groups.of(instance));
    if !user.is_empty() {
        subject.insert(names.user.clone(), string(user));
    }
    if !groups.is_empty() {
        subject.insert(names.groups.clone(), Rego::from(vec![string(groups)]));
    }
    add_properties(names, &layout.subject_properties, instance, &mut subject);
    let parts = [(names.action.clone(), Rego::from(action)), (names.subject.clone(), Rego::from(subject))];
    Rego::from(Members::from(parts))
}

fn add_properties(names: &Names, properties: &Properties, instance: &Instance<'_>, to: &mut Members) {
    let entries = properties.entries(instance).map(|(key, value)| (Rego::from(key), rego(value)));
    let entries: Members = entries.collect();
    if !entries.is_empty() {
        to.insert(names.properties.clone(), Rego::from(entries));
    }
}

fn string(bytes: &[u8]) -> Rego {
    Rego::from(&*String::from_utf8_lossy(bytes))
}

/// A value as Istio Mixer passes it; addresses and maps as what they are.
fn rego(value: Value<'_>) -> Rego {
    match value {
        Value::String(bytes) => string(bytes),
        Value::Int64(value) => Rego::from(value),
        Value::Double(value) => Rego::from(value),
        Value::Bool(value) => Rego::from(value),
        Value::Duration(duration) => Rego::from(duration.nanos),
        Value::Timestamp(time) => Rego::from(rfc3339(time)),
        address @ Value::Bytes(_) => Rego::from(text(address).to_string()),
        Value::StringMap(map) => {
            let entries = map.entries.iter().map(|(key, value)| (string(key), string(value)));
            Rego::from(entries.collect::<Members>())
        }
    }
}

/// RFC 3339 in UTC, with as many digits of the second as there are.
fn rfc3339(time: Timestamp) -> String {
    // Of the form YYYY-MM-DDThh:mm:ss.uuuuuuZ.
    let micros = text(Value::Timestamp(time)).to_string();
    let whole = micros.split_once('.').map_or(micros.trim_end_matches('Z'), |(whole, _)| whole);
    let mut out = whole.to_owned();
    let digits = format!("{:09}", time.nanos);
    let digits = digits.trim_end_matches('0');
    if !digits.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(out, ".{digits}");
    }
    out.push('Z');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_attribute::SignedDuration;

    #[test]
    fn values_are_those_of_istio_mixer() {
        let rows: [(Value<'_>, &str); 10] = [
            (Value::String(b"a\xff"), "\"a\u{fffd}\""),
            (Value::Int64(-7), "-7"),
            (Value::Double(1.5), "1.5"),
            (Value::Bool(true), "true"),
            (Value::Duration(SignedDuration::from_nanos(1_500_000_000)), "1500000000"),
            (Value::Bytes(&[10, 0, 0, 1]), "\"10.0.0.1\""),
            (Value::Bytes(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]), "\"10.0.0.1\""),
            (Value::Timestamp(Timestamp { seconds: 1_546_398_245, nanos: 0 }), "\"2019-01-02T03:04:05Z\""),
            (
                Value::Timestamp(Timestamp { seconds: 1_546_398_245, nanos: 678_901_230 }),
                "\"2019-01-02T03:04:05.67890123Z\"",
            ),
            (Value::Int64(i64::MAX), "9223372036854775807"),
        ];
        for (value, wanted) in rows {
            assert_eq!(rego(value).to_string(), wanted);
        }
    }
}
