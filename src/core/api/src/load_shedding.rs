//! Load shedding: rejects calls above a rate or a mean latency.
//!
//! Two optional evaluators: a token bucket over calls, and a moving average of call durations. Spec: runtime.md section 14.
//! Beyond Istio Mixer, part of both limits can be reserved for checks, and the limits can be shared fairly among callers.

mod fair;

use std::time::{Duration, Instant};

use fair::Shares;
use parking_lot::Mutex;

use mixer_attribute::SignedDuration;
use mixer_base::metrics::Counter;

/// Callers within their fair share are admitted up to this multiple of the latency threshold.
const FAIR_GRACE: f64 = 1.5;

/// The message of a rejected call.
pub(crate) const OVERLOADED: &str = "Server is currently overloaded. Please try again.";

/// The message of a report that is rejected to reserve capacity for checks; begins with [`OVERLOADED`].
const RESERVED_FOR_CHECKS: &str =
    "Server is currently overloaded. Please try again. Reports give way to checks.";

/// The message of a call whose caller exceeds its fair share; begins with [`OVERLOADED`].
const OVER_SHARE: &str =
    "Server is currently overloaded. Please try again. This caller uses more than its share.";

/// A call to admit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// 1 for a check, the number of bags for a report.
    pub cost: usize,
    /// Whether it is a report; part of the limits can be reserved for checks.
    pub is_report: bool,
    /// Identifies the caller; 0 means anonymous.
    pub caller: u64,
}

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
    /// Calls admitted beyond the rate.
    pub burst_size: i64,
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
            burst_size: 0,
            check_reserve: 0.0,
            fair: false,
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

/// Why a call is rejected.
struct Rejection {
    evaluator: &'static str,
    /// For the log.
    message: String,
    /// For the caller.
    status_message: &'static str,
}

impl LoadShedder {
    /// A shedder with these settings; `None` if they set no limit.
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
        let shares = options.fair.then(|| Mutex::new(Shares::new(Instant::now())));
        let report_share = 1.0 - options.check_reserve.clamp(0.0, 1.0);
        let enforce = options.mode == LoadSheddingMode::Enforce;
        Some(Self { enforce, rate, latency, report_share, shares, throttled })
    }

    /// Admits a call. Errors: the message of the rejection.
    pub fn admit(&self, demand: Demand) -> Result<(), &'static str> {
        self.admit_at(demand, Instant::now())
    }

    fn admit_at(&self, demand: Demand, now: Instant) -> Result<(), &'static str> {
        let over_share =
            self.shares.as_ref().is_some_and(|shares| shares.lock().is_over_its_share(demand.caller, now));
        let Some(Rejection { evaluator, message, status_message }) = self.rejection(demand, over_share, now)
        else {
            if let Some(shares) = &self.shares {
                shares.lock().charge(demand.caller, demand.cost, now);
            }
            return Ok(());
        };
        if !self.enforce {
            tracing::info!(target: "loadshedding", "LogOnly - Throttled ({evaluator}): '{message}'");
            return Ok(());
        }
        self.throttled.increment();
        tracing::warn!(target: "loadshedding", "Throttled ({evaluator}): '{message}'");
        Err(status_message)
    }

    /// Applies the limits as they are for this call: less for reports, and for callers above their fair share.
    fn rejection(&self, demand: Demand, over_share: bool, now: Instant) -> Option<Rejection> {
        let usable = if demand.is_report { self.report_share } else { 1.0 };
        let status_message = |whole: bool| match (whole, over_share) {
            (true, _) => OVERLOADED,
            (false, true) => OVER_SHARE,
            (false, false) => RESERVED_FOR_CHECKS,
        };
        if let Some(rate) = &self.rate {
            // Half of the burst is reserved for callers below the mean.
            let reserved = (1.0 - usable).max(if over_share { 0.5 } else { 0.0 });
            if let Some((message, whole)) = rate.exceeded(demand.cost, reserved, now) {
                return Some(Rejection {
                    evaluator: "RateLimit",
                    message,
                    status_message: status_message(whole),
                });
            }
        }
        let latency = self.latency.as_ref()?;
        // Callers above their fair share stop at the threshold, the others at a multiple of it.
        let grace = if self.shares.is_some() && !over_share { FAIR_GRACE } else { 1.0 };
        let message = latency.exceeded(usable * grace, now)?;
        let whole = latency.exceeded(grace, now).is_some() && !over_share;
        Some(Rejection { evaluator: "grpcResponseLatency", message, status_message: status_message(whole) })
    }

    /// Adds a latency sample.
    pub fn completed(&self, took: Duration) {
        if let Some(latency) = &self.latency {
            latency.sample(took, Instant::now());
        }
    }
}

