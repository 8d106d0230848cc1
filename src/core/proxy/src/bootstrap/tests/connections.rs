//! Filter chains, TLS, and clusters of all kinds.

use super::*;

const TCP: &str = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
const SERVER: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";
const CLIENT: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";

/// A bootstrap with a listener that has these fields beside its name and address; `FILTERS` is a TCP proxy.
fn with_listener(fields: &str) -> String {
    let filters =
        format!("filters: [{{name: t, typed_config: {{'@type': {TCP}, stat_prefix: p, cluster: c}}}}]");
    let fields = fields.replace("FILTERS", &filters).replace("SERVER", SERVER).replace("CLIENT", CLIENT);
    format!(
        "static_resources:\n  listeners:\n  - name: l\n    address: {{socket_address: {{address: 127.0.0.1, port_value: 5}}}}\n{fields}\n"
    )
}

fn with_cluster(fields: &str) -> String {
    format!(
        "static_resources:\n  clusters:\n  - name: c\n{}\n",
        fields.replace("SERVER", SERVER).replace("CLIENT", CLIENT)
    )
}

/// A certificate and a key, each as a YAML string.
fn issued() -> (String, String) {
    let issued = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    (format!("{:?}", issued.cert.pem()), format!("{:?}", issued.signing_key.serialize_pem()))
}

#[test]
fn filter_chains_are_read() {
    let text = with_listener(
        "    listener_filters_timeout: 0s\n    filter_chains:\n    - {name: a, filter_chain_match: {server_names: [A.Test, '*.b.test'], destination_port: 443, source_type: EXTERNAL, prefix_ranges: [{address_prefix: 10.1.2.3, prefix_len: 8}]}, FILTERS}\n    - {name: b, filter_chain_match: {server_names: [c.test]}, FILTERS}\n    default_filter_chain: {FILTERS}",
    );
    let (bootstrap, warnings) = read(&text, "b.yaml").unwrap();
    let listener = &bootstrap.listeners[0];
    assert_eq!(listener.listener_filters, [], "as Envoy, which adds none");
    let warned: Vec<String> = warnings.iter().map(|warning| warning.field.to_string()).collect();
    let chains = "static_resources.listeners[0].filter_chains";
    assert_eq!(warned, [format!("{chains}[0]"), format!("{chains}[1]")]);
    assert_eq!((listener.chains.len(), listener.default_chain.is_some()), (2, true));
    assert_eq!(listener.listener_filters_timeout, None);
    let expected = ChainMatch {
        destination_port: Some(443),
        destinations: vec![Range::new([10, 0, 0, 0].into(), 8)],
        server_names: vec!["a.test".to_owned(), ".b.test".to_owned()],
        source_type: SourceType::External,
        ..ChainMatch::default()
    };
    assert_eq!(listener.chains[0].matching, expected);
}

#[test]
fn filter_chains_that_are_not_valid_are_refused() {
    let chains = "static_resources.listeners[0].filter_chains";
    for (fields, path, message) in [
        (
            "    filter_chains: [{FILTERS}, {FILTERS}]",
            format!("{chains}[1]"),
            "has the same matching rules defined as ''",
        ),
        (
            "    filter_chains:\n    - {filter_chain_match: {server_names: [a, b]}, FILTERS}\n    - {filter_chain_match: {server_names: [b, c]}, FILTERS}",
            format!("{chains}[1]"),
            "multiple filter chains with overlapping matching rules are defined",
        ),
        (
            "    filter_chains: [{filter_chain_match: {server_names: ['a*.com']}, FILTERS}]",
            format!("{chains}[0].filter_chain_match.server_names[0]"),
            "partial wildcards are not supported in \"server_names\"",
        ),
        (
            "    filter_chains: [{filter_chain_match: {prefix_ranges: [{address_prefix: x}]}, FILTERS}]",
            format!("{chains}[0].filter_chain_match.prefix_ranges[0].address_prefix"),
            "malformed IP address: x",
        ),
        (
            "    filter_chains: [{filter_chain_match: {source_ports: [0]}, FILTERS}]",
            format!("{chains}[0].filter_chain_match.source_ports[0]"),
            "value must be inside range [1, 65535]",
        ),
        (
            "    filter_chains: [{filter_chain_match: {address_suffix: x}, FILTERS}]",
            format!("{chains}[0].filter_chain_match.address_suffix"),
            "field `address_suffix` of FilterChainMatch is not supported by this version",
        ),
    ] {
        let (_, _, found, text) = problem(&with_listener(fields));
        assert_eq!(found, path, "{text}");
        assert!(text.contains(message), "{text}");
    }
    let filter = "    filter_chains: [{FILTERS}]\n    listener_filters: [{name: x, typed_config: {'@type': a/envoy.extensions.filters.listener.local_ratelimit.v3.LocalRateLimit}}]";
    let (code, ..) = problem(&with_listener(filter));
    assert_eq!(code, "proxy-unsupported");
}

