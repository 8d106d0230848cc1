//! The bootstrap: from YAML or JSON with positions to typed configuration.
//!
//! What Envoy accepts and this version does not is refused by name, path and line; nothing is ignored but what docs/proxy.md lists.
//! Messages name the innermost message and field as Envoy's validation does.

mod access_log;
mod address;
mod chain;
mod cluster;
mod discovery;
mod ext_authz;
mod filter;
mod fingerprint;
mod grpc_service;
mod hash;
mod health;
mod http2;
mod listener;
mod listener_filter;
mod log_stream;
mod manager;
mod matching;
mod mirror;
mod mixer;
mod outlier;
mod pattern;
mod rate_limit;
mod reader;
mod route;
mod secrets;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod tls;
mod udp;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use mixer_config::yaml::{self, Note};
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Node, NodeKind, Severity, Span};

pub use access_log::AccessLogConfig;
pub use address::HostPort;
pub use chain::{ChainMatch, FilterChainConfig, Range, SourceType};
#[cfg(test)]
pub(crate) use cluster::RING_SIZES;
pub use cluster::{ClusterConfig, Discovery, Family, Policy, Thresholds};
pub use discovery::{ListenerResource, ListenerUpdate, read_listeners};
pub use ext_authz::{BodyConfig, ExtAuthzConfig, ExtAuthzRoute};
pub use filter::{FilterKind, HttpFilterConfig, PerFilter, RouteFilter};
pub use fingerprint::Fingerprint;
pub use grpc_service::GrpcServiceConfig;
pub use hash::HashPolicy;
pub use health::{CheckKind, GrpcCheck, HealthCheckConfig, HttpCheck, TcpCheck};
pub use http2::{Codec, Http2Options};
pub use listener::{ListenerConfig, NetworkFilter, TcpProxyConfig};
pub use listener_filter::ListenerFilter;
pub use log_stream::LogStreamConfig;
pub use manager::{EscapedSlashes, ManagerConfig, Normalization, StripPort};
pub use matching::{HeaderMatch, HeaderTest, MatchConfig, PathMatch, TextTest};
pub use mirror::{MirrorCluster, MirrorConfig};
pub use mixer::{
    ApiKey, ApiPattern, ApiSpec, Clause, FailPolicy, MixerConfig, QuotaRule, ServiceConfig, TcpMixerConfig,
    Told, TransportConfig, UriPattern, UriTemplate,
};
pub use outlier::OutlierConfig;
pub use pattern::BytePattern;
pub use rate_limit::{HostLimits, LimitAction, LimitConfig, RateLimitConfig, RateLimitRoute};
pub use table::{
    Action, Addition, AdditionMode, Edits, HostConfig, Redirect, RetryConfig, RetryOn, RouteAction,
    RouteConfig, RouteTableConfig, WeightedCluster,
};
pub(crate) use udp::NEEDS_REUSE_PORT;
pub use udp::{UdpHash, UdpListenerConfig, UdpProxyConfig};

use reader::{Document, Message, Value};

static BOOTSTRAP: Message = Message {
    name: "Bootstrap",
    unsupported: &[
        "node_context_params",
        "cluster_manager",
        "hds_config",
        "flags_path",
        "stats_sinks",
        "deferred_stat_options",
        "stats_flush_on_admin",
        "watchdog",
        "watchdogs",
        "tracing",
        "layered_runtime",
        "overload_manager",
        "enable_dispatcher_stats",
        "header_prefix",
        "stats_server_version_override",
        "use_tcp_for_dns_lookups",
        "dns_resolution_config",
        "typed_dns_resolver_config",
        "bootstrap_extensions",
        "fatal_actions",
        "config_sources",
        "default_config_source",
        "default_socket_interface",
        "certificate_provider_instances",
        "inline_headers",
        "perf_tracing_file_path",
        "default_regex_engine",
        "xds_delegate_extension",
        "xds_config_tracker_extension",
        "listener_manager",
        "application_log_config",
        "grpc_async_client_manager_config",
        "memory_allocator_manager",
    ],
};
static STATIC: Message = Message { name: "StaticResources", unsupported: &["secrets"] };
static ADMIN: Message = Message {
    name: "Admin",
    unsupported: &[
        "access_log",
        "access_log_path",
        "socket_options",
        "ignore_global_conn_limit",
        "allow_paths",
        "allow_list",
    ],
};

