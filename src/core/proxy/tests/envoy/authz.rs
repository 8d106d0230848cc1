//! External authorization beside Envoy: what the server is told, what becomes of requests, statistics and access logs.

use mixer_wire::envoy::config::core::v3::{Address, address};
use mixer_wire::envoy::service::auth::v3::CheckRequest;

use crate::pair::{Directory, Pair};
use crate::services::{Fault, Services, faulty};

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const AUTHZ: &str = "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz";
const PER_ROUTE: &str = "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute";
const FILE: &str = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog";

/// A listener at a port with an authorization filter of these fields.
fn listener(name: &str, port: &str, filter: &str) -> String {
    let log = "%REQ(:PATH)% %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %BYTES_RECEIVED% %BYTES_SENT% %ROUTE_NAME% %UPSTREAM_CLUSTER%\\n";
    format!(
        r#"
  - name: {name}
    address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          '@type': {MANAGER}
          stat_prefix: {name}
          server_name: edge
          access_log:
          - name: f
            typed_config: {{'@type': {FILE}, path: $LOG, log_format: {{text_format_source: {{inline_string: "{log}"}}}}}}
          http_filters:
          - name: authz
            typed_config: {{'@type': {AUTHZ}, transport_api_version: V3, {filter}}}
          - {{name: router, typed_config: {{'@type': {ROUTER}}}}}
          route_config:
            typed_per_filter_config: {{authz: {{'@type': {PER_ROUTE}, check_settings: {{context_extensions: {{table: t, all: table}}}}}}}}
            virtual_hosts:
            - name: without
              domains: [off.test]
              typed_per_filter_config: {{authz: {{'@type': {PER_ROUTE}, disabled: true}}}}
              routes:
              - {{name: without, match: {{prefix: /}}, route: {{cluster: backend}}}}
            - name: none
              domains: [none.test]
              routes:
              - {{name: only, match: {{prefix: /only}}, route: {{cluster: backend}}}}
            - name: all
              domains: ['*']
              typed_per_filter_config: {{authz: {{'@type': {PER_ROUTE}, check_settings: {{context_extensions: {{host: h, all: host}}}}}}}}
              routes:
              - name: disabled
                match: {{prefix: /disabled}}
                route: {{cluster: backend}}
                typed_per_filter_config: {{authz: {{'@type': {PER_ROUTE}, disabled: true}}}}
              - name: weighted
                match: {{prefix: /weighted}}
                typed_per_filter_config: {{authz: {{'@type': {PER_ROUTE}, check_settings: {{context_extensions: {{route: r, all: route}}}}}}}}
                route:
                  weighted_clusters:
                    clusters:
                    - name: backend
                      weight: 1
                      typed_per_filter_config: {{authz: {{'@type': {PER_ROUTE}, check_settings: {{context_extensions: {{cluster: c, all: cluster}}}}}}}}
                    - {{name: dead, weight: 0, typed_per_filter_config: {{authz: {{'@type': {PER_ROUTE}, disabled: true}}}}}}
              - name: weighted-off
                match: {{prefix: /free}}
                route:
                  weighted_clusters:
                    clusters:
                    - {{name: backend, weight: 1, typed_per_filter_config: {{authz: {{'@type': {PER_ROUTE}, disabled: true}}}}}}
                    - {{name: dead, weight: 0}}
              - name: nobody
                match: {{prefix: /nobody}}
                route: {{cluster: backend}}
                typed_per_filter_config: {{authz: {{'@type': {PER_ROUTE}, check_settings: {{disable_request_body_buffering: true}}}}}}
              - {{name: moved, match: {{path: /moved}}, route: {{cluster: backend}}, response_headers_to_add: [{{header: {{key: x-route, value: moved}}}}]}}
              - {{name: direct, match: {{prefix: /direct}}, direct_response: {{status: 200, body: {{inline_string: here}}}}}}
              - {{name: redirect, match: {{prefix: /redirect}}, redirect: {{path_redirect: /there}}}}
              - {{name: up, match: {{prefix: /}}, route: {{cluster: backend}}}}"#
    )
}

fn cluster(name: &str, port: &str, is_grpc: bool) -> String {
    let http2 = if is_grpc { "\n    http2_protocol_options: {}" } else { "" };
    format!(
        r#"
  - name: {name}
    connect_timeout: 5s{http2}
    load_assignment: {{cluster_name: {name}, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}]}}]}}"#
    )
}

