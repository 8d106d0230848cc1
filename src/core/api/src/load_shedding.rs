//! Refuses calls when there are too many or they take too long.
//!
//! Two evaluators, each optional: a token bucket over calls, and a moving average of call durations. Spec: runtime.md section 14.
//! Beyond the originals, part of both limits can be kept for checks, and callers can be made to share what there is.

mod fair;

use std::time::{Duration, Instant};

use fair::Shares;
use parking_lot::Mutex;

use mixer_attribute::SignedDuration;
use mixer_base::metrics::Counter;

/// How far over the latency threshold those who use no more than their share are still taken.
const FAIR_GRACE: f64 = 1.5;

/// What callers of refused calls are told.
pub const OVERLOADED: &str = "Server is currently overloaded. Please try again.";

/// What callers of reports are told that gave way to checks; begins as [`OVERLOADED`].
pub const GIVES_WAY: &str = "Server is currently overloaded. Please try again. Reports give way to checks.";

/// What callers are told that used more than others; begins as [`OVERLOADED`].
pub const OVER_SHARE: &str =
    "Server is currently overloaded. Please try again. This caller uses more than its share.";

/// What asks to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// 1 for a check, the number of bags for a report.
    pub cost: usize,
    /// Whether it is a report, which may have to give way to checks.
    pub is_report: bool,
    /// Who asks, as one number; 0 for nobody in particular.
    pub caller: u64,
}

impl Demand {
    /// A check or something like it, from nobody in particular.
    pub fn of(cost: usize) -> Self {
        Self { cost, is_report: false, caller: 0 }
    }
}

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
    /// Share of both limits that reports may not use, from 0 to 1.
    pub check_reserve: f64,
    /// Whether callers share what there is: under pressure, those who use more than the mean are refused first.
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

/// Decides which calls are taken.
pub struct LoadShedder {
    enforce: bool,
    rate: Option<RateLimit>,
    latency: Option<LatencyLimit>,
    /// Share of the limits that is open to reports.
    open_to_reports: f64,
    shares: Option<Mutex<Shares>>,
    throttled: Counter,
}

