//! Listeners and their network filters.

use std::net::SocketAddr;
use std::time::Duration;

use mixer_config::Node;

use super::access_log::{self, AccessLogConfig};
use super::address;
use super::chain::{self, ChainMatch, FilterChainConfig};
use super::fingerprint::Fingerprint;
use super::listener_filter::{self, ListenerFilter};
use super::manager::{self, ManagerConfig};
use super::mixer::{self, TcpMixerConfig};
use super::reader::{Fields, Message, Value, type_of, unknown_type};
use super::tls;
use super::udp::{self, UdpListenerConfig};

static LISTENER: Message = Message {
    name: "Listener",
    unsupported: &[
        "additional_addresses",
        "filter_chain_matcher",
        "use_original_dst",
        "metadata",
        "deprecated_v1",
        "drain_type",
        "transparent",
        "freebind",
        "socket_options",
        "tcp_fast_open_queue_length",
        "udp_listener_config",
        "api_listener",
        "connection_balance_config",
        "reuse_port",
        "access_log",
        "max_connections_to_accept_per_socket_event",
        "bind_to_port",
        "internal_listener",
        "enable_mptcp",
        "ignore_global_conn_limit",
        "bypass_overload_manager",
        "tcp_keepalive",
        "fcds_config",
        "per_connection_buffer_limit_bytes",
    ],
};
static CHAIN: Message = Message { name: "FilterChain", unsupported: &["use_proxy_proto", "metadata"] };
static FILTER: Message = Message { name: "Filter", unsupported: &["config_discovery"] };
static TCP_PROXY: Message = Message {
    name: "TcpProxy",
    unsupported: &[
        "on_demand",
        "metadata_match",
        "downstream_idle_timeout",
        "upstream_idle_timeout",
        "access_log_flush_interval",
        "flush_access_log_on_connected",
        "max_connect_attempts",
        "backoff_options",
        "hash_policy",
        "tunneling_config",
        "max_downstream_connection_duration",
        "max_downstream_connection_duration_jitter_percentage",
        "access_log_options",
        "proxy_protocol_tlvs",
        "proxy_protocol_tlv_merge_policy",
        "upstream_connect_mode",
        "max_early_data_bytes",
    ],
};
static WEIGHTED: Message = Message { name: "WeightedCluster", unsupported: &[] };
static CLUSTER_WEIGHT: Message = Message { name: "ClusterWeight", unsupported: &["metadata_match"] };

/// What validation says of a filter chain that takes nothing.
const NO_INSPECTOR: &str = "no connection takes this filter chain: its match needs `envoy.filters.listener.tls_inspector` among listener_filters";

/// A listener.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// Its name; made up if it has none.
    pub name: String,
    /// Where it listens; port 0 means any free one.
    pub address: SocketAddr,
    /// What stands in the names of its statistics instead of the address.
    pub stat_prefix: Option<String>,
    /// Whether every worker has a socket of its own.
    pub reuse_port: bool,
    /// The backlog of listen(2).
    pub backlog: u32,
    /// Whether its traffic is inbound, for `/drain_listeners?inboundonly`.
    pub inbound: bool,
    /// What looks at connections first.
    pub listener_filters: Vec<ListenerFilter>,
    /// Time limit of that; `None` for no limit.
    pub listener_filters_timeout: Option<Duration>,
    /// Whether a connection is served as far as it is known by then, instead of being closed.
    pub continues_on_timeout: bool,
    /// Of a listener of datagrams; it has neither filter chains nor listener filters of connections.
    pub udp: Option<UdpListenerConfig>,
    /// Filter chains, of which one serves a connection.
    pub chains: Vec<FilterChainConfig>,
    /// Serves connections that no other filter chain takes.
    pub default_chain: Option<FilterChainConfig>,
    /// What was written of it, but for its filter chains.
    pub written: Fingerprint,
    /// As it was written, without keys and passwords: for dumps, and not to be compared.
    pub document: serde_json::Value,
}

impl ListenerConfig {
    /// All filter chains, the default one last.
    pub fn all_chains(&self) -> impl Iterator<Item = &FilterChainConfig> {
        self.chains.iter().chain(&self.default_chain)
    }

