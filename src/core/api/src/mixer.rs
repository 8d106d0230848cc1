//! `istio.mixer.v1.Mixer`: from the bytes of a request to the bytes of its response.

use std::cell::RefCell;
use std::sync::Arc;

use bumpalo::Bump;
use bytes::Bytes;

use super::call::{CallInfo, Operation};
use super::grpc::{Code, GrpcError, begin_message, finish_message, unframed};
use super::observe::Watch;
use super::worker::{Engine, WorkerContext, next_record, note_snapshot, preprocess, report_record};
use crate::load_shedding::{Demand, LoadShedder};
use mixer_attribute::request::{CheckRequest, QuotaParams, ReportRequest, check_global_word_count};
use mixer_attribute::response::{
    HeaderAction, HeaderOperation, Precondition, QuotaGrant, RouteDirective, push_precondition, push_quota,
};
use mixer_attribute::{AttributeBag, ReportRecords, SignedDuration};
use mixer_base::metrics::Metrics;
use mixer_engine::adapter::join_errors;
use mixer_engine::check_cache::{CachedAnswer as _, CheckAnswer, CheckCache};
use mixer_engine::decision::Method;
use mixer_engine::dispatch::{
    self, CheckOutcome, DispatchContext, DispatchTrace, LastKnownAnswers, QuotaRequest, ReportCollector,
    Trace, TracedPhase, trace_started, trace_step,
};
use mixer_engine::explain::{Explanation, explain, referenced};
use mixer_engine::runtime::{Published, Runtime};
use mixer_engine::snapshot::HeaderOperationKind;

/// Answers Check and Report. One a worker: it keeps memory for reuse without locks.
pub struct MixerService {
    worker: WorkerContext,
}

impl MixerService {
    /// A service over `runtime`, without observers.
    pub fn new(
        runtime: Arc<Runtime>,
        metrics: Arc<Metrics>,
        last_known: Arc<LastKnownAnswers>,
        shedder: Option<Arc<LoadShedder>>,
    ) -> Self {
        Self::over(Engine { runtime, metrics, last_known, shedder, observers: None })
    }

    /// A service over an engine.
    pub fn over(engine: Engine) -> Self {
        Self { worker: WorkerContext::new(engine) }
    }

    /// Answers a CheckRequest with a framed CheckResponse.
    ///
    /// Errors: UNAVAILABLE under overload, INTERNAL for a request that cannot be read or carried out; never a refusal, which is a
    /// response. Spec: runtime.md 11.3.
    pub async fn check(&self, body: Bytes, call: impl Into<CallInfo<'_>>) -> Result<Bytes, GrpcError> {
        let call = call.into();
        match self.worker.watch(Operation::CHECK, &call) {
            None => self.check_traced(body, call, None).await,
            Some(watch) => Box::pin(self.watched(watch, body, call)).await,
        }
    }

    /// As [`check`](Self::check), writing what happens into `trace`.
    pub async fn check_traced(
        &self,
        body: Bytes,
        call: CallInfo<'_>,
        trace: Trace<'_>,
    ) -> Result<Bytes, GrpcError> {
        self.admit(Demand { cost: 1, is_report: false, caller: call.caller })?;
        let arena = self.worker.arena();
        let published = self.worker.engine.runtime.load();
        note_snapshot(trace, &published);
        let context = self.worker.context(call.deadline, trace);
        let answer = answer_check(&published, &body, &arena, &context, &call).await;
        self.worker.give_back(arena);
        answer
    }

    /// Answers a ReportRequest with a framed, empty ReportResponse.
    ///
    /// Errors: UNAVAILABLE under overload, INTERNAL for a request that cannot be read, UNKNOWN with the list of everything that could
    /// not be reported; the rest was. Spec: runtime.md 11.4.
    pub async fn report(&self, body: Bytes, call: impl Into<CallInfo<'_>>) -> Result<Bytes, GrpcError> {
        let call = call.into();
        match self.worker.watch(Operation::REPORT, &call) {
            None => self.report_traced(body, call, None).await,
            Some(watch) => Box::pin(self.watched(watch, body, call)).await,
        }
    }

