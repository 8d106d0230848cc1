//! Destinations of lines.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::{LogStream, Params};
use crate::lines::Lines;
use mixer_base::output_file::{self, Obstacle, OutputUse};
use mixer_base::regular_file;
use mixer_base::rotate::{RotatingFile, RotationPolicy, append_to, os_text};
use mixer_delivery::{Holds, Items as _};
use mixer_engine::adapter::Env;

const MEBIBYTE: u64 = 1 << 20;
const DEFAULT_MEBIBYTES: u64 = 100;
/// compat(1.3): lumberjack creates directories.
pub(super) const ROTATED: OutputUse = OutputUse { is_rotated: true, creates_directories: true };
const DAY: Duration = Duration::from_secs(24 * 3600);

/// An open sink.
pub(super) enum Sink {
    /// Not through the standard library: a write that nobody reads would hold its lock, and the end of the process would wait for that.
    Standard(File, &'static Stream),
    /// Opened for appending; the kernel does not interleave the writes of several workers.
    File(File, PathBuf),
    Rotated(Arc<Mutex<RotatingFile>>),
}

/// A standard stream of the process.
pub(super) struct Stream {
    name: &'static str,
    /// Held by a write: the kernel interleaves long ones to a pipe, in the middle of lines.
    turn: Mutex<()>,
}

static STDOUT: Stream = Stream { name: "/dev/stdout", turn: Mutex::new(()) };
static STDERR: Stream = Stream { name: "/dev/stderr", turn: Mutex::new(()) };

/// The rotated files of one server, by path: a file that two handlers write to, such as a handler and its successor, must be
/// rotated once.
#[derive(Default)]
struct RotatedFiles {
    open: Mutex<HashMap<PathBuf, Weak<Mutex<RotatingFile>>>>,
}

impl Sink {
    /// Errors: the file cannot be opened; Istio Mixer's text.
    pub(super) fn open(params: &Params, env: &Env) -> Result<Self, String> {
        let path = Path::new(&params.output_path);
        let refuse = |error: io::Error| {
            let (path, why) = (path.display(), os_text(&error));
            format!("couldn't open sink \"{path}\": open {path}: {why}")
        };
        let is_rehearsal = env.commons.get::<Holds>().is_rehearsal();
        match params.log_stream {
            LogStream::Stdout => standard(&io::stdout(), &STDOUT),
            LogStream::Stderr => standard(&io::stderr(), &STDERR),
            // A file of the user who tries a configuration would keep the server out.
            LogStream::File if is_rehearsal => {
                regular_file::try_append(path).map_err(refuse)?;
                standard(&io::stderr(), &STDERR)
            }
            LogStream::RotatedFile if is_rehearsal => match output_file::examine(path, ROTATED) {
                Err(Obstacle::Access(why)) => {
                    Err(format!("couldn't open sink \"{}\": {why}", path.display()))
                }
                // A server loses lines only once the disk is full.
                Ok(()) | Err(Obstacle::Space(_)) => standard(&io::stderr(), &STDERR),
            },
            LogStream::File => append_to(path).map(|file| Sink::File(file, path.to_owned())).map_err(refuse),
            LogStream::RotatedFile => {
                let files = env.commons.get::<RotatedFiles>();
                let mut open = files.open.lock();
                open.retain(|_, file| file.strong_count() > 0);
                if let Some(file) = open.get(path).and_then(Weak::upgrade) {
                    file.lock().set_policy(policy(params));
                    return Ok(Sink::Rotated(file));
                }
                let file = Arc::new(Mutex::new(RotatingFile::new(path.to_owned(), policy(params))));
                open.insert(path.to_owned(), Arc::downgrade(&file));
                Ok(Sink::Rotated(file))
            }
        }
    }

