//! Observers of calls: the decision log and the tracer.
//!
//! A call is served the same way whether it is observed or not. Observing it means that its dispatches are recorded in a trace,
//! which the observers receive with request and response when the call is finished. Without observers a call pays for one test of
//! an `Option`.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;

use super::call::{CallInfo, Operation};
use super::grpc::{Code, GrpcError};
use super::spans::{CallStart, ServerSpanContext, spans_of};
use mixer_engine::decision::{
    AnswerFailure, AnsweredCall, CallAnswer, CallerText, DecisionLog, DecisionTargets,
};
use mixer_engine::dispatch::DispatchTrace;
use mixer_spans::Tracer;

/// The observers of all calls.
#[derive(Debug, Default)]
pub struct Observers {
    /// Logs and records decisions.
    pub decisions: Option<Arc<DecisionLog>>,
    /// Exports spans.
    pub tracer: Option<Arc<Tracer>>,
}

impl Observers {
    /// `None` without any observer.
    pub fn if_any(self) -> Option<Arc<Self>> {
        (self.decisions.is_some() || self.tracer.is_some()).then(|| Arc::new(self))
    }

    fn observe(&self, operation: Operation, call: &CallInfo<'_>) -> Option<Observation<'_>> {
        let decision = self.decisions.as_ref().and_then(|log| Some((&**log, log.wants(operation.method)?)));
        let span = self.tracer.as_ref().and_then(|tracer| {
            let (context, remote_parent) = tracer.begin(call.headers?)?;
            Some((&**tracer, ServerSpanContext { context, remote_parent }))
        });
        let trace = || DispatchTrace { notes_secrets: span.is_some(), ..DispatchTrace::default() };
        (decision.is_some() || span.is_some()).then(|| Observation {
            operation,
            caller: decision.and_then(|_| caller_text(call)),
            decision,
            span,
            start: CallStart { time: SystemTime::now(), instant: Instant::now() },
            trace: RefCell::new(trace()),
            exchanges: RefCell::default(),
            has_left: Cell::new(false),
        })
    }
}

/// The observation of a call that begins now; `None` if no observer selects it.
#[inline]
pub fn observe<'o>(
    observers: Option<&'o Observers>,
    operation: Operation,
    call: &CallInfo<'_>,
) -> Option<Observation<'o>> {
    observers?.observe(operation, call)
}

/// The caller, for the decision log.
fn caller_text(call: &CallInfo<'_>) -> Option<CallerText> {
    let address = call.address.map(|address| address.to_string());
    let principal = call.principal.name().map(str::to_owned);
    (address.is_some() || principal.is_some())
        .then(|| CallerText { address: address.unwrap_or_default(), principal })
}

/// One observed call.
pub struct Observation<'o> {
    operation: Operation,
    /// The caller, for the decision log.
    caller: Option<CallerText>,
    decision: Option<(&'o DecisionLog, DecisionTargets)>,
    span: Option<(&'o Tracer, ServerSpanContext)>,
    start: CallStart,
    trace: RefCell<DispatchTrace>,
    exchanges: RefCell<Vec<Exchange>>,
    /// Whether the caller left before the answer.
    has_left: Cell<bool>,
}

/// A request and its response.
struct Exchange {
    request: Bytes,
    response: Result<CallAnswer, AnswerFailure>,
    /// Numbers of rules and dispatches in the trace when the response was made.
    trace_end: (usize, usize),
}

impl Observation<'_> {
    /// The trace of the call.
    pub fn trace(&self) -> &RefCell<DispatchTrace> {
        &self.trace
    }

    /// Whether requests and responses are to be [recorded](Self::record).
    pub fn records_payload(&self) -> bool {
        self.decision.is_some()
    }

    /// Records a request of Mixer's API and its response without framing. A call of Envoy that stands for several requests records
    /// each of them; what was traced since the last one belongs to it.
    pub fn record(&self, request: Bytes, response: Result<Bytes, &GrpcError>) {
        let response = response.map(CallAnswer).map_err(|error| AnswerFailure {
            code: error.code as i32,
            name: error.code.name().to_owned(),
            message: error.message.clone(),
        });
        let trace = self.trace.borrow();
        let trace_end = (trace.rules.len(), trace.dispatches.len());
        self.exchanges.borrow_mut().push(Exchange { request, response, trace_end });
    }

    /// Notes that the call ends with this error before its handlers have answered, and which have not. A recording does not have such a
    /// call: what it would have been answered is not known.
    pub fn note_left(&self, error: &GrpcError) {
        self.has_left.set(true);
        let is_refused = !matches!(error.code, Code::Cancelled | Code::Internal);
        let why = if is_refused {
            "the call was refused before it was asked"
        } else {
            "no answer before the caller left"
        };
        self.trace.borrow_mut().note_left(why);
    }

    /// Whether a request is recorded.
    pub fn has_request(&self) -> bool {
        !self.exchanges.borrow().is_empty()
    }

    /// Hands the finished call to the observers.
    pub fn finish(&self, outcome: Result<(), &GrpcError>) {
        let took = self.start.instant.elapsed();
        let mut trace = self.trace.take();
        if let Some((tracer, span)) = self.span {
            tracer.finish(spans_of(span, self.operation, self.start, took, &trace, outcome));
        }
        let wanted = |targets: DecisionTargets| match self.has_left.get() {
            true => targets.without_recording(),
            false => Some(targets),
        };
        let Some((log, wanted)) = self.decision.and_then(|(log, targets)| Some((log, wanted(targets)?)))
        else {
            return;
        };
        let (mut rules, mut dispatches) = (0, 0);
        for Exchange { request, response, trace_end } in self.exchanges.take() {
            let part = DispatchTrace {
                rules: trace.rules.drain(..(trace_end.0 - rules).min(trace.rules.len())).collect(),
                dispatches: trace
                    .dispatches
                    .drain(..(trace_end.1 - dispatches).min(trace.dispatches.len()))
                    .collect(),
                snapshot: trace.snapshot,
                secrets: trace.secrets.clone(),
                made_secrets: trace.made_secrets.clone(),
                decided: trace.decided,
                ..DispatchTrace::default()
            };
            (rules, dispatches) = trace_end;
            let method = self.operation.method;
            let (time, caller) = (self.start.time, self.caller.clone());
            log.push(
                AnsweredCall { method, time, took, caller, body: request, answer: response, trace: part },
                wanted,
            );
        }
    }
}
