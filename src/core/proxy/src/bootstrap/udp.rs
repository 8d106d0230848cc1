//! Listeners of datagrams, and the UDP proxy.

use std::time::Duration;

use mixer_config::NodeKind;

use super::listener::read_stat_prefix;
use super::listener_filter;
use super::reader::{Fields, Message, Place, Value, type_of, unknown_type};

/// Bytes of the longest datagram that is forwarded, unless the configuration says otherwise.
const DEFAULT_MAX: u32 = 1500;
/// Bytes of the longest datagram there is.
const MAX: u32 = 65_535;
/// Time without a datagram in either direction after which a session ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

static LISTENER_CONFIG: Message =
    Message { name: "UdpListenerConfig", unsupported: &["quic_options", "udp_packet_packet_writer_config"] };
static SOCKET: Message = Message { name: "UdpSocketConfig", unsupported: &[] };
static PROXY: Message = Message {
    name: "UdpProxyConfig",
    unsupported: &[
        "use_original_src_ip",
        "use_per_packet_load_balancing",
        "access_log",
        "proxy_access_log",
        "session_filters",
        "tunneling_config",
        "access_log_options",
    ],
};
static HASH: Message = Message { name: "HashPolicy", unsupported: &[] };
static MATCHER: Message = Message { name: "Matcher", unsupported: &["matcher_list", "matcher_tree"] };
static ON_MATCH: Message = Message { name: "OnMatch", unsupported: &["matcher", "keep_matching"] };
static ACTION: Message = Message { name: "TypedExtensionConfig", unsupported: &[] };
static ROUTE: Message = Message { name: "Route", unsupported: &[] };

/// The type of the UDP proxy.
pub(super) const PROXY_TYPE: &str = "envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig";
const ROUTE_TYPE: &str = "envoy.extensions.filters.udp.udp_proxy.v3.Route";

/// Why a listener without SO_REUSEPORT is refused where there are several workers; Envoy's text.
pub(crate) const NEEDS_REUSE_PORT: &str = "Listening on UDP when concurrency is > 1 without the SO_REUSEPORT socket option results in unstable packet proxying. Configure the reuse_port listener option or set concurrency = 1.";

/// What a listener has that is one of datagrams.
#[derive(Debug, Clone)]
pub struct UdpListenerConfig {
    /// Bytes of the longest datagram of a client that is forwarded.
    pub max_datagram: usize,
    /// Its filter.
    pub proxy: UdpProxyConfig,
    /// Where it says that there is one socket for all workers.
    pub(super) single_socket: Option<Place>,
}

/// Configuration of `envoy.filters.udp_listener.udp_proxy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpProxyConfig {
    /// The prefix of its statistics.
    pub stat_prefix: String,
    /// The cluster that datagrams go to.
    pub cluster: String,
    /// Time without a datagram in either direction after which a session ends.
    pub idle_timeout: Duration,
    /// What decides to which host a session goes, with consistent hashing.
    pub hash_policy: Option<UdpHash>,
    /// Bytes of the longest datagram of a host that is forwarded.
    pub max_reply: usize,
}

/// What is hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UdpHash {
    /// The address of the client, without its port.
    SourceAddress,
    /// This text: all sessions go to the same host.
    Key(String),
}

/// Reads what a listener has that is one of datagrams. `place` is its address.
pub(super) fn read(listener: &Fields<'_>, place: &str) -> Option<UdpListenerConfig> {
    refuse_chains(listener, place);
    let is_false = |value: &Value<'_>| matches!(value.node.kind, NodeKind::Bool(false));
    let single_socket = listener.get("enable_reuse_port").filter(is_false);
    let config = listener.message("udp_listener_config", &LISTENER_CONFIG);
    let socket = config.as_ref().and_then(|config| config.get("downstream_socket_config"));
    let max_datagram = read_socket(socket.as_ref(), false);
    if let Some(config) = config {
        config.finish();
    }
    let filters = listener.items("listener_filters");
    let Some(first) = filters.first() else {
        let text = "a UDP listener without the listener filter envoy.filters.udp_listener.udp_proxy";
        listener.value.unsupported(text);
        return None;
    };
    if let Some(second) = filters.get(1) {
        second.unsupported("a second listener filter of a UDP listener");
    }
    let (name, kind, config) = listener_filter::read_typed(first)?;
    let proxy = match kind {
        PROXY_TYPE => read_proxy(&config)?,
        kind if listener_filter::is_known(kind) => {
            config.invalid(listener_filter::not_of_this_kind(&name, kind));
            return None;
        }
        kind => {
            unknown_type(&config, "UDP listener filter", kind);
            return None;
        }
    };
    let single_socket = single_socket.map(|value| value.place());
    Some(UdpListenerConfig { max_datagram: max_datagram?, proxy, single_socket })
}

/// There are no connections that a filter chain could serve.
fn refuse_chains(listener: &Fields<'_>, place: &str) {
    let chains = listener.get("filter_chains").map(|value| (value.items().len(), value));
    let default = listener.get("default_filter_chain").map(|value| (0, value));
    let found = chains.filter(|(count, _)| *count > 0).or(default);
    if let Some((count, value)) = found {
        value.invalid(format!(
            "error adding listener '{place}': {count} filter chain(s) specified for connection-less UDP listener."
        ));
    }
}

