//! Rate limits beside Envoy: what the server is asked, what becomes of requests, statistics and access logs.

use crate::authz::{bootstrap_of, compare_stats};
use crate::pair::{Directory, Pair, ask};
use crate::services::{Fault, Services, faulty};

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const LIMIT: &str = "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit";
const PER_ROUTE: &str = "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute";
const FILE: &str = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog";

fn filter(name: &str, cluster: &str, fields: &str) -> String {
    format!(
        "{{name: {name}, typed_config: {{'@type': {LIMIT}, domain: web, timeout: 0.5s, rate_limit_service: {{transport_api_version: V3, grpc_service: {{envoy_grpc: {{cluster_name: {cluster}}}}}}}{fields}}}}}"
    )
}

fn listener(name: &str, port: &str, filters: &str) -> String {
    let log = "%REQ(:PATH)% %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS%\\n";
    let case = "{request_headers: {header_name: X-Case, descriptor_key: case}}";
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
          {filters}
          - {{name: router, typed_config: {{'@type': {ROUTER}}}}}
          route_config:
            virtual_hosts:
            - name: plain
              domains: [plain.test]
              routes:
              - {{match: {{prefix: /}}, route: {{cluster: backend}}}}
            - name: all
              domains: ['*']
              rate_limits:
              - actions: [{{generic_key: {{descriptor_value: host}}}}, {case}]
              - stage: 1
                actions: [{{generic_key: {{descriptor_key: stage, descriptor_value: one}}}}]
              routes:
              - name: own
                match: {{prefix: /own}}
                route: {{cluster: backend, rate_limits: [{{actions: [{{generic_key: {{descriptor_value: own}}}}, {case}]}}]}}
              - name: both
                match: {{prefix: /both}}
                route: {{cluster: backend, include_vh_rate_limits: true, rate_limits: [{{actions: [{case}]}}]}}
              - name: included
                match: {{prefix: /included}}
                typed_per_filter_config: {{limit: {{'@type': {PER_ROUTE}, vh_rate_limits: INCLUDE, domain: other}}}}
                route: {{cluster: backend, rate_limits: [{{actions: [{case}]}}]}}
              - name: ignored
                match: {{prefix: /ignored}}
                typed_per_filter_config: {{limit: {{'@type': {PER_ROUTE}, vh_rate_limits: IGNORE}}}}
                route: {{cluster: backend}}
              - name: cluster
                match: {{prefix: /cluster}}
                route:
                  weighted_clusters:
                    clusters:
                    - {{name: backend, weight: 1, typed_per_filter_config: {{limit: {{'@type': {PER_ROUTE}, vh_rate_limits: IGNORE}}}}}}
                    - {{name: dead, weight: 0}}
              - name: many
                match: {{prefix: /many}}
                route:
                  cluster: backend
                  rate_limits:
                  - actions: [{{source_cluster: {{}}}}, {{destination_cluster: {{}}}}, {{remote_address: {{}}}}, {{generic_key: {{descriptor_key: k, descriptor_value: v}}}}]
                  - actions: [{{request_headers: {{header_name: ':path', descriptor_key: path}}}}]
                  - actions: [{{request_headers: {{header_name: x-absent, descriptor_key: absent}}}}, {{generic_key: {{descriptor_value: never}}}}]
                  - actions: [{{request_headers: {{header_name: x-absent, descriptor_key: absent, skip_if_absent: true}}}}, {{generic_key: {{descriptor_value: still}}}}]
                  - actions: [{{header_value_match: {{descriptor_value: blue, headers: [{{name: x-kind, string_match: {{exact: blue}}}}]}}}}]
                  - actions: [{{header_value_match: {{descriptor_key: other, descriptor_value: not-blue, expect_match: false, headers: [{{name: x-kind, string_match: {{exact: blue}}}}]}}}}]
                  - actions: [{{request_headers: {{header_name: x-two, descriptor_key: two}}}}]
                  - actions: [{{request_headers: {{header_name: user-agent, descriptor_key: agent}}}}]
                  - actions: [{{request_headers: {{header_name: Host, descriptor_key: host}}}}]
                  - actions: [{{header_value_match: {{descriptor_value: of-host, headers: [{{name: host, string_match: {{exact: x}}}}]}}}}]
                  - actions: [{{header_value_match: {{descriptor_value: not-two, expect_match: false, headers: [{{name: x-two, string_match: {{exact: '2'}}}}]}}}}]
              - {{name: direct, match: {{prefix: /direct}}, direct_response: {{status: 200, body: {{inline_string: here}}}}}}
              - {{name: dead, match: {{prefix: /dead}}, route: {{cluster: dead}}}}
              - {{name: up, match: {{prefix: /}}, route: {{cluster: backend}}}}"#
    )
}

/// What both answer to a request, and what they asked the server meanwhile.
fn both(pair: &Pair, services: &Services, port: &str, path: &str, host: &str, fields: &str) -> [String; 2] {
    pair.ports(port).map(|port| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
        let answer = ask(port, &[&request]);
        format!("{answer}\n{:#?}", services.limits())
    })
}

