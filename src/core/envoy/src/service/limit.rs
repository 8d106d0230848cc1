//! Rate limits: the limits of descriptors, and Mixer's quotas.

use std::cell::Cell;

use bumpalo::Bump;
use bytes::Bytes;

use super::super::attributes::Attributes;
use super::super::descriptor::{Descriptor, RateLimitRequest, set_descriptor};
use super::super::rate_limit::{self, Known, LimitCode, LimitInfo, LimitStatus, RefusingQuota};
use super::decision::quota_status;
use super::recording::RecordedExchange;
use super::{EnvoyService, SHOULD_RATE_LIMIT, SnapshotState, require_enabled};
use crate::config::settings::RateLimit;
use crate::config::{ErrorMode, Search, Unmatched, config_of};
use mixer_api::grpc::{Code, EMPTY_MESSAGE, GrpcError, finish_message};
use mixer_api::load_shedding::Demand;
use mixer_api::observers::Observation;
use mixer_api::pipeline;
use mixer_api::principal::{CallerPrincipal, set_principal};
use mixer_api::waiting;
use mixer_api::{CallInfo, IfLeft};
use mixer_attribute::AttributeBag;
use mixer_engine::denials::{DeniedBy, Refusal, request_of};
use mixer_engine::dispatch::{self, DispatchContext, DispatchError, Protocol, QuotaOutcome, QuotaRequest};
use mixer_engine::runtime::Published;
use mixer_engine::secret_values::for_log;

/// A call of the rate limit service.
#[derive(Clone, Copy)]
struct LimitCall<'s> {
    published: &'s Published,
    context: &'s DispatchContext<'s>,
    observation: Option<&'s Observation<'s>>,
    state: &'s SnapshotState,
    principal: CallerPrincipal<'s>,
    /// Whether its result is counted.
    is_counted: &'s Cell<bool>,
}

impl EnvoyService {
    /// Answers `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit` with a framed RateLimitResponse.
    ///
    /// Errors: UNKNOWN for a request without domain or descriptors; INVALID_ARGUMENT for too many descriptors; with the error mode
    /// `delegate` UNAVAILABLE when a quota could not be allocated and no descriptor is over its limit, so that the failure mode of the proxy
    /// decides; otherwise as [`check`](Self::check).
    pub(crate) async fn should_rate_limit(
        &self,
        body: Bytes,
        call: CallInfo<'_>,
    ) -> Result<Bytes, GrpcError> {
        self.observed(SHOULD_RATE_LIMIT, &call, async |observation| {
            let is_counted = Cell::new(false);
            let decided = self.limit_observed(&body, &call, observation, &is_counted).await;
            decided.inspect_err(|error| self.undecided(&body, observation, is_counted.get(), error))
        })
        .await
    }

    async fn limit_observed(
        &self,
        body: &[u8],
        call: &CallInfo<'_>,
        observation: Option<&Observation<'_>>,
        is_counted: &Cell<bool>,
    ) -> Result<Bytes, GrpcError> {
        self.admit(Demand { cost: 1, is_report: false, caller: call.caller })?;
        let scope = self.worker.begin(call.deadline, observation.map(Observation::trace))?;
        let (published, context) = (&*scope.published, &scope.context);
        let state = &*self.snapshot_state(published);
        let principal = self.worker.principal(call);
        let call = LimitCall { published, context, observation, state, principal, is_counted };
        self.limit_response(call, body, &scope.arena).await
    }

    /// Counts and records a call that ended before there was anything to decide over: the failure mode of the proxy decides. The record has
    /// the attributes of the first descriptor, if it can be read.
    #[cold]
    fn undecided(
        &self,
        body: &[u8],
        observation: Option<&Observation<'_>>,
        is_counted: bool,
        error: &GrpcError,
    ) {
        let observation = observation.filter(|o| o.records_payload() && !o.has_request());
        if is_counted && observation.is_none() {
            return;
        }
        let arena = Bump::new();
        let is_bounded = RateLimitRequest::count(body).is_ok_and(|n| n <= self.worker.engine.limits.quotas);
        let request = is_bounded.then(|| RateLimitRequest::read(body, &arena).ok()).flatten();
        let published = self.shared.runtime().load();
        let snapshot = published.routes.snapshot();
        let config = config_of(snapshot);
        if !is_counted {
            let domain = request.as_ref().map_or(&b""[..], |request| request.domain);
            self.metrics.rate_limit(config, domain, "error");
        }
        let Some(observation) = observation else { return };
        let state = self.snapshot_state(&published);
        let plan = state.plan(&snapshot.vocabulary, Some(observation));
        let mut attributes = Attributes::new(&plan, &arena);
        if let Some(request) = &request
            && let Some(descriptor) = request.descriptors.first()
        {
            set_descriptor(request.domain, descriptor, config, &mut attributes);
        }
        let exchange = RecordedExchange::of_limit(&LimitStatus::default(), self.decision_id());
        exchange.failed(error.clone()).record(observation, &attributes);
    }

