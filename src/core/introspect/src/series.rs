//! Time series of the plots.

use std::time::Duration;

/// Interval between two values.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);

/// Values over time, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Series(pub(super) Vec<f64>);

impl Series {
    /// The newest value.
    pub(super) fn now(&self) -> f64 {
        self.0.last().copied().unwrap_or(0.0)
    }
}
