//! Admits or rejects a call at its beginning.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::latency::LatencyLimit;
use super::{LoadShedder, decay};

/// Callers within their fair share are admitted up to this multiple of the latency threshold.
const FAIR_GRACE: f64 = 1.5;

/// The message of a rejected call.
pub(crate) const OVERLOADED: &str = "Server is currently overloaded. Please try again.";

/// The message of a report that is rejected to reserve capacity for checks; begins with [`OVERLOADED`].
pub(super) const RESERVED_FOR_CHECKS: &str =
    "Server is currently overloaded. Please try again. Reports give way to checks.";

/// The message of a call whose caller exceeds its fair share; begins with [`OVERLOADED`].
pub(super) const OVER_SHARE: &str =
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

/// Why a call is rejected.
struct Rejection {
    evaluator: &'static str,
    /// For the log.
    message: String,
    /// For the caller.
    status_message: &'static str,
}

impl LoadShedder {
    /// Admits a call. Errors: the message of the rejection.
    pub fn admit(&self, demand: Demand) -> Result<(), &'static str> {
        self.admit_at(demand, Instant::now())
    }

    pub(super) fn admit_at(&self, demand: Demand, now: Instant) -> Result<(), &'static str> {
        let over_share =
            self.shares.as_ref().is_some_and(|shares| shares.lock().is_over_its_share(demand.caller, now));
        let Some(Rejection { evaluator, message, status_message }) = self.rejection(demand, over_share, now)
        else {
            if let Some(shares) = &self.shares {
                shares.lock().charge(demand.caller, demand.cost, now);
            }
            return Ok(());
        };
        // Also where nothing is refused: a trial shows what would be.
        self.throttled.increment();
        if !self.enforce {
            tracing::info!(target: "loadshedding", "LogOnly - Throttled ({evaluator}): '{message}'");
            return Ok(());
        }
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
}

/// Admits a call; without a shedder every call. Errors: the message of the rejection.
pub fn admit(shedder: Option<&LoadShedder>, demand: Demand) -> Result<(), &'static str> {
    shedder.map_or(Ok(()), |shedder| shedder.admit(demand))
}

/// A token bucket.
pub(super) struct RateLimit {
    per_second: f64,
    burst: f64,
    bucket: Mutex<Bucket>,
}

struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl RateLimit {
    pub(super) fn new(per_second: f64, burst: f64) -> Self {
        Self { per_second, burst, bucket: Mutex::new(Bucket { tokens: burst, filled: Instant::now() }) }
    }

    /// Takes the tokens of a call and leaves the share `reserved` of the burst. `Some` if there are too few: why, and whether there
    /// are too few even without a reserve; no token is taken then.
    pub(super) fn exceeded(&self, cost: usize, reserved: f64, now: Instant) -> Option<(String, bool)> {
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

impl LatencyLimit {
    /// `Some` if the average reaches this share of the threshold: why. The average decays without calls, so that a server that
    /// rejects everything recovers.
    pub(super) fn exceeded(&self, share: f64, now: Instant) -> Option<String> {
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
