//! The filter `envoy.filters.http.ratelimit` and the rate limits of routes: `RateLimit`, `RateLimitPerRoute` and `route.v3.RateLimit`.

use std::time::Duration;

use super::grpc_service::{self, GrpcServiceConfig};
use super::matching::{self, HeaderMatch};
use super::reader::{Fields, Message, Value};
use super::status;

static FILTER: Message = Message {
    name: "RateLimit",
    unsupported: &[
        "response_headers_to_add",
        "enable_retry_after_header",
        "filter_enabled",
        "filter_enforced",
        "failure_mode_deny_percent",
        "rate_limits",
        "stat_prefix",
    ],
};
static SERVICE: Message = Message { name: "RateLimitServiceConfig", unsupported: &[] };
static PER_ROUTE: Message =
    Message { name: "RateLimitPerRoute", unsupported: &["override_option", "rate_limits"] };
static LIMIT: Message = Message {
    name: "RateLimit",
    unsupported: &["disable_key", "limit", "hits_addend", "apply_on_stream_done", "x_ratelimit_option"],
};
static ACTION: Message = Message {
    name: "Action",
    unsupported: &[
        "dynamic_metadata",
        "metadata",
        "extension",
        "masked_remote_address",
        "query_parameter_value_match",
        "query_parameters",
        "remote_address_match",
    ],
};
static NOTHING: Message = Message { name: "Action", unsupported: &[] };
static HEADERS: Message = Message { name: "RequestHeaders", unsupported: &[] };
static GENERIC: Message = Message { name: "GenericKey", unsupported: &["default_value"] };
static MATCH: Message = Message { name: "HeaderValueMatch", unsupported: &["default_value"] };

/// The time limit of a call without one of its own.
const TIMEOUT: Duration = Duration::from_millis(20);
/// The highest stage.
const MAX_STAGE: u64 = 10;

/// Configuration of the filter.
#[derive(Debug, Clone)]
pub struct RateLimitConfig {
    /// The service.
    pub service: GrpcServiceConfig,
    /// The time limit of a call; `None` for no limit.
    pub timeout: Option<Duration>,
    /// The domain of descriptors.
    pub domain: String,
    /// Which rate limits of routes it applies.
    pub stage: u32,
    /// Whether requests are refused while the service does not answer.
    pub failure_mode_deny: bool,
    /// The status of such refusals.
    pub status_on_error: u16,
    /// The status of requests over the limit.
    pub limited_status: u16,
    /// Whether calls of gRPC over the limit end with RESOURCE_EXHAUSTED instead of UNAVAILABLE.
    pub resource_exhausted: bool,
    /// Whether responses say what is left of the limits.
    pub tells_limits: bool,
    /// Whether refusals say `x-envoy-ratelimited`.
    pub tells_limited: bool,
}

/// What a route says of the filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RateLimitRoute {
    /// What becomes of the limits of the virtual host.
    pub host: HostLimits,
    /// The domain, if it is another one.
    pub domain: Option<String>,
}

/// What becomes of the rate limits of a virtual host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HostLimits {
    /// They hold if the route has none.
    #[default]
    Override,
    /// They hold as well.
    Include,
    /// They do not hold.
    Ignore,
}

/// A rate limit of a route or virtual host: the descriptor that it makes of a request.
#[derive(Debug, Clone)]
pub struct LimitConfig {
    /// Which filters apply it.
    pub stage: u32,
    /// What the entries come from.
    pub actions: Vec<LimitAction>,
}

/// What an entry of a descriptor comes from.
#[derive(Debug, Clone)]
pub enum LimitAction {
    /// The cluster of the proxy.
    SourceCluster,
    /// The cluster of the route.
    DestinationCluster,
    /// The address of the client.
    RemoteAddress,
    /// A header; without it there is no descriptor, or, if so configured, no entry.
    RequestHeader {
        /// Its name, in lower case.
        header: String,
        /// The key of the entry.
        key: String,
        /// Whether there is a descriptor without the header.
        skip_if_absent: bool,
    },
    /// A key and a value.
    GenericKey(String, String),
    /// A key and a value, if all headers match, or if they do not.
    HeaderValueMatch {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// Whether they must match.
        expected: bool,
        /// The headers.
        headers: Vec<HeaderMatch>,
    },
}

/// Reads the filter.
pub(super) fn read(value: &Value<'_>) -> Option<RateLimitConfig> {
    let config = value.message(&FILTER)?;
    let domain = required_text(&config, "RateLimit", "domain", "Domain");
    if let Some(kind) = config.get("request_type") {
        match kind.text() {
            Some("" | "both") | None => {}
            Some(other @ ("internal" | "external")) => kind.unsupported(&format!("request_type {other}")),
            Some(_) => kind.invalid(
                "RateLimitValidationError.RequestType: value must be in list [internal external both ]",
            ),
        }
    }
    let service = match config.message("rate_limit_service", &SERVICE) {
        Some(service) => {
            let found = grpc_service::read(&service, "RateLimitServiceConfig");
            grpc_service::read_version(&service);
            service.finish();
            found
        }
        None => {
            config.required("RateLimitValidationError.RateLimitService: value is required");
            None
        }
    };
    let timeout = config.duration("timeout").unwrap_or(TIMEOUT);
    let headers = [("OFF", 0), ("DRAFT_VERSION_03", 1)];
    let limited_status = status::read(&config, "rate_limited_status").filter(|status| *status >= 400);
    let status_on_error = status::read(&config, "status_on_error").filter(|status| *status >= 500);
    let tells_limits = config.get("enable_x_ratelimit_headers").and_then(|value| value.choice(&headers));
    let stage = stage(&config);
    let flag = |name: &str| config.boolean(name);
    let [failure_mode_deny, resource_exhausted, hides_limited] =
        ["failure_mode_deny", "rate_limited_as_resource_exhausted", "disable_x_envoy_ratelimited_header"]
            .map(flag);
    config.finish();
    Some(RateLimitConfig {
        service: service?,
        timeout: Some(timeout).filter(|timeout| !timeout.is_zero()),
        domain: domain?,
        stage,
        failure_mode_deny,
        status_on_error: status_on_error.unwrap_or(500),
        limited_status: limited_status.unwrap_or(429),
        resource_exhausted,
        tells_limits: tells_limits == Some(1),
        tells_limited: !hides_limited,
    })
}

