//! A decision about a CheckRequest, and what of it the cache keeps.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::super::rate_limit::{self, LimitCode, LimitInfo, LimitStatus, RefusingQuota};
use super::recording::RecordedExchange;
use crate::config::settings::{Check as CheckSettings, LimitHeaders};
use mixer_api::grpc::{Code, GrpcError};
use mixer_api::pipeline::{Cacheable, DecisionSink, QuotaSink};
use mixer_attribute::AttributeBag;
use mixer_base::metrics::Metrics;
use mixer_base::secrets::SecretNames;
use mixer_engine::adapter::QuotaLevel;
use mixer_engine::check_cache::CachedAnswer;
use mixer_engine::dispatch::{
    CheckOutcome, DispatchError, Protocol, QuotaOutcome, QuotaRequest, RouteDirective, UNEVALUATED,
};
use mixer_engine::routing::Refuser;
use mixer_engine::secret_values::{SecretValues, for_log};
use mixer_engine::snapshot::RuleConfig;

/// The part of a decision that is the same for other requests.
pub(super) struct Verdict {
    pub(super) code: i32,
    pub(super) message: String,
    /// The message without names of handlers, rules and quotas, for bodies of denials.
    pub(super) public_message: String,
    pub(super) directive: Option<RouteDirective>,
    /// `name.namespace` of the rules that matched.
    pub(super) rules: Vec<String>,
    /// The rule that refuses the request.
    pub(super) refused_by: Option<Refuser>,
    /// The secret values that generators made.
    pub(super) made_secrets: Option<Arc<SecretValues>>,
    /// How many more requests it may answer.
    remaining_uses: AtomicI64,
}

/// A verdict in the cache.
#[derive(Clone)]
pub(super) struct CachedVerdict(pub(super) Arc<Verdict>);

impl CachedVerdict {
    /// Takes one of the remaining uses; `None` if there is none left.
    pub(super) fn take(verdict: Arc<Verdict>) -> Option<Decision> {
        (verdict.remaining_uses.fetch_sub(1, Ordering::Relaxed) > 0)
            .then(|| Decision { cache_hit: true, ..Decision::of(verdict) })
    }
}

impl CachedAnswer for CachedVerdict {
    fn size(&self) -> usize {
        let directive = self.0.directive.as_ref().map_or(0, |d| {
            let changes = d.request_headers.iter().chain(&d.response_headers);
            let unset = d.unset_request_headers.iter().map(|name| name.len() + 24).sum::<usize>();
            let changed = changes.map(|c| c.name.len() + c.value.len() + 64).sum::<usize>();
            d.direct_response_body.len() + changed + unset
        });
        let rules: usize = self.0.rules.iter().map(|rule| rule.len() + 24).sum();
        let made = self.0.made_secrets.as_ref();
        let made = made.map_or(0, |made| made.heap_bytes() + size_of::<SecretValues>());
        size_of::<Verdict>() + made + self.0.message.len() + self.0.public_message.len() + directive + rules
    }
}

/// The decision about one request.
pub(super) struct Decision {
    verdict: Arc<Verdict>,
    /// Response headers of a denial.
    pub(super) headers: Vec<(String, String)>,
    /// The quotas that are exhausted, joined with commas.
    pub(super) exhausted: String,
    /// A UUID; empty until one is needed.
    pub(super) id: String,
    pub(super) cache_hit: bool,
    /// The rules or a quota could not be evaluated.
    pub(super) failed: bool,
    /// What a request loses that passes although this decision does not allow it.
    pub(super) stripped: Option<Arc<RouteDirective>>,
}

impl Decision {
    fn of(verdict: Arc<Verdict>) -> Self {
        Self {
            verdict,
            headers: Vec::new(),
            exhausted: String::new(),
            id: String::new(),
            cache_hit: false,
            failed: false,
            stripped: None,
        }
    }

    /// Changes of the request and of its response, under the status `code` that is enforced.
    pub(super) fn directive_under(&self, code: i32) -> Option<&RouteDirective> {
        if code == 0 && self.code != 0 { self.stripped.as_deref() } else { self.directive.as_ref() }
    }

