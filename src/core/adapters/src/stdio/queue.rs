//! A write queue with its own thread, so that workers never wait for a disk or a terminal.
//!
//! Reports append their lines to one buffer; the writer swaps it for an empty one and writes the lines of all reports since at
//! once. The buffer is bounded, by its own size and by the memory that all queues of the server share: lines that do not fit are dropped
//! and counted, and no report waits. Lines are written in order of arrival, and queued lines are written before the handler is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::batch::Batch;
use super::sink::Sink;
use mixer_base::budget::Account;
use mixer_base::log::RateLimit;
use mixer_base::metrics::Counter;
use mixer_base::task::{FaultPoint, Task};
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

/// A bounded queue of lines.
pub(super) struct WriteQueue {
    shared: Arc<SharedQueue>,
    ended: watch::Receiver<bool>,
}

struct SharedQueue {
    handler: Arc<str>,
    sink: Sink,
    bound: usize,
    /// The memory of both buffers.
    memory: Account,
    losses: Losses,
    state: Mutex<QueueState>,
    work: Condvar,
    ended: watch::Sender<bool>,
    warnings: RateLimit,
    /// Lines that the writer holds; lost if it panics.
    in_progress: AtomicU64,
    /// The memory of the buffer of the writer; freed if it panics.
    in_use: AtomicUsize,
}

#[derive(Default)]
struct QueueState {
    waiting: Batch,
    writer: WriterState,
    closing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum WriterState {
    /// No line has arrived.
    #[default]
    NotStarted,
    /// Waits for lines.
    Asleep,
    /// Checks for lines before it sleeps again.
    Awake,
    /// Has written all lines.
    Ended,
}

impl WriteQueue {
    /// A queue of at most `bound` bytes. Its thread starts with the first line.
    pub(super) fn new(handler: &Arc<str>, sink: Sink, bound: usize, memory: Account, losses: Losses) -> Self {
        let (sender, ended) = watch::channel(false);
        let shared = SharedQueue {
            handler: Arc::clone(handler),
            sink,
            bound,
            memory,
            losses,
            state: Mutex::default(),
            work: Condvar::new(),
            ended: sender,
            warnings: RateLimit::new(1),
            in_progress: AtomicU64::new(0),
            in_use: AtomicUsize::new(0),
        };
        Self { shared: Arc::new(shared), ended }
    }

    /// Queues all lines of a batch, or drops them all. Cost: a copy, a lock, and a wake-up if the writer sleeps.
    pub(super) fn push(&self, batch: &Batch) {
        let shared = &self.shared;
        let mut state = shared.state.lock();
        // A report larger than the queue is accepted while the queue is empty.
        let fits = state.waiting.is_empty() || state.waiting.len() + batch.len() <= shared.bound;
        if !(fits && shared.reserve(&mut state.waiting, batch)) {
            drop(state);
            shared.losses.dropped.add(batch.line_count() as u64);
            if let Some(suppressed) = shared.warnings.admit() {
                let (handler, bytes) = (&*shared.handler, shared.bound);
                tracing::warn!(handler, bytes, suppressed, "lines are dropped because their queue is full");
            }
            return;
        }
        state.waiting.append(batch);
        match state.writer {
            WriterState::Awake => {}
            WriterState::Asleep => {
                state.writer = WriterState::Awake;
                shared.work.notify_one();
            }
            WriterState::NotStarted => {
                state.writer = WriterState::Awake;
                drop(state);
                self.start();
            }
            // Reports to a closed handler are unexpected; their lines are written all the same.
            WriterState::Ended => {
                let late = std::mem::take(&mut state.waiting);
                drop(state);
                shared.write(&late);
                shared.memory.release(late.memory());
            }
        }
    }

    /// Length, capacity and losses.
    pub(super) fn status(&self) -> QueueStatus {
        QueueStatus {
            name: "bytes to be written".to_owned(),
            length: self.shared.state.lock().waiting.len(),
            capacity: self.shared.bound,
            dropped: self.shared.losses.dropped.get(),
        }
    }

    /// Lines that could not be written.
    pub(super) fn lost(&self) -> u64 {
        self.shared.losses.lost.get()
    }

    fn start(&self) {
        let shared = Arc::clone(&self.shared);
        let name = format!("stdio-{}", shared.handler);
        let ended = self.ended.clone();
        let task = Task::restarted("stdio writer").of(&*shared.handler);
        let stop = move || *ended.borrow();
        if task.spawn_thread(name, stop, move |fault| shared.run(fault)).is_err() {
            // Without a thread, workers write the lines.
            let mut state = self.shared.state.lock();
            state.writer = WriterState::Ended;
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            self.shared.write(&waiting);
            self.shared.memory.release(waiting.memory());
            self.shared.ended.send_replace(true);
        }
    }

    /// Writes the queued lines within `deadline`. Returns whether all were written.
    pub(super) async fn close(&self, deadline: Duration) -> bool {
        self.shared.close();
        let mut ended = self.ended.clone();
        tokio::time::timeout(deadline, ended.wait_for(|ended| *ended)).await.is_ok()
    }
}

impl Drop for WriteQueue {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl SharedQueue {
    /// Allocates memory for the lines of `batch`. Returns false if the share of the queues has none.
    fn reserve(&self, waiting: &mut Batch, batch: &Batch) -> bool {
        let growth = waiting.growth(batch);
        let acquired = self.memory.acquire(growth.size());
        if acquired {
            let before = waiting.memory() + growth.size();
            waiting.grow(growth);
            debug_assert_eq!(waiting.memory(), before);
        }
        acquired
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.closing = true;
        if state.writer == WriterState::NotStarted {
            state.writer = WriterState::Ended;
            drop(state);
            self.ended.send_replace(true);
        } else {
            self.work.notify_one();
        }
    }

    /// Runs the writer until the queue is closed and empty.
    fn run(&self, fault: &FaultPoint<'_>) {
        self.losses.lost.add(self.in_progress.swap(0, Ordering::Relaxed));
        self.memory.release(self.in_use.swap(0, Ordering::Relaxed));
        let mut batch = Batch::default();
        loop {
            fault.check();
            let mut state = self.state.lock();
            while state.waiting.is_empty() && !state.closing {
                state.writer = WriterState::Asleep;
                // Free the memory of a burst.
                let before = batch.memory() + state.waiting.memory();
                batch.clear();
                state.waiting.clear();
                self.memory.release(before - batch.memory() - state.waiting.memory());
                self.in_use.store(batch.memory(), Ordering::Relaxed);
                self.work.wait(&mut state);
            }
            state.writer = WriterState::Awake;
            if state.waiting.is_empty() {
                state.writer = WriterState::Ended;
                break;
            }
            if !state.closing && state.waiting.len() < ENOUGH.min(self.bound / 4) {
                self.work.wait_for(&mut state, GATHER);
            }
            std::mem::swap(&mut batch, &mut state.waiting);
            drop(state);
            self.in_use.store(batch.memory(), Ordering::Relaxed);
            self.in_progress.store(batch.line_count() as u64, Ordering::Relaxed);
            self.write(&batch);
            self.in_progress.store(0, Ordering::Relaxed);
            batch.reuse();
        }
        self.ended.send_replace(true);
    }

    fn write(&self, batch: &Batch) {
        let mut errors = Vec::new();
        let lost = self.sink.write(batch, &mut errors);
        self.losses.lost.add(lost);
        if let Some(error) = errors.first()
            && let Some(suppressed) = self.warnings.admit()
        {
            tracing::warn!(handler = &*self.handler, lines = lost, suppressed, "lines are lost: {error}");
        }
    }
}
