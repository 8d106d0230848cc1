//! The decision log and the recording: from the workers through a queue to files.

use std::io::{self, BufRead as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use parking_lot::Mutex;

use super::mask::MaskSet;
use super::{AnswerFailure, CallerText, Decision, DecisionOptions, Method, Select};
use crate::dispatch::DispatchTrace;
use mixer_base::metrics::{Counter, Family, Metrics};
use mixer_base::rotate::{RotatingFile, RotationPolicy, os_text};
use mixer_base::sample::Sampler;

/// Bytes of requests and answers that may wait, whatever their number.
const MAX_WAITING_BYTES: usize = 32 << 20;
/// How long lines are gathered before they are written.
const FLUSH_INTERVAL: Duration = Duration::from_millis(200);
/// How often the log says that a file cannot be written.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);

/// Why the decision log could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LogError(pub String);

/// What is wanted of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    log: bool,
    record: bool,
}

/// The message of an answer, without its framing.
#[derive(Debug, Clone)]
pub struct CallAnswer(pub Bytes);

/// A call that was answered, as the workers know it.
#[derive(Debug, Clone)]
pub struct Call {
    /// What was called.
    pub method: Method,
    /// When.
    pub time: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// Who called, if that is known.
    pub caller: Option<CallerText>,
    /// The request.
    pub body: Bytes,
    /// The answer, or why the call failed.
    pub answer: Result<CallAnswer, AnswerFailure>,
    /// What happened.
    pub trace: DispatchTrace,
}

impl Call {
    fn size(&self) -> usize {
        let answer = self.answer.as_ref().map_or(0, |answer| answer.0.len());
        self.body.len() + answer + self.trace.dispatches.len() * 256 + 256
    }
}

/// What goes through the queue.
enum Item {
    Call(Box<Call>, Wanted),
    /// Nothing comes after.
    End,
}

/// Takes calls that were answered and writes what is wanted of them. Shared by all workers.
pub struct DecisionLog {
    /// Of the log; `None` without one.
    sampler: Option<Sampler>,
    /// The recording takes more.
    recording: Arc<AtomicBool>,
    queue: SyncSender<Item>,
    waiting_bytes: Arc<AtomicUsize>,
    lost: Counter,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for DecisionLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DecisionLog").finish_non_exhaustive()
    }
}

impl DecisionLog {
    /// Opens the files and starts the thread that writes them; `None` if nothing is to be written.
    ///
    /// Errors: a setting that makes no sense, a file that cannot be opened.
    pub fn start(options: &DecisionOptions, metrics: &Metrics) -> Result<Option<Self>, LogError> {
        if !options.is_enabled() {
            return Ok(None);
        }
        options.check().map_err(|error| LogError(error.0))?;
        let masks = MaskSet::parse(&options.masks).map_err(LogError)?;
        let log = match options.log.path.as_os_str().is_empty() {
            true => None,
            false => {
                touch(&options.log.path, "decision log")?;
                let policy = RotationPolicy {
                    max_bytes: options.log.max_bytes,
                    max_age: None,
                    max_backups: (options.log.max_backups > 0).then_some(options.log.max_backups),
                };
                Some(RotatingFile::new(options.log.path.clone(), policy).private())
            }
        };
        let recording = match options.recording.path.as_os_str().is_empty() {
            true => None,
            false => Some(Recording::open(options)?),
        };
        let going = Arc::new(AtomicBool::new(recording.as_ref().is_some_and(Recording::has_room)));
        let (queue, incoming) = sync_channel(options.queue);
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let lost = |reason| metrics.counter(Family::DecisionsLost, &[reason]);
        let written = |file| metrics.counter(Family::DecisionsWritten, &[file]);
        let sampler = log.is_some().then(|| Sampler::new(options.log.sampling));
        let writer = Writer {
            masks,
            select: options.log.select,
            log,
            recording,
            going: Arc::clone(&going),
            waiting_bytes: Arc::clone(&waiting_bytes),
            lost: lost("file"),
            logged: written("log"),
            recorded: written("recording"),
            complained: None,
        };
        let thread = std::thread::Builder::new()
            .name("decisions".to_owned())
            .spawn(move || writer.run(&incoming))
            .map_err(|error| LogError(format!("cannot start a thread for decisions: {}", os_text(&error))))?;
        let thread = Mutex::new(Some(thread));
        Ok(Some(Self { sampler, recording: going, queue, waiting_bytes, lost: lost("queue"), thread }))
    }

    /// Whether a call is to be written down; ask before it is carried out. Cost: a random number.
    #[inline]
    pub fn wants(&self, method: Method) -> Option<Wanted> {
        let log = method != Method::Report && self.sampler.is_some_and(Sampler::take);
        // Limits are not put again: what they count is not in the configuration.
        let record = method != Method::Limit && self.recording.load(Ordering::Relaxed);
        (log || record).then_some(Wanted { log, record })
    }

    /// Takes a call that was answered. Never waits: when the queue is full the call is counted as lost.
    pub fn push(&self, call: Call, wanted: Wanted) {
        let size = call.size();
        let waiting = self.waiting_bytes.fetch_add(size, Ordering::Relaxed);
        if waiting + size <= MAX_WAITING_BYTES
            && self.queue.try_send(Item::Call(Box::new(call), wanted)).is_ok()
        {
            return;
        }
        self.waiting_bytes.fetch_sub(size, Ordering::Relaxed);
        self.lost.increment();
    }

