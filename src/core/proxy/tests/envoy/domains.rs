//! Which virtual host a request has, with ports and dots that are stripped and without, beside Envoy.

use crate::authz::bootstrap_of;
use crate::pair::{Directory, Pair, ask};

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";

/// Domains, each of a virtual host of its own.
const DOMAINS: [&str; 26] = [
    "a.test",
    "a.test:80",
    "Upper.Test",
    "*.w.test",
    "*.b.w.test",
    "*-x.w.test",
    "*test:8080",
    "pre.*",
    "pre.a.*",
    "pre.a.b*",
    "PRE2.*",
    "[::1]",
    "[::1]:8080",
    "*]",
    "dot.test.",
    "*.dot.",
    "w.test",
    "10.0.0.1",
    "10.0.0.*",
    "*:7",
    "ex*",
    "*ample",
    "both*",
    "*.both",
    "x.y.z:443",
    "only:81",
];

/// Hosts of requests.
const HOSTS: [&str; 87] = [
    "a.test",
    "A.TEST",
    "a.test:80",
    "a.test:81",
    "A.Test:80",
    "a.test:",
    "a.test.",
    "a.test.:80",
    "a.test..",
    "upper.test",
    "UPPER.TEST:1",
    "x.w.test",
    "X.W.TEST",
    ".w.test",
    "w.test",
    "w.test:80",
    "x.w.test:80",
    "x.w.test:8080",
    "x.b.w.test",
    "b.w.test",
    "x.y.b.w.test",
    "y-x.w.test",
    "-x.w.test",
    "b-x.w.test",
    "y-x.b.w.test",
    "z.test:8080",
    "test:8080",
    "TEST:8080",
    "pre.",
    "pre.x",
    "PRE.x",
    "pre.a.x",
    "pre.a.",
    "pre.a.b",
    "pre.a.bc",
    "pre.a.b:80",
    "pre.x.w.test",
    "pre.b-x.w.test",
    "pre2.q",
    "[::1]",
    "[::1]:80",
    "[::1]:8080",
    "[::2]",
    "[::2]:80",
    "[2001:DB8::1]",
    "dot.test.",
    "dot.test",
    "dot.test.:80",
    "x.dot.",
    "x.dot",
    "x.dot.:1",
    "10.0.0.1",
    "10.0.0.1:80",
    "10.0.0.2",
    "10.0.0.",
    "10.0.0.2:7",
    "h:7",
    "h:07",
    "h:70",
    "example",
    "ex",
    "exa",
    "ample",
    "xample",
    "example:80",
    "both.both",
    "bothx",
    "x.both",
    "x.y.z",
    "x.y.z:443",
    "X.Y.Z:443",
    "x.y.z:444",
    "x.y.z.:443",
    "only",
    "only:81",
    "only:80",
    "ONLY:81",
    "h:99999",
    "h:65536",
    "h:4294967296",
    "h:0",
    "h:00",
    "a..test",
    "-",
    "_x.test",
    "*",
    "*.w.test",
];

/// Hosts with the port of the listener.
const OWN: [&str; 6] = ["h:PORT", "a.test:PORT", "x.w.test:PORT", "only.:PORT", "[::1]:PORT", "h.:0PORT"];

/// Hosts that are none with an optional port: they are refused, where Envoy looks for their virtual host.
const INVALID: [&str; 7] = ["h:+7", "h:7x", "h:-1", "h:7:7", "a.test:80:80", ":80", ""];

/// Fields of the connection manager at the ports of a pair.
const CONFIGURATIONS: [(&str, &str); 7] = [
    ("$HTTP", ""),
    ("$TCP", ""),
    ("$TLS", "strip_any_host_port: true, "),
    ("$REQUIRED", "strip_matching_host_port: true, "),
    ("$NAMED", "strip_trailing_host_dot: true, "),
    ("$CHAINS", "strip_any_host_port: true, strip_trailing_host_dot: true, "),
    ("$PATIENT", "strip_matching_host_port: true, strip_trailing_host_dot: true, "),
];

/// A listener, in which a virtual host takes what no other one does unless it is at `$TCP`.
fn listener(port: &str, fields: &str) -> String {
    let mut hosts = String::new();
    for domain in DOMAINS.into_iter().chain((port != "$TCP").then_some("*")) {
        hosts.push_str(&format!(
            "{{name: 'v {domain}', domains: ['{domain}'], request_headers_to_add: [{{header: {{key: x-domain, value: '{domain}'}}}}], \
             routes: [{{match: {{prefix: /rewritten}}, route: {{cluster: backend, host_rewrite_literal: Other.test:1}}}}, \
             {{match: {{prefix: /}}, route: {{cluster: backend}}}}]}}, "
        ));
    }
    format!(
        r#"
  - name: 'at {port}'
    address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config: {{'@type': {MANAGER}, stat_prefix: in, server_name: edge, {fields}http_filters: [{{name: router, typed_config: {{'@type': {ROUTER}}}}}], route_config: {{virtual_hosts: [{hosts}]}}}}"#
    )
}

#[test]
fn requests_have_the_virtual_host_of_envoy() {
    let listeners: String = CONFIGURATIONS.iter().map(|(port, fields)| listener(port, fields)).collect();
    let pair = Pair::start_with(Directory::new(), &bootstrap_of(&listeners, &[]), &[]);
    let (mut differences, mut count) = (Vec::new(), 0);
    for (name, fields) in CONFIGURATIONS {
        let both = |path: &str, host: &str| {
            pair.ports(name).map(|port| {
                let host = host.replace("PORT", &port.to_string());
                let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
                ask(port, &[&request]).replace(&port.to_string(), "PORT")
            })
        };
        for host in HOSTS.into_iter().chain(OWN) {
            let [ours, envoys] = both("/", host);
            count += 1;
            if ours != envoys {
                differences.push(format!("{host}, {fields}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
            }
        }
        for host in ["a.test", "A.test:80", "x.w.test."] {
            let [ours, envoys] = both("/rewritten", host);
            if ours != envoys {
                differences
                    .push(format!("{host} rewritten, {fields}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
            }
        }
        for host in INVALID {
            let [ours, envoys] = both("/", host);
            assert!(
                ours.starts_with("HTTP/1.1 400") && !envoys.starts_with("HTTP/1.1 400"),
                "{host}: {ours}\n{envoys}"
            );
        }
    }
    assert!(count >= 600, "{count}");
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}
