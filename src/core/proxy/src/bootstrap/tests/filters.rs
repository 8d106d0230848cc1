//! Filters that call servers, access logs that are sent to one, and what routes say of filters.

use super::*;

const AUTHZ: &str = "'@type': type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz";
const AUTHZ_ROUTE: &str =
    "'@type': type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute";
const LIMIT: &str = "'@type': type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit";
const LIMIT_ROUTE: &str =
    "'@type': type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute";
const LOG: &str =
    "'@type': type.googleapis.com/envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig";
const SERVICE: &str = "transport_api_version: V3, grpc_service: {envoy_grpc: {cluster_name: g}}";

/// A bootstrap with a filter of this configuration, a route with these fields, and these fields of the manager.
fn with(filter: &str, route: &str, manager: &str) -> String {
    let filter =
        if filter.is_empty() { String::new() } else { format!("{{name: f, typed_config: {{{filter}}}}}, ") };
    format!(
        "static_resources:
  clusters: [{{name: c, load_assignment: {{cluster_name: c}}}}, {{name: g, http2_protocol_options: {{}}, load_assignment: {{cluster_name: g}}}}]
  listeners:
  - name: l
    address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          '@type': {MANAGER}
          stat_prefix: p
          {manager}
          http_filters: [{filter}{{name: router, typed_config: {{'@type': {ROUTER}}}}}]
          route_config:
            virtual_hosts: [{{name: v, domains: ['*'], routes: [{{match: {{prefix: /}}, {route}}}]}}]
"
    )
}

const ROUTE: &str = "route: {cluster: c}";

/// The first problem of a text: where it is, and what.
fn first(text: &str) -> String {
    let (_, _, path, message) = problem(text);
    let path = path.rsplit("typed_config").next().unwrap_or_default().to_owned();
    format!("{path}: {message}")
}

#[test]
fn filters_and_logs_are_read() {
    for (filter, route, manager) in [
        (format!("{AUTHZ}, {SERVICE}"), ROUTE.to_owned(), String::new()),
        (
            format!(
                "{AUTHZ}, {SERVICE}, status_on_error: {{code: 503}}, with_request_body: {{max_request_bytes: 1}}"
            ),
            format!("{ROUTE}, typed_per_filter_config: {{f: {{{AUTHZ_ROUTE}, disabled: true}}}}"),
            String::new(),
        ),
        (
            format!("{LIMIT}, domain: d, rate_limit_service: {{{SERVICE}}}"),
            format!(
                "route: {{cluster: c, rate_limits: [{{actions: [{{remote_address: {{}}}}]}}]}}, typed_per_filter_config: {{f: {{{LIMIT_ROUTE}}}}}"
            ),
            String::new(),
        ),
        (
            String::new(),
            ROUTE.to_owned(),
            format!(
                "access_log: [{{name: a, typed_config: {{{LOG}, common_config: {{log_name: n, {SERVICE}}}}}}}]"
            ),
        ),
    ] {
        let read = read(&with(&filter, &route, &manager), "b.yaml");
        let (bootstrap, warnings) = read.unwrap_or_else(|problems| panic!("{problems:?}"));
        assert_eq!(warnings, []);
        let NetworkFilter::Http(read) = &bootstrap.listeners[0].chains[0].filter else {
            panic!("an HTTP listener")
        };
        assert_eq!(
            (read.filters.len(), read.access_logs.len()),
            (usize::from(manager.is_empty()), usize::from(!manager.is_empty()))
        );
    }
}