    /// Whether it is one of datagrams.
    pub fn is_udp(&self) -> bool {
        self.udp.is_some()
    }

    /// Whether the other one has the same address; port 0 is another one each time.
    pub fn conflicts_with(&self, other: &ListenerConfig) -> bool {
        self.address == other.address && self.is_udp() == other.is_udp() && self.address.port() != 0
    }

    /// Whether so many workers can serve it: with one socket for all, the datagrams of a client would go to any of them.
    pub fn is_served_by(&self, workers: usize) -> bool {
        !self.is_udp() || self.reuse_port || workers <= 1
    }
}

/// The terminal filter of a filter chain.
#[derive(Debug, Clone)]
pub enum NetworkFilter {
    /// Forwards bytes.
    Tcp(TcpProxyConfig),
    /// Forwards requests.
    Http(Box<ManagerConfig>),
}

/// Configuration of `envoy.filters.network.tcp_proxy`.
#[derive(Debug, Clone)]
pub struct TcpProxyConfig {
    /// The prefix of its statistics.
    pub stat_prefix: String,
    /// Names of clusters and their weights, the sum of which is not 0.
    pub clusters: Vec<(String, u32)>,
    /// Time without a byte in either direction after which both connections are closed; `None` for no limit.
    pub idle_timeout: Option<Duration>,
    /// Access logs.
    pub access_logs: Vec<AccessLogConfig>,
    /// The filter `mixer` before it.
    pub mixer: Option<Box<TcpMixerConfig>>,
}

pub(super) fn read(value: &Value<'_>) -> Option<ListenerConfig> {
    let listener = value.message(&LISTENER)?;
    let name = listener.text("name").filter(|name| !name.is_empty()).map(str::to_owned);
    let name = name.unwrap_or_else(|| crate::uuid::text(crate::uuid::random()));
    let (address, is_udp) = match listener.get("address") {
        Some(address) => address::read_literal(&address),
        None => {
            listener.required(format!("error adding listener named '{name}': address is necessary"));
            (None, Some(false))
        }
    };
    let stat_prefix = listener.text("stat_prefix").filter(|prefix| !prefix.is_empty()).map(str::to_owned);
    let reuse_port = listener.get("enable_reuse_port").is_none_or(|value| value.boolean() != Some(false));
    let backlog = listener.get("tcp_backlog_size").and_then(|value| value.u32()).unwrap_or(4096);
    let directions = [("UNSPECIFIED", 0), ("INBOUND", 1), ("OUTBOUND", 2)];
    let inbound = listener.get("traffic_direction").and_then(|value| value.choice(&directions)) == Some(1);
    let place = address.map_or_else(|| name.clone(), |address| address.to_string());
    let listener_filters_timeout = timeout(&listener, "listener_filters_timeout", Duration::from_secs(15));
    let continues_on_timeout = listener.boolean("continue_on_listener_filters_timeout");
    // What else it needs depends on the protocol: one mistake is not told as several.
    let served = match is_udp? {
        true => udp::read(&listener, &place).map(|udp| Served { udp: Some(udp), ..Served::default() }),
        false => read_chains(&listener, &place),
    };
    listener.finish();
    let Served { udp, listener_filters, chains, default_chain } = served?;
    Some(ListenerConfig {
        name,
        address: address?,
        stat_prefix,
        reuse_port,
        backlog,
        inbound,
        listener_filters,
        listener_filters_timeout,
        continues_on_timeout,
        udp,
        chains,
        default_chain,
        written: Fingerprint::without(value.node, &["filter_chains", "default_filter_chain"]),
        document: super::json(value.node),
    })
}

/// What serves connections, or datagrams.
#[derive(Default)]
struct Served {
    udp: Option<UdpListenerConfig>,
    listener_filters: Vec<ListenerFilter>,
    chains: Vec<FilterChainConfig>,
    default_chain: Option<FilterChainConfig>,
}

