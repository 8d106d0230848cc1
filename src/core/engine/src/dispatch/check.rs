//! Checks: is a request allowed?

use std::sync::Arc;
use std::time::Instant;

use bumpalo::collections::Vec as ArenaVec;

use super::combine::{Combiner, PERMISSION_DENIED};
use super::context::condition_failure;
use super::default_deny::deny_by_default;
use super::headers::add_header_changes;
use super::instances::{Evaluated, evaluate};
use super::last_known::AnswerKey;
use super::trace::CallTrace;
use super::{CheckOutcome, DispatchContext, DispatchError};
use crate::adapter::{CheckResult, GeneratedValue, HandlerError, Reply, Status};
use crate::routing::{
    Destination, MatchCounts, Matched, NamespaceFault, Route, RouteAction, RouteInstance, RoutingTable,
    RuleKind,
};
use crate::secret_values::SecretValues;
use crate::snapshot::{OnError, RuleConfig};
use mixer_attribute::AttributeBag;
use mixer_expr::EvalError;

/// The result of one dispatch, before results are combined.
enum DispatchResult<'t> {
    /// A handler was called.
    Called {
        route: &'t Route,
        /// The position of the instance among those of the action.
        instance: usize,
        action: &'t RouteAction,
        on_error: Option<OnError>,
        answer_key: Option<AnswerKey>,
        result: Result<CheckResult, HandlerError>,
    },
    /// A failure that `on_error` turned into an answer.
    Substituted { route: &'t Route, result: CheckResult },
}

/// The outputs of a check.
pub(super) struct CheckOutput<'t> {
    /// The rule that asked for it.
    pub(super) rule: &'t RuleConfig,
    /// The action, by its index among the configured ones.
    pub(super) action: usize,
    /// The position of the instance among those of the action.
    pub(super) instance: usize,
    /// By position among the outputs of the template.
    pub(super) values: Vec<(usize, GeneratedValue)>,
}

/// A pending call of a handler.
struct PendingCall<'t> {
    at: usize,
    /// Its entry in the trace, if the request is traced.
    traced: Option<CallTrace>,
    route: &'t Route,
    destination: &'t Destination,
    started: Instant,
    reply: Reply<CheckResult>,
}

/// The protocol of a check: what precedes, and what it leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Mixer's, answered as by Istio Mixer. compat(1.3): a failure fails the check although a handler refuses it. Pinned by the scenario
    /// `combine-error-and-deny`.
    IstioMixer,
    /// Mixer's. A refusal stands whatever fails.
    Mixer,
    /// Envoy's, which does not tell the namespace of a request: one that names none, or misspells one, is refused while rules of namespaces may
    /// refuse it.
    /// A refusal stands whatever fails.
    Envoy,
}

impl Protocol {
    /// That of Mixer's API.
    pub fn of_mixer(as_istio_mixer: bool) -> Self {
        if as_istio_mixer { Self::IstioMixer } else { Self::Mixer }
    }
}

/// Decides over a preprocessed bag.
///
/// Except as Istio Mixer, a refusal stands whatever else fails, also that of a default, and is not cacheable then: nobody can turn it into
/// a failed call, which a proxy may allow. For the same reason a condition that takes more than it may refuses a request of Mixer's
/// API, unless its rule has an `on_error`; the services of Envoy decide about such failures by themselves.
///
/// Errors: an instance that could not be evaluated or a handler that failed, unless its rule or handler has an `on_error` or the request is
/// refused. The result has all errors of the request.
pub async fn check<'t: 'a, 'a>(
    table: &'t RoutingTable,
    bag: &AttributeBag<'a>,
    context: &DispatchContext<'_>,
    protocol: Protocol,
) -> Result<CheckOutcome, DispatchError> {
    let secrets = &*table.snapshot().secrets;
    let made_secrets = || SecretValues::made(bag, secrets).map(Arc::new);
    if let Some(trace) = context.trace {
        trace.borrow_mut().made_secrets = made_secrets();
    }
    let rules = table.select(RuleKind::Check, bag);
    let mut matched = ArenaVec::new_in(bag.arena());
    let groups = {
        let mut counts = MatchCounts::default();
        for set in rules.sets() {
            counts += set.matches(bag, &mut matched);
        }
        context.metrics.conditions_failed(counts.failures);
        counts.groups
    };
    let mut operation = Operation::new(table, context, protocol);
    for Matched { route, failed } in &matched {
        if let Some(trace) = context.trace {
            trace.borrow_mut().rule(&route.rule, RuleKind::Check);
        }
        match failed {
            Some(error) => operation.condition_failed(route, *error),
            None => operation.dispatch(route, bag),
        }
    }
    context.metrics.dispatch_shape(groups, operation.instances);
    let depends_on_map = operation.depends_on_map;
    let fault = if protocol == Protocol::Envoy { table.namespace_fault(bag) } else { None };
    let (mut combiner, errors, outputs) = operation.finish(fault).await;
    let may_outrank = protocol != Protocol::IstioMixer;
    if combiner.is_undecided() && (may_outrank || errors.is_empty()) && table.has(RuleKind::Default) {
        deny_by_default(table.select(RuleKind::Default, bag), bag, &mut combiner, context);
    }
    if !(combiner.is_refused() && may_outrank) {
        errors.into_result(())?;
    } else if errors.overruled(Some((bag, secrets)), context.metrics) {
        combiner.cover_failure();
    }
    let mut outcome = combiner.finish(depends_on_map);
    if let Some(trace) = context.trace {
        trace.borrow_mut().allowed = outcome.allowed;
    }
    if outcome.status.code == 0 {
        let rules = table.select(RuleKind::Headers, bag);
        add_header_changes(rules, bag, &outputs, &mut outcome, protocol, (secrets, context))?;
    }
    // What says nothing of the request repeats none of them.
    if !outcome.status.message.is_empty() || outcome.directive.is_some() {
        outcome.made_secrets = match context.trace {
            Some(trace) => trace.borrow().made_secrets.clone(),
            None => made_secrets(),
        };
    }
    Ok(outcome)
}

