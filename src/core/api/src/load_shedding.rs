//! Load shedding: rejects calls above a rate or a mean latency.
//!
//! Two optional evaluators: a token bucket over calls, and a moving average of call durations. [`admit`] asks both at the beginning of
//! a call, [`LoadShedder::completed`] adds the duration at its end.
//! Beyond Istio Mixer, part of both limits can be reserved for checks, and the limits can be shared fairly among callers.

mod admission;
mod fair;
mod latency;

pub(crate) use admission::OVERLOADED;
pub use admission::{Demand, admit};

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use admission::RateLimit;
use fair::Shares;
use latency::LatencyLimit;
use mixer_attribute::SignedDuration;
use mixer_base::metrics::Counter;

/// What happens to calls above the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LoadSheddingMode {
    /// No limits.
    #[default]
    Disabled,
    /// They are logged and served.
    LogOnly,
    /// They are rejected.
    Enforce,
}

impl LoadSheddingMode {
    /// Every mode and its name in flags.
    pub const ALL: [(LoadSheddingMode, &'static str); 3] = [
        (LoadSheddingMode::Disabled, "disabled"),
        (LoadSheddingMode::LogOnly, "logonly"),
        (LoadSheddingMode::Enforce, "enforce"),
    ];

    /// Its name in flags.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(mode, _)| *mode == self).map_or("disabled", |(_, name)| name)
    }
}

/// Limits against overload.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSheddingOptions {
    /// What happens to calls above the limits.
    pub mode: LoadSheddingMode,
    /// Highest mean latency; 0 means no such limit.
    pub average_latency_threshold: SignedDuration,
    /// Most latency samples per second.
    pub samples_per_second: f64,
    /// After this time a sample counts half.
    pub sample_half_life: SignedDuration,
    /// Calls per second; a Report counts its attribute sets; 0 means no such limit.
    pub max_requests_per_second: f64,
    /// Calls admitted at once, 0 or less for none; `None` for those of a second.
    pub burst_size: Option<i64>,
    /// Share of both limits that reports may not use, from 0 to 1.
    pub check_reserve: f64,
    /// Whether callers above the mean usage are rejected first.
    pub fair: bool,
}

impl Default for LoadSheddingOptions {
    fn default() -> Self {
        Self {
            mode: LoadSheddingMode::Disabled,
            average_latency_threshold: SignedDuration::ZERO,
            samples_per_second: f64::MAX,
            sample_half_life: SignedDuration::from_secs(1),
            max_requests_per_second: 0.0,
            burst_size: None,
            check_reserve: 0.0,
            fair: false,
        }
    }
}

impl LoadSheddingOptions {
    /// Calls admitted at once: without a setting those of a second, at least one if there is a rate.
    fn burst(&self) -> f64 {
        match self.burst_size {
            Some(calls) => calls.max(0) as f64,
            None => self.max_requests_per_second.max(0.0).ceil(),
        }
    }
}

/// `key=value …`, with the burst that is in effect.
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
            self.burst()
        )
    }
}

/// Admits or rejects calls.
pub struct LoadShedder {
    enforce: bool,
    rate: Option<RateLimit>,
    latency: Option<LatencyLimit>,
    /// Share of the limits that reports may use.
    report_share: f64,
    shares: Option<Mutex<Shares>>,
    throttled: Counter,
}

impl LoadShedder {
    /// A shedder with these settings; `None` if they set no limit.
    pub fn new(options: &LoadSheddingOptions, throttled: Counter) -> Option<Self> {
        if options.mode == LoadSheddingMode::Disabled {
            return None;
        }
        let rate = (options.max_requests_per_second > 0.0)
            .then(|| RateLimit::new(options.max_requests_per_second, options.burst()));
        let threshold = options.average_latency_threshold.to_std_or_zero();
        let latency = (!threshold.is_zero()).then(|| {
            let half_life = options.sample_half_life.to_std_or_zero();
            LatencyLimit::new(threshold, half_life, options.samples_per_second)
        });
        if rate.is_none() && latency.is_none() {
            return None;
        }
        let shares = options.fair.then(|| Mutex::new(Shares::new(Instant::now())));
        let report_share = 1.0 - options.check_reserve.clamp(0.0, 1.0);
        let enforce = options.mode == LoadSheddingMode::Enforce;
        Some(Self { enforce, rate, latency, report_share, shares, throttled })
    }
}

/// The weight that a value keeps after `elapsed`.
fn decay(elapsed: Duration, half_life: f64) -> f64 {
    if half_life > 0.0 { (-elapsed.as_secs_f64() / half_life).exp2() } else { 0.0 }
}

#[cfg(test)]
mod tests;
