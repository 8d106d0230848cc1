//! Clusters: their hosts, how one is chosen, and their statistics.

mod dns;
mod ring;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::bootstrap::{ClusterConfig, Discovery, Policy};
use crate::stats::{Block, ClusterStat, Histogram, Http2Stat, Scope, Stats, Statuses, Value};
use crate::tls::TlsStats;

pub(crate) use dns::resolve_all;
pub(crate) use ring::{xx_hash, xx_hash_from};

use ring::Ring;

/// Hosts of a cluster of original destinations.
const MAX_DESTINATIONS: usize = 16 << 10;

/// A host of a cluster.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    /// The name that it was resolved from.
    pub(crate) hostname: String,
    /// How often it is chosen, compared with others.
    pub(crate) weight: u32,
    /// Whether it was chosen since the last look; of original destinations only.
    is_used: AtomicBool,
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
    fn new(address: SocketAddr, hostname: &str, weight: u32) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            address,
            hostname: hostname.to_owned(),
            weight,
            is_used: AtomicBool::new(true),
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
    /// `None` for clusters without HTTP/2.
    pub(crate) http2: Option<Arc<Block<Http2Stat>>>,
}

impl ClusterStats {
    /// Counts a stream that its host reset.
    pub(crate) fn count_rx_reset(&self) {
        self.block.increment(ClusterStat::UpstreamRqRxReset);
        if let Some(http2) = &self.http2 {
            http2.increment(Http2Stat::RxReset);
        }
    }

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
    /// The hosts of a cluster of original destinations.
    destinations: Mutex<HashMap<SocketAddr, Arc<Host>>>,
    /// Grows whenever the hosts change.
    generation: AtomicU64,
    /// The ring of consistent hashing, and the generation of hosts that it is made of; all workers share it.
    ring: Mutex<(u64, Arc<Ring>)>,
    in_flight: InFlight,
}

/// What counts towards the thresholds.
#[derive(Debug, Default)]
struct InFlight {
    connections: AtomicU64,
    pending: AtomicU64,
    requests: AtomicU64,
    retries: AtomicU64,
}

impl InFlight {
    fn of(&self, kind: Kind) -> &AtomicU64 {
        match kind {
            Kind::Connection => &self.connections,
            Kind::Pending => &self.pending,
            Kind::Request => &self.requests,
            Kind::Retry => &self.retries,
        }
    }
}

/// What thresholds bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Connection,
    /// A request that waits for a connection.
    Pending,
    Request,
    Retry,
}

/// Gauges of thresholds: whether one is reached, and what is left.
const BREAKERS: [(Kind, &str, &str); 4] = [
    (Kind::Connection, "circuit_breakers.default.cx_open", "circuit_breakers.default.remaining_cx"),
    (Kind::Pending, "circuit_breakers.default.rq_pending_open", "circuit_breakers.default.remaining_pending"),
    (Kind::Request, "circuit_breakers.default.rq_open", "circuit_breakers.default.remaining_rq"),
    (Kind::Retry, "circuit_breakers.default.rq_retry_open", "circuit_breakers.default.remaining_retries"),
];

