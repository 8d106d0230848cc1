//! What becomes of the calls of Mixer's clients and of Envoy: answered, failed, left unanswered, shed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use mixer_base::metrics::{Counter, Family, Metrics, RpcCounters};
use mixer_base::rpc_code;

const MIXER_CHECK: &str = "istio.mixer.v1.Mixer/Check";
const MIXER_REPORT: &str = "istio.mixer.v1.Mixer/Report";
/// Over gRPC and over HTTP, as the next ones.
const ENVOY_CHECKS: [&str; 2] = ["envoy.service.auth.v3.Authorization/Check", "ext_authz.http/Check"];
const ENVOY_LIMITS: [&str; 2] =
    ["envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", "ratelimit.http/ShouldRateLimit"];

const OK: &str = "OK";
/// The status of calls whose caller left before the answer.
const CANCELLED: &str = "CANCELLED";
/// The status of calls that are refused for what their caller sent.
const INVALID: &str = "INVALID_ARGUMENT";
const UNKNOWN: &str = "UNKNOWN";

/// The results of Envoy's calls whose evaluation failed, in `bridge_check_total` and `bridge_ratelimit_total`.
const ALLOWED: &str = "error_allowed";
/// Those of checks alone.
const ALLOWED_IN_SHADOW: &str = "shadow_error";
const DENIED: &str = "error_denied";
const LEFT_TO_PROXY: &str = "error";

/// What load shedding does with calls above its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shedding {
    /// There are no limits.
    Disabled,
    /// They are counted, and answered.
    LogOnly,
    /// They are refused.
    Enforce,
}

/// A method and its counters.
struct Method {
    name: &'static str,
    counters: Arc<RpcCounters>,
}

impl Method {
    fn new(metrics: &Metrics, name: &'static str) -> Self {
        Self { name, counters: metrics.rpc(name) }
    }

    /// Calls by status.
    fn completed(&self) -> BTreeMap<&'static str, u64> {
        self.counters.completed().filter(|(_, count)| *count > 0).collect()
    }

    fn total(&self) -> u64 {
        self.counters.completed().map(|(_, count)| count).sum()
    }
}

/// The counters of the calls of a process.
pub struct CallCounters {
    metrics: Arc<Metrics>,
    mixer: [Method; 2],
    checks: [Method; 2],
    limits: [Method; 2],
    /// Messages of access logs, which are reports.
    logs: Counter,
    shed: Counter,
}

impl std::fmt::Debug for CallCounters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallCounters").finish_non_exhaustive()
    }
}

/// What became of calls; messages of access logs are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// All that ended.
    pub calls: u64,
    /// Those that failed, by the name of their status. Those of Envoy that `errorMode` or shadow mode decided about are among them.
    pub failed: BTreeMap<&'static str, u64>,
    /// Those that were refused for what their caller sent, before anything was evaluated, by the status with which they count: that of the failed
    /// call, `CANCELLED` for one that broke off, `OK` for one that is answered with a denial.
    pub invalid: BTreeMap<&'static str, u64>,
    /// Failed calls of Envoy that `errorMode` or shadow mode allowed.
    pub allowed: u64,
    /// Failed calls of Envoy that `errorMode` denied.
    pub denied: u64,
    /// Those whose caller left before the answer.
    pub unanswered: u64,
    /// Those above the limits of load shedding. They are among the failed ones if it refuses them.
    pub shed: u64,
}

impl Outcomes {
    /// The number of failed calls.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Without the invalid calls. Those of one status hide no failure of another one.
    fn valid(mut self) -> Self {
        for (status, invalid) in &self.invalid {
            let mut left = *invalid;
            let mut leave_out = |calls: &mut u64| {
                let taken = left.min(*calls);
                left -= taken;
                *calls -= taken;
                self.calls = self.calls.saturating_sub(taken);
            };
            match *status {
                OK => self.calls = self.calls.saturating_sub(*invalid),
                // Where `errorMode` answers a call that broke off, it is a failed one.
                CANCELLED => {
                    self.failed.get_mut(CANCELLED).into_iter().for_each(&mut leave_out);
                    leave_out(&mut self.unanswered);
                }
                status => self.failed.get_mut(status).into_iter().for_each(leave_out),
            }
        }
        self.failed.retain(|_, calls| *calls > 0);
        self
    }