fn required_text(holder: &Fields<'_>, message: &str, name: &str, field: &str) -> Option<String> {
    match holder.get(name) {
        Some(value) => value.nonempty(message, field).map(str::to_owned),
        None => {
            holder.required(format!(
                "{message}ValidationError.{field}: value length must be at least 1 characters"
            ));
            None
        }
    }
}

fn stage(holder: &Fields<'_>) -> u32 {
    let stage = holder.get("stage").and_then(|stage| stage.number(MAX_STAGE));
    stage.and_then(|stage| u32::try_from(stage).ok()).unwrap_or(0)
}

/// Reads what a route says of the filter.
pub(super) fn per_route(value: &Value<'_>) -> Option<RateLimitRoute> {
    let config = value.message(&PER_ROUTE)?;
    let options = [("OVERRIDE", 0), ("INCLUDE", 1), ("IGNORE", 2)];
    let host = match config.get("vh_rate_limits").and_then(|value| value.choice(&options)) {
        Some(1) => HostLimits::Include,
        Some(2) => HostLimits::Ignore,
        _ => HostLimits::Override,
    };
    let domain = config.text("domain").filter(|domain| !domain.is_empty()).map(str::to_owned);
    config.finish();
    Some(RateLimitRoute { host, domain })
}

/// Reads the field `rate_limits` of a route or virtual host.
pub(super) fn limits(holder: &Fields<'_>) -> Vec<LimitConfig> {
    holder.items("rate_limits").iter().filter_map(limit).collect()
}

fn limit(value: &Value<'_>) -> Option<LimitConfig> {
    let limit = value.message(&LIMIT)?;
    let items = limit.items("actions");
    if items.is_empty() {
        limit.required("RateLimitValidationError.Actions: value must contain at least 1 item(s)");
    }
    let actions: Vec<_> = items.iter().map(action).collect();
    let stage = stage(&limit);
    limit.finish();
    // A descriptor with fewer entries would be another limit.
    Some(LimitConfig { stage, actions: actions.into_iter().collect::<Option<_>>()? })
}

fn action(value: &Value<'_>) -> Option<LimitAction> {
    let action = value.message(&ACTION)?;
    let kinds = [
        "source_cluster",
        "destination_cluster",
        "remote_address",
        "request_headers",
        "generic_key",
        "header_value_match",
    ];
    let read = match action.one_of(&kinds) {
        Some((name @ ("source_cluster" | "destination_cluster" | "remote_address"), value)) => {
            value.message(&NOTHING).map(|nothing| {
                nothing.finish();
                match name {
                    "source_cluster" => LimitAction::SourceCluster,
                    "destination_cluster" => LimitAction::DestinationCluster,
                    _ => LimitAction::RemoteAddress,
                }
            })
        }
        Some(("request_headers", value)) => request_headers(&value),
        Some(("generic_key", value)) => generic_key(&value),
        Some((_, value)) => header_value_match(&value),
        None => {
            if !ACTION.unsupported.iter().any(|name| action.value.node.get(name).is_some()) {
                action.required("ActionValidationError: field: \"action_specifier\", reason: is required");
            }
            None
        }
    };
    action.finish();
    read
}

fn request_headers(value: &Value<'_>) -> Option<LimitAction> {
    let fields = value.message(&HEADERS)?;
    let header = required_text(&fields, "RequestHeaders", "header_name", "HeaderName");
    let key = required_text(&fields, "RequestHeaders", "descriptor_key", "DescriptorKey");
    let skip_if_absent = fields.boolean("skip_if_absent");
    fields.finish();
    Some(LimitAction::RequestHeader { header: header?.to_ascii_lowercase(), key: key?, skip_if_absent })
}

fn generic_key(value: &Value<'_>) -> Option<LimitAction> {
    let fields = value.message(&GENERIC)?;
    let text = required_text(&fields, "GenericKey", "descriptor_value", "DescriptorValue");
    let key = fields.text("descriptor_key").filter(|key| !key.is_empty()).unwrap_or("generic_key").to_owned();
    fields.finish();
    Some(LimitAction::GenericKey(key, text?))
}

fn header_value_match(value: &Value<'_>) -> Option<LimitAction> {
    let fields = value.message(&MATCH)?;
    let text = required_text(&fields, "HeaderValueMatch", "descriptor_value", "DescriptorValue");
    let key =
        fields.text("descriptor_key").filter(|key| !key.is_empty()).unwrap_or("header_match").to_owned();
    let expected = fields.get("expect_match").is_none_or(|value| value.boolean() != Some(false));
    let items = fields.items("headers");
    if items.is_empty() {
        fields.required("HeaderValueMatchValidationError.Headers: value must contain at least 1 item(s)");
    }
    let headers: Option<Vec<_>> = items.iter().map(matching::read_header).collect();
    fields.finish();
    Some(LimitAction::HeaderValueMatch { key, value: text?, expected, headers: headers? })
}
