//! Rules in dry run: evaluated and not enforced.
//!
//! They are evaluated after the answer is complete, so they cannot affect it: no refusal, grant, header, validity or referenced
//! attribute. Check handlers are called; their answers are counted and traced. Quota handlers are called with a separate
//! deduplication id, and only for instances that no enforced rule uses, because their cells are those of real requests. Generators
//! and report handlers are not called, because their effects cannot be undone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bumpalo::collections::Vec as ArenaVec;

use super::context::count_work;
use super::instances::{evaluate, instances_named, work_of};
use super::trace::{CallTrace, TracedPhase, started, step};
use super::{DispatchContext, QuotaRequest};
use crate::adapter::{CheckResult, HandlerError, QuotaCall, QuotaResult, Reply};
use crate::routing::{DryRunOutcome, Matched, Route, RouteAction, RouteInstance, RoutingTable, RuleKind};
use crate::snapshot::Allowance;
use mixer_attribute::AttributeBag;
use mixer_base::task::Group;

/// Most pending answers of rules in dry run in the process. Further asynchronous answers are dropped.
const MAX_PENDING: usize = 1024;

static PENDING: AtomicUsize = AtomicUsize::new(0);

/// Evaluates the rules in dry run for an answered check and its quotas. `passed` and `allowed` are those of the answer.
///
/// Asynchronous handlers do not delay the request, unless its trace is full. Returns whether a rule applied: the answer must then not
/// be cached, because cached answers are not counted. Conditions record references.
pub async fn dry_run_check<'t: 'a, 'a>(
    table: &'t RoutingTable,
    bag: &AttributeBag<'a>,
    quotas: impl Iterator<Item = QuotaRequest<'_>>,
    passed: bool,
    allowed: Allowance,
    context: &DispatchContext<'_>,
) -> bool {
    let begun = started(context.trace);
    let mut applied = false;
    for matched in select(table, RuleKind::Generate, bag, context) {
        applied = true;
        evaluate_instances(matched.route, RuleKind::Generate, bag, context);
    }
    for Matched { route, .. } in select(table, RuleKind::Check, bag, context) {
        applied = true;
        for action in &route.actions {
            for instance in &action.instances {
                call_check(route, action, instance, bag, context).await;
            }
        }
    }
    if passed {
        for Matched { route, .. } in select(table, RuleKind::Headers, bag, context) {
            applied = true;
            count(route, DryRunOutcome::Matched, context);
        }
        // What an enforced rule refused has no use for a default.
        for Matched { route, .. } in select(table, RuleKind::Default, bag, context) {
            applied = true;
            let is_allowed = route.rule.is_satisfied_by(allowed);
            count(route, if is_allowed { DryRunOutcome::Allowed } else { DryRunOutcome::Denied }, context);
        }
        for request in quotas {
            dry_run_one_quota(table, bag, request, context).await;
        }
    }
    step(context.trace, || TracedPhase::DryRun, begun, None);
    applied
}

/// Evaluates the rules in dry run for a quota without a check. Awaits handlers as [`dry_run_check`] does.
pub async fn dry_run_quota<'t: 'a, 'a>(
    table: &'t RoutingTable,
    bag: &AttributeBag<'a>,
    request: QuotaRequest<'_>,
    context: &DispatchContext<'_>,
) {
    let begun = started(context.trace);
    dry_run_one_quota(table, bag, request, context).await;
    step(context.trace, || TracedPhase::DryRun, begun, None);
}

async fn dry_run_one_quota<'t: 'a, 'a>(
    table: &'t RoutingTable,
    bag: &AttributeBag<'a>,
    request: QuotaRequest<'_>,
    context: &DispatchContext<'_>,
) {
    for Matched { route, .. } in select(table, RuleKind::Quota, bag, context) {
        for (action, instance) in instances_named(route, request.name) {
            call_quota(table, (route, action, instance), bag, request, context).await;
        }
    }
}

