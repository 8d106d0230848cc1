//! Requests to change the protocol beside Envoy: what routes, filters, their servers and access logs see of them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::authz::{bootstrap_of, shown};
use crate::backend;
use crate::pair::{self, Directory, Pair};
use crate::proxy::DEADLINE;
use crate::services::Services;

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const AUTHZ: &str = "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz";
const LIMIT: &str = "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit";
const FILE: &str = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog";

/// Routes that look at what a request asks to change to.
fn bootstrap(services: u16, host: u16) -> String {
    let service = "grpc_service: {envoy_grpc: {cluster_name: services}}";
    let refused = "direct_response: {status: 403, body: {inline_string: refused}}";
    let log = "%REQ(:PATH)% %REQ(UPGRADE)% %RESPONSE_CODE% %RESP(:STATUS)% %BYTES_RECEIVED% %BYTES_SENT% %ROUTE_NAME%\\n";
    let limit = |header: &str| {
        format!("{{actions: [{{request_headers: {{header_name: {header}, descriptor_key: {header}}}}}]}}")
    };
    let listener = format!(
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
          upgrade_configs: [{{upgrade_type: websocket}}, {{upgrade_type: other}}]
          access_log:
          - name: f
            typed_config: {{'@type': {FILE}, path: $LOG, log_format: {{text_format_source: {{inline_string: "{log}"}}}}}}
          http_filters:
          - {{name: authz, typed_config: {{'@type': {AUTHZ}, transport_api_version: V3, {service}}}}}
          - {{name: limit, typed_config: {{'@type': {LIMIT}, domain: web, rate_limit_service: {{transport_api_version: V3, {service}}}}}}}
          - {{name: router, typed_config: {{'@type': {ROUTER}}}}}
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes:
              - {{name: denied, match: {{prefix: /deny, headers: [{{name: upgrade, string_match: {{exact: websocket, ignore_case: true}}}}]}}, {refused}}}
              - {{name: only, match: {{prefix: /only, headers: [{{name: upgrade, present_match: true}}]}}, route: {{cluster: host}}}}
              - {{name: others, match: {{prefix: /only}}, {refused}}}
              - {{name: listed, match: {{prefix: /connection, headers: [{{name: connection, string_match: {{contains: Upgrade}}}}]}}, {refused}}}
              - {{name: exact, match: {{prefix: /exact, headers: [{{name: connection, string_match: {{exact: Upgrade}}}}]}}, {refused}}}
              - {{name: joined, match: {{prefix: /exact, headers: [{{name: connection, string_match: {{exact: 'close,Upgrade'}}}}]}}, {refused}}}
              - {{name: written, match: {{prefix: /exact, headers: [{{name: connection, string_match: {{exact: 'keep-alive, Upgrade'}}}}]}}, {refused}}}
              - {{name: trailers, match: {{prefix: /te, headers: [{{name: te, string_match: {{exact: trailers}}}}]}}, {refused}}}
              - {{name: up, match: {{prefix: /}}, route: {{cluster: host, rate_limits: [{}, {}]}}}}"#,
        limit("upgrade"),
        limit("connection"),
    );
    let cluster = format!(
        "  - name: host\n    load_assignment: {{cluster_name: host, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {host}}}}}}}}}]}}]}}\n"
    );
    bootstrap_of(&listener, &[("services", services.to_string())]) + &cluster
}

/// The answer to a request, and five bytes of the other protocol if it is changed.
fn answer(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let mut reading = stream.try_clone().unwrap();
    let mut read = |count: usize| {
        let start = bytes.len();
        bytes.resize(start + count, 0);
        reading.read_exact(&mut bytes[start..]).unwrap_or_else(|error| panic!("{request}: {error}"));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head = read(1);
    }
    if head.starts_with("HTTP/1.1 101 ") {
        stream.write_all(b"hello").unwrap();
        read(5);
    } else {
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        read(length.map_or(0, |length| length.parse().unwrap()));
    }
    pair::shown(&bytes, false)
}

#[test]
fn routes_and_filters_see_that_the_protocol_is_to_change_as_with_envoy() {
    let services = Services::start();
    let text = bootstrap(services.port, backend::upgrading());
    let pair = Pair::start_with(Directory::new(), &text, &[]);
    let mut differences = Vec::new();
    let mut compare = |path: &str, fields: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        let [ours, envoys] = pair.ports("$HTTP").map(|port| {
            let answer = answer(port, &request);
            let checks: Vec<String> = services.checks().into_iter().map(shown).collect();
            let limits: Vec<String> =
                services.limits().iter().map(|limit| format!("{:#?}", limit.descriptors)).collect();
            format!("{answer}\n{}\n{}", checks.join("\n"), limits.join("\n"))
        });
        if ours != envoys {
            differences.push(format!("{request}--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
        }
        ours
    };
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    assert!(compare("/deny", upgrade).starts_with("HTTP/1.1 403"));
    assert!(compare("/only", upgrade).starts_with("HTTP/1.1 101"));
    assert!(compare("/connection", upgrade).starts_with("HTTP/1.1 403"));
    let shown = compare("/up", upgrade);
    assert!(
        shown.contains("\"upgrade\": \"websocket\"") && shown.contains("value: \"websocket\""),
        "{shown}"
    );
    for fields in [
        "",
        "Upgrade: websocket\r\n",
        "Connection: Upgrade\r\n",
        "Connection: Upgrade\r\nUpgrade: WebSocket\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: other\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket, other\r\n",
        "Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n",
        "Connection: Upgrade\r\nUpgrade: h2c, websocket\r\n",
        "Connection: Upgrade\r\nUpgrade: H2C\r\nHTTP2-Settings: a\r\n",
        "Upgrade: h2c\r\nHTTP2-Settings: a\r\n",
        "Connection: Upgrade\r\nUpgrade:\r\n",
        "Connection: upgrade\r\nUpgrade: other\r\n",
        "Connection: close\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
        "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n",
        "Connection: keep-alive\t,Upgrade , \r\nUpgrade: websocket\r\n",
        "Connection: keep-alive, x-a, Upgrade\r\nUpgrade: websocket\r\nKeep-Alive: 1\r\n",
        "Connection: x-b , Upgrade,close\r\nUpgrade: websocket\r\n",
        "Connection: connection, Upgrade\r\nUpgrade: websocket\r\n",
        "Connection: Upgrade, te\r\nUpgrade: websocket\r\nTE: trailers\r\n",
        "Connection: Upgrade, te\r\nUpgrade: websocket\r\nTE: gzip\r\nTE: trailers\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nTE: gzip, trailers\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nTE: gzip\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nTE: trailers\r\nProxy-Connection: x\r\nKeep-Alive: 1\r\n",
        "TE: trailers;q=0.5\r\n",
        "TE: gzip\r\nTE: trailers\r\n",
    ] {
        for path in ["/deny", "/only", "/connection", "/exact", "/te", "/up", "/up/refused", "/up/denied"] {
            compare(path, &format!("{fields}Sec-WebSocket-Key: k\r\n"));
        }
    }
    compare("/last", upgrade);
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    // A request that follows on another connection may end first.
    let [ours, envoys] = pair.logs("/last").map(|log| {
        let mut lines: Vec<&str> = log.split_inclusive('\n').collect();
        lines.sort_unstable();
        lines.concat()
    });
    assert_eq!(ours, envoys, "access logs");
    assert!(ours.contains("/last websocket 101 101 5 5 up\n"), "{ours}");
}