#[test]
fn tls_is_read_with_its_certificates() {
    let (chain, key) = issued();
    let pair = format!(
        "tls_certificates: [{{certificate_chain: {{inline_string: {chain}}}, private_key: {{inline_string: {key}}}}}]"
    );
    let listener = |common: &str, more: &str| {
        let socket = format!(
            "    filter_chains: [{{transport_socket: {{name: t, typed_config: {{'@type': SERVER, common_tls_context: {{{common}}}{more}}}}}, FILTERS}}]"
        );
        read(&with_listener(&socket), "b.yaml")
            .map(|(bootstrap, _)| bootstrap.listeners[0].chains[0].tls.is_some())
    };
    let context = "static_resources.listeners[0].filter_chains[0].transport_socket.typed_config";
    assert_eq!(listener(&pair, ""), Ok(true));
    let roots = format!(
        "{pair}, validation_context: {{trusted_ca: {{inline_string: {chain}}}, match_typed_subject_alt_names: [{{san_type: DNS, matcher: {{suffix: .test}}}}]}}"
    );
    assert_eq!(listener(&roots, ", require_client_certificate: true"), Ok(true));
    let other = issued().1;
    for (common, more, path, message) in [
        (String::new(), "", "", "No TLS certificates found for server context"),
        (pair.clone(), ", require_client_certificate: true", ".require_client_certificate", "without validation_context.trusted_ca is not supported"),
        (pair.clone(), ", session_timeout: 1s", ".session_timeout", "field `session_timeout` of DownstreamTlsContext"),
        (format!("{pair}, tls_params: {{cipher_suites: [a]}}"), "", ".common_tls_context.tls_params.cipher_suites", "is not supported"),
        (format!("{pair}, tls_params: {{tls_minimum_protocol_version: TLSv1_0}}"), "", ".common_tls_context.tls_params.tls_minimum_protocol_version", "a TLS version below TLSv1_2 is not supported"),
        (
            format!("{pair}, validation_context: {{match_typed_subject_alt_names: [{{san_type: DNS, matcher: {{exact: a}}}}]}}"),
            "",
            ".common_tls_context.validation_context",
            "without trusted CA is insecure",
        ),
        (pair.replace(&key, &other), "", "", "cannot be used"),
        ("tls_certificates: [{certificate_chain: {filename: /nowhere}, private_key: {filename: /nowhere}}]".to_owned(), "", "", "cannot read the file `/nowhere`"),
    ] {
        let problems = listener(&common, more).expect_err(message);
        assert_eq!(problems[0].field.to_string(), format!("{context}{path}"), "{}", problems[0].message);
        assert!(problems[0].message.contains(message), "{}", problems[0].message);
        let shown = format!("{problems:?}");
        assert!(!shown.contains("PRIVATE KEY"), "{shown}");
    }
    let cluster = |config: &str| {
        let socket = format!("    transport_socket: {{name: t, typed_config: {config}}}");
        read(&with_cluster(&socket), "b.yaml").map(|(bootstrap, _)| bootstrap.clusters[0].tls.is_some())
    };
    assert_eq!(cluster("{'@type': CLIENT, sni: a.test}"), Ok(true));
    let raw = "{'@type': a/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer}";
    assert_eq!(cluster(raw), Ok(false));
    let problems = cluster("{'@type': SERVER}").unwrap_err();
    assert!(problems[0].message.contains("expected an UpstreamTlsContext"), "{}", problems[0].message);
    let problems =
        cluster("{'@type': a/envoy.extensions.transport_sockets.quic.v3.QuicUpstreamTransport}").unwrap_err();
    assert_eq!(problems[0].code, "proxy-unsupported");
}

