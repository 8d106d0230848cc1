//! Files of access logs: lines are collected in memory and written by a thread of their own.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mixer_base::regular_file;
use mixer_base::task::Task;
use parking_lot::{Condvar, Mutex};

/// Time between two writes.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes after which the thread writes at once.
const FLUSH_BYTES: usize = 64 << 10;
/// Bytes of a file that wait for the disk; lines beyond them are lost, and counted.
const MAX_WAITING: usize = 4 << 20;

/// Time that writing what waits may take at the end: a pipe that nobody reads does not keep the process.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// A file that workers append lines to.
#[derive(Debug)]
pub(crate) struct AccessLogFile {
    path: String,
    waiting: Mutex<Lines>,
    file: Mutex<Written>,
    counters: Arc<Counters>,
    wake: Arc<Wake>,
}

/// Lines that wait.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    count: u64,
}

/// The open file.
#[derive(Debug)]
struct Written {
    file: std::fs::File,
    /// Whether the last line is not complete.
    is_cut: bool,
    /// Lines of an earlier write, emptied: a buffer for the next ones.
    spare: Lines,
}

/// What is counted of all files.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) completed: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Lines that are in no file: they could not be written, or too many waited.
    pub(crate) lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Wake {
    is_due: Mutex<bool>,
    condition: Condvar,
    stopped: AtomicBool,
}

impl AccessLogFile {
    fn new(path: &str, file: std::fs::File, counters: Arc<Counters>, wake: Arc<Wake>) -> Self {
        let file = Mutex::new(Written { file, is_cut: false, spare: Lines::default() });
        Self { path: path.to_owned(), waiting: Mutex::default(), file, counters, wake }
    }

    /// Appends a line with `write`. Cost: a lock that is held for the time of formatting the line.
    pub(crate) fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut waiting = self.waiting.lock();
        let before = waiting.bytes.len();
        if before >= MAX_WAITING {
            drop(waiting);
            self.lose(1, "too many lines wait for the disk");
            return;
        }
        write(&mut waiting.bytes);
        waiting.count += 1;
        if before < FLUSH_BYTES && waiting.bytes.len() >= FLUSH_BYTES {
            drop(waiting);
            self.wake.now();
        }
    }

    fn lose(&self, count: u64, why: &str) {
        self.counters.lost.fetch_add(count, Ordering::Relaxed);
        mixer_base::warn_limited!(1, path = self.path, count, why, "access log lines are lost");
    }

    fn flush(&self) {
        // The file is locked first, so that lines are written in order.
        let mut written = self.file.lock();
        let Written { file, is_cut, spare } = &mut *written;
        std::mem::swap(&mut *self.waiting.lock(), spare);
        if spare.bytes.is_empty() {
            return;
        }
        let outcome = match *is_cut {
            // What follows a line that is not complete is a line of its own.
            true => append_all(file, b"\n").map_err(|(error, _)| (error, 0)),
            false => Ok(()),
        };
        match outcome.and_then(|()| append_all(file, &spare.bytes)) {
            Ok(()) => {
                *is_cut = false;
                self.counters.completed.fetch_add(1, Ordering::Relaxed);
            }
            Err((error, length)) => {
                let whole = spare.bytes.get(..length).unwrap_or_default();
                if let Some(last) = whole.last() {
                    *is_cut = *last != b'\n';
                }
                let lines = memchr::memchr_iter(b'\n', whole).count();
                let lost = spare.count.saturating_sub(u64::try_from(lines).unwrap_or(0)).max(1);
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
                self.lose(lost, &error.to_string());
            }
        }
        spare.bytes.clear();
        spare.bytes.shrink_to(2 * FLUSH_BYTES);
        spare.count = 0;
    }

    fn reopen(&self) -> std::io::Result<()> {
        let file = open(&self.path)?;
        self.flush();
        let mut written = self.file.lock();
        (written.file, written.is_cut) = (file, false);
        Ok(())
    }
}

/// Writes everything. Errors: with the number of bytes that were written before.
fn append_all(file: &mut std::fs::File, bytes: &[u8]) -> Result<(), (std::io::Error, usize)> {
    let mut length = 0;
    while let Some(rest) = bytes.get(length..).filter(|rest| !rest.is_empty()) {
        match file.write(rest) {
            Ok(0) => return Err((std::io::ErrorKind::WriteZero.into(), length)),
            Ok(count) => length += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err((error, length)),
        }
    }
    Ok(())
}

fn open(path: &str) -> std::io::Result<std::fs::File> {
    match path {
        "/dev/stdout" | "/dev/stderr" => std::fs::OpenOptions::new().append(true).open(path),
        _ => regular_file::append(Path::new(path), 0o644),
    }
}

impl Wake {
    fn now(&self) {
        *self.is_due.lock() = true;
        self.condition.notify_one();
    }

    fn wait(&self) {
        let mut due = self.is_due.lock();
        if !*due {
            let _ = self.condition.wait_for(&mut due, FLUSH_INTERVAL);
        }
        *due = false;
    }
}

