//! Options of HTTP/2, and which protocol the connections of a client have.

use super::reader::{Fields, Message, Value};

static HTTP2: Message = Message {
    name: "Http2ProtocolOptions",
    unsupported: &[
        "hpack_table_size",
        "allow_connect",
        "allow_metadata",
        "max_outbound_frames",
        "max_outbound_control_frames",
        "max_consecutive_inbound_frames_with_empty_payload",
        "max_inbound_priority_frames_per_stream",
        "max_inbound_window_update_frames_per_data_frame_sent",
        "stream_error_on_invalid_http_messaging",
        "override_stream_error_on_invalid_http_message",
        "custom_settings_parameters",
        "connection_keepalive",
        "use_oghttp2_codec",
        "max_metadata_size",
        "enable_huffman_encoding",
        "max_header_field_size_kb",
    ],
};

/// The least and the most bytes of a window that can be configured.
const WINDOWS: (u32, u32) = (65_535, (1 << 31) - 1);

/// Options of connections with clients that say nothing else: streams as with Envoy, smaller windows.
pub(super) const SERVER: Http2Options =
    Http2Options { max_streams: 1024, stream_window: 256 << 10, connection_window: 4 << 20 };

static PROTOCOL_OPTIONS: Message = Message {
    name: "HttpProtocolOptions",
    unsupported: &[
        "common_http_protocol_options",
        "upstream_http_protocol_options",
        "use_downstream_protocol_config",
        "auto_config",
        "http_filters",
        "header_validation_config",
        "outlier_detection",
    ],
};
static EXPLICIT: Message = Message { name: "ExplicitHttpConfig", unsupported: &["http3_protocol_options"] };
/// Options of HTTP/1.1, of clients and of hosts: none is supported.
pub(super) static HTTP1: Message = Message {
    name: "Http1ProtocolOptions",
    unsupported: &[
        "allow_absolute_url",
        "accept_http_10",
        "default_host_for_http_10",
        "header_key_format",
        "enable_trailers",
        "allow_chunked_length",
        "override_stream_error_on_invalid_http_message",
        "send_fully_qualified_url",
        "use_balsa_parser",
        "allow_custom_methods",
        "ignore_http_11_upgrade",
    ],
};
static EXTENSIONS: Message = Message { name: "Cluster.typed_extension_protocol_options", unsupported: &[] };

/// The key and the type of the options of a cluster.
const EXTENSION: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// The protocol of the connections of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// What was negotiated with TLS, or what the first bytes say.
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// Options of HTTP/2 connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2Options {
    /// Streams that are open at the same time.
    pub max_streams: u32,
    /// Bytes that the peer may send on a stream before they are read.
    pub stream_window: u32,
    /// The same of a connection.
    pub connection_window: u32,
}

impl Http2Options {
    /// Options of connections with hosts that say nothing else. The window of the connection is that of a quarter of the streams: what some
    /// clients do not take does not hold up the responses to others.
    pub(crate) const CLIENT: Self =
        Self { max_streams: 1024, stream_window: 256 << 10, connection_window: 64 << 20 };
}

/// Reads the protocol of a cluster: `typed_extension_protocol_options`, or the deprecated `http2_protocol_options`. `Some(None)` is HTTP/1.1.
pub(super) fn read_cluster(cluster: &Fields<'_>) -> Option<Option<Http2Options>> {
    let old = cluster.get("http2_protocol_options");
    let Some(extensions) = cluster.get("typed_extension_protocol_options") else {
        return match old {
            Some(options) => read(&options, Http2Options::CLIENT).map(Some),
            None => Some(None),
        };
    };
    if let Some(old) = old {
        old.invalid("`typed_extension_protocol_options` excludes `http2_protocol_options`: only one of them may be set");
    }
    let extensions = extensions.message(&EXTENSIONS)?;
    let Some(options) = extensions.get(EXTENSION) else {
        extensions.finish();
        return Some(None);
    };
    extensions.finish();
    let kind = options.node.get("@type").and_then(mixer_config::Node::as_str).unwrap_or_default();
    if kind.rsplit('/').next() != Some(EXTENSION) {
        options.invalid(format!("expected the type {EXTENSION}, found `{kind}`"));
        return None;
    }
    let options = options.message(&PROTOCOL_OPTIONS)?;
    let explicit = options.message("explicit_http_config", &EXPLICIT);
    let found = match &explicit {
        Some(explicit) => match explicit.one_of(&["http_protocol_options", "http2_protocol_options"]) {
            Some(("http2_protocol_options", value)) => read(&value, Http2Options::CLIENT).map(Some),
            Some((_, value)) => value.message(&HTTP1).map(|http1| {
                http1.finish();
                None
            }),
            None => Some(None),
        },
        None => {
            options.required(
                "HttpProtocolOptionsValidationError: field: \"upstream_protocol_options\", reason: is required",
            );
            None
        }
    };
    if let Some(explicit) = explicit {
        explicit.finish();
    }
    options.finish();
    found
}

/// Reads the field `codec_type`.
pub(super) fn read_codec(manager: &Fields<'_>) -> Codec {
    let Some(codec) = manager.get("codec_type") else { return Codec::Auto };
    match codec.choice(&[("AUTO", 0), ("HTTP1", 1), ("HTTP2", 2), ("HTTP3", 3)]) {
        Some(1) => Codec::Http1,
        Some(2) => Codec::Http2,
        Some(3) => {
            codec.unsupported("codec_type HTTP3");
            Codec::Auto
        }
        _ => Codec::Auto,
    }
}

/// Reads options; those that are not given are those of `default`.
pub(super) fn read(value: &Value<'_>, default: Http2Options) -> Option<Http2Options> {
    let options = value.message(&HTTP2)?;
    let number = |name: &str, field: &str, (min, max): (u32, u32), default: u32| {
        let Some(value) = options.get(name) else { return Some(default) };
        let number = value.u32()?;
        if !(min..=max).contains(&number) {
            value.invalid(format!(
                "Http2ProtocolOptionsValidationError.{field}: value must be inside range [{min}, {max}]"
            ));
            return None;
        }
        Some(number)
    };
    let streams =
        number("max_concurrent_streams", "MaxConcurrentStreams", (1, WINDOWS.1), default.max_streams);
    let stream =
        number("initial_stream_window_size", "InitialStreamWindowSize", WINDOWS, default.stream_window);
    let connection = number(
        "initial_connection_window_size",
        "InitialConnectionWindowSize",
        WINDOWS,
        default.connection_window,
    );
    options.finish();
    Some(Http2Options { max_streams: streams?, stream_window: stream?, connection_window: connection? })
}