/// The dispatches of one check.
struct Operation<'t, 'c> {
    table: &'t RoutingTable,
    context: &'c DispatchContext<'c>,
    protocol: Protocol,
    results: Vec<DispatchResult<'t>>,
    pending: Vec<PendingCall<'t>>,
    errors: DispatchError,
    instances: usize,
    depends_on_map: bool,
}

impl<'t, 'c> Operation<'t, 'c> {
    fn new(table: &'t RoutingTable, context: &'c DispatchContext<'c>, protocol: Protocol) -> Self {
        Self {
            table,
            context,
            protocol,
            results: Vec::new(),
            pending: Vec::new(),
            errors: DispatchError::default(),
            instances: 0,
            depends_on_map: false,
        }
    }

    fn condition_failed(&mut self, route: &'t Route, error: EvalError<'_>) {
        self.context.failed(route);
        let is_refused = self.protocol == Protocol::Mixer && route.refuses_exhausted(error);
        let refused = match is_refused {
            true => Some(condition_failure(route, error)),
            false => self.errors.condition_failed(route, error),
        };
        if let Some(refused) = refused {
            self.results.push(DispatchResult::Substituted { route, result: refusal(refused) });
        }
    }

    fn dispatch<'a>(&mut self, route: &'t Route, bag: &AttributeBag<'a>)
    where
        't: 'a,
    {
        self.context.hit(route);
        if let Some(fired) = self.context.fired {
            fired.borrow_mut().push(Arc::clone(&route.rule));
        }
        for action in &route.actions {
            let on_error = route.rule.on_error.or(action.handler.config.on_error);
            for (at, instance) in action.instances.iter().enumerate() {
                match evaluate(instance, bag) {
                    Ok(evaluated) => self.call((route, action, at), instance, &evaluated, on_error),
                    Err(text) => self.instance_failed(route, action, instance, text, on_error),
                }
            }
        }
    }

    fn call(
        &mut self,
        (route, action, at): (&'t Route, &'t RouteAction, usize),
        route_instance: &RouteInstance,
        evaluated: &Evaluated<'_>,
        on_error: Option<OnError>,
    ) {
        self.instances += 1;
        self.depends_on_map |= evaluated.has_map;
        let instance = &evaluated.instance;
        let answer_key = (on_error == Some(OnError::LastKnown))
            .then(|| super::last_known::answer_key(&action.handler, instance));
        let Some(destination) = self.table.destinations().get(route_instance.destination.index()) else {
            return;
        };
        let traced = self.context.trace.map(|trace| {
            trace.borrow_mut().dispatch(route, action, route_instance, RuleKind::Check, Some(instance))
        });
        let started = Instant::now();
        let traced = traced.map(|at| CallTrace::new(at, started));
        let result = match action.handler.check(instance) {
            Reply::Ready(result) => {
                self.context.record(destination, started, &result);
                trace_result(self.context, traced, &result);
                result
            }
            reply @ Reply::Later(_) => {
                self.pending.push(PendingCall {
                    at: self.results.len(),
                    traced,
                    route,
                    destination,
                    started,
                    reply,
                });
                Err(HandlerError::new("no answer"))
            }
        };
        let called = DispatchResult::Called { route, instance: at, action, on_error, answer_key, result };
        self.results.push(called);
    }

