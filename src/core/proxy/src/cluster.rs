//! Clusters: their hosts, how one is chosen, and their statistics.

mod dns;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::bootstrap::{ClusterConfig, Discovery, Policy};
use crate::stats::{Block, ClusterStat, Histogram, Scope, Stats, Statuses, Value};
use crate::tls::TlsStats;

pub(crate) use dns::resolve_all;

/// Requests in flight and retries in flight of a cluster, over all workers: the thresholds that Envoy has by default.
const MAX_REQUESTS: u64 = 1024;
const MAX_RETRIES: u64 = 3;

/// A host of a cluster.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    /// The name that it was resolved from.
    pub(crate) hostname: String,
    pub(crate) active_connections: AtomicU64,
    pub(crate) active_requests: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) connect_failures: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) succeeded: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) timed_out: AtomicU64,
}

impl Host {
    fn new(address: SocketAddr, hostname: &str) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            address,
            hostname: hostname.to_owned(),
            active_connections: zero(),
            active_requests: zero(),
            connections: zero(),
            connect_failures: zero(),
            requests: zero(),
            succeeded: zero(),
            failed: zero(),
            timed_out: zero(),
        }
    }
}

/// The statistics of a cluster.
#[derive(Debug)]
pub(crate) struct ClusterStats {
    pub(crate) block: Arc<Block<ClusterStat>>,
    pub(crate) statuses: Arc<Statuses>,
    pub(crate) retried_statuses: Arc<Statuses>,
    pub(crate) connect_time: Arc<Histogram>,
    pub(crate) connection_length: Arc<Histogram>,
    pub(crate) request_time: Arc<Histogram>,
    /// `None` for clusters of plain text.
    pub(crate) tls: Option<TlsStats>,
}

impl ClusterStats {
    /// Counts a response to a request.
    pub(crate) fn count_response(&self, status: u16) {
        self.block.increment(ClusterStat::UpstreamRqCompleted);
        self.statuses.increment(status);
        match status / 100 {
            1 => self.block.increment(ClusterStat::UpstreamRq1xx),
            2 => self.block.increment(ClusterStat::UpstreamRq2xx),
            3 => self.block.increment(ClusterStat::UpstreamRq3xx),
            4 => self.block.increment(ClusterStat::UpstreamRq4xx),
            5 => self.block.increment(ClusterStat::UpstreamRq5xx),
            _ => {}
        }
    }
}

/// The hosts of a cluster at a time.
pub(crate) type Hosts = Arc<[Arc<Host>]>;

/// A cluster, shared by all workers.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) config: ClusterConfig,
    pub(crate) stats: ClusterStats,
    hosts: Mutex<Hosts>,
    /// Grows whenever the hosts change.
    generation: AtomicU64,
    active_requests: AtomicU64,
    active_retries: AtomicU64,
}

impl Cluster {
    pub(crate) fn new(config: ClusterConfig, stats: &Stats) -> Arc<Self> {
        let scope = Scope::Cluster(config.name.clone());
        let hosts: Hosts = match &config.discovery {
            Discovery::Static(addresses) => addresses.iter().map(|a| Arc::new(Host::new(*a, ""))).collect(),
            Discovery::StrictDns { .. } => Arc::new([]),
        };
        let stats_of = ClusterStats {
            block: stats.block(&scope),
            statuses: stats.statuses(&scope, &["upstream_rq_", "external.upstream_rq_"]),
            retried_statuses: stats.statuses(&scope, &["retry.upstream_rq_"]),
            connect_time: stats.histogram(&scope, "upstream_cx_connect_ms"),
            connection_length: stats.histogram(&scope, "upstream_cx_length_ms"),
            request_time: stats.histogram(&scope, "upstream_rq_time"),
            tls: config.tls.is_some().then(|| TlsStats::new(stats, &scope)),
        };
        let cluster = Arc::new(Self {
            config,
            stats: stats_of,
            hosts: Mutex::new(hosts),
            generation: AtomicU64::new(1),
            active_requests: AtomicU64::new(0),
            active_retries: AtomicU64::new(0),
        });
        for name in ["membership_total", "membership_healthy"] {
            let counted = Arc::clone(&cluster);
            stats.computed(&scope, name, move || {
                Value::Gauge(u64::try_from(counted.hosts().len()).unwrap_or(u64::MAX))
            });
        }
        if let Discovery::Static(addresses) = &cluster.config.discovery
            && !addresses.is_empty()
        {
            cluster.stats.block.increment(ClusterStat::MembershipChange);
        }
        cluster
    }

