//! Listener filters.

use super::reader::{Fields, Message, Value, type_of, unknown_type};
use super::udp;

static FILTER: Message =
    Message { name: "ListenerFilter", unsupported: &["config_discovery", "filter_disabled"] };
static TLS: Message = Message {
    name: "TlsInspector",
    unsupported: &[
        "enable_ja3_fingerprinting",
        "enable_ja4_fingerprinting",
        "initial_read_buffer_size",
        "close_connection_on_client_hello_parsing_errors",
        "max_client_hello_size",
    ],
};
static HTTP: Message = Message { name: "HttpInspector", unsupported: &[] };
static ORIGINAL: Message = Message { name: "OriginalDst", unsupported: &[] };
static PROXY: Message = Message {
    name: "ProxyProtocol",
    unsupported: &["rules", "pass_through_tlvs", "disallowed_versions", "stat_prefix", "tlv_location"],
};

/// A filter that looks at a connection before its filter chain is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenerFilter {
    /// Looks for a ClientHello: server name and protocols.
    TlsInspector,
    /// Looks for a request of HTTP.
    HttpInspector,
    /// Takes the address that a connection went to before it was redirected.
    OriginalDestination,
    /// Reads a header of the PROXY protocol.
    ProxyProtocol {
        /// Whether connections without one are served.
        is_optional: bool,
    },
}

const TLS_TYPE: &str = "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector";
const HTTP_TYPE: &str = "envoy.extensions.filters.listener.http_inspector.v3.HttpInspector";
const ORIGINAL_TYPE: &str = "envoy.extensions.filters.listener.original_dst.v3.OriginalDst";
const PROXY_TYPE: &str = "envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol";

/// Whether this is a filter of connections.
pub(super) fn is_known(kind: &str) -> bool {
    [TLS_TYPE, HTTP_TYPE, ORIGINAL_TYPE, PROXY_TYPE].contains(&kind)
}

/// Why a filter of connections cannot be one of datagrams, nor the other way round; Envoy's text.
pub(super) fn not_of_this_kind(name: &str, kind: &str) -> String {
    format!("Didn't find a registered implementation for '{name}' with type URL: '{kind}'")
}

/// Reads the name of a ListenerFilter, the type of its configuration, and that.
pub(super) fn read_typed<'d>(value: &Value<'d>) -> Option<(String, &'d str, Value<'d>)> {
    let filter = value.message(&FILTER)?;
    let name = filter.text("name").unwrap_or_default().to_owned();
    let typed = type_of(&filter, &name);
    filter.finish();
    typed.map(|(kind, config)| (name, kind, config))
}

/// Reads a ListenerFilter of a listener of connections.
pub(super) fn read(value: &Value<'_>) -> Option<ListenerFilter> {
    let (name, kind, config) = read_typed(value)?;
    let message = |message: &'static Message| config.message(message).map(Fields::finish);
    match kind {
        TLS_TYPE => message(&TLS).map(|()| ListenerFilter::TlsInspector),
        HTTP_TYPE => message(&HTTP).map(|()| ListenerFilter::HttpInspector),
        ORIGINAL_TYPE => message(&ORIGINAL).map(|()| ListenerFilter::OriginalDestination),
        PROXY_TYPE => {
            let proxy = config.message(&PROXY)?;
            let is_optional = proxy.boolean("allow_requests_without_proxy_protocol");
            proxy.finish();
            Some(ListenerFilter::ProxyProtocol { is_optional })
        }
        udp::PROXY_TYPE => {
            config.invalid(not_of_this_kind(&name, kind));
            None
        }
        other => {
            unknown_type(&config, "listener filter", other);
            None
        }
    }
}
