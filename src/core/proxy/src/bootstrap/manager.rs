//! The HTTP connection manager.

use std::time::Duration;

use super::access_log::{self, AccessLogConfig};
use super::filter::{self, HttpFilterConfig};
use super::http2::{self, Codec, Http2Options};
use super::listener::{read_stat_prefix, timeout};
use super::reader::{Fields, Message, Value};
use super::route;
use super::table::RouteTableConfig;

static MANAGER: Message = Message {
    name: "HttpConnectionManager",
    unsupported: &[
        "rds",
        "scoped_routes",
        "tracing",
        "http3_protocol_options",
        "server_header_transformation",
        "scheme_header_transformation",
        "access_log_flush_interval",
        "access_log_options",
        "original_ip_detection_extensions",
        "early_header_mutation_extensions",
        "internal_address_config",
        "xff_num_trusted_hops",
        "skip_xff_append",
        "via",
        "drain_timeout",
        "forward_client_cert_details",
        "set_current_client_cert_details",
        "proxy_100_continue",
        "represent_ipv4_remote_address_as_ipv4_mapped_ipv6",
        "request_id_extension",
        "local_reply_config",
        "stream_error_on_invalid_http_message",
        "path_normalization_options",
        "typed_header_validation_config",
        "append_x_forwarded_port",
        "append_local_overload",
        "add_proxy_protocol_connection_state",
        "delayed_close_timeout",
        "add_user_agent",
        "stream_flush_timeout",
        "http1_safe_max_connection_duration",
    ],
};
static COMMON: Message = Message {
    name: "HttpProtocolOptions",
    unsupported: &[
        "max_connection_duration",
        "max_stream_duration",
        "headers_with_underscores_action",
        "max_response_headers_kb",
    ],
};

static UPGRADE: Message = Message { name: "UpgradeConfig", unsupported: &["filters", "connect_config"] };

/// Configuration of `envoy.filters.network.http_connection_manager`.
#[derive(Debug, Clone)]
pub struct ManagerConfig {
    /// The prefix of its statistics.
    pub stat_prefix: String,
    /// The protocol of connections.
    pub codec: Codec,
    /// Connections of HTTP/2.
    pub http2: Http2Options,
    /// The header `server` of responses.
    pub server_name: String,
    /// The routes.
    pub routes: RouteTableConfig,
    /// The filters before the router, in order.
    pub filters: Vec<HttpFilterConfig>,
    /// Access logs.
    pub access_logs: Vec<AccessLogConfig>,
    /// Whether the client's address is that of the connection.
    pub use_remote_address: bool,
    /// Whether requests get an `x-request-id`.
    pub generate_request_id: bool,
    /// Whether one from outside is kept.
    pub preserve_external_request_id: bool,
    /// Whether the response carries it.
    pub request_id_in_response: bool,
    /// Time without a request after which a connection is closed.
    pub idle_timeout: Option<Duration>,
    /// Time without progress after which a request ends.
    pub stream_idle_timeout: Option<Duration>,
    /// Time limit for receiving a request.
    pub request_timeout: Option<Duration>,
    /// Time limit for receiving the head of a request.
    pub headers_timeout: Option<Duration>,
    /// Maximum size of a head, in bytes.
    pub max_head: usize,
    /// Maximum number of header fields.
    pub max_fields: usize,
    /// Requests of a connection; `None` for no limit.
    pub max_requests: Option<u32>,
    /// Protocols in lower case that connections may change to, and those that they may not.
    pub upgrades: Vec<(String, bool)>,
    /// What is changed in paths and hosts.
    pub normalization: Normalization,
}

/// The form that paths and hosts of requests are brought into, before anything looks at them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Normalization {
    /// `normalize_path`: segments `.` and `..` are resolved, and unreserved characters unescaped.
    pub path: bool,
    /// `merge_slashes`.
    pub merge_slashes: bool,
    /// `path_with_escaped_slashes_action`.
    pub escaped_slashes: EscapedSlashes,
    /// `strip_matching_host_port` and `strip_any_host_port`.
    pub strip_port: StripPort,
    /// `strip_trailing_host_dot`.
    pub strip_trailing_dot: bool,
}

/// What becomes of paths with `%2F` or `%5C`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EscapedSlashes {
    /// They stay.
    #[default]
    Keep,
    /// They are refused.
    Reject,
    /// Their clients are to ask for the unescaped path.
    Redirect,
    /// They are unescaped.
    Forward,
}

/// Which ports are removed from hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StripPort {
    /// None.
    #[default]
    No,
    /// That of the listener.
    Matching,
    /// All.
    Any,
}

