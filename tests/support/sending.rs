//! Servers with handlers that send, and what ControlZ says about their deliveries.

use std::path::Path;

use prost_types::Timestamp;
use serde_json::Value;

use super::bag::{Attribute, Attributes, Words, encode_alone};
use super::rpc::{Client, mixer};
use super::{DEADLINE, Server, http, wait_for};

/// Attributes and the instances `hits` and `entry`.
pub(crate) const WORDS: &str = r#"
apiVersion: config.istio.io/v1alpha2
kind: attributemanifest
metadata: {name: sending, namespace: istio-system}
spec:
  attributes:
    request.size: {valueType: INT64}
    request.path: {valueType: STRING}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: hits, namespace: istio-system}
spec: {compiledTemplate: metric, params: {value: "1", dimensions: {path: request.path | "/"}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: entry, namespace: istio-system}
spec: {compiledTemplate: logentry, params: {severity: '"info"', variables: {number: request.size | 0}}}
"#;

/// A handler that gets all instances of one name.
pub(crate) fn handler(name: &str, instance: &str, adapter: &str, params: &str) -> String {
    format!(
        "---\napiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{compiledAdapter: {adapter}, params: {{{params}}}}}\n\
         ---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{actions: [{{handler: {name}, instances: [{instance}]}}]}}\n"
    )
}

/// Starts a server with these handlers.
pub(crate) fn start(directory: &Path, handlers: &str) -> Server {
    std::fs::write(directory.join("config.yaml"), format!("{WORDS}{handlers}")).unwrap();
    Server::on(directory).native().start()
}

/// Reports entries with these numbers, fifty a call.
pub(crate) fn report(server: &Server, numbers: std::ops::Range<i64>, path: &str) {
    let mut client = Client::new(&server.address()).unwrap();
    let numbers: Vec<i64> = numbers.collect();
    for call in numbers.chunks(50) {
        client.report(&records(call.iter().copied(), path), None).unwrap();
    }
}

/// A report of entries with these numbers.
pub(crate) fn records(numbers: impl Iterator<Item = i64>, path: &str) -> mixer::ReportRequest {
    let attributes = numbers.map(|number| {
        let attributes = Attributes::from([
            ("request.size".to_owned(), Attribute::Int64(number)),
            ("request.path".to_owned(), Attribute::Text(path.to_owned())),
            ("request.time".to_owned(), Attribute::Timestamp(Timestamp { seconds: 1_551_434_400, nanos: 0 })),
        ]);
        encode_alone(&attributes, Words::of_message())
    });
    mixer::ReportRequest {
        attributes: attributes.collect(),
        repeated_attributes_semantics: 1,
        global_word_count: 222,
        ..Default::default()
    }
}

/// The deliveries in ControlZ.
pub(crate) fn deliveries(server: &Server) -> Value {
    let url = format!("http://127.0.0.1:{}/deliveryj/", server.ports.ctrlz);
    serde_json::from_str(&http("GET", &url, "").unwrap().body).unwrap()
}

/// A delivery in ControlZ.
pub(crate) fn delivery(server: &Server, name: &str) -> Value {
    let list = deliveries(server);
    list.as_array().unwrap().iter().find(|of| of["name"] == name).cloned().unwrap_or_default()
}

/// A count of a delivery.
pub(crate) fn count(delivery: &Value, key: &str) -> u64 {
    delivery[key].as_u64().unwrap_or_else(|| panic!("no {key} in {delivery}"))
}

/// Waits until a delivery is in a state.
pub(crate) fn until(server: &Server, name: &str, what: &str, state: impl Fn(&Value) -> bool) -> Value {
    let found = wait_for(DEADLINE, || Some(delivery(server, name)).filter(&state));
    found.unwrap_or_else(|| panic!("{what}: {}\n{}", delivery(server, name), server.log()))
}