/// Reads what serves the connections of a listener whose address is `place`.
fn read_chains(listener: &Fields<'_>, place: &str) -> Option<Served> {
    let written = listener.items("filter_chains");
    let default = listener.get("default_filter_chain");
    if written.is_empty() && default.is_none() {
        listener.required(format!("error adding listener '{place}': no filter chains specified"));
    }
    let chains: Vec<_> = written.iter().filter_map(read_chain).collect();
    let are_read = chains.len() == written.len();
    if are_read {
        check_matches(&written, &chains, place);
    }
    let default_chain = default.as_ref().map(read_chain);
    if let Some(value) = &default
        && let Some(matching) = value.node.get("filter_chain_match")
    {
        let text = "error adding listener: default filter chain must not have a filter_chain_match";
        Value { node: matching, ..value.clone() }.invalid(text);
    }
    let filters = listener.items("listener_filters");
    let listener_filters: Vec<_> = filters.iter().filter_map(listener_filter::read).collect();
    if !are_read {
        return None;
    }
    // As Envoy 1.40, which adds no inspector.
    for (value, chain) in written.iter().zip(&chains) {
        if !chain.matching.can_match(&listener_filters) {
            value.warn(NO_INSPECTOR);
        }
    }
    let default_chain = match default_chain {
        Some(chain) => Some(chain?),
        None => None,
    };
    Some(Served { udp: None, listener_filters, chains, default_chain })
}

/// No two filter chains may take the same connections.
fn check_matches(values: &[Value<'_>], chains: &[FilterChainConfig], place: &str) {
    for (index, (value, chain)) in values.iter().zip(chains).enumerate() {
        let before = chains.get(..index).unwrap_or_default();
        let Some(other) = before.iter().find(|other| other.matching.overlaps(&chain.matching)) else {
            continue;
        };
        value.invalid(match other.matching == chain.matching {
            true => format!(
                "error adding listener '{place}': filter chain '{}' has the same matching rules defined as '{}'",
                chain.name, other.name
            ),
            false => format!(
                "error adding listener '{place}': multiple filter chains with overlapping matching rules are defined"
            ),
        });
    }
}

fn read_chain(value: &Value<'_>) -> Option<FilterChainConfig> {
    let chain = value.message(&CHAIN)?;
    let name = chain.text("name").unwrap_or_default().to_owned();
    let matching = match chain.get("filter_chain_match") {
        Some(matching) => chain::read_match(&matching),
        None => Some(ChainMatch::default()),
    };
    let tls = tls::read_server(&chain);
    let handshake_timeout =
        chain.duration("transport_socket_connect_timeout").filter(|limit| !limit.is_zero());
    let filters = chain.items("filters");
    if filters.is_empty() {
        chain.value.unsupported("a filter chain without filters");
    }
    let (mixers, filters): (Vec<_>, Vec<_>) = filters.into_iter().partition(is_mixer);
    let mixer = read_mixer(&chain, &mixers);
    let mut read: Vec<(String, Option<NetworkFilter>)> = filters.iter().filter_map(read_filter).collect();
    if read.len() > 1
        && let (Some((name, _)), Some(filter)) = (read.first(), filters.first())
    {
        filter.invalid(format!(
            "Error: terminal filter named {name} of type {name} must be the last filter in a network filter chain."
        ));
    }
    chain.finish();
    let filter = match (read.pop()?.1?, mixer) {
        (NetworkFilter::Tcp(proxy), mixer) => NetworkFilter::Tcp(TcpProxyConfig { mixer, ..proxy }),
        (filter, None) => filter,
        (filter, Some(_)) => {
            value.unsupported("the network filter `mixer` before a filter other than tcp_proxy");
            filter
        }
    };
    let written = Fingerprint::of(value.node);
    Some(FilterChainConfig { name, matching: matching?, tls: tls?, handshake_timeout, filter, written })
}

fn is_mixer(filter: &Value<'_>) -> bool {
    filter.node.get("name").and_then(Node::as_str) == Some("mixer")
}

/// Reads the filters `mixer` of a chain, of which there may be one, before the terminal filter.
fn read_mixer(chain: &Fields<'_>, filters: &[Value<'_>]) -> Option<Box<TcpMixerConfig>> {
    if let Some(second) = filters.get(1) {
        second.unsupported("a second filter `mixer`");
    }
    let value = filters.first()?;
    let is_last = chain.items("filters").last().is_some_and(is_mixer);
    if is_last {
        value.invalid(
            "Error: non-terminal filter named mixer of type mixer is the last filter in a network filter chain.",
        );
    }
    let filter = value.message(&FILTER)?;
    filter.ignore(&["name"]);
    let config = mixer::tcp(&filter);
    filter.finish();
    config.map(Box::new)
}

