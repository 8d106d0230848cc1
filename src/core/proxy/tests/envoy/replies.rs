//! Replies of the proxy itself beside Envoy: header edits of routes, and the type and length of their texts.

use crate::authz::bootstrap_of;
use crate::pair::{Directory, Pair, ask};
use crate::services::Services;

const MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const AUTHZ: &str = "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz";
const LIMIT: &str = "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit";

/// Edits of a level, which tell of themselves; of what the proxy says as well. `between`: what separates the fields.
fn edits(level: &str, between: &str) -> String {
    format!(
        "response_headers_to_add: [{{header: {{key: x-level, value: {level}}}}}, \
         {{header: {{key: x-first, value: {level}}}, append_action: ADD_IF_ABSENT}}, \
         {{header: {{key: x-last, value: {level}}}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}}, \
         {{header: {{key: location, value: /{level}}}}}]{between}\
         request_headers_to_add: [{{header: {{key: x-asked, value: {level}}}}}]{between}\
         response_headers_to_remove: [x-envoy-overloaded, content-length, server]"
    )
}

/// A listener with these filters before the router.
fn listener(name: &str, port: &str, filters: &str) -> String {
    let (route, cluster) = (edits("route", ", "), edits("cluster", ", "));
    let mut routes = String::new();
    for (path, action) in [
        ("/direct", "direct_response: {status: 403, body: {inline_string: nope}}"),
        ("/empty-direct", "direct_response: {status: 200}"),
        ("/redirect", "redirect: {https_redirect: true}"),
        ("/dead", "route: {cluster: dead}"),
        ("/ghost", "route: {cluster: ghost, cluster_not_found_response_code: NOT_FOUND}"),
        ("/empty", "route: {cluster: empty}"),
        ("/full", "route: {cluster: full}"),
        ("/slow", "route: {cluster: backend, timeout: 0.3s}"),
        (
            "/try/",
            "route: {cluster: backend, prefix_rewrite: /, retry_policy: {retry_on: 5xx, per_try_timeout: 0.2s}}",
        ),
        (
            "/limited",
            "route: {cluster: backend, rate_limits: [{actions: [{request_headers: {header_name: x-case, descriptor_key: case}}]}]}",
        ),
        ("/ok", "route: {cluster: backend}"),
        ("/status", "route: {cluster: backend}"),
    ] {
        routes.push_str(&format!("\n              - {{match: {{prefix: {path}}}, {action}, {route}}}"));
    }
    for name in ["backend", "dead"] {
        let other = if name == "dead" { "backend" } else { "dead" };
        routes.push_str(&format!(
            "\n              - {{match: {{prefix: /weighted/{name}}}, {route}, route: {{weighted_clusters: {{clusters: \
             [{{name: {other}, weight: 0}}, {{name: {name}, weight: 1, {cluster}}}]}}}}}}"
        ));
    }
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
          request_timeout: 1s
          http_filters: [{filters}{{name: router, typed_config: {{'@type': {ROUTER}}}}}]
          route_config:
            validate_clusters: false
            {}
            virtual_hosts:
            - name: all
              domains: ['*']
              {}
              routes:{routes}"#,
        edits("table", "\n            "),
        edits("host", "\n              "),
    )
}

/// Clusters of which there is no response.
fn clusters() -> String {
    let address = "{address: {socket_address: {address: 127.0.0.1, port_value: $BACKEND}}}";
    format!(
        "  - {{name: empty, connect_timeout: 5s, load_assignment: {{cluster_name: empty}}}}\n  \
         - {{name: full, connect_timeout: 5s, circuit_breakers: {{thresholds: [{{max_requests: 0}}]}}, \
         load_assignment: {{cluster_name: full, endpoints: [{{lb_endpoints: [{{endpoint: {address}}}]}}]}}}}\n"
    )
}

/// How a connection with an unread body ends depends on which bytes were read.
fn settled(shown: String) -> String {
    shown.strip_suffix("reset").map(|before| format!("{before}end")).unwrap_or(shown)
}

