//! The reader of metrics: hands over the points of all series at every interval.

use std::sync::Arc;
use std::time::Duration;

use mixer_delivery::{Delivery, List};

use super::metric::{Metric, Point};

/// Longer than any server runs.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Reads the metrics of a handler.
pub(super) struct Reader {
    pub(super) metrics: Vec<Arc<Metric>>,
    pub(super) delivery: Arc<Delivery<List<Point>>>,
    /// Time without a sample after which a series ends.
    pub(super) expiry: Option<Duration>,
}

impl Reader {
    /// Hands over all points, at every interval. While the queue is full it waits: what comes meanwhile is in the values that it reads next.
    pub(super) async fn run(self: Arc<Self>, interval: Duration) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The first tick is immediate.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            self.read(FOREVER).await;
        }
    }

    /// Hands over all points, within a limit. Points that find no room by then are dropped and counted.
    pub(super) async fn read(&self, limit: Duration) {
        let deadline = tokio::time::Instant::now() + limit;
        for metric in &self.metrics {
            for part in metric.series.parts() {
                let points = metric.points(part, self.expiry);
                if !points.is_empty() {
                    let left = deadline.saturating_duration_since(tokio::time::Instant::now());
                    self.delivery.accept_each_when_room(points, left).await;
                }
            }
        }
    }
}
