//! The write queue: lines on their way to the thread that writes them, so that workers never wait for a disk or a terminal.
//!
//! Reports append their lines to one buffer; the writer swaps it for an empty one and writes the lines of all reports since at
//! once. The buffer is bounded, by its own size and by the memory that all queues of the server share: lines that do not fit are dropped
//! and counted, and no report waits, unless `whenFull` says otherwise. Lines are written in order of arrival, and queued lines are written before the handler is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::sink::Sink;
use crate::lines::Lines;
use mixer_base::budget::Share;
use mixer_base::log::RateLimit;
use mixer_base::metrics::Counter;
use mixer_delivery::{
    Batching, BlockingSink, Bounds, Delivery, HandedOver, Holds, Items as _, LossCounters, Settings, Tally,
    WhenFull,
};
use mixer_engine::adapter::QueueStatus;

/// How long a woken writer waits for more lines.
const GATHER: Duration = Duration::from_millis(2);
/// Bytes at which it stops waiting.
pub(super) const ENOUGH: usize = 256 << 10;

/// Counters of losses.
#[derive(Debug, Clone)]
pub(super) struct Losses {
    /// Lines that did not fit into the queue.
    pub(super) dropped: Counter,
    /// Lines that could not be written.
    pub(super) lost: Counter,
}

/// Whether lines are lost now: how many of the last batch. The counters are those of all handlers that had the name.
#[derive(Debug, Default)]
pub(super) struct LostNow(AtomicU64);

impl LostNow {
    /// Notes what was lost of a batch.
    pub(super) fn note(&self, lines: u64) {
        self.0.store(lines, Ordering::Relaxed);
    }

    /// What keeps the handler from its work, if lines of its last batch were lost.
    pub(super) fn trouble(&self) -> Option<String> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            1 => Some("the last line could not be written".to_owned()),
            lines => Some(format!("the last {lines} lines could not be written")),
        }
    }
}

/// A bounded queue of lines.
pub(super) struct WriteQueue {
    delivery: Arc<Delivery<Lines>>,
    handler: Arc<str>,
    bound: usize,
    losses: Losses,
    lost_now: Arc<LostNow>,
    warnings: Arc<RateLimit>,
}

impl WriteQueue {
    /// A queue of at most `bound` bytes, whose buffers take memory of `share`. Its thread starts with the first line.
    pub(super) fn new(
        handler: &Arc<str>,
        sink: Sink,
        bound: usize,
        when_full: WhenFull,
        share: &Arc<Share>,
        holds: &Holds,
        losses: Losses,
    ) -> Self {
        let warnings = Arc::new(RateLimit::new(1));
        let settings = Settings {
            // A report larger than the queue is accepted while the queue is empty.
            bounds: Bounds { items: usize::MAX, bytes: bound, takes_larger: true },
            memory: Some(Arc::clone(share)),
            when_full,
            batching: Batching { items: usize::MAX, bytes: ENOUGH.min(bound / 4), wait: GATHER },
            losses: LossCounters { full: Some(losses.dropped.clone()), failed: Some(losses.lost.clone()) },
            holds: holds.clone(),
            ..Settings::default()
        };
        let lost_now = Arc::<LostNow>::default();
        let writer = Writer {
            handler: Arc::clone(handler),
            sink,
            lost_now: Arc::clone(&lost_now),
            warnings: Arc::clone(&warnings),
        };
        let thread = format!("stdio-{handler}");
        Self {
            delivery: Arc::new(Delivery::on_thread("stdio writer", &**handler, thread, settings, writer)),
            handler: Arc::clone(handler),
            bound,
            losses,
            lost_now,
            warnings,
        }
    }

    /// Queues all lines of a batch, drops them all, or lets them wait for room. Cost: a copy, a lock, and a wake-up if the writer sleeps.
    pub(super) fn push(&self, batch: &Lines) -> HandedOver {
        let handed_over = self.delivery.hand_over_all(batch, Lines::to_owned_lines);
        if matches!(handed_over, HandedOver::Now { dropped: 1.. })
            && let Some(suppressed) = self.warnings.admit()
        {
            let (handler, bytes) = (&*self.handler, self.bound);
            tracing::warn!(handler, bytes, suppressed, "lines are dropped because their queue is full");
        }
        handed_over
    }

    /// Length, capacity and losses.
    pub(super) fn status(&self) -> QueueStatus {
        QueueStatus {
            name: "bytes to be written".to_owned(),
            length: self.delivery.status().queued_bytes,
            capacity: self.bound,
            dropped: self.losses.dropped.get(),
        }
    }

    /// Whether lines are lost now.
    pub(super) fn lost_now(&self) -> &LostNow {
        &self.lost_now
    }

    /// Writes the queued lines within `deadline`. Returns whether all were written.
    pub(super) async fn close(&self, deadline: Duration) -> bool {
        self.delivery.close(deadline).await
    }
}

/// Writes the lines of the queue.
struct Writer {
    handler: Arc<str>,
    sink: Sink,
    lost_now: Arc<LostNow>,
    warnings: Arc<RateLimit>,
}

impl BlockingSink<Lines> for Writer {
    fn deliver(&mut self, batch: &mut Lines, tally: &mut Tally) {
        let mut errors = Vec::new();
        let lost = self.sink.write(batch, &mut errors);
        self.lost_now.note(lost);
        tally.delivered(batch.len().saturating_sub(usize::try_from(lost).unwrap_or(usize::MAX)));
        let Some(error) = errors.into_iter().next() else { return };
        if let Some(suppressed) = self.warnings.admit() {
            tracing::warn!(handler = &*self.handler, lines = lost, suppressed, "lines are lost: {error}");
        }
        tally.give_up(error);
    }
}
