//! A report, phase by phase: decode, admit, preprocess and collect each record, deliver to the handlers.
//!
//! A long report is decoded and delivered in slices, each in an arena of its own; the worker serves other calls between them and
//! within them. It takes a permit of the pool of calls before the first slice, so that overload refuses all of it or nothing.

use std::borrow::Cow;
use std::time::Instant;

use bytes::Bytes;

use super::call::CallInfo;
use super::grpc::{Code, EMPTY_MESSAGE, GrpcError, MAX_MESSAGE, cut_to, encoded_len};
use super::principal::{CallerPrincipal, set_principal};
use super::worker::{CallScope, Pace, SLICE, SliceEnd, WORK_PER_TURN, WorkerContext};
use crate::load_shedding::{self, Demand};
use mixer_attribute::request::{RecordLimits, ReportDecoder, ReportRequest, check_global_word_count};
use mixer_attribute::{AttributeBag, RecordSlices, ReportRecords};
use mixer_base::rate_limit::RateLimit;
use mixer_base::secrets::SecretNames;
use mixer_engine::adapter::join_errors;
use mixer_engine::dispatch::{
    self, DispatchContext, ReportCollector, Trace, TracedPhase, trace_started, trace_step,
};
use mixer_engine::runtime::Published;
use mixer_engine::secret_values::{SecretValues, for_log};

/// Most bytes of long texts of the records of a report, repeated references to one word included.
const MAX_TEXT: usize = 64 << 20;
/// Bytes of long texts that are collected before they are delivered.
const TEXT_AT_ONCE: usize = SLICE.bytes;
/// The longest delivery at once, by what recent ones took, in the unit of work: some 0.16 ms. An ordinary report of a proxy is less, and not
/// interrupted.
const LONGEST_DELIVERY: usize = 2 * WORK_PER_TURN;

/// Bytes of a report that are decoded at once, or the time of so many: some 0.1 ms.
const DECODED_AT_ONCE: usize = 32 << 10;

/// Answers a ReportRequest.
pub(super) async fn respond(
    worker: &WorkerContext,
    body: &[u8],
    call: &CallInfo<'_>,
    trace: Trace<'_>,
) -> Result<Bytes, GrpcError> {
    let scope = worker.begin(call.deadline, trace)?;
    // Boxed, so that the future of a call stays small.
    Box::pin(respond_in_scope(worker, body, call, scope)).await
}

async fn respond_in_scope(
    worker: &WorkerContext,
    body: &[u8],
    call: &CallInfo<'_>,
    scope: CallScope<'_>,
) -> Result<Bytes, GrpcError> {
    let mut pace = worker.pace();
    let limits = RecordLimits { records: worker.engine.limits.records, slice: worker.whole() };
    let mut decoder = ReportDecoder::new(body, limits.slice, &scope.arena);
    let mut is_last = || decoder.step(DECODED_AT_ONCE, limits.records).map_err(GrpcError::of_request);
    // The words and the number of records first, then these.
    let request = match is_last()? || is_last()? {
        true => decoder.finish(),
        false => Box::pin(decode_in_steps(decoder, limits, &mut pace)).await?,
    };
    admit(worker, &request, call)?;
    deliver(worker, &scope, request, call, pace).await?;
    Ok(Bytes::from_static(&EMPTY_MESSAGE))
}

/// Errors: UNAVAILABLE under overload.
fn admit(worker: &WorkerContext, request: &ReportRequest<'_>, call: &CallInfo<'_>) -> Result<(), GrpcError> {
    let demand = Demand { cost: request.record_count, is_report: true, caller: call.caller };
    load_shedding::admit(worker.engine.shedder.as_deref(), demand)
        .map_err(|message| GrpcError::refused(Code::Unavailable, message))
}

/// Decodes the rest of a long request.
async fn decode_in_steps<'a>(
    mut decoder: ReportDecoder<'a>,
    limits: RecordLimits,
    pace: &mut Pace<'_>,
) -> Result<ReportRequest<'a>, GrpcError> {
    loop {
        pace.give_way().await;
        if decoder.step(DECODED_AT_ONCE, limits.records).map_err(GrpcError::of_request)? {
            return Ok(decoder.finish());
        }
    }
}