/// All access log files of the process, one for each path, and the thread that writes them.
#[derive(Debug, Default)]
pub(crate) struct AccessLogFiles {
    files: Arc<Mutex<BTreeMap<String, Arc<AccessLogFile>>>>,
    pub(crate) counters: Arc<Counters>,
    wake: Arc<Wake>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl AccessLogFiles {
    /// The file at a path, opened if it is not yet. Errors: it cannot be opened.
    pub(crate) fn open(&self, path: &str) -> std::io::Result<Arc<AccessLogFile>> {
        let mut files = self.files.lock();
        if let Some(file) = files.get(path) {
            return Ok(Arc::clone(file));
        }
        let (counters, wake) = (Arc::clone(&self.counters), Arc::clone(&self.wake));
        let file = Arc::new(AccessLogFile::new(path, open(path)?, counters, wake));
        files.insert(path.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    /// Closes files that no filter writes to any more. What waits is written first, on a thread of its own: a pipe may block.
    pub(crate) fn close_unused(&self) {
        let mut unused = Vec::new();
        self.files.lock().retain(|_, file| {
            let is_used = Arc::strong_count(file) > 1;
            if !is_used {
                unused.push(Arc::clone(file));
            }
            is_used
        });
        if !unused.is_empty() {
            drop(tokio::task::spawn_blocking(move || unused.iter().for_each(|file| file.flush())));
        }
    }

    /// Starts the thread. Errors: it cannot be created.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        let (files, wake, stopping) =
            (Arc::clone(&self.files), Arc::clone(&self.wake), Arc::clone(&self.wake));
        let is_stopping = move || stopping.stopped.load(Ordering::Acquire);
        let thread = Task::restarted("access log").spawn_thread("access-log", is_stopping, move |_| {
            // Once more after the end was asked for.
            let mut is_last = false;
            while !is_last {
                wake.wait();
                is_last = wake.stopped.load(Ordering::Acquire);
                let files: Vec<_> = files.lock().values().cloned().collect();
                files.iter().for_each(|file| file.flush());
            }
        })?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    /// Opens all files again, for example after they were renamed.
    pub(crate) fn reopen(&self) {
        let files: Vec<_> = self.files.lock().values().cloned().collect();
        for file in files {
            if let Err(error) = file.reopen() {
                tracing::warn!(path = file.path, %error, "an access log cannot be opened again; the open one is kept");
            }
        }
    }

    /// Writes what waits and ends the thread. A write that takes longer than `LAST_WRITE` is left behind.
    pub(crate) fn stop(&self) {
        self.wake.stopped.store(true, Ordering::Release);
        self.wake.now();
        let Some(thread) = self.thread.lock().take() else { return };
        let begun = Instant::now();
        while !thread.is_finished() {
            if begun.elapsed() >= LAST_WRITE {
                return tracing::warn!("access log lines are lost: they could not be written before the end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> (AccessLogFile, Arc<Counters>) {
        let counters = Arc::<Counters>::default();
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        (AccessLogFile::new(path, opened, Arc::clone(&counters), Arc::default()), counters)
    }

    #[test]
    fn lines_that_a_full_disk_does_not_take_are_counted() {
        let (log, counters) = file("/dev/full");
        for _ in 0..3 {
            log.append(|out| out.extend_from_slice(b"a line\n"));
        }
        log.flush();
        log.append(|out| out.extend_from_slice(b"a line\n"));
        log.flush();
        let [lost, failed, completed] =
            [&counters.lost, &counters.failed, &counters.completed].map(|c| c.load(Ordering::Relaxed));
        assert_eq!((lost, failed, completed), (4, 2, 0));
    }

    #[test]
    fn lines_that_wait_are_bounded() {
        let (log, counters) = file("/dev/null");
        let line = [vec![b'a'; 1 << 20], b"\n".to_vec()].concat();
        for _ in 0..10 {
            log.append(|out| out.extend_from_slice(&line));
        }
        assert_eq!(counters.lost.load(Ordering::Relaxed), 6);
        assert!(log.waiting.lock().bytes.len() <= MAX_WAITING + line.len());
        log.flush();
        assert!(log.file.lock().spare.bytes.capacity() <= 2 * FLUSH_BYTES);
    }

    #[test]
    fn a_line_that_is_cut_does_not_run_into_the_next_one() {
        let path = std::env::temp_dir().join(format!("mixer-access-log-{}", std::process::id()));
        let (log, _) = file(path.to_str().unwrap());
        log.file.lock().is_cut = true;
        for _ in 0..2 {
            log.append(|out| out.extend_from_slice(b"a line\n"));
            log.flush();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, "\na line\na line\n");
    }

    #[test]
    fn a_file_that_takes_nothing_does_not_keep_the_process() {
        // A pipe that is full, which nobody reads.
        let (reader, writer) = std::io::pipe().unwrap();
        let files = AccessLogFiles::default();
        let (counters, wake) = (Arc::clone(&files.counters), Arc::clone(&files.wake));
        let file = std::fs::File::from(std::os::fd::OwnedFd::from(writer));
        let log = Arc::new(AccessLogFile::new("pipe", file, counters, wake));
        files.files.lock().insert("pipe".to_owned(), Arc::clone(&log));
        files.start().unwrap();
        log.append(|out| out.extend_from_slice(&vec![b'a'; 1 << 20]));
        let begun = Instant::now();
        files.stop();
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        drop(reader);
    }
}
