//! The configuration of the Mixer filters: `HttpClientConfig`, `TcpClientConfig` and `ServiceConfig` of `istio.mixer.v1.config.client`.
//!
//! Accepted as `typed_config` with the type of the message, as a `TypedStruct`, and as the older `config`, there also within `{v2: …}`. Within
//! `{v2: …}` unknown fields are warnings, because Istio's filter ignored them.

mod attributes;
mod spec;
#[cfg(test)]
mod tests;
mod uri_template;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mixer_attribute::OwnedAttributes;
use mixer_config::{Node, NodeKind};

use super::reader::{Fields, Message, Place, Value};
pub use spec::{ApiKey, ApiPattern, ApiSpec, Clause, QuotaRule, UriPattern};
pub use uri_template::UriTemplate;

/// The package of the messages.
const PACKAGE: &str = "istio.mixer.v1.config.client.";

static HTTP: Message = Message { name: "HttpClientConfig", unsupported: &[] };
static TCP: Message = Message { name: "TcpClientConfig", unsupported: &[] };
static SERVICE: Message = Message { name: "ServiceConfig", unsupported: &[] };
static TRANSPORT: Message = Message { name: "TransportConfig", unsupported: &[] };
static POLICY: Message = Message { name: "NetworkFailPolicy", unsupported: &[] };

/// What a filter does while no Mixer answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailPolicy {
    /// Whether requests pass.
    pub opens: bool,
    /// Retries of a call.
    pub max_retry: u32,
    /// The first pause before a retry, and the longest.
    pub wait: (Duration, Duration),
}

/// How a filter reaches Mixer.
#[derive(Debug, Clone)]
pub struct TransportConfig {
    /// Whether answers of checks are cached.
    pub check_cache: bool,
    /// Whether amounts of quotas are fetched ahead.
    pub quota_cache: bool,
    /// Reports of a call.
    pub batch_entries: usize,
    /// Time after the first report of a call.
    pub batch_time: Duration,
    /// What happens while no Mixer answers.
    pub fail_policy: FailPolicy,
    /// The cluster for checks.
    pub check_cluster: String,
    /// The cluster for reports.
    pub report_cluster: String,
    /// Where these clusters are named, or would be.
    places: [Place; 2],
}

impl TransportConfig {
    /// Where `check_cluster` or `report_cluster` is named.
    pub(super) fn place_of(&self, field: &str) -> &Place {
        let [check, report] = &self.places;
        if field == "check_cluster" { check } else { report }
    }
}

/// What the attributes that a proxy before this one tells, in `x-istio-attributes`, are worth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Told {
    /// They are taken where neither the configuration nor a certificate says anything else.
    #[default]
    Completes,
    /// They override everything, as in Istio: `forwarded_attributes_override`.
    Overrides,
    /// They are not taken: `ignore_forwarded_attributes`.
    Ignored,
}