/// Evaluates the report rules in dry run over one record: instances are evaluated and counted, nothing is delivered.
pub fn dry_run_report<'t: 'a, 'a>(
    table: &'t RoutingTable,
    bag: &AttributeBag<'a>,
    context: &DispatchContext<'_>,
) {
    for kind in [RuleKind::Generate, RuleKind::Report] {
        for matched in select(table, kind, bag, context) {
            evaluate_instances(matched.route, kind, bag, context);
        }
    }
}

/// The rules in dry run that apply.
fn select<'t: 'a, 'a>(
    table: &'t RoutingTable,
    kind: RuleKind,
    bag: &AttributeBag<'a>,
    context: &DispatchContext<'_>,
) -> ArenaVec<'a, Matched<'t, 'a>> {
    let mut matched = ArenaVec::new_in(bag.arena());
    for set in table.select_dry_run(kind, bag).into_iter().flat_map(|rules| rules.sets()) {
        count_work(set.matches(bag, &mut matched).evaluations);
    }
    // A default is enforced where its condition fails; failures of other rules are not counted.
    matched.retain(|matched: &Matched<'_, '_>| matched.failed.is_none() || kind == RuleKind::Default);
    if let Some(trace) = context.trace {
        for matched in &matched {
            trace.borrow_mut().rule(&matched.route.rule, kind);
        }
    }
    matched
}

fn count(route: &Route, outcome: DryRunOutcome, context: &DispatchContext<'_>) {
    if let Some(counters) = route.dry_run.as_ref().filter(|_| context.counts()) {
        counters.count(outcome);
    }
}

/// Evaluates the instances of a rule without calling handlers.
fn evaluate_instances<'t: 'a, 'a>(
    route: &'t Route,
    kind: RuleKind,
    bag: &AttributeBag<'a>,
    context: &DispatchContext<'_>,
) {
    let mut outcome = DryRunOutcome::Matched;
    for action in &route.actions {
        for instance in &action.instances {
            count_work(work_of(instance));
            let made = evaluate(instance, bag);
            if made.is_err() {
                outcome = DryRunOutcome::Failed;
            }
            if let Some(trace) = context.trace {
                let mut trace = trace.borrow_mut();
                let known = made.as_ref().ok().map(|made| &made.instance);
                let at = trace.dispatch(route, action, instance, kind, known);
                if let Err(text) = made {
                    trace.failed(at, text);
                }
            }
        }
    }
    count(route, outcome, context);
}

fn check_outcome(result: &Result<CheckResult, HandlerError>) -> DryRunOutcome {
    match result {
        Err(_) => DryRunOutcome::Failed,
        Ok(answer) if answer.status.code == 0 => DryRunOutcome::Allowed,
        Ok(_) => DryRunOutcome::Denied,
    }
}

fn quota_outcome(amount: i64, result: &Result<QuotaResult, HandlerError>) -> DryRunOutcome {
    match result {
        Err(_) => DryRunOutcome::Failed,
        Ok(grant) if grant.granted >= amount => DryRunOutcome::Granted,
        Ok(_) => DryRunOutcome::Refused,
    }
}

async fn call_check<'t: 'a, 'a>(
    route: &'t Route,
    action: &'t RouteAction,
    route_instance: &'t RouteInstance,
    bag: &AttributeBag<'a>,
    context: &DispatchContext<'_>,
) {
    let Some((evaluated, at)) = prepare(route, action, route_instance, RuleKind::Check, bag, context) else {
        return;
    };
    let begun = Instant::now();
    let reply = action.handler.check(&evaluated.instance);
    let counted = |result: &Result<CheckResult, HandlerError>| count(route, check_outcome(result), context);
    if let Some(result) = settle(reply, (route, action), check_outcome, context).await {
        counted(&result);
        if let (Some(trace), Some(at)) = (context.trace, at) {
            CallTrace::new(at, begun).checked(trace, &result);
        }
    }
}

