//! Clusters.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mixer_net::tls::context::ClientContext;

use super::address::{self, HostPort};
use super::health::{self, HealthCheckConfig};
use super::http2::{self, Http2Options};
use super::outlier::{self, OutlierConfig};
use super::reader::{Fields, Message, Value};
use super::tls;

/// The least and the most places of a ring, unless the configuration says otherwise.
pub(crate) const RING_SIZES: (u64, u64) = (1024, 8 << 20);

static CLUSTER: Message = Message {
    name: "Cluster",
    unsupported: &[
        "transport_socket_matches",
        "cluster_type",
        "eds_cluster_config",
        "max_requests_per_connection",
        "upstream_http_protocol_options",
        "common_http_protocol_options",
        "http_protocol_options",
        "dns_jitter",
        "dns_failure_refresh_rate",
        "respect_dns_ttl",
        "typed_dns_resolver_config",
        "dns_resolution_config",
        "dns_resolvers",
        "use_tcp_for_dns_lookups",
        "wait_for_warm_on_init",
        "upstream_bind_config",
        "lb_subset_config",
        "maglev_lb_config",
        "least_request_lb_config",
        "round_robin_lb_config",
        "metadata",
        "protocol_selection",
        "upstream_connection_options",
        "close_connections_on_host_health_failure",
        "filters",
        "load_balancing_policy",
        "lrs_server",
        "track_timeout_budgets",
        "upstream_config",
        "track_cluster_stats",
        "preconnect_policy",
        "connection_pool_per_downstream_connection",
        "alt_stat_name",
        "per_connection_buffer_limit_bytes",
    ],
};
static ASSIGNMENT: Message =
    Message { name: "ClusterLoadAssignment", unsupported: &["named_endpoints", "policy"] };
static LOCALITY: Message = Message {
    name: "LocalityLbEndpoints",
    unsupported: &[
        "load_balancing_weight",
        "priority",
        "proximity",
        "load_balancer_endpoints",
        "leds_cluster_locality_config",
        "metadata",
    ],
};
static LB_ENDPOINT: Message =
    Message { name: "LbEndpoint", unsupported: &["endpoint_name", "health_status", "metadata"] };
static ENDPOINT: Message =
    Message { name: "Endpoint", unsupported: &["health_check_config", "hostname", "additional_addresses"] };

static RING: Message = Message { name: "RingHashLbConfig", unsupported: &[] };
static ORIGINAL: Message = Message {
    name: "OriginalDstLbConfig",
    unsupported: &["http_header_name", "upstream_port_override", "metadata_key"],
};
static BREAKERS: Message = Message { name: "CircuitBreakers", unsupported: &["per_host_thresholds"] };
static THRESHOLDS: Message =
    Message { name: "Thresholds", unsupported: &["retry_budget", "max_connection_pools"] };

/// How a cluster finds its hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discovery {
    /// Addresses of the configuration, with weights.
    Static(Vec<(SocketAddr, u32)>),
    /// Addresses that clients want to go to, forgotten when they were not used for so long.
    OriginalDestination(Duration),
    /// Addresses that names resolve to.
    Dns {
        /// The names, with ports and weights.
        names: Vec<(HostPort, u32)>,
        /// Whether only the first address of each is a host.
        first_only: bool,
        /// Time between two resolutions.
        refresh: Duration,
        /// Which addresses are asked for.
        family: Family,
    },
}

/// The family of resolved addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv6, or IPv4 if there are none.
    Auto,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
    /// IPv4, or IPv6 if there are none.
    V4Preferred,
    /// Both.
    All,
}

/// How a host is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// By the hash of the request, on a ring with at least and at most so many places.
    RingHash((u64, u64)),
    /// The address that the client wanted to go to; with true, the header `x-envoy-original-dst-host` is asked first.
    OriginalDestination(bool),
    /// In turn.
    RoundRobin,
    /// Of two random hosts that with fewer requests.
    LeastRequest,
    /// At random.
    Random,
}

