//! Quota allocation.

use std::time::Instant;

use bumpalo::collections::Vec as ArenaVec;

use super::context::condition_failure;
use super::instances::{evaluate, instances_named};
use super::trace::CallTrace;
use super::{DispatchContext, DispatchError, Protocol};
use crate::adapter::{HandlerError, QuotaCall, QuotaLevel, QuotaResult, Reply};
use crate::routing::{MatchCounts, Matched, Route, RouteAction, RouteInstance, RoutingTable, RuleKind};
use crate::secret_values::for_log;
use crate::snapshot::{Evasion, OnError};
use mixer_attribute::{AttributeBag, SignedDuration};
use mixer_base::sample;
use mixer_expr::EvalError;

/// Validity of a grant without a handler.
const DEFAULT_VALID_DURATION: SignedDuration = SignedDuration::from_secs(60);

/// A quota request.
#[derive(Debug, Clone, Copy)]
pub struct QuotaRequest<'r> {
    /// The short name of an instance, case-insensitive.
    pub name: &'r str,
    /// The amount; negative amounts are released.
    pub amount: i64,
    /// Whether a partial grant is accepted.
    pub best_effort: bool,
    /// Id of the whole request; the handler gets it with the name of the quota appended. Empty: the request is no repetition.
    pub deduplication_id: &'r str,
    /// Whether to return the level of the quota.
    pub level: bool,
    /// Whether the request may lack what every HTTP request has, as a descriptor of Envoy does.
    pub is_partial: bool,
    /// The protocol of the request, which decides how answers combine; Envoy's quotas must be configured.
    pub protocol: Protocol,
}

/// A grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaOutcome {
    /// The granted amount.
    pub granted: i64,
    /// Its validity.
    pub valid_duration: SignedDuration,
    /// The level with the least remaining amount of those that are reported, after the grant; only if requested.
    pub level: Option<QuotaLevel>,
}

impl QuotaRequest<'_> {
    /// The answer that counts. Of the grants of several rules it is the least; Istio Mixer takes the first that is not empty, so that one
    /// rule overrules the refusal of another.
    fn combine(&self, answers: &[QuotaResult]) -> QuotaResult {
        let is_empty = |answer: &&QuotaResult| **answer == QuotaResult::default();
        let counts = match self.protocol {
            Protocol::Mixer | Protocol::Envoy if self.amount > 0 => {
                answers.iter().min_by_key(|answer| answer.granted)
            }
            _ => answers.iter().find(|answer| !is_empty(answer)),
        };
        counts.copied().unwrap_or_default()
    }

    /// The id by which a handler knows a repetition. A request without an id repeats no other, except as in Istio Mixer, where all requests
    /// without one are repetitions of the first.
    pub(super) fn handler_id(&self) -> String {
        let name = self.name;
        match self.deduplication_id {
            "" if self.protocol != Protocol::IstioMixer => {
                format!("{:016x}{:016x}{name}", sample::random(), sample::random())
            }
            id => format!("{id}{name}"),
        }
    }

    /// Whether a handler refuses the request, which stands although another one failed, except as Istio Mixer.
    fn is_refused_by(&self, granted: QuotaResult) -> bool {
        self.protocol != Protocol::IstioMixer && self.amount > 0 && self.is_less_than_wanted(granted)
    }

    /// Whether a grant is less than the caller takes.
    fn is_less_than_wanted(&self, granted: QuotaResult) -> bool {
        let least = if self.best_effort { 1 } else { self.amount };
        granted.granted < least
    }
}

