//! A check, phase by phase: admit, decode, look up in the check cache, and otherwise decide with the [`pipeline`] and encode.

use bumpalo::Bump;
use bytes::Bytes;

use super::call::CallInfo;
use super::grpc::{Code, EMPTY_MESSAGE, GrpcError, finish_message};
use super::pipeline::{self, PhaseError};
use super::principal::set_principal;
use super::response::{ResponseBuilder, Ungranted};
use super::waiting;
use super::worker::{CallScope, MessageLimits, WorkerContext};
use crate::load_shedding::{self, Demand};
use mixer_attribute::request::{CheckRequest, QuotaParams, check_global_word_count};
use mixer_attribute::{AttributeBag, SignedDuration};
use mixer_engine::adapter::Status;
use mixer_engine::check_cache::{CachedAnswer as _, CheckAnswer, CheckCache, Miss};
use mixer_engine::denials::{DeniedBy, Refusal};
use mixer_engine::dispatch::{DispatchContext, DispatchError, Protocol, QuotaRequest, Trace};
use mixer_engine::runtime::Published;
use mixer_engine::secret_values::SecretValues;

/// Answers a CheckRequest.
pub(super) async fn respond(
    worker: &WorkerContext,
    body: &[u8],
    call: &CallInfo<'_>,
    trace: Trace<'_>,
) -> Result<Bytes, GrpcError> {
    let demand = Demand { cost: 1, is_report: false, caller: call.caller };
    load_shedding::admit(worker.engine.shedder.as_deref(), demand)
        .map_err(|message| GrpcError::refused(Code::Unavailable, message))?;
    let scope = worker.begin(call.deadline, trace)?;
    let published: &Published = &scope.published;
    let request = decode(body, worker.engine.limits, &scope.arena)?;
    let vocabulary = &published.routes.snapshot().vocabulary;
    let mut bag = AttributeBag::new(&request.attributes, None, vocabulary, &scope.arena);
    if worker.engine.as_istio_mixer {
        bag.set_search_limit(AttributeBag::ISTIO_MIXER_SEARCH_LIMIT);
    }
    // Cached answers are shared by all callers.
    let depends_on_caller = set_principal(worker.principal(call), published, &mut bag);
    let cache = published.cache.as_deref().filter(|_| !depends_on_caller);
    let cache = match looked_up(cache, published, body, &request, (&bag, trace)) {
        Ok(framed) => return Ok(framed),
        Err(missed) => missed,
    };
    // Boxed, so that the future of a cache hit stays small.
    Box::pin(decide_counted(worker, &scope, body, &request, bag, cache)).await
}

/// Decides a check that is not cached; while it waits for handlers, its memory counts.
async fn decide_counted<'a>(
    worker: &WorkerContext,
    scope: &'a CallScope<'_>,
    body: &[u8],
    request: &CheckRequest<'a>,
    bag: AttributeBag<'a>,
    cache: Option<(&CheckCache<CheckAnswer>, Miss)>,
) -> Result<Bytes, GrpcError> {
    let protocol = Protocol::of_mixer(worker.engine.as_istio_mixer);
    let decided = decide(&scope.published, body, request, bag, cache, (&scope.context, protocol));
    let decided = std::pin::pin!(decided);
    waiting::counted(&worker.engine.waiting, &scope.arena, Code::Unavailable, decided).await?
}

/// Decodes a CheckRequest. Errors: INTERNAL for bytes that are no CheckRequest, and for an impossible number of global words;
/// INVALID_ARGUMENT for too many quotas.
pub(super) fn decode<'a>(
    body: &'a [u8],
    limits: MessageLimits,
    arena: &'a Bump,
) -> Result<CheckRequest<'a>, GrpcError> {
    let request = CheckRequest::decode_bounded(body, limits.quotas, arena).map_err(GrpcError::of_request)?;
    check_global_word_count(request.global_word_count)
        .map_err(|error| GrpcError::invalid(Code::Internal, error.to_string()))?;
    Ok(request)
}

/// The response from the check cache, if there is a cache. Errors: where to store what is decided.
fn looked_up<'c>(
    cache: Option<&'c CheckCache<CheckAnswer>>,
    published: &Published,
    body: &[u8],
    request: &CheckRequest<'_>,
    call: (&AttributeBag<'_>, Trace<'_>),
) -> Result<Bytes, Option<(&'c CheckCache<CheckAnswer>, Miss)>> {
    let Some(cache) = cache else { return Err(None) };
    cached_response(cache, published, body, request, call).map_err(|miss| Some((cache, miss)))
}