/// Admits a call; without a shedder every call. Errors: the message of the rejection.
pub fn admit(shedder: Option<&LoadShedder>, demand: Demand) -> Result<(), &'static str> {
    shedder.map_or(Ok(()), |shedder| shedder.admit(demand))
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

    /// Takes the tokens of a call and leaves the share `reserved` of the burst. `Some` if there are too few: why, and whether there
    /// are too few even without a reserve; no token is taken then.
    fn exceeded(&self, cost: usize, reserved: f64, now: Instant) -> Option<(String, bool)> {
        let mut bucket = self.bucket.lock();
        let elapsed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.tokens = self.burst.min(bucket.tokens + elapsed * self.per_second);
        bucket.filled = now;
        let cost = cost as f64;
        // A call without cost is never rejected.
        if cost == 0.0 || bucket.tokens >= cost + self.burst * reserved {
            bucket.tokens -= cost;
            return None;
        }
        let whole = bucket.tokens < cost;
        let message = format!(
            "Too many requests have been received by this server in the current time window (limit: {:.6}). \
             Please retry request later.",
            self.per_second
        );
        Some((message, whole))
    }
}

/// An exponential moving average of call durations: `avg(t) = a (avg(s) - x) + x` with `a = 2^(-(t - s) / half life)`.
struct LatencyLimit {
    threshold: f64,
    half_life: f64,
    /// Minimum time between samples.
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

