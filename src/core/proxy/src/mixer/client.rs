//! A client of Mixer on one worker: checks, quotas, reports.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::HeaderValue;
use mixer_attribute::request::{CheckCall, encode_check_request};
use mixer_attribute::{GLOBAL_WORDS, OwnedAttributes};
use mixer_base::task::Group;
use mixer_client::{
    BatchLimits, CacheLimits, DecisionCache, QuotaCache, QuotaOutcome, QuotaRequest, ReportBatch, Verdict,
};
use mixer_wire::istio::mixer::v1::CheckResponse;
use mixer_wire::istio::mixer::v1::check_response::QuotaResult;
use prost::Message as _;
use tonic::{Code, Status};

use super::bounds::{Excess, Size};
use super::forwarded;
use super::statistics::MixerStat;
use crate::bootstrap::TransportConfig;
use crate::grpc::{Channel, Method, NOT_SENT, OVERFLOW, TIMED_OUT, is_overflow, is_unanswered};
use crate::stats::Block;
use crate::upstream::Pools;
use crate::uuid;

/// Bounds of a cache of a worker.
const CACHE: CacheLimits = CacheLimits { entries: 10_000, bytes: 16 << 20 };
const NO_CACHE: CacheLimits = CacheLimits { entries: 0, bytes: 0 };
/// Most memory of the reports that wait for a call, in bytes: with one more of the largest, a server takes them in one message.
const BATCH_BYTES: usize = 384 << 10;
/// Most memory of checks of a worker that wait for a server, in bytes.
const WAITING_BYTES: usize = 64 << 20;
/// Most calls with reports in flight.
const REPORTS_IN_FLIGHT: usize = 16;
/// Most fetches of quotas in flight.
const FETCHES_IN_FLIGHT: usize = 64;
/// How many global words a server knows at least.
const BASE_WORDS: u32 = 111;
/// What a server says to a client that knows more words.
const UNKNOWN_WORDS: &str = "Request could not be processed due to invalid";
/// The code of a quota that is exhausted, and those of requests that are refused here.
const RESOURCE_EXHAUSTED: i32 = 8;
const INVALID_ARGUMENT: i32 = 3;
const UNAVAILABLE: i32 = 14;

/// The methods of Mixer, and the time limit of a call.
const CHECK: &str = "/istio.mixer.v1.Mixer/Check";
const REPORT: &str = "/istio.mixer.v1.Mixer/Report";
const TIMEOUT: Duration = Duration::from_secs(5);

/// What the clients of all workers share.
#[derive(Debug)]
pub(crate) struct ClientConfig {
    pub(crate) transport: TransportConfig,
    pub(crate) check_cluster: Option<usize>,
    pub(crate) report_cluster: Option<usize>,
    pub(crate) stats: Arc<Block<MixerStat>>,
    /// Tells a proxy in front of Mixer who calls: a value of `x-istio-attributes`.
    pub(crate) caller: HeaderValue,
    /// Set when the filter is gone.
    pub(super) is_retired: AtomicBool,
}

impl ClientConfig {
    /// The filter is gone: no call follows.
    pub(super) fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }
}

impl ClientConfig {
    fn method(&self, path: &'static str) -> Method<'_> {
        let header = Some((forwarded::HEADER, &self.caller));
        Method { path, authority: "mixer", timeout: Some(TIMEOUT), header, once: path == REPORT }
    }
}

/// What a check says.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The code of gRPC; 0 for a request that may pass.
    pub(super) code: i32,
    pub(super) message: String,
    /// What the proxy does besides.
    pub(super) verdict: Option<Rc<Verdict>>,
    pub(super) check_hit: bool,
    pub(super) quota_hit: bool,
    /// Whether the request passes because no server answers.
    pub(super) is_unchecked: bool,
    /// What is too much of the request.
    pub(super) excess: Option<Excess>,
}

impl Outcome {
    /// Of a call that failed.
    fn failed(status: &Status) -> Self {
        let message = status.message().to_owned();
        Self { code: status.code().into(), message, ..Self::default() }
    }

    /// Whether the proxy has no place for the check.
    pub(super) fn is_overflow(&self) -> bool {
        self.code == UNAVAILABLE && self.message.starts_with(OVERFLOW) && self.verdict.is_none()
    }
}

/// Memory that checks in flight may take.
#[derive(Debug, Default)]
struct Budget(Cell<usize>);

/// A part of a budget; given back on drop.
#[derive(Debug)]
struct Held(Rc<Budget>, usize);