    /// As [`report`](Self::report), writing what happens into `trace`.
    pub async fn report_traced(
        &self,
        body: Bytes,
        call: CallInfo<'_>,
        trace: Trace<'_>,
    ) -> Result<Bytes, GrpcError> {
        let arena = self.worker.arena();
        let published = self.worker.engine.runtime.load();
        note_snapshot(trace, &published);
        let context = self.worker.context(call.deadline, trace);
        let answer = match ReportRequest::decode(&body, &arena) {
            Err(error) => Err(undecodable(error)),
            Ok(request) => {
                match self.admit(Demand { cost: request.records.len(), is_report: true, caller: call.caller })
                {
                    Err(error) => Err(error),
                    Ok(()) => Box::pin(answer_report(&published, &request, &arena, &context, &call)).await,
                }
            }
        };
        self.worker.give_back(arena);
        answer.map(|()| {
            let mut out = Vec::new();
            begin_message(&mut out);
            out.into()
        })
    }

    /// Carries a CheckRequest out and answers, instead of the response, with a framed message whose field 1 is the JSON of its
    /// [`Explanation`]. No load shedding, no cache, no quotas.
    ///
    /// Errors: as [`check`](Self::check), except that a check that cannot be carried out is explained.
    pub async fn explain(&self, body: Bytes) -> Result<Bytes, GrpcError> {
        let arena = self.worker.arena();
        let published = self.worker.engine.runtime.load();
        let trace = RefCell::new(DispatchTrace::full());
        let context = self.worker.context(None, Some(&trace));
        let explanation = explain_check(&published, &body, &arena, &context, &trace).await;
        self.worker.give_back(arena);
        let json = serde_json::to_string(&explanation?).map_err(internal)?;
        let mut out = Vec::with_capacity(json.len() + 16);
        begin_message(&mut out);
        // Encoding into a Vec cannot fail.
        let _ = prost::Message::encode(&ExplainResponse { json }, &mut out);
        finish_message(&mut out);
        Ok(out.into())
    }

    /// Carries a call out under observation.
    async fn watched(&self, watch: Watch<'_>, body: Bytes, call: CallInfo<'_>) -> Result<Bytes, GrpcError> {
        // A request may be a small part of a large buffer, which must not wait with it.
        let kept = watch.wants_words().then(|| Bytes::copy_from_slice(&body));
        let answer = match watch.operation().method {
            Method::Report => self.report_traced(body, call, Some(watch.trace())).await,
            _ => self.check_traced(body, call, Some(watch.trace())).await,
        };
        if let Some(kept) = kept {
            let message = |framed: &Bytes| Bytes::copy_from_slice(unframed(framed));
            watch.tell(kept, answer.as_ref().map(message));
        }
        watch.end(answer.as_ref().map(drop));
        answer
    }

    fn admit(&self, demand: Demand) -> Result<(), GrpcError> {
        self.worker.admit(demand).map_err(|told| GrpcError::new(Code::Unavailable, told))
    }
}

/// `mixer.introspect.v1.ExplainResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExplainResponse {
    /// JSON of an [`Explanation`].
    #[prost(string, tag = "1")]
    pub json: String,
}

async fn explain_check(
    published: &Published,
    body: &[u8],
    arena: &Bump,
    context: &DispatchContext<'_>,
    trace: &RefCell<DispatchTrace>,
) -> Result<Explanation, GrpcError> {
    let request = read_check(body, arena)?;
    let routes = &published.routes;
    let mut bag = AttributeBag::new(&request.attributes, None, &routes.snapshot().vocabulary, arena);
    dispatch::preprocess(routes, &mut bag, context)
        .await
        .map_err(|e| internal(format_args!("preprocessing attributes failed: {e}")))?;
    // A failure is part of the explanation: the trace says whose it is.
    let passed = dispatch::check(routes, &bag, context).await.is_ok_and(|outcome| outcome.status.code == 0);
    let decided_by = referenced(&bag);
    if routes.has_dry_run() {
        dispatch::dry_run_check(routes, &bag, std::iter::empty(), passed, context).await;
    }
    Ok(explain(routes, &bag, &trace.borrow(), decided_by))
}

pub fn undecodable(error: impl std::fmt::Display) -> GrpcError {
    GrpcError::new(Code::Internal, format!("grpc: error unmarshalling request: {error}"))
}

fn internal(error: impl std::fmt::Display) -> GrpcError {
    GrpcError::new(Code::Internal, error.to_string())
}