    /// The message in the body of a denial: without names, unless the settings ask for them.
    pub(super) fn body_message(&self, settings: &CheckSettings) -> &str {
        if settings.deny_body_names { &self.message } else { &self.public_message }
    }

    /// The decision when the evaluation failed.
    pub(super) fn failure(message: String, rules: Vec<String>) -> Self {
        Self::failed_with(Code::Internal, message, String::new(), rules)
    }

    /// The refusal of a request that makes its evaluation fail, or that may have made a handler panic: no mode for failures applies, or its
    /// caller could choose that mode.
    fn refusal(code: Code, why: &str, rules: Vec<String>) -> Self {
        let message = format!("mixer:{UNEVALUATED}: {why}");
        let public_message = UNEVALUATED.to_owned();
        Self { failed: false, ..Self::failed_with(code, message, public_message, rules) }
    }

    /// The decision when the call failed before it had one.
    pub(super) fn of_error(error: &GrpcError) -> Self {
        match error.is_of_size {
            true => Self::refusal(Code::InvalidArgument, &error.message, Vec::new()),
            false => Self::failed_with(error.code, error.message.clone(), String::new(), Vec::new()),
        }
    }

    fn failed_with(code: Code, message: String, public_message: String, rules: Vec<String>) -> Self {
        let (code, remaining_uses) = (code as i32, AtomicI64::new(0));
        let verdict = Verdict {
            code,
            message,
            public_message,
            directive: None,
            rules,
            refused_by: None,
            made_secrets: None,
            remaining_uses,
        };
        Self { failed: true, ..Self::of(Arc::new(verdict)) }
    }
}

impl std::ops::Deref for Decision {
    type Target = Verdict;

    fn deref(&self) -> &Verdict {
        &self.verdict
    }
}

/// Collects the results of the phases of a check.
pub(super) struct DecisionBuilder<'s> {
    /// Longest time in the cache.
    pub(super) max_age: Duration,
    /// Names of the rate limit headers.
    pub(super) limit_headers: &'s LimitHeaders,
    /// The rules that matched so far.
    pub(super) fired: &'s RefCell<Vec<Arc<RuleConfig>>>,
    /// The exchange to record, if payload is recorded.
    pub(super) exchange: Option<RecordedExchange>,
    pub(super) verdict: Option<Arc<Verdict>>,
    pub(super) statuses: Vec<LimitStatus>,
    pub(super) exhausted: Vec<String>,
    /// Of quotas that could not be allocated.
    pub(super) quota_errors: DispatchError,
}

impl DecisionSink for DecisionBuilder<'_> {
    type Answer = CachedVerdict;

    fn protocol(&self) -> Protocol {
        Protocol::Envoy
    }

    fn checked(
        &mut self,
        outcome: CheckOutcome,
        bag: &AttributeBag<'_>,
        is_cacheable: bool,
    ) -> Option<Cacheable<CachedVerdict>> {
        if let Some(exchange) = &mut self.exchange {
            exchange.set_outcome(&outcome, bag);
        }
        let is_cacheable = is_cacheable && outcome.valid_use_count > 0;
        let valid = outcome.valid_duration.to_std_or_zero().min(self.max_age);
        let verdict = Arc::new(Verdict {
            code: outcome.status.code,
            message: outcome.status.message,
            public_message: outcome.public_message,
            directive: outcome.directive,
            rules: names_of(&self.fired.borrow()),
            refused_by: outcome.refused_by,
            made_secrets: outcome.made_secrets,
            remaining_uses: AtomicI64::new(i64::from(outcome.valid_use_count) - 1),
        });
        self.verdict = Some(Arc::clone(&verdict));
        is_cacheable.then_some(Cacheable { answer: CachedVerdict(verdict), valid })
    }
}

impl QuotaSink for DecisionBuilder<'_> {
    fn allocated(
        &mut self,
        quota: QuotaRequest<'_>,
        result: Result<QuotaOutcome, DispatchError>,
        _: &AttributeBag<'_>,
    ) -> ControlFlow<()> {
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(error) => {
                // The next quota may refuse the request.
                self.quota_errors.extend(error);
                return ControlFlow::Continue(());
            }
        };
        if let Some(exchange) = &mut self.exchange {
            exchange.push_grant(quota.name, &outcome);
        }
        let over = outcome.granted < quota.amount;
        self.statuses.push(quota_status(quota.name, over, outcome.level));
        if over {
            self.exhausted.push(quota.name.to_owned());
        }
        ControlFlow::Continue(())
    }
}

