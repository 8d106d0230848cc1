//! A transcript of one stream: actions of the sink, and what it must observe.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use mixer_mcp::message::{RequestResources, Resources, SinkNode};
use serde_json::Value;

use super::serving::Serving;
use super::sink::{Heard, Sink, body};
use super::{ANSWER, compare, strings};

/// Plays a transcript.
pub(super) fn run(case: &Path, expected: &Value, serving: &Serving) -> Result<(), String> {
    let sink = Sink::connect(serving.port())?;
    let mut versions = BTreeMap::new();
    for (index, step) in expected["transcript"].as_array().into_iter().flatten().enumerate() {
        step_of(case, step, serving, &sink, &mut versions)
            .map_err(|why| format!("step {}: {why}", index + 1))?;
    }
    Ok(())
}

fn step_of(
    case: &Path,
    step: &Value,
    serving: &Serving,
    sink: &Sink,
    versions: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    let Some((action, value)) = step.as_object().and_then(|step| step.iter().next()) else {
        return Err(format!("no step: {step}"));
    };
    match action.as_str() {
        "send" => sink.send(request(value)),
        "expect" => match sink.hear(ANSWER) {
            Some(Heard::Message(message)) => return message_is(value, &message, versions),
            other => return Err(format!("expected a message, found {other:?}")),
        },
        "expectNothing" => {
            let limit = Duration::from_millis(value.as_u64().unwrap_or(0));
            if let Some(heard) = sink.hear(limit) {
                return Err(format!("expected nothing, found {heard:?}"));
            }
        }
        "replace" => serving.replace(&case.join(value.as_str().unwrap_or_default()))?,
        "closeSend" => sink.close(),
        "expectClosed" => return expect_closed(sink, value),
        "expectHeader" => return headers_are(sink, value),
        _ => return Err(format!("unknown step `{action}`")),
    }
    Ok(())
}

/// A request of proto3 JSON.
fn request(value: &Value) -> RequestResources {
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| {
        let all = value.as_object().into_iter().flatten();
        all.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
    };
    let node = value
        .get("sinkNode")
        .map(|node| SinkNode { id: text(node, "id"), annotations: texts(&node["annotations"]) });
    let mut request = RequestResources {
        sink_node: node,
        collection: text(value, "collection"),
        initial_resource_versions: texts(&value["initialResourceVersions"]),
        response_nonce: text(value, "responseNonce"),
        incremental: value["incremental"].as_bool().unwrap_or(false),
        ..RequestResources::default()
    };
    if let Some(error) = value.get("errorDetail") {
        request.error_detail = Some(mixer_mcp::message::google::rpc::Status {
            code: error["code"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(0),
            message: text(error, "message"),
            ..Default::default()
        });
    }
    request
}

fn message_is(
    expected: &Value,
    found: &Resources,
    versions: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    let equal = |what: &str, expected: &Value, found: Value| match *expected == found {
        true => Ok(()),
        false => Err(format!("{what}: expected {expected}, found {found}")),
    };
    equal("collection", &expected["collection"], found.collection.clone().into())?;
    equal("nonce", &expected["nonce"], found.nonce.clone().into())?;
    equal("incremental", &expected["incremental"], found.incremental.into())?;
    let removed: BTreeSet<&str> = found.removed_resources.iter().map(String::as_str).collect();
    if removed != strings(&expected["removed"]).into_iter().collect() {
        return Err(format!("removed: expected {}, found {removed:?}", expected["removed"]));
    }
    let symbol = expected["version"].as_str().unwrap_or_default().to_owned();
    let version = found.system_version_info.clone();
    let is_known = versions.iter().any(|(other, known)| *other != symbol && *known == version);
    if is_known || versions.entry(symbol.clone()).or_insert_with(|| version.clone()) != &version {
        return Err(format!("version: `{version}` is not {symbol} of {versions:?}"));
    }
    let mut resources = serde_json::Map::new();
    for resource in &found.resources {
        let name = resource.metadata.clone().unwrap_or_default().name;
        resources.insert(name, body(resource)?.1);
    }
    let names = |map: &serde_json::Map<String, Value>| map.keys().cloned().collect::<BTreeSet<_>>();
    let none = serde_json::Map::new();
    let expected = expected["resources"].as_object().unwrap_or(&none);
    if names(expected) != names(&resources) {
        return Err(format!("resources: expected {:?}, found {:?}", names(expected), names(&resources)));
    }
    for (name, expected) in expected {
        compare::body(expected, &resources[name]).map_err(|why| format!("`{name}`{why}"))?;
    }
    Ok(())
}

/// The stream ends with this status.
pub(super) fn expect_closed(sink: &Sink, expected: &Value) -> Result<(), String> {
    let Some(Heard::Closed(status)) = sink.hear(ANSWER) else {
        return Err("the stream does not end".to_owned());
    };
    let (code, message) = match &status {
        Some(status) => (crate::support::rpc::camel_code(status.code()), status.message().to_owned()),
        None => ("OK".to_owned(), String::new()),
    };
    let is_message = expected.get("message").is_none_or(|expected| *expected == *message.as_str());
    if expected["code"] == *code.as_str() && is_message {
        return Ok(());
    }
    Err(format!("expected the end {expected}, found {code}: {message}"))
}

fn headers_are(sink: &Sink, expected: &Value) -> Result<(), String> {
    let found = sink.headers(ANSWER).ok_or("no headers")?;
    for (name, values) in expected.as_object().into_iter().flatten() {
        let values: BTreeSet<&str> = strings(values).into_iter().collect();
        let held: BTreeSet<&str> = found.get(name).into_iter().flatten().map(String::as_str).collect();
        let is_version = name == "config.source.version" && !held.is_empty();
        if held != values && !is_version {
            return Err(format!("header {name}: expected {values:?}, found {held:?}"));
        }
    }
    Ok(())
}