fn differing(differences: &[String]) {
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn replies_have_the_edits_of_their_routes_as_with_envoy() {
    let services = Services::start();
    let service = |cluster: &str| {
        format!(
            "transport_api_version: V3, grpc_service: {{envoy_grpc: {{cluster_name: {cluster}}}, timeout: 0.5s}}"
        )
    };
    let authz = |cluster: &str| {
        format!(
            "{{name: authz, typed_config: {{'@type': {AUTHZ}, {}, with_request_body: {{max_request_bytes: 5}}}}}}, ",
            service(cluster)
        )
    };
    let limit = format!(
        "{{name: limit, typed_config: {{'@type': {LIMIT}, domain: web, failure_mode_deny: true, timeout: 0.5s, rate_limit_service: {{{}}}}}}}, ",
        service("services")
    );
    let listeners = [
        listener("in", "$HTTP", &limit),
        listener("checked", "$TLS", &authz("services")),
        listener("unchecked", "$REQUIRED", &authz("dead-services")),
    ];
    let services_at = [("services", services.port.to_string()), ("dead-services", "$DEAD".to_owned())];
    let text = bootstrap_of(&listeners.concat(), &services_at) + &clusters();
    let pair = Pair::start_with(Directory::new(), &text, &[]);
    let mut differences = Vec::new();
    let mut count = 0;
    let mut compare = |port: &str, request: &str| {
        let [ours, envoys] = pair.ports(port).map(|port| settled(ask(port, &[request])));
        count += 1;
        if ours != envoys {
            differences.push(format!("{port} {request}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"));
        }
        ours
    };
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let call = |path: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\r\n"
        )
    };
    for path in [
        "/direct",
        "/empty-direct",
        "/redirect",
        "/dead",
        "/ghost",
        "/empty",
        "/full",
        "/slow",
        "/try/slow",
        "/ok",
        "/ok/close",
        "/ok/garbage",
        "/ok/204",
        "/status/503",
        "/weighted/backend",
        "/weighted/dead",
        "/nowhere",
    ] {
        let shown = compare("$HTTP", &get(path));
        if path == "/weighted/dead" {
            assert!(shown.contains("x-level: cluster\n") && shown.contains("x-first: cluster\n"), "{shown}");
        }
        compare("$HTTP", &call(path));
    }
    compare("$HTTP", "HEAD /dead HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    compare("$HTTP", "GET /ok HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    compare("$HTTP", "POST /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
    compare("$HTTP", "POST /ok HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    for case in ["over", "over-with", "ok-with", "failing"] {
        for kind in ["", "Content-Type: application/grpc\r\nContent-Length: 0\r\n"] {
            let request = format!(
                "POST /limited HTTP/1.1\r\nHost: x\r\nConnection: close\r\nx-case: {case}\r\n{kind}\r\n"
            );
            compare("$HTTP", &request);
        }
    }
    for last in ["denied", "login", "teapot", "quiet", "failing", "response", "break-value"] {
        for path in ["/ok", "/direct", "/redirect", "/weighted/backend"] {
            // The proxy refuses what it cannot write also where no host is asked.
            if last != "break-value" || !matches!(path, "/direct" | "/redirect") {
                compare("$TLS", &get(&format!("{path}/{last}")));
            }
        }
        compare("$TLS", &call(&format!("/ok/{last}")));
    }
    for path in ["/ok", "/direct", "/redirect", "/weighted/backend"] {
        compare("$REQUIRED", &get(path));
        compare(
            "$REQUIRED",
            &format!(
                "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 10\r\n\r\n0123456789"
            ),
        );
    }
    assert!(count >= 85, "{count}");
    differing(&differences);
}

#[test]
fn texts_of_replies_have_the_type_and_length_of_envoy() {
    let added = |value: &str, mode: &str| {
        format!(
            "response_headers_to_add: [{{header: {{key: content-type, value: {value}}}, append_action: {mode}}}]"
        )
    };
    let modes =
        ["APPEND_IF_EXISTS_OR_ADD", "ADD_IF_ABSENT", "OVERWRITE_IF_EXISTS_OR_ADD", "OVERWRITE_IF_EXISTS"];
    let mut edits: Vec<String> = modes.iter().map(|mode| added("text/html", mode)).collect();
    edits.extend([
        "name: plain".to_owned(),
        "response_headers_to_remove: [content-type, content-length, date]".to_owned(),
        "response_headers_to_add: [{header: {key: content-type, value: a/b}}, {header: {key: content-type, value: c/d}}]"
            .to_owned(),
        "response_headers_to_add: [{header: {key: content-type, value: ''}}, {header: {key: x-empty, value: ''}}]".to_owned(),
        "response_headers_to_add: [{header: {key: x-empty, value: ''}, keep_empty_value: true}]".to_owned(),
        "response_headers_to_add: [{header: {key: grpc-status, value: '5'}}, {header: {key: grpc-message, value: m}}]".to_owned(),
        "response_headers_to_add: [{header: {key: content-encoding, value: gzip}}, {header: {key: server, value: s}}]".to_owned(),
        // In one level: what is replaced comes before what is added, and what is there counts before both.
        "response_headers_to_add: [{header: {key: x-a, value: '1'}}, {header: {key: x-a, value: '2'}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}, \
         {header: {key: x-b, value: '1'}, append_action: ADD_IF_ABSENT}, {header: {key: x-b, value: '2'}, append_action: ADD_IF_ABSENT}, \
         {header: {key: x-c, value: '1'}}, {header: {key: x-c, value: '2'}, append_action: OVERWRITE_IF_EXISTS}]"
            .to_owned(),
    ]);
    let bodies = [
        "{status: 200}",
        "{status: 200, body: {inline_string: ''}}",
        "{status: 200, body: {inline_string: \"hello\\n\"}}",
        "{status: 500, body: {inline_string: '{\"a\": 1}'}}",
        "{status: 201, body: {inline_string: \"h\\u00e9\"}}",
        "{status: 302, body: {inline_string: moved}}",
        "{status: 204}",
        "{status: 304}",
        "{status: 205}",
        "{status: 203}",
        "{status: 451}",
        "{status: 599}",
    ];
    let mut routes = String::new();
    for (number, body) in bodies.iter().enumerate() {
        for (edit, fields) in edits.iter().enumerate() {
            routes.push_str(&format!(
                "\n              - {{match: {{path: /{number}/{edit}}}, direct_response: {body}, {fields}}}"
            ));
        }
    }
    for (edit, fields) in edits.iter().enumerate() {
        let fields = fields.replace("response_headers", "request_headers");
        routes.push_str(&format!(
            "\n              - {{match: {{path: /ok/{edit}}}, route: {{cluster: backend}}, {fields}}}"
        ));
    }
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
          http_filters: [{{name: router, typed_config: {{'@type': {ROUTER}}}}}]
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes:{routes}"#
    );
    let pair = Pair::start_with(Directory::new(), &bootstrap_of(&listener, &[]), &[]);
    let ports = pair.ports("$HTTP");
    let compare = |path: &str| {
        let all = [
            "",
            "Content-Type: application/grpc\r\nContent-Length: 0\r\n",
            "Content-Type: application/grpc; x\r\nContent-Length: 3\r\n",
        ];
        let differences = all.into_iter().filter_map(|fields| {
            let body = if fields.contains('3') { "abc" } else { "" };
            let request = format!(
                "POST {path} HTTP/1.1\r\nHost: x\r\nx-c: 0\r\nConnection: close\r\n{fields}\r\n{body}"
            );
            let [ours, envoys] = ports.map(|port| settled(ask(port, &[&request])));
            (ours != envoys).then(|| format!("{request}\n--- proxy\n{ours}\n--- envoy\n{envoys}\n"))
        });
        differences.collect::<Vec<_>>()
    };
    let of_edit = |edit: usize| {
        let numbers = (0..bodies.len()).map(|number| format!("/{number}/{edit}"));
        numbers.chain([format!("/ok/{edit}")]).flat_map(|path| compare(&path)).collect::<Vec<_>>()
    };
    // All at once: Envoy keeps each connection for a second after its response.
    let differences: Vec<String> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..edits.len())
            .map(|edit| {
                scope.spawn({
                    let of_edit = &of_edit;
                    move || of_edit(edit)
                })
            })
            .collect();
        asking.into_iter().flat_map(|asking| asking.join().unwrap()).collect()
    });
    differing(&differences);
}