/// Allocates one quota over a preprocessed bag.
///
/// Without a matching instance, and if the failures of all are ignored, the amount is granted as requested, unless the quota
/// must be configured and no rule for the request has it, or the condition of one that has it fails and may be meant for the request.
/// The least of several grants counts (see [`Protocol`]), and nothing is granted if a rule failed that has `on_error: deny`.
///
/// Errors: an instance that could not be evaluated or a handler that failed, unless its rule or handler has an `on_error`, or another rule
/// or its handler refuses the quota; also a quota that must be configured and is not.
pub async fn quota<'t: 'a, 'a>(
    table: &'t RoutingTable,
    bag: &AttributeBag<'a>,
    request: QuotaRequest<'_>,
    context: &DispatchContext<'_>,
) -> Result<QuotaOutcome, DispatchError> {
    let rules = table.select(RuleKind::Quota, bag);
    let mut matched = ArenaVec::new_in(bag.arena());
    // Of rules with this quota.
    let mut failures: ArenaVec<'a, (&Route, EvalError<'a>)> = ArenaVec::new_in(bag.arena());
    let groups = {
        let mut counts = MatchCounts::default();
        for set in rules.sets() {
            counts += set.matches_and_failures(bag, &mut matched, &mut |route, error| {
                if request.protocol == Protocol::Envoy
                    && instances_named(route, request.name).next().is_some()
                {
                    failures.push((route, error));
                }
            });
        }
        context.metrics.conditions_failed(counts.failures);
        counts.groups
    };
    let deduplication_id = request.handler_id();
    let call = QuotaCall {
        amount: request.amount,
        best_effort: request.best_effort,
        deduplication_id: &deduplication_id,
    };
    let mut answers = Vec::new();
    // Without their answers, which must not overrule those of other rules.
    let mut ignored = 0;
    // A grant of another rule does not overrule the refusal of a rule that failed.
    let mut is_refused = false;
    let mut level = None;
    let mut errors = DispatchError::default();
    for Matched { route, failed } in &matched {
        if let Some(trace) = context.trace
            && instances_named(route, request.name).next().is_some()
        {
            trace.borrow_mut().rule(&route.rule, RuleKind::Quota);
        }
        for (action, instance) in instances_named(route, request.name) {
            if failed.is_none() {
                route.counters.hit();
            }
            let (answer, on_error) = match failed {
                Some(error) => {
                    let refuses = request.protocol == Protocol::Mixer && route.refuses_exhausted(*error);
                    let on_error = route.on_condition_error().or(refuses.then_some(OnError::Deny));
                    (Err(HandlerError::of_request(condition_failure(route, *error))), on_error)
                }
                None => {
                    let level = request.level.then_some(&mut level);
                    let answer = allocate(table, (route, action, instance), bag, call, level, context).await;
                    (answer, route.rule.on_error.or(action.handler.config.on_error))
                }
            };
            match &answer {
                Ok(granted) if request.amount > 0 && request.is_less_than_wanted(*granted) => {
                    route.counters.denied();
                }
                Ok(_) => {}
                Err(_) => route.counters.failed(),
            }
            match (answer, on_error) {
                (Ok(answer), _) => answers.push(answer),
                (Err(_), Some(OnError::Allow)) => {
                    if failed.is_none() {
                        context.ignored(action.handler.name());
                    }
                    ignored += 1;
                }
                (Err(_), Some(OnError::Deny | OnError::LastKnown)) => {
                    is_refused = true;
                    answers.push(QuotaResult::default());
                }
                (Err(error), None) => errors.push(error),
            }
        }
    }
    context.metrics.dispatch_shape(groups, answers.len() + ignored);
    let granted = if is_refused {
        QuotaResult::default()
    } else if answers.is_empty() {
        let configuring = || {
            let routes = rules.sets().flat_map(|set| set.routes());
            routes.filter(|route| instances_named(route, request.name).next().is_some())
        };
        if configuring().next().is_none() {
            // A quota that is only tried is granted; one that rules of other namespaces enforce is none that is only tried.
            let is_tried = || {
                let tried = table.select_dry_run(RuleKind::Quota, bag);
                let mut routes = tried.iter().flat_map(|rules| rules.sets()).flat_map(|s| s.routes());
                routes.any(|route| instances_named(route, request.name).next().is_some())
                    && !table.is_quota_enforced(request.name)
            };
            if request.protocol == Protocol::Envoy && !is_tried() {
                let error = format!("no rule for the request configures the quota `{}`", request.name);
                return Err(DispatchError { errors: vec![error], ..DispatchError::default() });
            }
            mixer_base::warn_limited!(1, "Requested quota '{}' is not configured", request.name);
        } else if request.protocol == Protocol::Envoy {
            // A condition that is false says that the request is not charged; one that the caller makes fail says nothing.
            failures.sort_unstable_by_key(|(route, _)| &route.rule.key);
            failures
                .iter()
                .filter_map(|(route, error)| evaded_condition(route, *error, request.is_partial))
                .for_each(|error| errors.push(error));
        }
        as_requested(request.amount)
    } else {
        request.combine(&answers)
    };
    let outcome = QuotaOutcome { granted: granted.granted, valid_duration: granted.valid_duration, level };
    if is_refused || !answers.is_empty() && request.is_refused_by(granted) {
        errors.overruled(Some((bag, &table.snapshot().secrets)), context.metrics);
        return Ok(outcome);
    }
    errors.into_result(outcome)
}

