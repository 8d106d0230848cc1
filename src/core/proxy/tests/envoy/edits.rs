//! Edits of routes that take away what says where a message ends, beside Envoy: hosts and clients find the same end.

use crate::authz::bootstrap_of;
use crate::pair::{Directory, Pair};

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";

fn listener() -> String {
    let mut routes = String::new();
    for name in ["content-length", "transfer-encoding", "connection", "keep-alive", "te", "upgrade"] {
        for side in ["request", "response"] {
            let edit = format!("{side}_headers_to_remove: [{name}]");
            let rewrite = "route: {cluster: backend, prefix_rewrite: /}";
            let answer = "direct_response: {status: 200, body: {inline_string: hello}}";
            let empty = "direct_response: {status: 200}";
            for (prefix, action) in [("", rewrite), ("/direct", answer), ("/empty", empty)] {
                routes.push_str(&format!(
                    "\n              - {{match: {{prefix: /{side}/{name}{prefix}/}}, {action}, {edit}}}"
                ));
            }
        }
    }
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
          http_filters: [{{name: router, typed_config: {{'@type': {ROUTER}}}}}]
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes:{routes}
              - {{match: {{prefix: /admin}}, direct_response: {{status: 403}}}}
              - {{match: {{prefix: /}}, route: {{cluster: backend}}}}"#
    )
}

#[test]
fn what_a_route_takes_away_ends_where_it_does_with_envoy() {
    let pair = Pair::start_with(Directory::new(), &bootstrap_of(&listener(), &[]), &[]);
    let mut differences = Vec::new();
    // A body that is a request, which the routes refuse.
    let body = "GET /admin HTTP/1.1\r\nHost: x\r\n\r\n";
    let length = body.len();
    let next = "GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    for name in ["content-length", "transfer-encoding", "connection", "keep-alive", "te", "upgrade"] {
        for side in ["request", "response"] {
            for path in ["a", "direct/a", "empty/a", "ok/204", "ok/chunked", "status/503"] {
                let target = format!("/{side}/{name}/{path}");
                for request in [
                    format!("GET {target} HTTP/1.1\r\nHost: x\r\nTE: trailers\r\n\r\n"),
                    format!("HEAD {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
                    format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"),
                    format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"),
                    format!("GET {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"),
                    format!(
                        "POST {target} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
                    ),
                ] {
                    let next = if request.starts_with("HEAD") { "" } else { next };
                    let text = format!("{request}{next}");
                    let [ours, envoys] = pair.ask(&[&text]);
                    assert!(!ours.contains("GET /admin HTTP/1.1\nhost"), "a request in a body: {ours}");
                    // A response to HEAD ends with its head; it may say what the body would be.
                    let shown = |text: &String| {
                        let says = |line: &&str| {
                            line.starts_with("content-length: ") || line.starts_with("transfer-encoding: ")
                        };
                        let is_shown = |line: &&str| !request.starts_with("HEAD") || !says(line);
                        text.lines().filter(is_shown).collect::<Vec<_>>().join("\n")
                    };
                    if shown(&ours) != shown(&envoys) {
                        differences.push(format!("{request}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
                    }
                }
            }
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}
