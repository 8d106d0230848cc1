//! The decision log and the recording: from the workers through a queue to files.

use std::io::{self, BufRead as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::call::{AnsweredCall, Method};
use super::mask::MaskSet;
use super::{Decision, DecisionOptions, Select};
use mixer_base::budget::{Account, Charge, Share};
use mixer_base::metrics::{Counter, Family, Metrics};
use mixer_base::regular_file;
use mixer_base::rotate::{RotatingFile, RotationPolicy, os_text};
use mixer_base::sample::Sampler;
use mixer_base::task::{FaultPoint, Task};

/// Longest time that a line stays buffered.
const FLUSH_INTERVAL: Duration = Duration::from_millis(200);
/// Least time between log lines about a file that cannot be written.
const ERROR_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Why the decision log could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LogError(pub String);

/// Which files a call is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionTargets {
    log: bool,
    record: bool,
}

/// An item of the queue.
enum QueueItem {
    Call(Box<AnsweredCall>, DecisionTargets, Charge),
    /// The last item.
    End,
}

/// Writes sampled calls to the decision log and the recording. Shared by all workers.
pub struct DecisionLog {
    /// The sampler of the log; `None` without a log.
    sampler: Option<Sampler>,
    /// Whether the recording has room.
    recording: Arc<AtomicBool>,
    queue: SyncSender<QueueItem>,
    /// The memory of the calls in the queue, and of the one that is being written.
    memory: Arc<Account>,
    lost: Counter,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for DecisionLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DecisionLog").finish_non_exhaustive()
    }
}

impl DecisionLog {
    /// Opens the files and starts the writer thread; `None` if no file is configured. Queued calls take memory of `share`.
    ///
    /// Errors: an invalid setting, a file that cannot be opened.
    pub fn start(
        options: &DecisionOptions,
        share: &Arc<Share>,
        metrics: &Metrics,
    ) -> Result<Option<Self>, LogError> {
        if !options.is_enabled() {
            return Ok(None);
        }
        options.check().and_then(|()| options.check_directories()).map_err(|error| LogError(error.0))?;
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
        let has_room = Arc::new(AtomicBool::new(recording.as_ref().is_some_and(Recording::has_room)));
        let (queue, incoming) = sync_channel(options.queue);
        let lost = |reason| metrics.counter(Family::DecisionsLost, &[reason]);
        let written = |file| metrics.counter(Family::DecisionsWritten, &[file]);
        let sampler = log.is_some().then(|| Sampler::new(options.log.sampling));
        let mut writer = Writer {
            masks,
            select: options.log.select,
            log,
            recording,
            has_room: Arc::clone(&has_room),
            lost: lost("file"),
            logged: written("log"),
            recorded: written("recording"),
            error_logged: None,
            is_writing: false,
        };
        let ended = Arc::new(AtomicBool::new(false));
        let is_ended = Arc::clone(&ended);
        let thread = Task::restarted("decision log")
            .spawn_thread(
                "decisions",
                move || is_ended.load(Ordering::Relaxed),
                move |fault| {
                    writer.run(&incoming, fault);
                    ended.store(true, Ordering::Relaxed);
                },
            )
            .map_err(|error| LogError(format!("cannot start a thread for decisions: {}", os_text(&error))))?;
        let thread = Mutex::new(Some(thread));
        Ok(Some(Self {
            sampler,
            recording: has_room,
            queue,
            memory: Arc::new(share.open()),
            lost: lost("queue"),
            thread,
        }))
    }

    /// The files that the next call is written to; `None` for none. Called before dispatch, to decide on tracing. Cost: a random number.
    #[inline]
    pub fn wants(&self, method: Method) -> Option<DecisionTargets> {
        let log = method != Method::Report && self.sampler.is_some_and(Sampler::take);
        // Limits are not put again: what they count is not in the configuration.
        let record = method != Method::Limit && self.recording.load(Ordering::Relaxed);
        (log || record).then_some(DecisionTargets { log, record })
    }

    /// Takes a call that was answered. Never waits: when the queue is full the call is counted as lost.
    pub fn push(&self, call: AnsweredCall, targets: DecisionTargets) {
        let queued = self.memory.charge(call.size()).is_some_and(|charge| {
            self.queue.try_send(QueueItem::Call(Box::new(call), targets, charge)).is_ok()
        });
        if !queued {
            self.lost.increment();
        }
    }

    /// Writes all queued calls and closes the files. Blocks until that is done.
    pub fn close(&self) {
        let Some(thread) = self.thread.lock().take() else { return };
        // The writer receives until it gets this item.
        let sent = self.queue.send(QueueItem::End).is_ok();
        let ended = thread.join().is_ok();
        debug_assert!(sent && ended);
    }
}