/// Reads a UdpSocketConfig: bytes of the longest datagram. Where the system may join datagrams (GRO), Envoy has room for any; here
/// that is all there is to it.
fn read_socket(value: Option<&Value<'_>>, joins: bool) -> Option<usize> {
    let socket = match value {
        Some(value) => Some(value.message(&SOCKET)?),
        None => None,
    };
    let longest = socket.as_ref().and_then(|socket| socket.get("max_rx_datagram_size"));
    let joins_here = socket.as_ref().and_then(|socket| socket.get("prefer_gro"));
    let joins = joins_here.map_or(Some(joins), |value| value.boolean());
    let longest = match &longest {
        Some(value) => value.u32().filter(|number| {
            let fits = (1..=MAX).contains(number);
            if !fits {
                value.invalid(
                    "UdpSocketConfigValidationError.MaxRxDatagramSize: value must be inside range (0, 65536)",
                );
            }
            fits
        }),
        None => Some(DEFAULT_MAX),
    };
    if let Some(socket) = socket {
        socket.finish();
    }
    let longest = if joins? { longest.map(|_| MAX) } else { longest };
    longest.and_then(|longest| usize::try_from(longest).ok())
}

fn read_proxy(value: &Value<'_>) -> Option<UdpProxyConfig> {
    let proxy = value.message(&PROXY)?;
    let stat_prefix = read_stat_prefix(&proxy, "UdpProxyConfig");
    let cluster = match proxy.one_of(&["cluster", "matcher"]) {
        Some(("cluster", cluster)) => cluster.nonempty("UdpProxyConfig", "Cluster").map(str::to_owned),
        Some((_, matcher)) => read_matcher(&matcher),
        None => {
            proxy.required("UdpProxyConfigValidationError: field: \"route_specifier\", reason: is required");
            None
        }
    };
    let idle_timeout = match proxy.get("idle_timeout") {
        Some(value) => value.duration().filter(|timeout| {
            // With Envoy it is a matter of chance whether a host answers in time.
            if timeout.is_zero() {
                value.invalid(
                    "sessions would end before their host answers: `idle_timeout` must be more than 0s",
                );
            }
            !timeout.is_zero()
        }),
        None => Some(IDLE_TIMEOUT),
    };
    let hash_policy = read_hash(&proxy);
    let socket = proxy.get("upstream_socket_config");
    let max_reply = read_socket(socket.as_ref(), true);
    proxy.finish();
    Some(UdpProxyConfig {
        stat_prefix: stat_prefix?,
        cluster: cluster?,
        idle_timeout: idle_timeout?,
        hash_policy: hash_policy?,
        max_reply: max_reply?,
    })
}

/// Reads `hash_policies`, of which there is one at most.
fn read_hash(proxy: &Fields<'_>) -> Option<Option<UdpHash>> {
    let policies = proxy.items("hash_policies");
    if let Some(second) = policies.get(1) {
        second
            .invalid("UdpProxyConfigValidationError.HashPolicies: value must contain no more than 1 item(s)");
    }
    let Some(first) = policies.first() else { return Some(None) };
    let policy = first.message(&HASH)?;
    let read = match policy.one_of(&["source_ip", "key"]) {
        Some(("source_ip", value)) => match value.boolean()? {
            true => Some(UdpHash::SourceAddress),
            false => {
                value.invalid("HashPolicyValidationError.SourceIp: value must equal true");
                None
            }
        },
        Some((_, value)) => value.nonempty("HashPolicy", "Key").map(|key| UdpHash::Key(key.to_owned())),
        None => {
            policy.required("HashPolicyValidationError: field: \"policy_specifier\", reason: is required");
            None
        }
    };
    policy.finish();
    read.map(Some)
}

/// Reads a matcher without conditions: the cluster of its only action.
fn read_matcher(value: &Value<'_>) -> Option<String> {
    let matcher = value.message(&MATCHER)?;
    let on_no_match = matcher.message("on_no_match", &ON_MATCH);
    let has_others = ["matcher_list", "matcher_tree"].iter().any(|name| value.node.get(name).is_some());
    if on_no_match.is_none() && !has_others {
        matcher.required("the matcher has no `on_no_match`: no datagram would have a cluster");
    }
    matcher.finish();
    let on_no_match = on_no_match?;
    let action = on_no_match.message("action", &ACTION);
    if action.is_none() && on_no_match.value.node.get("matcher").is_none() {
        on_no_match.required("OnMatchValidationError: field: \"on_match\", reason: is required");
    }
    on_no_match.finish();
    let action = action?;
    let name = action.text("name").unwrap_or_default().to_owned();
    let typed = type_of(&action, &name);
    action.finish();
    let (kind, config) = typed?;
    if kind != ROUTE_TYPE {
        unknown_type(&config, "action of a matcher", kind);
        return None;
    }
    let route = config.message(&ROUTE)?;
    let cluster = match route.get("cluster") {
        Some(cluster) => cluster.nonempty("Route", "Cluster").map(str::to_owned),
        None => {
            route.required("RouteValidationError.Cluster: value length must be at least 1 characters");
            None
        }
    };
    route.finish();
    cluster
}
