//! Samples calls and queues finished spans for the export task.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;

use mixer_base::budget::Share;
use mixer_delivery::{AsyncSink, Batching, Bounds, Delivery, Items as _, List, Settings, Tally};

use super::export::Exporter;
use super::{Format, Span, SpanContext, TraceId, TracingError, TracingOptions, extract};

/// Capacity of the queue, in spans; spans beyond it are dropped.
const QUEUE_CAPACITY: usize = 8192;
/// Maximum batch size, in spans.
const BATCH: usize = 100;
/// Maximum wait for a full batch.
const BATCH_TIMEOUT: Duration = Duration::from_secs(1);

/// What became of finished spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpanCounts {
    /// Spans that every collector accepted.
    pub sent: u64,
    /// Spans dropped because the queue was full.
    pub dropped: u64,
    /// Spans that a collector did not accept.
    pub failed: u64,
}

/// Samples calls and queues their finished spans.
pub struct Tracer {
    spans: Delivery<List<Span>>,
    format: Format,
    /// A new trace is sampled if a random number is below this.
    threshold: u64,
}

impl std::fmt::Debug for Tracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracer").field("format", &self.format).finish_non_exhaustive()
    }
}

/// The export task.
#[derive(Debug)]
pub struct TracerTask(Arc<Tracer>);

impl TracerTask {
    /// Exports the queue and ends the task. Spans that are not exported within `deadline` are lost. Returns whether all were exported
    /// in time.
    pub async fn close(self, deadline: Duration) -> bool {
        self.0.spans.close(deadline).await
    }
}

impl Tracer {
    /// Starts the tracer of `service`; `None` if tracing is disabled. Queued spans take memory of `share`. Must be called within a tokio
    /// runtime.
    ///
    /// Errors: invalid settings.
    pub fn start(
        options: &TracingOptions,
        service: &'static str,
        share: &Arc<Share>,
    ) -> Result<Option<(Arc<Tracer>, TracerTask)>, TracingError> {
        options.check()?;
        if !options.is_enabled() {
            return Ok(None);
        }
        let exporter = Exporter::new(options, service)?;
        let settings = Settings {
            bounds: Bounds { items: QUEUE_CAPACITY, ..Bounds::default() },
            memory: Some(Arc::clone(share)),
            batching: Batching { items: BATCH, wait: BATCH_TIMEOUT, ..Batching::default() },
            ..Settings::default()
        };
        let export = Export { exporter, is_failing: false };
        let spans = Delivery::in_task("span export", "", settings, export);
        let format = match options {
            TracingOptions { zipkin_url, .. } if !zipkin_url.is_empty() => Format::B3,
            TracingOptions { jaeger_url, otlp_url, .. } if jaeger_url.is_empty() && !otlp_url.is_empty() => {
                Format::TraceParent
            }
            _ => Format::Uber,
        };
        let tracer = Arc::new(Tracer { spans, format, threshold: threshold(options.sampling_rate) });
        Ok(Some((Arc::clone(&tracer), TracerTask(tracer))))
    }

    /// Counters of the export.
    pub fn counts(&self) -> SpanCounts {
        let status = self.spans.status();
        // At the deadline of a stop, the collector is what did not accept them.
        SpanCounts { sent: status.delivered, dropped: status.full, failed: status.failed + status.closed }
    }

    /// The format of outgoing trace contexts.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The context of the server span of a call, and whether its parent is remote; `None` if the call is not sampled.
    ///
    /// Follows the sampling decision in `headers`; without one, samples at the configured rate.
    pub fn begin(&self, headers: &HeaderMap) -> Option<(SpanContext, bool)> {
        let parent = extract(headers);
        let sampled = parent.and_then(|parent| parent.sampled).unwrap_or_else(|| self.sample());
        sampled.then(|| match parent {
            Some(parent) => (SpanContext { sampled: Some(true), ..child(&parent) }, true),
            None => (root(), false),
        })
    }

    /// The root span of a new trace, sampled at the configured rate.
    pub fn begin_root(&self) -> SpanContext {
        SpanContext { sampled: Some(self.sample()), ..root() }
    }

    fn sample(&self) -> bool {
        self.threshold == u64::MAX || fastrand::u64(..) < self.threshold
    }

    /// Queues finished spans. Never waits.
    pub fn finish(&self, spans: impl IntoIterator<Item = Span>) {
        self.spans.accept_each(spans);
    }
}

/// The threshold for a sampling rate.
fn threshold(rate: f64) -> u64 {
    if rate >= 1.0 { u64::MAX } else { (rate.max(0.0) * u64::MAX as f64) as u64 }
}

/// The context of a child of `parent`.
pub fn child(parent: &SpanContext) -> SpanContext {
    SpanContext { trace: parent.trace, span: span_id(), parent: parent.span, sampled: parent.sampled }
}

fn root() -> SpanContext {
    let trace = TraceId(fastrand::u128(1..));
    SpanContext { trace, span: span_id(), parent: 0, sampled: Some(true) }
}

fn span_id() -> u64 {
    fastrand::u64(1..)
}

/// Exports the spans of the queue.
struct Export {
    exporter: Exporter,
    /// Whether the last batch failed. Only the first failure is logged.
    is_failing: bool,
}

impl AsyncSink<List<Span>> for Export {
    async fn deliver(&mut self, batch: &mut List<Span>, tally: &mut Tally) {
        let spans = batch.len();
        match self.exporter.export(batch.as_slice()).await {
            Ok(()) => {
                self.is_failing = false;
                tally.delivered(spans);
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, spans, "spans lost: export to the collector failed");
                }
                tally.give_up(error.to_string());
            }
        }
    }
}
