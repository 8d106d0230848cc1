//! Refuses calls when there are too many or they take too long.
//!
//! Two evaluators, each optional: a token bucket over calls, and a moving average of call durations. Spec: runtime.md section 14.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::core::attribute::SignedDuration;
use crate::core::telemetry::metrics::Counter;

/// What callers of refused calls are told.
pub const OVERLOADED: &str = "Server is currently overloaded. Please try again.";

/// What happens to calls over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LoadSheddingMode {
    /// No limits.
    #[default]
    Disabled,
    /// They are logged and served.
    LogOnly,
    /// They are refused.
    Enforce,
}

impl LoadSheddingMode {
    /// Every mode and its word.
    pub const ALL: [(LoadSheddingMode, &'static str); 3] = [
        (LoadSheddingMode::Disabled, "disabled"),
        (LoadSheddingMode::LogOnly, "logonly"),
        (LoadSheddingMode::Enforce, "enforce"),
    ];

    /// Its word.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(mode, _)| *mode == self).map_or("disabled", |(_, name)| name)
    }
}

/// Limits against overload.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSheddingOptions {
    /// What happens over the limit.
    pub mode: LoadSheddingMode,
    /// Highest mean latency; 0 means no such limit.
    pub average_latency_threshold: SignedDuration,
    /// Latencies measured per second at most.
    pub samples_per_second: f64,
    /// After how long a measurement counts half.
    pub sample_half_life: SignedDuration,
    /// Calls per second; a Report counts its attribute sets; 0 means no such limit.
    pub max_requests_per_second: f64,
    /// Calls let through beyond the rate.
    pub burst_size: i64,
}

impl Default for LoadSheddingOptions {
    fn default() -> Self {
        Self {
            mode: LoadSheddingMode::Disabled,
            average_latency_threshold: SignedDuration::ZERO,
            samples_per_second: f64::MAX,
            sample_half_life: SignedDuration::from_secs(1),
            max_requests_per_second: 0.0,
            burst_size: 0,
        }
    }
}

/// `key=value …`.
impl std::fmt::Display for LoadSheddingOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "mode={} averageLatencyThreshold={} samplesPerSecond={:e} sampleHalfLife={} maxRequestsPerSecond={} burstSize={}",
            self.mode.name(),
            self.average_latency_threshold,
            self.samples_per_second,
            self.sample_half_life,
            self.max_requests_per_second,
            self.burst_size
        )
    }
}

/// Decides which calls are taken.
pub struct LoadShedder {
    enforce: bool,
    rate: Option<RateLimit>,
    latency: Option<LatencyLimit>,
    throttled: Counter,
}

impl LoadShedder {
    /// A shedder with these settings, or none if nothing would ever be shed.
    pub fn new(options: &LoadSheddingOptions, throttled: Counter) -> Option<Self> {
        if options.mode == LoadSheddingMode::Disabled {
            return None;
        }
        let rate = (options.max_requests_per_second > 0.0)
            .then(|| RateLimit::new(options.max_requests_per_second, options.burst_size));
        let threshold = options.average_latency_threshold.to_std_or_zero();
        let latency = (!threshold.is_zero()).then(|| {
            let half_life = options.sample_half_life.to_std_or_zero();
            LatencyLimit::new(threshold, half_life, options.samples_per_second)
        });
        if rate.is_none() && latency.is_none() {
            return None;
        }
        Some(Self { enforce: options.mode == LoadSheddingMode::Enforce, rate, latency, throttled })
    }

    /// Whether a call of this cost is taken: 1 for a check, the number of bags for a report.
    pub fn admit(&self, cost: usize) -> bool {
        let now = Instant::now();
        let refusal = self
            .rate
            .as_ref()
            .and_then(|limit| Some(("RateLimit", limit.exceeded(cost, now)?)))
            .or_else(|| Some(("grpcResponseLatency", self.latency.as_ref()?.exceeded(now)?)));
        let Some((name, message)) = refusal else { return true };
        if self.enforce {
            self.throttled.increment();
            tracing::warn!(target: "loadshedding", "Throttled ({name}): '{message}'");
        } else {
            tracing::info!(target: "loadshedding", "LogOnly - Throttled ({name}): '{message}'");
        }
        !self.enforce
    }

    /// Hears how long a call took.
    pub fn completed(&self, took: Duration) {
        if let Some(latency) = &self.latency {
            latency.sample(took, Instant::now());
        }
    }
}