async fn deliver<'a>(
    worker: &WorkerContext,
    scope: &'a CallScope<'_>,
    request: ReportRequest<'a>,
    call: &CallInfo<'_>,
    mut pace: Pace<'_>,
) -> Result<(), GrpcError> {
    check_global_word_count(request.global_word_count)
        .map_err(|error| GrpcError::invalid(Code::Internal, error.to_string()))?;
    let CallScope { published, context, arena } = scope;
    let vocabulary = &published.routes.snapshot().vocabulary;
    let mut errors = ReportErrors::default();
    let slices = if request.is_decoded() {
        let mut records = ReportRecords::new(&request, vocabulary, arena);
        let end = arena.slice_end();
        deliver_slice(published, &mut records, worker.principal(call), context, &mut errors, &mut pace, end)
            .await?;
        if records.is_empty() { None } else { Some(RecordSlices::after(&request, &records)) }
    } else {
        Some(RecordSlices::new(&request, vocabulary, arena))
    };
    if let Some(slices) = slices {
        Box::pin(deliver_slices(worker, scope, slices, call, &mut errors, &mut pace)).await?;
    }
    let Some(text) = errors.text() else { return Ok(()) };
    tracing::error!(target: "api", "Report failed: {}", errors.logged());
    let code = if errors.is_stopping { Code::Unavailable } else { Code::Unknown };
    let is_invalid = errors.are_of_sender();
    Err(GrpcError { is_invalid, ..GrpcError::new(code, errors.message().unwrap_or(text)) })
}

/// Delivers a long report slice by slice. Between two of them the call has no memory for records, and other long calls have their turn.
///
/// Errors: DEADLINE_EXCEEDED if the deadline passes before the last slice, and those of a slice; the slices before it were delivered.
async fn deliver_slices(
    worker: &WorkerContext,
    scope: &CallScope<'_>,
    mut slices: RecordSlices<'_>,
    call: &CallInfo<'_>,
    errors: &mut ReportErrors,
    pace: &mut Pace<'_>,
) -> Result<(), GrpcError> {
    let CallScope { published, context, .. } = scope;
    while !slices.is_empty() {
        pace.end_slice();
        pace.give_way().await;
        if call.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            let text = "the deadline of the call passed before all records were reported";
            return Err(GrpcError::new(Code::DeadlineExceeded, text));
        }
        let arena = worker.arena();
        let mut decoder = slices.slice(SLICE, &published.routes.snapshot().vocabulary, &arena);
        while let Some(bytes) = decoder.step() {
            pace.count_decoding(bytes);
            pace.before(0).await;
        }
        let mut records = decoder.records();
        let end = arena.slice_end();
        deliver_slice(published, &mut records, worker.principal(call), context, errors, pace, end).await?;
        slices.finish(&records);
    }
    Ok(())
}

/// Collects the records of a slice until it ends, and delivers them to the handlers.
///
/// Errors: INVALID_ARGUMENT for the first record with which the report has more than [`MAX_TEXT`]; those before it are delivered.
async fn deliver_slice<'a>(
    published: &'a Published,
    records: &mut ReportRecords<'a>,
    principal: CallerPrincipal<'_>,
    context: &DispatchContext<'_>,
    errors: &mut ReportErrors,
    pace: &mut Pace<'_>,
    end: SliceEnd,
) -> Result<(), GrpcError> {
    let mut delivery = Delivery::new(published, context);
    let mut is_too_long = false;
    while !is_too_long && let Some(record) = records.next() {
        let has_ended = match record {
            Ok(bag) => {
                set_principal(principal, published, bag);
                delivery.collect(bag, errors, pace).await;
                end.is_reached(bag.arena())
            }
            Err(error) => {
                errors.extend_undecodable(error.to_string());
                next_record(context.trace);
                false
            }
        };
        let text = records.last_text();
        delivery.taken_with(records.last_len(), text, errors, pace).await;
        is_too_long = pace.count_text(text) > MAX_TEXT;
        if has_ended {
            break;
        }
    }
    delivery.finish(records.is_empty(), errors, pace).await;
    if is_too_long {
        let text = format!(
            "the records refer to words of more than {MAX_TEXT} bytes together; not all of them were reported"
        );
        return Err(GrpcError::new(Code::InvalidArgument, text));
    }
    Ok(())
}

