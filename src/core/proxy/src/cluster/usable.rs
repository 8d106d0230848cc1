//! The hosts that get requests: the healthy ones, or all in panic.

use std::sync::Arc;

use super::{Host, Hosts};

/// Healthy hosts of 100 that are enough for all requests are 100 / 1.4: Envoy's overprovisioning factor, in percent.
const OVERPROVISIONING: usize = 140;

/// The hosts that get requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Usable {
    pub(super) hosts: Hosts,
    /// Whether so few are healthy that all get requests.
    pub(super) panics: bool,
}

impl Usable {
    /// Of all hosts, with a panic threshold in percent; 0 for no panic. As Envoy: no panic as long as the healthy ones are enough.
    pub(super) fn of(all: &Hosts, threshold: f64) -> Self {
        let healthy = all.iter().filter(|host| host.is_healthy()).count();
        if healthy == all.len() {
            return Self { hosts: Arc::clone(all), panics: false };
        }
        let availability = (OVERPROVISIONING * healthy / all.len().max(1)).min(100);
        let share = 100.0 * healthy as f64 / all.len() as f64;
        if threshold > 0.0 && (availability == 0 || (availability < 100 && share < threshold)) {
            return Self { hosts: Arc::clone(all), panics: true };
        }
        Self {
            hosts: all.iter().filter(|host: &&Arc<Host>| host.is_healthy()).map(Arc::clone).collect(),
            panics: false,
        }
    }
}