#[test]
fn what_is_not_supported_or_not_there_is_refused() {
    let no_cluster = SERVICE.replace("cluster_name: g", "cluster_name: ghost");
    for (filter, expected) in [
        (format!("{AUTHZ}, {no_cluster}"), "f: unknown cluster_name 'ghost'"),
        (format!("{AUTHZ}, grpc_service: {{envoy_grpc: {{cluster_name: g}}}}"), "must be V3"),
        (
            format!("{AUTHZ}, transport_api_version: V3"),
            "ExtAuthzValidationError.GrpcService: value is required",
        ),
        (
            format!("{AUTHZ}, transport_api_version: V3, http_service: {{}}"),
            "field `http_service` of ExtAuthz",
        ),
        (
            format!("{AUTHZ}, transport_api_version: V3, grpc_service: {{google_grpc: {{}}}}"),
            "field `google_grpc` of GrpcService",
        ),
        (
            format!("{AUTHZ}, {SERVICE}, metadata_context_namespaces: [a]"),
            "field `metadata_context_namespaces` of ExtAuthz",
        ),
        (format!("{AUTHZ}, {SERVICE}, failure_mode_alow: true"), "no such field: 'failure_mode_alow'"),
        (
            format!("{AUTHZ}, {SERVICE}, with_request_body: {{max_request_bytes: 0}}"),
            "value must be greater than 0",
        ),
        (format!("{AUTHZ}, {SERVICE}, status_on_error: {{code: 42}}"), "unknown enum value: '42'"),
        (format!("{LIMIT}, rate_limit_service: {{{SERVICE}}}"), "RateLimitValidationError.Domain"),
        (format!("{LIMIT}, domain: d"), "RateLimitValidationError.RateLimitService: value is required"),
        (
            format!("{LIMIT}, domain: d, rate_limit_service: {{{no_cluster}}}"),
            "f: unknown cluster_name 'ghost'",
        ),
        (
            format!("{LIMIT}, domain: d, rate_limit_service: {{{SERVICE}}}, request_type: internal"),
            "request_type internal is not supported",
        ),
        (format!("{LIMIT}, domain: d, rate_limit_service: {{{SERVICE}}}, stage: 11"), "from 0 to 10"),
    ] {
        let found = first(&with(&filter, ROUTE, ""));
        assert!(found.contains(expected), "{filter}\n{found}");
    }
    let authz = format!("{AUTHZ}, {SERVICE}");
    for (route, expected) in [
        (
            format!("{ROUTE}, typed_per_filter_config: {{g: {{{AUTHZ_ROUTE}, disabled: true}}}}"),
            "names the filter `g`, which is not among `http_filters`",
        ),
        (
            format!(
                "route: {{weighted_clusters: {{clusters: [{{name: c, weight: 1, typed_per_filter_config: {{f: {{{LIMIT_ROUTE}}}}}}}]}}}}"
            ),
            "names the filter `f`, which is not among `http_filters` with a configuration of this type",
        ),
        (
            format!("{ROUTE}, typed_per_filter_config: {{f: {{{AUTHZ_ROUTE}, disabled: false}}}}"),
            "must equal true",
        ),
        (format!("{ROUTE}, typed_per_filter_config: {{f: {{{AUTHZ_ROUTE}}}}}"), "reason: is required"),
        (
            format!(
                "{ROUTE}, typed_per_filter_config: {{f: {{'@type': a/envoy.config.route.v3.FilterConfig}}}}"
            ),
            "typed_per_filter_config of the filter f with envoy.config.route.v3.FilterConfig is not supported",
        ),
        ("route: {cluster: c, rate_limits: [{actions: []}]}".to_owned(), "at least 1 item"),
        (
            "route: {cluster: c, rate_limits: [{actions: [{dynamic_metadata: {}}]}]}".to_owned(),
            "field `dynamic_metadata` of Action is not supported",
        ),
        (
            "route: {cluster: c, rate_limits: [{disable_key: a, actions: [{remote_address: {}}]}]}"
                .to_owned(),
            "field `disable_key` of RateLimit is not supported",
        ),
    ] {
        let found = first(&with(&authz, &route, ""));
        assert!(found.contains(expected), "{route}\n{found}");
    }
    let log = |config: &str| {
        format!("access_log: [{{name: a, typed_config: {{{LOG}, common_config: {{{config}}}}}}}]")
    };
    for (manager, expected) in [
        (log(&format!("log_name: n, {no_cluster}")), "access log n: unknown cluster_name 'ghost'"),
        (log(SERVICE), "CommonGrpcAccessLogConfigValidationError.LogName"),
        (log(&format!("log_name: n, {SERVICE}, buffer_flush_interval: 0s")), "value must be greater than 0s"),
        (log(&format!("log_name: n, {SERVICE}, custom_tags: []")), "field `custom_tags`"),
        (
            format!("access_log: [{{name: a, typed_config: {{{}}}}}]", LOG.replace("HttpGrpc", "TcpGrpc")),
            "access log envoy.extensions.access_loggers.grpc.v3.TcpGrpcAccessLogConfig is not supported",
        ),
    ] {
        let found = first(&with("", ROUTE, &manager));
        assert!(found.contains(expected), "{manager}\n{found}");
    }
    let router = format!("{{name: router, typed_config: {{'@type': {ROUTER}}}}}");
    let behind = with(&authz, ROUTE, "").replace(
        &format!("http_filters: [{{name: f, typed_config: {{{authz}}}}}, {router}]"),
        &format!("http_filters: [{router}, {{name: f, typed_config: {{{authz}}}}}]"),
    );
    let found = first(&behind);
    assert!(found.contains("the filter `f` stands behind the router"), "{found}");
}