/// The records of one slice on their way to the handlers: collected one by one, delivered when they are much work together.
pub struct Delivery<'a, 'd> {
    published: &'a Published,
    context: &'d DispatchContext<'d>,
    collector: ReportCollector<'a>,
    /// The evaluations of the worker before the current record.
    counted: usize,
    /// Bytes of long texts that were collected since the last delivery.
    text: usize,
}

impl<'a, 'd> Delivery<'a, 'd> {
    /// Begins a slice.
    pub fn new(published: &'a Published, context: &'d DispatchContext<'d>) -> Self {
        let collector = ReportCollector::new(&published.routes);
        Self { published, context, collector, counted: dispatch::work_done(), text: 0 }
    }

    /// Preprocesses and collects a record.
    pub async fn collect(
        &mut self,
        bag: &mut AttributeBag<'a>,
        errors: &mut ReportErrors,
        pace: &mut Pace<'_>,
    ) {
        let collected = collect(self.published, bag, &mut self.collector, self.context);
        let failures = pace.run(collected).await;
        errors.extend_of(failures, bag, &self.published.routes.snapshot().secrets);
    }

    /// Counts a record of so many bytes that was taken. Gives way to other calls, and delivers what was collected, if that is due.
    pub async fn taken(&mut self, bytes: usize, errors: &mut ReportErrors, pace: &mut Pace<'_>) {
        self.taken_with(bytes, 0, errors, pace).await;
    }

    /// As [`taken`](Self::taken), for a record with long texts of so many bytes.
    async fn taken_with(
        &mut self,
        bytes: usize,
        text: usize,
        errors: &mut ReportErrors,
        pace: &mut Pace<'_>,
    ) {
        pace.count_record(bytes, text, dispatch::work_done().wrapping_sub(self.counted));
        self.text += text;
        let pending = self.collector.pending();
        let is_due = pending > WORK_PER_TURN / 2 || pace.delivery_work(pending) > LONGEST_DELIVERY;
        if is_due || self.text > TEXT_AT_ONCE {
            self.deliver(false, errors, pace).await;
        } else {
            pace.before(0).await;
        }
        self.counted = dispatch::work_done();
    }

    /// Delivers what is left. `is_last`: no other slice follows.
    pub async fn finish(mut self, is_last: bool, errors: &mut ReportErrors, pace: &mut Pace<'_>) {
        self.deliver(is_last, errors, pace).await;
    }

    async fn deliver(&mut self, is_last: bool, errors: &mut ReportErrors, pace: &mut Pace<'_>) {
        // A call that goes on after its first delivery has its permit before.
        if !is_last && !pace.is_long() {
            pace.give_way().await;
        }
        let work = self.collector.pending();
        pace.before(work).await;
        self.text = 0;
        let delivered = self.collector.flush(self.context, errors.has_room_in_log());
        if let Err(error) = pace.run_delivery(work, delivered).await {
            errors.is_stopping |= error.is_stopping;
            errors.extend_without(error.errors, self.collector.failed_secrets());
        }
    }
}

/// What could not be reported. The first failures are kept, the others counted: a record costs the caller two bytes.
#[derive(Debug, Default)]
pub struct ReportErrors {
    kept: Vec<String>,
    /// The first failures as the log may have them: without what is secret in their records, also those of handlers.
    logged: Vec<String>,
    /// Bytes of the kept texts.
    bytes: usize,
    count: usize,
    /// How many of them are records that cannot be decoded.
    undecodable: usize,
    /// Whether something was not delivered because the server stops.
    is_stopping: bool,
}

/// Before each failure.
const SEPARATOR: &str = "\n\t* ";

impl ReportErrors {
    /// Failures whose texts are kept.
    const MAX_KEPT: usize = 100;
    /// Failures of records that the log has.
    const MAX_LOGGED: usize = 3;
    /// Bytes of texts after which no more are kept, and to which one is cut.
    const MAX_BYTES: usize = 64 << 10;