#[test]
fn clusters_of_all_kinds_are_read() {
    let read_cluster = |fields: &str| {
        read(&with_cluster(fields), "b.yaml").map(|(bootstrap, _)| bootstrap.clusters[0].clone())
    };
    let cluster = read_cluster("    type: ORIGINAL_DST\n    lb_policy: CLUSTER_PROVIDED\n    original_dst_lb_config: {use_http_header: true}").unwrap();
    assert_eq!(cluster.policy, Policy::OriginalDestination(true));
    let cluster =
        read_cluster("    lb_policy: RING_HASH\n    ring_hash_lb_config: {maximum_ring_size: 2000}").unwrap();
    assert_eq!(cluster.policy, Policy::RingHash((1024, 2000)));
    let cluster =
        read_cluster("    circuit_breakers: {thresholds: [{max_requests: 7, max_retries: 0}]}").unwrap();
    let expected = Thresholds { requests: 7, retries: 0, ..Thresholds::default() };
    assert_eq!(cluster.thresholds, expected);
    let several = "    circuit_breakers: {thresholds: [{max_requests: 7, max_retries: 0}, {max_requests: 9, max_connections: 8}]}";
    assert_eq!(read_cluster(several).unwrap().thresholds, expected, "the first counts");
    let hosts = "    load_assignment: {cluster_name: c, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: HOST, port_value: 1}}}, load_balancing_weight: 3}]}]}";
    let cluster = read_cluster(&hosts.replace("HOST", "127.0.0.1")).unwrap();
    assert_eq!(cluster.discovery, Discovery::Static(vec![(([127, 0, 0, 1], 1).into(), 3)]));
    let cluster =
        read_cluster(&format!("    type: LOGICAL_DNS\n{}", hosts.replace("HOST", "a.test"))).unwrap();
    assert!(matches!(cluster.discovery, Discovery::Dns { first_only: true, .. }), "{:?}", cluster.discovery);
    for (fields, message) in [
        ("    type: ORIGINAL_DST", "LB policy is not valid for cluster type ORIGINAL_DST"),
        ("    type: LOGICAL_DNS", "must have a single locality_lb_endpoint"),
        (
            "    lb_policy: RING_HASH\n    ring_hash_lb_config: {minimum_ring_size: 9, maximum_ring_size: 8}",
            "minimum_ring_size (9) > maximum_ring_size (8)",
        ),
        (
            "    lb_policy: RING_HASH\n    ring_hash_lb_config: {hash_function: MURMUR_HASH_2}",
            "MURMUR_HASH_2 is not supported",
        ),
        ("    ring_hash_lb_config: {}", "has no effect"),
        ("    lb_policy: CLUSTER_PROVIDED", "lb_policy CLUSTER_PROVIDED is not supported"),
        ("    circuit_breakers: {thresholds: [{priority: HIGH}]}", "priority HIGH is not supported"),
        ("    circuit_breakers: {thresholds: [{retry_budget: {}}]}", "field `retry_budget` of Thresholds"),
    ] {
        let problems = read_cluster(fields).map(|cluster| cluster.name).unwrap_err();
        assert!(problems[0].message.contains(message), "{}", problems[0].message);
    }
}

