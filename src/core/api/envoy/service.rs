//! The calls of Envoy, from bytes to bytes. One [`BridgeService`] a worker.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bumpalo::Bump;
use bytes::Bytes;

use super::access_log::{ConnectionCounters, Entry, LogKind, LogMessage, set_entry};
use super::attributes::{AttributePlan, Attributes, Slots};
use super::check_request::{CheckFacts, Metadata, set_check_request};
use super::check_response::{self, Asked, Decision, ResponseMetadata};
use super::descriptor::{Descriptor, RateLimitRequest, set_descriptor};
use super::metrics::BridgeMetrics;
use super::node::LogIdentity;
use super::rate_limit::{self, Code as LimitCode, LimitMetrics, StatedLimit, Status, Windows};
use crate::core::api::grpc::{Code, GrpcError, begin_message, finish_message};
use crate::core::attribute::{AttributeBag, Timestamp, Value};
use crate::core::check_cache::{CachedAnswer, CheckCache, CheckCacheCounters, CheckCacheLimits};
use crate::core::denials::request_of;
use crate::core::dispatch::{
    self, CheckOutcome, DispatchContext, LastKnownAnswers, QuotaRequest, ReportCollector, RouteDirective,
};
use crate::core::load_shedding::{LoadShedder, OVERLOADED};
use crate::core::runtime::{Published, Runtime};
use crate::core::snapshot::envoy::{CheckQuota, EnvoyConfig, ErrorMode, Mode, Unmatched};
use crate::core::snapshot::{RuleConfig, SnapshotId};
use crate::core::telemetry::metrics::{Family, Metrics};

/// Arenas that a worker keeps for its next requests.
const SPARE_ARENAS: usize = 64;
/// An arena that grew beyond this is given back to the allocator.
const MAX_SPARE_BYTES: usize = 256 << 10;
/// Memory for kept answers, for each that may be kept.
const CACHE_BYTES_PER_ENTRY: u64 = 1024;

/// What all workers of a server share.
pub struct BridgeShared {
    runtime: Arc<Runtime>,
    metrics: Arc<Metrics>,
    last_known: Arc<LastKnownAnswers>,
    shedder: Option<Arc<LoadShedder>>,
    windows: Windows,
    streams: AtomicI64,
    connections: AtomicI64,
    next_stream: AtomicI64,
}

impl BridgeShared {
    /// Over a runtime, nothing counted yet.
    pub fn new(
        runtime: Arc<Runtime>,
        metrics: Arc<Metrics>,
        last_known: Arc<LastKnownAnswers>,
        shedder: Option<Arc<LoadShedder>>,
    ) -> Self {
        Self {
            runtime,
            metrics,
            last_known,
            shedder,
            windows: Windows::default(),
            streams: AtomicI64::new(0),
            connections: AtomicI64::new(0),
            next_stream: AtomicI64::new(0),
        }
    }

    /// What requests see.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }
}

/// Answers the calls of Envoy. One a worker: it keeps memory and answers for reuse without locks.
pub struct BridgeService {
    shared: Arc<BridgeShared>,
    metrics: BridgeMetrics,
    limit_metrics: LimitMetrics,
    arenas: RefCell<Vec<Bump>>,
    /// What depends on the configuration in force.
    present: RefCell<Option<Arc<Present>>>,
    cache_counters: Arc<CheckCacheCounters>,
    counters: RefCell<Option<ConnectionCounters>>,
    connections: Cell<i64>,
    random: Cell<u64>,
}

/// What a worker makes once a configuration.
struct Present {
    id: SnapshotId,
    slots: Slots,
    cache: Option<CheckCache<KeptAnswer>>,
}

/// A decision that is kept for requests that it holds for.
#[derive(Clone)]
struct KeptAnswer(Arc<Kept>);

struct Kept {
    code: i32,
    message: String,
    directive: Option<RouteDirective>,
    rules: Vec<String>,
    /// How many more requests it may answer.
    uses: AtomicI64,
}

impl CachedAnswer for KeptAnswer {
    fn size(&self) -> usize {
        let directive = self.0.directive.as_ref().map_or(0, |d| {
            let changes = d.request_headers.iter().chain(&d.response_headers);
            d.direct_response_body.len() + changes.map(|c| c.name.len() + c.value.len() + 64).sum::<usize>()
        });
        let rules: usize = self.0.rules.iter().map(|rule| rule.len() + 24).sum();
        size_of::<Kept>() + self.0.message.len() + directive + rules
    }
}