/// A token bucket.
struct RateLimit {
    per_second: f64,
    burst: f64,
    bucket: Mutex<Bucket>,
}

struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl RateLimit {
    fn new(per_second: f64, burst: i64) -> Self {
        let burst = burst.max(0) as f64;
        Self { per_second, burst, bucket: Mutex::new(Bucket { tokens: burst, filled: Instant::now() }) }
    }

    /// Takes the tokens of a call, or says why there are not enough; none are taken then.
    fn exceeded(&self, cost: usize, now: Instant) -> Option<String> {
        let mut bucket = self.bucket.lock();
        let elapsed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.tokens = self.burst.min(bucket.tokens + elapsed * self.per_second);
        bucket.filled = now;
        if bucket.tokens >= cost as f64 {
            bucket.tokens -= cost as f64;
            return None;
        }
        Some(format!(
            "Too many requests have been received by this server in the current time window (limit: {:.6}). \
             Please retry request later.",
            self.per_second
        ))
    }
}

/// An exponential moving average of call durations: `avg(t) = a (avg(s) - x) + x` with `a = 2^(-(t - s) / half life)`.
struct LatencyLimit {
    threshold: f64,
    half_life: f64,
    /// Least time between samples.
    spacing: Duration,
    average: Mutex<Average>,
}

struct Average {
    value: f64,
    sampled: Option<Instant>,
}

impl LatencyLimit {
    fn new(threshold: Duration, half_life: Duration, samples_per_second: f64) -> Self {
        let spacing = Duration::try_from_secs_f64(1.0 / samples_per_second).unwrap_or(Duration::ZERO);
        Self {
            threshold: threshold.as_secs_f64(),
            half_life: half_life.as_secs_f64(),
            spacing,
            average: Mutex::new(Average { value: 0.0, sampled: None }),
        }
    }

    fn sample(&self, took: Duration, now: Instant) {
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

    /// Says why, if the average is too high. Without calls the average fades, so that a server that refuses everything recovers.
    fn exceeded(&self, now: Instant) -> Option<String> {
        let average = self.average.lock();
        let idle = average.sampled.map_or(Duration::ZERO, |s| now.saturating_duration_since(s));
        let value = average.value * decay(idle, self.half_life);
        (value >= self.threshold).then(|| {
            format!(
                "Current observed average latency ({value:.6}) exceeds specified threshold ({:.6}). Please retry request.",
                self.threshold
            )
        })
    }
}

fn decay(elapsed: Duration, half_life: f64) -> f64 {
    if half_life > 0.0 { (-elapsed.as_secs_f64() / half_life).exp2() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_without_burst_lets_nothing_through() {
        let limit = RateLimit::new(100.0, 0);
        assert!(limit.exceeded(1, Instant::now() + Duration::from_secs(5)).is_some());
        assert!(limit.exceeded(0, Instant::now()).is_none(), "a report without bags costs nothing");
    }

    #[test]
    fn tokens_come_back_at_the_rate_and_refusals_take_none() {
        let limit = RateLimit::new(10.0, 2);
        let start = Instant::now();
        assert!(limit.exceeded(2, start).is_none());
        assert!(limit.exceeded(2, start + Duration::from_millis(100)).is_some());
        assert!(limit.exceeded(1, start + Duration::from_millis(101)).is_none());
        let text = limit.exceeded(1, start + Duration::from_millis(101)).expect("empty again");
        assert!(text.contains("(limit: 10.000000)"), "{text}");
    }

    #[test]
    fn the_average_halves_its_distance_in_a_half_life() {
        let limit = LatencyLimit::new(Duration::from_millis(50), Duration::from_secs(1), f64::MAX);
        let start = Instant::now();
        limit.sample(Duration::from_millis(100), start);
        assert!(limit.exceeded(start).is_some());
        limit.sample(Duration::ZERO, start + Duration::from_secs(2));
        assert!(limit.exceeded(start + Duration::from_secs(2)).is_none());
    }

    #[test]
    fn a_server_that_refused_everything_recovers() {
        let limit = LatencyLimit::new(Duration::from_millis(50), Duration::from_secs(1), f64::MAX);
        let start = Instant::now();
        limit.sample(Duration::from_millis(90), start);
        assert!(limit.exceeded(start + Duration::from_millis(100)).is_some());
        assert!(limit.exceeded(start + Duration::from_secs(1)).is_none());
    }
}
