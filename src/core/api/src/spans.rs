//! The spans of a call, built from its trace. Names, tags and logs are those of Istio Mixer.
//!
//! Who reads traces need not know the secrets of requests: texts of errors and handlers are there without them, and not at all where they are not
//! known, as those of the records of a report. Codes are always there.

use std::time::{Duration, Instant, SystemTime};

use super::call::Operation;
use super::grpc::{Code, GrpcError};
use mixer_base::rpc_code;
use mixer_engine::decision::Method;
use mixer_engine::dispatch::{DispatchTrace, TracedDispatch, TracedPhase};
use mixer_engine::secret_values::SecretValues;
use mixer_spans::{Event, Span, SpanContext, SpanKind, Tag, child};

/// Most spans of one call, so that a large report over many handlers cannot fill the queue.
const MAX_SPANS: usize = 512;
/// UNKNOWN of `google.rpc.Code`.
const UNKNOWN: i32 = 2;

/// The context of the server span of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerSpanContext {
    pub(super) context: SpanContext,
    /// Whether the client sent the parent.
    pub(super) remote_parent: bool,
}

/// When a call began, by the system clock for spans and by the monotonic clock of traces.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallStart {
    pub(super) time: SystemTime,
    pub(super) instant: Instant,
}

impl CallStart {
    fn system_time(&self, at: Instant) -> SystemTime {
        self.time + at.saturating_duration_since(self.instant)
    }
}

/// All spans of a call, the server span first.
pub(super) fn spans_of(
    server: ServerSpanContext,
    operation: Operation,
    start: CallStart,
    took: Duration,
    trace: &DispatchTrace,
    outcome: Result<(), &GrpcError>,
) -> Vec<Span> {
    let texts = Texts(trace.call_secrets.as_deref());
    let mut spans = vec![server_span(server, operation, start, took, outcome, texts)];
    let mut builder = SpanBuilder { start, texts, spans: &mut spans };
    match operation.method {
        Method::Check | Method::Limit => builder.check(&server.context, trace),
        Method::Report => builder.report(&server.context, trace, took, outcome),
    }
    spans.truncate(MAX_SPANS);
    spans
}

/// Texts as spans may have them.
#[derive(Debug, Clone, Copy)]
struct Texts<'t>(Option<&'t SecretValues>);

impl Texts<'_> {
    /// A text without the secrets of the call; empty if they are not known.
    fn shown(self, text: &str) -> String {
        self.0.map_or_else(String::new, |secrets| secrets.shown(text))
    }
}

fn server_span(
    server: ServerSpanContext,
    operation: Operation,
    start: CallStart,
    took: Duration,
    outcome: Result<(), &GrpcError>,
    texts: Texts<'_>,
) -> Span {
    let mut tags: Vec<Tag> = vec![("component", "istio-mixer".into())];
    let mut events = Vec::new();
    if let Err(error) = outcome {
        tags.push(("response_code", camel_name(error.code).into()));
        tags.push(("response_class", response_class(error.code).into()));
        tags.push(("error", true.into()));
        let text =
            format!("rpc error: code = {} desc = {}", camel_name(error.code), texts.shown(&error.message));
        let fields = vec![("event", "error".into()), ("message", text.into())];
        events.push(Event { at: start.time + took, fields });
    }
    Span {
        name: operation.path.to_owned(),
        context: server.context,
        remote_parent: server.remote_parent,
        kind: SpanKind::Server,
        started: start.time,
        took,
        tags,
        events,
    }
}

fn camel_name(code: Code) -> &'static str {
    rpc_code::camel_name(code as i32).unwrap_or_default()
}

/// The class of HTTP status that corresponds to a code; `0xx` is unknown.
fn response_class(code: Code) -> &'static str {
    match code {
        Code::Ok => "2xx",
        Code::Unknown => "0xx",
        Code::Cancelled | Code::InvalidArgument | Code::NotFound | Code::PermissionDenied => "4xx",
        _ => "5xx",
    }
}

/// Appends spans to those of a call.
struct SpanBuilder<'s> {
    start: CallStart,
    texts: Texts<'s>,
    spans: &'s mut Vec<Span>,
}

