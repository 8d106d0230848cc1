//! Authorization: a request becomes a decision, and the decision an answer.

use super::AUTHORIZATION_CHECK;
use crate::config::config_of;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bumpalo::Bump;
use bytes::Bytes;

use super::super::access_log::name_of_code;
use super::super::attributes::Attributes;
use super::super::check_request::{CheckFacts, Metadata, set_check_request};
use super::super::check_response::{self, Asked, Decision, ResponseMetadata};
use super::super::rate_limit::{self, Code as LimitCode, StatedLimit, Status};
use super::words::{self, Words};
use super::{BridgeService, Present, enabled, now};
use crate::config::{CheckQuota, EnvoyConfig, ErrorMode, Mode};
use mixer_api::CallInfo;
use mixer_api::grpc::{GrpcError, begin_message, finish_message};
use mixer_api::load_shedding::Demand;
use mixer_api::mixer::undecodable;
use mixer_api::observe::Watch;
use mixer_api::worker::{note_snapshot, preprocess};
use mixer_attribute::{AttributeBag, Value};
use mixer_engine::check_cache::{CachedAnswer, CheckCache};
use mixer_engine::denials::request_of;
use mixer_engine::dispatch::{
    self, CheckOutcome, DispatchContext, QuotaRequest, RouteDirective, TracedPhase, trace_started, trace_step,
};
use mixer_engine::runtime::Published;
use mixer_engine::snapshot::RuleConfig;

/// A decision that is kept for requests that it holds for.
#[derive(Clone)]
pub(super) struct KeptAnswer(Arc<Kept>);

/// What was decided, as far as it holds for other requests.
pub(super) struct Kept {
    pub(super) code: i32,
    pub(super) message: String,
    pub(super) directive: Option<RouteDirective>,
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
pub(super) struct Decided {
    answer: Arc<Kept>,
    pub(super) headers: Vec<(String, String)>,
    /// Tells it from others, once somebody needs that.
    id: String,
    cache_hit: bool,
    undecided: bool,
}

impl Decided {
    fn of(answer: Arc<Kept>) -> Self {
        Self { answer, headers: Vec::new(), id: String::new(), cache_hit: false, undecided: false }
    }
}

impl std::ops::Deref for Decided {
    type Target = Kept;

    fn deref(&self) -> &Kept {
        &self.answer
    }
}

/// A call as the decision sees it.
#[derive(Clone, Copy)]
struct Asking<'s> {
    published: &'s Published,
    call: &'s CallInfo<'s>,
    watch: Option<&'s Watch<'s>>,
}

/// Quotas that a check takes, and how they are asked for.
pub(super) struct Required<'q> {
    quotas: Vec<(&'q str, i64)>,
    pub(super) id: String,
}

impl Required<'_> {
    pub(super) fn requests(&self) -> impl Iterator<Item = QuotaRequest<'_>> {
        self.quotas.iter().map(|(name, amount)| QuotaRequest {
            name,
            amount: *amount,
            best_effort: false,
            deduplication_id: &self.id,
            level: true,
        })
    }
}

impl BridgeService {
    /// Answers `envoy.service.auth.v3.Authorization/Check` with a framed CheckResponse.
    ///
    /// Errors: UNIMPLEMENTED when it is turned off, RESOURCE_EXHAUSTED under overload, INTERNAL for bytes that are no request. The
    /// failure mode of the proxy decides then.
    pub async fn check(
        &self,
        body: Bytes,
        metadata: Metadata<'_>,
        call: CallInfo<'_>,
    ) -> Result<Bytes, GrpcError> {
        self.decide_and(&body, metadata, &call, |decided, facts, config| self.encode(decided, facts, config))
            .await
    }

