//! The decision log and the recording: from the workers through a queue to files.

use std::io::{self, BufRead as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;

use super::call::{AnsweredCall, Method};
use super::mask::MaskSet;
use super::{Decision, DecisionOptions, RecordingOptions, Select};
use mixer_base::budget::Share;
use mixer_base::metrics::{Counter, Family, Metrics};
use mixer_base::regular_file;
use mixer_base::rotate::{RotatingFile, RotationPolicy, os_text};
use mixer_base::sample::Sampler;
use mixer_delivery::{
    Batching, BlockingSink, Bounds, Delivery, Item, Items as _, List, LossCounters, Settings, Tally,
};

/// How long the writer waits for more calls, to write them at once.
const GATHER: Duration = Duration::from_millis(20);
/// Least time between log lines about a file that cannot be written.
const ERROR_LOG_INTERVAL: Duration = Duration::from_secs(60);
/// The file of [`DecisionLogOptions`](super::DecisionLogOptions).
const LOG: &str = "decision log";
/// The file of [`RecordingOptions`].
const RECORDING: &str = "recording";

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

impl DecisionTargets {
    /// The same without the recording; `None` if nothing is left.
    pub fn without_recording(self) -> Option<Self> {
        self.log.then_some(Self { record: false, ..self })
    }
}

/// A call on its way to the writer.
struct QueuedCall(Box<AnsweredCall>, DecisionTargets);

impl Item for QueuedCall {
    fn size(&self) -> usize {
        self.0.size()
    }
}

/// Writes sampled calls to the decision log and the recording. Shared by all workers.
pub struct DecisionLog {
    /// The sampler of the log; `None` without a log.
    sampler: Option<Sampler>,
    /// Whether the recording has room.
    recording: Arc<AtomicBool>,
    /// What is said of the recording while it has none; `None` without a recording.
    full: Option<String>,
    /// Why the last lines could not be written.
    trouble: Arc<ArcSwapOption<String>>,
    calls: Delivery<List<QueuedCall>>,
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
                touch(&options.log.path, LOG)?;
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
        let full = recording.as_ref().map(|_| full_text(&options.recording));
        let has_room = Arc::new(AtomicBool::new(recording.as_ref().is_some_and(Recording::has_room)));
        let trouble = Arc::new(ArcSwapOption::empty());
        let lost = |reason| metrics.counter(Family::DecisionsLost, &[reason]);
        let written = |file| metrics.counter(Family::DecisionsWritten, &[file]);
        let sampler = log.is_some().then(|| Sampler::new(options.log.sampling));
        let writer = Writer {
            masks,
            select: options.log.select,
            log,
            recording,
            has_room: Arc::clone(&has_room),
            lost: lost("file"),
            logged: written("log"),
            recorded: written("recording"),
            trouble: Arc::clone(&trouble),
            failure: None,
            has_written: false,
            error_logged: None,
        };
        let settings = Settings {
            bounds: Bounds { items: options.queue, ..Bounds::default() },
            memory: Some(Arc::clone(share)),
            batching: Batching { items: options.queue / 4, bytes: share.limit() / 16, wait: GATHER },
            losses: LossCounters { full: Some(lost("queue")), failed: None },
            ..Settings::default()
        };
        let calls = Delivery::on_thread("decision log", "", "decisions", settings, writer);
        calls
            .start()
            .map_err(|error| LogError(format!("cannot start a thread for decisions: {}", os_text(&error))))?;
        Ok(Some(Self { sampler, recording: has_room, full, trouble, calls }))
    }

    /// Whether [`start`](Self::start) would fail; nothing is created or written. Errors: those of `start`.
    pub fn rehearse(options: &DecisionOptions) -> Result<(), LogError> {
        options.check().and_then(|()| options.check_directories()).map_err(|error| LogError(error.0))?;
        let files = [(LOG, &options.log.path), (RECORDING, &options.recording.path)];
        for (what, path) in files.into_iter().filter(|(_, path)| !path.as_os_str().is_empty()) {
            regular_file::try_append(path).map_err(|error| not_opened(path, what, &error))?;
        }
        let recording = &options.recording;
        match recording.path.as_os_str().is_empty() {
            true => Ok(()),
            false => full_recording(recording).map(drop).map_err(|error| not_read(&recording.path, &error)),
        }
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
        // What does not fit is counted.
        let _ = self.calls.accept(QueuedCall(Box::new(call), targets));
    }

    /// Whether the lines of the last batch were all written. Errors: the file that could not be, and why; until lines are written again.
    pub fn last_write(&self) -> Result<(), String> {
        self.trouble.load().as_deref().map_or(Ok(()), |why| Err(why.clone()))
    }

    /// Whether calls are recorded, if they are to be. Errors: the recording is full, with the cure.
    pub fn recording(&self) -> Result<(), String> {
        match &self.full {
            Some(why) if !self.recording.load(Ordering::Relaxed) => Err(why.clone()),
            _ => Ok(()),
        }
    }

    /// Writes all queued calls. Returns whether that was done within `deadline`.
    pub async fn close(&self, deadline: Duration) -> bool {
        self.calls.close(deadline).await
    }
}

/// Checks that a file can be written; a new file is readable by its owner only.
fn touch(path: &Path, what: &str) -> Result<(), LogError> {
    mixer_base::rotate::append_private(path).map(drop).map_err(|error| not_opened(path, what, &error))
}

fn not_opened(path: &Path, what: &str, error: &io::Error) -> LogError {
    LogError(format!("cannot open {what} `{}`: {}", path.display(), os_text(error)))
}