/// What was decided about a request, with everything that the answer says.
struct Decided {
    code: i32,
    message: String,
    directive: Option<RouteDirective>,
    rules: Vec<String>,
    headers: Vec<(String, String)>,
    cache_hit: bool,
    undecided: bool,
}

/// The answer to a check for the HTTP flavour: what becomes of the request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HttpVerdict {
    /// The status; 200 lets the request pass.
    pub status: u16,
    /// Headers for the request if it passes, for the response if not.
    pub headers: Vec<(String, String)>,
    /// Request headers to take away.
    pub remove: Vec<String>,
    /// The body of a refusal.
    pub body: String,
}

impl BridgeService {
    /// A service of one worker.
    pub fn new(shared: Arc<BridgeShared>) -> Self {
        use std::hash::{BuildHasher as _, Hasher as _};
        let seed = std::hash::RandomState::new().build_hasher().finish();
        Self {
            metrics: BridgeMetrics::new(Arc::clone(&shared.metrics)),
            limit_metrics: LimitMetrics::new(Arc::clone(&shared.metrics)),
            shared,
            arenas: RefCell::default(),
            present: RefCell::default(),
            cache_counters: Arc::default(),
            counters: RefCell::default(),
            connections: Cell::new(0),
            random: Cell::new(seed | 1),
        }
    }

    /// Answers `envoy.service.auth.v3.Authorization/Check` with a framed CheckResponse.
    ///
    /// Errors: UNIMPLEMENTED when it is turned off, RESOURCE_EXHAUSTED under overload, INTERNAL for bytes that are no request. The
    /// failure mode of the proxy decides then.
    pub async fn check(
        &self,
        body: Bytes,
        metadata: Metadata<'_>,
        deadline: Option<Instant>,
    ) -> Result<Bytes, GrpcError> {
        self.admit(1)?;
        let arena = self.arena();
        let published = self.shared.runtime.load();
        let answer = self.answer_check(&published, &body, metadata, deadline, &arena).await;
        self.give_back(arena);
        answer
    }

    async fn answer_check(
        &self,
        published: &Published,
        body: &[u8],
        metadata: Metadata<'_>,
        deadline: Option<Instant>,
        arena: &Bump,
    ) -> Result<Bytes, GrpcError> {
        let config = &*published.routes.snapshot().envoy;
        enabled(config.settings.check.enabled, "checks")?;
        let present = self.present(published);
        let plan = AttributePlan::new(&published.routes.snapshot().vocabulary, present.slots.clone());
        let mut attributes = Attributes::new(&plan, arena);
        let facts = set_check_request(body, kept_metadata(metadata, arena), now(), config, &mut attributes)
            .map_err(undecodable)?;
        self.metrics.unconvertible(facts.unconvertible);
        let decided = self.decide(published, &present, &attributes, deadline).await;
        Ok(self.encode(&decided, &facts, config))
    }