    fn fail(&mut self, status: &'static str, count: u64) {
        if count > 0 {
            *self.failed.entry(status).or_default() += count;
        }
    }

    /// Counts the calls of a method.
    fn count(&mut self, method: &Method) {
        let completed = method.completed();
        self.calls += completed.values().sum::<u64>();
        self.unanswered += completed.get(CANCELLED).copied().unwrap_or_default();
        for (status, count) in method.counters.invalid() {
            if count > 0 && status != INVALID {
                *self.invalid.entry(status).or_default() += count;
            }
        }
        for (status, count) in completed {
            if ![OK, CANCELLED].contains(&status) {
                self.fail(status, count);
            }
        }
    }

    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        other.failed.iter().for_each(|(status, count)| self.fail(status, *count));
        for (status, count) in &other.invalid {
            *self.invalid.entry(*status).or_default() += count;
        }
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.unanswered += other.unanswered;
        self.shed += other.shed;
    }

    /// Those that came after `earlier`.
    fn since(&self, earlier: &Self) -> Self {
        let since = |now: u64, then: u64| now.saturating_sub(then);
        let by_status = |now: &BTreeMap<&'static str, u64>, then: &BTreeMap<&'static str, u64>| {
            let before = |status| then.get(status).copied().unwrap_or_default();
            let all = now.iter().map(|(status, count)| (*status, since(*count, before(status))));
            all.filter(|(_, count)| *count > 0).collect()
        };
        Self {
            calls: since(self.calls, earlier.calls),
            failed: by_status(&self.failed, &earlier.failed),
            invalid: by_status(&self.invalid, &earlier.invalid),
            allowed: since(self.allowed, earlier.allowed),
            denied: since(self.denied, earlier.denied),
            unanswered: since(self.unanswered, earlier.unanswered),
            shed: since(self.shed, earlier.shed),
        }
    }
}

impl CallCounters {
    /// The counters of a process.
    pub fn new(metrics: &Arc<Metrics>) -> Self {
        Self {
            mixer: [MIXER_CHECK, MIXER_REPORT].map(|name| Method::new(metrics, name)),
            checks: ENVOY_CHECKS.map(|name| Method::new(metrics, name)),
            limits: ENVOY_LIMITS.map(|name| Method::new(metrics, name)),
            logs: metrics.counter(Family::BridgeLogMessages, &[]),
            shed: metrics.counter(Family::LoadSheddingThrottled, &[]),
            metrics: Arc::clone(metrics),
        }
    }

    fn check_methods(&self) -> impl Iterator<Item = &Method> {
        self.mixer.iter().take(1).chain(&self.checks)
    }

    fn methods(&self) -> impl Iterator<Item = &Method> {
        self.mixer.iter().chain(&self.checks).chain(&self.limits)
    }

    /// Checks of Mixer's clients and of Envoy.
    pub(super) fn checks(&self) -> u64 {
        self.check_methods().map(Method::total).sum()
    }

    /// Reports, with the messages of access logs.
    pub(super) fn reports(&self) -> u64 {
        self.mixer.iter().skip(1).map(Method::total).sum::<u64>() + self.logs()
    }

    /// Messages of access logs.
    pub(super) fn logs(&self) -> u64 {
        self.logs.get()
    }

    /// Requests for rate limits.
    pub(super) fn limits(&self) -> u64 {
        self.limits.iter().map(Method::total).sum()
    }

