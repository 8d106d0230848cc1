//! Outlier detection: hosts that answer badly get no requests for a while.
//!
//! What became of requests is counted by the workers; consecutive failures eject a host at once, rates do at the end of an interval, which
//! also is when hosts come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Cluster, Health, Host, Hosts};
use crate::bootstrap::OutlierConfig;
use crate::stats::{Block, OutlierStat};

/// What became of a request or a connection to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The host answered with this status.
    Status(u16),
    /// A connection for a request is open.
    Connected,
    /// A connection is open, and nothing more is known of it: its protocol is not HTTP.
    Served,
    /// There is no connection, or it ended before the response did.
    Failed,
    /// There was no connection, or no response, in time.
    TimedOut,
}

/// Why a host is an outlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Consecutive5xx,
    ConsecutiveGatewayFailure,
    ConsecutiveLocalFailure,
    /// Of requests, and of what the proxy itself saw.
    SuccessRate(Origin),
    FailurePercentage(Origin),
}

/// Where failures come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    External,
    Local,
}

impl Origin {
    /// What is of this origin.
    fn of<T>(self, [external, local]: &[T; 2]) -> &T {
        match self {
            Origin::External => external,
            Origin::Local => local,
        }
    }

    /// As [`of`](Self::of).
    fn of_mut<T>(self, [external, local]: &mut [T; 2]) -> &mut T {
        match self {
            Origin::External => external,
            Origin::Local => local,
        }
    }
}

/// What is known of a host.
#[derive(Debug)]
pub(super) struct Monitor {
    consecutive_5xx: AtomicU32,
    consecutive_gateway_failures: AtomicU32,
    consecutive_local_failures: AtomicU32,
    /// Of this interval: all, and those that succeeded; by [`Origin`].
    counts: [[AtomicU64; 2]; 2],
    /// The rates of the last interval.
    rates: Mutex<[f64; 2]>,
    ejection: Mutex<Ejection>,
}

/// When a host was ejected, and for how long.
#[derive(Debug, Default)]
struct Ejection {
    at: Option<Instant>,
    /// How many base times it lasts: grows with each ejection, shrinks with each interval without one.
    count: u32,
    jitter: Duration,
}

impl Default for Monitor {
    fn default() -> Self {
        Self {
            consecutive_5xx: AtomicU32::new(0),
            consecutive_gateway_failures: AtomicU32::new(0),
            consecutive_local_failures: AtomicU32::new(0),
            counts: Default::default(),
            rates: Mutex::new([-1.0; 2]),
            ejection: Mutex::default(),
        }
    }
}

impl Monitor {
    /// The success rates of the last interval, in percent; −1 if there are none.
    pub(super) fn rates(&self) -> [f64; 2] {
        *self.rates.lock()
    }

    /// The counter of a kind that has one.
    fn consecutive(&self, kind: Kind) -> Option<&AtomicU32> {
        match kind {
            Kind::Consecutive5xx => Some(&self.consecutive_5xx),
            Kind::ConsecutiveGatewayFailure => Some(&self.consecutive_gateway_failures),
            Kind::ConsecutiveLocalFailure => Some(&self.consecutive_local_failures),
            Kind::SuccessRate(_) | Kind::FailurePercentage(_) => None,
        }
    }