    /// Counts a call that ended before its domain could be read.
    pub(crate) fn count_unread(&self) {
        let published = self.shared.runtime().load();
        self.metrics.rate_limit(config_of(published.routes.snapshot()), b"", "error");
    }

    /// A framed RateLimitResponse that says over the limit, for a call that failed because of how much its caller sent; `None` if the failure
    /// mode of the proxy decides.
    pub(crate) fn over_limit_of(&self, error: &GrpcError) -> Option<Bytes> {
        let published = self.shared.runtime().load();
        let config = config_of(published.routes.snapshot());
        let settings = &config.settings.ratelimit;
        let is_refused =
            error.is_of_size && published.withheld.is_none() && settings.enabled && !settings.shadow;
        is_refused.then(|| {
            self.metrics.rate_limit(config, b"", "over");
            let (snapshot, arena) = (published.routes.snapshot(), Bump::new());
            // Nothing is read of the call: it is too large.
            let bag = AttributeBag::empty(&snapshot.vocabulary, &arena);
            let (code, message) = (error.code as i32, error.message.as_str());
            let refusal = Refusal { code, message, by: DeniedBy::Server, cached: false };
            published.denials.record(refusal, snapshot, &bag, || request_of(&bag));
            let mut status = LimitStatus::default();
            status.exceed();
            framed(&[status], settings)
        })
    }

    async fn limit_response(
        &self,
        call: LimitCall<'_>,
        body: &[u8],
        arena: &Bump,
    ) -> Result<Bytes, GrpcError> {
        let config = config_of(call.published.routes.snapshot());
        let settings = &config.settings.ratelimit;
        require_enabled(settings.enabled, "rate limits")?;
        let limit = self.worker.engine.limits.quotas;
        let found = RateLimitRequest::count(body).map_err(GrpcError::undecodable)?;
        if found > limit {
            let text =
                format!("the call has {found} descriptors; at most {limit} are allowed (--max-check-quotas)");
            return Err(GrpcError::invalid(Code::InvalidArgument, text));
        }
        let request = RateLimitRequest::read(body, arena).map_err(GrpcError::undecodable)?;
        let invalid = |text| Err(GrpcError::invalid(Code::Unknown, text));
        if request.domain.is_empty() {
            return invalid("rate limit domain must not be empty");
        }
        if request.descriptors.is_empty() {
            return invalid("rate limit descriptor list must not be empty");
        }
        let windows = &self.shared.windows;
        let search = Search::default();
        let mut statuses =
            rate_limit::decide(&request, config, windows, &self.limit_metrics, windows.now(), &search);
        let (mut failed, mut failures) = (Vec::new(), DispatchError::default());
        let records_payload = call.observation.is_some_and(Observation::records_payload);
        if !config.quotas.is_empty() || records_payload {
            for (index, (status, descriptor)) in statuses.iter_mut().zip(request.descriptors).enumerate() {
                let waiting = &self.worker.engine.waiting;
                let left = IfLeft::new(|error| self.left(call, request.domain, descriptor, error));
                let applied =
                    std::pin::pin!(self.apply_quota(call, (&request, &search), descriptor, status, arena));
                let applied = waiting::counted(waiting, arena, Code::ResourceExhausted, applied).await;
                left.end();
                if let Err(error) = applied.and_then(|applied| applied) {
                    failures.errors.push(error.message.clone());
                    failed.push((index, error));
                }
            }
        }
        let is_over = |statuses: &[LimitStatus]| statuses.iter().any(|s| s.code == LimitCode::OverLimit);
        let over = is_over(&statuses);
        // A descriptor over its limit refuses the call whatever the others do: the proxy allows what is an error.
        if over && !settings.shadow {
            failures.overruled(None, call.context.metrics);
        } else if let Some((_, error)) = failed.first()
            && settings.error_mode == ErrorMode::Delegate
        {
            self.metrics.rate_limit(config, request.domain, "error");
            call.is_counted.set(true);
            return Err(error.clone());
        }
        for (index, _) in &failed {
            let Some(status) = statuses.get_mut(*index) else { continue };
            match settings.error_mode {
                ErrorMode::Closed => status.exceed(),
                _ => status.matched = true,
            }
        }
        if statuses.iter().any(|status| !status.matched) {
            self.count_unlimited(call, &request, &statuses);
        }
        let refuses = is_over(&statuses) && !settings.shadow;
        if refuses {
            self.record_over_limit(call, &request, &statuses, arena);
        }
        if !refuses && settings.unmatched == Unmatched::Error && statuses.iter().any(|s| !s.matched) {
            self.metrics.rate_limit(config, request.domain, "no_match");
            call.is_counted.set(true);
            return Err(GrpcError::new(Code::Unknown, "no limit is configured for a descriptor"));
        }
        let result = match (over, settings.shadow) {
            (true, true) => "shadow_over",
            (true, false) => "over",
            // Delegated errors have returned.
            (false, shadow) if !failed.is_empty() => {
                let is_allowed = shadow || settings.error_mode != ErrorMode::Closed;
                if is_allowed { "error_allowed" } else { "error_denied" }
            }
            (false, _) if statuses.iter().all(|status| !status.matched) => "no_match",
            (false, _) => "ok",
        };
        self.metrics.rate_limit(config, request.domain, result);
        Ok(framed(&statuses, settings))
    }