impl Budget {
    fn hold(self: &Rc<Self>, bytes: usize) -> Option<Held> {
        let held = self.0.get().checked_add(bytes).filter(|held| *held <= WAITING_BYTES)?;
        self.0.set(held);
        Some(Held(Rc::clone(self), bytes))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get().saturating_sub(self.1));
    }
}

/// The clients of a worker, one a filter.
#[derive(Debug)]
pub(crate) struct Clients {
    pools: Rc<Pools>,
    waiting: Rc<Budget>,
    known: RefCell<Vec<Rc<Client>>>,
}

impl Clients {
    /// No clients; those to come call the clusters of this worker.
    pub(crate) fn new(pools: Rc<Pools>) -> Self {
        Self { pools, waiting: Rc::default(), known: RefCell::default() }
    }

    /// The client of a filter.
    pub(super) fn of(&self, config: &Arc<ClientConfig>) -> Rc<Client> {
        let mut clients = self.known.borrow_mut();
        if let Some(client) = clients.iter().find(|client| Arc::ptr_eq(&client.config, config)) {
            return Rc::clone(client);
        }
        let (pools, waiting) = (Rc::clone(&self.pools), Rc::clone(&self.waiting));
        let client = Rc::new(Client::new(Arc::clone(config), pools, waiting));
        clients.push(Rc::clone(&client));
        client
    }

    /// Drops the clients of filters that are gone, once nothing of them waits or is in flight.
    pub(crate) fn sweep(&self) {
        let is_needed = |client: &Rc<Client>| {
            !client.config.is_retired.load(Ordering::Relaxed) || Rc::strong_count(client) > 1
        };
        self.known.borrow_mut().retain(is_needed);
    }

