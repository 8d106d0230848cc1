//! Which headers routes match, beside Envoy: one field or several, and the names of what is no field.

use http::{HeaderName, HeaderValue};

use crate::client::{Client, request};
use crate::pair::{Directory, Pair, bodies};

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";

/// Tests of a header.
const TESTS: [&str; 23] = [
    "string_match: {exact: '1'}",
    "string_match: {exact: '1,2'}",
    "string_match: {exact: '1, 2'}",
    "string_match: {exact: ''}",
    "string_match: {exact: A, ignore_case: true}",
    "string_match: {prefix: '1'}",
    "string_match: {suffix: '1'}",
    "string_match: {suffix: A, ignore_case: true}",
    "string_match: {contains: '1'}",
    "string_match: {contains: '1,2'}",
    "string_match: {safe_regex: {regex: '1'}}",
    "string_match: {safe_regex: {regex: '1,2'}}",
    "string_match: {safe_regex: {regex: '.*'}}",
    "range_match: {start: 1, end: 2}",
    "range_match: {start: 0, end: 2}",
    "present_match: true",
    "present_match: false",
    "exact_match: '1'",
    "exact_match: ''",
    "prefix_match: '1'",
    "suffix_match: '1'",
    "contains_match: '1'",
    "safe_regex_match: {regex: '1'}",
];

/// Values of the header.
const VALUES: [&[&str]; 13] = [
    &[],
    &[""],
    &["1"],
    &["2"],
    &["1", "2"],
    &["2", "1"],
    &["1,2"],
    &["1", "1"],
    &["21", "12"],
    &["", ""],
    &["1", ""],
    &["a", "B"],
    &["x", "A"],
];

/// Names of which Envoy makes one field of several, and some of which it does not. Not `x-forwarded-proto`, of which other values than `http`
/// and `https` are replaced here.
const NAMES: [&str; 23] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "authorization",
    "cache-control",
    "content-type",
    "cookie",
    "forwarded",
    "if-match",
    "origin",
    "pragma",
    "referer",
    "traceparent",
    "user-agent",
    "via",
    "x-envoy-attempt-count",
    "x-envoy-original-path",
    "x-envoy-peer-metadata",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-real-ip",
    "x-request-id",
    "x-token",
];

/// The routes of the test: each with a path of its own, and the one that requests take that do not match.
fn routes() -> Vec<String> {
    let mut matches = Vec::new();
    for test in TESTS {
        for options in ["", ", invert_match: true"] {
            for missing in ["", ", treat_missing_header_as_empty: true"] {
                matches.push(format!("[{{name: X-A, {test}{options}{missing}}}]"));
            }
        }
    }
    for name in ["host", "Host", ":authority"] {
        for test in
            ["string_match: {exact: a.test}", "present_match: true", "string_match: {suffix: '.test:80'}"]
        {
            matches.push(format!("[{{name: '{name}', {test}}}]"));
            matches.push(format!("[{{name: '{name}', {test}, invert_match: true}}]"));
        }
    }
    for (name, text) in
        [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":method", "get"), (":nothing", "x")]
    {
        matches.push(format!("[{{name: '{name}', string_match: {{prefix: '{text}'}}}}]"));
    }
    matches.push(
        "[{name: X-A, string_match: {exact: '1'}}, {name: X-A, string_match: {exact: '2'}}]".to_owned(),
    );
    matches
}

fn manager() -> String {
    let answer = |text: &str| format!("direct_response: {{status: 200, body: {{inline_string: '{text}'}}}}");
    let mut lines: Vec<String> = routes()
        .iter()
        .enumerate()
        .map(|(index, headers)| {
            format!("{{match: {{prefix: /{index}/, headers: {headers}}}, {}}}", answer("yes"))
        })
        .collect();
    for name in NAMES {
        for (text, shown) in [("1,2", "joined"), ("1", "one")] {
            lines.push(format!(
                "{{match: {{prefix: /{name}/, headers: [{{name: {name}, string_match: {{exact: '{text}'}}}}]}}, {}}}",
                answer(shown)
            ));
        }
    }
    lines.push(format!("{{match: {{prefix: /}}, {}}}", answer("no")));
    let lines: String = lines.iter().map(|line| format!("\n              - {line}")).collect();
    format!(
        r#"
admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: $ADMIN}}}}}}
static_resources:
  listeners:
  - name: in
    address: {{socket_address: {{address: 127.0.0.1, port_value: $HTTP}}}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          '@type': {MANAGER}
          stat_prefix: in
          server_name: edge
          http_filters:
          - {{name: router, typed_config: {{'@type': {ROUTER}}}}}
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes:{lines}
"#
    )
}

#[test]
fn header_matches_are_those_of_envoy() {
    let pair = Pair::start_with(Directory::new(), &manager(), &[]);
    let routes = routes();
    let mut differences = Vec::new();
    // Every route for each kind of request, one after the other.
    let mut taken = 0;
    for values in VALUES {
        for host in ["a.test", "a.test:80"] {
            let fields: String = values.iter().map(|value| format!("X-A: {value}\r\n")).collect();
            let count = routes.len();
            let requests: Vec<String> = (0..count)
                .map(|index| format!("GET /{index}/ HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"))
                .collect();
            let [ours, envoys] = pair.ports("$HTTP").map(|port| bodies(port, &requests));
            taken += ours.iter().filter(|shown| *shown == "yes").count();
            for (index, (ours, envoys)) in ours.iter().zip(&envoys).enumerate() {
                if ours != envoys {
                    differences
                        .push(format!("{} of {host} {values:?}: {ours}, with Envoy {envoys}", routes[index]));
                }
            }
        }
    }
    assert!(taken > 500, "{taken}");
    for name in NAMES {
        let request = format!("GET /{name}/ HTTP/1.1\r\nHost: x\r\n{name}: 1\r\nx-b: 3\r\n{name}: 2\r\n\r\n");
        let [ours, envoys] = pair.ports("$HTTP").map(|port| bodies(port, std::slice::from_ref(&request)));
        if ours != envoys {
            differences.push(format!("{name} twice: {ours:?}, with Envoy {envoys:?}"));
        }
    }
    // The same over HTTP/2.
    let clients = pair.ports("$HTTP").map(Client::connect);
    let mut compare = |path: &str, name: &str, values: &[&str]| {
        let [ours, envoys] = [0, 1].map(|side: usize| {
            let mut request = request("GET", path);
            for value in values {
                let name = HeaderName::try_from(name).unwrap();
                request.headers_mut().append(name, HeaderValue::from_str(value).unwrap());
            }
            let answer = clients[side].ask(request, None, None).unwrap();
            (answer.status, answer.text())
        });
        if ours != envoys {
            differences.push(format!("HTTP/2, {path} {name} {values:?}: {ours:?}, with Envoy {envoys:?}"));
        }
    };
    for values in [VALUES[0], VALUES[4], VALUES[5], VALUES[12]] {
        for index in 0..routes.len() {
            compare(&format!("/{index}/"), "x-a", values);
        }
    }
    for name in NAMES {
        compare(&format!("/{name}/"), name, &["1", "2"]);
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}
