//! What records are written to.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::queue::Sink;
use super::{LogLevel, LogOptions, OptionsError};
use crate::regular_file;
use crate::rotate::{RotatingFile, RotationPolicy, append_to, os_text};

/// A standard stream of the process. Its sink is shared by all logs, so that their lines do not mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

impl Stream {
    /// The name of the target.
    pub(super) fn name(self) -> &'static str {
        match self {
            Stream::Output => "stdout",
            Stream::Error => "stderr",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Stream::Output, Stream::Error].into_iter().find(|stream| stream.name() == name)
    }

    fn cell(self) -> &'static OnceLock<Arc<Sink>> {
        static OUTPUT: OnceLock<Arc<Sink>> = OnceLock::new();
        static ERROR: OnceLock<Arc<Sink>> = OnceLock::new();
        match self {
            Stream::Output => &OUTPUT,
            Stream::Error => &ERROR,
        }
    }

    /// The sink, if it was used.
    pub(super) fn used(self) -> Option<Arc<Sink>> {
        self.cell().get().cloned()
    }

    /// The sink.
    pub(super) fn sink(self) -> Arc<Sink> {
        let sink = || Arc::new(Sink::new(self.name().to_owned(), self.open()));
        Arc::clone(self.cell().get_or_init(sink))
    }

    /// The descriptor of its own, so that a write that blocks holds no lock of the standard library.
    fn open(self) -> Target {
        let descriptor = match self {
            Stream::Output => io::stdout().as_fd().try_clone_to_owned(),
            Stream::Error => io::stderr().as_fd().try_clone_to_owned(),
        };
        match descriptor.map(File::from) {
            Ok(file) => {
                let is_journal = is_journal(&file);
                Target::Stream(file, is_journal)
            }
            Err(error) => Target::Closed(error.to_string()),
        }
    }
}

/// A file that records are written to.
pub(super) enum Target {
    /// A standard stream, and whether it is connected to the systemd journal.
    Stream(File, bool),
    File(File),
    Rotating(RotatingFile),
    /// A FIFO that no process had open for reading when it was last tried.
    Unread(PathBuf),
    /// A stream that could not be opened, and why.
    Closed(String),
}

impl Target {
    /// A path. Errors: it cannot be opened; a FIFO without a reader is none: it is opened once somebody reads it.
    fn of_path(path: &Path) -> io::Result<Self> {
        match append_to(path) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(Target::Unread(path.to_owned())),
            opened => opened.map(Target::File),
        }
    }

    /// Opens what could not be opened before. Errors: why it still cannot.
    pub(super) fn connect(&mut self) -> io::Result<()> {
        if let Target::Unread(path) = self {
            *self = Target::File(append_to(path)?);
        }
        Ok(())
    }

    /// Writes a record in one write.
    pub(super) fn write(&mut self, level: LogLevel, line: &[u8]) -> io::Result<()> {
        match self {
            Target::Stream(file, true) => {
                let mut prefixed = format!("<{}>", priority(level)).into_bytes();
                prefixed.extend_from_slice(line);
                file.write_all(&prefixed)
            }
            _ => self.print(line),
        }
    }

    /// Writes text that is not a record.
    pub(super) fn print(&mut self, text: &[u8]) -> io::Result<()> {
        match self {
            Target::Stream(file, _) | Target::File(file) => file.write_all(text),
            Target::Rotating(file) => file.push(text).and_then(|()| file.flush()),
            Target::Unread(_) => Err(io::ErrorKind::NotConnected.into()),
            Target::Closed(why) => Err(io::Error::other(why.clone())),
        }
    }

    /// Rotates a rotated file.
    pub(super) fn rotate(&mut self) -> io::Result<()> {
        match self {
            Target::Rotating(file) => file.rotate_now(),
            Target::Stream(..) | Target::File(_) | Target::Unread(_) | Target::Closed(_) => Ok(()),
        }
    }
}

/// Whether a stream is connected to the systemd journal: `JOURNAL_STREAM` holds its device and inode.
fn is_journal(stream: &File) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    stream.metadata().is_ok_and(|own| named == format!("{}:{}", own.dev(), own.ino()))
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

const MEBIBYTE: u64 = 1 << 20;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Opens the targets, in the order of `options`. `earlier` sinks with the same name are kept: their next records go to the new file.
/// Errors: Istio Mixer's text; nothing is changed then.
pub(super) fn open(options: &LogOptions, earlier: &[Arc<Sink>]) -> Result<Vec<Arc<Sink>>, OptionsError> {
    let mut opened: Vec<(String, Option<Target>)> = Vec::new();
    let refuse = |target: &str, error: &io::Error| {
        let why = os_text(error);
        OptionsError(format!("couldn't open sink \"{target}\": open {target}: {why}"))
    };
    for target in &options.targets {
        let file = match Stream::named(target) {
            Some(_) => None,
            None => Some(Target::of_path(Path::new(target)).map_err(|error| refuse(target, &error))?),
        };
        opened.push((target.clone(), file));
    }
    if !options.rotate.as_os_str().is_empty() {
        let checked = match options.create_rotate_directory {
            true => Ok(()),
            false => regular_file::check_directory(&options.rotate),
        };
        let checked = checked.and_then(|()| regular_file::check_rotatable(&options.rotate));
        checked.map_err(|error| refuse(&options.rotate.display().to_string(), &error))?;
        let file = RotatingFile::new(options.rotate.clone(), rotation(options));
        opened.push((options.rotate.display().to_string(), Some(Target::Rotating(file))));
    }
    let mut earlier: Vec<&Arc<Sink>> = earlier.iter().collect();
    let sink = |(name, target): (String, Option<Target>)| {
        let Some(target) = target else {
            return Stream::named(&name).unwrap_or(Stream::Output).sink();
        };
        match earlier.iter().position(|sink| sink.name() == name) {
            Some(at) => {
                let sink = Arc::clone(earlier.swap_remove(at));
                sink.replace(target);
                sink
            }
            None => Arc::new(Sink::new(name, target)),
        }
    };
    let sinks: Vec<Arc<Sink>> = opened.into_iter().map(sink).collect();
    sinks.iter().for_each(|sink| sink.set_json(options.as_json));
    Ok(sinks)
}

/// The options of a process that only tries them: no file is created or written; what has no standard stream is written to standard error.
/// Errors: as [`open`], as far as that can be known.
pub(super) fn rehearse(options: &LogOptions) -> Result<LogOptions, OptionsError> {
    let refuse = |target: &str, error: &io::Error| {
        let why = os_text(error);
        OptionsError(format!("couldn't open sink \"{target}\": open {target}: {why}"))
    };
    let (mut targets, files): (Vec<String>, Vec<String>) =
        options.targets.iter().cloned().partition(|target| Stream::named(target).is_some());
    for target in &files {
        match regular_file::try_append(Path::new(target)) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
            tried => tried.map_err(|error| refuse(target, &error))?,
        }
    }
    let rotate = &options.rotate;
    if !rotate.as_os_str().is_empty() {
        let checked = regular_file::check_rotatable(rotate).and_then(|()| {
            match options.create_rotate_directory && regular_file::check_directory(rotate).is_err() {
                true => Ok(()),
                false => {
                    regular_file::check_directory(rotate).and_then(|()| regular_file::try_append(rotate))
                }
            }
        });
        checked.map_err(|error| refuse(&rotate.display().to_string(), &error))?;
    }
    if targets.is_empty() && (!files.is_empty() || !rotate.as_os_str().is_empty()) {
        targets.push(Stream::Error.name().to_owned());
    }
    Ok(LogOptions { targets, rotate: PathBuf::new(), ..options.clone() })
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