/// Checks that a file can be written; a new file is readable by its owner only.
fn touch(path: &Path, what: &str) -> Result<(), LogError> {
    let refuse =
        |error: &io::Error| LogError(format!("cannot open {what} `{}`: {}", path.display(), os_text(error)));
    mixer_base::rotate::append_private(path).map(drop).map_err(|error| refuse(&error))
}

/// The file of a recording, with the remaining room.
struct Recording {
    file: RotatingFile,
    calls_left: u64,
    bytes_left: u64,
}

impl Recording {
    fn open(options: &DecisionOptions) -> Result<Self, LogError> {
        let path = &options.recording.path;
        touch(path, "recording")?;
        let (calls, bytes) = size_of_file(path).map_err(|error| {
            LogError(format!("cannot read recording `{}`: {}", path.display(), os_text(&error)))
        })?;
        // The recording is bounded by its own limits; it is full before the file would be rotated.
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

    /// Buffers a line if it fits; a line that does not fit ends the recording.
    fn push(&mut self, line: &[u8]) -> io::Result<()> {
        if self.calls_left == 0 || line.len() as u64 > self.bytes_left {
            self.calls_left = 0;
            return Ok(());
        }
        self.calls_left -= 1;
        self.bytes_left -= line.len() as u64;
        self.file.push(line)
    }
}

/// Number of lines and bytes in a file.
fn size_of_file(path: &Path) -> io::Result<(u64, u64)> {
    let (file, _) = regular_file::open(path)?;
    let mut reader = io::BufReader::new(file);
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

/// The writer thread.
struct Writer {
    masks: MaskSet,
    select: Select,
    log: Option<RotatingFile>,
    recording: Option<Recording>,
    has_room: Arc<AtomicBool>,
    lost: Counter,
    logged: Counter,
    recorded: Counter,
    error_logged: Option<Instant>,
    /// Whether a call is being written; it is lost if that panics.
    is_writing: bool,
}

impl Writer {
    fn run(&mut self, incoming: &Receiver<QueueItem>, fault: &FaultPoint<'_>) {
        if std::mem::take(&mut self.is_writing) {
            self.lost.increment();
        }
        // After a panic, lines may wait to be flushed.
        let mut dirty = true;
        let mut flushed = Instant::now();
        loop {
            fault.check();
            match incoming.recv_timeout(FLUSH_INTERVAL) {
                Ok(QueueItem::Call(call, targets, _charge)) => {
                    self.is_writing = true;
                    self.write(&call, targets);
                    self.is_writing = false;
                    dirty = true;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(QueueItem::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
            if dirty && flushed.elapsed() >= FLUSH_INTERVAL {
                self.flush();
                dirty = false;
                flushed = Instant::now();
            }
        }
        self.flush();
    }

    fn write(&mut self, call: &AnsweredCall, targets: DecisionTargets) {
        let decision = Decision::of(call, &self.masks);
        let Ok(mut line) = serde_json::to_vec(&decision) else { return };
        line.push(b'\n');
        let mut outcome = Ok(());
        if let Some(log) = &mut self.log
            && targets.log
            && (self.select == Select::All || decision.is_denial())
        {
            outcome = log.push(&line);
        }
        if let Some(recording) = &mut self.recording
            && targets.record
        {
            if let Err(error) = recording.push(&line) {
                outcome = Err(error);
            }
            if !recording.has_room() && self.has_room.swap(false, Ordering::Relaxed) {
                tracing::info!("the recording of requests is full and has ended");
            }
        }
        self.count();
        if let Err(error) = outcome {
            self.log_failure(&error);
        }
    }

    fn flush(&mut self) {
        let files = self.log.iter_mut().chain(self.recording.iter_mut().map(|recording| &mut recording.file));
        let failures: Vec<io::Error> = files.filter_map(|file| file.flush().err()).collect();
        self.count();
        for error in &failures {
            self.log_failure(error);
        }
    }

    /// Counts lines once it is known what became of them.
    fn count(&mut self) {
        let recording = self.recording.as_mut().map(|recording| (&mut recording.file, &self.recorded));
        for (file, written) in self.log.as_mut().map(|log| (log, &self.logged)).into_iter().chain(recording) {
            let counts = file.take_counts();
            written.add(counts.written);
            self.lost.add(counts.lost);
        }
    }

    fn log_failure(&mut self, error: &io::Error) {
        if self.error_logged.is_none_or(|at| at.elapsed() >= ERROR_LOG_INTERVAL) {
            self.error_logged = Some(Instant::now());
            tracing::error!("decisions cannot be written: {}", os_text(error));
        }
    }
}

#[cfg(test)]
mod tests;