impl Cluster {
    pub(crate) fn new(config: ClusterConfig, stats: &Stats) -> Arc<Self> {
        let scope = Scope::Cluster(config.name.clone());
        let hosts: Hosts = match &config.discovery {
            Discovery::Static(addresses) => {
                addresses.iter().map(|(address, weight)| Arc::new(Host::new(*address, "", *weight))).collect()
            }
            Discovery::Dns { .. } | Discovery::OriginalDestination(_) => Arc::new([]),
        };
        let stats_of = ClusterStats {
            block: stats.block(&scope),
            statuses: stats.statuses(&scope, &["upstream_rq_", "external.upstream_rq_"]),
            retried_statuses: stats.statuses(&scope, &["retry.upstream_rq_"]),
            connect_time: stats.histogram(&scope, "upstream_cx_connect_ms"),
            connection_length: stats.histogram(&scope, "upstream_cx_length_ms"),
            request_time: stats.histogram(&scope, "upstream_rq_time"),
            tls: config.tls.is_some().then(|| TlsStats::new(stats, &scope)),
            http2: config.http2.map(|_| stats.block(&scope)),
        };
        let cluster = Arc::new(Self {
            config,
            stats: stats_of,
            hosts: Mutex::new(hosts),
            destinations: Mutex::default(),
            generation: AtomicU64::new(1),
            ring: Mutex::default(),
            in_flight: InFlight::default(),
        });
        for (kind, open, remaining) in BREAKERS {
            let counted = Arc::clone(&cluster);
            stats.computed(&scope, open, move || Value::Gauge(u64::from(counted.remaining(kind) == 0)));
            if cluster.config.thresholds.shows_remaining {
                let counted = Arc::clone(&cluster);
                stats.computed(&scope, remaining, move || Value::Gauge(counted.remaining(kind)));
            }
        }
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

    /// The current hosts. Cost: a lock; for original destinations also a copy of the list.
    pub(crate) fn hosts(&self) -> Hosts {
        if let Discovery::OriginalDestination(_) = self.config.discovery {
            return self.destinations.lock().values().map(Arc::clone).collect();
        }
        Arc::clone(&self.hosts.lock())
    }

    /// Grows whenever the hosts change. Cost: an atomic read.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The ring of hosts, made by the first who asks for that of a generation.
    fn ring(&self, generation: u64, hosts: &Hosts, sizes: (u64, u64)) -> Arc<Ring> {
        let mut ring = self.ring.lock();
        if ring.0 != generation {
            *ring = (generation, Arc::new(Ring::new(hosts, sizes)));
        }
        Arc::clone(&ring.1)
    }

    /// Replaces the hosts by these addresses; those that stay keep their statistics. Returns whether anything changed.
    fn replace_hosts(&self, addresses: &[(SocketAddr, &str, u32)]) -> bool {
        let mut hosts = self.hosts.lock();
        let same = hosts.len() == addresses.len()
            && addresses.iter().all(|(address, _, _)| hosts.iter().any(|host| host.address == *address));
        if same {
            return false;
        }
        let next = addresses.iter().map(|(address, name, weight)| {
            let kept = hosts.iter().find(|host| host.address == *address);
            kept.map_or_else(|| Arc::new(Host::new(*address, name, *weight)), Arc::clone)
        });
        let next: Hosts = next.collect();
        *hosts = next;
        self.generation.fetch_add(1, Ordering::Release);
        true
    }

    /// The host of an original destination; a new one if there is none yet. `None` if there are too many.
    fn destination(&self, address: SocketAddr) -> Option<Arc<Host>> {
        let mut destinations = self.destinations.lock();
        if let Some(found) = destinations.get(&address) {
            found.is_used.store(true, Ordering::Relaxed);
            return Some(Arc::clone(found));
        }
        if destinations.len() >= MAX_DESTINATIONS {
            return None;
        }
        let new = Arc::new(Host::new(address, "", 1));
        destinations.insert(address, Arc::clone(&new));
        self.stats.block.increment(ClusterStat::MembershipChange);
        Some(new)
    }

    /// Forgets original destinations that were not used since the last call, and that have no connection in use.
    fn forget_unused(&self) {
        let mut destinations = self.destinations.lock();
        let before = destinations.len();
        destinations.retain(|_, host| {
            host.is_used.swap(false, Ordering::Relaxed) || host.active_requests.load(Ordering::Relaxed) > 0
        });
        if destinations.len() < before {
            self.stats.block.increment(ClusterStat::MembershipChange);
        }
    }

    fn limit(&self, kind: Kind) -> u64 {
        let thresholds = &self.config.thresholds;
        match kind {
            Kind::Connection => thresholds.connections,
            Kind::Pending => thresholds.pending,
            Kind::Request => thresholds.requests,
            Kind::Retry => thresholds.retries,
        }
    }

    /// What is left up to the threshold of this kind.
    pub(crate) fn remaining(&self, kind: Kind) -> u64 {
        self.limit(kind).saturating_sub(self.in_flight.of(kind).load(Ordering::Relaxed))
    }

    /// Claims a place among what is in flight of this kind; `None` if there is too much.
    pub(crate) fn admit(self: &Arc<Self>, kind: Kind) -> Option<Admitted> {
        let admitted = self.count(kind);
        let before = admitted.before;
        (before < self.limit(kind)).then_some(admitted)
    }

    /// Counts what is in flight, whether there is too much or not.
    pub(crate) fn count(self: &Arc<Self>, kind: Kind) -> Admitted {
        let before = self.in_flight.of(kind).fetch_add(1, Ordering::Relaxed);
        Admitted { cluster: Arc::clone(self), kind, before }
    }
}

/// A place among what is in flight of a cluster; released on drop.
#[derive(Debug)]
pub(crate) struct Admitted {
    cluster: Arc<Cluster>,
    kind: Kind,
    /// How many were there before.
    before: u64,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.cluster.in_flight.of(self.kind).fetch_sub(1, Ordering::Relaxed);
    }
}

