//! A host: what is counted of it, and whether it gets requests.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use super::outlier::Monitor;

/// Why a host gets no requests, and what else is known of its health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Health {
    /// Active health checks fail.
    FailedActive = 1,
    /// It is ejected by outlier detection.
    FailedOutlier = 2,
    /// Names no longer resolve to it; it stays until its health checks fail.
    PendingRemoval = 4,
    /// The last health check took too long.
    ActiveTimeout = 8,
}

/// Names in `/clusters`, in the order of Envoy.
const NAMES: [(Health, &str); 4] = [
    (Health::FailedActive, "/failed_active_hc"),
    (Health::FailedOutlier, "/failed_outlier_check"),
    (Health::PendingRemoval, "/pending_dynamic_removal"),
    (Health::ActiveTimeout, "/active_hc_timeout"),
];

/// A host of a cluster.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    /// The name that it was resolved from.
    pub(crate) hostname: String,
    /// How often it is chosen, compared with others.
    pub(crate) weight: u32,
    /// Whether it was chosen since the last look; of original destinations only.
    pub(super) is_used: AtomicBool,
    /// Bits of [`Health`].
    health: AtomicU8,
    /// What outlier detection knows of it; `None` without outlier detection.
    pub(super) monitor: Option<Box<Monitor>>,
    pub(crate) active_connections: AtomicU64,
    pub(crate) active_requests: AtomicU64,
    pub(crate) pending_requests: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) connect_failures: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) succeeded: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) timed_out: AtomicU64,
}

impl Host {
    pub(super) fn new(address: SocketAddr, hostname: &str, weight: u32) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            address,
            hostname: hostname.to_owned(),
            weight,
            is_used: AtomicBool::new(true),
            health: AtomicU8::new(0),
            monitor: None,
            active_connections: zero(),
            active_requests: zero(),
            pending_requests: zero(),
            connections: zero(),
            connect_failures: zero(),
            requests: zero(),
            succeeded: zero(),
            failed: zero(),
            timed_out: zero(),
        }
    }

    /// Whether this is known of its health.
    pub(crate) fn has(&self, health: Health) -> bool {
        self.health.load(Ordering::Relaxed) & health as u8 != 0
    }

    /// Sets or clears what is known. Returns whether that is a change.
    pub(super) fn set(&self, health: Health, is_set: bool) -> bool {
        let bit = health as u8;
        let before = match is_set {
            true => self.health.fetch_or(bit, Ordering::Relaxed),
            false => self.health.fetch_and(!bit, Ordering::Relaxed),
        };
        (before & bit != 0) != is_set
    }

    /// Whether it gets requests.
    pub(crate) fn is_healthy(&self) -> bool {
        !self.has(Health::FailedActive) && !self.has(Health::FailedOutlier)
    }

    /// What is known of its health, as `/clusters` shows it.
    pub(crate) fn health_text(&self) -> String {
        let text: String =
            NAMES.iter().filter(|(health, _)| self.has(*health)).map(|(_, name)| *name).collect();
        if text.is_empty() { "healthy".to_owned() } else { text }
    }

    /// The success rates of the last interval of outlier detection, in percent: of all, and of what the proxy itself saw; −1 if there are none.
    pub(crate) fn success_rates(&self) -> [f64; 2] {
        self.monitor.as_ref().map_or([-1.0; 2], |monitor| monitor.rates())
    }
}
