//! What the metrics have of a list.

use mixer_base::metrics::{Counter, Family, Gauge, Metrics};

/// What a fetch ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FetchResult {
    /// Another list serves.
    Updated,
    /// The list is that which serves.
    Unchanged,
    /// It is no list, or one that is not used.
    Refused,
    /// Its patterns have no room beside those of others.
    NoRoom,
    /// It was not read.
    Failed,
}

/// The names of [`FetchResult`], in its order.
const NAMES: [&str; 5] = ["updated", "unchanged", "refused", "no-room", "failed"];

/// The metrics of a list.
#[derive(Debug)]
pub(super) struct ListMetrics {
    fetches: [Counter; NAMES.len()],
    bytes: Gauge,
}

impl Default for ListMetrics {
    /// Of no server.
    fn default() -> Self {
        Self::new(&Metrics::default(), "")
    }
}

impl ListMetrics {
    /// Those of a handler.
    pub(super) fn new(metrics: &Metrics, handler_name: &str) -> Self {
        let fetches = NAMES.map(|name| metrics.counter(Family::ListFetches, &[handler_name, name]));
        Self { fetches, bytes: metrics.gauge(Family::ListBytes, &[handler_name]) }
    }

    /// Counts a fetch.
    pub(super) fn count(&self, result: FetchResult) {
        if let Some(fetches) = self.fetches.get(result as usize) {
            fetches.increment();
        }
    }

    /// The list takes so many bytes now.
    pub(super) fn holds(&self, bytes: usize) {
        self.bytes.set(bytes as f64);
    }
}