fn service(cluster: &str) -> String {
    format!("grpc_service: {{envoy_grpc: {{cluster_name: {cluster}}}, timeout: 0.5s}}")
}

/// The bootstrap of a pair.
fn bootstrap(listeners: &[(&str, &str, String)], clusters: &[(&str, String)]) -> String {
    let listeners: String =
        listeners.iter().map(|(name, port, filter)| listener(name, port, filter)).collect();
    bootstrap_of(&listeners, clusters)
}

/// The bootstrap of a pair with these listeners, and clusters of gRPC.
pub(crate) fn bootstrap_of(listeners: &str, clusters: &[(&str, String)]) -> String {
    let others: String = clusters.iter().map(|(name, port)| cluster(name, port, true)).collect();
    format!(
        "node: {{id: edge-1, cluster: edge}}\nadmin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: $ADMIN}}}}}}\nstatic_resources:\n  listeners:{listeners}\n  clusters:{}{}{}{others}\n",
        cluster("backend", "$BACKEND", false),
        cluster("dead", "$DEAD", false),
        cluster("plain", "$BACKEND", true),
    )
}

/// A request as a server is told of it, without what differs from one to the next.
pub(crate) fn shown(mut check: CheckRequest) -> String {
    let attributes = check.attributes.as_mut().unwrap();
    for peer in [&mut attributes.source, &mut attributes.destination].into_iter().flatten() {
        if let Some(Address { address: Some(address::Address::SocketAddress(socket)) }) = &mut peer.address {
            socket.port_value = 0;
        }
    }
    let request = attributes.request.as_mut().unwrap();
    assert!(request.time.take().is_some_and(|time| time.seconds > 1_600_000_000));
    let http = request.http.as_mut().unwrap();
    assert!(http.id.parse::<u64>().is_ok(), "{}", http.id);
    http.id.clear();
    http.headers.get_mut("x-request-id").unwrap().clear();
    format!("{attributes:#?}")
}

/// Sends requests to a port of both; gathers what differs of their answers and of what the server is told.
struct Comparison<'p> {
    pair: &'p Pair,
    services: &'p Services,
    differences: Vec<String>,
    count: usize,
}