impl TransportConfig {
    /// The clusters that are called, by the fields that name them.
    pub(super) fn clusters(&self) -> [(&'static str, &str); 2] {
        [("check_cluster", &self.check_cluster), ("report_cluster", &self.report_cluster)]
    }
}

/// What is checked and reported of the requests to a service.
#[derive(Debug, Clone, Default)]
pub struct ServiceConfig {
    /// Whether requests are checked.
    pub checks: bool,
    /// Whether requests are reported.
    pub reports: bool,
    /// Attributes of every request.
    pub attributes: OwnedAttributes,
    /// Attributes that the next proxy is told.
    pub forward: OwnedAttributes,
    /// Attributes by method and path, and where API keys are.
    pub api: ApiSpec,
    /// Which requests are charged to which quotas.
    pub quotas: Vec<QuotaRule>,
}

/// Configuration of the HTTP filter `mixer`.
#[derive(Debug, Clone)]
pub struct MixerConfig {
    /// How it reaches Mixer.
    pub transport: TransportConfig,
    /// Services by name.
    pub services: BTreeMap<String, Arc<ServiceConfig>>,
    /// The service of requests to routes without a service of their own.
    pub default_service: String,
    /// Attributes of every request.
    pub attributes: OwnedAttributes,
    /// Attributes that the next proxy is told.
    pub forward: OwnedAttributes,
    /// What attributes that a proxy before this one tells are worth.
    pub told: Told,
}

/// Configuration of the network filter `mixer`.
#[derive(Debug, Clone)]
pub struct TcpMixerConfig {
    /// How it reaches Mixer.
    pub transport: TransportConfig,
    /// Attributes of every connection.
    pub attributes: OwnedAttributes,
    /// Whether connections are checked.
    pub checks: bool,
    /// Whether connections are reported.
    pub reports: bool,
    /// Which connections are charged to which quotas.
    pub quotas: Vec<QuotaRule>,
    /// Time between reports of an open connection.
    pub report_interval: Duration,
}

/// Reads the HTTP filter.
pub(super) fn http(filter: &Fields<'_>) -> Option<MixerConfig> {
    read_any(filter, "HttpClientConfig", |value| {
        let config = value.message(&HTTP)?;
        let mut services = BTreeMap::new();
        if let Some(all) = config.get("service_configs") {
            for (name, value) in all.entries() {
                services.extend(service(&value).map(|service| (name, Arc::new(service))));
            }
        }
        let default = config.get("default_destination_service");
        let default_service = default.as_ref().and_then(Value::text).unwrap_or_default().to_owned();
        if let Some(default) = default
            && !default_service.is_empty()
            && !config.value.node.entries().iter().any(|entry| {
                matches!(&*entry.key, "service_configs" | "serviceConfigs")
                    && entry.value.get(&default_service).is_some()
            })
        {
            let known: Vec<&str> = services.keys().map(String::as_str).collect();
            default.invalid(match known.join(", ").as_str() {
                "" => format!("service_configs has no service `{default_service}`: nothing would be checked"),
                known => format!(
                    "service_configs has no service `{default_service}`, but {known}: nothing would be checked"
                ),
            });
        }
        let told = match (
            config.boolean("forwarded_attributes_override"),
            config.boolean("ignore_forwarded_attributes"),
        ) {
            (true, true) => {
                config.required("forwarded_attributes_override excludes ignore_forwarded_attributes");
                Told::Ignored
            }
            (true, false) => Told::Overrides,
            (false, true) => Told::Ignored,
            (false, false) => Told::Completes,
        };
        let read = MixerConfig {
            transport: transport(&config),
            services,
            default_service,
            attributes: attributes::of(&config, "mixer_attributes"),
            forward: attributes::of(&config, "forward_attributes"),
            told,
        };
        config.finish();
        Some(read)
    })
}

/// Reads the network filter.
pub(super) fn tcp(filter: &Fields<'_>) -> Option<TcpMixerConfig> {
    read_any(filter, "TcpClientConfig", |value| {
        let config = value.message(&TCP)?;
        let seconds = Duration::from_secs;
        let interval = match config.get("report_interval") {
            None => seconds(10),
            Some(value) if is_negative(&value) => seconds(10),
            Some(value) => value.duration().unwrap_or(seconds(10)).max(seconds(1)),
        };
        let read = TcpMixerConfig {
            transport: transport(&config),
            attributes: attributes::of(&config, "mixer_attributes"),
            checks: !config.boolean("disable_check_calls"),
            reports: !config.boolean("disable_report_calls"),
            quotas: config.get("connection_quota_spec").map(|spec| spec::quotas(&spec)).unwrap_or_default(),
            report_interval: interval,
        };
        config.finish();
        Some(read)
    })
}

/// Reads what a route says.
pub(super) fn per_route(value: &Value<'_>) -> Option<ServiceConfig> {
    service(&unwrapped(value, "ServiceConfig")?)
}

/// Reads the configuration of a filter in one of the accepted forms.
fn read_any<T>(filter: &Fields<'_>, message: &str, read: impl FnOnce(&Value<'_>) -> Option<T>) -> Option<T> {
    match filter.one_of(&["typed_config", "config"]) {
        Some(("typed_config", value)) => read(&unwrapped(&value, message)?),
        Some((_, value)) => {
            let wrapped = ["v2", "v1"].into_iter().find_map(|name| Some((name, value.node.get(name)?)));
            let Some((name, node)) = wrapped else { return read(&value) };
            let inner = Value { node, path: value.path.field(name), ..value.clone() };
            let before = value.document.count();
            let config = read(&inner);
            value.document.forgive_unknown_fields(before);
            config
        }
        None => {
            filter.required(format!("the filter `mixer` needs typed_config with {PACKAGE}{message}"));
            None
        }
    }
}

/// The message of a typed configuration, also if it is in a `TypedStruct`.
fn unwrapped<'d>(value: &Value<'d>, message: &str) -> Option<Value<'d>> {
    let is_it =
        |url: &str| url.rsplit('/').next().and_then(|name| name.strip_prefix(PACKAGE)) == Some(message);
    let url = value.node.get("@type").and_then(Node::as_str).unwrap_or_default();
    if is_it(url) {
        return Some(value.clone());
    }
    if url.ends_with(".TypedStruct") {
        let inner = value.node.get("type_url").or_else(|| value.node.get("typeUrl"));
        if inner.and_then(Node::as_str).is_some_and(is_it) {
            let node = value.node.get("value");
            if node.is_none() {
                value.invalid("a TypedStruct without `value`");
            }
            return Some(Value { node: node?, path: value.path.field("value"), ..value.clone() });
        }
    }
    value.invalid(format!("expected the @type type.googleapis.com/{PACKAGE}{message}, found '{url}'"));
    None
}