/// The failure of the condition of a rule whose quota is not charged for it, unless the rule ignores failures. The absence of what the
/// condition tests is none if no request evades the charge by it: the request is one that the rule is not for.
fn evaded_condition(route: &Route, error: EvalError<'_>, is_partial: bool) -> Option<HandlerError> {
    let may_be_meant = match route.rule.evasion {
        Evasion::Nobody => false,
        Evasion::PartialRequests => is_partial,
        Evasion::AnyRequest => true,
    };
    let counts = may_be_meant || !error.is_absence();
    let is_ignored = route.on_condition_error() == Some(OnError::Allow);
    (counts && !is_ignored).then(|| HandlerError::of_request(condition_failure(route, error)))
}

fn as_requested(amount: i64) -> QuotaResult {
    QuotaResult { granted: amount, valid_duration: DEFAULT_VALID_DURATION }
}

async fn allocate<'t: 'a, 'a>(
    table: &RoutingTable,
    (route, action, route_instance): (&Route, &RouteAction, &'t RouteInstance),
    bag: &AttributeBag<'a>,
    call: QuotaCall<'_>,
    level: Option<&mut Option<QuotaLevel>>,
    context: &DispatchContext<'_>,
) -> Result<QuotaResult, HandlerError> {
    let evaluated = match evaluate(route_instance, bag) {
        Ok(evaluated) => evaluated,
        Err(text) => {
            if let Some(trace) = context.trace {
                let mut trace = trace.borrow_mut();
                let at = trace.dispatch(route, action, route_instance, RuleKind::Quota, None);
                trace.failed(at, text);
            }
            return Err(HandlerError::of_request(text));
        }
    };
    let destination = table
        .destinations()
        .get(route_instance.destination.index())
        .ok_or_else(|| HandlerError::new("no such destination"))?;
    let at = context.trace.map(|trace| {
        let instance = Some(&evaluated.instance);
        trace.borrow_mut().dispatch(route, action, route_instance, RuleKind::Quota, instance)
    });
    let started = Instant::now();
    let reply: Reply<QuotaResult> = action.handler.quota(&evaluated.instance, call);
    let result = context.settle((Some(route), destination), started, reply).await;
    if let Some(level) = level {
        match action.handler.quota_level(&evaluated.instance) {
            Ok(Some(known)) if level.is_none_or(|least| known.remaining < least.remaining) => {
                *level = Some(known)
            }
            Ok(_) => {}
            Err(error) => {
                // The quota stands without its level, which is for response headers only.
                destination.counters.record(started.elapsed(), true);
                let error = || for_log(&error, bag, &table.snapshot().secrets);
                mixer_base::warn_limited!(
                    1,
                    adapter = action.handler.name(),
                    error = error(),
                    "the level of a quota is unknown"
                );
            }
        }
    }
    if let (Some(trace), Some(at)) = (context.trace, at) {
        CallTrace::new(at, started).granted(trace, call.amount, &result);
    }
    result
}