    /// Counts and records a call whose caller left while this descriptor waited for a handler, or that its pool refused, or that
    /// panicked: the failure mode of the proxy decides.
    #[cold]
    fn left(&self, call: LimitCall<'_>, domain: &[u8], descriptor: &Descriptor<'_>, error: GrpcError) {
        let snapshot = call.published.routes.snapshot();
        let config = config_of(snapshot);
        self.metrics.rate_limit(config, domain, "error");
        let Some(observation) = call.observation.filter(|observation| observation.records_payload()) else {
            return;
        };
        let arena = Bump::new();
        let plan = call.state.plan(&snapshot.vocabulary, call.observation);
        let mut attributes = Attributes::new(&plan, &arena);
        set_descriptor(domain, descriptor, config, &mut attributes);
        let exchange = RecordedExchange::of_limit(&LimitStatus::default(), self.decision_id());
        exchange.failed(error).record(observation, &attributes);
    }

    /// Counts the descriptors for which there is no limit and no quota.
    fn count_unlimited(&self, call: LimitCall<'_>, request: &RateLimitRequest<'_>, statuses: &[LimitStatus]) {
        let id = call.state.id;
        let mut known = self.unlimited.borrow_mut();
        if known.as_ref().is_none_or(|known| known.id() != id) {
            *known = Some(Known::new(self.shared.unlimited.of(id)));
        }
        if let Some(known) = &mut *known {
            let config = config_of(call.published.routes.snapshot());
            let both = statuses.iter().zip(request.descriptors);
            for (_, descriptor) in both.filter(|(status, _)| !status.matched) {
                known.count(request.domain, descriptor, config);
            }
        }
    }

    /// Records the first descriptor that is refused, with the attributes of its quotas.
    #[cold]
    fn record_over_limit(
        &self,
        call: LimitCall<'_>,
        request: &RateLimitRequest<'_>,
        statuses: &[LimitStatus],
        arena: &Bump,
    ) {
        let snapshot = call.published.routes.snapshot();
        let both = statuses.iter().zip(request.descriptors);
        let mut over = both.filter(|(status, _)| status.code == LimitCode::OverLimit);
        let Some((status, descriptor)) = over.next() else { return };
        let plan = call.state.plan(&snapshot.vocabulary, None);
        let mut attributes = Attributes::new(&plan, arena);
        set_descriptor(request.domain, descriptor, config_of(snapshot), &mut attributes);
        let bag = attributes.bag();
        let of = |limit: &LimitInfo| format!("over the limit of {limit}");
        let over = || status.limit.as_ref().map_or_else(|| "over the limit".to_owned(), of);
        // That of a request, or values that are too long.
        let unnamed = || {
            let mut name = String::from_utf8_lossy(request.domain).into_owned();
            for (index, (key, _)) in descriptor.entries.iter().enumerate() {
                name.push_str(if index == 0 { ": " } else { "." });
                name.push_str(&String::from_utf8_lossy(key));
            }
            name
        };
        let name;
        let (by, message) = match (&status.refused_by, &status.exceeds) {
            (Some(quota), _) => (DeniedBy::Quota(&quota.name), quota.message()),
            (None, Some(limit)) => {
                let domain = config_of(snapshot).domains.get(request.domain);
                let place = domain.map(|domain| format!(" ({})", domain.written(limit).place));
                (DeniedBy::Limit(&limit.full_key), over() + &place.unwrap_or_default())
            }
            (None, None) => {
                name = unnamed();
                (DeniedBy::Limit(&name), over())
            }
        };
        let refusal = Refusal { code: Code::ResourceExhausted as i32, message: &message, by, cached: false };
        call.published.denials.record(refusal, snapshot, &bag, || request_of(&bag));
    }