/// Bounds of what a cluster has in flight, over all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Connections. Each worker may have one to each host in any case.
    pub connections: u64,
    /// Requests that wait for a connection.
    pub pending: u64,
    /// Requests.
    pub requests: u64,
    /// Retries.
    pub retries: u64,
    /// Whether what is left is shown in statistics.
    pub shows_remaining: bool,
}

impl Default for Thresholds {
    /// Those of Envoy.
    fn default() -> Self {
        Self { connections: 1024, pending: 1024, requests: 1024, retries: 3, shows_remaining: false }
    }
}

/// A cluster.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// Its name.
    pub name: String,
    /// Where its hosts come from.
    pub discovery: Discovery,
    /// Time limit of a connection attempt.
    pub connect_timeout: Duration,
    /// How a host is chosen.
    pub policy: Policy,
    /// Bounds of what is in flight.
    pub thresholds: Thresholds,
    /// Active health checks.
    pub health_check: Option<HealthCheckConfig>,
    /// Outlier detection.
    pub outlier: Option<OutlierConfig>,
    /// Healthy hosts of 100 below which all get requests; 0 for never.
    pub panic_threshold: f64,
    /// TLS with hosts; `None` for plain text.
    pub tls: Option<Arc<ClientContext>>,
    /// HTTP/2 with hosts; `None` for HTTP/1.1.
    pub http2: Option<Http2Options>,
}

