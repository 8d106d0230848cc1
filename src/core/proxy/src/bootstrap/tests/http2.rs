//! Which protocol clients and hosts speak.

use super::*;

/// The connection manager of a listener with these fields.
fn manager(fields: &str) -> String {
    with_routes("                []")
        .replace("stat_prefix: p\n", &format!("stat_prefix: p\n          {fields}\n"))
}

fn read_manager(fields: &str) -> ManagerConfig {
    let (bootstrap, warnings) = read(&manager(fields), "b.yaml").unwrap();
    assert_eq!(warnings, []);
    match &bootstrap.listeners[0].chains[0].filter {
        NetworkFilter::Http(manager) => (**manager).clone(),
        NetworkFilter::Tcp(_) => panic!("an HTTP listener"),
    }
}

fn cluster(fields: &str) -> String {
    format!(
        "static_resources:\n  clusters:\n  - {{name: c, load_assignment: {{cluster_name: c}}, {fields}}}\n"
    )
}

const OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

fn extension(options: &str) -> String {
    cluster(&format!(
        "typed_extension_protocol_options: {{{OPTIONS}: {{'@type': type.googleapis.com/{OPTIONS}, {options}}}}}"
    ))
}

#[test]
fn codecs_and_options_of_clients_are_read() {
    let plain = read_manager("server_name: x");
    assert_eq!((plain.codec, plain.http2.max_streams), (Codec::Auto, 1024));
    assert_eq!(read_manager("codec_type: HTTP1").codec, Codec::Http1);
    assert_eq!(read_manager("codecType: HTTP2").codec, Codec::Http2);
    let options = "http2_protocol_options: {max_concurrent_streams: 7, initial_stream_window_size: 65535, initialConnectionWindowSize: 70000}";
    let expected = Http2Options { max_streams: 7, stream_window: 65_535, connection_window: 70_000 };
    assert_eq!(read_manager(options).http2, expected);
    let path = "static_resources.listeners[0].filter_chains[0].filters[0].typed_config";
    let rows = [
        ("codec_type: HTTP3", "proxy-unsupported", ".codec_type", "codec_type HTTP3 is not supported"),
        ("codec_type: SPDY", "proxy-invalid", ".codec_type", "unknown enum value: 'SPDY'"),
        (
            "http2_protocol_options: {allow_connect: true}",
            "proxy-unsupported",
            ".http2_protocol_options.allow_connect",
            "field `allow_connect` of Http2ProtocolOptions is not supported by this version",
        ),
        (
            "http2_protocol_options: {max_concurrent_streams: 0}",
            "proxy-invalid",
            ".http2_protocol_options.max_concurrent_streams",
            "Http2ProtocolOptionsValidationError.MaxConcurrentStreams: value must be inside range [1, 2147483647]",
        ),
        (
            "http2_protocol_options: {initial_stream_window_size: 65534}",
            "proxy-invalid",
            ".http2_protocol_options.initial_stream_window_size",
            "Http2ProtocolOptionsValidationError.InitialStreamWindowSize: value must be inside range [65535, 2147483647]",
        ),
    ];
    for (fields, code, field, message) in rows {
        let (found, _, at, text) = problem(&manager(fields));
        assert_eq!((found, at), (code, format!("{path}{field}")), "{fields}");
        assert!(text.contains(message), "{text}");
    }
}

#[test]
fn the_protocol_of_clusters_is_read() {
    let http2 = |text: &str| read(text, "b.yaml").unwrap().0.clusters[0].http2;
    assert_eq!(http2(&cluster("type: STATIC")), None);
    assert_eq!(http2(&cluster("http2_protocol_options: {}")), Some(Http2Options::CLIENT));
    assert_eq!(http2(&extension("explicit_http_config: {http_protocol_options: {}}")), None);
    let narrow = extension("explicit_http_config: {http2_protocol_options: {max_concurrent_streams: 3}}");
    assert_eq!(http2(&narrow), Some(Http2Options { max_streams: 3, ..Http2Options::CLIENT }));
    let rows = [
        (extension("auto_config: {}, explicit_http_config: {}"), "proxy-unsupported", "auto_config"),
        (
            extension("explicit_http_config: {http3_protocol_options: {}}"),
            "proxy-unsupported",
            "http3_protocol_options",
        ),
        (extension("common_http_protocol_options: {}"), "proxy-invalid", "upstream_protocol_options"),
        (
            extension("explicit_http_config: {http2_protocol_options: {}, http_protocol_options: {}}"),
            "proxy-invalid",
            "only one of them may be set",
        ),
        (
            cluster("typed_extension_protocol_options: {other: {}}"),
            "proxy-unknown-field",
            "no such field: 'other'",
        ),
        (
            cluster(&format!(
                "typed_extension_protocol_options: {{{OPTIONS}: {{'@type': type.googleapis.com/a.B}}}}"
            )),
            "proxy-invalid",
            "expected the type",
        ),
    ];
    for (text, code, message) in rows {
        let (found, _, _, shown) = problem(&text);
        assert_eq!(found, code, "{text}: {shown}");
        assert!(shown.contains(message), "{text}: {shown}");
    }
}

#[test]
fn refused_streams_and_statuses_of_grpc_are_conditions_of_retries() {
    let routes = "              - {match: {prefix: /}, route: {cluster: c, retry_policy: {retry_on: 'refused-stream, cancelled,unavailable'}}}";
    let (bootstrap, warnings) = read(&with_routes(routes), "b.yaml").unwrap();
    assert_eq!(warnings, []);
    let NetworkFilter::Http(manager) = &bootstrap.listeners[0].chains[0].filter else {
        panic!("an HTTP listener")
    };
    let Action::Route(action) = &manager.routes.hosts[0].routes[0].action else { panic!("a route") };
    let on = action.retry.as_ref().unwrap().on;
    assert!(on.refused_stream && on.has_grpc(1) && on.has_grpc(14));
    assert!(!on.reset && !on.has_grpc(0) && !on.has_grpc(2) && !on.has_grpc(200));
}
