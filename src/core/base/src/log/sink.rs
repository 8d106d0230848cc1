//! Where records go.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{LogLevel, LogOptions, OptionsError, format};
use crate::metrics::Counter;
use crate::rotate::{RotatingFile, RotationPolicy, append_to, os_text};
use crate::time::Timestamp;

/// All places that every record goes to.
#[derive(Default)]
pub(super) struct Sinks {
    sinks: Vec<Sink>,
    lost: Option<Counter>,
}

/// A place, and how it takes records.
struct Sink {
    name: String,
    place: Place,
    /// What the last record met with, if it could not be written.
    failed: Option<String>,
    /// Records that were not written since the last one that was.
    missing: u64,
}

enum Place {
    /// Whether the journal of systemd reads it.
    Stdout(bool),
    Stderr(bool),
    File(File),
    Rotating(RotatingFile),
}

impl Place {
    fn write(&mut self, level: LogLevel, line: &[u8]) -> io::Result<()> {
        match self {
            Place::Stdout(journal) => write_now(&mut io::stdout().lock(), *journal, level, line),
            Place::Stderr(journal) => write_now(&mut io::stderr().lock(), *journal, level, line),
            Place::File(file) => file.write_all(line),
            Place::Rotating(file) => file.push(line).and_then(|()| file.flush()),
        }
    }
}

/// Whether the journal of systemd reads what is written there: `JOURNAL_STREAM` names its device and inode.
fn is_journal(stream: impl AsFd) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    let own = stream.as_fd().try_clone_to_owned().and_then(|descriptor| File::from(descriptor).metadata());
    own.is_ok_and(|own| named == format!("{}:{}", own.dev(), own.ino()))
}

/// What the journal calls a level.
fn priority(level: LogLevel) -> u8 {
    match level {
        LogLevel::Fatal => 2,
        LogLevel::Error => 3,
        LogLevel::Warn => 4,
        LogLevel::None | LogLevel::Info => 6,
        LogLevel::Debug => 7,
    }
}

impl Sink {
    fn new(name: String, place: Place) -> Self {
        Self { name, place, failed: None, missing: 0 }
    }
}

const MEBIBYTE: u64 = 1 << 20;
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Sinks {
    /// Opens the files. Errors: the text of the originals.
    pub(super) fn open(options: &LogOptions) -> Result<Self, OptionsError> {
        let mut sinks = Vec::new();
        for target in &options.targets {
            let place = match target.as_str() {
                "stdout" => Place::Stdout(is_journal(io::stdout())),
                "stderr" => Place::Stderr(is_journal(io::stderr())),
                path => {
                    let file = append_to(Path::new(path)).map_err(|error| {
                        let why = os_text(&error);
                        OptionsError(format!("couldn't open sink \"{path}\": open {path}: {why}"))
                    })?;
                    Place::File(file)
                }
            };
            sinks.push(Sink::new(target.clone(), place));
        }
        if !options.rotate.as_os_str().is_empty() {
            let file = RotatingFile::new(options.rotate.clone(), rotation(options));
            sinks.push(Sink::new(options.rotate.display().to_string(), Place::Rotating(file)));
        }
        Ok(Self { sinks, lost: None })
    }

    /// Takes the sinks of `other`, keeps the counter.
    pub(super) fn replace(&mut self, other: Self) {
        self.sinks = other.sinks;
    }

    /// Begins a new rotated file.
    pub(super) fn rotate(&mut self) -> io::Result<()> {
        let rotating = |sink: &mut Sink| match &mut sink.place {
            Place::Rotating(file) => file.rotate_now(),
            Place::Stdout(_) | Place::Stderr(_) | Place::File(_) => Ok(()),
        };
        self.sinks.iter_mut().try_for_each(rotating)
    }

    /// Errors: what the last record met with, and where.
    pub(super) fn last_write(&self) -> Result<(), String> {
        let failed = |sink: &Sink| sink.failed.as_ref().map(|why| format!("{}: {why}", sink.name));
        self.sinks.iter().find_map(failed).map_or(Ok(()), Err)
    }

    pub(super) fn count_lost_in(&mut self, counter: Counter) {
        self.lost = Some(counter);
    }

    /// One write a sink. What fails is told on standard error, and counted.
    pub(super) fn write(&mut self, level: LogLevel, line: &[u8]) {
        for sink in &mut self.sinks {
            match sink.place.write(level, line) {
                Ok(()) => (sink.failed, sink.missing) = (None, 0),
                Err(error) => {
                    if let Some(lost) = &self.lost {
                        lost.increment();
                    }
                    let now = Timestamp::from_system_time(SystemTime::now()).rfc3339_micros();
                    // Nobody is left to tell if this fails as well.
                    let _ = writeln!(io::stderr().lock(), "{now} log write error: {error}");
                    sink.missing += 1;
                    // The text is only made when it is needed, and once a failure.
                    sink.failed.get_or_insert_with(|| os_text(&error));
                }
            }
        }
    }

    /// Tries the sinks that failed once more, with a record that says how many are missing before it.
    pub(super) fn recover(&mut self, json: bool) {
        for sink in &mut self.sinks {
            let Some(why) = &sink.failed else { continue };
            let text = format!("{} log records before this one could not be written: {why}", sink.missing);
            if sink.place.write(LogLevel::Warn, &format::note(json, LogLevel::Warn, &text)).is_ok() {
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

/// Sizes that mean nothing count as the default; an age or number of 0 means no limit.
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
