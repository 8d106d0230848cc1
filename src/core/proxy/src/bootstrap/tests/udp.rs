//! Listeners of datagrams.

use std::time::Duration;

use super::*;

const PROXY: &str = "type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig";
const ROUTE: &str = "type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.Route";
const TCP: &str = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
const TLS: &str = "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector";
const DNS: &str = "type.googleapis.com/envoy.extensions.filters.udp.dns_filter.v3.DnsFilterConfig";

/// A bootstrap with a listener of datagrams that has these fields; those of the proxy are on line 8.
fn with_proxy(fields: &str, proxy: &str) -> String {
    with_filter(fields, PROXY, proxy)
}

fn with_filter(fields: &str, kind: &str, config: &str) -> String {
    format!(
        "static_resources:\n  listeners:\n  - name: l\n    address: {{socket_address: {{protocol: UDP, address: 127.0.0.1, port_value: 5}}}}\n    listener_filters:\n    - name: u\n      typed_config: {{'@type': {kind},\n        {config}}}\n{fields}\n"
    )
}

fn route(cluster: &str) -> String {
    format!(
        "stat_prefix: p, matcher: {{on_no_match: {{action: {{name: route, typed_config: {{'@type': {ROUTE}{cluster}}}}}}}}}"
    )
}

fn listener(text: &str) -> UdpListenerConfig {
    let (bootstrap, warnings) = read(text, "b.yaml").unwrap();
    assert_eq!(warnings, []);
    let [listener] = &bootstrap.listeners[..] else { panic!("one listener") };
    assert!(listener.chains.is_empty() && listener.listener_filters.is_empty());
    listener.udp.clone().unwrap()
}

#[test]
fn a_udp_proxy_is_read() {
    let plain = listener(&with_proxy("", "stat_prefix: p, cluster: c"));
    assert_eq!(plain.max_datagram, 1500);
    let expected = UdpProxyConfig {
        stat_prefix: "p".to_owned(),
        cluster: "c".to_owned(),
        idle_timeout: Duration::from_secs(60),
        hash_policy: None,
        max_reply: 65_535,
    };
    assert_eq!(plain.proxy, expected);
    let full = listener(&with_proxy(
        "    udp_listener_config: {downstream_socket_config: {max_rx_datagram_size: 9000}}\n    traffic_direction: INBOUND",
        &format!(
            "{}, idle_timeout: 0.5s, hash_policies: [{{source_ip: true}}], upstream_socket_config: {{max_rx_datagram_size: 200, prefer_gro: false}}",
            route(", cluster: d")
        ),
    ));
    assert_eq!(full.max_datagram, 9000);
    let expected = UdpProxyConfig {
        cluster: "d".to_owned(),
        idle_timeout: Duration::from_millis(500),
        hash_policy: Some(UdpHash::SourceAddress),
        max_reply: 200,
        ..expected
    };
    assert_eq!(full.proxy, expected);
    // Envoy has room for any datagram where the system may join several.
    let any = listener(&with_proxy(
        "    udp_listener_config: {downstream_socket_config: {prefer_gro: true}}",
        "stat_prefix: p, cluster: c, hash_policies: [{key: k}], upstream_socket_config: {max_rx_datagram_size: 200}",
    ));
    assert_eq!((any.max_datagram, any.proxy.max_reply), (65_535, 65_535));
    assert_eq!(any.proxy.hash_policy, Some(UdpHash::Key("k".to_owned())));
}

