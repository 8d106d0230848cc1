//! Log file rotation by size, with limits on the age and number of rotated files.
//!
//! Names of rotated files and error texts are those of lumberjack, which Istio Mixer uses.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::regular_file;
use crate::time::Timestamp;

/// Largest efficient write to a file, in bytes. For larger writes, Linux allocates large folios in its page cache, which costs
/// several times as much per byte (docs/benchmarks.md).
pub const CHEAP_WRITE: usize = 64 << 10;

/// Limits of a rotated file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RotationPolicy {
    /// Largest size of the file in bytes.
    pub max_bytes: u64,
    /// How long rotated files are kept, by the time in their name; `None`: forever.
    pub max_age: Option<Duration>,
    /// Number of rotated files to keep; `None`: all.
    pub max_backups: Option<usize>,
}

/// A rotated file. It is opened at the first line; its directories are created, and an existing file is appended to.
///
/// A full file is renamed to `<stem>-<UTC yyyy-MM-ddTHH-mm-ss.SSS><extension>` beside the original. Files
/// beyond the limits are removed after each rotation and when the file is first opened. Lines are buffered until
/// [`flush`](Self::flush), so that many cost one write. A device or a FIFO is written and never renamed.
#[derive(Debug)]
pub struct RotatingFile {
    path: PathBuf,
    policy: RotationPolicy,
    file: Option<File>,
    /// Size of the file, without `pending`.
    size: u64,
    /// Whether it is no regular file, and never renamed.
    is_special: bool,
    pending: Vec<u8>,
    /// Whether new files are readable by their owner only.
    private: bool,
    counts: LineCounts,
}

/// What became of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineCounts {
    /// Lines that the file system took.
    pub written: u64,
    /// Lines that it did not take, also those that were buffered before.
    pub lost: u64,
}

/// Number of line feeds.
fn lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

impl RotatingFile {
    /// A file that does not exist until a line is written.
    pub fn new(path: PathBuf, policy: RotationPolicy) -> Self {
        let counts = LineCounts::default();
        Self {
            path,
            policy,
            file: None,
            size: 0,
            is_special: false,
            pending: Vec::new(),
            private: false,
            counts,
        }
    }

    /// Creates new files readable by their owner only.
    #[must_use]
    pub fn private(mut self) -> Self {
        self.private = true;
        self
    }

    /// Changes the limits.
    pub fn set_policy(&mut self, policy: RotationPolicy) {
        self.policy = policy;
    }

    /// What became of the lines since the last call. Buffered lines are not counted yet.
    pub fn take_counts(&mut self) -> LineCounts {
        std::mem::take(&mut self.counts)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Buffers one line with its line feed. Errors: the line alone exceeds the limit, or the file system fails; then lines that were
    /// buffered before can be lost as well, see [`take_counts`](Self::take_counts).
    pub fn push(&mut self, line: &[u8]) -> io::Result<()> {
        let pushed = self.try_push(line);
        self.counts.lost += u64::from(pushed.is_err());
        pushed
    }

    fn try_push(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        let limit = self.policy.max_bytes;
        if length > limit {
            let text = format!("write length {length} exceeds maximum file size {limit}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if self.file.is_none() {
            self.open()?;
        }
        if !self.is_special && self.size + self.pending.len() as u64 + length > limit {
            self.flush()?;
            self.rotate()?;
        }
        self.pending.extend_from_slice(line);
        Ok(())
    }

    /// Writes the buffered lines. Lines that cannot be written are lost.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut written = 0;
        let result = match &mut self.file {
            Some(file) => self.pending.chunks(CHEAP_WRITE).try_for_each(|piece| {
                file.write_all(piece)?;
                written += piece.len();
                Ok(())
            }),
            None => Ok(()),
        };
        let complete = lines(self.pending.get(..written).unwrap_or_default());
        self.counts.written += complete;
        self.counts.lost += lines(&self.pending) - complete;
        self.size += self.pending.len() as u64;
        self.pending.clear();
        // Free the memory of an exceptional batch.
        self.pending.shrink_to(64 << 10);
        if result.is_err() {
            // The file or its disk may be gone: reopen it next time.
            self.file = None;
        }
        result
    }

    fn open(&mut self) -> io::Result<()> {
        if let Some(directory) = self.path.parent().filter(|d| !d.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory)?;
        }
        let file = if self.private { append_private(&self.path) } else { append_to(&self.path) }?;
        let metadata = file.metadata()?;
        (self.size, self.is_special) = (metadata.len(), !metadata.is_file());
        self.file = Some(file);
        self.prune();
        Ok(())
    }