pub(super) fn read(value: &Value<'_>) -> Option<ClusterConfig> {
    let cluster = value.message(&CLUSTER)?;
    let name = match cluster.get("name") {
        Some(name) => name.nonempty("Cluster", "Name"),
        None => {
            cluster.required("ClusterValidationError.Name: value length must be at least 1 characters");
            None
        }
    };
    let kind = cluster.get("type");
    let types = [("STATIC", 0), ("STRICT_DNS", 1), ("LOGICAL_DNS", 2), ("EDS", 3), ("ORIGINAL_DST", 4)];
    let number = kind.as_ref().map_or(Some(0), |kind| kind.choice(&types));
    if let (Some(3), Some(kind)) = (number, &kind) {
        kind.unsupported(&format!("cluster type {}", kind.node.as_str().unwrap_or("of this number")));
    }
    let connect_timeout = cluster.get("connect_timeout").map(|value| (value.duration(), value));
    let connect_timeout = match connect_timeout {
        None => Some(Duration::from_secs(5)),
        Some((Some(timeout), value)) if timeout.is_zero() => {
            value.invalid("ClusterValidationError.ConnectTimeout: value must be greater than 0s");
            None
        }
        Some((timeout, _)) => timeout,
    };
    let policies = [
        ("ROUND_ROBIN", 0),
        ("LEAST_REQUEST", 1),
        ("RING_HASH", 2),
        ("RANDOM", 3),
        ("MAGLEV", 5),
        ("CLUSTER_PROVIDED", 6),
        ("LOAD_BALANCING_POLICY_CONFIG", 7),
    ];
    let policy = match cluster.get("lb_policy").map(|value| (value.choice(&policies), value)) {
        None | Some((Some(0), _)) => Some(Policy::RoundRobin),
        Some((Some(1), _)) => Some(Policy::LeastRequest),
        Some((Some(3), _)) => Some(Policy::Random),
        Some((Some(2), _)) => Some(Policy::RingHash(RING_SIZES)),
        Some((Some(6), _)) if number == Some(4) => Some(Policy::OriginalDestination(false)),
        Some((Some(_), value)) => {
            value.unsupported(&format!("lb_policy {}", value.node.as_str().unwrap_or("of this number")));
            None
        }
        Some((None, _)) => None,
    };
    let ring = cluster.get("ring_hash_lb_config").map(|value| (read_ring(&value), value));
    let original = cluster.get("original_dst_lb_config").map(|value| (read_original(&value), value));
    let policy = match (policy, ring, original) {
        (Some(Policy::RingHash(_)), Some((sizes, _)), None) => sizes.map(Policy::RingHash),
        (Some(Policy::OriginalDestination(_)), None, Some((by_header, _))) => {
            by_header.map(Policy::OriginalDestination)
        }
        (policy, None, None) => policy,
        (policy, ring, original) => {
            for value in ring.map(|(_, value)| value).into_iter().chain(original.map(|(_, value)| value)) {
                value.invalid("this configuration has no effect: lb_policy is another one");
            }
            policy
        }
    };
    if number == Some(4) && !matches!(policy, None | Some(Policy::OriginalDestination(_))) {
        cluster.required("cluster: LB policy is not valid for cluster type ORIGINAL_DST. Only 'CLUSTER_PROVIDED' is allowed with cluster type 'ORIGINAL_DST'");
    }
    let cleanup = cluster.duration("cleanup_interval").unwrap_or(Duration::from_secs(5));
    let families = [("AUTO", 0), ("V4_ONLY", 1), ("V6_ONLY", 2), ("V4_PREFERRED", 3), ("ALL", 4)];
    let family = match cluster.get("dns_lookup_family").and_then(|value| value.choice(&families)) {
        None | Some(0) => Family::Auto,
        Some(1) => Family::V4,
        Some(2) => Family::V6,
        Some(3) => Family::V4Preferred,
        Some(_) => Family::All,
    };
    let refresh = cluster.duration("dns_refresh_rate").unwrap_or(Duration::from_secs(5));
    let thresholds = match cluster.message("circuit_breakers", &BREAKERS) {
        Some(breakers) => read_thresholds(breakers),
        None => Thresholds::default(),
    };
    let tls = tls::read_client(&cluster);
    for name in ["health_checks", "outlier_detection"] {
        // Whoever a client wants to reach is reached.
        if number == Some(4)
            && let Some(value) = cluster.get(name)
        {
            value.unsupported(&format!("{name} of a cluster of type ORIGINAL_DST"));
        }
    }
    let health_check = health::read(&cluster);
    let outlier = outlier::read(&cluster);
    let panic_threshold = outlier::read_panic_threshold(&cluster);
    let http2 = http2::read_cluster(&cluster);
    let endpoints = cluster.message("load_assignment", &ASSIGNMENT).map(read_endpoints).unwrap_or_default();
    if number == Some(2) && endpoints.len() != 1 {
        cluster.required(
            "LOGICAL_DNS clusters must have a single locality_lb_endpoint and a single lb_endpoint",
        );
    }
    cluster.finish();
    let discovery = match number? {
        0 => Discovery::Static(
            endpoints
                .iter()
                .filter_map(|(value, host, weight)| {
                    let hint = ". Consider setting resolver_name or setting cluster type to 'STRICT_DNS' or 'LOGICAL_DNS'";
                    let literal = host.literal();
                    if literal.is_none() {
                        value.invalid(format!("malformed IP address: {}{hint}", host.host));
                    }
                    Some((literal?, *weight))
                })
                .collect(),
        ),
        4 => {
            if let Some((value, ..)) = endpoints.first() {
                value.invalid("ORIGINAL_DST clusters must have no load assignment configured");
            }
            Discovery::OriginalDestination(cleanup.max(Duration::from_millis(100)))
        }
        kind => Discovery::Dns {
            first_only: kind == 2,
            names: endpoints.into_iter().map(|(_, host, weight)| (host, weight)).collect(),
            refresh: refresh.max(Duration::from_millis(1)),
            family,
        },
    };
    Some(ClusterConfig {
        name: name?.to_owned(),
        discovery,
        connect_timeout: connect_timeout?,
        policy: policy?,
        thresholds,
        health_check,
        outlier,
        panic_threshold,
        tls: tls?,
        http2: http2?,
    })
}

