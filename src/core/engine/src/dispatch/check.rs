//! The check: may this request pass?

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use bumpalo::collections::Vec as ArenaVec;

use super::combine::Combiner;
use super::instances::{Evaluated, evaluate};
use super::trace::TracedCall;
use super::{CheckOutcome, DispatchContext, DispatchError, HeaderChange, RouteDirective};
use crate::adapter::{CheckResult, HandlerError, Reply, Status};
use crate::routing::{
    Destination, Matched, Route, RouteAction, RouteInstance, RoutingTable, RuleKind, SelectedRules,
};
use crate::snapshot::{HeaderOperationConfig, HeaderOperationKind, OnError};
use mixer_attribute::{AttributeBag, Value};
use mixer_expr::EvalError;

/// PERMISSION_DENIED: the code of a refusal because something failed.
const DENIED: i32 = 7;

/// What is known of one dispatch before it is combined.
enum Said<'t> {
    /// A handler was called.
    Called {
        action: &'t RouteAction,
        on_error: Option<OnError>,
        question: Option<u64>,
        result: Result<CheckResult, HandlerError>,
    },
    /// Something failed that its rule answers itself.
    Instead { result: CheckResult },
}

/// A handler that has not answered yet.
struct Waiting<'t> {
    at: usize,
    /// Its place in the trace, if there is one.
    traced: Option<TracedCall>,
    destination: &'t Destination,
    started: Instant,
    reply: Reply<CheckResult>,
}

/// Decides over a preprocessed bag.
///
/// Errors: an instance that could not be evaluated or a handler that could not answer, unless its rule or handler says what to do
/// then. All errors of the request are in the result.
pub async fn check<'t: 'a, 'a>(
    table: &'t RoutingTable,
    bag: &AttributeBag<'a>,
    context: &DispatchContext<'_>,
) -> Result<CheckOutcome, DispatchError> {
    let rules = table.select(RuleKind::Check, bag);
    let mut matched = ArenaVec::new_in(bag.arena());
    let mut failures = 0;
    for set in rules.sets() {
        failures += set.matches(bag, &mut matched);
    }
    context.metrics.conditions_failed(failures);
    let mut operation = Operation::new(table, context);
    for Matched { route, failed } in &matched {
        if let Some(trace) = context.trace {
            trace.borrow_mut().rule(&route.rule, RuleKind::Check);
        }
        match failed {
            Some(error) => operation.condition_failed(route, *error),
            None => operation.dispatch(route, bag),
        }
    }
    context.metrics.dispatch_shape(rules.destinations(), operation.instances);
    let mut outcome = operation.finish().await?;
    if outcome.status.code == 0 {
        add_header_changes(table.select(RuleKind::Headers, bag), bag, &mut outcome, context);
    }
    Ok(outcome)
}

/// The dispatches of one check.
struct Operation<'t, 'c> {
    table: &'t RoutingTable,
    context: &'c DispatchContext<'c>,
    said: Vec<Said<'t>>,
    waiting: Vec<Waiting<'t>>,
    errors: DispatchError,
    instances: usize,
    depends_on_map: bool,
}

impl<'t, 'c> Operation<'t, 'c> {
    fn new(table: &'t RoutingTable, context: &'c DispatchContext<'c>) -> Self {
        Self {
            table,
            context,
            said: Vec::new(),
            waiting: Vec::new(),
            errors: DispatchError::default(),
            instances: 0,
            depends_on_map: false,
        }
    }

    fn condition_failed(&mut self, route: &Route, error: EvalError<'_>) {
        if matches!(route.rule.on_error, Some(OnError::Deny | OnError::LastKnown)) {
            let text = format!("condition of rule `{}` failed: {error}", route.rule.key);
            self.said.push(Said::Instead { result: refusal(text) });
        }
    }

    fn dispatch<'a>(&mut self, route: &'t Route, bag: &AttributeBag<'a>)
    where
        't: 'a,
    {
        if let Some(fired) = self.context.fired {
            fired.borrow_mut().push(Arc::clone(&route.rule));
        }
        for action in &route.actions {
            let on_error = route.rule.on_error.or(action.handler.config.on_error);
            for instance in &action.instances {
                match evaluate(instance, bag) {
                    Ok(evaluated) => self.call(route, action, instance, &evaluated, on_error),
                    Err(text) => self.instance_failed(route, action, instance, text, on_error),
                }
            }
        }
    }

    fn call(
        &mut self,
        route: &'t Route,
        action: &'t RouteAction,
        route_instance: &RouteInstance,
        evaluated: &Evaluated<'_>,
        on_error: Option<OnError>,
    ) {
        self.instances += 1;
        self.depends_on_map |= evaluated.holds_map;
        let instance = &evaluated.instance;
        let question = (on_error == Some(OnError::LastKnown))
            .then(|| super::last_known::question(&action.handler, instance));
        let Some(destination) = self.table.destinations().get(route_instance.destination.index()) else {
            return;
        };
        let at = self.context.trace.map(|trace| {
            trace.borrow_mut().dispatch(route, action, route_instance, RuleKind::Check, Some(instance))
        });
        let started = Instant::now();
        let traced = at.map(|at| TracedCall::new(at, started));
        let result = match action.handler.check(instance) {
            Reply::Ready(result) => {
                destination.counters.record(started.elapsed(), result.is_err());
                note(self.context, traced, &result);
                result
            }
            reply @ Reply::Later(_) => {
                self.waiting.push(Waiting { at: self.said.len(), traced, destination, started, reply });
                Err(HandlerError::new("no answer"))
            }
        };
        self.said.push(Said::Called { action, on_error, question, result });
    }

