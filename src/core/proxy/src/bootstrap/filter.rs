//! The HTTP filters of a connection manager, and what routes say of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use mixer_config::Node;

use super::ext_authz::{self, ExtAuthzConfig, ExtAuthzRoute};
use super::mixer::{self, MixerConfig, ServiceConfig};
use super::rate_limit::{self, RateLimitConfig, RateLimitRoute};
use super::reader::{Fields, Message, Value, name_of_type, type_of, unknown_type};
use super::table::{Action, RouteTableConfig};

static HTTP_FILTER: Message =
    Message { name: "HttpFilter", unsupported: &["config_discovery", "is_optional", "disabled"] };
static ROUTER: Message = Message {
    name: "Router",
    unsupported: &[
        "dynamic_stats",
        "start_child_span",
        "upstream_log",
        "upstream_log_options",
        "strict_check_headers",
        "respect_expected_rq_timeout",
        "suppress_grpc_request_failure_code_stats",
        "upstream_http_filters",
        "suppress_envoy_headers",
        "reject_connect_request_early_data",
    ],
};

const EXT_AUTHZ: &str = "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz";
const EXT_AUTHZ_ROUTE: &str = "envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute";

const RATE_LIMIT: &str = "envoy.extensions.filters.http.ratelimit.v3.RateLimit";
const RATE_LIMIT_ROUTE: &str = "envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute";

/// A filter and its name, by which routes configure it.
#[derive(Debug, Clone)]
pub struct HttpFilterConfig {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: FilterKind,
}

/// What a filter does.
#[derive(Debug, Clone)]
pub enum FilterKind {
    /// Asks Mixer, and reports to it.
    Mixer(MixerConfig),
    /// Asks a server of external authorization.
    ExtAuthz(ExtAuthzConfig),
    /// Asks a server of rate limits.
    RateLimit(RateLimitConfig),
}

/// What a route, a virtual host, a cluster of a route or a route table says of a filter.
#[derive(Debug, Clone)]
pub enum RouteFilter {
    /// The service of requests.
    Mixer(Arc<ServiceConfig>),
    /// Whether and how requests are checked.
    ExtAuthz(Arc<ExtAuthzRoute>),
    /// Which limits hold.
    RateLimit(Arc<RateLimitRoute>),
}

/// Configuration of filters by their names.
pub type PerFilter = BTreeMap<String, RouteFilter>;

impl FilterKind {
    /// Clusters that it calls, with what they are for.
    pub(super) fn clusters(&self) -> Vec<(&'static str, &str)> {
        match self {
            FilterKind::Mixer(mixer) => mixer.transport.clusters().to_vec(),
            FilterKind::RateLimit(filter) => vec![("cluster_name", &filter.service.cluster)],
            FilterKind::ExtAuthz(filter) => vec![("cluster_name", &filter.service.cluster)],
        }
    }

    /// What several levels, the most specific one first, say of it.
    pub(crate) fn resolve<'l>(&self, levels: impl Iterator<Item = &'l RouteFilter>) -> Option<RouteFilter> {
        match self {
            FilterKind::RateLimit(_) => {
                let mut own = levels.filter(|level| matches!(level, RouteFilter::RateLimit(_)));
                own.next().cloned()
            }
            FilterKind::Mixer(_) => {
                let mut own = levels.filter(|level| matches!(level, RouteFilter::Mixer(_)));
                own.next().cloned()
            }
            FilterKind::ExtAuthz(_) => {
                let own = levels.filter_map(|level| match level {
                    RouteFilter::ExtAuthz(route) => Some(&**route),
                    _ => None,
                });
                ExtAuthzRoute::merged(own).map(|route| RouteFilter::ExtAuthz(Arc::new(route)))
            }
        }
    }
}

/// Reads the filters before the router, which is the last.
pub(super) fn read(manager: &Fields<'_>, routes: Option<&RouteTableConfig>) -> Vec<HttpFilterConfig> {
    let filters = manager.items("http_filters");
    let mut routers: Vec<&Value<'_>> = Vec::new();
    let mut found: Vec<HttpFilterConfig> = Vec::new();
    let mut places: Vec<&Value<'_>> = Vec::new();
    for item in &filters {
        let Some(filter) = item.message(&HTTP_FILTER) else { continue };
        let name = filter.text("name").unwrap_or_default().to_owned();
        let kind = match name.as_str() {
            "mixer" => {
                places.push(item);
                if found.iter().any(|other| matches!(other.kind, FilterKind::Mixer(_))) {
                    item.unsupported("a second filter `mixer`");
                }
                mixer::http(&filter).map(FilterKind::Mixer)
            }
            _ => read_typed(&filter, &name, item, &mut routers),
        };
        if kind.is_some() && !routers.is_empty() {
            item.invalid(format!(
                "the filter `{name}` stands behind the router, which must be the last filter"
            ));
        }
        found.extend(kind.map(|kind| HttpFilterConfig { name, kind }));
        filter.finish();
    }
    if routers.is_empty() {
        manager.required(
            "`http_filters` ends with no envoy.filters.http.router: no request would ever be answered",
        );
    }
    if let [first, _, ..] = routers[..] {
        let router = "envoy.filters.http.router";
        first.invalid(format!(
            "Error: terminal filter named {router} of type {router} must be the last filter in a http filter chain."
        ));
    }
    for filter in &found {
        if let (FilterKind::Mixer(config), Some(place)) = (&filter.kind, places.first()) {
            warn_if_unused(place, config, routes);
        }
    }
    found
}