    /// Decides over attributes: from a kept answer, or by the rules and quotas.
    async fn decide<'a>(
        &self,
        published: &'a Published,
        present: &Present,
        attributes: &Attributes<'a>,
        deadline: Option<Instant>,
    ) -> Decided {
        let config = &*published.routes.snapshot().envoy;
        let bag = attributes.bag();
        let quotas = required_quotas(&config.check_quotas, &bag);
        let cache = present.cache.as_ref().filter(|_| quotas.is_empty());
        if let Some(kept) = cache.and_then(|cache| self.kept(cache, &bag)) {
            note_refusal(published, &kept, &bag);
            return kept;
        }
        // Boxed, so that a call that is answered from the cache stays small.
        Box::pin(self.decide_anew(published, bag, cache, &quotas, deadline)).await
    }

    fn kept(&self, cache: &CheckCache<KeptAnswer>, bag: &AttributeBag<'_>) -> Option<Decided> {
        let Some(answer) = cache.find(bag, 0, |answer, _| Arc::clone(&answer.0)) else {
            self.metrics.cache("miss");
            return None;
        };
        if answer.uses.fetch_sub(1, Ordering::Relaxed) <= 0 {
            self.metrics.cache("expired");
            return None;
        }
        self.metrics.cache("hit");
        Some(Decided {
            code: answer.code,
            message: answer.message.clone(),
            directive: answer.directive.clone(),
            rules: answer.rules.clone(),
            headers: Vec::new(),
            cache_hit: true,
            undecided: false,
        })
    }

    async fn decide_anew<'a>(
        &self,
        published: &'a Published,
        mut bag: AttributeBag<'a>,
        cache: Option<&CheckCache<KeptAnswer>>,
        quotas: &[(&str, i64)],
        deadline: Option<Instant>,
    ) -> Decided {
        let config = &*published.routes.snapshot().envoy;
        let fired = RefCell::default();
        let context = self.context(deadline, config.settings.check.response_metadata.then_some(&fired));
        let outcome = match dispatch::preprocess(&published.routes, &mut bag, &context).await {
            Ok(()) => dispatch::check(&published.routes, &bag, &context).await,
            Err(error) => Err(error),
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                crate::warn_limited!(1, %error, "a check of Envoy could not be decided");
                return undecided(error.to_string(), &fired.borrow());
            }
        };
        let rules = names_of(&fired.borrow());
        if let Some(cache) = cache
            && !outcome.depends_on_map
            && !bag.reads_map_without_key()
            && outcome.valid_use_count > 0
        {
            self.keep(cache, &bag, &outcome, &rules, config.settings.check.cache.max_age.to_std_or_zero());
        }
        let CheckOutcome { status, directive, .. } = outcome;
        let mut decided = Decided {
            code: status.code,
            message: status.message,
            directive,
            rules,
            headers: Vec::new(),
            cache_hit: false,
            undecided: false,
        };
        if decided.code == 0 && !quotas.is_empty() {
            self.take_quotas(published, &bag, quotas, &context, &mut decided).await;
        }
        note_refusal(published, &decided, &bag);
        decided
    }

    fn keep(
        &self,
        cache: &CheckCache<KeptAnswer>,
        bag: &AttributeBag<'_>,
        outcome: &CheckOutcome,
        rules: &[String],
        max_age: Duration,
    ) {
        let answer = KeptAnswer(Arc::new(Kept {
            code: outcome.status.code,
            message: outcome.status.message.clone(),
            directive: outcome.directive.clone(),
            rules: rules.to_vec(),
            uses: AtomicI64::new(i64::from(outcome.valid_use_count) - 1),
        }));
        let valid = outcome.valid_duration.to_std_or_zero().min(max_age);
        cache.put(bag, 0, &bag.references(), valid, answer);
    }

    /// Takes the quotas that a request needs; one that is exhausted makes a refusal of it.
    async fn take_quotas<'a>(
        &self,
        published: &'a Published,
        bag: &AttributeBag<'a>,
        quotas: &[(&str, i64)],
        context: &DispatchContext<'_>,
        decided: &mut Decided,
    ) {
        let headers = &published.routes.snapshot().envoy.settings.ratelimit.headers;
        let id = self.decision_id();
        let mut exhausted = Vec::new();
        let mut statuses = Vec::new();
        for (name, charge) in quotas {
            let request = QuotaRequest {
                name,
                amount: *charge,
                best_effort: false,
                deduplication_id: &id,
                level: true,
            };
            match dispatch::quota(&published.routes, bag, request, context).await {
                Ok(outcome) => {
                    let over = outcome.granted < *charge;
                    statuses.push(quota_status(name, over, outcome.level));
                    if over {
                        exhausted.push(*name);
                    }
                }
                Err(error) => {
                    *decided = undecided(error.to_string(), &[]);
                    return;
                }
            }
        }
        if exhausted.is_empty() {
            return;
        }
        decided.code = 8;
        decided.message = format!("Quota is exhausted for: {}", exhausted.join(","));
        decided.directive = None;
        let over = |status: &&Status| status.code == LimitCode::OverLimit;
        let reset =
            statuses.iter().filter(over).filter_map(|status| status.reset).map(|reset| reset.nanos).max();
        if let Some(nanos) = reset.filter(|nanos| *nanos > 0) {
            let seconds = nanos.saturating_add(999_999_999) / 1_000_000_000;
            decided.headers.push(("retry-after".to_owned(), seconds.to_string()));
        }
        if headers.enabled {
            let stated = rate_limit::limit_headers(&statuses, headers);
            decided.headers.extend(stated.into_iter().map(|(name, value)| (name.to_owned(), value)));
        }
    }

    /// Applies error mode and shadow mode.
    fn settle(&self, decided: &Decided, config: &EnvoyConfig) -> (i32, bool, Option<i32>) {
        let check = &config.settings.check;
        let (code, undecided) = match (decided.undecided, check.error_mode) {
            (true, ErrorMode::Open) => (0, false),
            (true, ErrorMode::Closed) => (decided.code, false),
            (undecided, _) => (decided.code, undecided),
        };
        let name = super::access_log::name_of_code(i64::from(decided.code));
        if check.mode == Mode::Shadow {
            self.metrics.check(if decided.code == 0 { "shadow_allowed" } else { "shadow_denied" }, name);
            return (0, false, Some(decided.code));
        }
        let result = match (decided.undecided, code) {
            (true, _) => "error",
            (false, 0) => "allow",
            (false, _) => "deny",
        };
        self.metrics.check(result, name);
        (code, undecided, None)
    }

    fn encode(&self, decided: &Decided, facts: &CheckFacts<'_>, config: &EnvoyConfig) -> Bytes {
        let check = &config.settings.check;
        let (code, undecided, shadow_status) = self.settle(decided, config);
        let enforced = shadow_status.is_none();
        let headers: Vec<(&str, String)> =
            decided.headers.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let decision = Decision {
            code,
            message: if code == 0 && decided.code != 0 { "" } else { &decided.message },
            directive: decided.directive.as_ref().filter(|_| enforced || decided.code == 0),
            extra_headers: &headers,
            undecided,
        };
        let asked = Asked {
            is_http: facts.is_http,
            request_id: facts.request_id,
            headers: facts.headers,
            deny_body: check.deny_body,
        };
        let id = if check.response_metadata { self.decision_id() } else { String::new() };
        let metadata = ResponseMetadata {
            status: code,
            message: &decided.message,
            decision_id: &id,
            rules: &decided.rules,
            cache_hit: decided.cache_hit,
            shadow_status,
        };
        let mut out = Vec::with_capacity(384);
        begin_message(&mut out);
        let metadata = check.response_metadata.then_some(&metadata);
        let unsupported = check_response::encode(&decision, &asked, metadata, &mut out);
        finish_message(&mut out);
        self.metrics.unsupported(unsupported);
        out.into()
    }

    /// Answers a request of the HTTP flavour. `body` is a CheckRequest.
    ///
    /// Errors: as [`check`](Self::check).
    pub async fn check_http(&self, body: &[u8]) -> Result<HttpVerdict, GrpcError> {
        self.admit(1)?;
        let arena = self.arena();
        let published = self.shared.runtime.load();
        let verdict = self.verdict(&published, body, &arena).await;
        self.give_back(arena);
        verdict
    }

    async fn verdict(
        &self,
        published: &Published,
        body: &[u8],
        arena: &Bump,
    ) -> Result<HttpVerdict, GrpcError> {
        let config = &*published.routes.snapshot().envoy;
        enabled(config.settings.check.enabled, "checks")?;
        let present = self.present(published);
        let plan = AttributePlan::new(&published.routes.snapshot().vocabulary, present.slots.clone());
        let mut attributes = Attributes::new(&plan, arena);
        let facts = set_check_request(body, &[], now(), config, &mut attributes).map_err(undecodable)?;
        let decided = self.decide(published, &present, &attributes, None).await;
        let (code, undecided, _) = self.settle(&decided, config);
        let asked = Asked {
            is_http: true,
            request_id: facts.request_id,
            headers: facts.headers,
            deny_body: config.settings.check.deny_body,
        };
        Ok(http_verdict(&decided, code, undecided, &asked))
    }

    /// Answers `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit` with a framed RateLimitResponse.
    ///
    /// Errors: UNKNOWN for a request without domain or descriptors; UNAVAILABLE when a quota could not be asked, so that the failure
    /// mode of the proxy decides; otherwise as [`check`](Self::check).
    pub async fn should_rate_limit(
        &self,
        body: Bytes,
        deadline: Option<Instant>,
    ) -> Result<Bytes, GrpcError> {
        self.admit(1)?;
        let arena = self.arena();
        let published = self.shared.runtime.load();
        let answer = self.answer_limit(&published, &body, deadline, &arena).await;
        self.give_back(arena);
        answer
    }

    async fn answer_limit(
        &self,
        published: &Published,
        body: &[u8],
        deadline: Option<Instant>,
        arena: &Bump,
    ) -> Result<Bytes, GrpcError> {
        let config = &*published.routes.snapshot().envoy;
        let settings = &config.settings.ratelimit;
        enabled(settings.enabled, "rate limits")?;
        let request = RateLimitRequest::read(body, arena).map_err(undecodable)?;
        let refuse = |text| Err(GrpcError::new(Code::Unknown, text));
        if request.domain.is_empty() {
            return refuse("rate limit domain must not be empty");
        }
        if request.descriptors.is_empty() {
            return refuse("rate limit descriptor list must not be empty");
        }
        let mut statuses =
            rate_limit::decide(&request, config, &self.shared.windows, &self.limit_metrics, seconds());
        if !config.quotas.is_empty() {
            let present = self.present(published);
            let plan = AttributePlan::new(&published.routes.snapshot().vocabulary, present.slots.clone());
            for (status, descriptor) in statuses.iter_mut().zip(request.descriptors) {
                let Some(selector) = rate_limit::quota_for(&config.quotas, request.domain, descriptor) else {
                    continue;
                };
                let mut attributes = Attributes::new(&plan, arena);
                set_descriptor(request.domain, descriptor, config, &mut attributes);
                let asked =
                    self.ask_quota(published, attributes.bag(), &selector.quota, descriptor, deadline).await;
                match asked {
                    Ok(other) => *status = rate_limit::stricter(std::mem::take(status), other),
                    Err(error) => {
                        self.metrics.rate_limit(request.domain, "error");
                        return Err(error);
                    }
                }
            }
        }
        if settings.unmatched == Unmatched::Error && statuses.iter().any(|status| !status.matched) {
            self.metrics.rate_limit(request.domain, "no_match");
            return refuse("no limit is configured for a descriptor");
        }
        let over = statuses.iter().any(|status| status.code == LimitCode::OverLimit);
        let result = match (over, settings.shadow) {
            (true, true) => "shadow_over",
            (true, false) => "over",
            (false, _) if statuses.iter().all(|status| !status.matched) => "no_match",
            (false, _) => "ok",
        };
        self.metrics.rate_limit(request.domain, result);
        let mut out = Vec::with_capacity(128);
        begin_message(&mut out);
        rate_limit::encode(&statuses, &settings.headers, settings.shadow, &mut out);
        finish_message(&mut out);
        Ok(out.into())
    }

    async fn ask_quota<'a>(
        &self,
        published: &'a Published,
        mut bag: AttributeBag<'a>,
        name: &str,
        descriptor: &Descriptor<'_>,
        deadline: Option<Instant>,
    ) -> Result<Status, GrpcError> {
        let context = self.context(deadline, None);
        let unavailable = |error: dispatch::DispatchError| {
            crate::warn_limited!(1, %error, quota = name, "a quota for Envoy could not be asked");
            GrpcError::new(Code::Unavailable, error.to_string())
        };
        dispatch::preprocess(&published.routes, &mut bag, &context).await.map_err(unavailable)?;
        // Every call is one of its own: the proxy does not repeat them.
        let id = self.decision_id();
        let request = QuotaRequest {
            name,
            amount: descriptor.charge,
            best_effort: false,
            deduplication_id: &id,
            level: true,
        };
        let outcome =
            dispatch::quota(&published.routes, &bag, request, &context).await.map_err(unavailable)?;
        let over = descriptor.charge > 0 && outcome.granted < descriptor.charge;
        Ok(quota_status(name, over, outcome.level))
    }

    /// Begins a stream of access logs.
    pub fn open_log(&self) -> LogStream<'_> {
        let open = self.shared.streams.fetch_add(1, Ordering::Relaxed) + 1;
        self.show(Family::BridgeLogStreams, open);
        let number = self.shared.next_stream.fetch_add(1, Ordering::Relaxed);
        LogStream { service: self, number: number.cast_unsigned(), identity: None }
    }

    fn show(&self, family: Family, value: i64) {
        self.shared.metrics.gauge(family, &[]).set(value.max(0) as f64);
    }

    async fn report(
        &self,
        body: &[u8],
        stream: u64,
        identity: &mut Option<Box<LogIdentity>>,
    ) -> Result<(), GrpcError> {
        let message = LogMessage::read(body).map_err(undecodable)?;
        if let Some(identifier) = message.identifier {
            *identity = Some(Box::new(LogIdentity::read(identifier).map_err(undecodable)?));
        }
        if message.entries.is_empty() {
            return Ok(());
        }
        self.admit(message.entries.len())?;
        let unknown = LogIdentity::default();
        let identity = identity.as_deref().unwrap_or(&unknown);
        let published = self.shared.runtime.load();
        let config = &*published.routes.snapshot().envoy;
        enabled(config.settings.report.enabled, "access logs")?;
        let arena = self.arena();
        let present = self.present(&published);
        {
            let plan = AttributePlan::new(&published.routes.snapshot().vocabulary, present.slots.clone());
            let batch = Batch { service: self, published: &published, plan: &plan, arena: &arena, config };
            batch.report(&message, stream, identity).await;
        }
        self.give_back(arena);
        Ok(())
    }

    fn admit(&self, cost: usize) -> Result<(), GrpcError> {
        match &self.shared.shedder {
            Some(shedder) if !shedder.admit(cost) => Err(GrpcError::new(Code::ResourceExhausted, OVERLOADED)),
            _ => Ok(()),
        }
    }

    fn context<'c>(
        &'c self,
        deadline: Option<Instant>,
        fired: Option<&'c RefCell<Vec<Arc<RuleConfig>>>>,
    ) -> DispatchContext<'c> {
        DispatchContext {
            metrics: &self.shared.metrics,
            last_known: &self.shared.last_known,
            deadline,
            trace: None,
            fired,
        }
    }

    /// What belongs to the configuration in force; made when it is another than before.
    fn present(&self, published: &Published) -> Arc<Present> {
        let id = published.id();
        if let Some(present) = self.present.borrow().as_ref().filter(|present| present.id == id) {
            return Arc::clone(present);
        }
        let snapshot = published.routes.snapshot();
        let entries = snapshot.envoy.settings.check.cache.entries;
        let cache = (entries > 0).then(|| {
            let limits = CheckCacheLimits {
                entries: entries as usize,
                bytes: u64::from(entries).saturating_mul(CACHE_BYTES_PER_ENTRY),
            };
            CheckCache::new(limits, Arc::clone(&self.cache_counters))
        });
        let present = Arc::new(Present { id, slots: Slots::of(&snapshot.vocabulary), cache });
        *self.present.borrow_mut() = Some(Arc::clone(&present));
        present
    }

    fn arena(&self) -> Bump {
        self.arenas.borrow_mut().pop().unwrap_or_default()
    }

    fn give_back(&self, mut arena: Bump) {
        let mut spare = self.arenas.borrow_mut();
        if spare.len() < SPARE_ARENAS && arena.allocated_bytes() <= MAX_SPARE_BYTES {
            arena.reset();
            spare.push(arena);
        }
    }

    /// A random UUID of version 4.
    fn decision_id(&self) -> String {
        use std::fmt::Write as _;
        let next = || {
            // SplitMix64: the seed is random, and an id need only be unlike others.
            let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.random.set(state);
            let mut mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        };
        let (high, low) = (next(), next());
        let (high, low) = (high & !0xf000 | 0x4000, low & !(3 << 62) | 1 << 63);
        let mut id = String::with_capacity(36);
        // Writing to a String cannot fail.
        let _ = write!(
            id,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        );
        id
    }
}