    /// Rotates the file whatever its size, unless it is empty or was not opened.
    pub(crate) fn rotate_now(&mut self) -> io::Result<()> {
        self.flush()?;
        if self.file.is_none() || self.size == 0 || self.is_special {
            return Ok(());
        }
        self.rotate()
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        let mut now = SystemTime::now();
        let mut backup = self.backup_path(now);
        // Two rotations within a millisecond need different names.
        while backup.exists() {
            now += Duration::from_millis(1);
            backup = self.backup_path(now);
        }
        match std::fs::rename(&self.path, &backup) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.open()
    }

    fn name_parts(&self) -> (String, String) {
        let part = |text: Option<&std::ffi::OsStr>| text.unwrap_or_default().to_string_lossy().into_owned();
        let extension =
            self.path.extension().map(|e| format!(".{}", e.to_string_lossy())).unwrap_or_default();
        (format!("{}-", part(self.path.file_stem())), extension)
    }

    fn backup_path(&self, time: SystemTime) -> PathBuf {
        let (stem, extension) = self.name_parts();
        self.path.with_file_name(format!("{stem}{}{extension}", stamp(time)))
    }

    /// Removes rotated files beyond the limits. Errors are ignored.
    fn prune(&self) {
        if self.policy.max_age.is_none() && self.policy.max_backups.is_none() {
            return;
        }
        let oldest = self.policy.max_age.and_then(|age| SystemTime::now().checked_sub(age)).map(stamp);
        let mut backups = self.backups();
        // The time in the name sorts as text.
        backups.sort_unstable_by(|a, b| b.0.cmp(&a.0));
        for (kept, (stamp, path)) in backups.iter().enumerate() {
            let too_many = self.policy.max_backups.is_some_and(|most| kept >= most);
            let too_old = oldest.as_ref().is_some_and(|oldest| stamp < oldest);
            if too_many || too_old {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    /// Times and paths of rotated files.
    fn backups(&self) -> Vec<(String, PathBuf)> {
        let (stem, extension) = self.name_parts();
        let directory = self.path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
        entries
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let stamp = name.strip_prefix(&stem)?.strip_suffix(&extension)?;
                is_stamp(stamp).then(|| (stamp.to_owned(), entry.path()))
            })
            .collect()
    }
}

impl Drop for RotatingFile {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

/// Opens a file for appending; creates it with mode 0644. Never waits. Errors: as [`regular_file::append`].
pub fn append_to(path: &Path) -> io::Result<File> {
    regular_file::append(path, 0o644)
}

/// Opens a file for appending; creates it with mode 0600. Never waits. Errors: as [`regular_file::append`].
pub fn append_private(path: &Path) -> io::Result<File> {
    regular_file::append(path, 0o600)
}

/// An error of the operating system as Go prints it: lower case, without its number.
pub fn os_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// `2019-01-02T03-04-05.678`.
fn stamp(time: SystemTime) -> String {
    let text = Timestamp::from_system_time(time).rfc3339_micros().to_string();
    text.get(..23).unwrap_or_default().replace(':', "-")
}

fn is_stamp(text: &str) -> bool {
    let shape = b"0000-00-00T00-00-00.000";
    text.len() == shape.len()
        && text.bytes().zip(shape).all(|(b, s)| if *s == b'0' { b.is_ascii_digit() } else { b == *s })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(max_bytes: u64) -> RotationPolicy {
        RotationPolicy { max_bytes, max_age: None, max_backups: None }
    }

    fn files(directory: &Path) -> Vec<(String, String)> {
        let mut files: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|e| e.unwrap())
            .map(|e| (e.file_name().into_string().unwrap(), std::fs::read_to_string(e.path()).unwrap()))
            .collect();
        files.sort();
        files
    }

