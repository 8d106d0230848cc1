//! Authorization: a CheckRequest becomes attributes, a decision from the cache or the [`pipeline`], and a response.

use std::borrow::Cow;
use std::cell::RefCell;

use bumpalo::Bump;
use bytes::Bytes;

use super::super::attributes::Attributes;
use super::super::check_request::{CheckFacts, Metadata, set_check_request};
use super::decision::{CachedVerdict, Decision, DecisionBuilder};
use super::recording::{RecordedExchange, RequiredQuotas};
use super::response::{is_denied, is_overridden};
use super::{AUTHORIZATION_CHECK, EnvoyService, SnapshotState, now, require_enabled};
use crate::config::{CheckQuota, EnvoyConfig, ErrorMode, Mode, TextTest, config_of};
use mixer_api::grpc::{Code, GrpcError};
use mixer_api::load_shedding::Demand;
use mixer_api::observers::Observation;
use mixer_api::pipeline;
use mixer_api::principal::set_principal;
use mixer_api::waiting;
use mixer_api::{CallInfo, IfLeft};
use mixer_attribute::{AttributeBag, SlotId, Value};
use mixer_engine::check_cache::{CheckCache, Miss};
use mixer_engine::denials::{DeniedBy, Refusal, request_of};
use mixer_engine::dispatch::{DispatchContext, DispatchError};
use mixer_engine::routing::Refuser;
use mixer_engine::runtime::Published;
use mixer_engine::secret_values::SecretValues;

/// Why a check that ended without a decision is refused, in its record.
const UNDECIDED: &str = "without a decision, refused by check.errorMode: closed; mend what failed";

/// A call of the authorization service.
#[derive(Clone, Copy)]
struct CheckCall<'s> {
    published: &'s Published,
    context: &'s DispatchContext<'s>,
    info: &'s CallInfo<'s>,
    observation: Option<&'s Observation<'s>>,
}

impl EnvoyService {
    /// Answers `envoy.service.auth.v3.Authorization/Check` with a framed CheckResponse.
    ///
    /// Errors: UNIMPLEMENTED when the service is disabled, RESOURCE_EXHAUSTED under overload, UNAVAILABLE while no configuration
    /// serves, INTERNAL for bytes that are no CheckRequest. [`denial_of`](Self::denial_of)
    /// answers then, or the failure mode of the proxy decides.
    pub(crate) async fn check(
        &self,
        body: Bytes,
        metadata: Metadata<'_>,
        call: CallInfo<'_>,
    ) -> Result<Bytes, GrpcError> {
        self.decide_with(&body, metadata, &call, |decision, facts, config| {
            self.check_response(decision, facts, config)
        })
        .await
    }

    /// A framed CheckResponse that denies what ended with an error instead of a decision; `None` if the failure mode of the proxy decides.
    pub(crate) fn denial_of(&self, error: &GrpcError) -> Option<Bytes> {
        self.closed(error, |decision, config| self.check_response(decision, &CheckFacts::unknown(), config))
    }

    /// Counts a check that ended without a decision and is answered with `result` all the same.
    pub(crate) fn count_undecided(&self, result: &str, error: &GrpcError) {
        self.metrics.check(result, error.code.name());
    }

    /// Records a request that is refused before it could be decided, with the attributes that can be read. Shadow mode does not override it.
    pub(super) fn record_refused(&self, body: &[u8], error: &GrpcError) {
        let published = self.shared.runtime().load();
        let snapshot = published.routes.snapshot();
        let state = self.snapshot_state(&published);
        let (plan, arena) = (state.plan(&snapshot.vocabulary, None), Bump::new());
        let mut attributes = Attributes::new(&plan, &arena);
        // It is refused anyway.
        let _ = set_check_request(body, &[], now(), config_of(snapshot), &mut attributes);
        let bag = attributes.bag();
        let (code, message) = (error.code as i32, error.message.as_str());
        let refusal = Refusal { code, message, by: DeniedBy::Server, cached: false };
        published.denials.record(refusal, snapshot, &bag, || request_of(&bag));
    }