    fn instance_failed(
        &mut self,
        route: &Route,
        action: &RouteAction,
        instance: &RouteInstance,
        text: &str,
        on_error: Option<OnError>,
    ) {
        if let Some(trace) = self.context.trace {
            let mut trace = trace.borrow_mut();
            let at = trace.dispatch(route, action, instance, RuleKind::Check, None);
            trace.failed(at, text);
        }
        match on_error {
            None => self.errors.errors.push(text.to_owned()),
            Some(OnError::Allow) => {}
            Some(OnError::Deny | OnError::LastKnown) => {
                self.said
                    .push(Said::Instead { result: refusal(format!("{}:{text}", action.handler.name())) });
            }
        }
    }

    async fn finish(mut self) -> Result<CheckOutcome, DispatchError> {
        self.await_answers().await;
        let mut combiner = Combiner::default();
        for said in self.said {
            match said {
                Said::Instead { result } => combiner.add("mixer", &result),
                Said::Called { action, on_error, question, result } => {
                    let name = action.handler.name();
                    match settle_error(self.context, name, on_error, question, result) {
                        Ok(result) => combiner.add(name, &result),
                        Err(Some(error)) => self.errors.errors.push(error.message),
                        Err(None) => {}
                    }
                }
            }
        }
        self.errors.into_result(combiner.finish(self.depends_on_map))
    }

    /// Awaits all handlers that wait for the network, together.
    async fn await_answers(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let context = self.context;
        let pending = std::mem::take(&mut self.waiting).into_iter().map(|waiting| async move {
            let result = context.settle(waiting.destination, waiting.started, waiting.reply).await;
            note(context, waiting.traced, &result);
            (waiting.at, result)
        });
        for (at, answer) in futures_util::future::join_all(pending).await {
            if let Some(Said::Called { result, .. }) = self.said.get_mut(at) {
                *result = answer;
            }
        }
    }
}

/// Completes a trace entry.
fn note(
    context: &DispatchContext<'_>,
    traced: Option<TracedCall>,
    result: &Result<CheckResult, HandlerError>,
) {
    if let (Some(trace), Some(traced)) = (context.trace, traced) {
        traced.checked(trace, result);
    }
}

/// Applies `on_error`. `Err(None)` means: nothing to say.
fn settle_error(
    context: &DispatchContext<'_>,
    handler: &str,
    on_error: Option<OnError>,
    question: Option<u64>,
    result: Result<CheckResult, HandlerError>,
) -> Result<CheckResult, Option<HandlerError>> {
    match (result, on_error) {
        (Ok(result), _) => {
            if let Some(question) = question {
                context.last_known.remember(question, &result);
            }
            Ok(result)
        }
        (Err(error), None) => Err(Some(error)),
        (Err(_), Some(OnError::Allow)) => Err(None),
        (Err(error), Some(OnError::Deny)) => {
            Ok(refusal(format!("handler `{handler}` failed: {}", error.message)))
        }
        (Err(error), Some(OnError::LastKnown)) => {
            Ok(question.and_then(|question| context.last_known.recall(question)).unwrap_or_else(|| {
                refusal(format!("handler `{handler}` failed and has no last answer: {}", error.message))
            }))
        }
    }
}

/// A refusal that may not be reused.
fn refusal(message: String) -> CheckResult {
    CheckResult { status: Status { code: DENIED, message, details: [].into() }, ..CheckResult::default() }
}

/// Evaluates the header operations of all rules that match. Spec: runtime.md 10.3.
fn add_header_changes<'t: 'a, 'a>(
    rules: SelectedRules<'t>,
    bag: &AttributeBag<'a>,
    outcome: &mut CheckOutcome,
    context: &DispatchContext<'_>,
) {
    if rules.sets().all(|set| set.is_empty()) {
        return;
    }
    let mut matched = ArenaVec::new_in(bag.arena());
    for set in rules.sets() {
        set.matches(bag, &mut matched);
    }
    let mut directive = RouteDirective::default();
    for Matched { route, failed } in &matched {
        if failed.is_none() {
            let rule = &route.rule;
            if let Some(trace) = context.trace {
                trace.borrow_mut().rule(rule, RuleKind::Headers);
            }
            changes(&rule.request_headers, bag, &mut directive.request_headers, context);
            changes(&rule.response_headers, bag, &mut directive.response_headers, context);
        }
    }
    if !directive.request_headers.is_empty() || !directive.response_headers.is_empty() {
        outcome.directive = Some(directive);
    }
}

fn changes<'a>(
    operations: &'a [HeaderOperationConfig],
    bag: &AttributeBag<'a>,
    out: &mut Vec<HeaderChange>,
    context: &DispatchContext<'_>,
) {
    for operation in operations {
        let value = match &operation.value {
            None => Cow::Borrowed(""),
            Some(program) => match program.eval(bag) {
                Ok(Value::String(text)) => String::from_utf8_lossy(text),
                Ok(_) => continue,
                Err(error) => {
                    context.metrics.header_value_failed();
                    tracing::debug!("Failed to evaluate header value: {error}");
                    continue;
                }
            },
        };
        if operation.kind != HeaderOperationKind::Remove && value.is_empty() {
            continue;
        }
        out.push(HeaderChange {
            name: operation.name.to_string(),
            value: value.into_owned(),
            kind: operation.kind,
        });
    }
}