/// A stream of access logs.
pub struct LogStream<'s> {
    service: &'s BridgeService,
    number: u64,
    identity: Option<Box<LogIdentity>>,
}

impl LogStream<'_> {
    /// Reports the entries of one message and waits until the handlers have taken them: a caller that is faster than they are
    /// finds the window of its stream closed.
    ///
    /// Errors: the bytes are no message, or access logs are turned off.
    pub async fn report(&mut self, body: Bytes) -> Result<(), GrpcError> {
        Box::pin(self.service.report(&body, self.number, &mut self.identity)).await
    }
}

impl Drop for LogStream<'_> {
    fn drop(&mut self) {
        let open = self.service.shared.streams.fetch_sub(1, Ordering::Relaxed) - 1;
        self.service.show(Family::BridgeLogStreams, open);
    }
}

/// The entries of one message on their way to the handlers.
struct Batch<'b> {
    service: &'b BridgeService,
    published: &'b Published,
    plan: &'b AttributePlan<'b>,
    arena: &'b Bump,
    config: &'b EnvoyConfig,
}

impl<'b> Batch<'b> {
    async fn report(&self, message: &LogMessage<'b>, stream: u64, identity: &'b LogIdentity) {
        let context = self.service.context(None, None);
        let routes = &self.published.routes;
        let mut collector = ReportCollector::new(routes);
        let mut errors = Vec::new();
        // Reported, ignored, broken; by kind.
        let mut counts = [[0u64; 3]; 2];
        for (kind, body) in &message.entries {
            let mut attributes = Attributes::new(self.plan, self.arena);
            let entry = self.set((*kind, body), stream, identity, &mut attributes);
            let [reported, ignored, broken] = match kind {
                LogKind::Http => &mut counts[0],
                LogKind::Tcp => &mut counts[1],
            };
            match entry {
                Ok(Entry::Report(failures)) => {
                    *reported += 1;
                    self.service.metrics.unconvertible(failures);
                }
                Ok(Entry::Ignored) => {
                    *ignored += 1;
                    continue;
                }
                Err(error) => {
                    *broken += 1;
                    errors.push(error.to_string());
                    continue;
                }
            }
            let mut bag = attributes.bag();
            match dispatch::preprocess(routes, &mut bag, &context).await {
                Err(error) => errors.push(error.to_string()),
                Ok(()) => {
                    if let Err(error) = collector.collect(&bag, &context) {
                        errors.extend(error.errors);
                    }
                }
            }
        }
        if let Err(error) = collector.flush(&context).await {
            errors.extend(error.errors);
        }
        for (kind, results) in ["http", "tcp"].iter().zip(counts) {
            for (result, count) in ["reported", "ignored", "error"].iter().zip(results) {
                self.service.metrics.entries(&identity.log_name, kind, result, count);
            }
        }
        if !errors.is_empty() {
            let text = crate::core::adapter::join_errors(&errors);
            crate::warn_limited!(1, errors = errors.len(), "access logs of Envoy: {text}");
        }
    }

