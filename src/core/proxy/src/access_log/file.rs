//! Files of access logs: lines are collected in memory, and written by a thread for each file. One that takes nothing, such as a pipe that nobody
//! reads, holds up no other one, and nobody waits for it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
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

/// A file that workers append lines to. Its thread ends when it is dropped, after it wrote what waits.
#[derive(Debug)]
pub(crate) struct AccessLogFile(Arc<Sink>);

/// What workers share with the thread of a file.
#[derive(Debug)]
struct Sink {
    path: String,
    waiting: Mutex<Lines>,
    /// Locked for as long as a write takes.
    file: Mutex<Written>,
    counters: Arc<Counters>,
    wake: Wake,
    /// Whether it is to be opened again.
    is_reopened: AtomicBool,
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

impl Drop for AccessLogFile {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl AccessLogFile {
    fn new(path: &str, file: std::fs::File, counters: Arc<Counters>) -> Self {
        let file = Mutex::new(Written { file, is_cut: false, spare: Lines::default() });
        let (waiting, wake, is_reopened) = (Mutex::default(), Wake::default(), AtomicBool::new(false));
        Self(Arc::new(Sink { path: path.to_owned(), waiting, file, counters, wake, is_reopened }))
    }

    /// Appends a line with `write`. Cost: a lock that is held for the time of formatting the line.
    pub(crate) fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let sink = &*self.0;
        let mut waiting = sink.waiting.lock();
        let before = waiting.bytes.len();
        if before >= MAX_WAITING {
            drop(waiting);
            sink.lose(1, "too many lines wait for the disk");
            return;
        }
        write(&mut waiting.bytes);
        waiting.count += 1;
        if before < FLUSH_BYTES && waiting.bytes.len() >= FLUSH_BYTES {
            drop(waiting);
            sink.wake.now();
        }
    }