    fn count(&self, origin: Origin, is_success: bool) {
        let [all, succeeded] = origin.of(&self.counts);
        all.fetch_add(1, Ordering::Relaxed);
        if is_success {
            succeeded.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the counts of an interval.
    fn take_counts(&self) -> [[u64; 2]; 2] {
        self.counts.each_ref().map(|of| of.each_ref().map(|count| count.swap(0, Ordering::Relaxed)))
    }
}

/// Finds outliers among the hosts of a cluster.
#[derive(Debug)]
pub(super) struct Detector {
    config: OutlierConfig,
    stats: Arc<Block<OutlierStat>>,
    /// Averages and thresholds of success rates, by [`Origin`]. Locked while hosts are ejected, so that there are not too many.
    rates: Mutex<[[f64; 2]; 2]>,
}

/// No average and no threshold.
const NO_RATES: [f64; 2] = [-1.0; 2];

impl Detector {
    pub(super) fn new(config: OutlierConfig, stats: Arc<Block<OutlierStat>>) -> Self {
        Self { config, stats, rates: Mutex::new([NO_RATES; 2]) }
    }

    /// Averages and thresholds of success rates of the last interval; −1 where there is none.
    pub(super) fn rates(&self) -> [[f64; 2]; 2] {
        *self.rates.lock()
    }

    /// Counts what became of a request. Returns whether the host was ejected. Cost: atomic counters; a lock when it is an outlier.
    pub(super) fn record(&self, host: &Host, outcome: Outcome, hosts: impl Fn() -> Hosts) -> bool {
        let Some(monitor) = &host.monitor else { return false };
        let status = match (self.config.splits_origins, outcome) {
            (_, Outcome::Status(status)) => status,
            (false, Outcome::Connected) => return false,
            (false, Outcome::Served) => 200,
            (false, Outcome::Failed) => 503,
            (false, Outcome::TimedOut) => 504,
            (true, Outcome::Connected | Outcome::Served) => {
                monitor.count(Origin::Local, true);
                monitor.consecutive_local_failures.store(0, Ordering::Relaxed);
                return false;
            }
            (true, Outcome::Failed | Outcome::TimedOut) => {
                monitor.count(Origin::Local, false);
                return self.count_failure(Kind::ConsecutiveLocalFailure, host, monitor, &hosts);
            }
        };
        let is_failure = (500..600).contains(&status);
        monitor.count(Origin::External, !is_failure);
        if !is_failure {
            monitor.consecutive_5xx.store(0, Ordering::Relaxed);
            monitor.consecutive_gateway_failures.store(0, Ordering::Relaxed);
            return false;
        }
        let by_gateway = match status {
            502..=504 => self.count_failure(Kind::ConsecutiveGatewayFailure, host, monitor, &hosts),
            _ => {
                monitor.consecutive_gateway_failures.store(0, Ordering::Relaxed);
                false
            }
        };
        self.count_failure(Kind::Consecutive5xx, host, monitor, &hosts) || by_gateway
    }

    fn count_failure(&self, kind: Kind, host: &Host, monitor: &Monitor, hosts: &impl Fn() -> Hosts) -> bool {
        let limit = match kind {
            Kind::Consecutive5xx => self.config.consecutive_5xx,
            Kind::ConsecutiveGatewayFailure => self.config.consecutive_gateway_failures,
            _ => self.config.consecutive_local_failures,
        };
        let Some(counter) = monitor.consecutive(kind) else { return false };
        let is_reached = counter.fetch_add(1, Ordering::Relaxed).wrapping_add(1) == limit;
        if !is_reached || host.has(Health::FailedOutlier) {
            return false;
        }
        let _one_at_a_time = self.rates.lock();
        let ejects = self.detect(kind, host, monitor, &hosts(), Instant::now());
        counter.store(0, Ordering::Relaxed);
        ejects
    }

    /// Counts an outlier, and ejects it unless too many are, or the configuration says that it is to be counted only.
    fn detect(&self, kind: Kind, host: &Host, monitor: &Monitor, hosts: &Hosts, now: Instant) -> bool {
        self.stats.increment(detected(kind));
        let deprecated = match kind {
            Kind::Consecutive5xx => Some(OutlierStat::Consecutive5xx),
            Kind::SuccessRate(_) => Some(OutlierStat::SuccessRate),
            _ => None,
        };
        if let Some(stat) = deprecated {
            self.stats.increment(stat);
        }
        let ejected = hosts.iter().filter(|host| host.has(Health::FailedOutlier)).count();
        let share = 100.0 * (ejected + 1) as f64 / hosts.len().max(1) as f64;
        let may_eject = share <= f64::from(self.config.max_ejection_percent)
            || (self.config.always_ejects_one && ejected == 0);
        if !may_eject {
            self.stats.increment(OutlierStat::Overflow);
            return false;
        }
        if matches!(kind, Kind::Consecutive5xx | Kind::SuccessRate(Origin::External)) {
            self.stats.increment(OutlierStat::Total);
        }
        let enforcing = match kind {
            Kind::Consecutive5xx => self.config.enforcing_5xx,
            Kind::ConsecutiveGatewayFailure => self.config.enforcing_gateway_failures,
            Kind::ConsecutiveLocalFailure => self.config.enforcing_local_failures,
            Kind::SuccessRate(origin) => *origin.of(&self.config.enforcing_success_rate),
            Kind::FailurePercentage(origin) => *origin.of(&self.config.enforcing_failure_percentage),
        };
        if fastrand::u32(..100) >= enforcing {
            return false;
        }
        self.stats.increment(OutlierStat::EnforcedTotal);
        self.stats.increment(enforced(kind));
        let mut ejection = monitor.ejection.lock();
        ejection.at = Some(now);
        ejection.jitter = random_up_to(self.config.max_ejection_jitter);
        let (base, max) = (self.config.base_ejection_time, self.config.max_ejection_time);
        if base.saturating_mul(ejection.count) < max.saturating_add(base) {
            ejection.count += 1;
        }
        host.set(Health::FailedOutlier, true);
        true
    }

    /// Lets a host get requests again.
    fn uneject(&self, host: &Host, monitor: &Monitor) {
        for counter in [
            &monitor.consecutive_5xx,
            &monitor.consecutive_gateway_failures,
            &monitor.consecutive_local_failures,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
        host.set(Health::FailedOutlier, false);
    }

    /// Lets a host whose active health check has succeeded get requests again, if the configuration says so.
    fn uneject_checked(&self, host: &Host) -> bool {
        let Some(monitor) = &host.monitor else { return false };
        if !self.config.check_unejects || host.has(Health::FailedActive) || !host.has(Health::FailedOutlier) {
            return false;
        }
        let _one_at_a_time = self.rates.lock();
        self.uneject(host, monitor);
        true
    }

    /// The end of an interval: hosts come back, and rates decide. Returns whether a host was ejected or came back.
    fn end_interval(&self, hosts: &Hosts, now: Instant) -> bool {
        let mut rates = self.rates.lock();
        let mut has_changed = false;
        let monitored: Vec<(&Host, &Monitor, [[u64; 2]; 2])> = hosts
            .iter()
            .filter_map(|host| Some((&**host, host.monitor.as_deref()?)))
            .map(|(host, monitor)| {
                has_changed |= self.let_back(host, monitor, now);
                (host, monitor, monitor.take_counts())
            })
            .collect();
        for origin in [Origin::External, Origin::Local] {
            let of: Vec<Rated<'_>> = monitored
                .iter()
                .map(|(host, monitor, counts)| Rated::new(host, monitor, *origin.of(counts)))
                .collect();
            let (found, ejects) = self.compare(origin, &of, hosts, now);
            *origin.of_mut(&mut rates) = found;
            has_changed |= ejects;
        }
        has_changed
    }

    /// Lets a host back whose time is up.
    fn let_back(&self, host: &Host, monitor: &Monitor, now: Instant) -> bool {
        let mut ejection = monitor.ejection.lock();
        if !host.has(Health::FailedOutlier) {
            ejection.count = ejection.count.saturating_sub(1);
            return false;
        }
        let (base, max) = (self.config.base_ejection_time, self.config.max_ejection_time);
        let lasts = base.saturating_mul(ejection.count).min(max) + ejection.jitter;
        let is_over = ejection.at.is_none_or(|at| now.saturating_duration_since(at) >= lasts);
        drop(ejection);
        if is_over {
            self.uneject(host, monitor);
        }
        is_over
    }

    /// Compares the success rates of hosts with each other, and with a threshold. Returns average and threshold, and whether a host was ejected.
    fn compare(&self, origin: Origin, rated: &[Rated<'_>], hosts: &Hosts, now: Instant) -> ([f64; 2], bool) {
        let config = &self.config;
        let least = config.success_rate_volume.min(config.failure_percentage_volume);
        let is_enough = rated.len() >= config.success_rate_hosts.min(config.failure_percentage_hosts);
        for host in rated {
            let is_rated = is_enough && !host.host.has(Health::FailedOutlier) && host.all >= least.max(1);
            *origin.of_mut(&mut host.monitor.rates.lock()) = if is_rated { host.rate } else { -1.0 };
        }
        let with = |volume: u64| -> Vec<&Rated<'_>> {
            let counts =
                |host: &&Rated<'_>| host.all >= volume.max(1) && !host.host.has(Health::FailedOutlier);
            rated.iter().filter(counts).collect()
        };
        let mut ejects = false;
        let mut found = NO_RATES;
        let by_rate = with(config.success_rate_volume);
        let by_percentage = with(config.failure_percentage_volume);
        if !by_rate.is_empty() && by_rate.len() >= config.success_rate_hosts {
            let count = by_rate.len() as f64;
            let mean = by_rate.iter().map(|host| host.rate).sum::<f64>() / count;
            let variance = by_rate.iter().map(|host| (host.rate - mean).powi(2)).sum::<f64>() / count;
            let threshold = mean - variance.sqrt() * f64::from(config.success_rate_factor) / 1000.0;
            found = [mean, threshold];
            for host in by_rate.iter().filter(|host| host.rate < threshold) {
                ejects |= self.detect(Kind::SuccessRate(origin), host.host, host.monitor, hosts, now);
            }
        }
        if !by_percentage.is_empty() && by_percentage.len() >= config.failure_percentage_hosts {
            let limit = f64::from(config.failure_percentage);
            for host in by_percentage.iter().filter(|host| 100.0 - host.rate >= limit) {
                if !host.host.has(Health::FailedOutlier) {
                    ejects |=
                        self.detect(Kind::FailurePercentage(origin), host.host, host.monitor, hosts, now);
                }
            }
        }
        (found, ejects)
    }
}

/// A host and its success rate in an interval, in percent.
struct Rated<'h> {
    host: &'h Host,
    monitor: &'h Monitor,
    all: u64,
    rate: f64,
}

impl<'h> Rated<'h> {
    fn new(host: &'h Host, monitor: &'h Monitor, [all, succeeded]: [u64; 2]) -> Self {
        Self { host, monitor, all, rate: 100.0 * succeeded as f64 / all.max(1) as f64 }
    }
}

fn detected(kind: Kind) -> OutlierStat {
    match kind {
        Kind::Consecutive5xx => OutlierStat::Detected5xx,
        Kind::ConsecutiveGatewayFailure => OutlierStat::DetectedGatewayFailure,
        Kind::ConsecutiveLocalFailure => OutlierStat::DetectedLocalFailure,
        Kind::SuccessRate(Origin::External) => OutlierStat::DetectedSuccessRate,
        Kind::SuccessRate(Origin::Local) => OutlierStat::DetectedLocalSuccessRate,
        Kind::FailurePercentage(Origin::External) => OutlierStat::DetectedFailurePercentage,
        Kind::FailurePercentage(Origin::Local) => OutlierStat::DetectedLocalFailurePercentage,
    }
}

fn enforced(kind: Kind) -> OutlierStat {
    match kind {
        Kind::Consecutive5xx => OutlierStat::Enforced5xx,
        Kind::ConsecutiveGatewayFailure => OutlierStat::EnforcedGatewayFailure,
        Kind::ConsecutiveLocalFailure => OutlierStat::EnforcedLocalFailure,
        Kind::SuccessRate(Origin::External) => OutlierStat::EnforcedSuccessRate,
        Kind::SuccessRate(Origin::Local) => OutlierStat::EnforcedLocalSuccessRate,
        Kind::FailurePercentage(Origin::External) => OutlierStat::EnforcedFailurePercentage,
        Kind::FailurePercentage(Origin::Local) => OutlierStat::EnforcedLocalFailurePercentage,
    }
}

fn random_up_to(max: Duration) -> Duration {
    max.mul_f64(fastrand::f64())
}

impl Cluster {
    /// What became of a request or a connection, for outlier detection.
    pub(crate) fn record(&self, host: &Host, outcome: Outcome) {
        if let Some(detector) = &self.detector
            && detector.record(host, outcome, || self.hosts())
        {
            self.health_changed();
        }
    }

    /// An active health check of a host has succeeded.
    pub(crate) fn record_checked(&self, host: &Host) {
        if self.detector.as_ref().is_some_and(|detector| detector.uneject_checked(host)) {
            self.health_changed();
        }
    }

    /// Averages and ejection thresholds of success rates in the last interval, −1 where there is none: of requests, and of what the proxy
    /// itself saw. `None` without outlier detection.
    pub(crate) fn success_rates(&self) -> Option<[[f64; 2]; 2]> {
        self.detector.as_ref().map(Detector::rates)
    }
}

/// Ends the intervals of outlier detection, one after the other.
pub(crate) async fn detect_outliers(cluster: Arc<Cluster>) {
    let Some(detector) = &cluster.detector else { return };
    loop {
        tokio::time::sleep(detector.config.interval).await;
        if detector.end_interval(&cluster.hosts(), Instant::now()) {
            cluster.health_changed();
        }
    }
}

#[cfg(test)]
mod tests;