#[test]
fn configuration_dumps_have_no_keys() {
    let (chain, key) = issued();
    let text = with_listener(&format!(
        "    filter_chains: [{{transport_socket: {{name: t, typed_config: {{'@type': SERVER, common_tls_context: {{tls_certificates: [{{certificateChain: {{inline_string: {chain}}}, privateKey: {{inline_string: {key}}}}}]}}}}}}, FILTERS}}]"
    ));
    let (bootstrap, _) = read(&text, "b.yaml").unwrap();
    let certificate = &bootstrap.document["static_resources"]["listeners"][0]["filter_chains"][0]["transport_socket"]
        ["typed_config"]["common_tls_context"]["tls_certificates"][0];
    assert_eq!(certificate["privateKey"], serde_json::json!({"inline_string": "[redacted]"}));
    assert!(certificate["certificateChain"]["inline_string"].as_str().unwrap().contains("BEGIN CERTIFICATE"));
    // Whatever its form.
    let forms = "{private_key: SECRET, password: {filename: SECRET}, session_ticket_keys: {keys: [{inline_bytes: SECRET}, SECRET, 5]}, sessionTicketKeys: [SECRET], privateKey: {SECRET: {inline_string: SECRET}}, private_key_provider: {typed_config: {x: SECRET}}, pkcs12: {inline_bytes: SECRET}, a: [{password: SECRET}], b: '-----BEGIN CERTIFICATE-----\\n-----BEGIN EC PRIVATE KEY-----\\nSECRET', c: {inline_bytes: LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCg==}, kept: x}";
    let parsed = yaml::parse(forms).unwrap();
    let shown = json(&parsed.root);
    let text = shown.to_string();
    assert!(!text.contains("SECRET") && !text.contains("LS0t"), "{text}");
    assert_eq!(shown["kept"], "x");
    assert_eq!(shown["password"], serde_json::json!({"filename": "[redacted]"}));
    assert_eq!(
        shown["session_ticket_keys"]["keys"],
        serde_json::json!([{"inline_bytes": "[redacted]"}, "[redacted]", "[redacted]"])
    );
}

#[test]
fn problems_never_quote_a_key() {
    let pem = "-----BEGIN PRIVATE KEY-----\nSECRETKEYTEXT\n-----END PRIVATE KEY-----\n";
    // One with a slash, behind which it does not look like a key.
    let encoded = std::iter::repeat_with(|| {
        let der = rcgen::KeyPair::generate().unwrap().serialize_der();
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, der)
    });
    let encoded = encoded.into_iter().find(|encoded| encoded[40..100].contains('/')).unwrap();
    for key in [pem, encoded.as_str()] {
        let quoted = format!("{key:?}");
        let secret = if key == pem { "SECRETKEYTEXT" } else { &encoded[60..] };
        let source = [
            quoted.clone(),
            format!("[{quoted}]"),
            format!("{{inline_string: [{quoted}]}}"),
            format!("{{inline_bytes: {quoted}x}}"),
            format!("{{inline_bytes: {quoted}}}"),
            format!("{{inline_string: {quoted}}}"),
            format!("{{filename: {quoted}}}"),
            format!("{{{quoted}: a}}"),
            format!("{{{quoted}: a, {quoted}: b}}"),
            format!("{{inline_string: {{{quoted}: b}}}}"),
            format!("{{inlin_string: {quoted}}}"),
            format!("{{environment_variable: {quoted}}}"),
            format!("{{inline_string: {quoted}"),
            format!("{{inline_string: *{}}}", &encoded[..160]),
        ];
        let sources = source.iter().map(|source| {
            with_cluster(&format!(
                "    transport_socket: {{name: t, typed_config: {{'@type': CLIENT, common_tls_context: {{tls_certificates: [{{certificate_chain: {{inline_string: x}}, private_key: {source}}}]}}}}}}"
            ))
        });
        let others = [
            key.to_owned(),
            quoted.clone(),
            format!("{quoted}: 1"),
            with_cluster(&format!("    type: {quoted}")),
            with_cluster(&format!("    connect_timeout: {quoted}")),
            with_cluster(&format!("    connect_timeout: -{}s", encoded)),
            with_cluster(&format!("    transport_socket: {{name: {quoted}}}")),
            with_cluster(&format!("    transport_socket: {{name: t, typed_config: {{'@type': {quoted}}}}}")),
        ];
        for text in sources.chain(others) {
            let problems = read(&text, "b.yaml").expect_err(&text);
            let shown = format!("{problems:?}");
            assert!(!shown.contains(secret) && !shown.contains("BEGIN"), "{text}: {shown}");
            for problem in problems {
                let brief = problem.brief();
                assert!(!brief.contains('\n') && brief.len() < 2500, "{brief}");
            }
        }
    }
    // What is no key is quoted, in one line and bounded.
    let problem = |field: &str| read(&format!("{field}: 1"), "b.yaml").unwrap_err()[0].message.clone();
    assert_eq!(problem("nope"), "no such field: 'nope' in Bootstrap");
    assert!(problem(&"long".repeat(1000)).len() < 700);
    assert!(!problem("'a\n\n  b'").contains('\n'));
}
