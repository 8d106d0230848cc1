//! A report, phase by phase: decode, admit, preprocess and collect each record, deliver to the handlers.
//!
//! A long report is delivered in slices, each in the same arena; the worker serves other calls between them. It takes a permit of the
//! pool of calls before the first slice, so that overload refuses all of it or nothing.

use std::time::Instant;

use bytes::Bytes;

use super::call::CallInfo;
use super::call_pool::CallPool;
use super::grpc::{Code, EMPTY_MESSAGE, GrpcError};
use super::principal::set_principal;
use super::worker::{CallScope, SLICE, WorkerContext, needs_slices};
use crate::load_shedding::{self, Demand};
use mixer_attribute::request::{ReportRequest, check_global_word_count};
use mixer_attribute::{AttributeBag, LaterRecords, ReportRecords};
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
    let scope = worker.begin(call.deadline, trace)?;
    let limits = worker.engine.limits.of_report();
    let request = ReportRequest::decode_bounded(body, limits, &scope.arena).map_err(GrpcError::of_request)?;
    let demand = Demand { cost: request.record_count, is_report: true, caller: call.caller };
    load_shedding::admit(worker.engine.shedder.as_deref(), demand)
        .map_err(|message| GrpcError::new(Code::Unavailable, message))?;
    let is_long = needs_slices(request.record_count, body.len());
    Box::pin(deliver(worker, &scope, request, call, is_long)).await?;
    Ok(Bytes::from_static(&EMPTY_MESSAGE))
}

async fn deliver<'a>(
    worker: &WorkerContext,
    scope: &'a CallScope<'_>,
    request: ReportRequest<'a>,
    call: &CallInfo<'_>,
    is_long: bool,
) -> Result<(), GrpcError> {
    check_global_word_count(request.global_word_count).map_err(GrpcError::internal)?;
    let CallScope { published, context, arena } = scope;
    let mut records = ReportRecords::new(&request, &published.routes.snapshot().vocabulary, arena);
    let mut errors = ReportErrors::default();
    if is_long {
        // Boxed, so that the future of a short report stays small.
        Box::pin(async {
            CallPool::before_long_work().await;
            let turn = worker.turn().await;
            turn.first_poll(deliver_slice(published, &mut records, call, context, &mut errors)).await;
        })
        .await;
    } else {
        deliver_slice(published, &mut records, call, context, &mut errors).await;
    }
    if let Some(later) = LaterRecords::after(&request, &records) {
        Box::pin(deliver_later(worker, scope, later, call, &mut errors)).await?;
    }
    let Some(text) = errors.text() else { return Ok(()) };
    tracing::error!(target: "api", "Report failed: {text}");
    Err(GrpcError::new(Code::Unknown, text))
}

/// Delivers the slices after the first. Between two of them the worker serves other calls.
///
/// Errors: DEADLINE_EXCEEDED if the deadline passes before the last slice; the slices before it were delivered.
async fn deliver_later(
    worker: &WorkerContext,
    scope: &CallScope<'_>,
    mut later: LaterRecords<'_>,
    call: &CallInfo<'_>,
    errors: &mut ReportErrors,
) -> Result<(), GrpcError> {
    let CallScope { published, context, .. } = scope;
    let mut arena = worker.arena();
    while !later.is_empty() {
        let turn = worker.turn().await;
        if call.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            let text = "the deadline of the call passed before all records were reported";
            return Err(GrpcError::new(Code::DeadlineExceeded, text));
        }
        {
            let vocabulary = &published.routes.snapshot().vocabulary;
            let Some(mut records) = later.slice(SLICE, vocabulary, &arena) else { return Ok(()) };
            // Other long calls do not wait for the handlers of this one.
            turn.first_poll(deliver_slice(published, &mut records, call, context, errors)).await;
            later.finish(&records);
        }
        arena.reset();
    }
    Ok(())
}

/// Collects the records of a slice and delivers them to the handlers.
async fn deliver_slice<'a>(
    published: &'a Published,
    records: &mut ReportRecords<'a>,
    call: &CallInfo<'_>,
    context: &DispatchContext<'_>,
    errors: &mut ReportErrors,
) {
    let mut collector = ReportCollector::new(&published.routes);
    while let Some(record) = records.next() {
        match record {
            Ok(bag) => {
                set_principal(call.principal, published, bag);
                errors.extend(collect(published, bag, &mut collector, context).await);
            }
            Err(error) => {
                errors.extend([error.to_string()]);
                next_record(context.trace);
            }
        }
    }
    if let Err(error) = collector.flush(context).await {
        errors.extend(error.errors);
    }
}

/// What could not be reported. The first failures are kept, the others counted: a record costs the caller two bytes.
#[derive(Debug, Default)]
pub struct ReportErrors {
    kept: Vec<String>,
    count: usize,
}

impl ReportErrors {
    /// Failures whose texts are kept.
    const MAX_KEPT: usize = 100;

    /// Adds failures.
    pub fn extend(&mut self, errors: impl IntoIterator<Item = String>) {
        for error in errors {
            self.count += 1;
            if self.kept.len() < Self::MAX_KEPT {
                self.kept.push(error);
            }
        }
    }

    /// Number of failures.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The failures in Istio Mixer's form; `None` if there are none.
    pub fn text(&self) -> Option<String> {
        let left_out = self.count - self.kept.len();
        match self.count {
            0 => None,
            _ if left_out == 0 => Some(join_errors(&self.kept)),
            count => {
                let kept = self.kept.join("\n\t* ");
                Some(format!("{count} errors occurred:\n\t* {kept}\n\t* and {left_out} more\n\n"))
            }
        }
    }
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

#[cfg(test)]
mod tests;