/// A valid bootstrap.
#[derive(Debug, Clone, Default)]
pub struct Bootstrap {
    /// `node.id`.
    pub node_id: String,
    /// `node.cluster`.
    pub node_cluster: String,
    /// `NODE_UID` and `NODE_NAMESPACE` of `node.metadata`, for the Mixer filters.
    pub node_identity: (Option<String>, Option<String>),
    /// Where the admin interface listens; `None` for no admin interface.
    pub admin: Option<SocketAddr>,
    /// Names in lower case that the admin interface may be asked by, besides `localhost` and IP addresses.
    pub admin_hosts: Vec<String>,
    /// Listeners, in order.
    pub listeners: Vec<ListenerConfig>,
    /// The file of further listeners, which is followed.
    pub listener_file: Option<std::path::PathBuf>,
    /// Clusters, in order.
    pub clusters: Vec<ClusterConfig>,
    /// The document, for configuration dumps: without private keys and passwords.
    pub document: serde_json::Value,
}

impl Bootstrap {
    /// What cannot be served by so many workers: every problem with its place in `file`.
    pub fn problems_with(&self, workers: usize, file: &str) -> Diagnostics {
        let refused = self.listeners.iter().filter(|listener| !listener.is_served_by(workers));
        let places = refused.filter_map(|listener| listener.udp.as_ref()?.single_socket.as_ref());
        let problem = |place: &reader::Place| {
            let mut problem = place.error(NEEDS_REUSE_PORT);
            problem.file = Some(file.into());
            problem
        };
        places.map(problem).collect()
    }
}

/// Reads a bootstrap. Warnings come with it.
///
/// Errors: every problem of the text, in document order, each with the file, a position and a path.
pub fn read(text: &str, file: &str) -> Result<(Bootstrap, Diagnostics), Diagnostics> {
    let file: Arc<str> = file.into();
    let parsed = yaml::parse(text).map_err(|error| {
        let mut problem = Diagnostic::error("yaml-syntax", FieldPath::root(), error.cause());
        problem.file = Some(Arc::clone(&file));
        problem.span = error.location.map(|at| Span { start: at, end: at });
        vec![secrets::cleaned(problem)]
    })?;
    let document = Document::new(text);
    for note in &parsed.notes {
        report_note(&document, note);
    }
    document.report_keys(&parsed.root);
    let bootstrap = match &parsed.root.kind {
        NodeKind::Null => Some(Bootstrap::default()),
        NodeKind::Mapping(_) => read_root(&Value::root(&document, &parsed.root)),
        _ => {
            let shown = parsed.root.as_str().unwrap_or(text.trim());
            Value::root(&document, &parsed.root).invalid(format!("Unable to convert YAML as JSON: {shown}"));
            None
        }
    };
    let mut problems = document.into_problems();
    problems.iter_mut().for_each(|problem| problem.file = Some(Arc::clone(&file)));
    problems.sort_by_key(|problem| problem.span.map(|span| span.start));
    match bootstrap {
        Some(bootstrap) if problems.iter().all(|problem| problem.severity != Severity::Error) => {
            Ok((bootstrap, problems))
        }
        _ => Err(problems),
    }
}

/// Of two values of a key Envoy takes one, whichever its parser prefers.
fn report_note(document: &Document<'_>, note: &Note) {
    let (span, text) = match note {
        Note::DuplicateKey { key, span, .. } => (*span, format!("key `{key}` occurs twice")),
        Note::SeveralDocuments { at } => (
            Span { start: *at, end: *at },
            "something follows the document; a bootstrap is one document".to_owned(),
        ),
        _ => return,
    };
    let mut problem = Diagnostic::error("proxy-invalid", FieldPath::root(), text);
    problem.span = Some(span);
    document.report(problem);
}