impl Comparison<'_> {
    /// Returns the answer, and how often each of them asked.
    fn compare(&mut self, port: &str, parts: &[&str]) -> (String, usize) {
        self.count += 1;
        let [ours, envoys] = self.pair.ports(port).map(|port| {
            let mut answer = crate::pair::ask(port, parts);
            if let (2.., Some(before)) = (parts.len(), answer.strip_suffix("reset")) {
                // Envoy does not wait for what the client still sends.
                answer = format!("{before}end");
            }
            let told: Vec<String> = self.services.checks().into_iter().map(shown).collect();
            (answer, told)
        });
        for (what, ours, envoys) in
            [("answers", ours.0.clone(), envoys.0), ("checks", ours.1.join("\n"), envoys.1.join("\n"))]
        {
            if ours != envoys {
                let request = parts.concat();
                self.differences
                    .push(format!("{what} {port} {request}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
            }
        }
        (ours.0, ours.1.len())
    }

    fn get(&mut self, port: &str, path: &str, host: &str, fields: &str) -> (String, usize) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
        self.compare(port, &[&request])
    }

    /// Returns how often each of them asked.
    fn get_over_http2(&mut self, port: &str, path: &str) -> usize {
        self.count += 1;
        let [ours, envoys] = self.pair.ports(port).map(|port| {
            let answer = crate::client::Client::connect(port).get(path);
            let told: Vec<String> = self.services.checks().into_iter().map(shown).collect();
            (answer.status, told)
        });
        assert_eq!(ours.0, envoys.0, "{path}");
        if ours.1 != envoys.1 {
            let (ours, envoys) = (ours.1.join("\n"), envoys.1.join("\n"));
            self.differences
                .push(format!("checks over HTTP/2 {path}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
        }
        ours.1.len()
    }

    fn end(self, least: usize) {
        let differences = &self.differences;
        assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
        assert!(self.count >= least, "{}", self.count);
    }
}

#[test]
fn authorization_is_asked_and_obeyed_as_by_envoy() {
    let services = Services::start();
    let authz = service("authz");
    let text = bootstrap(
        &[
            ("in", "$HTTP", format!("{authz}, include_tls_session: true")),
            ("reroute", "$TLS", format!("{authz}, clear_route_cache: true, stat_prefix: own")),
            ("whole", "$REQUIRED", format!("{authz}, with_request_body: {{max_request_bytes: 16}}")),
            (
                "part",
                "$NAMED",
                format!(
                    "{authz}, with_request_body: {{max_request_bytes: 16, allow_partial_message: true, pack_as_bytes: true}}"
                ),
            ),
        ],
        &[("authz", services.port.to_string())],
    );
    let pair = Pair::start_with(Directory::new(), &text, &[]);
    let mut both = Comparison { pair: &pair, services: &services, differences: Vec::new(), count: 0 };
    let there: String =
        ["0", "1", "2", "3", "true", "false", "false-1"].map(|n| format!("x-there-{n}: old\r\n")).concat();
    let fields = format!("{there}x-secret: s\r\nx-two: 1\r\nx-two: 2\r\nx-envoy-auth-partial-body: no\r\n");
    for name in [
        "bare",
        "nothing",
        "headers",
        "response",
        "query",
        "path",
        "denied",
        "contradiction",
        "login",
        "teapot",
        "quiet",
        "failing",
        "unavailable",
        "refusing",
        "slow",
        "any",
    ] {
        for prefix in ["/up", "/weighted", "/direct", "/redirect"] {
            if name == "slow" && prefix != "/up" {
                continue;
            }
            let path = format!("{prefix}/{name}?gone=1&b=1&a=0&a=3&n");
            let (_, asked) = both.get("$HTTP", &path, "x", &fields);
            assert_eq!(asked, 1, "{path}");
        }
    }
    for (path, host, asks) in [
        ("/disabled/denied", "x", 0),
        ("/free/denied", "x", 0),
        ("/up/denied", "off.test", 0),
        ("/up/denied", "none.test", 0),
        ("/only/denied", "none.test", 1),
        ("/weighted/denied", "x", 1),
    ] {
        let (answer, asked) = both.get("$HTTP", path, host, "");
        assert_eq!(asked, asks, "{host}{path}");
        assert_eq!(answer.contains("403"), asks == 1, "{answer}");
    }
    // The scheme is that of the target, else what is said of the connection.
    for fields in ["x-forwarded-proto: HTTPS\r\n", "x-forwarded-proto: http\r\n", ""] {
        for target in ["/up/bare", "https://x/up/bare"] {
            let (_, asked) = both.get("$HTTP", target, "x", fields);
            assert_eq!(asked, 1, "{target} {fields}");
        }
    }
    // Calls of gRPC are refused in its form.
    for name in ["login", "denied", "unavailable", "teapot"] {
        both.get("$HTTP", &format!("/up/{name}"), "x", "Content-Type: application/grpc\r\nTE: trailers\r\n");
    }
    for name in ["path", "headers", "any", "denied"] {
        both.get("$TLS", &format!("/up/{name}"), "x", "");
    }
    for path in ["/up/denied", "/up/headers", "/up/any"] {
        assert_eq!(both.get_over_http2("$HTTP", path), 1, "{path}");
    }
    // An answer to HEAD has no body.
    both.compare("$HTTP", &["HEAD /up/login HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]);
    for port in ["$HTTP", "$REQUIRED", "$NAMED"] {
        for path in ["/up/any", "/up/denied", "/nobody/any", "/disabled/denied"] {
            for length in [0, 5, 16, 17, 40] {
                let body = "é23456789abcdefghijklmnopqrstuvwxyz-------".get(..length).unwrap_or("abcde");
                let length = body.len();
                let request = format!(
                    "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
                both.compare(port, &[&request]);
                let chunked = format!(
                    "POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                );
                let chunk = if length == 0 { String::new() } else { format!("{length:x}\r\n{body}\r\n") };
                if (port, length) != ("$NAMED", 16) {
                    both.compare(port, &[&chunked, &chunk, "0\r\n\r\n"]);
                }
            }
        }
        both.compare(
            port,
            &[
                "POST /up/any HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
                "zz\r\n",
            ],
        );
    }
    both.end(190);
    pair.ask(&["GET /ok/last HTTP/1.1\r\nHost: off.test\r\nConnection: close\r\n\r\n"]);
    let [ours, envoys] = pair.logs("/ok/last");
    let sorted = |log: &str| {
        let mut lines: Vec<String> =
            log.lines().filter(|line| !line.contains(" 400 ")).map(str::to_owned).collect();
        lines.sort();
        lines.join("\n")
    };
    assert_eq!(sorted(&ours), sorted(&envoys), "access logs");
    assert!(ours.contains(" UAEX ext_authz_denied ") && ours.contains(" UAEX ext_authz_error "), "{ours}");
    compare_stats(
        &pair,
        &[
            "http.in.ext_authz.ok",
            "http.in.ext_authz.denied",
            "http.in.ext_authz.error",
            "http.in.ext_authz.failure_mode_allowed",
            "http.reroute.ext_authz.own.ok",
            "http.whole.ext_authz.ok",
            "http.part.ext_authz.ok",
            "http.part.ext_authz.denied",
            "http.whole.downstream_rq_too_large",
            "cluster.backend.ext_authz.ok",
            "cluster.backend.ext_authz.denied",
            "cluster.backend.ext_authz.error",
            "cluster.backend.upstream_rq_403",
            "cluster.backend.upstream_rq_302",
            "cluster.backend.upstream_rq_4xx",
            "cluster.backend.upstream_rq_completed",
        ],
        2,
    );
}

/// Compares statistics of both, of which one is so much at least.
pub(crate) fn compare_stats(pair: &Pair, names: &[&str], least: u64) {
    let stats: Vec<_> = names.iter().map(|name| pair.stat(name)).collect();
    let ours: Vec<_> = stats.iter().map(|(name, ours, _)| (name, ours)).collect();
    let envoys: Vec<_> = stats.iter().map(|(name, _, envoys)| (name, envoys)).collect();
    assert_eq!(ours, envoys);
    assert!(stats.iter().any(|(_, ours, _)| *ours >= least), "{stats:?}");
}

#[test]
fn without_an_answer_requests_pass_only_if_the_configuration_says_so() {
    let services = Services::start();
    let faults =
        [Fault::Hang, Fault::Garbage, Fault::Nothing, Fault::Half, Fault::Html, Fault::Error, Fault::Slow];
    for opens in [false, true] {
        let way = if opens {
            "failure_mode_allow: true, failure_mode_allow_header_add: true"
        } else {
            "status_on_error: {code: ServiceUnavailable}"
        };
        let ports =
            ["$HTTP", "$TLS", "$REQUIRED", "$NAMED", "$CHAINS", "$PATIENT", "$SOURCES", "$OPTIONAL", "$TCP"];
        let mut names: Vec<(String, String)> = vec![
            ("dead".to_owned(), String::new()),
            // It speaks HTTP/1.1.
            ("plain".to_owned(), String::new()),
        ];
        for (index, fault) in faults.into_iter().enumerate() {
            names.push((format!("fault{index}"), faulty(fault).to_string()));
        }
        let listeners: Vec<_> = names
            .iter()
            .zip(ports)
            .enumerate()
            .map(|(index, ((name, _), port))| {
                (
                    ["l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7", "l8"][index],
                    port,
                    format!("{}, {way}", service(name)),
                )
            })
            .collect();
        let clusters: Vec<_> =
            names.iter().skip(2).map(|(name, port)| (name.as_str(), port.clone())).collect();
        let pair = Pair::start_with(Directory::new(), &bootstrap(&listeners, &clusters), &[]);
        let mut both = Comparison { pair: &pair, services: &services, differences: Vec::new(), count: 0 };
        for ((name, _), port) in names.iter().zip(ports) {
            let (answer, _) = both.get(port, "/up/denied", "x", "");
            let passes = answer.starts_with("HTTP/1.1 200")
                && answer.contains("x-envoy-auth-failure-mode-allowed: true");
            assert_eq!((passes, answer.starts_with("HTTP/1.1 503")), (opens, !opens), "{name}: {answer}");
            let (answer, _) = both.get(port, "/disabled/denied", "x", "");
            assert!(answer.starts_with("HTTP/1.1 200"), "{name} is not asked: {answer}");
        }
        both.end(18);
        for index in 0..names.len() {
            for name in ["ok", "denied", "error", "failure_mode_allowed"] {
                let name = format!("http.l{index}.ext_authz.{name}");
                let (_, ours, envoys) = pair.stat(&name);
                assert_eq!(ours, envoys, "{name}");
            }
            assert_eq!(pair.stat(&format!("http.l{index}.ext_authz.error")).1, 1);
        }
    }
}
