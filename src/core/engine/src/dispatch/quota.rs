//! Quotas: how much is granted?

use std::time::Instant;

use bumpalo::collections::Vec as ArenaVec;

use super::instances::evaluate;
use super::trace::TracedCall;
use super::{DispatchContext, DispatchError};
use crate::adapter::{QuotaCall, QuotaLevel, QuotaResult, Reply};
use crate::routing::{Matched, Route, RouteAction, RouteInstance, RoutingTable, RuleKind};
use crate::snapshot::OnError;
use mixer_attribute::{AttributeBag, SignedDuration};

/// How long a grant holds that no handler gave.
const DEFAULT_VALID_DURATION: SignedDuration = SignedDuration::from_secs(60);

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct QuotaRequest<'r> {
    /// The short name of an instance, in any case.
    pub name: &'r str,
    /// How much; negative gives back.
    pub amount: i64,
    /// Whether less is welcome.
    pub best_effort: bool,
    /// Id of the whole request; the name of the quota is appended for the handler.
    pub deduplication_id: &'r str,
    /// Whether the caller wants to know where the quota stands.
    pub level: bool,
}

/// What is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaOutcome {
    /// How much.
    pub granted: i64,
    /// For how long.
    pub valid_duration: SignedDuration,
    /// Where the first quota stands afterwards that knows it; only if that was asked.
    pub level: Option<QuotaLevel>,
}

/// Allocates one quota over a preprocessed bag. Spec: runtime.md 10.4.
///
/// A matching instance decides; only when none matches is the amount granted as asked. Of several answers the first in rule order
/// counts that is not empty.
///
/// Errors: an instance that could not be evaluated or a handler that could not answer, unless its rule or handler says what to do.
pub async fn quota<'t: 'a, 'a>(
    table: &'t RoutingTable,
    bag: &AttributeBag<'a>,
    request: QuotaRequest<'_>,
    context: &DispatchContext<'_>,
) -> Result<QuotaOutcome, DispatchError> {
    let rules = table.select(RuleKind::Quota, bag);
    let mut matched = ArenaVec::new_in(bag.arena());
    let mut failures = 0;
    for set in rules.sets() {
        failures += set.matches(bag, &mut matched);
    }
    context.metrics.conditions_failed(failures);
    let deduplication_id = format!("{}{}", request.deduplication_id, request.name);
    let call = QuotaCall {
        amount: request.amount,
        best_effort: request.best_effort,
        deduplication_id: &deduplication_id,
    };
    let mut answers = Vec::new();
    let mut level = None;
    let mut errors = DispatchError::default();
    for Matched { route, failed } in &matched {
        if let Some(trace) = context.trace
            && named(route, request.name).next().is_some()
        {
            trace.borrow_mut().rule(&route.rule, RuleKind::Quota);
        }
        for (action, instance) in named(route, request.name) {
            let on_error = route.rule.on_error.or(action.handler.config.on_error);
            let answer = match failed {
                Some(error) => Err(format!("condition of rule `{}` failed: {error}", route.rule.key)),
                None => {
                    ask(
                        table,
                        (route, action, instance),
                        bag,
                        call,
                        request.level.then_some(&mut level),
                        context,
                    )
                    .await
                }
            };
            match (answer, on_error) {
                (Ok(answer), _) => answers.push(answer),
                (Err(_), Some(OnError::Allow)) => answers.push(as_asked(request.amount)),
                (Err(_), Some(OnError::Deny | OnError::LastKnown)) => answers.push(QuotaResult::default()),
                (Err(error), None) => errors.errors.push(error),
            }
        }
    }
    context.metrics.dispatch_shape(rules.destinations(), answers.len());
    let granted = if answers.is_empty() {
        if !rules.sets().flat_map(|s| s.routes()).any(|route| named(route, request.name).next().is_some()) {
            tracing::warn!("Requested quota '{}' is not configured", request.name);
        }
        as_asked(request.amount)
    } else {
        answers.iter().copied().find(|a| *a != QuotaResult::default()).unwrap_or_default()
    };
    errors.into_result(QuotaOutcome {
        granted: granted.granted,
        valid_duration: granted.valid_duration,
        level,
    })
}

fn as_asked(amount: i64) -> QuotaResult {
    QuotaResult { granted: amount, valid_duration: DEFAULT_VALID_DURATION }
}

/// The instances of a route that a quota name means.
pub(super) fn named<'t>(
    route: &'t Route,
    name: &str,
) -> impl Iterator<Item = (&'t RouteAction, &'t RouteInstance)> {
    route
        .actions
        .iter()
        .flat_map(|action| action.instances.iter().map(move |instance| (action, instance)))
        .filter(move |(_, instance)| equal_fold(&instance.config.key.name, name))
}

/// Equality under simple case folding.
fn equal_fold(a: &str, b: &str) -> bool {
    a == b || a.eq_ignore_ascii_case(b) || a.to_lowercase() == b.to_lowercase()
}

async fn ask<'t: 'a, 'a>(
    table: &RoutingTable,
    (route, action, route_instance): (&Route, &RouteAction, &'t RouteInstance),
    bag: &AttributeBag<'a>,
    call: QuotaCall<'_>,
    level: Option<&mut Option<QuotaLevel>>,
    context: &DispatchContext<'_>,
) -> Result<QuotaResult, String> {
    let evaluated = match evaluate(route_instance, bag) {
        Ok(evaluated) => evaluated,
        Err(text) => {
            if let Some(trace) = context.trace {
                let mut trace = trace.borrow_mut();
                let at = trace.dispatch(route, action, route_instance, RuleKind::Quota, None);
                trace.failed(at, text);
            }
            return Err(text.to_owned());
        }
    };
    let destination =
        table.destinations().get(route_instance.destination.index()).ok_or("no such destination")?;
    let at = context.trace.map(|trace| {
        let instance = Some(&evaluated.instance);
        trace.borrow_mut().dispatch(route, action, route_instance, RuleKind::Quota, instance)
    });
    let started = Instant::now();
    let reply: Reply<QuotaResult> = action.handler.quota(&evaluated.instance, call);
    let result = context.settle(destination, started, reply).await;
    if let Some(level) = level.filter(|level| level.is_none()) {
        *level = action.handler.quota_level(&evaluated.instance);
    }
    if let (Some(trace), Some(at)) = (context.trace, at) {
        TracedCall::new(at, started).granted(trace, call.amount, &result);
    }
    result.map_err(|error| error.message)
}