impl DecisionBuilder<'_> {
    /// The decision after all phases, and the exchange to record. `error` is the failure of a phase. A quota that is exhausted refuses the
    /// request although another one could not be allocated. `of`: the request, and what is secret in it.
    pub(super) fn finish(
        self,
        error: Option<DispatchError>,
        of: (&AttributeBag<'_>, &SecretNames),
        metrics: &Metrics,
    ) -> (Decision, Option<RecordedExchange>) {
        let is_refused = !self.exhausted.is_empty() && self.quota_errors.overruled(Some(of), metrics);
        let quotas_failed = !is_refused && !self.quota_errors.errors.is_empty();
        let verdict = match (error, self.verdict) {
            (None, Some(verdict)) if !quotas_failed => verdict,
            (error, _) => {
                let error = error.unwrap_or(self.quota_errors);
                mixer_base::warn_limited!(
                    1,
                    error = for_log(&error, of.0, of.1),
                    "a check of Envoy could not be evaluated"
                );
                let rules = names_of(&self.fired.borrow());
                // Recorded as the equivalent check of Mixer, which fails.
                let failed = GrpcError::new(Code::Internal, error.to_string());
                let exchange = self.exchange.map(|exchange| exchange.failed(failed));
                let decision = match (error.is_of_request, error.is_fault) {
                    (true, _) => Decision::refusal(Code::InvalidArgument, &error.errors.join(", "), rules),
                    (false, true) => Decision::refusal(Code::Internal, &error.errors.join(", "), rules),
                    (false, false) => Decision::failure(error.to_string(), rules),
                };
                return (decision, exchange);
            }
        };
        if self.exhausted.is_empty() {
            return (Decision::of(verdict), self.exchange);
        }
        let exhausted = self.exhausted.join(",");
        let mut decision = Decision::of(Arc::new(Verdict {
            code: 8,
            message: format!("Quota is exhausted for: {exhausted}"),
            public_message: "quota is exhausted".to_owned(),
            directive: None,
            rules: verdict.rules.clone(),
            made_secrets: None,
            refused_by: None,
            remaining_uses: AtomicI64::new(0),
        }));
        decision.exhausted = exhausted;
        let over = |status: &&LimitStatus| status.code == LimitCode::OverLimit;
        let resets = self.statuses.iter().filter(over).filter_map(|status| status.reset);
        if let Some(nanos) = resets.map(|reset| reset.nanos).max().filter(|nanos| *nanos > 0) {
            let seconds = nanos.saturating_add(999_999_999) / 1_000_000_000;
            decision.headers.push(("retry-after".to_owned(), seconds.to_string()));
        }
        if self.limit_headers.enabled {
            let headers = rate_limit::limit_headers(&self.statuses, self.limit_headers);
            decision.headers.extend(headers.into_iter().map(|(name, value)| (name.to_owned(), value)));
        }
        (decision, self.exchange)
    }
}

fn names_of(rules: &[Arc<RuleConfig>]) -> Vec<String> {
    rules.iter().map(|rule| format!("{}.{}", rule.key.name, rule.key.namespace)).collect()
}

/// The status of a quota as a rate limit.
pub(super) fn quota_status(name: &str, over: bool, level: Option<QuotaLevel>) -> LimitStatus {
    let narrow = |amount: i64| u32::try_from(amount.max(0)).unwrap_or(u32::MAX);
    LimitStatus {
        code: if over { LimitCode::OverLimit } else { LimitCode::Ok },
        limit: level.and_then(|level| LimitInfo::of_window(narrow(level.limit), level.window, name)),
        remaining: level.map_or(0, |level| narrow(level.remaining)),
        reset: level.filter(|level| level.window.nanos > 0).map(|level| level.reset),
        matched: true,
        refused_by: over.then(|| RefusingQuota { name: name.into(), failed: false }),
        exceeds: None,
    }
}
