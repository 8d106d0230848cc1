//! A sink of records: a bounded queue, and the thread that writes it. Whoever logs never waits for a disk, a pipe or a terminal.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};

use super::sink::{Stream, Target};
use super::{LogLevel, RateLimit, format};
use crate::metrics::Counter;
use crate::rotate::os_text;
use crate::task::Task;
use crate::time::Timestamp;

/// Capacity of the queue of a sink, in bytes of records and their entries.
pub(super) const QUEUE_BYTES: usize = 4 << 20;

/// Memory of an entry beyond the text of its record.
const ENTRY_BYTES: usize = 64;

/// Why records are missing when the queue was full.
const FULL: &str = "the queue was full";

/// How long a caller waits for a rotation.
const ROTATION_TIMEOUT: Duration = Duration::from_secs(1);

/// A sink and its writer.
pub(super) struct Sink {
    shared: Arc<Shared>,
}

/// An entry of the queue, in the order in which it takes effect.
enum Entry {
    Record(LogLevel, Box<[u8]>),
    /// Text that is not a record, for example the line that announces the API.
    Text(Box<[u8]>),
    /// So many records are missing here because the queue was full.
    Lost(u64),
    /// The next records go to this target.
    Replace(Target),
    Rotate(SyncSender<io::Result<()>>),
    /// Tries whether a target that failed can be written again.
    Recover,
}

impl Entry {
    fn bytes(&self) -> usize {
        match self {
            Entry::Record(_, text) | Entry::Text(text) => text.len() + ENTRY_BYTES,
            Entry::Lost(_) | Entry::Replace(_) | Entry::Rotate(_) | Entry::Recover => 0,
        }
    }
}

struct Shared {
    name: String,
    /// Whether records of the sink itself are JSON.
    json: AtomicBool,
    /// Used by the writer only.
    target: Mutex<Target>,
    state: Mutex<State>,
    work: Condvar,
    idle: Condvar,
    errors: RateLimit,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Records left out since the last one was queued.
    lost: u64,
    /// Whether the writer holds an entry.
    is_writing: bool,
    has_writer: bool,
    closing: bool,
    /// Why the last record could not be written.
    failed: Option<String>,
    /// Records that could not be written since the last one that was.
    missing: u64,
    counter: Option<Counter>,
    /// Records lost before there was a counter.
    uncounted: u64,
}

impl State {
    fn count_lost(&mut self) {
        match &self.counter {
            Some(counter) => counter.increment(),
            None => self.uncounted += 1,
        }
    }
}

