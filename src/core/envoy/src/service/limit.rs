//! Rate limits: limits of descriptors, and quotas.

use super::SHOULD_RATE_LIMIT;
use crate::config::config_of;
use std::time::{Instant, UNIX_EPOCH};

use bumpalo::Bump;
use bytes::Bytes;

use super::super::attributes::Attributes;
use super::super::descriptor::{Descriptor, RateLimitRequest, set_descriptor};
use super::super::rate_limit::{self, Code as LimitCode, Status};
use super::check::quota_status;
use super::words::Words;
use super::{BridgeService, enabled};
use crate::config::Unmatched;
use mixer_api::CallInfo;
use mixer_api::grpc::{Code, GrpcError, begin_message, finish_message};
use mixer_api::load_shedding::Demand;
use mixer_api::mixer::undecodable;
use mixer_api::observe::Watch;
use mixer_api::worker::{note_snapshot, preprocess};
use mixer_attribute::AttributeBag;
use mixer_engine::dispatch::{
    self, DispatchError, QuotaOutcome, QuotaRequest, TracedPhase, trace_started, trace_step,
};
use mixer_engine::runtime::Published;

/// A call for limits.
#[derive(Clone, Copy)]
struct Asking<'s> {
    published: &'s Published,
    deadline: Option<Instant>,
    watch: Option<&'s Watch<'s>>,
}

impl BridgeService {
    /// Answers `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit` with a framed RateLimitResponse.
    ///
    /// Errors: UNKNOWN for a request without domain or descriptors; UNAVAILABLE when a quota could not be asked, so that the failure
    /// mode of the proxy decides; otherwise as [`check`](Self::check).
    pub async fn should_rate_limit(&self, body: Bytes, call: CallInfo<'_>) -> Result<Bytes, GrpcError> {
        self.watched(SHOULD_RATE_LIMIT, &call, async |watch| {
            self.admit(Demand { cost: 1, is_report: false, caller: call.caller })?;
            let arena = self.worker.arena();
            let published = self.worker.engine.runtime.load();
            note_snapshot(watch.map(Watch::trace), &published);
            let asking = Asking { published: &published, deadline: call.deadline, watch };
            let answer = self.answer_limit(asking, &body, &arena).await;
            self.worker.give_back(arena);
            answer
        })
        .await
    }

    async fn answer_limit(&self, asking: Asking<'_>, body: &[u8], arena: &Bump) -> Result<Bytes, GrpcError> {
        let config = config_of(asking.published.routes.snapshot());
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
        let windows = &self.shared.windows;
        let mut statuses = rate_limit::decide(&request, config, windows, &self.limit_metrics, seconds());
        let wants_words = asking.watch.is_some_and(Watch::wants_words);
        if !config.quotas.is_empty() || wants_words {
            for (status, descriptor) in statuses.iter_mut().zip(request.descriptors) {
                if let Err(error) = self.ask_rules(asking, &request, descriptor, status, arena).await {
                    self.metrics.rate_limit(request.domain, "error");
                    return Err(error);
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

    /// Asks the quota that is configured for a descriptor, if any; the stricter answer counts. Tells the watch about both.
    async fn ask_rules(
        &self,
        asking: Asking<'_>,
        request: &RateLimitRequest<'_>,
        descriptor: &Descriptor<'_>,
        status: &mut Status,
        arena: &Bump,
    ) -> Result<(), GrpcError> {
        let snapshot = asking.published.routes.snapshot();
        let config = config_of(snapshot);
        let selector = rate_limit::quota_for(&config.quotas, request.domain, descriptor);
        let watch = asking.watch.filter(|watch| watch.wants_words());
        if selector.is_none() && watch.is_none() {
            return Ok(());
        }
        let plan = self.present(asking.published).plan(&snapshot.vocabulary, asking.watch);
        let mut attributes = Attributes::new(&plan, arena);
        set_descriptor(request.domain, descriptor, config, &mut attributes);
        let mut said = watch.map(|_| Words::limit(status, self.decision_id()));
        if let Some(selector) = selector {
            // Every call is one of its own: the proxy does not repeat them.
            let id = said.as_ref().map_or_else(|| self.decision_id(), |said| said.id().to_owned());
            let asked = QuotaRequest {
                name: &selector.quota,
                amount: descriptor.charge,
                best_effort: false,
                deduplication_id: &id,
                level: true,
            };
            let outcome = self.ask_quota(asking, attributes.bag(), asked).await.map_err(|error| {
                mixer_base::warn_limited!(1, %error, quota = asked.name, "a quota for Envoy could not be asked");
                GrpcError::new(Code::Unavailable, error.to_string())
            })?;
            if let Some(said) = &mut said {
                said.ask(&asked);
                said.grant(asked.name, &outcome);
            }
            let over = asked.amount > 0 && outcome.granted < asked.amount;
            let other = quota_status(asked.name, over, outcome.level);
            *status = rate_limit::stricter(std::mem::take(status), other);
        }
        if let (Some(watch), Some(said)) = (watch, said) {
            said.tell(watch, &attributes);
        }
        Ok(())
    }

    async fn ask_quota<'a>(
        &self,
        asking: Asking<'a>,
        mut bag: AttributeBag<'a>,
        asked: QuotaRequest<'_>,
    ) -> Result<QuotaOutcome, DispatchError> {
        let routes = &asking.published.routes;
        let context = self.worker.context(asking.deadline, asking.watch.map(Watch::trace));
        preprocess(asking.published, &mut bag, &context).await?;
        let began = trace_started(context.trace);
        let outcome = dispatch::quota(routes, &bag, asked, &context).await;
        let error = outcome.as_ref().err().map(ToString::to_string);
        trace_step(context.trace, || TracedPhase::Quota(asked.name.to_owned()), began, error);
        if routes.has_dry_run() {
            Box::pin(dispatch::dry_run_quota(routes, &bag, asked, &context)).await;
        }
        outcome
    }
}

/// Seconds since 1970.
fn seconds() -> u64 {
    std::time::SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