/// Forgets the unused destinations of a cluster of original destinations, again and again.
pub(crate) async fn forget_destinations(cluster: Arc<Cluster>) {
    let Discovery::OriginalDestination(interval) = cluster.config.discovery else { return };
    loop {
        tokio::time::sleep(interval).await;
        cluster.forget_unused();
    }
}

/// What is wanted of a host.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// The hash of the request, for consistent hashing; `None` for a host at random.
    pub(crate) hash: Option<u64>,
    /// The original destination.
    pub(crate) destination: Option<SocketAddr>,
}

/// Chooses hosts of a cluster for one worker.
#[derive(Debug)]
pub(crate) struct Balancer {
    cluster: Arc<Cluster>,
    generation: u64,
    hosts: Hosts,
    next: usize,
    /// When each host is due, if their weights differ; empty if they do not.
    due: Vec<f64>,
    /// With consistent hashing.
    ring: Arc<Ring>,
}

impl Balancer {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self {
            cluster,
            generation: 0,
            hosts: Arc::new([]),
            next: usize::MAX,
            due: Vec::new(),
            ring: Arc::default(),
        }
    }

    /// A host; `None` if the cluster has none.
    pub(crate) fn choose(&mut self, wanted: Wanted) -> Option<Arc<Host>> {
        if let Policy::OriginalDestination(_) = self.cluster.config.policy {
            return self.cluster.destination(wanted.destination?);
        }
        let generation = self.cluster.generation();
        if generation != self.generation {
            self.hosts = self.cluster.hosts();
            self.generation = generation;
            let is_weighted =
                self.hosts.windows(2).any(|pair| matches!(pair, [a, b] if a.weight != b.weight));
            // At random first, so that workers do not all begin with the same host.
            let due = self.hosts.iter().map(|host| fastrand::f64() / f64::from(host.weight));
            self.due = if is_weighted { due.collect() } else { Vec::new() };
            if let (Policy::RingHash(sizes), false) = (self.cluster.config.policy, self.hosts.is_empty()) {
                self.ring = self.cluster.ring(generation, &self.hosts, sizes);
            }
        }
        let count = self.hosts.len();
        if count == 0 {
            return None;
        }
        let index = match self.cluster.config.policy {
            Policy::RoundRobin | Policy::LeastRequest if !self.due.is_empty() => self.next_due(),
            Policy::RoundRobin => {
                // Workers begin at different hosts.
                self.next =
                    if self.next == usize::MAX { fastrand::usize(..count) } else { (self.next + 1) % count };
                self.next % count
            }
            Policy::Random | Policy::OriginalDestination(_) => fastrand::usize(..count),
            Policy::RingHash(_) => self.ring.find(wanted.hash.unwrap_or_else(|| fastrand::u64(..))),
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

    /// The host that is due first; it is due again after a time that is the shorter the higher its weight is, and, with
    /// `LEAST_REQUEST`, the longer the more requests it has. Cost: O(hosts).
    fn next_due(&mut self) -> usize {
        let first = self.due.iter().enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
        let index = first.map_or(0, |(index, _)| index);
        if let (Some(due), Some(host)) = (self.due.get_mut(index), self.hosts.get(index)) {
            let load = match self.cluster.config.policy {
                Policy::LeastRequest => host.active_requests.load(Ordering::Relaxed) as f64 + 1.0,
                _ => 1.0,
            };
            *due += load / f64::from(host.weight);
        }
        index
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
    use crate::bootstrap::Thresholds;

    fn cluster(policy: Policy, hosts: u16) -> Arc<Cluster> {
        weighted_cluster(policy, &vec![1; usize::from(hosts)])
    }

    /// A cluster with a host of each weight, at ports from 1000.
    fn weighted_cluster(policy: Policy, weights: &[u32]) -> Arc<Cluster> {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], 1000 + port));
        let addresses = (0..).zip(weights).map(|(port, weight)| (address(port), *weight)).collect();
        let config = ClusterConfig {
            name: "c".to_owned(),
            discovery: Discovery::Static(addresses),
            connect_timeout: Duration::from_secs(1),
            policy,
            thresholds: Thresholds { requests: 20, retries: 2, ..Thresholds::default() },
            tls: None,
            http2: None,
        };
        Cluster::new(config, &Stats::default())
    }

    #[test]
    fn round_robin_takes_hosts_in_turn() {
        let mut balancer = Balancer::new(cluster(Policy::RoundRobin, 3));
        let mut counts = [0; 3];
        for _ in 0..300 {
            counts[usize::from(balancer.choose(Wanted::default()).unwrap().address.port() - 1000)] += 1;
        }
        assert_eq!(counts, [100; 3]);
        assert!(Balancer::new(cluster(Policy::RoundRobin, 0)).choose(Wanted::default()).is_none());
    }

    #[test]
    fn least_request_avoids_the_busy_host() {
        let mut balancer = Balancer::new(cluster(Policy::LeastRequest, 2));
        let busy = balancer.cluster.hosts()[0].clone();
        busy.active_requests.store(10, Ordering::Relaxed);
        let chosen =
            (0..400).filter(|_| balancer.choose(Wanted::default()).unwrap().address == busy.address).count();
        assert!((50..150).contains(&chosen), "only if it was drawn twice: {chosen}");
    }

    #[test]
    fn hosts_that_stay_keep_their_statistics() {
        let cluster = cluster(Policy::Random, 2);
        let kept = cluster.hosts()[1].clone();
        kept.requests.store(7, Ordering::Relaxed);
        assert!(!cluster.replace_hosts(&[(kept.address, "", 1), (cluster.hosts()[0].address, "", 1)]));
        assert!(cluster.replace_hosts(&[(kept.address, "name", 1)]));
        assert_eq!(cluster.hosts()[0].requests.load(Ordering::Relaxed), 7);
        let mut balancer = Balancer::new(cluster);
        assert_eq!(balancer.choose(Wanted::default()).unwrap().address, kept.address);
    }

    #[test]
    fn requests_in_flight_are_bounded() {
        let cluster = cluster(Policy::Random, 1);
        for (kind, limit) in [(Kind::Request, 20), (Kind::Retry, 2), (Kind::Connection, 1024)] {
            let admitted: Vec<_> = (0..limit).map(|_| cluster.admit(kind).unwrap()).collect();
            assert_eq!((cluster.admit(kind).is_some(), cluster.remaining(kind)), (false, 0), "{kind:?}");
            drop(admitted);
            assert!(cluster.admit(kind).is_some());
            assert_eq!(cluster.remaining(kind), limit);
        }
    }

    #[test]
    fn hosts_are_chosen_by_weight() {
        for policy in [Policy::RoundRobin, Policy::LeastRequest] {
            let mut balancer = Balancer::new(weighted_cluster(policy, &[1, 3, 4]));
            let mut counts = [0; 3];
            for _ in 0..800 {
                counts[usize::from(balancer.choose(Wanted::default()).unwrap().address.port() - 1000)] += 1;
            }
            let is_near = |count: i32, expected: i32| (count - expected).abs() <= 1;
            assert!(
                is_near(counts[0], 100) && is_near(counts[1], 300) && is_near(counts[2], 400),
                "{counts:?}"
            );
        }
        let mut balancer = Balancer::new(weighted_cluster(Policy::LeastRequest, &[1, 2]));
        balancer.cluster.hosts()[1].active_requests.store(9, Ordering::Relaxed);
        let busy =
            (0..600).filter(|_| balancer.choose(Wanted::default()).unwrap().address.port() == 1001).count();
        assert!((95..=105).contains(&busy), "2 / 10 of 1 + 2 / 10: {busy}");
    }

    #[test]
    fn destinations_are_made_and_forgotten() {
        let mut config = cluster(Policy::Random, 0).config.clone();
        config.policy = Policy::OriginalDestination(false);
        config.discovery = Discovery::OriginalDestination(Duration::from_secs(1));
        let cluster = Cluster::new(config, &Stats::default());
        let mut balancer = Balancer::new(Arc::clone(&cluster));
        assert!(balancer.choose(Wanted::default()).is_none());
        let wanted = |port| Wanted { destination: Some(([127, 0, 0, 1], port).into()), ..Wanted::default() };
        let first = balancer.choose(wanted(1)).unwrap();
        assert!(Arc::ptr_eq(&first, &balancer.choose(wanted(1)).unwrap()));
        balancer.choose(wanted(2)).unwrap();
        cluster.forget_unused();
        assert_eq!(cluster.hosts().len(), 2, "they were used");
        balancer.choose(wanted(2)).unwrap();
        cluster.forget_unused();
        assert_eq!(cluster.hosts().iter().map(|host| host.address.port()).collect::<Vec<_>>(), [2]);
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