impl Sink {
    /// A sink without records. Its thread starts with the first one.
    pub(super) fn new(name: String, mut target: Target) -> Self {
        let failed = target.connect().err().map(|error| os_text(&error));
        let shared = Shared {
            name,
            json: AtomicBool::new(false),
            target: Mutex::new(target),
            state: Mutex::new(State { failed, ..State::default() }),
            work: Condvar::new(),
            idle: Condvar::new(),
            errors: RateLimit::new(1),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A path, `stdout` or `stderr`.
    pub(super) fn name(&self) -> &str {
        &self.shared.name
    }

    /// Queues a record with its line feed; one that does not fit is counted as lost.
    pub(super) fn push(&self, level: LogLevel, line: &[u8]) {
        self.queue(Entry::Record(level, line.into()));
    }

    /// Queues text that is not a record.
    pub(super) fn print(&self, text: &[u8]) {
        self.queue(Entry::Text(text.into()));
    }

    /// Writes the next records to `target`.
    pub(super) fn replace(&self, target: Target) {
        self.queue(Entry::Replace(target));
    }

    pub(super) fn set_json(&self, json: bool) {
        self.shared.json.store(json, Ordering::Relaxed);
    }

    pub(super) fn count_lost_in(&self, counter: Counter) {
        let mut state = self.shared.state.lock();
        counter.add(std::mem::take(&mut state.uncounted));
        state.counter = Some(counter);
    }

    /// Rotates the target after the records that are queued. Errors: it cannot be renamed, or the writer is too far behind.
    pub(super) fn rotate(&self) -> io::Result<()> {
        let (sender, rotated) = sync_channel(1);
        self.queue(Entry::Rotate(sender));
        let late = |_| io::Error::other("earlier records are still being written");
        rotated.recv_timeout(ROTATION_TIMEOUT).map_err(late)?
    }

    /// Errors: the target, and why the last record could not be written to it.
    pub(super) fn last_write(&self) -> Result<(), String> {
        match &self.shared.state.lock().failed {
            Some(why) => Err(format!("{}: {why}", self.shared.name)),
            None => Ok(()),
        }
    }

    /// Queues an attempt at a target that failed.
    pub(super) fn recover(&self) {
        let mut state = self.shared.state.lock();
        if state.failed.is_some() && state.entries.is_empty() && !state.is_writing {
            state.entries.push_back(Entry::Recover);
            self.wake(state);
        }
    }

    /// Waits until everything is written. Returns false if it is not at the deadline.
    pub(super) fn flush(&self, deadline: Instant) -> bool {
        let mut state = self.shared.state.lock();
        while !state.entries.is_empty() || state.is_writing || state.lost > 0 {
            if self.shared.idle.wait_until(&mut state, deadline).timed_out() {
                return state.entries.is_empty() && !state.is_writing && state.lost == 0;
            }
        }
        true
    }

    /// Cost: a lock, and a wake-up if the writer sleeps.
    fn queue(&self, entry: Entry) {
        let mut state = self.shared.state.lock();
        let bytes = entry.bytes();
        // A record that is larger than the queue is accepted while the queue is empty.
        if bytes > 0 && state.bytes > 0 && state.bytes + bytes > QUEUE_BYTES {
            state.lost += 1;
            state.count_lost();
            return;
        }
        if bytes > 0 && state.lost > 0 {
            let lost = std::mem::take(&mut state.lost);
            state.entries.push_back(Entry::Lost(lost));
        }
        state.bytes += bytes;
        state.entries.push_back(entry);
        self.wake(state);
    }

    fn wake(&self, mut state: parking_lot::MutexGuard<'_, State>) {
        if state.has_writer {
            self.shared.work.notify_one();
            return;
        }
        state.has_writer = true;
        drop(state);
        let (shared, ending) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let is_ended = move || {
            let state = ending.state.lock();
            state.closing && state.entries.is_empty()
        };
        let file = self.shared.name.rsplit('/').next().unwrap_or_default();
        let task = Task::restarted("log").of(self.shared.name.clone());
        // Without a thread the queue fills, and what does not fit is counted.
        let _ = task.spawn_thread(format!("log-{file}"), is_ended, move |fault| shared.run(|| fault.check()));
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.shared.state.lock().closing = true;
        self.shared.work.notify_one();
    }
}

impl Shared {
    /// Writes entries until the sink is dropped and its queue empty.
    fn run(&self, fault: impl Fn()) {
        // After a panic, the entry that the writer held is lost.
        if std::mem::take(&mut self.state.lock().is_writing) {
            self.state.lock().count_lost();
        }
        while let Some(entry) = self.next() {
            fault();
            self.write(entry);
        }
    }

    /// The next entry; `None` at the end.
    fn next(&self) -> Option<Entry> {
        let mut state = self.state.lock();
        state.is_writing = false;
        loop {
            if let Some(entry) = state.entries.pop_front() {
                state.bytes -= entry.bytes();
                state.is_writing = true;
                return Some(entry);
            }
            if state.lost > 0 {
                state.is_writing = true;
                return Some(Entry::Lost(std::mem::take(&mut state.lost)));
            }
            self.idle.notify_all();
            if state.closing {
                return None;
            }
            state.entries.shrink_to(1024);
            self.work.wait(&mut state);
        }
    }

    fn write(&self, entry: Entry) {
        match entry {
            Entry::Record(level, text) => self.write_record(|target| target.write(level, &text)),
            Entry::Text(text) => self.write_record(|target| target.print(&text)),
            // A note that cannot be written is counted in the next one; its records are counted already.
            Entry::Lost(count) => {
                let written = self.note(count, FULL);
                if written.is_err() {
                    self.state.lock().missing += count;
                }
            }
            Entry::Replace(target) => {
                *self.target.lock() = target;
                self.try_target();
            }
            Entry::Rotate(reply) => {
                // The caller may have stopped waiting.
                let _ = reply.send(self.target.lock().rotate());
            }
            Entry::Recover => self.try_target(),
        }
    }

    fn write_record(&self, write: impl FnOnce(&mut Target) -> io::Result<()>) {
        let written = self.recover().and_then(|()| write(&mut self.target.lock()));
        if let Err(error) = written {
            let mut state = self.state.lock();
            state.count_lost();
            state.missing += 1;
            state.failed = Some(os_text(&error));
            drop(state);
            self.report(&error);
        }
    }

    /// Tries the target without a record.
    fn try_target(&self) {
        if let Err(error) = self.recover() {
            self.state.lock().failed = Some(os_text(&error));
        }
    }

    /// Before the first record after a failure: opens the target again, and counts the records that are missing.
    fn recover(&self) -> io::Result<()> {
        self.target.lock().connect()?;
        let (missing, why) = {
            let state = self.state.lock();
            (state.missing, state.failed.clone())
        };
        if missing > 0 {
            self.note(missing, why.as_deref().unwrap_or(FULL))?;
        }
        let mut state = self.state.lock();
        (state.missing, state.failed) = (0, None);
        Ok(())
    }

    fn note(&self, count: u64, why: &str) -> io::Result<()> {
        let text = format!("{count} log records before this one could not be written: {why}");
        let line = format::note(self.json.load(Ordering::Relaxed), LogLevel::Warn, &text);
        self.target.lock().write(LogLevel::Warn, &line)
    }

    /// Reports a failure on standard error, unless that is what fails.
    fn report(&self, error: &io::Error) {
        if self.name == Stream::Error.name() || self.errors.admit().is_none() {
            return;
        }
        let now = Timestamp::from_system_time(SystemTime::now()).rfc3339_micros();
        Stream::Error.sink().print(format!("{now} log write error: {error}\n").as_bytes());
    }
}
