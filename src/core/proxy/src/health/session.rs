//! What the checks of a host say of it: thresholds, and the time of the next check.

use std::time::Duration;

use crate::bootstrap::HealthCheckConfig;
use crate::cluster::{Cluster, Health, Host};
use crate::stats::HealthStat;
use crate::upstream::ConnectError;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Success,
    /// The host answered, and says that it is not well: that is believed at once.
    Refused,
    /// As `Refused`, by an answer that counts towards the threshold.
    Retriable,
    /// There was no connection, or no whole answer.
    Failed,
    /// The time limit has passed.
    TimedOut,
    /// This side has no descriptor, port or memory for a connection, which says nothing of the host.
    Unknown,
}

impl From<ConnectError> for Outcome {
    fn from(error: ConnectError) -> Self {
        if error.is_of_host() { Outcome::Failed } else { Outcome::Unknown }
    }
}

/// What a check changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    None,
    /// A threshold is not reached yet.
    Pending,
    Changed,
}

/// The checks of a host so far.
#[derive(Debug)]
pub(super) struct Session {
    successes: u32,
    failures: u32,
    is_first: bool,
}

impl Default for Session {
    fn default() -> Self {
        Self { successes: 0, failures: 0, is_first: true }
    }
}

impl Session {
    /// Takes the outcome of a check.
    pub(super) fn apply(&mut self, outcome: Outcome, cluster: &Cluster, host: &Host) -> Change {
        let Some(config) = &cluster.config.health_check else { return Change::None };
        if outcome == Outcome::Unknown {
            return Change::None;
        }
        let is_failed = host.has(Health::FailedActive);
        let change = match outcome {
            Outcome::Success => {
                self.failures = 0;
                self.successes = self.successes.saturating_add(1);
                match (is_failed, self.is_first || self.successes >= config.healthy_threshold) {
                    (false, _) => Change::None,
                    (true, false) => Change::Pending,
                    (true, true) => Change::Changed,
                }
            }
            failure => {
                self.successes = 0;
                self.failures = self.failures.saturating_add(1);
                let is_enough = failure == Outcome::Refused || self.failures >= config.unhealthy_threshold;
                match (is_failed, is_enough) {
                    (true, _) => Change::None,
                    (false, false) => Change::Pending,
                    (false, true) => Change::Changed,
                }
            }
        };
        self.is_first = false;
        let is_success = outcome == Outcome::Success;
        if change == Change::Changed {
            // Before the host gets requests again.
            self.successes = 0;
            cluster.set_health(host, Health::FailedActive, !is_success);
            let (cluster, host) = (&cluster.config.name, host.address);
            if is_success {
                tracing::info!(cluster, %host, "health checks succeed");
            } else {
                tracing::warn!(cluster, %host, "health checks fail");
            }
        }
        if !is_success || change == Change::Changed {
            cluster.set_health(host, Health::ActiveTimeout, outcome == Outcome::TimedOut);
        }
        if is_success {
            cluster.record_checked(host);
        }
        if let Some(stats) = &cluster.stats.health {
            stats.increment(if is_success { HealthStat::Success } else { HealthStat::Failure });
            if matches!(outcome, Outcome::Failed | Outcome::TimedOut) {
                stats.increment(HealthStat::NetworkFailure);
            }
        }
        change
    }
}

/// The time until the next check. A cluster without traffic is checked more rarely.
pub(super) fn interval(
    config: &HealthCheckConfig,
    outcome: Outcome,
    change: Change,
    has_traffic: bool,
) -> Duration {
    let base = match (
        matches!(outcome, Outcome::Success | Outcome::Unknown),
        change == Change::Pending,
        has_traffic,
    ) {
        (true, _, false) => config.no_traffic_healthy_interval,
        (false, _, false) => config.no_traffic_interval,
        (true, false, true) => config.interval,
        (true, true, true) => config.healthy_edge_interval,
        (false, false, true) => config.unhealthy_interval,
        (false, true, true) => config.unhealthy_edge_interval,
    };
    let share = base.mul_f64(f64::from(config.interval_jitter_percent) / 100.0);
    let jitter = share.mul_f64(fastrand::f64()) + config.interval_jitter.mul_f64(fastrand::f64());
    // At least a millisecond, as Envoy.
    (base + jitter).max(Duration::from_millis(1))
}