    /// Writes all lines. Returns the number of lost lines and adds the errors.
    pub(super) fn write(&self, batch: &Lines, errors: &mut Vec<String>) -> u64 {
        let (result, name) = match self {
            Sink::Standard(file, stream) => {
                let written = write_chunks(batch, |chunk| {
                    let _turn = stream.turn.lock();
                    write_now(file, chunk)
                });
                (written, Cow::Borrowed(stream.name))
            }
            Sink::File(file, path) => {
                (write_chunks(batch, |chunk| write_now(file, chunk)), path.to_string_lossy())
            }
            Sink::Rotated(file) => return write_rotated(&mut file.lock(), batch, errors),
        };
        match result {
            Ok(()) => 0,
            Err((error, lost)) => {
                errors.push(format!("write {name}: {}", os_text(&error)));
                lost
            }
        }
    }
}

/// A standard stream. Errors: there are no descriptors left.
fn standard(descriptor: &impl AsFd, stream: &'static Stream) -> Result<Sink, String> {
    let copied = descriptor.as_fd().try_clone_to_owned();
    let copied =
        copied.map_err(|error| format!("couldn't open sink \"{}\": {}", stream.name, os_text(&error)))?;
    Ok(Sink::Standard(File::from(copied), stream))
}

/// Writes chunk by chunk until one fails. Errors: why, and how many lines are lost.
fn write_chunks(
    batch: &Lines,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), (io::Error, u64)> {
    let mut left = batch.len();
    for (chunk, lines) in batch.chunks() {
        write(chunk).map_err(|error| (error, left as u64))?;
        left -= lines;
    }
    Ok(())
}

/// Writes line by line, because each line can be too long or start a new file.
fn write_rotated(file: &mut RotatingFile, batch: &Lines, errors: &mut Vec<String>) -> u64 {
    for line in batch.lines() {
        errors.extend(file.push(line).err().map(|error| os_text(&error)));
    }
    errors.extend(file.flush().err().map(|error| os_text(&error)));
    file.take_counts().lost
}

fn write_now(mut stream: impl Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}

fn policy(params: &Params) -> RotationPolicy {
    let mebibytes = u64::try_from(params.max_megabytes_before_rotation).ok().filter(|size| *size > 0);
    let days = u32::try_from(params.max_days_before_rotation).unwrap_or(0);
    let files = usize::try_from(params.max_rotated_files).unwrap_or(0);
    RotationPolicy {
        max_bytes: mebibytes.unwrap_or(DEFAULT_MEBIBYTES) * MEBIBYTE,
        max_age: (days > 0).then(|| DAY * days),
        max_backups: (files > 0).then_some(files),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_base::rotate::CHEAP_WRITE;

    #[test]
    fn a_failed_write_loses_its_chunk_and_those_after_it() {
        let mut batch = Lines::default();
        for length in [1, CHEAP_WRITE - 1, 1, CHEAP_WRITE, CHEAP_WRITE + 5, 10, 10] {
            batch.buffer().extend(std::iter::repeat_n(b'x', length));
            batch.end_line();
        }
        let mut written = 0;
        let lost = write_chunks(&batch, |_| {
            written += 1;
            if written == 3 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        });
        assert_eq!(lost.unwrap_err().1, 4);
    }

    #[test]
    fn handlers_write_whole_lines_to_a_standard_stream() {
        const LINES: usize = 20;
        // More than a pipe holds.
        const LENGTH: usize = 200_000;
        static PIPE: Stream = Stream { name: "pipe", turn: Mutex::new(()) };
        let (mut reader, writer) = io::pipe().unwrap();
        let threads = [b'a', b'b'].map(|byte| {
            let sink = standard(&writer, &PIPE).ok().unwrap();
            std::thread::spawn(move || {
                for _ in 0..LINES {
                    let mut batch = Lines::default();
                    batch.buffer().extend(std::iter::repeat_n(byte, LENGTH));
                    batch.buffer().push(b'\n');
                    batch.end_line();
                    assert_eq!(sink.write(&batch, &mut Vec::new()), 0);
                }
            })
        });
        drop(writer);
        let mut text = Vec::new();
        io::Read::read_to_end(&mut reader, &mut text).unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), 2 * LINES);
        assert!(lines.iter().all(|line| line.len() == LENGTH && line.iter().all(|byte| *byte == line[0])));
    }
}
