//! How the file descriptors of the process are divided between its ports.
//!
//! Every port has a bound on its connections, and the bounds leave room for files, event loops and the connections of handlers. If
//! descriptors run out nevertheless, the ports for operators give up theirs in favour of the API.

use std::sync::LazyLock;

use tokio::sync::watch;

/// Number of ports for operators: monitoring, ControlZ, and the metrics of the prometheus adapter.
const OPERATOR_PORTS: usize = 3;
/// Most connections of a port for operators.
const MAX_OPERATOR: usize = 64;
/// Most connections of the HTTP endpoint for Envoy.
const MAX_ENVOY_HTTP: usize = 4096;
/// Most descriptors kept for files, event loops and handlers.
const MAX_OWN: usize = 256;

static SHORTAGE: LazyLock<watch::Sender<u64>> = LazyLock::new(|| watch::Sender::new(0));

/// Bounds on the connections of each port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorPlan {
    /// The API port.
    pub api: usize,
    /// The HTTP endpoint for Envoy.
    pub envoy_http: usize,
    /// Each port for operators.
    pub operator: usize,
}

impl DescriptorPlan {
    /// The division of `limit` descriptors: 32 and an eighth (at most 256) for the server itself, a 32nd (4 to 64) for each port for
    /// operators, up to half of the rest (at most 4096) for Envoy's HTTP endpoint, all others for the API.
    pub fn of(limit: usize) -> Self {
        let own = (32 + limit / 8).min(MAX_OWN);
        let operator = (limit / 32).clamp(4, MAX_OPERATOR);
        let rest = limit.saturating_sub(own + OPERATOR_PORTS * operator);
        let envoy_http = (rest / 2).clamp(1, MAX_ENVOY_HTTP);
        Self { api: rest.saturating_sub(envoy_http).max(1), envoy_http, operator }
    }

    /// The division of the soft limit of this process.
    pub fn of_process() -> Self {
        Self::of(mixer_base::metrics::max_descriptors().unwrap_or(1024))
    }
}

/// The API cannot accept a connection because no descriptor is left: ports for operators close connections without a request.
pub fn report_shortage() {
    SHORTAGE.send_modify(|number| *number = number.wrapping_add(1));
}

/// Changes with each [report](report_shortage).
pub(crate) fn shortage() -> watch::Receiver<u64> {
    SHORTAGE.subscribe()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_of_all_ports_fit_into_the_limit() {
        for (limit, api, envoy_http, operator) in
            [(100, 22, 22, 4), (256, 84, 84, 8), (1024, 384, 384, 32), (65_536, 60_992, 4096, 64)]
        {
            let plan = DescriptorPlan::of(limit);
            assert_eq!(plan, DescriptorPlan { api, envoy_http, operator }, "{limit}");
            assert!(plan.api + plan.envoy_http + OPERATOR_PORTS * plan.operator + 32 <= limit);
        }
        assert_eq!(DescriptorPlan::of(8), DescriptorPlan { api: 1, envoy_http: 1, operator: 4 });
    }
}
