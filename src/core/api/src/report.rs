//! A report, phase by phase: decode, admit, preprocess and collect each record, deliver to the handlers.

use bumpalo::Bump;
use bytes::Bytes;

use super::call::CallInfo;
use super::grpc::{Code, EMPTY_MESSAGE, GrpcError};
use super::principal::set_principal;
use super::worker::WorkerContext;
use crate::load_shedding::{self, Demand};
use mixer_attribute::request::{ReportRequest, check_global_word_count};
use mixer_attribute::{AttributeBag, ReportRecords};
use mixer_engine::adapter::join_errors;
use mixer_engine::dispatch::{
    self, DispatchContext, ReportCollector, Trace, TracedPhase, trace_started, trace_step,
};
use mixer_engine::runtime::Published;

/// Answers a ReportRequest.
pub(super) async fn respond(
    worker: &WorkerContext,
    body: &[u8],
    call: &CallInfo<'_>,
    trace: Trace<'_>,
) -> Result<Bytes, GrpcError> {
    let scope = worker.begin(call.deadline, trace);
    let request = ReportRequest::decode(body, &scope.arena).map_err(GrpcError::undecodable)?;
    let demand = Demand { cost: request.records.len(), is_report: true, caller: call.caller };
    load_shedding::admit(worker.engine.shedder.as_deref(), demand)
        .map_err(|message| GrpcError::new(Code::Unavailable, message))?;
    Box::pin(deliver(&scope.published, &request, &scope.arena, &scope.context, call)).await?;
    Ok(Bytes::from_static(&EMPTY_MESSAGE))
}

async fn deliver<'a>(
    published: &'a Published,
    request: &ReportRequest<'a>,
    arena: &'a Bump,
    context: &DispatchContext<'_>,
    call: &CallInfo<'_>,
) -> Result<(), GrpcError> {
    check_global_word_count(request.global_word_count).map_err(GrpcError::internal)?;
    let routes = &published.routes;
    let mut records = ReportRecords::new(request, &routes.snapshot().vocabulary, arena);
    let mut collector = ReportCollector::new(routes);
    let mut errors: Vec<String> = Vec::new();
    while let Some(record) = records.next() {
        match record {
            Ok(bag) => {
                set_principal(call.principal, published, bag);
                errors.extend(collect(published, bag, &mut collector, context).await);
            }
            Err(error) => {
                errors.push(error.to_string());
                next_record(context.trace);
            }
        }
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

/// Preprocesses one record, adds its instances to `collector` and evaluates the report rules in dry run. Returns every failure.
pub async fn collect<'a>(
    published: &'a Published,
    bag: &mut AttributeBag<'a>,
    collector: &mut ReportCollector<'a>,
    context: &DispatchContext<'_>,
) -> Vec<String> {
    let routes = &published.routes;
    let started = trace_started(context.trace);
    let failures = match dispatch::preprocess(routes, bag, context).await {
        Err(error) => vec![format!("preprocessing attributes failed: {error}")],
        Ok(()) => {
            let collected = collector.collect(bag, context);
            if routes.has_dry_run() {
                dispatch::dry_run_report(routes, bag, context);
            }
            collected.err().map_or_else(Vec::new, |error| error.errors)
        }
    };
    if let Some(trace) = context.trace {
        let record = trace.borrow().record;
        let error = (!failures.is_empty()).then(|| join_errors(&failures));
        trace_step(context.trace, || TracedPhase::Record(record), started, error);
    }
    next_record(context.trace);
    failures
}

fn next_record(trace: Trace<'_>) {
    if let Some(trace) = trace {
        trace.borrow_mut().record += 1;
    }
}