    /// Adds failures that have nothing of a record.
    pub fn extend(&mut self, errors: impl IntoIterator<Item = String>) {
        for error in errors {
            if self.logged.len() < Self::MAX_LOGGED {
                self.logged.push(error.clone());
            }
            self.keep(error);
        }
    }

    /// Adds a record that cannot be decoded.
    fn extend_undecodable(&mut self, error: String) {
        self.undecodable += 1;
        self.extend([error]);
    }

    /// Whether all failures are records that cannot be decoded, which is up to their sender.
    fn are_of_sender(&self) -> bool {
        self.undecodable == self.count
    }

    fn keep(&mut self, mut error: String) {
        self.count += 1;
        if self.kept.len() < Self::MAX_KEPT && self.bytes < Self::MAX_BYTES {
            if error.len() > Self::MAX_BYTES {
                error.truncate(error.floor_char_boundary(Self::MAX_BYTES));
                error.push('…');
                error.shrink_to_fit();
            }
            self.bytes += error.len();
            self.kept.push(error);
        }
    }

    /// Adds failures of a record, in which this is secret.
    pub fn extend_of(&mut self, errors: Vec<String>, bag: &AttributeBag<'_>, names: &SecretNames) {
        /// Callers choose how many records fail, and how large they are.
        static SHOWN: RateLimit = RateLimit::new(20);
        for error in errors {
            if self.logged.len() < Self::MAX_LOGGED && SHOWN.admit().is_some() {
                self.logged.push(for_log(&error, bag, names));
            }
            self.keep(error);
        }
    }

    fn has_room_in_log(&self) -> bool {
        self.logged.len() < Self::MAX_LOGGED
    }

    /// Adds failures of handlers, which repeat values of records: the log has them without these.
    fn extend_without(&mut self, errors: Vec<String>, secrets: &SecretValues) {
        for error in errors {
            if self.has_room_in_log() {
                self.logged.push(secrets.shown(&error));
            }
            self.keep(error);
        }
    }

    /// Number of failures.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The first failures in Istio Mixer's form for the log, and the number of the others; empty without failures. Those of records are
    /// without what is secret in them, and at most twenty a second.
    pub fn logged(&self) -> String {
        self.of_first(&self.logged).unwrap_or_default()
    }

    /// The failures in Istio Mixer's form; `None` if there are none.
    pub fn text(&self) -> Option<String> {
        self.of_first(&self.kept)
    }

    /// The failures that fit a `grpc-message`, in Istio Mixer's form; `None` if there are none.
    pub fn message(&self) -> Option<String> {
        let text = self.text()?;
        if encoded_len(&text) <= MAX_MESSAGE {
            return Some(text);
        }
        let frame = self.of_first::<&str>(&[])?;
        let mut left = MAX_MESSAGE.saturating_sub(encoded_len(&frame));
        let mut shown: Vec<Cow<'_, str>> = Vec::new();
        for error in &self.kept {
            let Some(rest) = left.checked_sub(encoded_len(SEPARATOR)) else { break };
            if encoded_len(error) > rest && !shown.is_empty() {
                break;
            }
            let error = cut_to(error, rest);
            left = rest.saturating_sub(encoded_len(&error));
            shown.push(error);
        }
        self.of_first(&shown)
    }

    /// The text of these failures, and how many there are besides them.
    fn of_first<T: AsRef<str> + std::fmt::Display>(&self, shown: &[T]) -> Option<String> {
        let left_out = self.count - shown.len();
        match self.count {
            0 => None,
            _ if left_out == 0 => Some(join_errors(shown)),
            count => {
                let mut text = format!("{count} error{} occurred:", if count == 1 { "" } else { "s" });
                for error in shown {
                    text.push_str(SEPARATOR);
                    text.push_str(error.as_ref());
                }
                Some(format!("{text}{SEPARATOR}and {left_out} more\n\n"))
            }
        }
    }
}

/// Preprocesses one record, adds its instances to `collector` and evaluates the report rules in dry run. Returns every failure.
async fn collect<'a>(
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
