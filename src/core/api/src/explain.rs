//! Explains a check: which rules matched, what their handlers answered, and why.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::call::CallInfo;
use super::check;
use super::grpc::{Code, EMPTY_MESSAGE, GrpcError, finish_message};
use super::principal::set_principal;
use super::worker::{CallScope, WorkerContext};
use mixer_attribute::AttributeBag;
use mixer_attribute::request::CheckRequest;
use mixer_base::metrics::Metrics;
use mixer_engine::dispatch::{self, DispatchTrace, Protocol};
use mixer_engine::explain::{
    Decision, FailureCause, PAGE_HEADER, QuotaExplanation, QuotaExplanations, envoy_call_that_fails, explain,
    explain_quotas, referenced,
};

/// `mixer.introspect.v1.ExplainResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExplainResponse {
    /// JSON of an [`Explanation`](mixer_engine::explain::Explanation), or of [`QuotaExplanations`].
    #[prost(string, tag = "1")]
    pub json: String,
}

/// How long the handlers of one explanation may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The page of rules that the call asks for, from 0.
fn page(call: &CallInfo<'_>) -> usize {
    let asked =
        call.headers.and_then(|headers| headers.get(PAGE_HEADER)?.to_str().ok()?.parse::<usize>().ok());
    asked.map_or(0, |page| page.saturating_sub(1))
}

/// Answers a CheckRequest with an [`ExplainResponse`].
pub(super) async fn respond(
    worker: &WorkerContext,
    body: &[u8],
    call: &CallInfo<'_>,
) -> Result<Bytes, GrpcError> {
    // Explanations count nothing.
    let (trace, unread) = (RefCell::new(DispatchTrace::full()), Metrics::new());
    let mut scope = worker.begin(Some(Instant::now() + LIMIT), Some(&trace))?;
    scope.context.metrics = &unread;
    let (routes, context) = (&scope.published.routes, &scope.context);
    let request = check::decode(body, worker.engine.limits, &scope.arena)?;
    let bag = preprocessed(worker, &scope, &request, call).await?;
    let protocol = Protocol::of_mixer(worker.engine.as_istio_mixer);
    let outcome = dispatch::check(routes, &bag, context, protocol).await;
    let (passed, allowed) =
        outcome.as_ref().map_or_else(|_| Default::default(), |o| (o.status.code == 0, o.allowed));
    let decision = match outcome {
        Ok(outcome) => Decision {
            code: outcome.status.code,
            message: outcome.status.message,
            failed: false,
            cause: None,
            refused_by: outcome.refused_by.map(|refuser| refuser.rule().key.to_string()),
        },
        Err(error) => Decision {
            code: Code::Internal as i32,
            message: check::failure(&error).message,
            failed: true,
            cause: Some(FailureCause::of(&error)),
            refused_by: None,
        },
    };
    let decided_by = referenced(&bag);
    if routes.has_dry_run() {
        dispatch::dry_run_check(routes, &bag, std::iter::empty(), passed, allowed, context).await;
    }
    let mut explanation = explain(&scope.published, &bag, decision, &trace.borrow(), decided_by, page(call));
    explanation.quotas = quotas_of(&scope, &request, &bag);
    framed(serde_json::to_string(&explanation))
}

/// Answers a CheckRequest with an [`ExplainResponse`] that tells who allocates its quotas: only attribute generators are called, and nothing
/// is allocated.
pub(super) async fn respond_quotas(
    worker: &WorkerContext,
    body: &[u8],
    call: &CallInfo<'_>,
) -> Result<Bytes, GrpcError> {
    // Explanations count nothing.
    let (trace, unread) = (RefCell::new(DispatchTrace::full()), Metrics::new());
    let mut scope = worker.begin(Some(Instant::now() + LIMIT), Some(&trace))?;
    scope.context.metrics = &unread;
    let request = check::decode(body, worker.engine.limits, &scope.arena)?;
    let bag = preprocessed(worker, &scope, &request, call).await?;
    let snapshot = scope.published.routes.snapshot().id.0;
    let quotas = quotas_of(&scope, &request, &bag);
    framed(serde_json::to_string(&QuotaExplanations { snapshot, quotas }))
}

/// The attributes of a request, with those that are generated.
async fn preprocessed<'a>(
    worker: &WorkerContext,
    scope: &'a CallScope<'_>,
    request: &CheckRequest<'a>,
    call: &CallInfo<'_>,
) -> Result<AttributeBag<'a>, GrpcError> {
    let routes = &scope.published.routes;
    let mut bag = AttributeBag::new(&request.attributes, None, &routes.snapshot().vocabulary, &scope.arena);
    set_principal(worker.principal(call), &scope.published, &mut bag);
    if worker.engine.as_istio_mixer {
        bag.set_search_limit(AttributeBag::ISTIO_MIXER_SEARCH_LIMIT);
    }
    let generated = dispatch::preprocess(routes, &mut bag, &scope.context).await;
    generated.map_err(|error| {
        let of_envoy = envoy_call_that_fails(routes.snapshot(), FailureCause::of(&error));
        let of_envoy = of_envoy.map_or_else(String::new, |gets| format!("; {gets}"));
        GrpcError::internal(format_args!("preprocessing attributes failed: {error}{of_envoy}"))
    })?;
    Ok(bag)
}

fn quotas_of<'a>(
    scope: &'a CallScope<'_>,
    request: &CheckRequest<'a>,
    bag: &AttributeBag<'a>,
) -> Vec<QuotaExplanation> {
    explain_quotas(&scope.published, bag, request.quotas.iter().map(|quota| quota.name))
}

fn framed(json: serde_json::Result<String>) -> Result<Bytes, GrpcError> {
    let json = json.map_err(GrpcError::internal)?;
    let mut out = Vec::with_capacity(json.len() + 16);
    out.extend_from_slice(&EMPTY_MESSAGE);
    // Encoding into a Vec cannot fail.
    let _ = prost::Message::encode(&ExplainResponse { json }, &mut out);
    finish_message(&mut out);
    Ok(out.into())
}
