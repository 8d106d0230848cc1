//! Headers that are added or repeated, and patterns of texts that are not ASCII, beside Envoy.

use crate::authz::bootstrap_of;
use crate::pair::{Directory, Pair, bodies};

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";

/// Headers that Envoy has as one, of requests, of responses or of both, and some of which there may be several.
const NAMES: [&str; 66] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
    "access-control-allow-private-network",
    "access-control-expose-headers",
    "access-control-max-age",
    "access-control-request-headers",
    "access-control-request-method",
    "access-control-request-private-network",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "cdn-loop",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "cookie",
    "date",
    "etag",
    "expires",
    "forwarded",
    "grpc-accept-encoding",
    "grpc-encoding",
    "grpc-timeout",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "link",
    "location",
    "origin",
    "pragma",
    "proxy-status",
    "range",
    "referer",
    "retry-after",
    "set-cookie",
    "strict-transport-security",
    "traceparent",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "x-client-trace-id",
    "x-envoy-attempt-count",
    "x-envoy-degraded",
    "x-envoy-external-address",
    "x-envoy-is-timeout-retry",
    "x-envoy-original-path",
    "x-envoy-ratelimited",
    "x-envoy-upstream-canary",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-plain",
    "x-real-ip",
    "x-request-id",
];

/// Patterns, each of a route of its own.
const PATTERNS: [&str; 16] = [
    "(?i)k",
    "(?i)[k]",
    "(?i)ak+",
    "(?i)s",
    ".",
    "..",
    "...",
    "é",
    "(?i)é",
    "[é]",
    "[é]+",
    "[^a]",
    "\\\\w+",
    "\\\\pL+",
    "(?i)[a-z]",
    "a\\\\x{e9}",
];

/// Values of the header that patterns are of, as bytes.
const VALUES: [&[u8]; 14] = [
    b"k",
    b"K",
    "\u{212a}".as_bytes(),
    "a\u{212a}".as_bytes(),
    b"aK",
    b"s",
    "\u{17f}".as_bytes(),
    "é".as_bytes(),
    "É".as_bytes(),
    b"\xe9",
    b"\xc9",
    b"a\xe9",
    b"\xff\xfe",
    "日".as_bytes(),
];

fn listener() -> String {
    let add = |value: &str| -> String {
        NAMES
            .iter()
            .map(|name| {
                format!(
                    "{{header: {{key: {name}, value: {value}}}, append_action: APPEND_IF_EXISTS_OR_ADD}}, "
                )
            })
            .collect()
    };
    let both = add("one") + &add("two");
    let patterns: String = PATTERNS
        .iter()
        .enumerate()
        .map(|(index, pattern)| {
            format!(
                "\n              - {{match: {{path: /{index}, headers: [{{name: x-k, string_match: {{safe_regex: {{regex: \"{pattern}\"}}}}}}]}}, direct_response: {{status: 200, body: {{inline_string: 'yes'}}}}}}"
            )
        })
        .collect();
    format!(
        r#"
  - name: in
    address: {{socket_address: {{address: 127.0.0.1, port_value: $HTTP}}}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          '@type': {MANAGER}
          stat_prefix: in
          server_name: edge
          max_request_headers_kb: 96
          common_http_protocol_options: {{max_headers_count: 500}}
          http_filters: [{{name: router, typed_config: {{'@type': {ROUTER}}}}}]
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes:{patterns}
              - {{match: {{prefix: /request}}, route: {{cluster: backend}}, request_headers_to_add: [{both}]}}
              - {{match: {{prefix: /response}}, route: {{cluster: backend, prefix_rewrite: /twice}}, response_headers_to_add: [{both}]}}
              - {{match: {{prefix: /direct}}, direct_response: {{status: 200, body: {{inline_string: 'here'}}}}, response_headers_to_add: [{both}]}}
              - {{match: {{prefix: /twice}}, route: {{cluster: backend}}}}
              - {{match: {{prefix: /}}, direct_response: {{status: 200, body: {{inline_string: 'no'}}}}}}"#
    )
}

#[test]
fn what_is_added_and_repeated_is_joined_as_by_envoy() {
    let pair = Pair::start_with(Directory::new(), &bootstrap_of(&listener(), &[]), &[]);
    let mut differences = Vec::new();
    let mut compare = |what: &str, request: &str| {
        let [ours, envoys] = pair.ask(&[request]).map(|answer| {
            let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        });
        let only = |one: &[String], other: &[String]| -> Vec<String> {
            one.iter().filter(|line| !other.contains(line)).cloned().collect()
        };
        if ours != envoys {
            differences.push(format!(
                "{what}: {:?}, with Envoy {:?}",
                only(&ours, &envoys),
                only(&envoys, &ours)
            ));
        }
        ours.join("\n")
    };
    let get = |path: &str, fields: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n")
    };
    let shown = compare("added to requests", &get("/request", ""));
    assert!(shown.contains("user-agent: one,two") && shown.contains("x-plain: one\n"), "{shown}");
    let there: String = NAMES.iter().map(|name| format!("{name}: old\r\n")).collect();
    compare("added to requests that have them", &get("/request", &there));
    let shown = compare("added to responses", &get("/direct", ""));
    assert!(shown.contains("vary: one,two"), "{shown}");
    for name in NAMES {
        compare(&format!("{name} twice"), &get(&format!("/twice/{name}"), ""));
        compare(&format!("{name} twice, and added"), &get(&format!("/response/{name}"), ""));
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn patterns_match_bytes_as_with_envoy() {
    let pair = Pair::start_with(Directory::new(), &bootstrap_of(&listener(), &[]), &[]);
    let (mut differences, mut taken) = (Vec::new(), 0);
    for (index, pattern) in PATTERNS.iter().enumerate() {
        for value in VALUES {
            let request =
                [format!("GET /{index} HTTP/1.1\r\nHost: x\r\nX-K: ").as_bytes(), value, b"\r\n\r\n"]
                    .concat();
            let [ours, envoys] =
                pair.ports("$HTTP").map(|port| bodies(port, std::slice::from_ref(&request)).concat());
            taken += usize::from(ours == "yes");
            if ours != envoys {
                let value = String::from_utf8_lossy(value);
                differences.push(format!("{pattern} of {value:?}: {ours}, with Envoy {envoys}"));
            }
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    assert!(taken > 40, "{taken}");
}