fn read_root(value: &Value<'_>) -> Option<Bootstrap> {
    let root = value.message(&BOOTSTRAP)?;
    let mut bootstrap = Bootstrap { document: json(value.node), ..Bootstrap::default() };
    if let Some(node) = root.get("node") {
        let text = |name: &str| {
            node.node.get(name).map(|text| Value { node: text, path: node.path.field(name), ..node.clone() })
        };
        bootstrap.node_id = text("id").and_then(|id| id.text().map(str::to_owned)).unwrap_or_default();
        bootstrap.node_cluster =
            text("cluster").and_then(|id| id.text().map(str::to_owned)).unwrap_or_default();
        let metadata = node.node.get("metadata");
        let of = |name: &str| metadata?.get(name)?.as_str().map(str::to_owned);
        bootstrap.node_identity = (of("NODE_UID"), of("NODE_NAMESPACE"));
    }
    // Statistics are not pushed anywhere, and tags are those of Envoy's defaults.
    root.ignore(&["stats_flush_interval", "stats_config"]);
    if let Some(admin) = root.message("admin", &ADMIN) {
        bootstrap.admin = admin.get("address").and_then(|address| address::read_tcp(&address));
        // Envoy's profiler, which is not here.
        admin.ignore(&["profile_path"]);
        admin.finish();
    }
    if let Some(resources) = root.message("static_resources", &STATIC) {
        read_resources(&resources, &mut bootstrap);
        resources.finish();
    }
    bootstrap.listener_file = discovery::read(&root);
    root.finish();
    Some(bootstrap)
}

/// The clusters that listeners may name.
#[derive(Debug, Clone, Default)]
pub struct KnownClusters {
    names: HashSet<String>,
}

impl KnownClusters {
    /// False if there is one of its name.
    pub fn add(&mut self, cluster: &ClusterConfig) -> bool {
        self.names.insert(cluster.name.clone())
    }
}

fn read_resources(resources: &reader::Fields<'_>, bootstrap: &mut Bootstrap) {
    let mut known = KnownClusters::default();
    for value in resources.items("clusters") {
        let before = value.document.count();
        let Some(cluster) = cluster::read(&value) else {
            refuse_incomplete(&value, before);
            // A cluster with errors still counts as one that routes may name.
            known.names.extend(value.node.get("name").and_then(Node::as_str).map(str::to_owned));
            continue;
        };
        if !known.add(&cluster) {
            value.invalid(format!("cluster manager: duplicate cluster '{}'", cluster.name));
        }
        bootstrap.clusters.push(cluster);
    }
    for value in resources.items("listeners") {
        let before = value.document.count();
        let Some(listener) = listener::read(&value) else {
            refuse_incomplete(&value, before);
            continue;
        };
        check_listener(&value, &listener, &known);
        if bootstrap.listeners.iter().any(|other| other.name == listener.name) {
            value.warn(format!(
                "a listener named `{}` stands before this one, which is ignored",
                listener.name
            ));
            continue;
        }
        if bootstrap.listeners.iter().any(|other| listener.conflicts_with(other)) {
            value.invalid(format!(
                "error adding listener: '{}' has duplicate address '{}' as existing listener, to check if the listener has duplicated addresses with other listeners or 'enable_reuse_port' is set to 'false' for the listener",
                listener.name, listener.address
            ));
        }
        bootstrap.listeners.push(listener);
    }
}

/// Checks that the clusters exist that a listener needs.
fn check_listener(value: &Value<'_>, listener: &ListenerConfig, clusters: &KnownClusters) {
    for chain in listener.all_chains() {
        if let NetworkFilter::Http(manager) = &chain.filter {
            check_clusters(value, &manager.routes, &clusters.names);
        }
        check_called_clusters(value, &chain.filter, &clusters.names);
    }
}

/// Nothing that was not understood is left out silently.
fn refuse_incomplete(value: &Value<'_>, before: usize) {
    if value.document.count() == before {
        value.invalid("something that is required has no value");
    }
}

