//! Calls that somebody wants to know more about than their answer.
//!
//! A call is carried out the same way whether it is watched or not; watching it means that a trace is kept, and handed on with what
//! was asked and answered, in the words of Mixer, when the answer is there. Without observers a call pays for one look at an
//! `Option`.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;

use super::call::{CallInfo, Operation};
use super::grpc::GrpcError;
use super::spans::{Begun, TracedCall, spans_of};
use mixer_engine::decision::{
    AnswerFailure, AnsweredCall, CallAnswer, CallerText, DecisionLog, DecisionTargets,
};
use mixer_engine::dispatch::DispatchTrace;
use mixer_spans::Tracer;

/// Who wants to know about calls.
#[derive(Debug, Default)]
pub struct Observers {
    /// Writes decisions down.
    pub decisions: Option<Arc<DecisionLog>>,
    /// Makes spans of calls.
    pub tracer: Option<Arc<Tracer>>,
}

impl Observers {
    /// `None` if nobody wants to know anything.
    pub fn if_any(self) -> Option<Arc<Self>> {
        (self.decisions.is_some() || self.tracer.is_some()).then(|| Arc::new(self))
    }

    /// Watches the next call, if somebody wants that.
    #[inline]
    pub fn begin(&self, operation: Operation, call: &CallInfo<'_>) -> Option<Watch<'_>> {
        let decision = self.decisions.as_ref().and_then(|log| Some((&**log, log.wants(operation.method)?)));
        let span = self.tracer.as_ref().and_then(|tracer| {
            let (context, remote_parent) = tracer.begin(call.headers?)?;
            Some((&**tracer, TracedCall { context, remote_parent }))
        });
        (decision.is_some() || span.is_some()).then(|| Watch {
            operation,
            caller: decision.and_then(|_| call.caller_text()),
            decision,
            span,
            begun: Begun { time: SystemTime::now(), instant: Instant::now() },
            trace: RefCell::default(),
            told: RefCell::default(),
        })
    }
}

/// A call under observation.
pub struct Watch<'o> {
    operation: Operation,
    /// Who called, for the decision log.
    caller: Option<CallerText>,
    decision: Option<(&'o DecisionLog, DecisionTargets)>,
    span: Option<(&'o Tracer, TracedCall)>,
    begun: Begun,
    trace: RefCell<DispatchTrace>,
    told: RefCell<Vec<Told>>,
}

/// What was asked and answered.
struct Told {
    request: Bytes,
    answer: Result<CallAnswer, AnswerFailure>,
    /// How many rules and dispatches were traced until then.
    traced: (usize, usize),
}

impl Watch<'_> {
    /// Where to write what happens.
    pub fn trace(&self) -> &RefCell<DispatchTrace> {
        &self.trace
    }

    /// What is watched.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Whether somebody wants to read what was asked and answered; if so, it is to be told.
    pub fn wants_words(&self) -> bool {
        self.decision.is_some()
    }

    /// Tells what was asked, as a request of Mixer, and answered, as its response without framing. Several times if a call asks for
    /// several things; what was traced since the last time belongs to it.
    pub fn tell(&self, request: Bytes, answer: Result<Bytes, &GrpcError>) {
        let answer = answer.map(CallAnswer).map_err(|error| AnswerFailure {
            code: error.code as i32,
            name: error.code.name().to_owned(),
            message: error.message.clone(),
        });
        let trace = self.trace.borrow();
        let traced = (trace.rules.len(), trace.dispatches.len());
        self.told.borrow_mut().push(Told { request, answer, traced });
    }

    /// The call is over.
    pub fn end(self, outcome: Result<(), &GrpcError>) {
        let took = self.begun.instant.elapsed();
        let mut trace = self.trace.into_inner();
        if let Some((tracer, call)) = self.span {
            tracer.finish(spans_of(call, self.operation, self.begun, took, &trace, outcome));
        }
        let Some((log, wanted)) = self.decision else { return };
        let (mut rules, mut dispatches) = (0, 0);
        for Told { request, answer, traced } in self.told.into_inner() {
            let part = DispatchTrace {
                rules: trace.rules.drain(..(traced.0 - rules).min(trace.rules.len())).collect(),
                dispatches: trace
                    .dispatches
                    .drain(..(traced.1 - dispatches).min(trace.dispatches.len()))
                    .collect(),
                snapshot: trace.snapshot,
                decided: trace.decided,
                ..DispatchTrace::default()
            };
            (rules, dispatches) = traced;
            let method = self.operation.method;
            let (time, caller) = (self.begun.time, self.caller.clone());
            log.push(AnsweredCall { method, time, took, caller, body: request, answer, trace: part }, wanted);
        }
    }
}