    #[test]
    fn every_line_of_a_failed_flush_is_counted() {
        let policy = RotationPolicy { max_bytes: u64::MAX, max_age: None, max_backups: None };
        let mut full = RotatingFile::new("/dev/full".into(), policy);
        (0..3).for_each(|_| full.push(b"line\n").unwrap());
        assert_eq!(full.take_counts(), LineCounts::default(), "nothing is counted before it is written");
        assert!(full.flush().is_err());
        assert_eq!(full.take_counts(), LineCounts { written: 0, lost: 3 });
        let directory = tempfile::tempdir().unwrap();
        let policy = RotationPolicy { max_bytes: 12, max_age: None, max_backups: None };
        let mut file = RotatingFile::new(directory.path().join("log"), policy);
        (0..3).for_each(|_| file.push(b"line\n").unwrap());
        assert!(file.push(b"a line that is too long\n").is_err());
        file.flush().unwrap();
        assert_eq!(file.take_counts(), LineCounts { written: 3, lost: 1 });
    }

    #[test]
    fn lines_go_to_a_new_file_before_the_old_one_is_too_large() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/er/rot.log");
        let mut file = RotatingFile::new(path.clone(), policy(12));
        assert!(!path.exists());
        for line in ["one 1\n", "two 2\n", "three\n", "four 4\n"] {
            file.push(line.as_bytes()).unwrap();
        }
        file.flush().unwrap();
        let files = files(path.parent().unwrap());
        let names: Vec<&str> = files.iter().map(|f| f.0.as_str()).collect();
        let texts: Vec<&str> = files.iter().map(|f| f.1.as_str()).collect();
        assert_eq!(texts, ["one 1\ntwo 2\n", "three\n", "four 4\n"]);
        assert_eq!(names[2], "rot.log");
        for name in &names[..2] {
            assert!(is_stamp(name.strip_prefix("rot-").unwrap().strip_suffix(".log").unwrap()), "{name}");
        }
    }

    #[test]
    fn an_existing_file_is_appended_to_and_its_size_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, "12345\n").unwrap();
        let mut file = RotatingFile::new(path.clone(), policy(10));
        file.push(b"789\n").unwrap();
        file.flush().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "12345\n789\n");
        file.push(b"x\n").unwrap();
        drop(file);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "x\n");
        assert_eq!(files(directory.path()).len(), 2);
    }

    #[test]
    fn a_line_above_the_limit_is_an_error_and_loses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let mut file = RotatingFile::new(path.clone(), policy(4));
        file.push(b"1\n").unwrap();
        assert_eq!(
            file.push(b"12345\n").unwrap_err().to_string(),
            "write length 6 exceeds maximum file size 4"
        );
        file.push(b"2\n").unwrap();
        file.flush().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n2\n");
    }

    #[test]
    fn old_and_surplus_files_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let make = |name: &str| std::fs::write(directory.path().join(name), "").unwrap();
        let day = Duration::from_secs(24 * 3600);
        let now = SystemTime::now();
        let recent = |days: u32| format!("a-{}.log", stamp(now - day * days));
        for name in ["a-2001-01-01T00-00-00.000.log", "a-old.log", "b-2001-01-01T00-00-00.000.log", "a.txt"] {
            make(name);
        }
        (1..=4).for_each(|days| make(&recent(days)));
        let policy = RotationPolicy { max_bytes: 10, max_age: Some(day * 7), max_backups: Some(3) };
        let mut file = RotatingFile::new(directory.path().join("a.log"), policy);
        file.push(b"1\n").unwrap();
        let mut expected = vec![recent(3), recent(2), recent(1)];
        expected.extend(["a-old.log", "a.log", "a.txt", "b-2001-01-01T00-00-00.000.log"].map(str::to_owned));
        assert_eq!(files(directory.path()).into_iter().map(|f| f.0).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_fifo_waits_for_no_reader_and_neither_it_nor_a_device_is_renamed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let mut fifo = RotatingFile::new(path.clone(), policy(4));
        assert_eq!(fifo.push(b"1\n").unwrap_err().to_string(), "no process reads the FIFO");
        let _reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        for _ in 0..3 {
            fifo.push(b"123\n").unwrap();
        }
        fifo.flush().unwrap();
        assert_eq!(fifo.take_counts(), LineCounts { written: 3, lost: 1 });
        // A link stands for the device, so that a mistake renames the link.
        let link = directory.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        let mut device = RotatingFile::new(link.clone(), policy(4));
        for _ in 0..3 {
            device.push(b"123\n").unwrap();
        }
        device.rotate_now().unwrap();
        assert_eq!(device.take_counts(), LineCounts { written: 3, lost: 0 });
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
        assert!(link.is_symlink());
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "").unwrap();
        let mut file = RotatingFile::new(directory.path().join("file/a.log"), policy(100));
        assert!(file.push(b"1\n").is_err());
    }
}