async fn call_quota<'t: 'a, 'a>(
    table: &RoutingTable,
    (route, action, route_instance): (&'t Route, &'t RouteAction, &'t RouteInstance),
    bag: &AttributeBag<'a>,
    request: QuotaRequest<'_>,
    context: &DispatchContext<'_>,
) {
    let Some((evaluated, at)) = prepare(route, action, route_instance, RuleKind::Quota, bag, context) else {
        return;
    };
    if table.enforces_quota(action, route_instance) {
        count(route, DryRunOutcome::Matched, context);
        return;
    }
    // A separate id: the handler deduplicates the real request by its own.
    let deduplication_id = format!("dry-run:{}", request.handler_id());
    let call = QuotaCall {
        amount: request.amount,
        best_effort: request.best_effort,
        deduplication_id: &deduplication_id,
    };
    let begun = Instant::now();
    let reply = action.handler.quota(&evaluated.instance, call);
    let amount = request.amount;
    let outcome = move |result: &Result<QuotaResult, HandlerError>| quota_outcome(amount, result);
    if let Some(result) = settle(reply, (route, action), outcome, context).await {
        count(route, quota_outcome(amount, &result), context);
        if let (Some(trace), Some(at)) = (context.trace, at) {
            CallTrace::new(at, begun).granted(trace, amount, &result);
        }
    }
}

/// Evaluates an instance and traces it; counts a failure.
fn prepare<'t: 'a, 'a>(
    route: &'t Route,
    action: &'t RouteAction,
    route_instance: &'t RouteInstance,
    kind: RuleKind,
    bag: &AttributeBag<'a>,
    context: &DispatchContext<'_>,
) -> Option<(super::instances::Evaluated<'a>, Option<usize>)> {
    let made = evaluate(route_instance, bag);
    let at = context.trace.map(|trace| {
        let mut trace = trace.borrow_mut();
        let known = made.as_ref().ok().map(|made| &made.instance);
        let at = trace.dispatch(route, action, route_instance, kind, known);
        if let Err(text) = &made {
            trace.failed(at, *text);
        }
        at
    });
    match made {
        Ok(evaluated) => Some((evaluated, at)),
        Err(_) => {
            count(route, DryRunOutcome::Failed, context);
            None
        }
    }
}

/// The answer, if it is ready or the trace is full; otherwise a task counts it later.
async fn settle<T: Send + 'static>(
    reply: Reply<T>,
    (route, action): (&Route, &RouteAction),
    outcome: impl Fn(&Result<T, HandlerError>) -> DryRunOutcome + Send + 'static,
    context: &DispatchContext<'_>,
) -> Option<Result<T, HandlerError>> {
    let future = match reply {
        Reply::Ready(result) => return Some(result),
        Reply::Later(future) => future,
    };
    if context.trace.is_some_and(|trace| trace.borrow().full) {
        return Some(future.await);
    }
    if PENDING.fetch_add(1, Ordering::Relaxed) >= MAX_PENDING {
        PENDING.fetch_sub(1, Ordering::Relaxed);
        count(route, DryRunOutcome::Skipped, context);
        return None;
    }
    let slot = PendingSlot;
    let counters = route.dry_run.clone();
    static DRY_RUNS: OnceLock<Group> = OnceLock::new();
    // A handler is closed once nobody holds it: the call outlives the request, and with it the configuration that the request held.
    let handler = Arc::clone(&action.handler);
    DRY_RUNS.get_or_init(|| Group::new("dry run")).spawn(async move {
        let (_slot, _handler) = (slot, handler);
        let result = future.await;
        if let Some(counters) = counters {
            counters.count(outcome(&result));
        }
    });
    None
}

/// One of the pending answers; releases its slot however the wait ends.
struct PendingSlot;

impl Drop for PendingSlot {
    fn drop(&mut self) {
        PENDING.fetch_sub(1, Ordering::Relaxed);
    }
}