    /// Checks by bucket of their latency, summed over methods.
    pub(super) fn latency_of_checks(&self) -> Vec<u64> {
        let mut all: Vec<u64> = Vec::new();
        for method in self.check_methods() {
            let (counts, _) = method.counters.latency().get();
            all.resize(counts.len(), 0);
            all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
        }
        all
    }

    /// Calls of each method that was called, by status.
    pub(super) fn by_method(&self) -> Vec<(&'static str, BTreeMap<&'static str, u64>)> {
        let all = self.methods().map(|method| (method.name, method.completed()));
        all.filter(|(_, completed)| !completed.is_empty()).collect()
    }

    /// What became of all calls since the start. Cost: a pass over the counters.
    pub fn outcomes(&self) -> Outcomes {
        let mut all = Outcomes { shed: self.shed.get(), ..Outcomes::default() };
        self.by_service().iter().for_each(|service| all.add(service));
        all
    }

    /// The same of each service, in the order of [`SERVICES`], but for those that were shed.
    fn by_service(&self) -> [Outcomes; SERVICES.len()] {
        let [checks, reports] = &self.mixer;
        let of = |methods: &[Method]| {
            let mut outcomes = Outcomes::default();
            methods.iter().for_each(|method| outcomes.count(method));
            outcomes
        };
        let [mut checks_of_envoy, mut limits] = [of(&self.checks), of(&self.limits)];
        // `bridge_check_total` has the checks of Envoy that failed, whatever they were answered with.
        checks_of_envoy.failed.clear();
        self.metrics.each(Family::BridgeChecks, |labels, count| {
            let [code, result] = labels else { return };
            match result.as_str() {
                ALLOWED | ALLOWED_IN_SHADOW => checks_of_envoy.allowed += count,
                DENIED => checks_of_envoy.denied += count,
                // Those whose caller left are counted.
                LEFT_TO_PROXY if code != CANCELLED => {}
                _ => return,
            }
            checks_of_envoy.fail(status_named(code), count);
        });
        self.metrics.each(Family::BridgeRateLimits, |labels, count| {
            // What is left to the proxy has its status already.
            match labels.last().map(String::as_str) {
                Some(ALLOWED) => limits.allowed += count,
                Some(DENIED) => limits.denied += count,
                _ => return,
            }
            limits.fail(UNKNOWN, count);
        });
        let of_one = |method: &Method| of(std::slice::from_ref(method));
        let mut all = [of_one(checks), of_one(reports), checks_of_envoy, limits];
        for outcomes in &mut all {
            // All of them.
            if let Some(invalid) = outcomes.failed.get(INVALID).copied() {
                outcomes.invalid.insert(INVALID, invalid);
            }
        }
        all
    }
}

fn status_named(name: &str) -> &'static str {
    (0..).map_while(rpc_code::name).find(|known| *known == name).unwrap_or(UNKNOWN)
}

/// The time over which [`RecentOutcomes`] looks back.
const RECENT: Duration = Duration::from_secs(30);
/// It looks back further until there are so many calls: that nobody calls is no sign that calls are answered.
const MANY: u64 = 20;
/// But not further than this.
const LONG_PAST: Duration = Duration::from_secs(600);
/// Looks in shorter intervals are not kept.
const INTERVAL: Duration = Duration::from_millis(500);
/// Fewer failures tell nothing about the calls to come.
const FEWEST: u64 = 3;
/// What the calls of each service are called. One service may fail beside others that answer.
const SERVICES: [&str; 4] = ["checks", "reports", "checks of Envoy", "rate-limit calls"];

/// The last calls of each service, to tell when most of them fail.
#[derive(Debug)]
pub struct RecentOutcomes {
    counters: CallCounters,
    shedding: Shedding,
    /// Of each service when, and what had become of its calls until then.
    looks: [VecDeque<(Instant, Outcomes)>; SERVICES.len()],
    /// When, and how many calls had been shed until then.
    shed: VecDeque<(Instant, u64)>,
}

