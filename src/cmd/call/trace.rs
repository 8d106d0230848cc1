//! Spans of `check` and `report`: one for the command, with a child span per call.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::status::{RpcError, rpc_code_name};
use mixer_base::budget::Share;
use mixer_spans::{
    Event, Span, SpanContext, SpanKind, Tag, Tracer, TracerTask, TracingError, TracingOptions, child, inject,
};

/// Timeout of flushing spans at the end of the command.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Memory of the spans that are not sent yet.
const MAX_QUEUED: usize = 8 << 20;

/// Traces the calls of a command.
#[derive(Debug, Clone)]
pub(crate) struct CallTracer {
    tracer: Arc<Tracer>,
    root: SpanContext,
}

/// The span of a running command.
#[derive(Debug)]
pub(crate) struct CommandSpan {
    name: &'static str,
    calls: CallTracer,
    task: TracerTask,
    begun: (SystemTime, Instant),
}

/// The span of a call in flight.
#[derive(Debug)]
pub(crate) struct CallSpan {
    calls: CallTracer,
    name: &'static str,
    context: SpanContext,
    begun: (SystemTime, Instant),
}

impl CommandSpan {
    /// Starts the span of a command, for example `mixc Check`; `None` without tracing. Must be called inside a tokio runtime.
    pub(crate) fn begin(options: &TracingOptions, name: &'static str) -> Result<Option<Self>, TracingError> {
        let memory = Arc::new(Share::new(MAX_QUEUED));
        let Some((tracer, task)) = Tracer::start(options, "mixer-client", &memory)? else { return Ok(None) };
        let calls = CallTracer { root: tracer.begin_root(), tracer };
        Ok(Some(Self { name, calls, task, begun: (SystemTime::now(), Instant::now()) }))
    }

    /// The tracer of child spans.
    pub(crate) fn calls(&self) -> CallTracer {
        self.calls.clone()
    }

    /// Ends the span and flushes all spans to the collector, within [`FLUSH_TIMEOUT`].
    pub(crate) async fn end(self) {
        let tags = vec![("span.kind", "client".into())];
        self.calls.finish(self.name, SpanKind::Local, self.calls.root, self.begun, tags, Vec::new());
        self.task.close(FLUSH_TIMEOUT).await;
    }
}

impl CallTracer {
    /// Starts the span of a call, for example `/istio.mixer.v1.Mixer/Check`, and injects its context into the request.
    pub(crate) fn begin<T>(&self, name: &'static str, request: &mut tonic::Request<T>) -> CallSpan {
        let context = child(&self.root);
        let mut headers = http::HeaderMap::new();
        inject(&context, self.tracer.format(), &mut headers);
        for (name, value) in &headers {
            if let (Ok(name), Ok(value)) = (
                tonic::metadata::AsciiMetadataKey::from_bytes(name.as_str().as_bytes()),
                value.as_bytes().try_into(),
            ) {
                request.metadata_mut().insert(name, value);
            }
        }
        CallSpan { calls: self.clone(), name, context, begun: (SystemTime::now(), Instant::now()) }
    }

    fn finish(
        &self,
        name: &str,
        kind: SpanKind,
        context: SpanContext,
        (started, instant): (SystemTime, Instant),
        tags: Vec<Tag>,
        events: Vec<Event>,
    ) {
        if context.sampled == Some(true) {
            let took = instant.elapsed();
            let name = name.to_owned();
            let span = Span { name, context, remote_parent: false, kind, started, took, tags, events };
            self.tracer.finish([span]);
        }
    }
}

impl CallSpan {
    /// Ends the span of a call.
    pub(crate) fn end<T>(self, answer: &Result<T, RpcError>) {
        let mut tags: Vec<Tag> = vec![("component", "gRPC".into())];
        let mut events = Vec::new();
        if let Err(error) = answer {
            let code = rpc_code_name(error.code);
            let text = format!("rpc error: code = {code} desc = {}", error.message);
            tags.push(("response_code", code.into()));
            tags.push(("error", true.into()));
            let fields = vec![("event", "error".into()), ("message", text.into())];
            events.push(Event { at: SystemTime::now(), fields });
        }
        self.calls.finish(self.name, SpanKind::Client, self.context, self.begun, tags, events);
    }
}
