//! The choice of a host, made by each worker for itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Cluster, Host, HostRing, Hosts};
use crate::bootstrap::Policy;
use crate::stats::ClusterStat;

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
    pub(super) cluster: Arc<Cluster>,
    generation: u64,
    hosts: Hosts,
    /// Whether the hosts are all, because too few are healthy.
    panics: bool,
    next: usize,
    /// When each host is due, if their weights differ; empty if they do not.
    due: Vec<f64>,
    /// With consistent hashing.
    ring: Arc<HostRing>,
}

impl Balancer {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self {
            cluster,
            generation: 0,
            hosts: Arc::new([]),
            panics: false,
            next: usize::MAX,
            due: Vec::new(),
            ring: Arc::default(),
        }
    }

    /// A host; `None` if the cluster has none that gets requests.
    pub(crate) fn choose(&mut self, wanted: Wanted) -> Option<Arc<Host>> {
        if let Policy::OriginalDestination(_) = self.cluster.config.policy {
            return self.cluster.destination(wanted.destination?);
        }
        let generation = self.cluster.generation();
        if generation != self.generation {
            let usable = self.cluster.usable();
            (self.hosts, self.panics) = (usable.hosts, usable.panics);
            self.generation = generation;
            let is_weighted =
                self.hosts.windows(2).any(|pair| matches!(pair, [a, b] if a.weight != b.weight));
            // At random first, so that workers do not all begin with the same host.
            let due = self.hosts.iter().map(|host| fastrand::f64() / f64::from(host.weight));
            self.due = if is_weighted { due.collect() } else { Vec::new() };
        }
        let count = self.hosts.len();
        if self.panics {
            self.cluster.stats.block.increment(ClusterStat::LbHealthyPanic);
        }
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
            Policy::RingHash(_) => {
                if self.ring.generation != generation {
                    self.ring = self.cluster.ring(generation, &self.hosts);
                }
                // Before the first ring there is: any.
                let host = self.ring.host(wanted.hash.unwrap_or_else(|| fastrand::u64(..)));
                return host.or_else(|| self.hosts.get(fastrand::usize(..count)).cloned());
            }
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