impl SpanBuilder<'_> {
    fn local(&mut self, name: String, parent: &SpanContext, from: Instant, to: Instant) -> &mut Span {
        let span = Span {
            name,
            context: child(parent),
            remote_parent: false,
            kind: SpanKind::Local,
            started: self.start.system_time(from),
            took: to.saturating_duration_since(from),
            tags: Vec::new(),
            events: Vec::new(),
        };
        self.spans.push_mut(span)
    }

    /// Phases and dispatches. Dispatches are children of the call, because Istio Mixer has no spans for phases.
    fn check(&mut self, parent: &SpanContext, trace: &DispatchTrace) {
        let texts = self.texts;
        for step in &trace.steps {
            let name = match &step.phase {
                TracedPhase::Preprocess => "Preprocess".to_owned(),
                TracedPhase::Check => "Check".to_owned(),
                TracedPhase::Quota(name) => format!("Quota {name}"),
                TracedPhase::DryRun => "DryRun".to_owned(),
                TracedPhase::Record(_) | TracedPhase::Deliver { .. } => continue,
            };
            let span = self.local(name, parent, step.started, step.ended);
            mark_failed(span, step.error.as_deref(), texts);
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
        let (from, to, texts) = (self.start.instant, self.start.instant + took, self.texts);
        let report = self.local("Report".to_owned(), parent, from, to);
        mark_failed(report, outcome.err().map(|error| error.message.as_str()), texts);
        let report = report.context;
        for step in &trace.steps {
            match &step.phase {
                TracedPhase::Record(record) => {
                    let name = format!("attribute bag {record}");
                    let span = self.local(name, &report, step.started, step.ended);
                    mark_failed(span, step.error.as_deref(), texts);
                }
                TracedPhase::Deliver { handler, adapter, template } => {
                    let name = format!("{template}:{handler}({adapter})");
                    let span = self.local(name, &report, step.started, step.ended);
                    let result = match &step.error {
                        Some(error) => {
                            HandlerOutcome { code: UNKNOWN, message: texts.shown(error), failed: true }
                        }
                        None => HandlerOutcome { code: 0, message: String::new(), failed: false },
                    };
                    log_outcome(span, template, handler, adapter, result);
                }
                _ => {}
            }
        }
        self.dispatches(&report, trace);
    }

    /// Calls of handlers that take one instance at a time.
    fn dispatches(&mut self, parent: &SpanContext, trace: &DispatchTrace) {
        let texts = self.texts;
        for dispatch in &trace.dispatches {
            let Some((from, to)) = dispatch.called else { continue };
            let (template, handler) = (&*dispatch.template, &*dispatch.handler.name);
            let adapter = dispatch.handler.adapter_name();
            let span = self.local(format!("{template}:{handler}({adapter})"), parent, from, to);
            log_outcome(span, template, handler, adapter, outcome_of(dispatch, texts));
        }
    }
}

/// Marks a span as failed if there is an error.
fn mark_failed(span: &mut Span, error: Option<&str>, texts: Texts<'_>) {
    if let Some(error) = error {
        span.tags.push(("error", true.into()));
        span.events.push(Event {
            at: span.started + span.took,
            fields: vec![("event", "error".into()), ("message", texts.shown(error).into())],
        });
    }
}

/// The outcome of a handler call.
struct HandlerOutcome {
    /// A `google.rpc.Code`.
    code: i32,
    message: String,
    failed: bool,
}

fn outcome_of(dispatch: &TracedDispatch, texts: Texts<'_>) -> HandlerOutcome {
    match (&dispatch.error, &dispatch.check) {
        (Some(error), _) => HandlerOutcome { code: UNKNOWN, message: texts.shown(error), failed: true },
        (None, Some(check)) => {
            let message = texts.shown(&check.status.message);
            HandlerOutcome { code: check.status.code, message, failed: false }
        }
        (None, None) => HandlerOutcome { code: 0, message: String::new(), failed: false },
    }
}

/// Adds the event of a handler call, with the fields of Istio Mixer.
fn log_outcome(span: &mut Span, template: &str, handler: &str, adapter: &str, outcome: HandlerOutcome) {
    let fields = vec![
        ("meshFunction", template.to_owned().into()),
        ("handler", handler.to_owned().into()),
        ("adapter", adapter.to_owned().into()),
        (
            "response_code",
            rpc_code::name(outcome.code).map_or_else(|| outcome.code.to_string().into(), Into::into),
        ),
        ("response_message", outcome.message.into()),
        ("error", outcome.failed.into()),
    ];
    if outcome.failed {
        span.tags.push(("error", true.into()));
    }
    span.events.push(Event { at: span.started + span.took, fields });
}
