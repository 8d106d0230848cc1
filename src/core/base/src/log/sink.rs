//! Sinks of log records.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{LogLevel, LogOptions, OptionsError, format};
use crate::metrics::Counter;
use crate::rotate::{RotatingFile, RotationPolicy, append_to, os_text};
use crate::time::Timestamp;

/// The sinks of a log; each gets every record.
#[derive(Default)]
pub(super) struct Sinks {
    sinks: Vec<LogSink>,
    lost: Option<Counter>,
}

/// A sink and its health.
struct LogSink {
    name: String,
    target: SinkTarget,
    /// Why the last record could not be written.
    failed: Option<String>,
    /// Records lost since the last one written.
    missing: u64,
}

enum SinkTarget {
    /// Whether it is connected to the systemd journal.
    Stdout(bool),
    Stderr(bool),
    File(File),
    Rotating(RotatingFile),
}

impl SinkTarget {
    fn write(&mut self, level: LogLevel, line: &[u8]) -> io::Result<()> {
        match self {
            SinkTarget::Stdout(journal) => write_now(&mut io::stdout().lock(), *journal, level, line),
            SinkTarget::Stderr(journal) => write_now(&mut io::stderr().lock(), *journal, level, line),
            SinkTarget::File(file) => file.write_all(line),
            SinkTarget::Rotating(file) => file.push(line).and_then(|()| file.flush()),
        }
    }
}

/// Whether a stream is connected to the systemd journal: `JOURNAL_STREAM` holds its device and inode.
fn is_journal(stream: impl AsFd) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    let own = stream.as_fd().try_clone_to_owned().and_then(|descriptor| File::from(descriptor).metadata());
    own.is_ok_and(|own| named == format!("{}:{}", own.dev(), own.ino()))
}

/// The syslog priority of a level, for the journal.
fn priority(level: LogLevel) -> u8 {
    match level {
        LogLevel::Fatal => 2,
        LogLevel::Error => 3,
        LogLevel::Warn => 4,
        LogLevel::None | LogLevel::Info => 6,
        LogLevel::Debug => 7,
    }
}

impl LogSink {
    fn new(name: String, target: SinkTarget) -> Self {
        Self { name, target, failed: None, missing: 0 }
    }
}

const MEBIBYTE: u64 = 1 << 20;
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Sinks {
    /// Opens the files. Errors: Istio Mixer's text.
    pub(super) fn open(options: &LogOptions) -> Result<Self, OptionsError> {
        let mut sinks = Vec::new();
        for target in &options.targets {
            let opened = match target.as_str() {
                "stdout" => SinkTarget::Stdout(is_journal(io::stdout())),
                "stderr" => SinkTarget::Stderr(is_journal(io::stderr())),
                path => {
                    let file = append_to(Path::new(path)).map_err(|error| {
                        let why = os_text(&error);
                        OptionsError(format!("couldn't open sink \"{path}\": open {path}: {why}"))
                    })?;
                    SinkTarget::File(file)
                }
            };
            sinks.push(LogSink::new(target.clone(), opened));
        }
        if !options.rotate.as_os_str().is_empty() {
            let file = RotatingFile::new(options.rotate.clone(), rotation(options));
            sinks.push(LogSink::new(options.rotate.display().to_string(), SinkTarget::Rotating(file)));
        }
        Ok(Self { sinks, lost: None })
    }

    /// Takes the sinks of `other`, keeps the counter.
    pub(super) fn replace(&mut self, other: Self) {
        self.sinks = other.sinks;
    }

    /// Rotates the rotated file.
    pub(super) fn rotate(&mut self) -> io::Result<()> {
        let rotating = |sink: &mut LogSink| match &mut sink.target {
            SinkTarget::Rotating(file) => file.rotate_now(),
            SinkTarget::Stdout(_) | SinkTarget::Stderr(_) | SinkTarget::File(_) => Ok(()),
        };
        self.sinks.iter_mut().try_for_each(rotating)
    }

    /// Errors: the sink that failed to write the last record, and why.
    pub(super) fn last_write(&self) -> Result<(), String> {
        let failed = |sink: &LogSink| sink.failed.as_ref().map(|why| format!("{}: {why}", sink.name));
        self.sinks.iter().find_map(failed).map_or(Ok(()), Err)
    }

    pub(super) fn count_lost_in(&mut self, counter: Counter) {
        self.lost = Some(counter);
    }

    /// One write per sink. Failures are written to standard error and counted.
    pub(super) fn write(&mut self, level: LogLevel, line: &[u8]) {
        for sink in &mut self.sinks {
            match sink.target.write(level, line) {
                Ok(()) => (sink.failed, sink.missing) = (None, 0),
                Err(error) => {
                    if let Some(lost) = &self.lost {
                        lost.increment();
                    }
                    let now = Timestamp::from_system_time(SystemTime::now()).rfc3339_micros();
                    // A failure here cannot be reported anywhere.
                    let _ = writeln!(io::stderr().lock(), "{now} log write error: {error}");
                    sink.missing += 1;
                    // Formatted once per failure.
                    sink.failed.get_or_insert_with(|| os_text(&error));
                }
            }
        }
    }

    /// Retries failed sinks with a record that counts the records missing before it.
    pub(super) fn recover(&mut self, json: bool) {
        for sink in &mut self.sinks {
            let Some(why) = &sink.failed else { continue };
            let text = format!("{} log records before this one could not be written: {why}", sink.missing);
            if sink.target.write(LogLevel::Warn, &format::note(json, LogLevel::Warn, &text)).is_ok() {
                (sink.failed, sink.missing) = (None, 0);
            }
        }
    }
}

fn write_now(stream: &mut impl Write, journal: bool, level: LogLevel, line: &[u8]) -> io::Result<()> {
    if journal {
        write!(stream, "<{}>", priority(level))?;
    }
    stream.write_all(line)?;
    stream.flush()
}

/// A size below 1 means the default; an age or number of 0 means no limit.
fn rotation(options: &LogOptions) -> RotationPolicy {
    let size = u64::try_from(options.rotate_max_size).ok().filter(|size| *size > 0).unwrap_or(100);
    let days = u32::try_from(options.rotate_max_age).unwrap_or(0);
    let backups = usize::try_from(options.rotate_max_backups).unwrap_or(0);
    RotationPolicy {
        max_bytes: size.saturating_mul(MEBIBYTE),
        max_age: (days > 0).then(|| DAY * days),
        max_backups: (backups > 0).then_some(backups),
    }
}