impl RecentOutcomes {
    /// Of the calls from now on.
    pub fn new(metrics: &Arc<Metrics>, shedding: Shedding) -> Self {
        let counters = CallCounters::new(metrics);
        Self { counters, shedding, looks: Default::default(), shed: VecDeque::new() }
    }

    /// Forgets the calls so far, whose failures have another reason that is told.
    pub fn forget(&mut self) {
        self.looks.iter_mut().for_each(VecDeque::clear);
        self.shed.clear();
    }

    /// Errors: that most calls of a service failed, or were left unanswered, and how: of the last half minute, or of the last twenty if those are
    /// more and no older than ten minutes. To be called regularly. Calls that are refused for what their caller sent count neither as failed nor
    /// as all.
    pub fn look(&mut self, now: Instant) -> Result<(), String> {
        let shed = self.counters.shed.get();
        forget_old(&mut self.shed, now, |_| true);
        let shed_lately = self.shed.front().map_or(0, |(_, before)| shed - before);
        keep(&mut self.shed, now, shed);
        let mut failing = Vec::new();
        for ((looks, outcomes), name) in self.looks.iter_mut().zip(self.counters.by_service()).zip(SERVICES) {
            forget_old(looks, now, |earlier| outcomes.since(earlier).valid().calls >= MANY);
            let recent = looks.front().map(|(_, earlier)| outcomes.since(earlier));
            failing.extend(recent.and_then(|recent| mostly_failed(name, recent)));
            keep(looks, now, outcomes);
        }
        if failing.is_empty() {
            return Ok(());
        }
        let mut why = failing.join("; ");
        if shed_lately > 0 && self.shedding == Shedding::Enforce {
            why += &format!("; load shedding refused {shed_lately}");
        }
        Err(why)
    }
}

/// Forgets the looks before the one that is to be compared with: the last that is old enough, if `has_many` calls came after it.
fn forget_old<T>(looks: &mut VecDeque<(Instant, T)>, now: Instant, has_many: impl Fn(&T) -> bool) {
    let is_old = |(then, earlier): &(Instant, T)| {
        let age = now.saturating_duration_since(*then);
        age >= LONG_PAST || (age >= RECENT && has_many(earlier))
    };
    while looks.get(1).is_some_and(is_old) {
        looks.pop_front();
    }
}

/// Adds a look, unless the last one was just now.
fn keep<T>(looks: &mut VecDeque<(Instant, T)>, now: Instant, look: T) {
    if looks.back().is_none_or(|(last, _)| now.saturating_duration_since(*last) >= INTERVAL) {
        looks.push_back((now, look));
    }
}

