//! Decides what is traced, and hands finished spans to the task that sends them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::export::Exporter;
use super::{Format, Span, SpanContext, TraceId, TracingError, TracingOptions, extract};

/// Spans that wait to be sent; more are dropped.
const QUEUE: usize = 8192;
/// Spans that are sent at once.
const BATCH: usize = 100;
/// Longest wait of a span for others to be sent with.
const PAUSE: Duration = Duration::from_secs(1);

/// What became of spans.
#[derive(Debug, Default)]
pub struct SpanCounts {
    /// Taken in by the collectors.
    pub sent: AtomicU64,
    /// Not sent, because too many waited.
    pub dropped: AtomicU64,
    /// Not taken in by a collector.
    pub failed: AtomicU64,
}

/// Starts spans and takes in finished ones.
pub struct Tracer {
    spans: mpsc::Sender<Span>,
    format: Format,
    /// A new trace is kept if a random number is below this.
    threshold: u64,
    counts: Arc<SpanCounts>,
}

impl std::fmt::Debug for Tracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracer").field("format", &self.format).finish_non_exhaustive()
    }
}

/// The task that sends spans.
#[derive(Debug)]
pub struct TracerTask {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl TracerTask {
    /// Sends what waits and ends; what is not sent within `patience` is lost. Returns whether all of it was done in time.
    pub async fn close(self, patience: Duration) -> bool {
        self.stop.cancel();
        let abort = self.task.abort_handle();
        let ended = tokio::time::timeout(patience, self.task).await.is_ok();
        abort.abort();
        ended
    }
}

impl Tracer {
    /// Begins to trace for `service`; `None` if nothing is to be traced. Must be called within a tokio runtime.
    ///
    /// Errors: settings that cannot be.
    pub fn start(
        options: &TracingOptions,
        service: &'static str,
    ) -> Result<Option<(Arc<Tracer>, TracerTask)>, TracingError> {
        options.check()?;
        if !options.is_enabled() {
            return Ok(None);
        }
        let exporter = Exporter::new(options, service)?;
        let counts = Arc::new(SpanCounts::default());
        let (spans, waiting) = mpsc::channel(QUEUE);
        let stop = CancellationToken::new();
        let task = tokio::spawn(send(waiting, exporter, Arc::clone(&counts), stop.clone()));
        let format = match options {
            TracingOptions { zipkin_url, .. } if !zipkin_url.is_empty() => Format::B3,
            TracingOptions { jaeger_url, otlp_url, .. } if jaeger_url.is_empty() && !otlp_url.is_empty() => {
                Format::TraceParent
            }
            _ => Format::Uber,
        };
        let tracer = Tracer { spans, format, threshold: threshold(options.sampling_rate), counts };
        Ok(Some((Arc::new(tracer), TracerTask { stop, task })))
    }

    /// What became of spans so far.
    pub fn counts(&self) -> &Arc<SpanCounts> {
        &self.counts
    }

    /// How contexts are passed on.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The span of an incoming call, and whether its parent is the caller's; `None` if the call is not traced.
    ///
    /// A caller who decided is followed; for others chance decides.
    pub fn begin(&self, headers: &HeaderMap) -> Option<(SpanContext, bool)> {
        let caller = extract(headers);
        let sampled = caller.and_then(|caller| caller.sampled).unwrap_or_else(|| self.chance());
        sampled.then(|| match caller {
            Some(caller) => (SpanContext { sampled: Some(true), ..child(&caller) }, true),
            None => (root(), false),
        })
    }

    /// The first span of a new trace; chance decides whether it is kept.
    pub fn begin_root(&self) -> SpanContext {
        SpanContext { sampled: Some(self.chance()), ..root() }
    }

    fn chance(&self) -> bool {
        self.threshold == u64::MAX || fastrand::u64(..) < self.threshold
    }

    /// Takes in finished spans. Never waits.
    pub fn finish(&self, spans: impl IntoIterator<Item = Span>) {
        let mut dropped = 0;
        for span in spans {
            dropped += u64::from(self.spans.try_send(span).is_err());
        }
        if dropped > 0 {
            self.counts.dropped.fetch_add(dropped, Relaxed);
        }
    }
}

/// The number below which so many of all random numbers are.
fn threshold(rate: f64) -> u64 {
    if rate >= 1.0 { u64::MAX } else { (rate.max(0.0) * u64::MAX as f64) as u64 }
}

/// The context of a part of `parent`'s work.
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

/// Sends spans in batches until told to stop, and then what still waits.
async fn send(
    mut waiting: mpsc::Receiver<Span>,
    exporter: Exporter,
    counts: Arc<SpanCounts>,
    stop: CancellationToken,
) {
    let mut failing = false;
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let first = tokio::select! {
            received = waiting.recv_many(&mut batch, BATCH) => received,
            () = stop.cancelled() => {
                waiting.close();
                waiting.recv_many(&mut batch, BATCH).await
            }
        };
        if first == 0 {
            return;
        }
        if !stop.is_cancelled() {
            tokio::select! {
                () = fill(&mut waiting, &mut batch) => {}
                () = tokio::time::sleep(PAUSE) => {}
                () = stop.cancelled() => {}
            }
        }
        let spans = batch.len() as u64;
        match exporter.export(&batch).await {
            Ok(()) => {
                failing = false;
                counts.sent.fetch_add(spans, Relaxed);
            }
            Err(error) => {
                counts.failed.fetch_add(spans, Relaxed);
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, spans, "spans are lost: the collector does not take them");
                }
            }
        }
        batch.clear();
    }
}

/// Takes spans until a batch is full or no more will come.
async fn fill(waiting: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) {
    while let Some(room) = BATCH.checked_sub(batch.len()).filter(|room| *room > 0) {
        if waiting.recv_many(batch, room).await == 0 {
            return;
        }
    }
}