    /// Sends all reports that wait, and waits until they have arrived.
    pub(crate) async fn flush(&self) {
        let clients = self.known.borrow().clone();
        for client in &clients {
            client.send_batch();
        }
        while clients.iter().any(|client| client.reports_in_flight.get() > 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A client of Mixer on one worker.
#[derive(Debug)]
pub(super) struct Client {
    config: Arc<ClientConfig>,
    pools: Rc<Pools>,
    /// Of all clients of the worker.
    waiting: Rc<Budget>,
    checks: Channel,
    reports: Channel,
    cache: RefCell<DecisionCache<Rc<Verdict>>>,
    quotas: RefCell<QuotaCache>,
    batch: RefCell<ReportBatch>,
    /// The number of global words that are used.
    words: Cell<u32>,
    id: String,
    next_call: Cell<u64>,
    reports_in_flight: Cell<usize>,
    fetches_in_flight: Cell<usize>,
    failed_reports: Cell<u64>,
    calls: Group,
}

impl Client {
    fn new(config: Arc<ClientConfig>, pools: Rc<Pools>, waiting: Rc<Budget>) -> Self {
        let transport = &config.transport;
        let cache = if transport.check_cache { CACHE } else { NO_CACHE };
        let limits =
            BatchLimits { entries: transport.batch_entries, time: transport.batch_time, bytes: BATCH_BYTES };
        Self {
            checks: Channel::new(config.check_cluster),
            reports: Channel::new(config.report_cluster),
            cache: RefCell::new(DecisionCache::new(cache)),
            quotas: RefCell::new(QuotaCache::new(CACHE)),
            batch: RefCell::new(ReportBatch::new(limits)),
            words: Cell::new(u32::try_from(GLOBAL_WORDS.len()).unwrap_or(BASE_WORDS)),
            id: uuid::text(uuid::random()),
            next_call: Cell::new(0),
            reports_in_flight: Cell::new(0),
            fetches_in_flight: Cell::new(0),
            failed_reports: Cell::new(0),
            calls: Group::new("proxy mixer call"),
            config,
            pools,
            waiting,
        }
    }

    fn count(&self, stat: MixerStat) {
        self.config.stats.increment(stat);
    }

    /// Counts one of two.
    fn count_either(&self, is_first: bool, first: MixerStat, second: MixerStat) {
        self.count(if is_first { first } else { second });
    }

    /// Checks a request and charges its quotas. Dropping the future cancels the call.
    pub(super) async fn check(
        self: &Rc<Self>,
        attributes: &OwnedAttributes,
        quotas: &[(String, i64)],
    ) -> Outcome {
        self.count(MixerStat::CheckCalls);
        let now = Instant::now();
        let cached = self.cache.borrow_mut().get(b"", attributes, now);
        let check_hit = cached.is_some();
        self.count_either(check_hit, MixerStat::CheckCacheHits, MixerStat::CheckCacheMisses);
        if let Some(verdict) = &cached {
            self.count_either(
                verdict.is_ok(),
                MixerStat::CheckCacheHitAccepts,
                MixerStat::CheckCacheHitDenies,
            );
            if !verdict.is_ok() || quotas.is_empty() {
                return Outcome { check_hit, ..of(Rc::clone(verdict)) };
            }
        }
        if !quotas.is_empty() {
            self.count(MixerStat::QuotaCalls);
            let quota_hit = check_hit && self.config.transport.quota_cache;
            self.count_either(quota_hit, MixerStat::QuotaCacheHits, MixerStat::QuotaCacheMisses);
            if let (true, Some(verdict)) = (quota_hit, &cached) {
                let QuotaOutcome { exhausted, requests } =
                    self.quotas.borrow_mut().check(attributes, quotas, now);
                if !requests.is_empty() {
                    self.fetch(attributes, requests);
                }
                self.count_either(
                    exhausted.is_empty(),
                    MixerStat::QuotaCacheHitAccepts,
                    MixerStat::QuotaCacheHitDenies,
                );
                let mut outcome = of(Rc::clone(verdict));
                exhaust(&mut outcome, &exhausted);
                return Outcome { check_hit, quota_hit, ..outcome };
            }
        }
        Outcome { check_hit, ..self.ask(attributes, quotas, cached).await }
    }

    /// Asks the server.
    async fn ask(
        &self,
        attributes: &OwnedAttributes,
        quotas: &[(String, i64)],
        cached: Option<Rc<Verdict>>,
    ) -> Outcome {
        if cached.is_none() {
            self.count(MixerStat::RemoteCheckCalls);
            self.count(MixerStat::BlockingRemoteCheckCalls);
        }
        if !quotas.is_empty() {
            self.count(MixerStat::RemoteQuotaCalls);
            self.count(MixerStat::BlockingRemoteQuotaCalls);
        }
        let amounts = quotas.iter().map(|(name, charge)| (name.clone(), (*charge, false))).collect();
        let sent = Instant::now();
        let called = match self.waiting.hold(Size::of(attributes).memory()) {
            Some(_held) => self.call(attributes, amounts).await,
            None => Err(Status::unavailable(OVERFLOW)),
        };
        let response = match called {
            Ok(response) => response,
            Err(status) if self.opens() && is_unanswered(&status) => return self.pass_unchecked(&status),
            Err(status) => {
                if is_overflow(&status) {
                    self.count(MixerStat::CheckOverflows);
                }
                return Outcome::failed(&status);
            }
        };
        let verdict = self.learn(attributes, &response, sent);
        if cached.is_none() {
            self.count_either(verdict.is_ok(), MixerStat::RemoteCheckAccepts, MixerStat::RemoteCheckDenies);
        }
        let mut outcome = of(verdict);
        if !quotas.is_empty() {
            let is_granted = |(name, _): &&(String, i64)| {
                // A quota without an answer counts as a check without one.
                response.quotas.get(name).map_or(self.opens(), |result| {
                    let code = result.status.as_ref().map_or(0, |status| status.code);
                    result.granted_amount > 0 || (code == UNAVAILABLE && self.opens())
                })
            };
            let refused = quotas.iter().filter(|quota| !is_granted(quota)).map(|(name, _)| name.clone());
            let refused: Vec<String> = refused.collect();
            self.count_either(
                refused.is_empty(),
                MixerStat::RemoteQuotaAccepts,
                MixerStat::RemoteQuotaDenies,
            );
            exhaust(&mut outcome, &refused);
        }
        outcome
    }

    /// The verdict of an answer, which is cached as long as it says.
    fn learn(&self, attributes: &OwnedAttributes, response: &CheckResponse, sent: Instant) -> Rc<Verdict> {
        let verdict = Rc::new(Verdict::of(response));
        let references = response.precondition.as_ref().and_then(|p| p.referenced_attributes.as_ref());
        if let (Some(lifetime), Some(references)) = (verdict.lifetime(sent), references) {
            let words = self.known_words();
            let mut cache = self.cache.borrow_mut();
            cache.insert(b"", attributes, references, words, Rc::clone(&verdict), lifetime);
        }
        verdict
    }

    /// Whether requests pass while no server answers.
    fn opens(&self) -> bool {
        self.config.transport.fail_policy.opens
    }

    /// Lets a request pass that no server has checked, and says so.
    fn pass_unchecked(&self, status: &Status) -> Outcome {
        self.count(MixerStat::CheckFailOpens);
        let (code, error) = (status.code(), status.message());
        mixer_base::warn_limited!(
            1,
            ?code,
            error,
            "no Mixer answers: a request or connection passes unchecked (FAIL_OPEN)"
        );
        Outcome { is_unchecked: true, ..Outcome::default() }
    }

    /// Refuses a request that a server would not take.
    pub(super) fn refuse(&self, excess: Excess) -> Outcome {
        self.count(MixerStat::CheckOversized);
        let (code, message) = (INVALID_ARGUMENT, excess.message());
        Outcome { code, message, excess: Some(excess), ..Outcome::default() }
    }

    fn known_words(&self) -> usize {
        usize::try_from(self.words.get()).unwrap_or(0)
    }

    /// Fetches amounts of quotas in the background.
    fn fetch(self: &Rc<Self>, attributes: &OwnedAttributes, requests: Vec<QuotaRequest>) {
        let held = self.waiting.hold(Size::of(attributes).memory());
        if self.fetches_in_flight.get() >= FETCHES_IN_FLIGHT || held.is_none() {
            // The server is slow, and is not asked: nothing is granted.
            let mut quotas = self.quotas.borrow_mut();
            for request in requests {
                quotas.answer(attributes, request, Some(&QuotaResult::default()), 0, Instant::now());
            }
            return;
        }
        self.count(MixerStat::RemoteQuotaPrefetchCalls);
        self.fetches_in_flight.set(self.fetches_in_flight.get() + 1);
        let (client, attributes) = (Rc::clone(self), attributes.clone());
        drop(self.calls.spawn_local(async move {
            let amounts = requests.iter().map(|r| (r.name.clone(), (r.amount(), true))).collect();
            let sent = Instant::now();
            let response = client.call(&attributes, amounts).await;
            drop(held);
            if let Ok(response) = &response {
                client.learn(&attributes, response, sent);
            }
            let (words, mut quotas) = (client.known_words(), client.quotas.borrow_mut());
            let (nothing, is_unanswered) =
                (QuotaResult::default(), response.as_ref().err().is_none_or(is_unanswered));
            for request in requests {
                let result = response.as_ref().ok().and_then(|response| response.quotas.get(&request.name));
                // Without an answer the charges are granted if the filter opens, and nothing is if it does not.
                let result = result.or((!client.opens() || !is_unanswered).then_some(&nothing));
                quotas.answer(&attributes, request, result, words, Instant::now());
            }
            client.fetches_in_flight.set(client.fetches_in_flight.get().saturating_sub(1));
        }));
    }

    /// Calls Check, with retries.
    async fn call(
        &self,
        attributes: &OwnedAttributes,
        quotas: BTreeMap<String, (i64, bool)>,
    ) -> Result<CheckResponse, Status> {
        let number = self.next_call.get();
        self.next_call.set(number.wrapping_add(1));
        let deduplication_id = format!("{}{number}", self.id);
        let call = CheckCall { deduplication_id: &deduplication_id, quotas };
        let policy = self.config.transport.fail_policy;
        let mut cancelled = CountCancellation(&self.config, true);
        let mut attempt = 0;
        let outcome = loop {
            let message =
                mixer_remote::grpc_message(&encode_check_request(attributes, self.words.get(), &call));
            let answer = self.attempt(message).await;
            let Err(status) = answer else { break answer };
            if attempt >= policy.max_retry || is_overflow(&status) {
                break Err(status);
            }
            self.count(MixerStat::RemoteCallRetries);
            tokio::time::sleep(retry_pause(policy.wait, attempt)).await;
            attempt += 1;
        };
        cancelled.1 = false;
        outcome
    }

    /// `message` has its prefix; the text that it is made of is not kept beside it.
    async fn attempt(&self, message: Result<Bytes, Status>) -> Result<CheckResponse, Status> {
        self.count(MixerStat::RemoteCalls);
        let called = match message {
            Ok(message) => self.checks.call(&self.pools, &self.config.method(CHECK), message.into()).await,
            Err(status) => Err(status),
        };
        let answer = called.and_then(|answer| {
            let invalid = |_| Status::internal("the answer of Mixer is no CheckResponse");
            CheckResponse::decode(answer).map_err(invalid)
        });
        self.count(match &answer {
            Ok(_) => MixerStat::RemoteCallSuccesses,
            Err(status) => match class(status) {
                Class::TimedOut => MixerStat::RemoteCallTimeouts,
                Class::NotSent => MixerStat::RemoteCallSendErrors,
                Class::Other => MixerStat::RemoteCallOtherErrors,
            },
        });
        if let Err(status) = &answer
            && status.code() == Code::InvalidArgument
            && status.message().starts_with(UNKNOWN_WORDS)
        {
            self.words.set(BASE_WORDS);
        }
        answer
    }

    /// Adds a report to the batch, which is sent when it is full or old enough.
    pub(super) fn report(self: &Rc<Self>, report: OwnedAttributes) {
        self.count(MixerStat::ReportCalls);
        let mut batch = self.batch.borrow_mut();
        let is_first = batch.is_empty();
        let is_full = batch.add(report, Instant::now());
        let deadline = batch.deadline();
        drop(batch);
        if is_full {
            self.send_batch();
        } else if let (true, Some(deadline)) = (is_first, deadline) {
            let client = Rc::clone(self);
            drop(self.calls.spawn_local(async move {
                tokio::time::sleep_until(deadline.into()).await;
                let is_same = client.batch.borrow().deadline() == Some(deadline);
                if is_same {
                    client.send_batch();
                }
            }));
        }
    }

    /// Sends the reports that wait. They are never sent again; what cannot be sent is counted and dropped.
    fn send_batch(self: &Rc<Self>) {
        let Some(body) = self.batch.borrow_mut().take(self.words.get()) else { return };
        self.count(MixerStat::RemoteReportCalls);
        if self.reports_in_flight.get() >= REPORTS_IN_FLIGHT {
            return self.fail_report(&Status::resource_exhausted("too many reports are in flight"));
        }
        self.reports_in_flight.set(self.reports_in_flight.get() + 1);
        let client = Rc::clone(self);
        drop(self.calls.spawn_local(async move {
            let message = mixer_remote::grpc_message(&body);
            drop(body);
            let called = match message {
                Ok(message) => {
                    client.reports.call(&client.pools, &client.config.method(REPORT), message.into()).await
                }
                Err(status) => Err(status),
            };
            match called {
                Ok(_) => client.count(MixerStat::RemoteReportSuccesses),
                Err(status) => client.fail_report(&status),
            }
            client.reports_in_flight.set(client.reports_in_flight.get().saturating_sub(1));
        }));
    }

    fn fail_report(&self, status: &Status) {
        self.count(match class(status) {
            Class::TimedOut => MixerStat::RemoteReportTimeouts,
            Class::NotSent => MixerStat::RemoteReportSendErrors,
            Class::Other => MixerStat::RemoteReportOtherErrors,
        });
        let failed = self.failed_reports.get();
        self.failed_reports.set(failed.wrapping_add(1));
        if failed.is_multiple_of(100) {
            let (code, message) = (status.code(), status.message());
            tracing::warn!(?code, message, failed = failed + 1, "reports to Mixer are lost");
        }
    }
}

/// The outcome of a verdict.
fn of(verdict: Rc<Verdict>) -> Outcome {
    Outcome {
        code: verdict.code,
        message: verdict.message.clone(),
        verdict: Some(verdict),
        ..Outcome::default()
    }
}

/// Refuses a request that would pass, if quotas are exhausted.
fn exhaust(outcome: &mut Outcome, names: &[String]) {
    if outcome.code == 0 && !names.is_empty() {
        outcome.code = RESOURCE_EXHAUSTED;
        outcome.message = format!("Quota is exhausted for: {}", names.join(","));
    }
}

/// How a call failed.
enum Class {
    TimedOut,
    NotSent,
    Other,
}

fn class(status: &Status) -> Class {
    let begins = |text: &str| status.code() == Code::Unavailable && status.message().starts_with(text);
    if begins(TIMED_OUT) {
        Class::TimedOut
    } else if begins(NOT_SENT) {
        Class::NotSent
    } else {
        Class::Other
    }
}

/// A random pause between the first one and one that doubles with each attempt, up to the longest.
pub(super) fn retry_pause((base, max): (Duration, Duration), attempt: u32) -> Duration {
    let ceiling = base.saturating_mul(2_u32.saturating_pow(attempt.min(30))).min(max).max(base);
    base + (ceiling - base).mul_f64(fastrand::f64())
}

/// Counts a call whose caller is gone before its end.
struct CountCancellation<'c>(&'c ClientConfig, bool);

impl Drop for CountCancellation<'_> {
    fn drop(&mut self) {
        if self.1 {
            self.0.stats.increment(MixerStat::RemoteCallCancellations);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_checks_is_bounded_and_given_back() {
        let budget = Rc::<Budget>::default();
        let all: Vec<Held> = (0..64).map(|_| budget.hold(1 << 20).unwrap()).collect();
        assert!(budget.hold(1).is_none() && budget.hold(usize::MAX).is_none());
        drop(all);
        assert!(budget.hold(WAITING_BYTES).is_some());
        assert_eq!(budget.0.get(), 0);
    }
}