    /// The current hosts.
    pub(crate) fn hosts(&self) -> Hosts {
        Arc::clone(&self.hosts.lock())
    }

    /// Grows whenever the hosts change. Cost: an atomic read.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Replaces the hosts by these addresses; those that stay keep their statistics. Returns whether anything changed.
    fn replace_hosts(&self, addresses: &[(SocketAddr, &str)]) -> bool {
        let mut hosts = self.hosts.lock();
        let same = hosts.len() == addresses.len()
            && addresses.iter().all(|(address, _)| hosts.iter().any(|host| host.address == *address));
        if same {
            return false;
        }
        let next = addresses.iter().map(|(address, name)| {
            let kept = hosts.iter().find(|host| host.address == *address);
            kept.map_or_else(|| Arc::new(Host::new(*address, name)), Arc::clone)
        });
        let next: Hosts = next.collect();
        *hosts = next;
        self.generation.fetch_add(1, Ordering::Release);
        true
    }

    /// Claims a place among the requests in flight; `None` if there are too many.
    pub(crate) fn admit(self: &Arc<Self>) -> Option<Admitted> {
        if self.active_requests.fetch_add(1, Ordering::Relaxed) >= MAX_REQUESTS {
            self.active_requests.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Admitted { cluster: Arc::clone(self), is_retry: false })
    }

    /// Claims a place among the retries in flight; `None` if there are too many.
    pub(crate) fn admit_retry(self: &Arc<Self>) -> Option<Admitted> {
        if self.active_retries.fetch_add(1, Ordering::Relaxed) >= MAX_RETRIES {
            self.active_retries.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Admitted { cluster: Arc::clone(self), is_retry: true })
    }

    /// The thresholds, for the admin interface: requests and retries.
    pub(crate) fn thresholds() -> (u64, u64) {
        (MAX_REQUESTS, MAX_RETRIES)
    }
}

/// A place among the requests or retries in flight of a cluster; released on drop.
#[derive(Debug)]
pub(crate) struct Admitted {
    cluster: Arc<Cluster>,
    is_retry: bool,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let counter =
            if self.is_retry { &self.cluster.active_retries } else { &self.cluster.active_requests };
        counter.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Chooses hosts of a cluster for one worker.
#[derive(Debug)]
pub(crate) struct Balancer {
    cluster: Arc<Cluster>,
    generation: u64,
    hosts: Hosts,
    next: usize,
}

impl Balancer {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster, generation: 0, hosts: Arc::new([]), next: usize::MAX }
    }

    /// A host; `None` if the cluster has none.
    pub(crate) fn choose(&mut self) -> Option<Arc<Host>> {
        let generation = self.cluster.generation();
        if generation != self.generation {
            self.hosts = self.cluster.hosts();
            self.generation = generation;
        }
        let count = self.hosts.len();
        if count == 0 {
            return None;
        }
        let index = match self.cluster.config.policy {
            Policy::RoundRobin => {
                // Workers begin at different hosts.
                self.next =
                    if self.next == usize::MAX { fastrand::usize(..count) } else { (self.next + 1) % count };
                self.next % count
            }
            Policy::Random => fastrand::usize(..count),
            Policy::LeastRequest => {
                let (a, b) = (fastrand::usize(..count), fastrand::usize(..count));
                let load = |index: usize| {
                    self.hosts.get(index).map_or(0, |h| h.active_requests.load(Ordering::Relaxed))
                };
                if load(b) < load(a) { b } else { a }
            }
        };
        self.hosts.get(index).cloned()
    }
}