    fn set(
        &self,
        entry: (LogKind, &'b [u8]),
        stream: u64,
        identity: &'b LogIdentity,
        attributes: &mut Attributes<'b>,
    ) -> Result<Entry, crate::core::attribute::DecodeError> {
        let service = self.service;
        let mut counters = service.counters.borrow_mut();
        let settings = &self.config.settings.report;
        let counters = counters.get_or_insert_with(|| {
            let idle = settings.tcp_state_idle.to_std_or_zero();
            ConnectionCounters::new(settings.tcp_state_entries as usize, idle)
        });
        counters.set_stream(stream);
        let set = set_entry(entry, identity, self.config, counters, attributes);
        if entry.0 == LogKind::Tcp {
            let held = i64::try_from(counters.len()).unwrap_or(i64::MAX);
            let change = held - service.connections.replace(held);
            if change != 0 {
                let all = service.shared.connections.fetch_add(change, Ordering::Relaxed) + change;
                service.show(Family::BridgeTcpState, all);
            }
        }
        set
    }
}

/// Shows a refusal to operators, unless it is one in the shadow alone.
fn note_refusal(published: &Published, decided: &Decided, bag: &AttributeBag<'_>) {
    let is_shadow = published.routes.snapshot().envoy.settings.check.mode == Mode::Shadow;
    if decided.code != 0 && !decided.undecided && !is_shadow {
        let (snapshot, kept) = (published.id().0, decided.cache_hit);
        published.denials.record(decided.code, &decided.message, snapshot, kept, || request_of(bag));
    }
}

fn undecodable(error: impl std::fmt::Display) -> GrpcError {
    GrpcError::new(Code::Internal, format!("grpc: error unmarshalling request: {error}"))
}

fn enabled(enabled: bool, what: &str) -> Result<(), GrpcError> {
    if enabled {
        return Ok(());
    }
    Err(GrpcError::new(Code::Unimplemented, format!("{what} of Envoy are turned off by the envoybridge")))
}

/// A decision that was not possible.
fn undecided(message: String, fired: &[Arc<RuleConfig>]) -> Decided {
    Decided {
        code: 13,
        message,
        directive: None,
        rules: names_of(fired),
        headers: Vec::new(),
        cache_hit: false,
        undecided: true,
    }
}

fn names_of(rules: &[Arc<RuleConfig>]) -> Vec<String> {
    rules.iter().map(|rule| format!("{}.{}", rule.key.name, rule.key.namespace)).collect()
}

/// Names and amounts of the quotas that a request needs.
fn required_quotas<'c>(quotas: &'c [CheckQuota], bag: &AttributeBag<'_>) -> Vec<(&'c str, i64)> {
    let mut required = Vec::new();
    for quota in quotas {
        let holds =
            |tests: &Vec<(crate::core::attribute::SlotId, crate::core::snapshot::envoy::TextTest)>| {
                tests.iter().all(|(slot, test)| match bag.peek(*slot) {
                    Some(Value::String(text)) => test.holds(text),
                    _ => false,
                })
            };
        if quota.matches.is_empty() || quota.matches.iter().any(holds) {
            required.extend(quota.quotas.iter().map(|(name, charge)| (name.as_str(), *charge)));
        }
    }
    required
}