    fn instance_failed(
        &mut self,
        route: &'t Route,
        action: &RouteAction,
        instance: &RouteInstance,
        text: &str,
        on_error: Option<OnError>,
    ) {
        self.context.failed(route);
        if let Some(trace) = self.context.trace {
            let mut trace = trace.borrow_mut();
            let at = trace.dispatch(route, action, instance, RuleKind::Check, None);
            trace.failed(at, text);
        }
        match on_error {
            None => self.errors.push(HandlerError::of_request(text)),
            // The same attributes fail again: the answer is as valid as without the instance.
            Some(OnError::Allow) => {}
            Some(OnError::Deny | OnError::LastKnown) => {
                self.results.push(DispatchResult::Substituted {
                    route,
                    result: refusal(format!("{}:{text}", action.handler.name())),
                });
            }
        }
    }

    /// The answers of all handlers, with a refusal if the request does not name the namespace that it has to; what failed; and the outputs.
    async fn finish(
        mut self,
        fault: Option<NamespaceFault>,
    ) -> (Combiner, DispatchError, Vec<CheckOutput<'t>>) {
        self.await_answers().await;
        let mut combiner = Combiner::default();
        let mut outputs = Vec::new();
        for result in self.results {
            match result {
                DispatchResult::Substituted { route, result } => {
                    combiner.add_failure("mixer", &result);
                    combiner.note_refuser(route);
                }
                DispatchResult::Called { route, instance, action, on_error, answer_key, result } => {
                    if result.is_err() {
                        self.context.failed(route);
                    }
                    let name = action.handler.name();
                    let result = match settle_error(self.context, name, on_error, answer_key, result) {
                        Settled::Answered(result) => result,
                        Settled::Refused(refusal) => {
                            combiner.add_failure(name, &refusal);
                            combiner.note_refuser(route);
                            continue;
                        }
                        Settled::Recalled(result) => {
                            combiner.cover_failure();
                            result
                        }
                        Settled::Ignored => {
                            combiner.cover_failure();
                            continue;
                        }
                        Settled::Failed(error) => {
                            self.errors.push(error);
                            continue;
                        }
                    };
                    if result.status.code == 0 {
                        combiner.allow(action.allows);
                    }
                    combiner.add(name, &result);
                    combiner.note_refuser(route);
                    if !result.output.is_empty() {
                        let (rule, action, values) = (&*route.rule, action.index, result.output);
                        outputs.push(CheckOutput { rule, action, instance, values });
                    }
                }
            }
        }
        if let Some(fault) = fault.filter(|_| !combiner.is_refused()) {
            combiner.deny_without_namespace(&fault);
        }
        (combiner, self.errors, outputs)
    }

    /// Awaits all asynchronous handlers together.
    async fn await_answers(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let context = self.context;
        let pending = std::mem::take(&mut self.pending).into_iter().map(|call| async move {
            let result = context.settle((Some(call.route), call.destination), call.started, call.reply).await;
            trace_result(context, call.traced, &result);
            (call.at, result)
        });
        for (at, answer) in futures_util::future::join_all(pending).await {
            if let Some(DispatchResult::Called { result, .. }) = self.results.get_mut(at) {
                *result = answer;
            }
        }
    }
}

/// Completes a trace entry.
fn trace_result(
    context: &DispatchContext<'_>,
    traced: Option<CallTrace>,
    result: &Result<CheckResult, HandlerError>,
) {
    if let (Some(trace), Some(traced)) = (context.trace, traced) {
        traced.checked(trace, result);
    }
}

/// The result of a call after `on_error`.
enum Settled {
    /// The handler answered.
    Answered(CheckResult),
    /// The handler failed, which refuses the request.
    Refused(CheckResult),
    /// The handler failed, and this is its last answer.
    Recalled(CheckResult),
    /// The handler failed, and the call goes on without its answer.
    Ignored,
    /// The handler failed, and the call fails.
    Failed(HandlerError),
}

/// Applies `on_error`.
fn settle_error(
    context: &DispatchContext<'_>,
    handler: &str,
    on_error: Option<OnError>,
    answer_key: Option<AnswerKey>,
    result: Result<CheckResult, HandlerError>,
) -> Settled {
    match (result, on_error) {
        (Ok(result), _) => {
            if let Some(key) = answer_key {
                context.last_known.remember(key, &result);
            }
            Settled::Answered(result)
        }
        (Err(error), None) => Settled::Failed(error),
        (Err(_), Some(OnError::Allow)) => {
            context.ignored(handler);
            Settled::Ignored
        }
        (Err(error), Some(OnError::Deny)) => {
            Settled::Refused(refusal(format!("handler `{handler}` failed: {}", error.message)))
        }
        (Err(error), Some(OnError::LastKnown)) => {
            match answer_key.and_then(|key| context.last_known.recall(&key)) {
                Some(result) => Settled::Recalled(result),
                None => {
                    let cause = format!("failed and has no last answer: {}", error.message);
                    Settled::Refused(refusal(format!("handler `{handler}` {cause}")))
                }
            }
        }
    }
}

/// A refusal that must not be cached.
fn refusal(message: String) -> CheckResult {
    CheckResult {
        status: Status { code: PERMISSION_DENIED, message, details: [].into() },
        ..CheckResult::default()
    }
}
