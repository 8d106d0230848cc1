//! `istio.mixer.v1.Mixer`, with the observers of its calls.

use std::sync::Arc;

use bytes::Bytes;

use super::call::{CallInfo, Operation};
use super::grpc::{GrpcError, MAX_REUSED, unframed};
use super::left::IfLeft;
use super::observers::{self, Observation};
use super::worker::{Engine, MessageLimits, WorkerContext};
use super::{check, explain, report};
use crate::load_shedding::LoadShedder;
use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_base::metrics::Metrics;
use mixer_engine::dispatch::{LastKnownAnswers, Trace};
use mixer_engine::runtime::Runtime;

/// Answers Check and Report. Each worker has its own, so that it reuses memory without locks.
pub struct MixerService {
    pub(crate) worker: WorkerContext,
}

impl MixerService {
    /// A service over `runtime`, without observers.
    pub fn new(
        runtime: Arc<Runtime>,
        metrics: Arc<Metrics>,
        last_known: Arc<LastKnownAnswers>,
        shedder: Option<Arc<LoadShedder>>,
    ) -> Self {
        let limits = MessageLimits::default();
        let waiting = Arc::clone(MemoryBudget::default().share(Purpose::WaitingCalls));
        let (observers, as_istio_mixer) = (None, false);
        Self::over(Engine {
            runtime,
            metrics,
            last_known,
            shedder,
            observers,
            limits,
            waiting,
            as_istio_mixer,
        })
    }

    /// A service over an engine.
    pub fn over(engine: Engine) -> Self {
        Self { worker: WorkerContext::new(engine) }
    }

    /// Answers a CheckRequest with a framed CheckResponse.
    ///
    /// Errors: UNAVAILABLE under overload, INTERNAL for a request that cannot be decoded or evaluated. A denial is a response, not an
    /// error. Codes and texts are those of Istio Mixer 1.3.
    pub async fn check(&self, body: Bytes, call: impl Into<CallInfo<'_>>) -> Result<Bytes, GrpcError> {
        let call = call.into();
        let Some(observation) = self.observe(Operation::CHECK, &call) else {
            return check::respond(&self.worker, &body, &call, None).await;
        };
        // Boxed, so that the future of an unobserved call stays small.
        Box::pin(async {
            let left = IfLeft::new(|error| {
                observation.note_left(&error);
                complete(&observation, &body, &Err(error));
            });
            let response = check::respond(&self.worker, &body, &call, Some(observation.trace())).await;
            left.end();
            complete(&observation, &body, &response);
            response
        })
        .await
    }

    /// As [`check`](Self::check), recorded in `trace` instead of by the observers.
    pub async fn check_traced(
        &self,
        body: Bytes,
        call: CallInfo<'_>,
        trace: Trace<'_>,
    ) -> Result<Bytes, GrpcError> {
        check::respond(&self.worker, &body, &call, trace).await
    }

    /// Answers a ReportRequest with a framed, empty ReportResponse.
    ///
    /// Errors: UNAVAILABLE under overload, INTERNAL for a request that cannot be decoded, UNKNOWN with the list of everything that
    /// could not be reported; the other records were reported. Codes and texts are those of Istio Mixer 1.3.
    pub async fn report(&self, body: Bytes, call: impl Into<CallInfo<'_>>) -> Result<Bytes, GrpcError> {
        let call = call.into();
        let Some(observation) = self.observe(Operation::REPORT, &call) else {
            return report::respond(&self.worker, &body, &call, None).await;
        };
        Box::pin(async {
            let left = IfLeft::new(|error| {
                observation.note_left(&error);
                complete(&observation, &body, &Err(error));
            });
            let response = report::respond(&self.worker, &body, &call, Some(observation.trace())).await;
            left.end();
            complete(&observation, &body, &response);
            response
        })
        .await
    }

    /// As [`report`](Self::report), recorded in `trace` instead of by the observers.
    pub async fn report_traced(
        &self,
        body: Bytes,
        call: CallInfo<'_>,
        trace: Trace<'_>,
    ) -> Result<Bytes, GrpcError> {
        report::respond(&self.worker, &body, &call, trace).await
    }

    /// Evaluates a CheckRequest and answers with a framed [`ExplainResponse`](super::ExplainResponse) instead of a CheckResponse.
    /// The header `x-mixer-explain-page` asks for another page of rules than the first. Bypasses load shedding, the check cache and quotas, and ignores the deadline of the call.
    ///
    /// Errors: as [`check`](Self::check), except that a check whose evaluation fails is explained.
    pub async fn explain(&self, body: Bytes, call: CallInfo<'_>) -> Result<Bytes, GrpcError> {
        explain::respond(&self.worker, &body, &call).await
    }

    /// As [`explain`](Self::explain), and tells only which rules allocate the quotas of the request.
    pub async fn explain_quotas(&self, body: Bytes, call: CallInfo<'_>) -> Result<Bytes, GrpcError> {
        explain::respond_quotas(&self.worker, &body, &call).await
    }

    fn observe(&self, operation: Operation, call: &CallInfo<'_>) -> Option<Observation<'_>> {
        observers::observe(self.worker.engine.observers.as_deref(), operation, call)
    }
}

fn complete(observation: &Observation<'_>, request: &Bytes, response: &Result<Bytes, GrpcError>) {
    if observation.records_payload() {
        // Copied, because a message may be a small part of a large buffer, which must not live as long as the record. A long one
        // has memory of its own, and copying it takes as long as a turn.
        let own = |message: &Bytes| match message.len() > MAX_REUSED {
            true => message.clone(),
            false => Bytes::copy_from_slice(message),
        };
        let message = |framed: &Bytes| Bytes::copy_from_slice(unframed(framed));
        observation.record(own(request), response.as_ref().map(message));
    }
    observation.finish(response.as_ref().map(drop));
}