#[test]
fn what_is_wrong_with_a_udp_listener_is_told_as_by_envoy() {
    const FILTER: &str = "static_resources.listeners[0].listener_filters[0].typed_config";
    let chain =
        format!("{{filters: [{{name: t, typed_config: {{'@type': {TCP}, stat_prefix: p, cluster: c}}}}]}}");
    let good = "stat_prefix: p, cluster: c";
    for (text, line, path, message) in [
        (
            with_proxy(&format!("    filter_chains: [{chain}, {chain}]"), good),
            9,
            "static_resources.listeners[0].filter_chains".to_owned(),
            "error adding listener '127.0.0.1:5': 2 filter chain(s) specified for connection-less UDP listener.",
        ),
        (
            with_proxy(&format!("    default_filter_chain: {chain}"), good),
            9,
            "static_resources.listeners[0].default_filter_chain".to_owned(),
            "0 filter chain(s) specified for connection-less UDP listener.",
        ),
        (with_proxy("", "cluster: c"), 7, FILTER.to_owned(), "UdpProxyConfigValidationError.StatPrefix"),
        (
            with_proxy("", "stat_prefix: p"),
            7,
            FILTER.to_owned(),
            "field: \"route_specifier\", reason: is required",
        ),
        (
            with_proxy("", "stat_prefix: p, cluster: ''"),
            8,
            format!("{FILTER}.cluster"),
            "UdpProxyConfigValidationError.Cluster: value length must be at least 1 characters",
        ),
        (
            with_proxy("", &format!("{good}, matcher: {{}}")),
            8,
            format!("{FILTER}.matcher"),
            "excludes `cluster`",
        ),
        (
            with_proxy("", "stat_prefix: p, matcher: {}"),
            8,
            format!("{FILTER}.matcher"),
            "the matcher has no `on_no_match`",
        ),
        (
            with_proxy("", "stat_prefix: p, matcher: {on_no_match: {}}"),
            8,
            format!("{FILTER}.matcher.on_no_match"),
            "OnMatchValidationError",
        ),
        (
            with_proxy("", &route("")),
            8,
            format!("{FILTER}.matcher.on_no_match.action.typed_config"),
            "RouteValidationError.Cluster: value length must be at least 1 characters",
        ),
        (
            with_proxy("", &format!("{good}, hash_policies: [{{source_ip: false}}]")),
            8,
            format!("{FILTER}.hash_policies[0].source_ip"),
            "HashPolicyValidationError.SourceIp: value must equal true",
        ),
        (
            with_proxy("", &format!("{good}, hash_policies: [{{key: a}}, {{key: b}}]")),
            8,
            format!("{FILTER}.hash_policies[1]"),
            "value must contain no more than 1 item(s)",
        ),
        (
            with_proxy("", &format!("{good}, upstream_socket_config: {{max_rx_datagram_size: 0}}")),
            8,
            format!("{FILTER}.upstream_socket_config.max_rx_datagram_size"),
            "UdpSocketConfigValidationError.MaxRxDatagramSize: value must be inside range (0, 65536)",
        ),
        (
            with_proxy("", good).replace("protocol: UDP", "protocol: UDPX"),
            4,
            "static_resources.listeners[0].address.socket_address.protocol".to_owned(),
            "unknown enum value: 'UDPX'",
        ),
        (
            with_proxy("", &format!("{good}, idle_timeout: 0s")),
            8,
            format!("{FILTER}.idle_timeout"),
            "sessions would end before their host answers",
        ),
        (
            with_proxy("", &format!("{good}, idle_timeout: 31557600000s")),
            8,
            format!("{FILTER}.idle_timeout"),
            "Invalid duration: Duration out-of-range",
        ),
        (
            with_filter("", TLS, ""),
            7,
            FILTER.to_owned(),
            "Didn't find a registered implementation for 'u' with type URL: 'envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector'",
        ),
        (
            with_proxy(&format!("    filter_chains: [{chain}]"), good).replace("protocol: UDP, ", ""),
            7,
            FILTER.to_owned(),
            "Didn't find a registered implementation for 'u' with type URL: 'envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig'",
        ),
    ] {
        assert_problem(&text, "proxy-invalid", line, &path, message);
    }
}