/// That most calls of a service failed, and how; `None` if they did not.
fn mostly_failed(service: &str, recent: Outcomes) -> Option<String> {
    let recent = recent.valid();
    let (calls, lost) = (recent.calls, recent.failures() + recent.unanswered);
    if lost < FEWEST || lost * 2 <= calls {
        return None;
    }
    let mut parts: Vec<String> =
        recent.failed.iter().map(|(status, count)| format!("{count} {status}")).collect();
    if recent.unanswered > 0 {
        parts.push(format!("{} whose callers left before the answer", recent.unanswered));
    }
    let mut why = format!("{lost} of the last {calls} {service} failed: {}", parts.join(", "));
    if recent.allowed > 0 {
        let allowed = recent.allowed.min(recent.failures());
        why += &format!("; {allowed} of them were allowed, by errorMode or shadow mode");
    }
    Some(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(metrics: &Metrics, method: &str, code: i32, count: u32) {
        let counters = metrics.rpc(method);
        (0..count).for_each(|_| counters.record(code, Duration::from_millis(1), 1, 1));
    }

    fn invalid(metrics: &Metrics, method: &str, code: i32, count: u32) {
        let counters = metrics.rpc(method);
        (0..count).for_each(|_| counters.record_invalid(code));
    }

    #[test]
    fn every_call_that_fails_is_counted_once() {
        let metrics = Arc::new(Metrics::new());
        let calls = CallCounters::new(&metrics);
        record(&metrics, MIXER_CHECK, 0, 5);
        record(&metrics, MIXER_CHECK, 14, 2);
        record(&metrics, MIXER_REPORT, 1, 1);
        // A check of Envoy that fails: left to the proxy, allowed, in shadow mode too, denied; and one over HTTP whose status is that of the failure all the same.
        for (method, code, result) in [
            ("envoy.service.auth.v3.Authorization/Check", 14, LEFT_TO_PROXY),
            ("envoy.service.auth.v3.Authorization/Check", 0, ALLOWED),
            ("envoy.service.auth.v3.Authorization/Check", 0, ALLOWED_IN_SHADOW),
            ("ext_authz.http/Check", 14, DENIED),
        ] {
            record(&metrics, method, code, 1);
            metrics.counter(Family::BridgeChecks, &["UNAVAILABLE", result]).increment();
        }
        record(&metrics, "ext_authz.http/Check", 1, 1);
        metrics.counter(Family::BridgeChecks, &["CANCELLED", LEFT_TO_PROXY]).increment();
        metrics.counter(Family::BridgeChecks, &["PERMISSION_DENIED", "deny"]).add(7);
        metrics.counter(Family::BridgeChecks, &["PERMISSION_DENIED", "shadow_denied"]).add(7);
        record(&metrics, ENVOY_LIMITS[0], 13, 1);
        record(&metrics, ENVOY_LIMITS[0], 0, 1);
        for result in [LEFT_TO_PROXY, ALLOWED, "over"] {
            metrics.counter(Family::BridgeRateLimits, &["shop", result]).increment();
        }
        metrics.counter(Family::LoadSheddingThrottled, &[]).add(2);
        let outcomes = calls.outcomes();
        let expected = Outcomes {
            calls: 15,
            failed: BTreeMap::from([("INTERNAL", 1), ("UNAVAILABLE", 6), ("UNKNOWN", 1)]),
            invalid: BTreeMap::new(),
            allowed: 3,
            denied: 1,
            unanswered: 2,
            shed: 2,
        };
        assert_eq!(outcomes, expected);
        assert_eq!((calls.checks(), calls.reports(), calls.limits()), (12, 1, 2));
    }

    #[test]
    fn it_is_told_while_most_calls_fail() {
        let metrics = Arc::new(Metrics::new());
        let mut recent = RecentOutcomes::new(&metrics, Shedding::Enforce);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        record(&metrics, MIXER_CHECK, 14, 50);
        assert_eq!(recent.look(at(0)), Ok(()), "what was before is not known");
        record(&metrics, MIXER_CHECK, 14, 2);
        assert_eq!(recent.look(at(1)), Ok(()), "two calls are few");
        record(&metrics, MIXER_CHECK, 3, 90);
        record(&metrics, MIXER_REPORT, 13, 90);
        invalid(&metrics, MIXER_REPORT, 13, 90);
        assert_eq!(recent.look(at(2)), Ok(()), "what callers send is up to them");
        record(&metrics, MIXER_CHECK, 14, 1);
        record(&metrics, MIXER_CHECK, 1, 1);
        metrics.counter(Family::LoadSheddingThrottled, &[]).add(3);
        let why = "4 of the last 4 checks failed: 3 UNAVAILABLE, 1 whose callers left before the answer; \
                   load shedding refused 3";
        assert_eq!(recent.look(at(3)), Err(why.to_owned()));
        record(&metrics, MIXER_CHECK, 0, 4);
        assert_eq!(recent.look(at(4)), Ok(()), "half of them are answered");
        record(&metrics, MIXER_CHECK, 13, 9);
        assert!(recent.look(at(5)).is_err());
        recent.forget();
        assert_eq!(recent.look(at(6)), Ok(()));
        record(&metrics, MIXER_CHECK, 13, 3);
        assert!(recent.look(at(7)).is_err());
        assert!(recent.look(at(35)).is_err());
        assert!(recent.look(at(200)).is_err(), "that nobody calls is no sign that calls are answered");
        record(&metrics, MIXER_CHECK, 0, 4);
        assert_eq!(recent.look(at(201)), Ok(()));
        record(&metrics, MIXER_CHECK, 13, 9);
        assert!(recent.look(at(202)).is_err());
        assert!(recent.look(at(700)).is_err());
        assert_eq!(recent.look(at(900)), Ok(()), "they are long past");
    }

    /// Callers choose how many calls are invalid.
    #[test]
    fn invalid_calls_hide_no_failure() {
        let metrics = Arc::new(Metrics::new());
        let mut recent = RecentOutcomes::new(&metrics, Shedding::Disabled);
        let start = Instant::now();
        assert_eq!(recent.look(start), Ok(()));
        record(&metrics, MIXER_CHECK, 13, 10);
        // Of another status, and answered with a denial.
        invalid(&metrics, MIXER_CHECK, 8, 1000);
        record(&metrics, MIXER_CHECK, 0, 1000);
        invalid(&metrics, MIXER_CHECK, 0, 1000);
        let why = "10 of the last 10 checks failed: 10 INTERNAL";
        assert_eq!(recent.look(start + INTERVAL), Err(why.to_owned()));
    }

    #[test]
    fn invalid_calls_are_none() {
        let metrics = Arc::new(Metrics::new());
        let mut recent = RecentOutcomes::new(&metrics, Shedding::Disabled);
        let start = Instant::now();
        assert_eq!(recent.look(start), Ok(()));
        record(&metrics, MIXER_CHECK, 0, 10);
        for code in [1, 2, 4, 8, 12, 13] {
            record(&metrics, MIXER_CHECK, code, 1000);
            invalid(&metrics, MIXER_CHECK, code, 1000);
        }
        // Checks of Envoy that broke off, which `errorMode` denies.
        record(&metrics, ENVOY_CHECKS[0], 0, 1000);
        metrics.counter(Family::BridgeChecks, &["CANCELLED", DENIED]).add(1000);
        invalid(&metrics, ENVOY_CHECKS[0], 1, 1000);
        assert_eq!(recent.look(start + INTERVAL), Ok(()));
        // Callers that left while their calls were evaluated are others.
        record(&metrics, MIXER_CHECK, 1, 11);
        let why = "11 of the last 21 checks failed: 11 whose callers left before the answer";
        assert_eq!(recent.look(start + 2 * INTERVAL), Err(why.to_owned()));
    }

    #[test]
    fn a_service_that_fails_beside_others_is_told() {
        let metrics = Arc::new(Metrics::new());
        let mut recent = RecentOutcomes::new(&metrics, Shedding::Disabled);
        let start = Instant::now();
        assert_eq!(recent.look(start), Ok(()));
        record(&metrics, ENVOY_CHECKS[0], 0, 1000);
        record(&metrics, MIXER_REPORT, 0, 1000);
        record(&metrics, ENVOY_LIMITS[0], 0, 8);
        metrics.counter(Family::BridgeRateLimits, &["shop", ALLOWED]).add(8);
        let why = "8 of the last 8 rate-limit calls failed: 8 UNKNOWN; 8 of them were allowed, by errorMode or shadow mode";
        assert_eq!(recent.look(start + INTERVAL), Err(why.to_owned()));
        // One each eleven seconds is no less.
        let mut recent = RecentOutcomes::new(&metrics, Shedding::Disabled);
        let slow = (0..8).map(|n| {
            record(&metrics, MIXER_CHECK, 13, 1);
            recent.look(start + Duration::from_secs(11 * n))
        });
        assert!(slow.last().unwrap().is_err());
    }
}
