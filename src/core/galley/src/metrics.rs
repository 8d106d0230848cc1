//! Counts of the pipeline.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A counter that grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A histogram with bounds that double: 0, 1, 2, 4, …
#[derive(Debug)]
pub struct Doubling<const N: usize> {
    counts: [Count; N],
    sum: Count,
}

impl<const N: usize> Default for Doubling<N> {
    fn default() -> Self {
        Self { counts: std::array::from_fn(|_| Count::default()), sum: Count::default() }
    }
}

impl<const N: usize> Doubling<N> {
    /// Counts a value. Those beyond the last bound are in the last bucket.
    pub fn observe(&self, value: u64) {
        let bucket = match value {
            0 => 0,
            _ => 1 + value.next_power_of_two().trailing_zeros() as usize,
        };
        if let Some(count) = self.counts.get(bucket.min(N - 1)) {
            count.add(1);
        }
        self.sum.add(value);
    }

    /// The counts of the buckets, not cumulative, and the sum of all values.
    pub fn read(&self) -> ([u64; N], u64) {
        (std::array::from_fn(|at| self.counts.get(at).map_or(0, Count::get)), self.sum.get())
    }
}

/// The counts of a pipeline. Names of Istio Galley: galley.md, "Metrics".
#[derive(Debug, Default)]
pub struct Counters {
    /// `galley_runtime_processor_events_processed_total`
    pub events: Count,
    /// `galley_runtime_processor_event_span_duration_milliseconds`, from one event to the next, bounds 0 to 8388608
    pub event_spans: Doubling<26>,
    /// `galley_runtime_strategy_timer_resets_total`: changes that came while others waited, as Istio's second processor counts them
    pub timer_resets: Count,
    /// `galley_runtime_strategy_on_change_total`
    pub on_change: Count,
    /// `galley_runtime_strategy_timer_max_time_reached_total`
    pub max_wait_reached: Count,
    /// `galley_runtime_strategy_timer_quiesce_reached_total`
    pub quiet_reached: Count,
    /// `galley_runtime_processor_snapshots_published_total`
    pub snapshots: Count,
    /// `galley_runtime_processor_snapshot_events_total`: events of a snapshot, bounds 0 to 256
    pub snapshot_events: Doubling<11>,
    /// `galley_runtime_processor_snapshot_lifetime_duration_milliseconds`, bounds 0 to 8388608
    pub snapshot_lifetime: Doubling<26>,
    /// Starts of sources after their first.
    pub restarts: Count,
}

impl Counters {
    /// Events arrived together, so long after those before them.
    pub(crate) fn received(&self, events: usize, since: Duration) {
        for at in 0..events {
            let since = if at == 0 { since } else { Duration::ZERO };
            self.event_spans.observe(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        }
        self.events.add(u64::try_from(events).unwrap_or(u64::MAX));
    }

    /// A snapshot was published: because changes had gone on for long, with so many events, after the one before lived so long.
    pub(crate) fn published(&self, max_wait_reached: bool, events: u64, lived: Option<Duration>) {
        match max_wait_reached {
            true => self.max_wait_reached.add(1),
            false => self.quiet_reached.add(1),
        }
        self.snapshots.add(1);
        self.snapshot_events.observe(events);
        if let Some(lived) = lived {
            self.snapshot_lifetime.observe(u64::try_from(lived.as_millis()).unwrap_or(u64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_the_bounds_of_istio() {
        let histogram = Doubling::<11>::default();
        for value in [0, 1, 2, 3, 4, 5, 256, 257, 5000] {
            histogram.observe(value);
        }
        let expected = ([1, 1, 1, 2, 1, 0, 0, 0, 0, 1, 2], 5528);
        assert_eq!(histogram.read(), expected, "0, 1, 2, 4, 8 … 256, more");
    }

    #[test]
    fn the_first_of_events_that_arrive_together_has_the_time_since_the_last() {
        let counters = Counters::default();
        counters.received(3, Duration::from_millis(2));
        counters.received(1, Duration::ZERO);
        let (counts, sum) = counters.event_spans.read();
        assert_eq!((counts[..3].to_vec(), sum, counters.events.get()), (vec![3, 0, 1], 2, 4));
    }
}