/// The sizes of a ring.
fn read_ring(value: &Value<'_>) -> Option<(u64, u64)> {
    let ring = value.message(&RING)?;
    let size =
        |name: &str, default: u64| ring.get(name).map_or(Some(default), |value| value.number(RING_SIZES.1));
    let sizes = (size("minimum_ring_size", RING_SIZES.0), size("maximum_ring_size", RING_SIZES.1));
    if let Some(function) = ring.get("hash_function")
        && function.choice(&[("XX_HASH", 0), ("MURMUR_HASH_2", 1)]) == Some(1)
    {
        function.unsupported("hash_function MURMUR_HASH_2");
    }
    ring.finish();
    let (min, max) = (sizes.0?, sizes.1?);
    if min > max || max == 0 {
        value.invalid(format!("ring hash: minimum_ring_size ({min}) > maximum_ring_size ({max})"));
        return None;
    }
    Some((min.max(1), max))
}

/// Whether a header names the destination.
fn read_original(value: &Value<'_>) -> Option<bool> {
    let original = value.message(&ORIGINAL)?;
    let by_header = original.boolean("use_http_header");
    original.finish();
    Some(by_header)
}

/// The thresholds of the default priority: there is no other.
fn read_thresholds(breakers: Fields<'_>) -> Thresholds {
    // The first counts, as with Envoy.
    let (mut found, default) = (None, Thresholds::default());
    for item in breakers.items("thresholds") {
        let Some(thresholds) = item.message(&THRESHOLDS) else { continue };
        let priority = thresholds.get("priority");
        if let Some(priority) = &priority
            && priority.choice(&[("DEFAULT", 0), ("HIGH", 1)]) == Some(1)
        {
            priority.unsupported("priority HIGH");
        }
        let number = |name: &str, default: u64| {
            thresholds.get(name).and_then(|value| value.u32()).map_or(default, u64::from)
        };
        let read = Thresholds {
            connections: number("max_connections", default.connections),
            pending: number("max_pending_requests", default.pending),
            requests: number("max_requests", default.requests),
            retries: number("max_retries", default.retries),
            shows_remaining: thresholds.boolean("track_remaining"),
        };
        found.get_or_insert(read);
        thresholds.finish();
    }
    breakers.finish();
    found.unwrap_or(default)
}

/// Hosts and their weights.
fn read_endpoints(assignment: Fields<'_>) -> Vec<(Value<'_>, HostPort, u32)> {
    match assignment.get("cluster_name") {
        Some(name) => {
            let _ = name.nonempty("ClusterLoadAssignment", "ClusterName");
        }
        None => assignment.required(
            "ClusterLoadAssignmentValidationError.ClusterName: value length must be at least 1 characters",
        ),
    }
    let mut found = Vec::new();
    for locality in assignment.items("endpoints") {
        let Some(locality) = locality.message(&LOCALITY) else { continue };
        // Has an effect on locality weighted load balancing and on statistics of zones only, neither of which is supported.
        locality.ignore(&["locality"]);
        for endpoint in locality.items("lb_endpoints") {
            let Some(lb_endpoint) = endpoint.message(&LB_ENDPOINT) else { continue };
            let weight = lb_endpoint.get("load_balancing_weight").and_then(|value| match value.u32() {
                Some(0) => {
                    value.invalid("LbEndpointValidationError.LoadBalancingWeight: value must be greater than or equal to 1");
                    None
                }
                weight => weight,
            });
            if let Some(endpoint) = lb_endpoint.message("endpoint", &ENDPOINT) {
                match endpoint.get("address") {
                    Some(value) => {
                        let host = address::read(&value);
                        found.extend(host.map(|host| (value, host, weight.unwrap_or(1))));
                    }
                    None => endpoint.required("EndpointValidationError.Address: value is required"),
                }
                endpoint.finish();
            }
            lb_endpoint.finish();
        }
        locality.finish();
    }
    assignment.finish();
    found
}