/// Answers from the cache where it can.
async fn answer_check(
    published: &Published,
    body: &[u8],
    arena: &Bump,
    context: &DispatchContext<'_>,
    call: &CallInfo<'_>,
) -> Result<Bytes, GrpcError> {
    // Answers in the cache are for whoever asks.
    let Some(cache) = published.cache.as_ref().filter(|_| !call.decides(published)) else {
        return Box::pin(decide(published, body, arena, context, call)).await;
    };
    let request = read_check(body, arena)?;
    let bag = AttributeBag::new(&request.attributes, None, &published.routes.snapshot().vocabulary, arena);
    let found = cache.find(&bag, request.global_word_count, |answer, left| {
        // Quotas are asked for anew, after a check that passes.
        (request.quotas.is_empty() || answer.status_code != 0).then(|| {
            if answer.status_code != 0 {
                let status = (answer.status_code, answer.status_message.as_str());
                published.denials.record(status.0, status.1, published.id().0, true, || body);
            }
            let mut out = Vec::with_capacity(answer.size() + 64);
            begin_message(&mut out);
            answer.push(SignedDuration::from_std(left), &mut out);
            finish_message(&mut out);
            Bytes::from(out)
        })
    });
    if let Some(Some(framed)) = found {
        return Ok(framed);
    }
    // Boxed, so that a call that is answered from the cache stays small.
    Box::pin(decide_over(published, body, &request, bag, Some(cache), context)).await
}

/// Decides without the cache.
async fn decide(
    published: &Published,
    body: &[u8],
    arena: &Bump,
    context: &DispatchContext<'_>,
    call: &CallInfo<'_>,
) -> Result<Bytes, GrpcError> {
    let request = read_check(body, arena)?;
    let mut bag =
        AttributeBag::new(&request.attributes, None, &published.routes.snapshot().vocabulary, arena);
    call.identify(published, &mut bag);
    decide_over(published, body, &request, bag, None, context).await
}

fn read_check<'a>(body: &'a [u8], arena: &'a Bump) -> Result<CheckRequest<'a>, GrpcError> {
    let request = CheckRequest::decode(body, arena).map_err(undecodable)?;
    check_global_word_count(request.global_word_count).map_err(internal)?;
    Ok(request)
}

async fn decide_over<'a>(
    published: &'a Published,
    body: &[u8],
    request: &CheckRequest<'a>,
    mut bag: AttributeBag<'a>,
    cache: Option<&CheckCache<CheckAnswer>>,
    context: &DispatchContext<'_>,
) -> Result<Bytes, GrpcError> {
    let routes = &published.routes;
    preprocess(published, &mut bag, context)
        .await
        .map_err(|e| internal(format_args!("preprocessing attributes failed: {e}")))?;
    let preprocessed = bag.mark_references();
    let began = trace_started(context.trace);
    let outcome = dispatch::check(routes, &bag, context).await;
    trace_step(context.trace, || TracedPhase::Check, began, outcome.as_ref().err().map(ToString::to_string));
    let outcome = outcome.map_err(|e| internal(format_args!("performing check operation failed: {e}")))?;
    if outcome.status.code != 0 {
        let status = &outcome.status;
        published.denials.record(status.code, &status.message, published.id().0, false, || body);
    }
    let mut out = Vec::with_capacity(256);
    begin_message(&mut out);
    let mut undecided = None;
    if let Some(cache) = cache.filter(|_| !outcome.depends_on_map && !bag.reads_map_without_key()) {
        let answer = encode(&outcome, &bag, request.global_word_count);
        answer.push(outcome.valid_duration, &mut out);
        if routes.has_dry_run() {
            undecided = Some((cache, answer, bag.mark_references()));
        } else {
            let valid = outcome.valid_duration.to_std_or_zero();
            cache.put(&bag, request.global_word_count, &bag.references(), valid, answer);
        }
    } else {
        push_outcome(&outcome, &bag, request.global_word_count, &mut out);
    }
    if outcome.status.code == 0 {
        for asked in request.quotas {
            bag.reset_references(&preprocessed);
            let began = trace_started(context.trace);
            let grant = allocate(published, &bag, request, asked, context).await;
            trace_step(context.trace, || TracedPhase::Quota(asked.name.to_owned()), began, None);
            push_quota(&mut out, asked.name, grant, |out| {
                bag.encode_references(request.global_word_count, out)
            });
        }
    }
    finish_message(&mut out);
    if routes.has_dry_run() {
        if let Some((.., decided)) = &undecided {
            bag.reset_references(decided);
        }
        let quotas = request.quotas.iter().map(|asked| quota_request(request, asked));
        // The answer is complete: nothing of this can get into it.
        let passed = outcome.status.code == 0;
        let applied = Box::pin(dispatch::dry_run_check(routes, &bag, quotas, passed, context)).await;
        // It is kept only for requests that no rule in dry run has a say in either: what those read counts as well.
        if let Some((cache, answer, _)) = undecided
            && !applied
            && !bag.reads_map_without_key()
        {
            let valid = outcome.valid_duration.to_std_or_zero();
            cache.put(&bag, request.global_word_count, &bag.references(), valid, answer);
        }
    }
    Ok(out.into())
}

