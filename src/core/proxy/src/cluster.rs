//! Clusters: their hosts, how one is chosen, and their statistics.

mod balancer;
mod dns;
mod host;
mod outlier;
mod ring;
mod usable;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::bootstrap::{ClusterConfig, Discovery, Policy};
use crate::stats::{Block, ClusterStat, HealthStat, Histogram, Http2Stat, Scope, Stats, Statuses, Value};
use crate::tls::TlsStats;

pub(crate) use balancer::{Balancer, Wanted};
pub(crate) use dns::resolve_all;
pub(crate) use host::{Health, Host};
pub(crate) use outlier::{Outcome, detect_outliers};
pub(crate) use ring::{xx_hash, xx_hash_from};

use outlier::Detector;
use ring::{HostRing, is_large};
use usable::Usable;

/// Hosts of a cluster of original destinations.
const MAX_DESTINATIONS: usize = 16 << 10;

/// The statistics of a cluster.
#[derive(Debug)]
pub(crate) struct ClusterStats {
    pub(crate) block: Arc<Block<ClusterStat>>,
    /// Of requests of clients, and of those of the proxy itself.
    statuses: [Arc<Statuses>; 2],
    pub(crate) retried_statuses: Arc<Statuses>,
    pub(crate) connect_time: Arc<Histogram>,
    pub(crate) connection_length: Arc<Histogram>,
    pub(crate) request_time: Arc<Histogram>,
    /// `None` for clusters of plain text.
    pub(crate) tls: Option<TlsStats>,
    /// `None` without health checks.
    pub(crate) health: Option<Arc<Block<HealthStat>>>,
    /// `None` for clusters without HTTP/2.
    pub(crate) http2: Option<Arc<Block<Http2Stat>>>,
}

impl ClusterStats {
    /// Counts a response to a request of a client.
    pub(crate) fn count_response(&self, status: u16) {
        let [external, _] = &self.statuses;
        self.count(external, status);
    }

    /// Counts a response to a copy of a request.
    pub(crate) fn count_internal_response(&self, status: u16) {
        let [_, internal] = &self.statuses;
        self.count(internal, status);
    }

    fn count(&self, statuses: &Statuses, status: u16) {
        self.block.increment(ClusterStat::UpstreamRqCompleted);
        statuses.increment(status);
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

/// All hosts, and those of them that get requests.
#[derive(Debug)]
struct Members {
    all: Hosts,
    usable: Usable,
}

/// A cluster, shared by all workers.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) config: ClusterConfig,
    pub(crate) stats: ClusterStats,
    hosts: Mutex<Members>,
    /// Grows whenever hosts come or go, and tells whether names were resolved once.
    members: watch::Sender<(u64, bool)>,
    /// The hosts of a cluster of original destinations.
    destinations: Mutex<HashMap<SocketAddr, Arc<Host>>>,
    /// Grows whenever the hosts that get requests change.
    generation: AtomicU64,
    /// Outlier detection.
    detector: Option<Detector>,
    /// The ring of consistent hashing; all workers share it.
    ring: Mutex<SharedRing>,
    in_flight: InFlight,
}

/// The last ring, and whether the next one is being built.
#[derive(Debug, Default)]
struct SharedRing {
    last: Arc<HostRing>,
    is_building: bool,
}

/// The construction of a ring; there is one at a time.
struct Building(Arc<Cluster>);

impl Building {
    /// Builds the ring. Cost: as of [`HostRing::new`], up to a second.
    fn run(self, generation: u64, hosts: &Hosts, sizes: (u64, u64)) {
        let ring = Arc::new(HostRing::new(generation, hosts, sizes));
        self.0.ring.lock().last = ring;
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        self.0.ring.lock().is_building = false;
    }
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

/// A host of a cluster. One that is checked gets requests once a check has succeeded.
fn new_host(config: &ClusterConfig, address: SocketAddr, name: &str, weight: u32) -> Arc<Host> {
    let mut host = Host::new(address, name, weight);
    host.monitor = config.outlier.as_ref().map(|_| Box::default());
    if config.health_check.is_some() {
        host.set(Health::FailedActive, true);
    }
    Arc::new(host)
}

impl Cluster {
    /// Counts a request that is given up: of HTTP/2, whose streams are reset. A connection of HTTP/1.1 is closed, which counts apart.
    pub(crate) fn count_reset(&self) {
        if self.config.http2.is_some() {
            self.stats.block.increment(ClusterStat::UpstreamRqTxReset);
        }
    }