    /// Allocates the quota that is configured for a descriptor, if any; the stricter status counts. Records the exchange. A descriptor whose
    /// values make rules fail is over its limit.
    async fn apply_quota(
        &self,
        call: LimitCall<'_>,
        (request, search): (&RateLimitRequest<'_>, &Search),
        descriptor: &Descriptor<'_>,
        status: &mut LimitStatus,
        arena: &Bump,
    ) -> Result<(), GrpcError> {
        let snapshot = call.published.routes.snapshot();
        let config = config_of(snapshot);
        let selector = match rate_limit::quota_for(&config.quotas, request.domain, descriptor, search) {
            Ok(selector) => selector,
            Err(error) => {
                mixer_base::warn_limited!(1, %error, "a descriptor is over its limit because its values are too long");
                status.exceed();
                None
            }
        };
        let recorder = call.observation.filter(|observation| observation.records_payload());
        if selector.is_none() && recorder.is_none() {
            return Ok(());
        }
        let plan = call.state.plan(&snapshot.vocabulary, call.observation);
        let mut attributes = Attributes::new(&plan, arena);
        set_descriptor(request.domain, descriptor, config, &mut attributes);
        let mut exchange = recorder.map(|_| RecordedExchange::of_limit(status, self.decision_id()));
        if let Some(selector) = selector {
            // Envoy sends no id: a call that it repeats charges again, under an id of its own.
            let id =
                exchange.as_ref().map_or_else(|| self.decision_id(), |exchange| exchange.id().to_owned());
            let quota = QuotaRequest {
                name: &selector.quota,
                amount: descriptor.charge,
                best_effort: false,
                deduplication_id: &id,
                level: true,
                is_partial: true,
                protocol: Protocol::Envoy,
            };
            if let Some(exchange) = &mut exchange {
                exchange.push_quota(&quota);
            }
            let outcome = match self.allocate(call, attributes.bag(), quota).await {
                Ok(outcome) => outcome,
                Err(error) => {
                    let secrets = &call.published.routes.snapshot().secrets;
                    let text = || for_log(&error, &attributes.bag(), secrets);
                    mixer_base::warn_limited!(
                        1,
                        error = text(),
                        quota = quota.name,
                        "a quota for Envoy could not be allocated"
                    );
                    // What a caller makes fail is no failure of the server: the caller could choose the mode.
                    let is_refused = error.is_of_request || error.is_fault;
                    let code = match (error.is_of_request, error.is_fault) {
                        (true, _) => Code::InvalidArgument,
                        (false, true) => Code::Internal,
                        (false, false) => Code::Unavailable,
                    };
                    let error = GrpcError::new(code, error.to_string());
                    if status.code == LimitCode::Ok {
                        status.refused_by = Some(RefusingQuota { name: quota.name.into(), failed: true });
                    }
                    if let (Some(observation), Some(exchange)) = (recorder, exchange) {
                        exchange.failed(error.clone()).record(observation, &attributes);
                    }
                    if is_refused {
                        status.exceed();
                        return Ok(());
                    }
                    return Err(error);
                }
            };
            if let Some(exchange) = &mut exchange {
                exchange.push_grant(quota.name, &outcome);
            }
            let over = quota.amount > 0 && outcome.granted < quota.amount;
            let other = quota_status(quota.name, over, outcome.level);
            *status = rate_limit::stricter(std::mem::take(status), other);
        }
        if let (Some(observation), Some(exchange)) = (recorder, exchange) {
            exchange.record(observation, &attributes);
        }
        Ok(())
    }

    /// Preprocesses, allocates one quota, and evaluates the quota rules in dry run. Errors: also if no rule configures the quota.
    async fn allocate<'a>(
        &self,
        call: LimitCall<'a>,
        mut bag: AttributeBag<'a>,
        quota: QuotaRequest<'_>,
    ) -> Result<QuotaOutcome, DispatchError> {
        let LimitCall { published, context, .. } = call;
        set_principal(call.principal, published, &mut bag);
        pipeline::preprocess(published, &mut bag, context).await?;
        let outcome = pipeline::allocate(published, &bag, quota, context).await;
        if published.routes.has_dry_run() {
            Box::pin(dispatch::dry_run_quota(&published.routes, &bag, quota, context)).await;
        }
        outcome
    }
}

/// A framed RateLimitResponse.
fn framed(statuses: &[LimitStatus], settings: &RateLimit) -> Bytes {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(&EMPTY_MESSAGE);
    rate_limit::encode(statuses, &settings.headers, settings.shadow, &mut out);
    finish_message(&mut out);
    out.into()
}