fn quota_status(name: &str, over: bool, level: Option<crate::core::adapter::QuotaLevel>) -> Status {
    let narrow = |amount: i64| u32::try_from(amount.max(0)).unwrap_or(u32::MAX);
    Status {
        code: if over { LimitCode::OverLimit } else { LimitCode::Ok },
        limit: level.and_then(|level| StatedLimit::of_window(narrow(level.limit), level.window, name)),
        remaining: level.map_or(0, |level| narrow(level.remaining)),
        reset: level.filter(|level| level.window.nanos > 0).map(|level| level.reset),
        matched: true,
    }
}

fn http_verdict(decided: &Decided, code: i32, undecided: bool, asked: &Asked<'_>) -> HttpVerdict {
    use crate::core::snapshot::HeaderOperationKind::Remove;
    let direct = decided.directive.as_ref().filter(|d| d.direct_response_code != 0 && decided.code == code);
    if code == 0 && direct.is_none() {
        let changes = decided.directive.iter().flat_map(|directive| &directive.request_headers);
        let (remove, set): (Vec<_>, Vec<_>) = changes.partition(|change| change.kind == Remove);
        return HttpVerdict {
            status: 200,
            headers: set.into_iter().map(|c| (c.name.clone(), c.value.clone())).collect(),
            remove: remove.into_iter().map(|c| c.name.clone()).collect(),
            body: String::new(),
        };
    }
    let status = match direct {
        Some(direct) => direct.direct_response_code,
        None if undecided => 503,
        None => check_response::http_status(code),
    };
    let status = u16::try_from(status).ok().filter(|status| (200..=599).contains(status)).unwrap_or(403);
    // 200 would let the request pass.
    let status = if status == 200 { 403 } else { status };
    let mut headers = decided.headers.clone();
    let body = match direct {
        Some(direct) => {
            let changes = direct.response_headers.iter().filter(|change| change.kind != Remove);
            headers.extend(changes.map(|change| (change.name.clone(), change.value.clone())));
            direct.direct_response_body.clone()
        }
        None => check_response::body(code, &decided.message, asked),
    };
    HttpVerdict { status, headers, remove: Vec::new(), body }
}

/// The metadata in the arena, so that attributes may borrow it.
fn kept_metadata<'a>(metadata: Metadata<'_>, arena: &'a Bump) -> Metadata<'a> {
    if metadata.is_empty() {
        return &[];
    }
    arena.alloc_slice_fill_iter(
        metadata.iter().map(|(name, value)| (&*arena.alloc_str(name), &*arena.alloc_slice_copy(value))),
    )
}

fn now() -> Timestamp {
    Timestamp::from_system_time(SystemTime::now())
}

/// Seconds since 1970.
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