/// The response from the check cache. Errors: it has none.
fn cached_response(
    cache: &CheckCache<CheckAnswer>,
    published: &Published,
    body: &[u8],
    request: &CheckRequest<'_>,
    (bag, trace): (&AttributeBag<'_>, Trace<'_>),
) -> Result<Bytes, Miss> {
    cache.find(bag, request.global_word_count, |answer, remaining| {
        // Every check that passes allocates its quotas.
        if answer.status_code == 0 && !request.quotas.is_empty() {
            return None;
        }
        let is_refused = answer.status_code != 0;
        if let Some(trace) = trace {
            let refuser = answer.refused_by.as_ref().filter(|_| is_refused);
            trace.borrow_mut().answered_from_cache(refuser, answer.made_secrets.as_ref());
        }
        if is_refused {
            // This request is not the one that the generators made them for.
            let message = SecretValues::masked(answer.made_secrets.as_deref(), &answer.status_message);
            let refusal = Refusal {
                code: answer.status_code,
                message: &message,
                by: DeniedBy::rule(answer.refused_by.as_ref()),
                cached: true,
            };
            published.denials.record(refusal, published.routes.snapshot(), bag, || body);
        }
        let mut out = Vec::with_capacity(answer.size() + 64);
        out.extend_from_slice(&EMPTY_MESSAGE);
        answer.push(SignedDuration::from_std(remaining), &mut out);
        finish_message(&mut out);
        Some(Bytes::from(out))
    })
}

/// Decides a check that is not cached.
async fn decide<'a>(
    published: &'a Published,
    body: &[u8],
    request: &CheckRequest<'a>,
    mut bag: AttributeBag<'a>,
    cache: Option<(&CheckCache<CheckAnswer>, Miss)>,
    (context, protocol): (&DispatchContext<'_>, Protocol),
) -> Result<Bytes, GrpcError> {
    let quotas = request.quotas.iter().map(|params| quota_request(request, params, protocol));
    let cache = cache.map(|(cache, miss)| (cache, request.global_word_count, miss));
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(&EMPTY_MESSAGE);
    let global_word_count = request.global_word_count;
    let status = Status::default();
    let (refused_by, ungranted) = (None, Ungranted::default());
    let secrets = &*published.routes.snapshot().secrets;
    let mut response =
        ResponseBuilder { global_word_count, status, refused_by, ungranted, out, protocol, secrets };
    pipeline::decide(published, &mut bag, cache, quotas, &mut response, context).await.map_err(|error| {
        match error {
            PhaseError::Preprocess(error) => {
                GrpcError::internal(format_args!("preprocessing attributes failed: {error}"))
            }
            PhaseError::Check(error) => failure(&error),
        }
    })?;
    let ResponseBuilder { status, refused_by, ungranted, mut out, .. } = response;
    if status.code != 0 {
        let by = DeniedBy::rule(refused_by.as_ref());
        let refusal = Refusal { code: status.code, message: &status.message, by, cached: false };
        published.denials.record(refusal, published.routes.snapshot(), &bag, || body);
    } else if let Some((names, message)) = ungranted.refusal() {
        // Proxies refuse the request, as Envoy does whose limit is reached.
        let by = DeniedBy::Quota(&names);
        let refusal = Refusal { code: Code::ResourceExhausted as i32, message: &message, by, cached: false };
        published.denials.record(refusal, published.routes.snapshot(), &bag, || body);
    }
    finish_message(&mut out);
    Ok(out.into())
}

/// The answer of a check that failed.
pub(super) fn failure(error: &DispatchError) -> GrpcError {
    GrpcError::internal(format_args!("performing check operation failed: {error}"))
}

fn quota_request<'r>(
    request: &CheckRequest<'r>,
    params: &QuotaParams<'r>,
    protocol: Protocol,
) -> QuotaRequest<'r> {
    QuotaRequest {
        is_partial: false,
        name: params.name,
        amount: params.amount,
        best_effort: params.best_effort,
        deduplication_id: request.deduplication_id,
        level: false,
        protocol,
    }
}