/// Chooses one of several clusters by weight.
pub(crate) fn weighted<T: Copy>(choices: &[(T, u32)]) -> Option<T> {
    if let [(only, _)] = choices {
        return Some(*only);
    }
    let sum: u64 = choices.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let mut pick = if sum == 0 { return None } else { fastrand::u64(..sum) };
    for (choice, weight) in choices {
        match pick.checked_sub(u64::from(*weight)) {
            Some(rest) => pick = rest,
            None => return Some(*choice),
        }
    }
    None
}

/// The time limit of a connection attempt.
pub(crate) fn connect_timeout(cluster: &Cluster) -> Duration {
    cluster.config.connect_timeout
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(policy: Policy, hosts: u16) -> Arc<Cluster> {
        let addresses = (0..hosts).map(|port| SocketAddr::from(([127, 0, 0, 1], 1000 + port))).collect();
        let config = ClusterConfig {
            name: "c".to_owned(),
            discovery: Discovery::Static(addresses),
            connect_timeout: Duration::from_secs(1),
            policy,
            tls: None,
        };
        Cluster::new(config, &Stats::default())
    }

    #[test]
    fn round_robin_takes_hosts_in_turn() {
        let mut balancer = Balancer::new(cluster(Policy::RoundRobin, 3));
        let mut counts = [0; 3];
        for _ in 0..300 {
            counts[usize::from(balancer.choose().unwrap().address.port() - 1000)] += 1;
        }
        assert_eq!(counts, [100; 3]);
        assert!(Balancer::new(cluster(Policy::RoundRobin, 0)).choose().is_none());
    }

    #[test]
    fn least_request_avoids_the_busy_host() {
        let mut balancer = Balancer::new(cluster(Policy::LeastRequest, 2));
        let busy = balancer.cluster.hosts()[0].clone();
        busy.active_requests.store(10, Ordering::Relaxed);
        let chosen = (0..400).filter(|_| balancer.choose().unwrap().address == busy.address).count();
        assert!((50..150).contains(&chosen), "only if it was drawn twice: {chosen}");
    }

    #[test]
    fn hosts_that_stay_keep_their_statistics() {
        let cluster = cluster(Policy::Random, 2);
        let kept = cluster.hosts()[1].clone();
        kept.requests.store(7, Ordering::Relaxed);
        assert!(!cluster.replace_hosts(&[(kept.address, ""), (cluster.hosts()[0].address, "")]));
        assert!(cluster.replace_hosts(&[(kept.address, "name")]));
        assert_eq!(cluster.hosts()[0].requests.load(Ordering::Relaxed), 7);
        let mut balancer = Balancer::new(cluster);
        assert_eq!(balancer.choose().unwrap().address, kept.address);
    }

    #[test]
    fn requests_in_flight_are_bounded() {
        let cluster = cluster(Policy::Random, 1);
        let admitted: Vec<_> = (0..MAX_REQUESTS).map(|_| cluster.admit().unwrap()).collect();
        assert!(cluster.admit().is_none());
        drop(admitted);
        assert!(cluster.admit().is_some());
        let retries: Vec<_> = (0..MAX_RETRIES).map(|_| cluster.admit_retry().unwrap()).collect();
        assert!(cluster.admit_retry().is_none());
        drop(retries);
    }

    #[test]
    fn weights_decide() {
        let mut counts = [0; 3];
        for _ in 0..10_000 {
            counts[weighted(&[(0, 1), (1, 0), (2, 3)]).unwrap()] += 1;
        }
        assert!((2200..2800).contains(&counts[0]) && counts[1] == 0, "{counts:?}");
        assert_eq!(weighted::<usize>(&[]), None);
    }
}
