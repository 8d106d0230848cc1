//! Writes lines on a thread of its own, so that no worker ever waits for a disk or a terminal.
//!
//! Reports put their lines into one buffer; the writer swaps it for an empty one and writes the lines of all reports that came
//! meanwhile at once. The buffer has a bound: a report whose lines have no room is dropped and counted, nothing waits. Lines are
//! written in the order they were taken in, and what was taken in is written before the handler is closed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::sink::{Batch, Sink};
use mixer_base::log::RateLimit;
use mixer_base::metrics::Counter;
use mixer_engine::adapter::QueueStatus;

/// How long the writer lets lines gather once it is woken.
const GATHER: Duration = Duration::from_millis(2);
/// Bytes for which it waits no longer.
const ENOUGH: usize = 256 << 10;

/// Where problems are counted.
#[derive(Debug, Clone)]
pub(super) struct Losses {
    /// Lines that had no room.
    pub(super) dropped: Counter,
    /// Lines that could not be written.
    pub(super) lost: Counter,
}

/// Lines on their way to a sink.
pub(super) struct WriteQueue {
    shared: Arc<Shared>,
    ended: watch::Receiver<bool>,
}

struct Shared {
    handler: Arc<str>,
    sink: Sink,
    bound: usize,
    losses: Losses,
    state: Mutex<State>,
    work: Condvar,
    ended: watch::Sender<bool>,
    complaints: RateLimit,
}

#[derive(Default)]
struct State {
    waiting: Batch,
    writer: Writer,
    closing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Writer {
    /// No line has come yet.
    #[default]
    NotStarted,
    /// It waits for lines.
    Asleep,
    /// It looks for lines before it sleeps again.
    Awake,
    /// It has written everything.
    Ended,
}

impl WriteQueue {
    /// A queue of at most `bound` bytes. Its thread begins with the first line.
    pub(super) fn new(handler: &Arc<str>, sink: Sink, bound: usize, losses: Losses) -> Self {
        let (sender, ended) = watch::channel(false);
        let shared = Shared {
            handler: Arc::clone(handler),
            sink,
            bound,
            losses,
            state: Mutex::default(),
            work: Condvar::new(),
            ended: sender,
            complaints: RateLimit::new(1),
        };
        Self { shared: Arc::new(shared), ended }
    }

    /// Takes lines in, or drops all of them. Cost: a copy, a lock, and a wake-up if the writer sleeps.
    pub(super) fn push(&self, batch: &Batch) {
        let shared = &self.shared;
        let mut state = shared.state.lock();
        // One report that is larger than the queue must not be lost for ever.
        let has_room = state.waiting.is_empty() || state.waiting.len() + batch.len() <= shared.bound;
        if !has_room {
            drop(state);
            shared.losses.dropped.add(batch.lines().count() as u64);
            if let Some(suppressed) = shared.complaints.admit() {
                let (handler, bytes) = (&*shared.handler, shared.bound);
                tracing::warn!(handler, bytes, suppressed, "lines are dropped because their queue is full");
            }
            return;
        }
        state.waiting.append(batch);
        match state.writer {
            Writer::Awake => {}
            Writer::Asleep => {
                state.writer = Writer::Awake;
                shared.work.notify_one();
            }
            Writer::NotStarted => {
                state.writer = Writer::Awake;
                drop(state);
                self.start();
            }
            // Nobody should report to a closed handler; if somebody does, nothing is lost.
            Writer::Ended => {
                let late = std::mem::take(&mut state.waiting);
                drop(state);
                shared.write(&late);
            }
        }
    }

    /// How full it is.
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
        if std::thread::Builder::new().name(name).spawn(move || shared.run()).is_err() {
            // Without a thread, lines are written where they come from.
            let mut state = self.shared.state.lock();
            state.writer = Writer::Ended;
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            self.shared.write(&waiting);
            self.shared.ended.send_replace(true);
        }
    }

    /// Writes what was taken in, at most until `deadline` has passed; says whether that was all.
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

impl Shared {
    fn close(&self) {
        let mut state = self.state.lock();
        state.closing = true;
        if state.writer == Writer::NotStarted {
            state.writer = Writer::Ended;
            drop(state);
            self.ended.send_replace(true);
        } else {
            self.work.notify_one();
        }
    }

    /// The life of the writer.
    fn run(&self) {
        let mut batch = Batch::default();
        loop {
            let mut state = self.state.lock();
            while state.waiting.is_empty() && !state.closing {
                state.writer = Writer::Asleep;
                // The memory of a burst goes when it is over.
                batch.clear();
                state.waiting.clear();
                self.work.wait(&mut state);
            }
            state.writer = Writer::Awake;
            if state.waiting.is_empty() {
                state.writer = Writer::Ended;
                break;
            }
            if !state.closing && state.waiting.len() < ENOUGH.min(self.bound / 4) {
                self.work.wait_for(&mut state, GATHER);
            }
            std::mem::swap(&mut batch, &mut state.waiting);
            drop(state);
            self.write(&batch);
            batch.reuse();
        }
        self.ended.send_replace(true);
    }

    fn write(&self, batch: &Batch) {
        let mut errors = Vec::new();
        let lost = self.sink.write(batch, &mut errors);
        self.losses.lost.add(lost);
        if let Some(error) = errors.first()
            && let Some(suppressed) = self.complaints.admit()
        {
            tracing::warn!(handler = &*self.handler, lines = lost, suppressed, "lines are lost: {error}");
        }
    }
}