#[test]
fn what_a_udp_listener_does_not_support_is_refused_by_name_path_and_line() {
    const LISTENER: &str = "static_resources.listeners[0]";
    let filter = |field: &str| format!("{LISTENER}.listener_filters[0].typed_config.{field}");
    let good = "stat_prefix: p, cluster: c";
    for field in ["use_original_src_ip", "use_per_packet_load_balancing", "access_log", "session_filters"] {
        let text = with_proxy("", &format!("{good}, {field}: x"));
        assert_problem(
            &text,
            "proxy-unsupported",
            8,
            &filter(field),
            &format!("field `{field}` of UdpProxyConfig"),
        );
    }
    let no_filter = "static_resources:\n  listeners:\n  - name: l\n    address: {socket_address: {protocol: UDP, address: 127.0.0.1, port_value: 5}}\n";
    let second = format!("    - {{name: v, typed_config: {{'@type': {PROXY}, stat_prefix: q, cluster: c}}}}");
    let condition = "stat_prefix: p, matcher: {matcher_list: {}}";
    for (text, line, path, message) in [
        (no_filter.to_owned(), 3, LISTENER.to_owned(), "a UDP listener without the listener filter"),
        (with_proxy(&second, good), 9, format!("{LISTENER}.listener_filters[1]"), "a second listener filter"),
        (with_filter("", DNS, ""), 7, format!("{LISTENER}.listener_filters[0].typed_config"), "dns_filter"),
        (with_proxy("", condition), 8, filter("matcher.matcher_list"), "field `matcher_list` of Matcher"),
        (
            with_proxy("    udp_listener_config: {quic_options: {}}", good),
            9,
            format!("{LISTENER}.udp_listener_config.quic_options"),
            "field `quic_options` of UdpListenerConfig",
        ),
        (
            "admin: {address: {socket_address: {protocol: UDP, address: 127.0.0.1, port_value: 5}}}"
                .to_owned(),
            1,
            "admin.address".to_owned(),
            "protocol UDP",
        ),
    ] {
        assert_problem(&text, "proxy-unsupported", line, &path, message);
    }
    // Ports of UDP are others than those of TCP.
    let chain = format!(
        "filter_chains: [{{filters: [{{name: t, typed_config: {{'@type': {TCP}, stat_prefix: p, cluster: c}}}}]}}]"
    );
    let stream = format!(
        "  - name: t\n    address: {{socket_address: {{address: 127.0.0.1, port_value: 5}}}}\n    {chain}"
    );
    assert!(read(&with_proxy(&stream, good), "b.yaml").is_ok());
    let again =
        with_proxy("", good).replace("name: l", "name: k").replace("static_resources:\n  listeners:\n", "");
    let twice = problem(&with_proxy(&again, good));
    assert!(
        twice.3.starts_with("error adding listener: 'k' has duplicate address '127.0.0.1:5'"),
        "{}",
        twice.3
    );
    let host = "static_resources:\n  clusters:\n  - {name: c, load_assignment: {cluster_name: c, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {protocol: UDP, address: 127.0.0.1, port_value: 5}}}}]}]}}";
    assert!(read(host, "b.yaml").is_ok(), "what the cluster is for decides");
}

#[test]
fn several_workers_need_a_socket_each() {
    let text = with_proxy("    enable_reuse_port: false", "stat_prefix: p, cluster: c");
    let (bootstrap, _) = read(&text, "b.yaml").unwrap();
    assert_eq!(bootstrap.problems_with(1, "b.yaml"), []);
    let [problem] = &bootstrap.problems_with(2, "b.yaml")[..] else { panic!("one problem") };
    assert_eq!(
        (problem.file.as_deref(), problem.span.unwrap().start.line, problem.field.to_string().as_str()),
        (Some("b.yaml"), 9, "static_resources.listeners[0].enable_reuse_port")
    );
    assert_eq!(
        problem.message,
        "Listening on UDP when concurrency is > 1 without the SO_REUSEPORT socket option results in unstable packet proxying. Configure the reuse_port listener option or set concurrency = 1."
    );
    let (shared, _) = read(&with_proxy("", "stat_prefix: p, cluster: c"), "b.yaml").unwrap();
    assert_eq!(shared.problems_with(2, "b.yaml"), []);
}