#[test]
fn rate_limits_are_asked_and_obeyed_as_by_envoy() {
    let services = Services::start();
    let one = |fields: &str| format!("- {}", filter("limit", "limits", fields));
    let listeners = [
        listener("in", "$HTTP", &one("")),
        listener(
            "tells",
            "$TLS",
            &one(", enable_x_ratelimit_headers: DRAFT_VERSION_03, failure_mode_deny: true"),
        ),
        listener(
            "other",
            "$REQUIRED",
            &one(
                ", rate_limited_as_resource_exhausted: true, disable_x_envoy_ratelimited_header: true, rate_limited_status: {code: ServiceUnavailable}, failure_mode_deny: true, status_on_error: {code: 503}",
            ),
        ),
        listener(
            "stages",
            "$NAMED",
            &format!("{}\n          - {}", one(""), filter("second", "limits", ", stage: 1")),
        ),
    ];
    let text = bootstrap_of(&listeners.concat(), &[("limits", services.port.to_string())]);
    let pair = Pair::start_with(Directory::new(), &text, &[]);
    let mut differences = Vec::new();
    let mut compare = |port: &str, path: &str, host: &str, fields: &str| {
        let [ours, envoys] = both(&pair, &services, port, path, host, fields);
        if ours != envoys {
            differences
                .push(format!("{port} {host}{path} {fields}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
        }
        ours
    };
    for port in ["$HTTP", "$TLS", "$REQUIRED", "$NAMED"] {
        for case in ["ok", "over", "over-with", "ok-with", "failing", "slow"] {
            let fields = format!("x-case: {case}\r\nx-there: a\r\n");
            let shown = compare(port, "/up", "x", &fields);
            let passes = shown.starts_with("HTTP/1.1 200");
            let is_failure = matches!(case, "failing" | "slow");
            let denies = matches!(port, "$TLS" | "$REQUIRED");
            assert_eq!(passes, case.starts_with("ok") || (is_failure && !denies), "{port} {case}: {shown}");
            compare(port, "/up", "x", &format!("{fields}Content-Type: application/grpc\r\n"));
        }
        for path in ["/own", "/both", "/included", "/ignored", "/cluster", "/direct", "/dead", "/many"] {
            compare(port, path, "x", "x-case: over\r\n");
            compare(port, path, "plain.test", "x-case: over\r\n");
            compare(port, path, "x", "");
        }
        compare(
            port,
            "/many?a=b",
            "x",
            "x-kind: blue\r\nx-two: 1\r\nx-two: 2\r\nx-forwarded-for: 1.2.3.4, 10.0.0.9\r\n",
        );
        // Each value by itself.
        for kinds in ["blue\r\nx-kind: red", "red\r\nx-kind: blue", "red\r\nx-kind: green", "red, blue"] {
            compare(port, "/many", "x", &format!("x-kind: {kinds}\r\nUser-Agent: a\r\nUser-Agent: b\r\n"));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    pair.ask(&["GET /ok/last HTTP/1.1\r\nHost: plain.test\r\nConnection: close\r\n\r\n"]);
    let [ours, envoys] = pair.logs("/ok/last");
    assert_eq!(ours, envoys, "access logs");
    assert!(ours.contains(" RL request_rate_limited") && ours.contains(" RLSE rate_limiter_error"), "{ours}");
    compare_stats(
        &pair,
        &[
            "cluster.backend.ratelimit.ok",
            "cluster.backend.ratelimit.over_limit",
            "cluster.backend.ratelimit.error",
            "cluster.backend.ratelimit.failure_mode_allowed",
            "cluster.dead.ratelimit.over_limit",
            "cluster.backend.upstream_rq_429",
            "cluster.backend.upstream_rq_503",
            "cluster.backend.upstream_rq_4xx",
        ],
        2,
    );
}

#[test]
fn without_an_answer_limits_hold_only_if_the_configuration_says_so() {
    let services = Services::start();
    let faults =
        [Fault::Hang, Fault::Garbage, Fault::Nothing, Fault::Half, Fault::Html, Fault::Error, Fault::Slow];
    let mut names = vec![("dead".to_owned(), String::new()), ("plain".to_owned(), String::new())];
    names.extend(
        (0..)
            .zip(faults)
            .map(|(index, fault): (usize, Fault)| (format!("fault{index}"), faulty(fault).to_string())),
    );
    let ports =
        ["$HTTP", "$TLS", "$REQUIRED", "$NAMED", "$CHAINS", "$PATIENT", "$SOURCES", "$OPTIONAL", "$TCP"];
    for denies in [true, false] {
        let listeners: String = names
            .iter()
            .zip(ports)
            .map(|((name, _), port)| {
                let fields = format!(", failure_mode_deny: {denies}");
                listener(name, port, &format!("- {}", filter("limit", name, &fields)))
            })
            .collect();
        let clusters: Vec<_> =
            names.iter().skip(2).map(|(name, port)| (name.as_str(), port.clone())).collect();
        let pair = Pair::start_with(Directory::new(), &bootstrap_of(&listeners, &clusters), &[]);
        for ((name, _), port) in names.iter().zip(ports) {
            let [ours, envoys] = both(&pair, &services, port, "/up", "x", "x-case: over\r\n");
            assert_eq!(ours, envoys, "{name}");
            assert_eq!(ours.starts_with("HTTP/1.1 500"), denies, "{name}: {ours}");
        }
        compare_stats(
            &pair,
            &["cluster.backend.ratelimit.error", "cluster.backend.ratelimit.failure_mode_allowed"],
            9,
        );
    }
}

/// An answer that says neither is no decision here: Envoy lets the request pass.
#[test]
fn an_answer_without_a_code_is_no_answer() {
    let services = Services::start();
    let limit = format!("- {}", filter("limit", "limits", ", failure_mode_deny: true"));
    let text = bootstrap_of(&listener("in", "$HTTP", &limit), &[("limits", services.port.to_string())]);
    let pair = Pair::start_with(Directory::new(), &text, &[]);
    let [ours, envoys] = both(&pair, &services, "$HTTP", "/up", "x", "x-case: unknown\r\n");
    assert!(ours.starts_with("HTTP/1.1 500"), "{ours}");
    assert!(envoys.starts_with("HTTP/1.1 200"), "{envoys}");
}