    /// Writes what waits and closes the files. Blocks until that is done.
    pub fn close(&self) {
        let Some(thread) = self.thread.lock().take() else { return };
        // The thread ends by itself only when it is told to, so somebody takes this.
        let told = self.queue.send(Item::End).is_ok();
        let ended = thread.join().is_ok();
        debug_assert!(told && ended);
    }
}

/// Makes sure that a file can be written, and that only its owner can read it if it is new.
fn touch(path: &Path, what: &str) -> Result<(), LogError> {
    let refuse =
        |error: &io::Error| LogError(format!("cannot open {what} `{}`: {}", path.display(), os_text(error)));
    if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory).map_err(|error| refuse(&error))?;
    }
    mixer_base::rotate::append_private(path).map(drop).map_err(|error| refuse(&error))
}

/// The file of a recording and what fits into it.
struct Recording {
    file: RotatingFile,
    calls_left: u64,
    bytes_left: u64,
}

impl Recording {
    fn open(options: &DecisionOptions) -> Result<Self, LogError> {
        let path = &options.recording.path;
        touch(path, "recording")?;
        let (calls, bytes) = held(path).map_err(|error| {
            LogError(format!("cannot read recording `{}`: {}", path.display(), os_text(&error)))
        })?;
        // The bounds are ours: the file is full before it would be rotated.
        let policy = RotationPolicy { max_bytes: u64::MAX, max_age: None, max_backups: None };
        Ok(Self {
            file: RotatingFile::new(path.clone(), policy).private(),
            calls_left: options.recording.max_calls.saturating_sub(calls),
            bytes_left: options.recording.max_bytes.saturating_sub(bytes),
        })
    }

    fn has_room(&self) -> bool {
        self.calls_left > 0 && self.bytes_left > 0
    }

    /// Writes a line if it fits; what does not fit ends the recording. Returns whether it was written.
    fn push(&mut self, line: &[u8]) -> io::Result<bool> {
        if self.calls_left == 0 || line.len() as u64 > self.bytes_left {
            self.calls_left = 0;
            return Ok(false);
        }
        self.calls_left -= 1;
        self.bytes_left -= line.len() as u64;
        self.file.push(line).map(|()| true)
    }
}

/// Lines and bytes of a file.
fn held(path: &Path) -> io::Result<(u64, u64)> {
    let mut reader = io::BufReader::new(std::fs::File::open(path)?);
    let (mut lines, mut bytes) = (0, 0);
    loop {
        let available = reader.fill_buf()?;
        if available.is_empty() {
            return Ok((lines, bytes));
        }
        lines += available.iter().filter(|byte| **byte == b'\n').count() as u64;
        bytes += available.len() as u64;
        let taken = available.len();
        reader.consume(taken);
    }
}

/// The thread that writes.
struct Writer {
    masks: MaskSet,
    select: Select,
    log: Option<RotatingFile>,
    recording: Option<Recording>,
    going: Arc<AtomicBool>,
    waiting_bytes: Arc<AtomicUsize>,
    lost: Counter,
    logged: Counter,
    recorded: Counter,
    complained: Option<Instant>,
}

impl Writer {
    fn run(mut self, incoming: &Receiver<Item>) {
        let mut dirty = false;
        let mut flushed = Instant::now();
        loop {
            match incoming.recv_timeout(FLUSH_INTERVAL) {
                Ok(Item::Call(call, wanted)) => {
                    self.waiting_bytes.fetch_sub(call.size(), Ordering::Relaxed);
                    self.write(&call, wanted);
                    dirty = true;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Item::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
            if dirty && flushed.elapsed() >= FLUSH_INTERVAL {
                self.flush();
                dirty = false;
                flushed = Instant::now();
            }
        }
        self.flush();
    }

    fn write(&mut self, call: &Call, wanted: Wanted) {
        let decision = Decision::of(call, &self.masks);
        let Ok(mut line) = serde_json::to_vec(&decision) else { return };
        line.push(b'\n');
        let mut outcome = Ok(());
        if let Some(log) = &mut self.log
            && wanted.log
            && (self.select == Select::All || decision.is_denial())
        {
            outcome = log.push(&line);
            if outcome.is_ok() {
                self.logged.increment();
            }
        }
        if let Some(recording) = &mut self.recording
            && wanted.record
        {
            match recording.push(&line) {
                Ok(true) => self.recorded.increment(),
                Ok(false) => {}
                Err(error) => outcome = Err(error),
            }
            if !recording.has_room() && self.going.swap(false, Ordering::Relaxed) {
                tracing::info!("the recording of requests is full and has ended");
            }
        }
        if let Err(error) = outcome {
            self.complain(&error);
        }
    }

    fn flush(&mut self) {
        let files = self.log.iter_mut().chain(self.recording.iter_mut().map(|recording| &mut recording.file));
        let failures: Vec<io::Error> = files.filter_map(|file| file.flush().err()).collect();
        for error in &failures {
            self.complain(error);
        }
    }

    fn complain(&mut self, error: &io::Error) {
        self.lost.increment();
        if self.complained.is_none_or(|at| at.elapsed() >= COMPLAINT_INTERVAL) {
            self.complained = Some(Instant::now());
            tracing::error!("decisions cannot be written: {}", os_text(error));
        }
    }
}

#[cfg(test)]
mod tests;