    /// `Some` if the average reaches this share of the threshold: why. The average decays without calls, so that a server that
    /// rejects everything recovers.
    fn exceeded(&self, share: f64, now: Instant) -> Option<String> {
        let average = self.average.lock();
        let idle = average.sampled.map_or(Duration::ZERO, |s| now.saturating_duration_since(s));
        let value = average.value * decay(idle, self.half_life);
        (value >= self.threshold * share).then(|| {
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
    use mixer_base::metrics::{Family, Metrics};

    #[test]
    fn a_bucket_without_burst_admits_nothing() {
        let limit = RateLimit::new(100.0, 0);
        assert!(limit.exceeded(1, 0.0, Instant::now() + Duration::from_secs(5)).is_some());
        assert!(limit.exceeded(0, 0.0, Instant::now()).is_none(), "a report without bags costs nothing");
    }

    #[test]
    fn tokens_refill_at_the_rate_and_rejections_take_none() {
        let limit = RateLimit::new(10.0, 2);
        let start = Instant::now();
        assert!(limit.exceeded(2, 0.0, start).is_none());
        assert!(limit.exceeded(2, 0.0, start + Duration::from_millis(100)).is_some());
        assert!(limit.exceeded(1, 0.0, start + Duration::from_millis(101)).is_none());
        let text = limit.exceeded(1, 0.0, start + Duration::from_millis(101)).expect("empty again").0;
        assert!(text.contains("(limit: 10.000000)"), "{text}");
    }

    #[test]
    fn the_average_halves_its_distance_in_a_half_life() {
        let limit = LatencyLimit::new(Duration::from_millis(50), Duration::from_secs(1), f64::MAX);
        let start = Instant::now();
        limit.sample(Duration::from_millis(100), start);
        assert!(limit.exceeded(1.0, start).is_some());
        limit.sample(Duration::ZERO, start + Duration::from_secs(2));
        assert!(limit.exceeded(1.0, start + Duration::from_secs(2)).is_none());
    }

    #[test]
    fn a_server_that_rejected_everything_recovers() {
        let limit = LatencyLimit::new(Duration::from_millis(50), Duration::from_secs(1), f64::MAX);
        let start = Instant::now();
        limit.sample(Duration::from_millis(90), start);
        assert!(limit.exceeded(1.0, start + Duration::from_millis(100)).is_some());
        assert!(limit.exceeded(1.0, start + Duration::from_secs(1)).is_none());
    }

    fn check(cost: usize) -> Demand {
        Demand { cost, is_report: false, caller: 0 }
    }

    fn shedder(change: impl FnOnce(&mut LoadSheddingOptions)) -> LoadShedder {
        let mut options = LoadSheddingOptions {
            mode: LoadSheddingMode::Enforce,
            max_requests_per_second: 100.0,
            burst_size: 10,
            ..LoadSheddingOptions::default()
        };
        change(&mut options);
        let throttled = Metrics::new().counter(Family::LoadSheddingThrottled, &[]);
        LoadShedder::new(&options, throttled).expect("there is a limit")
    }

    #[test]
    fn reports_do_not_use_the_reserve() {
        let shedder = shedder(|o| o.check_reserve = 0.4);
        let now = Instant::now();
        let report = |cost| Demand { cost, is_report: true, caller: 0 };
        assert_eq!(shedder.admit_at(report(6), now), Ok(()));
        assert_eq!(shedder.admit_at(report(1), now), Err(RESERVED_FOR_CHECKS));
        assert_eq!(shedder.admit_at(report(0), now), Ok(()), "a report without bags costs nothing");
        assert_eq!(shedder.admit_at(check(4), now), Ok(()));
        assert_eq!(shedder.admit_at(check(1), now), Err(OVERLOADED));
        assert!(RESERVED_FOR_CHECKS.starts_with(OVERLOADED) && OVER_SHARE.starts_with(OVERLOADED));
    }

    #[test]
    fn latency_rejects_reports_before_checks() {
        let shedder = shedder(|o| {
            o.max_requests_per_second = 0.0;
            o.average_latency_threshold = SignedDuration::from_millis(100);
            o.check_reserve = 0.5;
        });
        shedder.completed(Duration::from_millis(70));
        assert_eq!(shedder.admit(Demand { cost: 1, is_report: true, caller: 0 }), Err(RESERVED_FOR_CHECKS));
        assert_eq!(shedder.admit(check(1)), Ok(()));
    }

    /// Admitted calls of two callers in ten seconds, one of which calls twenty times as often.
    fn admitted(fair: bool) -> (u32, u32) {
        let shedder = shedder(|o| o.fair = fair);
        let start = Instant::now();
        let (mut greedy, mut modest) = (0, 0);
        for millis in 0..10_000_u64 {
            let now = start + Duration::from_millis(millis);
            let ask = |caller| {
                u32::from(shedder.admit_at(Demand { cost: 1, is_report: false, caller }, now).is_ok())
            };
            greedy += ask(1);
            if millis % 20 == 0 {
                modest += ask(2);
            }
        }
        (greedy, modest)
    }

    #[test]
    fn callers_share_the_rate() {
        // 50 per second is half of the rate: the modest caller stays within its share.
        let (_, unfair) = admitted(false);
        let (greedy, fair) = admitted(true);
        assert!(fair > 480, "of 500 calls within its share {fair} were admitted");
        assert!(unfair < 120, "{unfair}");
        assert!(fair + greedy > 950, "the rate is used up: {greedy} and {fair} of 1000");
    }
}