fn service(value: &Value<'_>) -> Option<ServiceConfig> {
    let service = value.message(&SERVICE)?;
    // Istio's client does not use it either.
    service.ignore(&["network_fail_policy"]);
    let mut api = ApiSpec::default();
    for value in service.items("http_api_spec") {
        spec::api(&value, &mut api);
    }
    let quotas = service.items("quota_spec");
    let read = ServiceConfig {
        checks: !service.boolean("disable_check_calls"),
        reports: !service.boolean("disable_report_calls"),
        attributes: attributes::of(&service, "mixer_attributes"),
        forward: attributes::of(&service, "forward_attributes"),
        api,
        quotas: quotas.iter().flat_map(spec::quotas).collect(),
    };
    service.finish();
    Some(read)
}

fn transport(config: &Fields<'_>) -> TransportConfig {
    let fields = config.message("transport", &TRANSPORT);
    let transport = fields.as_ref();
    let boolean = |name: &str| transport.is_some_and(|transport| transport.boolean(name));
    let cluster = |name: &str| {
        let named = transport.and_then(|transport| transport.text(name)).filter(|name| !name.is_empty());
        named.unwrap_or("mixer_server").to_owned()
    };
    let place = |name: &str| match transport {
        Some(transport) => {
            let node = transport.get(name).map_or(transport.value.node, |value| value.node);
            Place::new(transport.value.path.field(name), node.span)
        }
        None => Place::new(config.value.path.field("transport").field(name), config.value.node.span),
    };
    let entries = transport.and_then(|t| t.get("report_batch_max_entries")?.u32()).filter(|max| *max > 0);
    let time = transport.and_then(|t| t.duration("report_batch_max_time")).filter(|max| !max.is_zero());
    let batches = !boolean("disable_report_batch");
    let read = TransportConfig {
        check_cache: !boolean("disable_check_cache"),
        quota_cache: !boolean("disable_quota_cache"),
        batch_entries: match batches {
            true => entries.map_or(100, |max| usize::try_from(max).unwrap_or(usize::MAX)),
            false => 1,
        },
        batch_time: time.unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(86_400)),
        fail_policy: fail_policy(config, transport),
        check_cluster: cluster("check_cluster"),
        report_cluster: cluster("report_cluster"),
        places: [place("check_cluster"), place("report_cluster")],
    };
    if let Some(fields) = fields {
        // Statistics are always current; what Mixer is told of the proxy is the identity of its node.
        fields.ignore(&["stats_update_interval", "attributes_for_mixer_proxy"]);
        fields.finish();
    }
    read
}

fn fail_policy(config: &Fields<'_>, transport: Option<&Fields<'_>>) -> FailPolicy {
    let mut policy = FailPolicy {
        opens: true,
        max_retry: 0,
        wait: (Duration::from_millis(80), Duration::from_millis(1000)),
    };
    let warn = |field: &str| {
        config.value.warn(format!(
            "transport.{field} is not set: requests pass unchecked while no Mixer answers (FAIL_OPEN, Istio's default)",
        ));
    };
    let Some(fields) = transport.and_then(|transport| transport.message("network_fail_policy", &POLICY))
    else {
        warn("network_fail_policy");
        return policy;
    };
    match fields.get("policy") {
        // A value that is not understood is an error, and must not open.
        Some(value) => policy.opens = value.choice(&[("FAIL_OPEN", 0), ("FAIL_CLOSE", 1)]) == Some(0),
        None => warn("network_fail_policy.policy"),
    }
    policy.max_retry = fields.get("max_retry").and_then(|value| value.u32()).unwrap_or(0);
    let wait = |name: &str, default| fields.duration(name).filter(|wait| !wait.is_zero()).unwrap_or(default);
    policy.wait = (wait("base_retry_wait", policy.wait.0), wait("max_retry_wait", policy.wait.1));
    if policy.wait.0 > policy.wait.1 {
        fields.required("base_retry_wait must not exceed max_retry_wait");
    }
    fields.finish();
    policy
}

fn is_negative(value: &Value<'_>) -> bool {
    matches!(&value.node.kind, NodeKind::String(text) if text.starts_with('-'))
}
