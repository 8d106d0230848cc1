//! Configurations of the Mixer filters, valid and not.

use std::time::Duration;

use mixer_attribute::OwnedValue;
use mixer_config::Severity;

use super::super::{Bootstrap, FilterKind, NetworkFilter, read};
use super::{MixerConfig, TcpMixerConfig};

/// A bootstrap with an HTTP filter of this configuration (the fields after the name), and a route with these fields.
fn http(filter: &str, route: &str) -> String {
    format!(
        "static_resources:
  clusters: [{{name: mixer_server, load_assignment: {{cluster_name: c}}}}, {{name: c, load_assignment: {{cluster_name: c}}}}]
  listeners:
  - name: l
    address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: p
          http_filters:
          - {{name: mixer, {filter}}}
          - {{name: router, typed_config: {{'@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}}}
          route_config:
            virtual_hosts: [{{name: v, domains: ['*'], routes: [{{match: {{prefix: /}}, route: {{cluster: c}}{route}}}]}}]
"
    )
}

fn of_http(bootstrap: &Bootstrap) -> &MixerConfig {
    let NetworkFilter::Http(manager) = &bootstrap.listeners[0].chains[0].filter else {
        panic!("an HTTP listener")
    };
    let FilterKind::Mixer(mixer) = &manager.filters[0].kind else { panic!("a Mixer filter") };
    mixer
}

fn tcp(filters: &str) -> String {
    format!(
        "static_resources:
  clusters: [{{name: mixer_server, load_assignment: {{cluster_name: c}}}}]
  listeners:
  - name: l
    address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}
    filter_chains: [{{filters: [{filters}]}}]
"
    )
}

const PROXY: &str = "{name: tcp, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: p, cluster: c}}";

fn of_tcp(bootstrap: &Bootstrap) -> &TcpMixerConfig {
    let NetworkFilter::Tcp(proxy) = &bootstrap.listeners[0].chains[0].filter else {
        panic!("a TCP listener")
    };
    proxy.mixer.as_ref().unwrap()
}

const TYPE: &str = "'@type': type.googleapis.com/istio.mixer.v1.config.client";
const CLOSED: &str = "transport: {network_fail_policy: {policy: FAIL_CLOSE}}";

#[test]
fn every_form_of_a_configuration_is_read() {
    let inner = "defaultDestinationService: s, service_configs: {s: {disable_check_calls: true}}";
    for (form, warnings) in [
        (format!("typed_config: {{{TYPE}.HttpClientConfig, {CLOSED}, {inner}}}"), 0),
        (
            format!(
                "typed_config: {{'@type': type.googleapis.com/udpa.type.v1.TypedStruct, \
                 type_url: type.googleapis.com/istio.mixer.v1.config.client.HttpClientConfig, value: {{{CLOSED}, {inner}}}}}"
            ),
            0,
        ),
        (format!("config: {{{CLOSED}, {inner}}}"), 0),
        (format!("config: {{v2: {{{CLOSED}, {inner}, newer: 1}}}}"), 1),
    ] {
        let (bootstrap, problems) =
            read(&http(&form, ""), "b.yaml").unwrap_or_else(|p| panic!("{form}: {p:?}"));
        assert_eq!(problems.len(), warnings, "{problems:?}");
        let config = of_http(&bootstrap);
        assert_eq!(config.default_service, "s");
        assert!(!config.services["s"].checks && config.services["s"].reports);
        assert!(!config.transport.fail_policy.opens);
    }
}

#[test]
fn defaults_are_those_of_istio_and_an_open_policy_is_told() {
    let service = "default_destination_service: s, service_configs: {s: {}}";
    let text = http(&format!("typed_config: {{{TYPE}.HttpClientConfig, {service}}}"), "");
    let (bootstrap, problems) = read(&text, "b.yaml").unwrap();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].severity, Severity::Warning);
    assert!(problems[0].message.contains("FAIL_OPEN"), "{}", problems[0].message);
    for (fields, warnings) in [("", 1), ("max_retry: 2", 1), ("policy: FAIL_OPEN", 0)] {
        let policy = format!("transport: {{network_fail_policy: {{{fields}}}}}");
        let text = http(&format!("typed_config: {{{TYPE}.HttpClientConfig, {policy}, {service}}}"), "");
        let (bootstrap, problems) = read(&text, "b.yaml").unwrap();
        assert_eq!(problems.len(), warnings, "{fields}");
        let tells = |text: &str| text.contains("network_fail_policy.policy is not set");
        assert!(problems.iter().all(|problem| tells(&problem.message)), "{problems:?}");
        assert!(of_http(&bootstrap).transport.fail_policy.opens);
    }
    let transport = &of_http(&bootstrap).transport;
    assert!(transport.fail_policy.opens && transport.check_cache && transport.quota_cache);
    assert_eq!((transport.batch_entries, transport.batch_time), (100, Duration::from_secs(1)));
    assert_eq!(
        (transport.check_cluster.as_str(), transport.report_cluster.as_str()),
        ("mixer_server", "mixer_server")
    );
    assert_eq!(transport.fail_policy.wait, (Duration::from_millis(80), Duration::from_millis(1000)));
    for (interval, seconds) in [
        ("", 10),
        (", report_interval: 0.2s", 1),
        (", report_interval: -1s", 10),
        (", report_interval: 3s", 3),
    ] {
        let filter =
            format!("{{name: mixer, typed_config: {{{TYPE}.TcpClientConfig, {CLOSED}{interval}}}}}, {PROXY}");
        let (bootstrap, problems) = read(&tcp(&filter), "b.yaml").unwrap();
        assert_eq!(problems, [], "{interval}");
        assert_eq!(of_tcp(&bootstrap).report_interval, Duration::from_secs(seconds), "{interval}");
        assert!(of_tcp(&bootstrap).checks && of_tcp(&bootstrap).reports);
    }
}

#[test]
fn attributes_have_types() {
    let attributes = "mixer_attributes: {attributes: {s: {string_value: x}, i: {int64_value: '-5'}, d: {doubleValue: 0.5}, \
        b: {bool_value: true}, raw: {bytes_value: AQI=}, t: {timestamp_value: '1970-01-01T00:00:01.5Z'}, \
        u: {duration_value: 1.5s}, m: {string_map_value: {entries: {k: v}}}}}";
    let text = http(&format!("typed_config: {{{TYPE}.HttpClientConfig, {CLOSED}, {attributes}}}"), "");
    let (bootstrap, _) = read(&text, "b.yaml").unwrap();
    let found = &of_http(&bootstrap).attributes;
    assert_eq!(found.len(), 8);
    assert_eq!(found.get("i"), Some(&OwnedValue::Int64(-5)));
    assert_eq!(found.get("raw"), Some(&OwnedValue::Bytes(vec![1, 2])));
    assert_eq!(found.get("m"), Some(&OwnedValue::from([("k", "v")])));
    assert!(
        matches!(found.get("t"), Some(OwnedValue::Timestamp(time)) if time.unix_nanos() == 1_500_000_000)
    );
    assert!(matches!(found.get("u"), Some(OwnedValue::Duration(time)) if time.nanos == 1_500_000_000));
}

#[test]
fn what_is_not_valid_is_told_with_its_place() {
    let typed =
        |fields: &str| http(&format!("typed_config: {{{TYPE}.HttpClientConfig, {CLOSED}, {fields}}}"), "");
    let of_route = |fields: &str| {
        http(
            &format!("typed_config: {{{TYPE}.HttpClientConfig, {CLOSED}}}"),
            &format!(", typed_per_filter_config: {fields}"),
        )
    };
    let service = |fields: &str| {
        typed(&format!("default_destination_service: s, service_configs: {{s: {{{fields}}}}}"))
    };
    for (text, message) in [
        (
            http("typed_config: {'@type': type.googleapis.com/x.Y}", ""),
            "expected the @type type.googleapis.com/istio.mixer",
        ),
        (http("is_optional: true", ""), "the filter `mixer` needs typed_config"),
        (typed("newer: 1"), "no such field: 'newer' in HttpClientConfig"),
        (
            typed("default_destination_service: al, service_configs: {all: {}}"),
            "service_configs has no service `al`, but all: nothing would be checked",
        ),
        (
            http("config: {v2: {default_destination_service: al}}", ""),
            "service_configs has no service `al`: nothing would be checked",
        ),
        (
            typed("forwarded_attributes_override: true, ignore_forwarded_attributes: true"),
            "forwarded_attributes_override excludes ignore_forwarded_attributes",
        ),
        (http("config: {v2: {transport: {check_cluster: gone}}}", ""), "mixer: unknown check_cluster 'gone'"),
        (
            http(
                &format!(
                    "typed_config: {{{TYPE}.HttpClientConfig, transport: {{network_fail_policy: {{policy: OPEN}}}}}}"
                ),
                "",
            ),
            "unknown enum value: 'OPEN'",
        ),
        (typed("mixer_attributes: {attributes: {a: {}}}"), "an attribute needs a value"),
        (typed("mixer_attributes: {attributes: {a: {bytes_value: '!'}}}"), "expected bytes in base64"),
        (typed("mixer_attributes: {attributes: {a: {string_value: a, bool_value: true}}}"), "excludes"),
        (service("quota_spec: [{rules: [{quotas: [{quota: q}]}]}]"), "a quota needs a `charge` of 1 or more"),
        (service("quota_spec: [{rules: [{quotas: [{charge: 1}]}]}]"), "a quota needs `quota`, its name"),
        (service("quota_spec: [{rules: [{match: [{clause: {a: {regex: '('}}}]}]}]"), "error parsing regexp"),
        (
            service("http_api_spec: [{patterns: [{http_method: GET}]}]"),
            "a pattern needs `uri_template` or `regex`",
        ),
        (service("http_api_spec: [{api_keys: [{}]}]"), "an API key needs"),
        (of_route("{other: {}}"), "typed_per_filter_config of the filter other is not supported"),
        (of_route("{mixer: {}}"), "expected the @type"),
        (
            tcp(&format!("{{name: mixer, typed_config: {{{TYPE}.TcpClientConfig, {CLOSED}}}}}")),
            "non-terminal filter named mixer",
        ),
        (
            tcp(&format!("{{name: mixer, typed_config: {{{TYPE}.HttpClientConfig}}}}, {PROXY}")),
            "expected the @type",
        ),
    ] {
        let problems = read(&text, "b.yaml").expect_err(&text);
        let found = problems
            .iter()
            .any(|p| p.severity == Severity::Error && p.message.contains(message) && p.span.is_some());
        assert!(found, "{message}: {problems:?}\n{text}");
    }
    let warned = service("http_api_spec: [{patterns: [{uri_template: no-slash}]}]");
    let (_, problems) = read(&warned, "b.yaml").unwrap();
    assert!(problems[0].message.contains("not a valid URI template"), "{problems:?}");
}

#[test]
fn a_filter_that_checks_nothing_is_told() {
    let typed = |fields: &str, route: &str| {
        http(&format!("typed_config: {{{TYPE}.HttpClientConfig, {CLOSED}{fields}}}"), route)
    };
    let own = ", typed_per_filter_config: {mixer: {'@type': type.googleapis.com/istio.mixer.v1.config.client.ServiceConfig}}";
    for (text, warns) in [
        (typed("", ""), true),
        (typed(", service_configs: {all: {}}", ""), true),
        (typed(", service_configs: {all: {}}, default_destination_service: all", ""), false),
        (typed("", own), false),
    ] {
        let (_, problems) = read(&text, "b.yaml").unwrap();
        let found = problems.iter().filter(|p| p.message.contains("checks and reports nothing")).count();
        assert_eq!(found, usize::from(warns), "{problems:?}\n{text}");
    }
}

#[test]
fn errors_point_at_the_field() {
    for (filter, path, written) in [
        (
            format!("typed_config: {{{TYPE}.HttpClientConfig, transport: {{check_cluster: gone}}}}"),
            "http_filters[0].typed_config.transport.check_cluster",
            "gone",
        ),
        (
            format!(
                "typed_config: {{{TYPE}.HttpClientConfig, default_destination_service: al, service_configs: {{all: {{}}}}}}"
            ),
            "http_filters[0].typed_config.default_destination_service",
            "al,",
        ),
    ] {
        let text = http(&filter, "");
        let problems = read(&text, "b.yaml").expect_err("an error");
        let error = problems.iter().find(|p| p.severity == Severity::Error).unwrap();
        assert!(error.field.to_string().ends_with(path), "{}", error.field);
        let start = error.span.unwrap().start;
        let line = text.lines().nth(usize::try_from(start.line).unwrap() - 1).unwrap();
        let rest = line.get(usize::try_from(start.column).unwrap() - 1..).unwrap();
        assert!(rest.starts_with(written), "{rest}");
    }
    // Without the field, the place is where it would be.
    let text = http(&format!("typed_config: {{{TYPE}.HttpClientConfig, {CLOSED}}}"), "");
    let problems = read(&text.replace("name: mixer_server", "name: other"), "b.yaml").expect_err("an error");
    let paths: Vec<String> = problems.iter().map(|p| p.field.to_string()).collect();
    assert!(paths.iter().any(|path| path.ends_with("typed_config.transport.check_cluster")), "{paths:?}");
}
