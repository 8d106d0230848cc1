//! Compares what sinks received with what a case expects.

use serde_json::{Value, json};

use super::sinks::{Content, Request, Sink};
use super::vendors;
use crate::support::{DEADLINE, Server, msgpack, wait_for};

/// How many datagrams, messages or spans are expected of a sink.
pub(super) fn expected(expect: &Value, sink: &str) -> usize {
    let list = |key: &str| expect.get(sink)?.get(key)?.as_array();
    if let Some(requests) = list("requests") {
        let entries = |request: &Value| request.get("json").and_then(Value::as_array).map_or(1, Vec::len);
        return requests.iter().map(entries).sum();
    }
    for key in ["request_count", "least_requests"] {
        if let Some(count) = expect.get(sink).and_then(|expect| expect.get(key)?.as_u64()) {
            return count as usize;
        }
    }
    let connections =
        list("connections").map(|all| all.iter().filter_map(Value::as_array).map(Vec::len).sum());
    connections.or_else(|| list("datagrams").map(Vec::len)).unwrap_or(0)
}

/// Compares all that a sink has received.
pub(super) fn received(sink: &Sink, expect: &Value) -> Result<(), String> {
    let found = match sink.content() {
        Content::Datagrams(datagrams) => {
            let expected = expect.get("datagrams").and_then(Value::as_array);
            if expected.is_some_and(|all| all.iter().any(Value::is_object)) {
                return vendors::same_messages(&datagrams.lock(), expected.map_or(&[], Vec::as_slice));
            }
            let has_tags = expected.is_some_and(|all| all.iter().any(Value::is_array));
            let shown = |datagram: &Vec<u8>| {
                let text = String::from_utf8_lossy(datagram).into_owned();
                if has_tags { tagged(&text) } else { Value::String(text) }
            };
            json!({ "datagrams": datagrams.lock().iter().map(shown).collect::<Vec<_>>() })
        }
        Content::Connections(connections) => {
            let all: Result<Vec<_>, String> =
                connections.lock().iter().map(|bytes| msgpack::values(&bytes.lock())).collect();
            json!({ "connections": all? })
        }
        Content::Requests(requests) => {
            let count = requests.lock().len() as u64;
            if let Some(least) = expect.get("least_requests").and_then(Value::as_u64) {
                return if count >= least { Ok(()) } else { Err(format!("{count} requests, want {least}")) };
            }
            if let Some(expected) = expect.get("request_count").and_then(Value::as_u64) {
                return if count == expected {
                    Ok(())
                } else {
                    Err(format!("{count} requests, want {expected}"))
                };
            }
            let expected = expect.get("requests").and_then(Value::as_array).and_then(|all| all.first());
            let mut found = joined(&requests.lock(), expected.and_then(|first| first.get("headers")));
            if expected.is_some_and(|first| first.get("datapoints").is_some()) {
                // Later ones repeat what is cumulative.
                found.truncate(1);
                return vendors::same_datapoints(found.first(), expected);
            }
            json!({ "requests": found })
        }
    };
    if let (Some(found), Some(expected)) = (found.get("requests"), expect.get("requests")) {
        return if vendors::is_like(found, expected) {
            Ok(())
        } else {
            Err(format!("received {found}, want {expected}"))
        };
    }
    if found == *expect { Ok(()) } else { Err(format!("received {found}, want {expect}")) }
}

/// Requests, with those of their headers that are expected. Arrays that are sent to one place one after another are joined: where one request
/// ends depends on the moment at which the collector comes back.
fn joined(requests: &[Request], headers: Option<&Value>) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for request in requests {
        let names = headers.and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name);
        let shown: serde_json::Map<String, Value> = names
            .filter_map(|name| Some((name.clone(), request.headers.get(name)?.as_str().into())))
            .collect();
        let Request { method, path, json, datapoints, .. } = request;
        let mut next = json!({ "method": method, "path": path, "headers": shown, "json": json });
        if let (Some(datapoints), Some(next)) = (datapoints, next.as_object_mut()) {
            next.remove("json");
            next.insert("datapoints".to_owned(), datapoints.clone());
        }
        let is_same =
            |last: &Value| ["method", "path", "headers"].iter().all(|key| last.get(key) == next.get(key));
        let last = joined.last_mut().filter(|last| is_same(last));
        match (last.and_then(|last| last.get_mut("json")?.as_array_mut()), json.as_array()) {
            (Some(last), Some(more)) => last.extend(more.iter().cloned()),
            _ => joined.push(next),
        }
    }
    joined
}

/// The metrics of a datagram with tags, as `head` and sorted `tags`.
fn tagged(datagram: &str) -> Value {
    let metric = |line: &str| {
        let (head, tags) = line.split_once("|#").unwrap_or((line, ""));
        let mut tags: Vec<&str> = tags.split(',').filter(|tag| !tag.is_empty()).collect();
        tags.sort_unstable();
        json!({ "head": head, "tags": tags })
    };
    datagram.split('\n').map(metric).collect()
}

/// Looks for the errors of a configuration in the log: their number, and each of them.
pub(super) fn configuration_error(server: &Server, text: &str) -> Result<(), String> {
    let plain = |text: &str| {
        let text = text.replace("\\n", "\n").replace("\\t", "\t");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let lines: Vec<String> = text.lines().map(plain).collect();
    let missing = || {
        let log = plain(&server.log());
        lines.iter().find(|line| !log.contains(line.as_str())).cloned()
    };
    match wait_for(DEADLINE, || missing().is_none().then_some(())) {
        Some(()) => Ok(()),
        None => Err(format!("not in the log: {:?} in {}", missing(), server.log())),
    }
}