fn check_clusters(listener: &Value<'_>, table: &RouteTableConfig, known: &HashSet<String>) {
    if !table.validate_clusters {
        return;
    }
    for route in table.hosts.iter().flat_map(|host| &host.routes) {
        let Action::Route(action) = &route.action else { continue };
        let names = action.clusters.iter().map(|cluster| &cluster.name);
        for name in names.filter(|name| !known.contains(*name)) {
            let kind = if action.clusters.len() > 1 { "weighted cluster" } else { "cluster" };
            listener.invalid(format!("route: unknown {kind} '{name}'"));
        }
    }
    let of_routes =
        table.hosts.iter().flat_map(|host| &host.routes).filter_map(|route| match &route.action {
            Action::Route(action) => Some(&action.mirrors),
            Action::Redirect(_) | Action::Direct { .. } => None,
        });
    let of_hosts = table.hosts.iter().map(|host| &host.mirrors);
    for mirror in of_routes.chain(of_hosts).chain([&table.mirrors]).flatten() {
        if let MirrorCluster::Name(name) = &mirror.cluster
            && !known.contains(name)
        {
            listener.invalid(format!("route: unknown shadow cluster '{name}'"));
        }
    }
}

/// A filter that cannot reach what it asks would refuse everything, or nothing.
fn check_called_clusters(listener: &Value<'_>, filter: &NetworkFilter, known: &HashSet<String>) {
    let called: Vec<(&str, &str, &str)> = match filter {
        NetworkFilter::Http(manager) => {
            let others = manager.filters.iter().filter(|filter| !matches!(filter.kind, FilterKind::Mixer(_)));
            let named = others.flat_map(|filter| {
                filter.kind.clusters().into_iter().map(|(field, name)| (filter.name.as_str(), field, name))
            });
            named.collect()
        }
        NetworkFilter::Tcp(_) => Vec::new(),
    };
    let logs = match filter {
        NetworkFilter::Http(manager) => &manager.access_logs,
        NetworkFilter::Tcp(proxy) => &proxy.access_logs,
    };
    for log in logs {
        if let AccessLogConfig::Stream(stream) = log
            && !known.contains(&stream.service.cluster)
        {
            let (log, name) = (&stream.name, &stream.service.cluster);
            listener.invalid(format!("access log {log}: unknown cluster_name '{name}'"));
        }
    }
    for (filter, field, name) in called.into_iter().filter(|(_, _, name)| !known.contains(*name)) {
        listener.invalid(format!("{filter}: unknown {field} '{name}'"));
    }
    let transports: Vec<&TransportConfig> = match filter {
        NetworkFilter::Http(manager) => {
            let mixers = manager.filters.iter().filter_map(|filter| match &filter.kind {
                FilterKind::Mixer(mixer) => Some(&mixer.transport),
                _ => None,
            });
            mixers.collect()
        }
        NetworkFilter::Tcp(proxy) => proxy.mixer.iter().map(|mixer| &mixer.transport).collect(),
    };
    for transport in transports {
        for (field, name) in transport.clusters().into_iter().filter(|(_, name)| !known.contains(*name)) {
            let text = format!("mixer: unknown {field} '{name}'; without the field it is mixer_server");
            listener.document.report(transport.place_of(field).error(text));
        }
    }
}

/// A document as JSON, without secrets.
fn json(node: &Node) -> serde_json::Value {
    match &node.kind {
        NodeKind::Null => serde_json::Value::Null,
        NodeKind::Bool(value) => (*value).into(),
        NodeKind::Int(value) => (*value).into(),
        NodeKind::Float(value) => (*value).into(),
        NodeKind::String(text) => secrets::without_key(text).into(),
        NodeKind::Sequence(items) => items.iter().map(json).collect(),
        NodeKind::Mapping(entries) => {
            let shown = |key: &str, value| {
                if secrets::is_secret(key) { secrets::redacted(value) } else { json(value) }
            };
            entries.iter().map(|entry| (entry.key.to_string(), shown(&entry.key, &entry.value))).collect()
        }
    }
}