fn not_read(path: &Path, error: &io::Error) -> LogError {
    LogError(format!("cannot read {RECORDING} `{}`: {}", path.display(), os_text(error)))
}

/// What there is to say of a recording that has no room, and no more calls will have; `None` if it has room, or does not exist yet.
///
/// Errors: the file cannot be read.
pub fn full_recording(options: &RecordingOptions) -> io::Result<Option<String>> {
    let (calls, bytes) = match size_of_file(&options.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        size => size?,
    };
    let is_full = calls >= options.max_calls || bytes >= options.max_bytes;
    Ok(is_full.then(|| full_text(options)))
}

fn full_text(options: &RecordingOptions) -> String {
    let RecordingOptions { path, max_calls, max_bytes } = options;
    format!(
        "the recording `{}` is full, and calls are no longer recorded: move the file away and restart the server, or raise \
         --record-max-requests ({max_calls}) or --record-max-size ({max_bytes} bytes)",
        path.display()
    )
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
        touch(path, RECORDING)?;
        let (calls, bytes) = size_of_file(path).map_err(|error| not_read(path, &error))?;
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

/// Writes the calls of the queue to the files.
struct Writer {
    masks: MaskSet,
    select: Select,
    log: Option<RotatingFile>,
    recording: Option<Recording>,
    has_room: Arc<AtomicBool>,
    lost: Counter,
    logged: Counter,
    recorded: Counter,
    /// For [`DecisionLog::last_write`].
    trouble: Arc<ArcSwapOption<String>>,
    /// What failed of this batch, and whether any of it was written.
    failure: Option<String>,
    has_written: bool,
    error_logged: Option<Instant>,
}

impl BlockingSink<List<QueuedCall>> for Writer {
    fn deliver(&mut self, batch: &mut List<QueuedCall>, tally: &mut Tally) {
        let calls = batch.len();
        let mut lost = 0;
        let written = catch_unwind(AssertUnwindSafe(|| {
            while let Some(QueuedCall(call, targets)) = batch.pop() {
                lost += self.write(&call, targets);
            }
        }));
        // The call that is being written is lost if that panics; the lines before it are written all the same.
        let panicked = u64::from(written.is_err());
        self.lost.add(panicked);
        lost += panicked + self.flush();
        self.tell();
        let begun = calls - batch.len();
        // A call of which a line is lost is not delivered.
        tally.delivered(begun.saturating_sub(usize::try_from(lost).unwrap_or(usize::MAX)));
        if let Err(panic) = written {
            resume_unwind(panic);
        }
    }
}

impl Writer {
    /// Buffers the lines of a call. Returns the number of lines that were lost.
    fn write(&mut self, call: &AnsweredCall, targets: DecisionTargets) -> u64 {
        let decision = Decision::of(call, &self.masks);
        let Ok(mut line) = serde_json::to_vec(&decision) else { return 0 };
        line.push(b'\n');
        let mut outcome = Ok(());
        if let Some(log) = &mut self.log
            && targets.log
            && (self.select == Select::All || decision.is_denial())
        {
            outcome = log.push(&line).map_err(|error| (log.path().to_owned(), error));
        }
        if let Some(recording) = &mut self.recording
            && targets.record
        {
            if let Err(error) = recording.push(&line) {
                outcome = Err((recording.file.path().to_owned(), error));
            }
            if !recording.has_room() && self.has_room.swap(false, Ordering::Relaxed) {
                tracing::info!("the recording of requests is full and has ended");
            }
        }
        let lost = self.count();
        if let Err((file, error)) = outcome {
            self.failed(&file, &error);
        }
        lost
    }

    /// Writes the buffered lines. Returns the number of lines that were lost.
    fn flush(&mut self) -> u64 {
        let files = self.log.iter_mut().chain(self.recording.iter_mut().map(|recording| &mut recording.file));
        let failure = |file: &mut RotatingFile| Some((file.flush().err()?, file.path().to_owned()));
        let failures: Vec<_> = files.filter_map(failure).collect();
        let lost = self.count();
        for (error, file) in &failures {
            self.failed(file, error);
        }
        lost
    }

    /// Counts lines once it is known what became of them. Returns the number of those that were lost.
    fn count(&mut self) -> u64 {
        let mut lost = 0;
        let recording = self.recording.as_mut().map(|recording| (&mut recording.file, &self.recorded));
        for (file, written) in self.log.as_mut().map(|log| (log, &self.logged)).into_iter().chain(recording) {
            let counts = file.take_counts();
            written.add(counts.written);
            self.has_written |= counts.written > 0;
            self.lost.add(counts.lost);
            lost += counts.lost;
        }
        lost
    }

    /// Tells what became of a batch.
    fn tell(&mut self) {
        let has_written = std::mem::take(&mut self.has_written);
        match self.failure.take() {
            Some(why) => self.trouble.store(Some(Arc::new(why))),
            None if has_written => self.trouble.store(None),
            None => {}
        }
    }

    fn failed(&mut self, file: &Path, error: &io::Error) {
        self.failure =
            Some(format!("decisions are lost: cannot write `{}`: {}", file.display(), os_text(error)));
        if self.error_logged.is_none_or(|at| at.elapsed() >= ERROR_LOG_INTERVAL) {
            self.error_logged = Some(Instant::now());
            tracing::error!("decisions cannot be written: {}", os_text(error));
        }
    }
}

#[cfg(test)]
mod tests;