fn read_filter(value: &Value<'_>) -> Option<(String, Option<NetworkFilter>)> {
    let filter = value.message(&FILTER)?;
    let name = filter.text("name").unwrap_or_default().to_owned();
    let typed = type_of(&filter, &name);
    filter.finish();
    let (kind, config) = typed?;
    let filter = match kind {
        "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy" => {
            read_tcp_proxy(&config).map(NetworkFilter::Tcp)
        }
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager" => {
            manager::read(&config).map(|manager| NetworkFilter::Http(Box::new(manager)))
        }
        other => {
            unknown_type(&config, "network filter", other);
            return None;
        }
    };
    Some((name, filter))
}

fn read_tcp_proxy(value: &Value<'_>) -> Option<TcpProxyConfig> {
    let proxy = value.message(&TCP_PROXY)?;
    let stat_prefix = read_stat_prefix(&proxy, "TcpProxy");
    let clusters = match proxy.one_of(&["cluster", "weighted_clusters"]) {
        Some(("cluster", cluster)) => {
            cluster.nonempty("TcpProxy", "Cluster").map(|name| vec![(name.to_owned(), 1)])
        }
        Some((_, weighted)) => read_weighted(&weighted),
        None => {
            proxy.required("TcpProxyValidationError: field: \"cluster_specifier\", reason: is required");
            None
        }
    };
    let idle_timeout = timeout(&proxy, "idle_timeout", Duration::from_secs(3600));
    let access_logs = access_log::read(&proxy, false);
    proxy.finish();
    let (stat_prefix, clusters) = (stat_prefix?, clusters?);
    Some(TcpProxyConfig { stat_prefix, clusters, idle_timeout, access_logs, mixer: None })
}

fn read_weighted(value: &Value<'_>) -> Option<Vec<(String, u32)>> {
    let weighted = value.message(&WEIGHTED)?;
    let mut clusters = Vec::new();
    for item in weighted.items("clusters") {
        let Some(cluster) = item.message(&CLUSTER_WEIGHT) else { continue };
        let name = cluster.get("name").and_then(|name| name.nonempty("ClusterWeight", "Name"));
        let weight = cluster.get("weight").and_then(|weight| weight.u32());
        match (name, weight) {
            (Some(name), Some(weight @ 1..)) => clusters.push((name.to_owned(), weight)),
            (Some(_), _) => cluster
                .required("ClusterWeightValidationError.Weight: value must be greater than or equal to 1"),
            _ => cluster
                .required("ClusterWeightValidationError.Name: value length must be at least 1 characters"),
        }
        cluster.finish();
    }
    if clusters.is_empty() {
        weighted.required("WeightedClusterValidationError.Clusters: value must contain at least 1 item(s)");
    }
    weighted.finish();
    (!clusters.is_empty()).then_some(clusters)
}

/// `stat_prefix`, which must not be empty.
pub(super) fn read_stat_prefix(fields: &Fields<'_>, message: &str) -> Option<String> {
    match fields.get("stat_prefix") {
        Some(prefix) => prefix.nonempty(message, "StatPrefix").map(str::to_owned),
        None => {
            fields.required(format!(
                "{message}ValidationError.StatPrefix: value length must be at least 1 characters"
            ));
            None
        }
    }
}

/// A time limit; 0 means none.
pub(super) fn timeout(fields: &Fields<'_>, name: &str, default: Duration) -> Option<Duration> {
    fields.duration(name).or(Some(default)).filter(|limit| !limit.is_zero())
}