    /// Decides about a CheckRequest and makes an answer of the decision.
    pub(super) async fn decide_and<T>(
        &self,
        body: &[u8],
        metadata: Metadata<'_>,
        call: &CallInfo<'_>,
        answer: impl FnOnce(&Decided, &CheckFacts<'_>, &EnvoyConfig) -> T,
    ) -> Result<T, GrpcError> {
        self.watched(AUTHORIZATION_CHECK, call, async |watch| {
            self.admit(Demand { cost: 1, is_report: false, caller: call.caller })?;
            let arena = self.worker.arena();
            let published = self.worker.engine.runtime.load();
            note_snapshot(watch.map(Watch::trace), &published);
            let asking = Asking { published: &published, call, watch };
            let answer = self.decide_in(&arena, asking, body, metadata, answer).await;
            self.worker.give_back(arena);
            answer
        })
        .await
    }

    async fn decide_in<T>(
        &self,
        arena: &Bump,
        asking: Asking<'_>,
        body: &[u8],
        metadata: Metadata<'_>,
        answer: impl FnOnce(&Decided, &CheckFacts<'_>, &EnvoyConfig) -> T,
    ) -> Result<T, GrpcError> {
        let snapshot = asking.published.routes.snapshot();
        let config = config_of(snapshot);
        enabled(config.settings.check.enabled, "checks")?;
        let present = self.present(asking.published);
        let plan = present.plan(&snapshot.vocabulary, asking.watch);
        let mut attributes = Attributes::new(&plan, arena);
        let facts = set_check_request(body, kept_metadata(metadata, arena), now(), config, &mut attributes)
            .map_err(undecodable)?;
        self.metrics.unconvertible(facts.unconvertible);
        let decided = self.decide(asking, &present, &attributes).await;
        Ok(answer(&decided, &facts, config))
    }

    /// Decides over attributes: from a kept answer, or by the rules and quotas.
    async fn decide<'a>(
        &self,
        asking: Asking<'a>,
        present: &Present,
        attributes: &Attributes<'a>,
    ) -> Decided {
        let config = config_of(asking.published.routes.snapshot());
        let mut bag = attributes.bag();
        asking.call.identify(asking.published, &mut bag);
        let quotas = required_quotas(&config.check_quotas, &bag);
        let cacheable = quotas.is_empty() && !asking.call.decides(asking.published);
        let cache = present.cache.as_deref().filter(|_| cacheable);
        let words = asking.watch.filter(|watch| watch.wants_words()).map(|watch| (watch, attributes));
        let id = if words.is_some() || !quotas.is_empty() { self.decision_id() } else { String::new() };
        if let Some(mut kept) = cache.and_then(|cache| self.kept(cache, &bag)) {
            note_refusal(asking.published, &kept, &bag);
            if let Some((watch, attributes)) = words {
                kept.id.clone_from(&id);
                let words = Words::asking(&Required { id, quotas });
                words.status(kept.code, &kept.message, kept.directive.as_ref()).tell(watch, attributes);
            }
            return kept;
        }
        let required = Required { id, quotas };
        // Boxed, so that a call that is answered from the cache stays small.
        Box::pin(self.decide_anew(asking, bag, cache, &required, words)).await
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
        Some(Decided { cache_hit: true, ..Decided::of(answer) })
    }

    async fn decide_anew<'a>(
        &self,
        asking: Asking<'a>,
        mut bag: AttributeBag<'a>,
        cache: Option<&CheckCache<KeptAnswer>>,
        required: &Required<'_>,
        words: Option<words::Wanted<'_, 'a>>,
    ) -> Decided {
        let routes = &asking.published.routes;
        let settings = &config_of(routes.snapshot()).settings.check;
        let fired = RefCell::default();
        let trace = asking.watch.map(Watch::trace);
        let mut context = self.worker.context(asking.call.deadline, trace);
        context.fired = settings.response_metadata.then_some(&fired);
        let outcome = match preprocess(asking.published, &mut bag, &context).await {
            Ok(()) => {
                let began = trace_started(trace);
                let outcome = dispatch::check(routes, &bag, &context).await;
                let error = outcome.as_ref().err().map(ToString::to_string);
                trace_step(trace, || TracedPhase::Check, began, error);
                outcome
            }
            Err(error) => Err(error),
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                mixer_base::warn_limited!(1, %error, "a check of Envoy could not be decided");
                let decided = undecided(error.to_string(), &fired.borrow(), required);
                if let Some((watch, attributes)) = words {
                    Words::asking(required).fail(watch, attributes, &decided.message);
                }
                return decided;
            }
        };
        let mut said = words.map(|_| Words::asking(required).outcome(&outcome, &bag));
        let passed = outcome.status.code == 0;
        let keeps = !outcome.depends_on_map && !bag.reads_map_without_key() && outcome.valid_use_count > 0;
        let valid = outcome.valid_duration.to_std_or_zero().min(settings.cache.max_age.to_std_or_zero());
        let CheckOutcome { status, directive, valid_use_count, .. } = outcome;
        let answer = Arc::new(Kept {
            code: status.code,
            message: status.message,
            directive,
            rules: names_of(&fired.borrow()),
            uses: AtomicI64::new(i64::from(valid_use_count) - 1),
        });
        // What quotas read does not decide whether it holds for others; what rules in dry run read does.
        let decisive = bag.mark_references();
        let mut keep = cache.filter(|_| keeps).map(|cache| (cache, KeptAnswer(Arc::clone(&answer))));
        let mut decided = Decided { id: required.id.clone(), ..Decided::of(answer) };
        if passed && !required.quotas.is_empty() {
            self.take_quotas(asking.published, &bag, required, &context, &mut decided, said.as_mut()).await;
        }
        note_refusal(asking.published, &decided, &bag);
        if routes.has_dry_run() {
            if keep.is_some() {
                bag.reset_references(&decisive);
            }
            // The decision is made: nothing of this can get into it.
            let tried = dispatch::dry_run_check(routes, &bag, required.requests(), passed, &context);
            // It is kept only for requests that no rule in dry run has a say in either.
            if Box::pin(tried).await || bag.reads_map_without_key() {
                keep = None;
            }
        }
        if let Some((cache, answer)) = keep {
            cache.put(&bag, 0, &bag.references(), valid, answer);
        }
        if let (Some((watch, attributes)), Some(said)) = (words, said) {
            said.tell(watch, attributes);
        }
        decided
    }

    /// Takes the quotas that a request needs; one that is exhausted makes a refusal of it.
    async fn take_quotas<'a>(
        &self,
        published: &'a Published,
        bag: &AttributeBag<'a>,
        required: &Required<'_>,
        context: &DispatchContext<'_>,
        decided: &mut Decided,
        mut said: Option<&mut Words>,
    ) {
        let headers = &config_of(published.routes.snapshot()).settings.ratelimit.headers;
        let mut exhausted = Vec::new();
        let mut statuses = Vec::new();
        for request in required.requests() {
            let began = trace_started(context.trace);
            let asked = dispatch::quota(&published.routes, bag, request, context).await;
            let error = asked.as_ref().err().map(ToString::to_string);
            trace_step(context.trace, || TracedPhase::Quota(request.name.to_owned()), began, error);
            match asked {
                Ok(outcome) => {
                    if let Some(said) = &mut said {
                        said.grant(request.name, &outcome);
                    }
                    let over = outcome.granted < request.amount;
                    statuses.push(quota_status(request.name, over, outcome.level));
                    if over {
                        exhausted.push(request.name);
                    }
                }
                Err(error) => {
                    *decided = undecided(error.to_string(), &[], required);
                    return;
                }
            }
        }
        if exhausted.is_empty() {
            return;
        }
        decided.answer = Arc::new(Kept {
            code: 8,
            message: format!("Quota is exhausted for: {}", exhausted.join(",")),
            directive: None,
            rules: decided.rules.clone(),
            uses: AtomicI64::new(0),
        });
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
    pub(super) fn settle(&self, decided: &Decided, config: &EnvoyConfig) -> (i32, bool, Option<i32>) {
        let check = &config.settings.check;
        let (code, undecided) = match (decided.undecided, check.error_mode) {
            (true, ErrorMode::Open) => (0, false),
            (true, ErrorMode::Closed) => (decided.code, false),
            (undecided, _) => (decided.code, undecided),
        };
        let name = name_of_code(i64::from(decided.code));
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
        let made = (check.response_metadata && decided.id.is_empty()).then(|| self.decision_id());
        let metadata = ResponseMetadata {
            status: code,
            message: &decided.message,
            decision_id: made.as_deref().unwrap_or(&decided.id),
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
}

/// Shows a refusal to operators, unless it is one in the shadow alone.
fn note_refusal(published: &Published, decided: &Decided, bag: &AttributeBag<'_>) {
    let is_shadow = config_of(published.routes.snapshot()).settings.check.mode == Mode::Shadow;
    if decided.code != 0 && !decided.undecided && !is_shadow {
        let (snapshot, kept) = (published.id().0, decided.cache_hit);
        published.denials.record(decided.code, &decided.message, snapshot, kept, || request_of(bag));
    }
}

/// A decision that was not possible.
fn undecided(message: String, fired: &[Arc<RuleConfig>], required: &Required<'_>) -> Decided {
    let rules = names_of(fired);
    let answer = Kept { code: 13, message, directive: None, rules, uses: AtomicI64::new(0) };
    Decided { id: required.id.clone(), undecided: true, ..Decided::of(Arc::new(answer)) }
}

fn names_of(rules: &[Arc<RuleConfig>]) -> Vec<String> {
    rules.iter().map(|rule| format!("{}.{}", rule.key.name, rule.key.namespace)).collect()
}

/// Names and amounts of the quotas that a request needs.
fn required_quotas<'c>(quotas: &'c [CheckQuota], bag: &AttributeBag<'_>) -> Vec<(&'c str, i64)> {
    let mut required = Vec::new();
    for quota in quotas {
        let holds = |tests: &Vec<(mixer_attribute::SlotId, crate::config::TextTest)>| {
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

pub(super) fn quota_status(
    name: &str,
    over: bool,
    level: Option<mixer_engine::adapter::QuotaLevel>,
) -> Status {
    let narrow = |amount: i64| u32::try_from(amount.max(0)).unwrap_or(u32::MAX);
    Status {
        code: if over { LimitCode::OverLimit } else { LimitCode::Ok },
        limit: level.and_then(|level| StatedLimit::of_window(narrow(level.limit), level.window, name)),
        remaining: level.map_or(0, |level| narrow(level.remaining)),
        reset: level.filter(|level| level.window.nanos > 0).map(|level| level.reset),
        matched: true,
    }
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
