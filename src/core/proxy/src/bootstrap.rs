//! The bootstrap: from YAML or JSON with positions to typed configuration.
//!
//! What Envoy accepts and this version does not is refused by name, path and line; nothing is ignored but what docs/proxy.md lists.
//! Messages name the innermost message and field as Envoy's validation does.

mod access_log;
mod address;
mod chain;
mod cluster;
mod hash;
mod listener;
mod listener_filter;
mod manager;
mod matching;
mod mixer;
mod reader;
mod route;
mod table;
#[cfg(test)]
mod tests;
mod tls;

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
pub use hash::HashPolicy;
pub use listener::{ListenerConfig, NetworkFilter, TcpProxyConfig};
pub use listener_filter::ListenerFilter;
pub use manager::{EscapedSlashes, ManagerConfig, Normalization, StripPort};
pub use matching::{HeaderMatch, HeaderTest, MatchConfig, PathMatch, TextTest};
pub use mixer::{
    ApiKey, ApiPattern, ApiSpec, Clause, FailPolicy, MixerConfig, QuotaRule, ServiceConfig, TcpMixerConfig,
    Told, TransportConfig, UriPattern, UriTemplate,
};
pub use table::{
    Action, Addition, AdditionMode, Edits, HostConfig, Redirect, RetryConfig, RetryOn, RouteAction,
    RouteConfig, RouteTableConfig,
};

use reader::{Document, Message, Value};

static BOOTSTRAP: Message = Message {
    name: "Bootstrap",
    unsupported: &[
        "node_context_params",
        "dynamic_resources",
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
    /// Listeners, in order.
    pub listeners: Vec<ListenerConfig>,
    /// Clusters, in order.
    pub clusters: Vec<ClusterConfig>,
    /// The document, for configuration dumps.
    pub document: serde_json::Value,
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
        vec![problem]
    })?;
    let document = Document::new(text);
    for note in &parsed.notes {
        report_note(&document, note);
    }
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
        bootstrap.admin = admin.get("address").and_then(|address| address::read_literal(&address, ""));
        // Envoy's profiler, which is not here.
        admin.ignore(&["profile_path"]);
        admin.finish();
    }
    if let Some(resources) = root.message("static_resources", &STATIC) {
        read_resources(&resources, &mut bootstrap);
        resources.finish();
    }
    root.finish();
    Some(bootstrap)
}

fn read_resources(resources: &reader::Fields<'_>, bootstrap: &mut Bootstrap) {
    let mut names = HashSet::new();
    for value in resources.items("clusters") {
        let before = value.document.count();
        let Some(cluster) = cluster::read(&value) else {
            refuse_incomplete(&value, before);
            // A cluster with errors still counts as one that routes may name.
            names.extend(value.node.get("name").and_then(Node::as_str).map(str::to_owned));
            continue;
        };
        if !names.insert(cluster.name.clone()) {
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
        for chain in listener.all_chains() {
            if let NetworkFilter::Http(manager) = &chain.filter {
                check_clusters(&value, &manager.routes, &names);
            }
            check_mixer_clusters(value.document, &chain.filter, &names);
        }
        let is_taken =
            |other: &ListenerConfig| other.address == listener.address && listener.address.port() != 0;
        if bootstrap.listeners.iter().any(|other| other.name == listener.name) {
            value.warn(format!(
                "a listener named `{}` stands before this one, which is ignored",
                listener.name
            ));
            continue;
        }
        if bootstrap.listeners.iter().any(is_taken) {
            value.invalid(format!(
                "error adding listener: '{}' has duplicate address '{}' as existing listener, to check if the listener has duplicated addresses with other listeners or 'enable_reuse_port' is set to 'false' for the listener",
                listener.name, listener.address
            ));
        }
        bootstrap.listeners.push(listener);
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
        for (name, _) in action.clusters.iter().filter(|(name, _)| !known.contains(name)) {
            let kind = if action.clusters.len() > 1 { "weighted cluster" } else { "cluster" };
            listener.invalid(format!("route: unknown {kind} '{name}'"));
        }
    }
}

/// A filter that cannot reach Mixer would refuse everything, or nothing.
fn check_mixer_clusters(document: &Document<'_>, filter: &NetworkFilter, known: &HashSet<String>) {
    let transport = match filter {
        NetworkFilter::Http(manager) => manager.mixer.as_ref().map(|mixer| &mixer.transport),
        NetworkFilter::Tcp(proxy) => proxy.mixer.as_ref().map(|mixer| &mixer.transport),
    };
    let Some(transport) = transport else { return };
    let named = [("check_cluster", &transport.check_cluster), ("report_cluster", &transport.report_cluster)];
    for (field, name) in named.into_iter().filter(|(_, name)| !known.contains(*name)) {
        let text = format!("mixer: unknown {field} '{name}'; without the field it is mixer_server");
        transport.place_of(field).report(document, text);
    }
}

/// A document as JSON.
fn json(node: &Node) -> serde_json::Value {
    match &node.kind {
        NodeKind::Null => serde_json::Value::Null,
        NodeKind::Bool(value) => (*value).into(),
        NodeKind::Int(value) => (*value).into(),
        NodeKind::Float(value) => (*value).into(),
        NodeKind::String(text) => (**text).into(),
        NodeKind::Sequence(items) => items.iter().map(json).collect(),
        NodeKind::Mapping(entries) => {
            entries.iter().map(|entry| (entry.key.to_string(), json(&entry.value))).collect()
        }
    }
}
