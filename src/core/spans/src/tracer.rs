//! Samples calls and queues finished spans for the export task.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use mixer_base::budget::{Account, Charge, Share};
use mixer_base::task::Task;

use super::export::Exporter;
use super::{Format, Span, SpanContext, TraceId, TracingError, TracingOptions, extract};

/// Capacity of the queue, in spans; spans beyond it are dropped.
const QUEUE_CAPACITY: usize = 8192;
/// Maximum batch size, in spans.
const BATCH: usize = 100;
/// Maximum wait for a full batch.
const BATCH_TIMEOUT: Duration = Duration::from_secs(1);

/// Counters of the export.
#[derive(Debug, Default)]
pub struct SpanCounts {
    /// Spans that every collector accepted.
    pub sent: AtomicU64,
    /// Spans dropped because the queue was full.
    pub dropped: AtomicU64,
    /// Spans that a collector did not accept.
    pub failed: AtomicU64,
}

/// A span with its memory.
type QueuedSpan = (Span, Charge);

/// Samples calls and queues their finished spans.
pub struct Tracer {
    spans: mpsc::Sender<QueuedSpan>,
    /// The memory of the spans in the queue, and of the batch that is being exported.
    memory: Arc<Account>,
    format: Format,
    /// A new trace is sampled if a random number is below this.
    threshold: u64,
    counts: Arc<SpanCounts>,
}

impl std::fmt::Debug for Tracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracer").field("format", &self.format).finish_non_exhaustive()
    }
}

/// The export task.
#[derive(Debug)]
pub struct TracerTask {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl TracerTask {
    /// Exports the queue and ends the task. Spans that are not exported within `deadline` are lost. Returns whether all were exported
    /// in time.
    pub async fn close(self, deadline: Duration) -> bool {
        self.stop.cancel();
        let abort = self.task.abort_handle();
        let ended = tokio::time::timeout(deadline, self.task).await.is_ok();
        abort.abort();
        ended
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
        let counts = Arc::new(SpanCounts::default());
        let (spans, queue) = mpsc::channel(QUEUE_CAPACITY);
        let stop = CancellationToken::new();
        let pending = Mutex::new((queue, Batch::default()));
        let exported = Arc::new((pending, exporter, Arc::clone(&counts)));
        let stopped = stop.clone();
        let task = Task::restarted("span export").spawn(stop.clone(), move || {
            let (exported, stopped) = (Arc::clone(&exported), stopped.clone());
            async move {
                let (pending, exporter, counts) = &*exported;
                let (queue, batch) = &mut *pending.lock().await;
                // The batch of an export that panicked.
                counts.failed.fetch_add(batch.spans.len() as u64, Relaxed);
                batch.clear();
                export(queue, batch, exporter, counts, stopped).await;
            }
        });
        let format = match options {
            TracingOptions { zipkin_url, .. } if !zipkin_url.is_empty() => Format::B3,
            TracingOptions { jaeger_url, otlp_url, .. } if jaeger_url.is_empty() && !otlp_url.is_empty() => {
                Format::TraceParent
            }
            _ => Format::Uber,
        };
        let memory = Arc::new(share.open());
        let tracer = Tracer { spans, memory, format, threshold: threshold(options.sampling_rate), counts };
        Ok(Some((Arc::new(tracer), TracerTask { stop, task })))
    }

    /// Counters of the export.
    pub fn counts(&self) -> &Arc<SpanCounts> {
        &self.counts
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
        let mut dropped = 0;
        for span in spans {
            let charge = self.memory.charge(span.size());
            let queued = charge.is_some_and(|charge| self.spans.try_send((span, charge)).is_ok());
            dropped += u64::from(!queued);
        }
        if dropped > 0 {
            self.counts.dropped.fetch_add(dropped, Relaxed);
        }
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

/// Exports batches until `stop` is cancelled, and then the rest of the queue.
async fn export(
    queue: &mut mpsc::Receiver<QueuedSpan>,
    batch: &mut Batch,
    exporter: &Exporter,
    counts: &SpanCounts,
    stop: CancellationToken,
) {
    let mut failing = false;
    loop {
        let first = tokio::select! {
            received = batch.fill(queue) => received,
            () = stop.cancelled() => {
                queue.close();
                batch.fill(queue).await
            }
        };
        if !first {
            return;
        }
        if !stop.is_cancelled() {
            tokio::select! {
                () = async { while batch.fill(queue).await {} } => {}
                () = tokio::time::sleep(BATCH_TIMEOUT) => {}
                () = stop.cancelled() => {}
            }
        }
        let spans = batch.spans.len() as u64;
        match exporter.export(&batch.spans).await {
            Ok(()) => {
                failing = false;
                counts.sent.fetch_add(spans, Relaxed);
            }
            Err(error) => {
                counts.failed.fetch_add(spans, Relaxed);
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, spans, "spans lost: export to the collector failed");
                }
            }
        }
        batch.clear();
    }
}

/// Spans that are exported together.
#[derive(Default)]
struct Batch {
    spans: Vec<Span>,
    /// The memory of the spans, while they are exported.
    charges: Vec<Charge>,
    received: Vec<QueuedSpan>,
}

impl Batch {
    /// Adds the spans of the queue, up to the size of a batch; waits for the first. Returns false if the batch is full or the queue closed.
    async fn fill(&mut self, queue: &mut mpsc::Receiver<QueuedSpan>) -> bool {
        let room = BATCH.saturating_sub(self.spans.len());
        if room == 0 || queue.recv_many(&mut self.received, room).await == 0 {
            return false;
        }
        for (span, charge) in self.received.drain(..) {
            self.spans.push(span);
            self.charges.push(charge);
        }
        true
    }

    fn clear(&mut self) {
        self.spans.clear();
        self.charges.clear();
    }
}