/// What the levels of a route table say of filters.
fn levels(table: &RouteTableConfig) -> impl Iterator<Item = &PerFilter> {
    let levels = table.hosts.iter().flat_map(|host| {
        let routes = host.routes.iter().flat_map(|route| {
            let clusters = match &route.action {
                Action::Route(action) => action.clusters.as_slice(),
                _ => &[],
            };
            clusters.iter().map(|cluster| &cluster.filters).chain([&route.filters])
        });
        routes.chain([&host.filters])
    });
    levels.chain([&table.filters])
}

/// Warns of a filter that checks and reports nothing, because no request has a service.
fn warn_if_unused(filter: &Value<'_>, config: &MixerConfig, routes: Option<&RouteTableConfig>) {
    let own = routes.into_iter().flat_map(levels).flat_map(BTreeMap::values);
    let has_own = own.into_iter().any(|own| matches!(own, RouteFilter::Mixer(_)));
    if config.default_service.is_empty() && !has_own {
        filter.warn(
            "the filter `mixer` checks and reports nothing: there is neither a default_destination_service nor a service of a route",
        );
    }
}

/// Reads a filter by the type of its configuration; notes routers.
fn read_typed<'v, 'd>(
    filter: &Fields<'d>,
    name: &str,
    item: &'v Value<'d>,
    routers: &mut Vec<&'v Value<'d>>,
) -> Option<FilterKind> {
    match type_of(filter, name)? {
        ("envoy.extensions.filters.http.router.v3.Router", config) => {
            routers.push(item);
            if let Some(router) = config.message(&ROUTER) {
                router.finish();
            }
            None
        }
        (RATE_LIMIT, config) => rate_limit::read(&config).map(FilterKind::RateLimit),
        (EXT_AUTHZ, config) => ext_authz::read(&config).map(FilterKind::ExtAuthz),
        (other, config) => {
            unknown_type(&config, "HTTP filter", other);
            None
        }
    }
}

/// Reads `typed_per_filter_config`.
pub(super) fn per_filter(holder: &Fields<'_>) -> PerFilter {
    let mut found = PerFilter::new();
    let Some(all) = holder.get("typed_per_filter_config") else { return found };
    for (name, value) in all.entries() {
        let url = value.node.get("@type").and_then(Node::as_str).unwrap_or_default();
        let read = match (name.as_str(), name_of_type(url)) {
            ("mixer", _) => mixer::per_route(&value).map(|service| RouteFilter::Mixer(Arc::new(service))),
            (_, EXT_AUTHZ_ROUTE) => {
                ext_authz::per_route(&value).map(|route| RouteFilter::ExtAuthz(Arc::new(route)))
            }
            (_, RATE_LIMIT_ROUTE) => {
                rate_limit::per_route(&value).map(|route| RouteFilter::RateLimit(Arc::new(route)))
            }
            (_, "") => {
                value.unsupported(&format!("typed_per_filter_config of the filter {name}"));
                None
            }
            (_, kind) => {
                value.unsupported(&format!("typed_per_filter_config of the filter {name} with {kind}"));
                None
            }
        };
        found.extend(read.map(|read| (name, read)));
    }
    found
}

/// Reports configuration of filters that are not there: it would have no effect. That of Mixer may be there for others that read the routes.
pub(super) fn check_routes(manager: &Fields<'_>, filters: &[HttpFilterConfig], table: &RouteTableConfig) {
    for (name, own) in levels(table).flatten() {
        let is_there = filters
            .iter()
            .any(|filter| filter.name == *name && filter.kind.resolve(std::iter::once(own)).is_some());
        if !is_there && !matches!(own, RouteFilter::Mixer(_)) {
            manager.required(format!(
                "typed_per_filter_config names the filter `{name}`, which is not among `http_filters` with a configuration of this type"
            ));
        }
    }
}