/// Why a call is not taken.
struct Refusal {
    evaluator: &'static str,
    /// For the log.
    message: String,
    /// For the caller.
    told: &'static str,
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
        let shares = options.fair.then(|| Mutex::new(Shares::new(Instant::now())));
        let open_to_reports = 1.0 - options.check_reserve.clamp(0.0, 1.0);
        let enforce = options.mode == LoadSheddingMode::Enforce;
        Some(Self { enforce, rate, latency, open_to_reports, shares, throttled })
    }

    /// Whether a call of this cost is taken, from nobody in particular.
    pub fn admit(&self, cost: usize) -> bool {
        self.admit_demand(Demand::of(cost)).is_ok()
    }

    /// Whether a call is taken. Errors: what its caller is told.
    pub fn admit_demand(&self, demand: Demand) -> Result<(), &'static str> {
        self.admit_at(demand, Instant::now())
    }

    fn admit_at(&self, demand: Demand, now: Instant) -> Result<(), &'static str> {
        let over_share =
            self.shares.as_ref().is_some_and(|shares| shares.lock().is_over_its_share(demand.caller, now));
        let Some(Refusal { evaluator, message, told }) = self.refusal(demand, over_share, now) else {
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
        Err(told)
    }

    /// The limits as they are for this call: as a whole, then for what reports may use, then for those over their share.
    fn refusal(&self, demand: Demand, over_share: bool, now: Instant) -> Option<Refusal> {
        let open = if demand.is_report { self.open_to_reports } else { 1.0 };
        let told = |whole: bool| match (whole, over_share) {
            (true, _) => OVERLOADED,
            (false, true) => OVER_SHARE,
            (false, false) => GIVES_WAY,
        };
        if let Some(rate) = &self.rate {
            // Half of what there is stays for those who use less than the mean.
            let kept = (1.0 - open).max(if over_share { 0.5 } else { 0.0 });
            if let Some((message, whole)) = rate.exceeded(demand.cost, kept, now) {
                return Some(Refusal { evaluator: "RateLimit", message, told: told(whole) });
            }
        }
        let latency = self.latency.as_ref()?;
        // Those over their share stop at the threshold; the others go on a little, while that helps.
        let grace = if self.shares.is_some() && !over_share { FAIR_GRACE } else { 1.0 };
        let message = latency.exceeded(open * grace, now)?;
        let whole = latency.exceeded(grace, now).is_some() && !over_share;
        Some(Refusal { evaluator: "grpcResponseLatency", message, told: told(whole) })
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

    /// Takes the tokens of a call, leaving the share `kept` of the burst, or says why there are not enough, and whether there would
    /// not be even if nothing were kept; none are taken then.
    fn exceeded(&self, cost: usize, kept: f64, now: Instant) -> Option<(String, bool)> {
        let mut bucket = self.bucket.lock();
        let elapsed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.tokens = self.burst.min(bucket.tokens + elapsed * self.per_second);
        bucket.filled = now;
        let cost = cost as f64;
        // A call without cost is never refused.
        if cost == 0.0 || bucket.tokens >= cost + self.burst * kept {
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

    /// Says why, if the average reaches that share of the threshold. Without calls the average fades, so that a server that refuses everything recovers.
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
    fn a_bucket_without_burst_lets_nothing_through() {
        let limit = RateLimit::new(100.0, 0);
        assert!(limit.exceeded(1, 0.0, Instant::now() + Duration::from_secs(5)).is_some());
        assert!(limit.exceeded(0, 0.0, Instant::now()).is_none(), "a report without bags costs nothing");
    }

    #[test]
    fn tokens_come_back_at_the_rate_and_refusals_take_none() {
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
    fn a_server_that_refused_everything_recovers() {
        let limit = LatencyLimit::new(Duration::from_millis(50), Duration::from_secs(1), f64::MAX);
        let start = Instant::now();
        limit.sample(Duration::from_millis(90), start);
        assert!(limit.exceeded(1.0, start + Duration::from_millis(100)).is_some());
        assert!(limit.exceeded(1.0, start + Duration::from_secs(1)).is_none());
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
    fn reports_leave_the_reserve_to_checks() {
        let shedder = shedder(|o| o.check_reserve = 0.4);
        let now = Instant::now();
        let report = |cost| Demand { cost, is_report: true, caller: 0 };
        assert_eq!(shedder.admit_at(report(6), now), Ok(()));
        assert_eq!(shedder.admit_at(report(1), now), Err(GIVES_WAY));
        assert_eq!(shedder.admit_at(report(0), now), Ok(()), "a report without bags costs nothing");
        assert_eq!(shedder.admit_at(Demand::of(4), now), Ok(()));
        assert_eq!(shedder.admit_at(Demand::of(1), now), Err(OVERLOADED));
        assert!(GIVES_WAY.starts_with(OVERLOADED) && OVER_SHARE.starts_with(OVERLOADED));
    }

    #[test]
    fn latency_stops_reports_before_checks() {
        let shedder = shedder(|o| {
            o.max_requests_per_second = 0.0;
            o.average_latency_threshold = SignedDuration::from_millis(100);
            o.check_reserve = 0.5;
        });
        shedder.completed(Duration::from_millis(70));
        assert_eq!(shedder.admit_demand(Demand { cost: 1, is_report: true, caller: 0 }), Err(GIVES_WAY));
        assert_eq!(shedder.admit_demand(Demand::of(1)), Ok(()));
    }

    /// Calls that each of two callers gets through in ten seconds, one of which asks twenty times as often.
    fn let_through(fair: bool) -> (u32, u32) {
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
    fn callers_share_what_there_is() {
        // 50 a second is half of what is allowed in all: the modest caller asks for no more than its share.
        let (_, unfair) = let_through(false);
        let (greedy, fair) = let_through(true);
        assert!(fair > 480, "of 500 calls within its share {fair} came through");
        assert!(unfair < 120, "{unfair}");
        assert!(fair + greedy > 950, "nothing is wasted: {greedy} and {fair} of 1000");
    }
}
