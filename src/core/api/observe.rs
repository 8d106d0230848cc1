//! Calls that somebody wants to know more about than their answer.
//!
//! A call is carried out the same way whether it is watched or not; watching it means that a trace is kept, and handed on with the
//! bytes of request and answer when the answer is there. Without observers a call pays for one look at an `Option`.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use http::HeaderMap;

use super::MixerService;
use super::grpc::GrpcError;
use super::mixer::CallInfo;
use super::spans::{Begun, TracedCall, spans_of};
use crate::core::decision::{AnswerFailure, Call, CallAnswer, DecisionLog, Method, Wanted};
use crate::core::dispatch::DispatchTrace;
use crate::core::spans::Tracer;

/// Bytes of prefix before a gRPC message.
const FRAMING: usize = 5;

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

    /// What is wanted of the next call.
    #[inline]
    pub(super) fn begin(&self, method: Method, headers: Option<&HeaderMap>) -> Option<Observation<'_>> {
        let decision = self.decisions.as_ref().and_then(|log| Some((&**log, log.wants(method)?)));
        let span = self.tracer.as_ref().and_then(|tracer| {
            let (context, remote_parent) = tracer.begin(headers?)?;
            Some((&**tracer, TracedCall { context, remote_parent }))
        });
        (decision.is_some() || span.is_some()).then_some(Observation { method, decision, span })
    }
}

/// What is wanted of one call.
pub(super) struct Observation<'o> {
    method: Method,
    decision: Option<(&'o DecisionLog, Wanted)>,
    span: Option<(&'o Tracer, TracedCall)>,
}

impl MixerService {
    /// Carries a call out under observation.
    pub(super) async fn observed(
        &self,
        observation: Observation<'_>,
        body: Bytes,
        call: CallInfo<'_>,
    ) -> Result<Bytes, GrpcError> {
        let (time, started) = (SystemTime::now(), Instant::now());
        let trace = RefCell::new(DispatchTrace::default());
        // A request may be a small part of a large buffer, which must not wait with it.
        let kept = observation.decision.map(|_| (Bytes::copy_from_slice(&body), call.caller_text()));
        let answer = match observation.method {
            Method::Check => self.check_traced(body, call, Some(&trace)).await,
            Method::Report => self.report_traced(body, call, Some(&trace)).await,
        };
        let took = started.elapsed();
        let trace = trace.into_inner();
        if let Some((tracer, call)) = observation.span {
            let begun = Begun { time, instant: started };
            let outcome = answer.as_ref().map(drop);
            tracer.finish(spans_of(call, observation.method, begun, took, &trace, outcome));
        }
        if let (Some((log, wanted)), Some((body, caller))) = (observation.decision, kept) {
            let answer = match &answer {
                Ok(framed) => {
                    Ok(CallAnswer(framed.get(FRAMING..).map_or_else(Bytes::new, Bytes::copy_from_slice)))
                }
                Err(error) => Err(AnswerFailure {
                    code: error.code as i32,
                    name: error.code.name().to_owned(),
                    message: error.message.clone(),
                }),
            };
            log.push(Call { method: observation.method, time, took, caller, body, answer, trace }, wanted);
        }
        answer
    }
}
