//! Evaluates calls on a snapshot without a server.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;

use super::ManualClock;
use super::suite::Stubs;
use mixer_api::grpc::{GrpcError, unframed};
use mixer_api::principal::CallerPrincipal;
use mixer_api::{CallInfo, MixerService};
use mixer_attribute::OwnedAttributes;
use mixer_attribute::request::{
    CheckCall, ReportWords, Semantics, encode_check_request, encode_report_request,
};
use mixer_base::metrics::Metrics;
use mixer_config::{Diagnostic, Severity};
use mixer_engine::adapter::{Clock, Commons};
use mixer_engine::decision::{AnswerFailure, Decision, Method};
use mixer_engine::dispatch::DispatchTrace;
use mixer_engine::explain::WithoutNamespace;
use mixer_engine::handler::{HandlerEnvironment, HandlerTable, retire};
use mixer_engine::routing::RoutingTable;
use mixer_engine::runtime::Runtime;
use mixer_engine::snapshot::Snapshot;
use mixer_wire::istio::mixer::v1::CheckResponse;

/// Time limit for building one handler.
const BUILD_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for closing the handlers.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Handlers of the configuration cannot be built.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{} handlers cannot be built", problems.len())]
pub struct OfflineError {
    /// One error per handler.
    pub problems: Vec<Diagnostic>,
}

/// Evaluates calls on one snapshot in this process. Report handlers deliver nothing; check and quota handlers are the real ones
/// unless they are stubbed, and use a manual clock.
pub struct Offline {
    service: MixerService,
    runtime: Arc<Runtime>,
    /// The clock of the handlers.
    pub(crate) clock: Arc<ManualClock>,
}

impl std::fmt::Debug for Offline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offline").finish_non_exhaustive()
    }
}

impl Offline {
    /// Builds the handlers of a snapshot. Requires a tokio runtime.
    ///
    /// Errors: handlers that cannot be built, unless they are stubbed.
    pub async fn start(
        snapshot: &Arc<Snapshot>,
        clock: ManualClock,
        stubs: &Stubs,
    ) -> Result<Offline, OfflineError> {
        mixer_net::tls::install_crypto_provider();
        let clock = Arc::new(clock);
        let metrics = Arc::new(Metrics::new());
        let handler_clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let environment = HandlerEnvironment {
            clock: handler_clock,
            runtime: tokio::runtime::Handle::current(),
            metrics_port: 0,
            metrics: Arc::clone(&metrics),
            commons: Arc::new(Commons::default()),
            build_timeout: BUILD_TIMEOUT,
        };
        let (handlers, problems) =
            HandlerTable::build_offline(snapshot, &environment, &|name| stubs.handler(name)).await;
        let problems: Vec<Diagnostic> =
            problems.into_iter().filter(|problem| problem.severity == Severity::Error).collect();
        let routes = RoutingTable::build(Arc::clone(snapshot), handlers, &metrics);
        let runtime = Arc::new(Runtime::on(routes));
        let service = MixerService::new(Arc::clone(&runtime), metrics, Arc::default(), None);
        let offline = Offline { service, runtime, clock };
        if problems.is_empty() {
            return Ok(offline);
        }
        offline.close().await;
        Err(OfflineError { problems })
    }

    /// Sends a check. `principal` is what is known of the caller. `full` adds the
    /// values of instances, and waits for the results of rules in dry run.
    pub(crate) async fn check(
        &self,
        attributes: &OwnedAttributes,
        call: &CheckCall<'_>,
        principal: CallerPrincipal<'_>,
        full: bool,
    ) -> Decision {
        let body = encode_check_request(attributes, 0, call);
        let trace = RefCell::new(DispatchTrace { full, ..DispatchTrace::default() });
        let info = CallInfo { principal, ..CallInfo::default() };
        let answer = self.service.check_traced(body.into(), info, Some(&trace)).await;
        let mut decision = Decision { method: Method::Check, ..Decision::default() };
        match answer.and_then(|framed| decode(&framed)) {
            Ok(response) => decision.answer = Some((&response).into()),
            Err(error) => decision.error = Some(failure(&error)),
        }
        decision.read_trace(&trace.into_inner());
        decision
    }

    /// Sends a report. `principal` is that of [`check`](Self::check).
    pub(crate) async fn report(
        &self,
        records: &[OwnedAttributes],
        principal: CallerPrincipal<'_>,
    ) -> Decision {
        let body = encode_report_request(records, 0, ReportWords::Own, Semantics::Independent);
        let trace = RefCell::new(DispatchTrace::full());
        let info = CallInfo { principal, ..CallInfo::default() };
        let answer = self.service.report_traced(body.into(), info, Some(&trace)).await;
        let mut decision = Decision { method: Method::Report, ..Decision::default() };
        decision.error = answer.err().map(|error| failure(&error));
        decision.read_trace(&trace.into_inner());
        decision
    }

    /// What a check of Envoy without a namespace gets.
    pub(crate) fn without_namespace(&self) -> Option<WithoutNamespace> {
        WithoutNamespace::of(&self.runtime.load().routes)
    }

    /// Closes the handlers.
    pub(crate) async fn close(self) {
        let Offline { service, runtime, .. } = self;
        let handlers = runtime.load_full().routes.handlers().iter().cloned().collect();
        drop((service, runtime));
        // A handler that does not close in time is abandoned: the process ends soon.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, retire(handlers, CLOSE_TIMEOUT)).await;
    }
}

fn decode(framed: &Bytes) -> Result<CheckResponse, GrpcError> {
    CheckResponse::decode(unframed(framed))
        .map_err(|error| GrpcError::new(mixer_api::grpc::Code::Internal, error.to_string()))
}

fn failure(error: &GrpcError) -> AnswerFailure {
    AnswerFailure {
        code: error.code as i32,
        name: error.code.name().to_owned(),
        message: error.message.clone(),
    }
}
