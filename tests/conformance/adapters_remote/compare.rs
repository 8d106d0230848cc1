//! Compares what sinks received with what a case expects.

use serde_json::{Value, json};

use super::sinks::{Content, Sink};
use crate::support::{DEADLINE, Server, msgpack, wait_for};

/// How many datagrams or messages are expected of a sink.
pub(super) fn expected(expect: &Value, sink: &str) -> usize {
    let list = |key: &str| expect.get(sink)?.get(key)?.as_array();
    let connections =
        list("connections").map(|all| all.iter().filter_map(Value::as_array).map(Vec::len).sum());
    connections.or_else(|| list("datagrams").map(Vec::len)).unwrap_or(0)
}

/// Compares all that a sink has received.
pub(super) fn received(sink: &Sink, expect: &Value) -> Result<(), String> {
    let found = match sink.content() {
        Content::Datagrams(datagrams) => {
            let expected = expect.get("datagrams").and_then(Value::as_array);
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
    };
    if found == *expect { Ok(()) } else { Err(format!("received {found}, want {expect}")) }
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