    pub(crate) fn new(config: ClusterConfig, stats: &Stats) -> Arc<Self> {
        let scope = Scope::Cluster(config.name.clone());
        let hosts: Hosts = match &config.discovery {
            Discovery::Static(addresses) => {
                addresses.iter().map(|(address, weight)| new_host(&config, *address, "", *weight)).collect()
            }
            Discovery::Dns { .. } | Discovery::OriginalDestination(_) => Arc::new([]),
        };
        let stats_of = ClusterStats {
            block: stats.block(&scope),
            statuses: stats.statuses_by_origin(&scope),
            retried_statuses: stats.statuses(&scope, "retry.upstream_rq_"),
            connect_time: stats.histogram(&scope, "upstream_cx_connect_ms"),
            connection_length: stats.histogram(&scope, "upstream_cx_length_ms"),
            request_time: stats.histogram(&scope, "upstream_rq_time"),
            tls: config.tls.is_some().then(|| TlsStats::new(stats, &scope)),
            health: config.health_check.is_some().then(|| stats.block(&scope)),
            http2: config.http2.map(|_| stats.block(&scope)),
        };
        let usable = Usable::of(&hosts, config.panic_threshold);
        let detector = config.outlier.clone().map(|outlier| Detector::new(outlier, stats.block(&scope)));
        let is_resolved = !matches!(config.discovery, Discovery::Dns { .. });
        let cluster = Arc::new(Self {
            config,
            stats: stats_of,
            hosts: Mutex::new(Members { all: hosts, usable }),
            members: watch::Sender::new((0, is_resolved)),
            destinations: Mutex::default(),
            generation: AtomicU64::new(1),
            detector,
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
        let gauge = |name, counts: fn(&Host) -> bool| {
            let counted = Arc::clone(&cluster);
            stats.computed(&scope, name, move || {
                let count = counted.hosts().iter().filter(|host| counts(host)).count();
                Value::Gauge(u64::try_from(count).unwrap_or(u64::MAX))
            });
        };
        gauge("membership_total", |_| true);
        gauge("membership_healthy", Host::is_healthy);
        if cluster.config.health_check.is_some() {
            gauge("health_check.healthy", |host| !host.has(Health::FailedActive));
        }
        if cluster.config.outlier.is_some() {
            gauge("outlier_detection.ejections_active", |host| host.has(Health::FailedOutlier));
        }
        if let Discovery::Static(addresses) = &cluster.config.discovery
            && !addresses.is_empty()
        {
            cluster.stats.block.increment(ClusterStat::MembershipChange);
            if let Some((sizes, building)) = cluster.begin_ring() {
                building.run(cluster.generation(), &cluster.usable().hosts, sizes);
            }
        }
        cluster
    }

    /// The current hosts. Cost: a lock; for original destinations also a copy of the list.
    pub(crate) fn hosts(&self) -> Hosts {
        if let Discovery::OriginalDestination(_) = self.config.discovery {
            return self.destinations.lock().values().map(Arc::clone).collect();
        }
        Arc::clone(&self.hosts.lock().all)
    }

    /// The hosts that get requests. Cost: a lock.
    fn usable(&self) -> Usable {
        self.hosts.lock().usable.clone()
    }

    /// Tells when hosts come or go, and whether names were resolved once.
    pub(crate) fn members(&self) -> watch::Receiver<(u64, bool)> {
        self.members.subscribe()
    }

    /// Sets or clears what active health checks know of a host. Returns whether that is a change.
    pub(crate) fn set_health(&self, host: &Host, health: Health, is_set: bool) -> bool {
        let has_changed = host.set(health, is_set);
        if has_changed && health == Health::FailedActive {
            self.health_changed();
        }
        has_changed
    }

    /// The health of a host has changed.
    fn health_changed(&self) {
        let mut members = self.hosts.lock();
        let is_gone = |host: &Host| host.has(Health::PendingRemoval) && host.has(Health::FailedActive);
        if members.all.iter().any(|host| is_gone(host)) {
            members.all = members.all.iter().filter(|host| !is_gone(host)).map(Arc::clone).collect();
            self.members.send_modify(|(count, _)| *count += 1);
            self.stats.block.increment(ClusterStat::MembershipChange);
        }
        self.refresh(&mut members);
    }

    /// Chooses the hosts that get requests again.
    fn refresh(&self, members: &mut Members) {
        members.usable = Usable::of(&members.all, self.config.panic_threshold);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Grows whenever the hosts that get requests change. Cost: an atomic read.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The ring of hosts, made by the first who asks for that of a generation. A large one is built on another thread; until it is there,
    /// that of the hosts before is used.
    fn ring(self: &Arc<Self>, generation: u64, hosts: &Hosts) -> Arc<HostRing> {
        let last = Arc::clone(&self.ring.lock().last);
        if last.generation == generation {
            return last;
        }
        let Some((sizes, building)) = self.begin_ring() else { return last };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) if is_large(hosts, sizes) => {
                let hosts = Arc::clone(hosts);
                drop(runtime.spawn_blocking(move || building.run(generation, &hosts, sizes)));
                last
            }
            _ => {
                building.run(generation, hosts, sizes);
                Arc::clone(&self.ring.lock().last)
            }
        }
    }

    /// Begins to build a ring; `None` if there are none, or one is being built.
    fn begin_ring(self: &Arc<Self>) -> Option<((u64, u64), Building)> {
        let Policy::RingHash(sizes) = self.config.policy else { return None };
        let is_building = std::mem::replace(&mut self.ring.lock().is_building, true);
        (!is_building).then(|| (sizes, Building(Arc::clone(self))))
    }

    /// Builds the ring of the current hosts on another thread, before workers need it.
    async fn prepare_ring(self: &Arc<Self>) {
        let (generation, hosts) = (self.generation(), self.usable().hosts);
        if hosts.is_empty() || self.ring.lock().last.generation == generation {
            return;
        }
        if let Some((sizes, building)) = self.begin_ring() {
            // It ends early when the process does.
            let _ = tokio::task::spawn_blocking(move || building.run(generation, &hosts, sizes)).await;
        }
    }

    /// Replaces the hosts by these addresses; those that stay keep their statistics, and those whose health checks succeed stay. Returns
    /// whether anything changed.
    pub(crate) fn replace_hosts(&self, addresses: &[(SocketAddr, &str, u32)]) -> bool {
        let mut members = self.hosts.lock();
        let is_named = |host: &Host| addresses.iter().any(|(address, _, _)| host.address == *address);
        let keeps_healthy = self.config.health_check.as_ref().is_some_and(|check| !check.removes_healthy);
        let stays = |host: &Host| is_named(host) || (keeps_healthy && !host.has(Health::FailedActive));
        for host in members.all.iter() {
            host.set(Health::PendingRemoval, !is_named(host));
        }
        let known = |address: SocketAddr| members.all.iter().find(|host| host.address == address);
        if addresses.iter().all(|(address, _, _)| known(*address).is_some())
            && members.all.iter().all(|host| stays(host))
        {
            return false;
        }
        let named = addresses.iter().map(|(address, name, weight)| {
            known(*address).map_or_else(|| new_host(&self.config, *address, name, *weight), Arc::clone)
        });
        let kept = members.all.iter().filter(|host| !is_named(host) && stays(host)).map(Arc::clone);
        let next: Hosts = named.chain(kept).collect();
        members.all = next;
        self.refresh(&mut members);
        self.members.send_modify(|(count, _)| *count += 1);
        true
    }

    /// Says that names were resolved, or could not be.
    fn set_resolved(&self) {
        self.members.send_modify(|(_, is_resolved)| *is_resolved = true);
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

/// Chooses one of several clusters by weight: the same for the same `random` number.
pub(crate) fn weighted<T: Copy>(choices: &[(T, u32)], random: u64) -> Option<T> {
    if let [(only, _)] = choices {
        return Some(*only);
    }
    let sum: u64 = choices.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let mut pick = random.checked_rem(sum)?;
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
mod tests;