    /// Starts the thread. Errors: it cannot be created.
    fn start(&self) -> std::io::Result<JoinHandle<()>> {
        let (sink, of_stop) = (Arc::clone(&self.0), Arc::clone(&self.0));
        let is_stopping = move || of_stop.wake.stopped.load(Ordering::Acquire);
        let task = Task::restarted("access log").of(&*self.0.path);
        task.spawn_thread("access-log", is_stopping, move |_| {
            // Once more after the end was asked for.
            let mut is_last = false;
            while !is_last {
                sink.wake.wait();
                is_last = sink.wake.stopped.load(Ordering::Acquire);
                if sink.is_reopened.swap(false, Ordering::AcqRel)
                    && let Err(error) = sink.reopen()
                {
                    tracing::warn!(path = sink.path, %error, "an access log cannot be opened again; the open one is kept");
                }
                sink.flush();
            }
        })
    }
}

impl Sink {
    fn stop(&self) {
        self.wake.stopped.store(true, Ordering::Release);
        self.wake.now();
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
        self.flush();
        let file = open(&self.path)?;
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

/// All access log files of the process, one for each path.
#[derive(Debug, Default)]
pub(crate) struct AccessLogFiles {
    files: Mutex<Files>,
    pub(crate) counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Files {
    by_path: BTreeMap<String, Arc<AccessLogFile>>,
    /// Whether files have threads.
    is_started: bool,
    /// Those of files in use, and of others that are yet to end.
    threads: Vec<JoinHandle<()>>,
}

impl AccessLogFiles {
    /// The file at a path, opened if it is not yet. Errors: it cannot be opened, or its thread cannot be created.
    pub(crate) fn open(&self, path: &str) -> std::io::Result<Arc<AccessLogFile>> {
        let mut files = self.files.lock();
        if let Some(file) = files.by_path.get(path) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(AccessLogFile::new(path, open(path)?, Arc::clone(&self.counters)));
        if files.is_started {
            files.threads.push(file.start()?);
        }
        files.by_path.insert(path.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    /// Closes files that no filter writes to any more, each once its thread has written what waits.
    pub(crate) fn close_unused(&self) {
        let mut files = self.files.lock();
        files.by_path.retain(|_, file| Arc::strong_count(file) > 1);
        files.threads.retain(|thread| !thread.is_finished());
    }

    /// Starts the threads. Errors: one cannot be created.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        let mut files = self.files.lock();
        files.is_started = true;
        let started: std::io::Result<Vec<_>> = files.by_path.values().map(|file| file.start()).collect();
        files.threads.extend(started?);
        Ok(())
    }

    /// Has all files opened again, for example after they were renamed: each by its thread, once what it writes now is written.
    pub(crate) fn reopen(&self) {
        for file in self.files.lock().by_path.values() {
            file.0.is_reopened.store(true, Ordering::Release);
            file.0.wake.now();
        }
    }

    /// Writes what waits and ends the threads. A write that takes longer than `LAST_WRITE` is left behind.
    pub(crate) fn stop(&self) {
        let threads = {
            let mut files = self.files.lock();
            files.by_path.values().for_each(|file| file.0.stop());
            std::mem::take(&mut files.threads)
        };
        let begun = Instant::now();
        while threads.iter().any(|thread| !thread.is_finished()) {
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
        (AccessLogFile::new(path, opened, Arc::clone(&counters)), counters)
    }

    #[test]
    fn lines_that_a_full_disk_does_not_take_are_counted() {
        let (log, counters) = file("/dev/full");
        for _ in 0..3 {
            log.append(|out| out.extend_from_slice(b"a line\n"));
        }
        log.0.flush();
        log.append(|out| out.extend_from_slice(b"a line\n"));
        log.0.flush();
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
        assert!(log.0.waiting.lock().bytes.len() <= MAX_WAITING + line.len());
        log.0.flush();
        assert!(log.0.file.lock().spare.bytes.capacity() <= 2 * FLUSH_BYTES);
    }

    #[test]
    fn a_line_that_is_cut_does_not_run_into_the_next_one() {
        let path = std::env::temp_dir().join(format!("mixer-access-log-{}", std::process::id()));
        let (log, _) = file(path.to_str().unwrap());
        log.0.file.lock().is_cut = true;
        for _ in 0..2 {
            log.append(|out| out.extend_from_slice(b"a line\n"));
            log.0.flush();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, "\na line\na line\n");
    }

    /// Files, one of which is a pipe that is full, and that nobody reads.
    fn with_full_pipe() -> (AccessLogFiles, (std::io::PipeReader, tempfile::TempDir)) {
        let (reader, writer) = std::io::pipe().unwrap();
        // Where it is opened again.
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe").display().to_string();
        let files = AccessLogFiles::default();
        let file = std::fs::File::from(std::os::fd::OwnedFd::from(writer));
        let log = Arc::new(AccessLogFile::new(&path, file, Arc::clone(&files.counters)));
        files.files.lock().by_path.insert(path, Arc::clone(&log));
        files.start().unwrap();
        log.append(|out| out.extend_from_slice(&vec![b'a'; 1 << 20]));
        let deadline = Instant::now() + Duration::from_secs(60);
        while !log.0.waiting.lock().bytes.is_empty() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(1));
        }
        (files, (reader, directory))
    }

    #[test]
    fn a_file_that_takes_nothing_does_not_keep_the_process() {
        let (files, reader) = with_full_pipe();
        let begun = Instant::now();
        files.stop();
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        drop(reader);
    }

    #[test]
    fn a_file_that_takes_nothing_holds_up_no_other_one() {
        let (files, reader) = with_full_pipe();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let log = files.open(path.to_str().unwrap()).unwrap();
        let line = |text: &str| log.append(|out| out.extend_from_slice(text.as_bytes()));
        let until = |path: &Path, text: &str| {
            let deadline = Instant::now() + Duration::from_secs(60);
            while std::fs::read_to_string(path).unwrap_or_default() != text {
                assert!(Instant::now() < deadline, "{path:?}");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        line("before\n");
        until(&path, "before\n");
        let moved = directory.path().join("log.1");
        std::fs::rename(&path, &moved).unwrap();
        files.reopen();
        while !path.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        line("after\n");
        until(&path, "after\n");
        assert_eq!(std::fs::read_to_string(moved).unwrap(), "before\n");
        // What nobody uses any more is written first.
        line("last\n");
        drop(log);
        files.close_unused();
        until(&path, "after\nlast\n");
        drop(reader);
        files.stop();
    }
}