fn read_normalization(manager: &Fields<'_>) -> Normalization {
    let action = manager.get("path_with_escaped_slashes_action").and_then(|value| {
        value.choice(&[
            ("IMPLEMENTATION_SPECIFIC_DEFAULT", 0),
            ("KEEP_UNCHANGED", 1),
            ("REJECT_REQUEST", 2),
            ("UNESCAPE_AND_REDIRECT", 3),
            ("UNESCAPE_AND_FORWARD", 4),
        ])
    });
    let strip_port =
        match (manager.boolean("strip_matching_host_port"), manager.boolean("strip_any_host_port")) {
            (true, true) => {
                manager.required(
                    "Error: Only one of `strip_matching_host_port` or `strip_any_host_port` can be set.",
                );
                StripPort::Any
            }
            (false, true) => StripPort::Any,
            (true, false) => StripPort::Matching,
            (false, false) => StripPort::No,
        };
    Normalization {
        path: manager.boolean("normalize_path"),
        merge_slashes: manager.boolean("merge_slashes"),
        escaped_slashes: match action {
            Some(2) => EscapedSlashes::Reject,
            Some(3) => EscapedSlashes::Redirect,
            Some(4) => EscapedSlashes::Forward,
            _ => EscapedSlashes::Keep,
        },
        strip_port,
        strip_trailing_dot: manager.boolean("strip_trailing_host_dot"),
    }
}

/// Reads the field `upgrade_configs`.
pub(super) fn read_upgrades(holder: &Fields<'_>) -> Vec<(String, bool)> {
    let mut upgrades = Vec::new();
    for item in holder.items("upgrade_configs") {
        let Some(upgrade) = item.message(&UPGRADE) else { continue };
        let is_enabled = upgrade.get("enabled").is_none_or(|value| value.boolean() != Some(false));
        match upgrade.get("upgrade_type").and_then(|kind| Some((kind.text()?, kind))) {
            Some((name, kind))
                if name.eq_ignore_ascii_case("connect") || name.eq_ignore_ascii_case("connect-udp") =>
            {
                kind.unsupported("the upgrade type CONNECT");
            }
            Some((name, _)) if !name.is_empty() => upgrades.push((name.to_ascii_lowercase(), is_enabled)),
            _ => upgrade.required(
                "UpgradeConfigValidationError.UpgradeType: value length must be at least 1 characters",
            ),
        }
        upgrade.finish();
    }
    upgrades
}

pub(super) fn read(value: &Value<'_>) -> Option<ManagerConfig> {
    let manager = value.message(&MANAGER)?;
    let codec = http2::read_codec(&manager);
    let http2 = manager.get("http2_protocol_options").and_then(|value| http2::read(&value, http2::SERVER));
    let stat_prefix = read_stat_prefix(&manager, "HttpConnectionManager");
    let routes = match manager.get("route_config") {
        Some(routes) => route::read(&routes),
        None => {
            if !["rds", "scoped_routes"].iter().any(|name| manager.value.node.get(name).is_some()) {
                manager.required(
                    "HttpConnectionManagerValidationError: field: \"route_specifier\", reason: is required",
                );
            }
            None
        }
    };
    let filters = filter::read(&manager, routes.as_ref());
    if let Some(routes) = &routes {
        filter::check_routes(&manager, &filters, routes);
    }
    let common = manager.message("common_http_protocol_options", &COMMON);
    let seconds = Duration::from_secs;
    let idle_timeout = match &common {
        Some(common) => timeout(common, "idle_timeout", seconds(3600)),
        None => Some(seconds(3600)),
    };
    let number = |name: &str| common.as_ref()?.get(name)?.u32();
    if let Some(value) = common.as_ref().and_then(|common| common.get("max_headers_count"))
        && value.u32() == Some(0)
    {
        value.invalid(
            "HttpProtocolOptionsValidationError.MaxHeadersCount: value must be greater than or equal to 1",
        );
    }
    let (max_fields, max_requests) = (number("max_headers_count"), number("max_requests_per_connection"));
    if let Some(common) = common {
        common.finish();
    }
    if let Some(options) = manager.message("http_protocol_options", &http2::HTTP1) {
        options.finish();
    }
    let kilobytes = match manager.get("max_request_headers_kb") {
        None => 60,
        Some(value) => match value.number(8192) {
            Some(0) => {
                value.invalid("HttpConnectionManagerValidationError.MaxRequestHeadersKb: value must be inside range (0, 8192]");
                60
            }
            number => number.unwrap_or(60),
        },
    };
    let server_name = manager.line("server_name").filter(|name| !name.is_empty()).unwrap_or("mixer");
    let config = ManagerConfig {
        stat_prefix: stat_prefix.unwrap_or_default(),
        codec,
        http2: http2.unwrap_or(http2::SERVER),
        server_name: server_name.to_owned(),
        routes: routes.unwrap_or_default(),
        filters,
        access_logs: access_log::read(&manager, true),
        use_remote_address: manager.boolean("use_remote_address"),
        generate_request_id: manager
            .get("generate_request_id")
            .is_none_or(|value| value.boolean() != Some(false)),
        preserve_external_request_id: manager.boolean("preserve_external_request_id"),
        request_id_in_response: manager.boolean("always_set_request_id_in_response"),
        idle_timeout,
        stream_idle_timeout: timeout(&manager, "stream_idle_timeout", seconds(300)),
        request_timeout: timeout(&manager, "request_timeout", Duration::ZERO),
        headers_timeout: timeout(&manager, "request_headers_timeout", Duration::ZERO),
        max_head: usize::try_from(kilobytes).unwrap_or(60) * 1024,
        max_fields: max_fields.map_or(100, |count| usize::try_from(count.clamp(1, 1000)).unwrap_or(100)),
        max_requests: max_requests.filter(|count| *count > 0),
        upgrades: read_upgrades(&manager),
        normalization: read_normalization(&manager),
    };
    manager.finish();
    Some(config)
}
