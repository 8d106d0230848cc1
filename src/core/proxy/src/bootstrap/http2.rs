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
