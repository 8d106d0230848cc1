//! Clusters.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mixer_net::tls::context::ClientContext;

use super::address::{self, HostPort};
use super::reader::{Fields, Message, Value};
use super::tls;

static CLUSTER: Message = Message {
    name: "Cluster",
    unsupported: &[
        "transport_socket_matches",
        "cluster_type",
        "eds_cluster_config",
        "health_checks",
        "max_requests_per_connection",
        "circuit_breakers",
        "upstream_http_protocol_options",
        "common_http_protocol_options",
        "http_protocol_options",
        "http2_protocol_options",
        "typed_extension_protocol_options",
        "dns_jitter",
        "dns_failure_refresh_rate",
        "respect_dns_ttl",
        "typed_dns_resolver_config",
        "dns_resolution_config",
        "dns_resolvers",
        "use_tcp_for_dns_lookups",
        "wait_for_warm_on_init",
        "outlier_detection",
        "cleanup_interval",
        "upstream_bind_config",
        "lb_subset_config",
        "ring_hash_lb_config",
        "maglev_lb_config",
        "original_dst_lb_config",
        "least_request_lb_config",
        "round_robin_lb_config",
        "common_lb_config",
        "metadata",
        "protocol_selection",
        "upstream_connection_options",
        "close_connections_on_host_health_failure",
        "ignore_health_on_host_removal",
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
static LB_ENDPOINT: Message = Message {
    name: "LbEndpoint",
    unsupported: &["endpoint_name", "health_status", "metadata", "load_balancing_weight"],
};
static ENDPOINT: Message =
    Message { name: "Endpoint", unsupported: &["health_check_config", "hostname", "additional_addresses"] };

/// How a cluster finds its hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discovery {
    /// Addresses of the configuration.
    Static(Vec<SocketAddr>),
    /// Every address that the names resolve to.
    StrictDns {
        /// The names, with ports.
        names: Vec<HostPort>,
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
    /// In turn.
    RoundRobin,
    /// Of two random hosts that with fewer requests.
    LeastRequest,
    /// At random.
    Random,
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
    /// TLS with hosts; `None` for plain text.
    pub tls: Option<Arc<ClientContext>>,
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
    if let (Some(2..), Some(kind)) = (number, &kind) {
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
        Some((Some(_), value)) => {
            value.unsupported(&format!("lb_policy {}", value.node.as_str().unwrap_or("of this number")));
            None
        }
        Some((None, _)) => None,
    };
    let families = [("AUTO", 0), ("V4_ONLY", 1), ("V6_ONLY", 2), ("V4_PREFERRED", 3), ("ALL", 4)];
    let family = match cluster.get("dns_lookup_family").and_then(|value| value.choice(&families)) {
        None | Some(0) => Family::Auto,
        Some(1) => Family::V4,
        Some(2) => Family::V6,
        Some(3) => Family::V4Preferred,
        Some(_) => Family::All,
    };
    let refresh = cluster.duration("dns_refresh_rate").unwrap_or(Duration::from_secs(5));
    let tls = tls::read_client(&cluster);
    let endpoints = cluster.message("load_assignment", &ASSIGNMENT).map(read_endpoints).unwrap_or_default();
    cluster.finish();
    let discovery = match number? {
        0 => Discovery::Static(
            endpoints
                .iter()
                .filter_map(|(value, host)| {
                    let hint = ". Consider setting resolver_name or setting cluster type to 'STRICT_DNS' or 'LOGICAL_DNS'";
                    let literal = host.literal();
                    if literal.is_none() {
                        value.invalid(format!("malformed IP address: {}{hint}", host.host));
                    }
                    literal
                })
                .collect(),
        ),
        _ => Discovery::StrictDns {
            names: endpoints.into_iter().map(|(_, host)| host).collect(),
            refresh: refresh.max(Duration::from_millis(1)),
            family,
        },
    };
    Some(ClusterConfig {
        name: name?.to_owned(),
        discovery,
        connect_timeout: connect_timeout?,
        policy: policy?,
        tls: tls?,
    })
}

fn read_endpoints(assignment: Fields<'_>) -> Vec<(Value<'_>, HostPort)> {
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
            if let Some(endpoint) = lb_endpoint.message("endpoint", &ENDPOINT) {
                match endpoint.get("address") {
                    Some(value) => found.extend(address::read(&value).map(|host| (value, host))),
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
