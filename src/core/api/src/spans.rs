//! Spans of a call, made of what its trace holds. Names, tags and logs are those of the originals; spec: cli-operations.md 7.3.

use std::time::{Duration, Instant, SystemTime};

use super::call::Operation;
use super::grpc::{Code, GrpcError};
use mixer_base::rpc_code;
use mixer_engine::decision::Method;
use mixer_engine::dispatch::{DispatchTrace, TracedDispatch, TracedPhase};
use mixer_spans::{Event, Span, SpanKind, SpanContext, Tag, child};

/// Most spans of one call: a large report over many handlers must not fill the queue alone.
const MOST_SPANS: usize = 512;
/// UNKNOWN of `google.rpc.Code`.
const UNKNOWN: i32 = 2;

/// A call that is traced.
#[derive(Debug, Clone, Copy)]
pub(super) struct TracedCall {
    pub(super) context: SpanContext,
    pub(super) remote_parent: bool,
}

/// When a call was begun, by both clocks: spans have calendar time, traces have not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    pub(super) time: SystemTime,
    pub(super) instant: Instant,
}

impl Begun {
    fn calendar(&self, at: Instant) -> SystemTime {
        self.time + at.saturating_duration_since(self.instant)
    }
}

/// All spans of a call, the call itself first.
pub(super) fn spans_of(
    call: TracedCall,
    operation: Operation,
    begun: Begun,
    took: Duration,
    trace: &DispatchTrace,
    outcome: Result<(), &GrpcError>,
) -> Vec<Span> {
    let mut spans = vec![server_span(call, operation, begun, took, outcome)];
    let mut made = Making { begun, spans: &mut spans };
    match operation.method {
        Method::Check | Method::Limit => made.check(&call.context, trace),
        Method::Report => made.report(&call.context, trace, took, outcome),
    }
    spans.truncate(MOST_SPANS);
    spans
}

fn server_span(
    call: TracedCall,
    operation: Operation,
    begun: Begun,
    took: Duration,
    outcome: Result<(), &GrpcError>,
) -> Span {
    let mut tags: Vec<Tag> = vec![("component", "istio-mixer".into())];
    let mut events = Vec::new();
    if let Err(error) = outcome {
        tags.push(("response_code", camel_name(error.code).into()));
        tags.push(("response_class", class(error.code).into()));
        tags.push(("error", true.into()));
        let text = format!("rpc error: code = {} desc = {}", camel_name(error.code), error.message);
        let fields = vec![("event", "error".into()), ("message", text.into())];
        events.push(Event { at: begun.time + took, fields });
    }
    Span {
        name: operation.path.to_owned(),
        context: call.context,
        remote_parent: call.remote_parent,
        kind: SpanKind::Server,
        started: begun.time,
        took,
        tags,
        events,
    }
}

fn camel_name(code: Code) -> &'static str {
    rpc_code::camel_name(code as i32).unwrap_or_default()
}

/// Whose fault a failed call is, as classes of HTTP statuses; `0xx` is unknown.
fn class(code: Code) -> &'static str {
    match code {
        Code::Ok => "2xx",
        Code::Unknown => "0xx",
        Code::Cancelled | Code::InvalidArgument | Code::PermissionDenied => "4xx",
        _ => "5xx",
    }
}

struct Making<'s> {
    begun: Begun,
    spans: &'s mut Vec<Span>,
}

impl Making<'_> {
    fn local(&mut self, name: String, parent: &SpanContext, from: Instant, to: Instant) -> &mut Span {
        let span = Span {
            name,
            context: child(parent),
            remote_parent: false,
            kind: SpanKind::Local,
            started: self.begun.calendar(from),
            took: to.saturating_duration_since(from),
            tags: Vec::new(),
            events: Vec::new(),
        };
        self.spans.push_mut(span)
    }

    /// Phases and dispatches, all of them children of the call, as in the originals, which have no spans for phases.
    fn check(&mut self, parent: &SpanContext, trace: &DispatchTrace) {
        for step in &trace.steps {
            let name = match &step.phase {
                TracedPhase::Preprocess => "Preprocess".to_owned(),
                TracedPhase::Check => "Check".to_owned(),
                TracedPhase::Quota(name) => format!("Quota {name}"),
                TracedPhase::DryRun => "DryRun".to_owned(),
                TracedPhase::Record(_) | TracedPhase::Deliver { .. } => continue,
            };
            let span = self.local(name, parent, step.started, step.ended);
            failed_for(span, step.error.as_deref());
        }
        self.dispatches(parent, trace);
    }

    fn report(
        &mut self,
        parent: &SpanContext,
        trace: &DispatchTrace,
        took: Duration,
        outcome: Result<(), &GrpcError>,
    ) {
        let (from, to) = (self.begun.instant, self.begun.instant + took);
        let report = self.local("Report".to_owned(), parent, from, to);
        failed_for(report, outcome.err().map(|error| error.message.as_str()));
        let report = report.context;
        for step in &trace.steps {
            match &step.phase {
                TracedPhase::Record(record) => {
                    let name = format!("attribute bag {record}");
                    let span = self.local(name, &report, step.started, step.ended);
                    failed_for(span, step.error.as_deref());
                }
                TracedPhase::Deliver { handler, adapter, template } => {
                    let name = format!("{template}:{handler}({adapter})");
                    let span = self.local(name, &report, step.started, step.ended);
                    let said = match &step.error {
                        Some(error) => Said { code: UNKNOWN, message: error.clone(), failed: true },
                        None => Said { code: 0, message: String::new(), failed: false },
                    };
                    note(span, template, handler, adapter, said);
                }
                _ => {}
            }
        }
        self.dispatches(&report, trace);
    }

    /// Handlers that were called one instance at a time.
    fn dispatches(&mut self, parent: &SpanContext, trace: &DispatchTrace) {
        for dispatch in &trace.dispatches {
            let Some((from, to)) = dispatch.called else { continue };
            let (template, handler) = (dispatch.template, &*dispatch.handler.name);
            let adapter = dispatch.handler.adapter.info().name;
            let span = self.local(format!("{template}:{handler}({adapter})"), parent, from, to);
            note(span, template, handler, adapter, said(dispatch));
        }
    }
}

/// Marks a span as failed, with the reason.
fn failed_for(span: &mut Span, error: Option<&str>) {
    if let Some(error) = error {
        span.tags.push(("error", true.into()));
        span.events.push(Event {
            at: span.started + span.took,
            fields: vec![("event", "error".into()), ("message", error.to_owned().into())],
        });
    }
}

/// What a handler said.
struct Said {
    /// Of `google.rpc.Code`.
    code: i32,
    message: String,
    failed: bool,
}

fn said(dispatch: &TracedDispatch) -> Said {
    match (&dispatch.error, &dispatch.check) {
        (Some(error), _) => Said { code: UNKNOWN, message: error.clone(), failed: true },
        (None, Some(check)) => {
            Said { code: check.status.code, message: check.status.message.clone(), failed: false }
        }
        (None, None) => Said { code: 0, message: String::new(), failed: false },
    }
}

fn note(span: &mut Span, template: &'static str, handler: &str, adapter: &'static str, said: Said) {
    let fields = vec![
        ("meshFunction", template.into()),
        ("handler", handler.to_owned().into()),
        ("adapter", adapter.into()),
        ("response_code", rpc_code::name(said.code).map_or_else(|| said.code.to_string().into(), Into::into)),
        ("response_message", said.message.into()),
        ("error", said.failed.into()),
    ];
    if said.failed {
        span.tags.push(("error", true.into()));
    }
    span.events.push(Event { at: span.started + span.took, fields });
}
