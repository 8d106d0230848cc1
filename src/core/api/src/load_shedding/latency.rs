//! The mean latency of the completed calls.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{LoadShedder, decay};

impl LoadShedder {
    /// Adds the duration of a call that completed.
    pub fn completed(&self, took: Duration) {
        if let Some(latency) = &self.latency {
            latency.sample(took, Instant::now());
        }
    }
}

/// An exponential moving average of call durations: `avg(t) = a (avg(s) - x) + x` with `a = 2^(-(t - s) / half life)`.
pub(super) struct LatencyLimit {
    pub(super) threshold: f64,
    pub(super) half_life: f64,
    /// Minimum time between samples.
    spacing: Duration,
    pub(super) average: Mutex<Average>,
}

pub(super) struct Average {
    pub(super) value: f64,
    pub(super) sampled: Option<Instant>,
}

impl LatencyLimit {
    pub(super) fn new(threshold: Duration, half_life: Duration, samples_per_second: f64) -> Self {
        let spacing = Duration::try_from_secs_f64(1.0 / samples_per_second).unwrap_or(Duration::ZERO);
        Self {
            threshold: threshold.as_secs_f64(),
            half_life: half_life.as_secs_f64(),
            spacing,
            average: Mutex::new(Average { value: 0.0, sampled: None }),
        }
    }

    pub(super) fn sample(&self, took: Duration, now: Instant) {
        let mut average = self.average.lock();
        let x = took.as_secs_f64();
        match average.sampled {
            None => average.value = x,
            Some(before) => {
                let elapsed = now.saturating_duration_since(before);
                if elapsed < self.spacing {
                    return;
                }
                average.value = decay(elapsed, self.half_life) * (average.value - x) + x;
            }
        }
        average.sampled = Some(now);
    }
}
