//! Listener filters.

use super::reader::{Fields, Message, Value, type_of, unknown_type};

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

/// Reads a ListenerFilter.
pub(super) fn read(value: &Value<'_>) -> Option<ListenerFilter> {
    let filter = value.message(&FILTER)?;
    let name = filter.text("name").unwrap_or_default().to_owned();
    let typed = type_of(&filter, &name);
    filter.finish();
    let (kind, config) = typed?;
    let message = |message: &'static Message| config.message(message).map(Fields::finish);
    match kind {
        "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector" => {
            message(&TLS).map(|()| ListenerFilter::TlsInspector)
        }
        "envoy.extensions.filters.listener.http_inspector.v3.HttpInspector" => {
            message(&HTTP).map(|()| ListenerFilter::HttpInspector)
        }
        "envoy.extensions.filters.listener.original_dst.v3.OriginalDst" => {
            message(&ORIGINAL).map(|()| ListenerFilter::OriginalDestination)
        }
        "envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol" => {
            let proxy = config.message(&PROXY)?;
            let is_optional = proxy.boolean("allow_requests_without_proxy_protocol");
            proxy.finish();
            Some(ListenerFilter::ProxyProtocol { is_optional })
        }
        other => {
            unknown_type(&config, "listener filter", other);
            None
        }
    }
}