fn quota_request<'r>(request: &CheckRequest<'r>, asked: &QuotaParams<'r>) -> QuotaRequest<'r> {
    QuotaRequest {
        name: asked.name,
        amount: asked.amount,
        best_effort: asked.best_effort,
        deduplication_id: request.deduplication_id,
        level: false,
    }
}

async fn allocate<'a>(
    published: &'a Published,
    bag: &AttributeBag<'a>,
    request: &CheckRequest<'a>,
    asked: &QuotaParams<'a>,
    context: &DispatchContext<'_>,
) -> QuotaGrant {
    let quota = quota_request(request, asked);
    match dispatch::quota(&published.routes, bag, quota, context).await {
        Ok(granted) => QuotaGrant { valid_duration: granted.valid_duration, granted_amount: granted.granted },
        Err(error) => {
            tracing::warn!(target: "api", "Quota failure: performing quota alloc failed: {error}");
            QuotaGrant::default()
        }
    }
}

fn push_outcome(outcome: &CheckOutcome, bag: &AttributeBag<'_>, global_word_count: u32, out: &mut Vec<u8>) {
    let directive = outcome.directive.as_ref().map(encode_directive);
    let precondition = Precondition {
        status_code: outcome.status.code,
        status_message: &outcome.status.message,
        valid_duration: outcome.valid_duration,
        valid_use_count: outcome.valid_use_count,
        route_directive: directive.as_deref(),
    };
    push_precondition(out, &precondition, |out| bag.encode_references(global_word_count, out));
}

fn encode(outcome: &CheckOutcome, bag: &AttributeBag<'_>, global_word_count: u32) -> CheckAnswer {
    let mut references = Vec::new();
    bag.encode_references(global_word_count, &mut references);
    CheckAnswer {
        status_code: outcome.status.code,
        status_message: outcome.status.message.clone(),
        valid_use_count: outcome.valid_use_count,
        references,
        directive: outcome.directive.as_ref().map(encode_directive),
    }
}

/// A directive as the bytes of its message.
pub fn encode_directive(directive: &dispatch::RouteDirective) -> Vec<u8> {
    fn operations(changes: &[dispatch::HeaderChange]) -> impl Iterator<Item = HeaderOperation<'_>> {
        changes.iter().map(|change| HeaderOperation {
            name: &change.name,
            value: &change.value,
            action: match change.kind {
                HeaderOperationKind::Replace => HeaderAction::Replace,
                HeaderOperationKind::Remove => HeaderAction::Remove,
                HeaderOperationKind::Append => HeaderAction::Append,
            },
        })
    }
    let mut out = Vec::new();
    RouteDirective {
        request_headers: operations(&directive.request_headers),
        response_headers: operations(&directive.response_headers),
        direct_response_code: directive.direct_response_code,
        direct_response_body: &directive.direct_response_body,
    }
    .encode(&mut out);
    out
}

async fn answer_report<'a>(
    published: &'a Published,
    request: &ReportRequest<'a>,
    arena: &'a Bump,
    context: &DispatchContext<'_>,
    call: &CallInfo<'_>,
) -> Result<(), GrpcError> {
    check_global_word_count(request.global_word_count).map_err(internal)?;
    let routes = &published.routes;
    let mut records = ReportRecords::new(request, &routes.snapshot().vocabulary, arena);
    let mut collector = ReportCollector::new(routes);
    let mut errors: Vec<String> = Vec::new();
    while let Some(record) = records.next() {
        let bag = match record {
            Ok(bag) => bag,
            Err(error) => {
                errors.push(error.to_string());
                next_record(context.trace);
                continue;
            }
        };
        call.identify(published, bag);
        errors.extend(report_record(published, bag, &mut collector, context).await);
    }
    if let Err(error) = collector.flush(context).await {
        errors.extend(error.errors);
    }
    if errors.is_empty() {
        return Ok(());
    }
    let text = join_errors(&errors);
    tracing::error!(target: "api", "Report failed: {text}");
    Err(GrpcError::new(Code::Unknown, text))
}