    /// Passes `respond` the decision about a check that ended with an error, if the settings close on errors, or callers choose the error by how
    /// much they send. Settings are unknown while no configuration serves, and a disabled service makes no decision: that is counted.
    pub(super) fn closed<T>(
        &self,
        error: &GrpcError,
        respond: impl FnOnce(&Decision, &EnvoyConfig) -> T,
    ) -> Option<T> {
        let published = self.shared.runtime().load();
        let config = config_of(published.routes.snapshot());
        let check = &config.settings.check;
        let is_refused = error.is_of_size || check.error_mode == ErrorMode::Closed;
        if published.withheld.is_some() || !check.enabled || !is_refused {
            self.count_undecided("error", error);
            return None;
        }
        let mut decision = Decision::of_error(error);
        if is_overridden(&decision, config) {
            decision.stripped = Some(self.snapshot_state(&published).stripped(&published));
        }
        // Nothing is read of the request: it may be one of very many, or very large.
        let arena = Bump::new();
        let bag = AttributeBag::empty(&published.routes.snapshot().vocabulary, &arena);
        record_denial(&published, config, &decision, &bag);
        Some(respond(&decision, config))
    }

    /// Decides about a CheckRequest and passes the decision to `respond`.
    pub(super) async fn decide_with<T>(
        &self,
        body: &[u8],
        metadata: Metadata<'_>,
        call: &CallInfo<'_>,
        respond: impl FnOnce(&Decision, &CheckFacts<'_>, &EnvoyConfig) -> T,
    ) -> Result<T, GrpcError> {
        self.observed(AUTHORIZATION_CHECK, call, async |observation| {
            let decided = self.decide_observed((body, metadata), call, observation, respond).await;
            decided.inspect_err(|error| self.record_undecided((body, metadata), observation, error))
        })
        .await
    }

    async fn decide_observed<T>(
        &self,
        (body, metadata): (&[u8], Metadata<'_>),
        call: &CallInfo<'_>,
        observation: Option<&Observation<'_>>,
        respond: impl FnOnce(&Decision, &CheckFacts<'_>, &EnvoyConfig) -> T,
    ) -> Result<T, GrpcError> {
        self.admit(Demand { cost: 1, is_report: false, caller: call.caller })?;
        let scope = self.worker.begin(call.deadline, observation.map(Observation::trace))?;
        let snapshot = scope.published.routes.snapshot();
        let config = config_of(snapshot);
        require_enabled(config.settings.check.enabled, "checks")?;
        self.shared.uncharged.look(snapshot, config);
        let state = self.snapshot_state(&scope.published);
        let plan = state.plan(&snapshot.vocabulary, observation);
        let mut attributes = Attributes::new(&plan, &scope.arena);
        let metadata = copy_metadata(metadata, &scope.arena);
        let facts = set_check_request(body, metadata, now(), config, &mut attributes)
            .map_err(GrpcError::undecodable)?;
        self.metrics.unconvertible(facts.unconvertible);
        let published: &Published = &scope.published;
        let call = CheckCall { published, context: &scope.context, info: call, observation };
        let left = IfLeft::new(|error| self.count_left(&error));
        let decision = self.decide(call, &state, &attributes).await;
        left.end();
        let mut decision = decision?;
        if is_overridden(&decision, config) {
            decision.stripped = Some(state.stripped(published));
        }
        Ok(respond(&decision, &facts, config))
    }

    /// Records a check that ended before there was anything to decide over, with the attributes that can be read.
    #[cold]
    pub(super) fn record_undecided(
        &self,
        (body, metadata): (&[u8], Metadata<'_>),
        observation: Option<&Observation<'_>>,
        error: &GrpcError,
    ) {
        let Some(observation) = observation.filter(|o| o.records_payload() && !o.has_request()) else {
            return;
        };
        let published = self.shared.runtime().load();
        let snapshot = published.routes.snapshot();
        let state = self.snapshot_state(&published);
        let (plan, arena) = (state.plan(&snapshot.vocabulary, Some(observation)), Bump::new());
        let mut attributes = Attributes::new(&plan, &arena);
        // The call ends with an error anyway.
        let _ = set_check_request(body, metadata, now(), config_of(snapshot), &mut attributes);
        let required = RequiredQuotas { quotas: Vec::new(), id: String::new() };
        RecordedExchange::of_check(&required).failed(error.clone()).record(observation, &attributes);
    }

    /// Counts a check whose caller left before its answer: the failure mode of the proxy decides. What becomes of one that panicked, or was
    /// refused, is counted [elsewhere](Self::closed).
    #[cold]
    fn count_left(&self, error: &GrpcError) {
        if error.code == Code::Cancelled {
            self.metrics.check("error", error.code.name());
        }
    }

    /// Decides over attributes: from the cache, or by the rules and quotas. Errors: RESOURCE_EXHAUSTED for a call that has to wait while
    /// too much memory waits.
    async fn decide<'a>(
        &self,
        call: CheckCall<'a>,
        state: &SnapshotState,
        attributes: &Attributes<'a>,
    ) -> Result<Decision, GrpcError> {
        let config = config_of(call.published.routes.snapshot());
        let mut bag = attributes.bag();
        // Cached decisions are shared by all callers and take no quota.
        let depends_on_caller = set_principal(self.worker.principal(call.info), call.published, &mut bag);
        let quotas = required_quotas(&config.check_quotas, &bag);
        let cache = state.cache.as_deref().filter(|_| quotas.is_empty() && !depends_on_caller);
        let recorder = call.observation.filter(|observation| observation.records_payload());
        let needs_id = recorder.is_some() || !quotas.is_empty();
        let id = if needs_id { self.decision_id() } else { String::new() };
        let required = RequiredQuotas { quotas, id };
        let (cached, cache) = self.looked_up(cache, &bag);
        let (mut decision, exchange) = match cached {
            Some(decision) => {
                if let Some(trace) = call.context.trace {
                    let refuser = decision.refused_by.as_ref().filter(|_| decision.code != 0);
                    trace.borrow_mut().answered_from_cache(refuser, decision.made_secrets.as_ref());
                }
                let exchange = recorder.map(|_| {
                    let exchange = RecordedExchange::of_check(&required);
                    exchange.with_status(decision.code, &decision.message, decision.directive.as_ref())
                });
                (decision, exchange)
            }
            // Boxed, so that the future of a cache hit stays small.
            None => {
                let left = recorder.map(|observation| {
                    IfLeft::new(|error| {
                        let exchange = RecordedExchange::of_check(&required);
                        exchange.failed(error).record(observation, attributes);
                    })
                });
                let (waiting, arena) = (&self.worker.engine.waiting, bag.arena());
                let decided =
                    Box::pin(self.decide_uncached(call, &mut bag, cache, &required, recorder.is_some()));
                let decided = waiting::counted(waiting, arena, Code::ResourceExhausted, decided).await;
                left.into_iter().for_each(IfLeft::end);
                decided?
            }
        };
        record_denial(call.published, config, &decision, &bag);
        if let (Some(observation), Some(exchange)) = (recorder, exchange) {
            exchange.record(observation, attributes);
        }
        decision.id = required.id;
        Ok(decision)
    }

    /// The decision in the cache, or else where to store one.
    fn looked_up<'c>(
        &self,
        cache: Option<&'c CheckCache<CachedVerdict>>,
        bag: &AttributeBag<'_>,
    ) -> (Option<Decision>, Option<(&'c CheckCache<CachedVerdict>, Miss)>) {
        let Some(cache) = cache else { return (None, None) };
        match self.cached_decision(cache, bag) {
            Ok(decision) => (Some(decision), None),
            Err(miss) => (None, Some((cache, miss))),
        }
    }

    /// Errors: there is no decision in the cache.
    fn cached_decision(
        &self,
        cache: &CheckCache<CachedVerdict>,
        bag: &AttributeBag<'_>,
    ) -> Result<Decision, Miss> {
        let mut result = "miss";
        let decision = cache.find(bag, 0, |cached, _| {
            let decision = CachedVerdict::take(cached.0.clone());
            result = if decision.is_some() { "hit" } else { "expired" };
            decision
        });
        self.metrics.cache(result);
        decision
    }

    /// Runs the phases of a check. Returns the decision, and the exchange if payload is recorded.
    async fn decide_uncached<'a>(
        &self,
        call: CheckCall<'a>,
        bag: &mut AttributeBag<'a>,
        cache: Option<(&CheckCache<CachedVerdict>, Miss)>,
        required: &RequiredQuotas<'_>,
        records_payload: bool,
    ) -> (Decision, Option<RecordedExchange>) {
        let settings = &config_of(call.published.routes.snapshot()).settings;
        let fired = RefCell::default();
        let context =
            DispatchContext { fired: settings.check.response_metadata.then_some(&fired), ..*call.context };
        let mut builder = DecisionBuilder {
            max_age: settings.check.cache.max_age.to_std_or_zero(),
            limit_headers: &settings.ratelimit.headers,
            fired: &fired,
            exchange: records_payload.then(|| RecordedExchange::of_check(required)),
            verdict: None,
            statuses: Vec::new(),
            exhausted: Vec::new(),
            quota_errors: DispatchError::default(),
        };
        let cache = cache.map(|(cache, miss)| (cache, 0, miss));
        let decided =
            pipeline::decide(call.published, bag, cache, required.requests(), &mut builder, &context).await;
        let of = (&*bag, &*call.published.routes.snapshot().secrets);
        builder.finish(decided.err().map(DispatchError::from), of, context.metrics)
    }
}

/// Records a denial, also one of a check that failed. One that shadow mode overrides is counted for its rule.
fn record_denial(published: &Published, config: &EnvoyConfig, decision: &Decision, bag: &AttributeBag<'_>) {
    if !is_denied(decision, config) {
        // What failed, or lacks a quota, has no refuser.
        let refuser = decision.refused_by.as_ref().filter(|_| config.settings.check.mode == Mode::Shadow);
        refuser.into_iter().for_each(Refuser::count_shadow);
        return;
    }
    let by = match decision.exhausted.as_str() {
        "" => DeniedBy::rule(decision.refused_by.as_ref()),
        quotas => DeniedBy::Quota(quotas),
    };
    let message = match decision.failed {
        true => Cow::Owned(format!("{UNDECIDED}: {}", decision.message)),
        false => SecretValues::masked(decision.made_secrets.as_deref(), &decision.message),
    };
    let refusal = Refusal { code: decision.code, message: &message, by, cached: decision.cache_hit };
    published.denials.record(refusal, published.routes.snapshot(), bag, || request_of(bag));
}

/// Names and amounts of the quotas that a request needs. A quota that several rules charge is required once, with the sum of their charges:
/// handlers take a second allocation under the deduplication id of the request for a repetition of the first.
fn required_quotas<'c>(quotas: &'c [CheckQuota], bag: &AttributeBag<'_>) -> Vec<(&'c str, i64)> {
    let mut required: Vec<(&str, i64)> = Vec::new();
    for quota in quotas {
        let holds = |tests: &Vec<(SlotId, TextTest)>| {
            tests.iter().all(|(slot, test)| match bag.peek(*slot) {
                Some(Value::String(text)) => test.may_hold(text, bag),
                _ => false,
            })
        };
        if quota.matches.is_empty() || quota.matches.iter().any(holds) {
            for (name, charge) in &quota.quotas {
                match required.iter_mut().find(|(known, _)| known == name) {
                    Some((_, sum)) => *sum = charge.saturating_add(*sum),
                    None => required.push((name.as_str(), *charge)),
                }
            }
        }
    }
    required
}

/// Copies the metadata into the arena, so that attributes may borrow it.
fn copy_metadata<'a>(metadata: Metadata<'_>, arena: &'a Bump) -> Metadata<'a> {
    if metadata.is_empty() {
        return &[];
    }
    arena.alloc_slice_fill_iter(
        metadata.iter().map(|(name, value)| (&*arena.alloc_str(name), &*arena.alloc_slice_copy(value))),
    )
}
