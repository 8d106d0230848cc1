//! The filter `envoy.filters.http.ext_authz`: `ExtAuthz` and `ExtAuthzPerRoute`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::grpc_service::{self, GrpcServiceConfig};
use super::reader::{Fields, Message, Value};
use super::status;

static EXT_AUTHZ: Message = Message {
    name: "ExtAuthz",
    unsupported: &[
        "http_service",
        "filter_enabled",
        "filter_enabled_metadata",
        "deny_at_disable",
        "include_peer_certificate",
        "metadata_context_namespaces",
        "typed_metadata_context_namespaces",
        "route_metadata_context_namespaces",
        "route_typed_metadata_context_namespaces",
        "bootstrap_metadata_labels_key",
        "allowed_headers",
        "disallowed_headers",
        "encode_raw_headers",
        "decoder_header_mutation_rules",
        "enable_dynamic_metadata_ingestion",
        "filter_metadata",
        "emit_filter_state_stats",
        "max_denied_response_body_bytes",
        "enforce_response_header_limits",
        "validate_mutations",
    ],
};
static BODY: Message = Message { name: "BufferSettings", unsupported: &[] };
static PER_ROUTE: Message = Message { name: "ExtAuthzPerRoute", unsupported: &[] };
static SETTINGS: Message =
    Message { name: "CheckSettings", unsupported: &["with_request_body", "grpc_service", "http_service"] };

/// The time limit of a call without one of its own.
const TIMEOUT: Duration = Duration::from_millis(200);
/// Most bytes of a body that can be told: they are in memory twice while a call lasts.
const MAX_BODY: u64 = 64 << 20;

/// Configuration of the filter.
#[derive(Debug, Clone)]
pub struct ExtAuthzConfig {
    /// The service.
    pub service: GrpcServiceConfig,
    /// The time limit of a call; `None` for no limit.
    pub timeout: Option<Duration>,
    /// Whether requests pass while the service does not answer.
    pub failure_mode_allow: bool,
    /// Whether such requests say so in a header.
    pub failure_mode_allow_header: bool,
    /// The status of requests that do not.
    pub status_on_error: u16,
    /// Whether the service is told the body.
    pub body: Option<BodyConfig>,
    /// Whether a route is chosen again for a request that the service has changed.
    pub clear_route_cache: bool,
    /// Whether the server name that the client asked for is told.
    pub include_tls_session: bool,
    /// Whether refusals count among the responses of the cluster.
    pub charges_cluster: bool,
    /// What stands between `ext_authz.` and the names of statistics.
    pub stat_prefix: String,
}

/// How much of the body of a request is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyConfig {
    /// Bytes.
    pub max: usize,
    /// Whether of a longer body the beginning is told; otherwise the request is refused.
    pub allow_partial: bool,
    /// Whether it is told as bytes and not as text.
    pub as_bytes: bool,
}

/// What a route says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtAuthzRoute {
    /// Whether its requests pass without a call.
    pub disabled: bool,
    /// Whether the body is not told.
    pub without_body: bool,
    /// What the service is told.
    pub context_extensions: BTreeMap<String, String>,
}

/// Reads the filter.
pub(super) fn read(value: &Value<'_>) -> Option<ExtAuthzConfig> {
    let config = value.message(&EXT_AUTHZ)?;
    let service = match config.value.node.get("http_service").or_else(|| config.value.node.get("httpService"))
    {
        Some(_) => None,
        None => grpc_service::read(&config, "ExtAuthz"),
    };
    grpc_service::read_version(&config);
    let timeout = service.as_ref().and_then(|service| service.timeout).unwrap_or(TIMEOUT);
    let body = config.get("with_request_body").and_then(|body| read_body(&body));
    let status_on_error = status::read(&config, "status_on_error").unwrap_or(403);
    let flag = |name: &str| config.boolean(name);
    let [failure_mode_allow, failure_mode_allow_header, clear_route_cache, include_tls_session] =
        ["failure_mode_allow", "failure_mode_allow_header_add", "clear_route_cache", "include_tls_session"]
            .map(flag);
    let charges_cluster = is_unless_false(&config, "charge_cluster_response_stats");
    let stat_prefix = config.text("stat_prefix").unwrap_or_default().to_owned();
    config.finish();
    service.map(|service| ExtAuthzConfig {
        service,
        timeout: Some(timeout).filter(|timeout| !timeout.is_zero()),
        failure_mode_allow,
        failure_mode_allow_header,
        status_on_error,
        body,
        clear_route_cache,
        include_tls_session,
        charges_cluster,
        stat_prefix,
    })
}

/// A Boolean that is true unless it says otherwise.
fn is_unless_false(holder: &Fields<'_>, name: &str) -> bool {
    holder.get(name).is_none_or(|value| value.boolean() != Some(false))
}

fn read_body(value: &Value<'_>) -> Option<BodyConfig> {
    let body = value.message(&BODY)?;
    let max = match body.get("max_request_bytes") {
        Some(max) => max.number(MAX_BODY).filter(|max| *max > 0),
        None => None,
    };
    if max.is_none() {
        body.required("BufferSettingsValidationError.MaxRequestBytes: value must be greater than 0");
    }
    let read = BodyConfig {
        max: usize::try_from(max.unwrap_or(0)).unwrap_or(0),
        allow_partial: body.boolean("allow_partial_message"),
        as_bytes: body.boolean("pack_as_bytes"),
    };
    body.finish();
    max.map(|_| read)
}

/// Reads what a route says.
pub(super) fn per_route(value: &Value<'_>) -> Option<ExtAuthzRoute> {
    let config = value.message(&PER_ROUTE)?;
    let mut route = ExtAuthzRoute::default();
    match config.one_of(&["disabled", "check_settings"]) {
        Some(("disabled", value)) => match value.boolean() {
            Some(true) => route.disabled = true,
            _ => value.invalid("ExtAuthzPerRouteValidationError.Disabled: value must equal true"),
        },
        Some((_, value)) => {
            if let Some(settings) = value.message(&SETTINGS) {
                route.without_body = settings.boolean("disable_request_body_buffering");
                for (name, value) in
                    settings.get("context_extensions").map(|map| map.entries()).unwrap_or_default()
                {
                    route.context_extensions.extend(value.text().map(|text| (name, text.to_owned())));
                }
                settings.finish();
            }
        }
        None => config.required("ExtAuthzPerRouteValidationError: field: \"override\", reason: is required"),
    }
    config.finish();
    Some(route)
}

impl ExtAuthzRoute {
    /// What several levels say, the most specific one first: its settings, and the extensions of all.
    pub(super) fn merged<'l>(levels: impl Iterator<Item = &'l ExtAuthzRoute>) -> Option<Self> {
        let mut merged: Option<Self> = None;
        for level in levels {
            match &mut merged {
                None => merged = Some(level.clone()),
                Some(merged) => {
                    for (name, value) in &level.context_extensions {
                        merged.context_extensions.entry(name.clone()).or_insert_with(|| value.clone());
                    }
                }
            }
        }
        merged
    }
}
