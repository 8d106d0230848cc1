//! Files of access logs: lines are collected in memory and written by a thread of their own.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mixer_base::regular_file;
use mixer_base::task::Task;
use parking_lot::{Condvar, Mutex};

/// Time between two writes.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes after which the thread writes at once.
const FLUSH_BYTES: usize = 64 << 10;
/// Bytes of a file that wait for the disk; lines beyond them are lost, and counted.
const MAX_WAITING: usize = 4 << 20;

/// A file that workers append lines to.
#[derive(Debug)]
pub(crate) struct AccessLogFile {
    path: String,
    waiting: Mutex<Vec<u8>>,
    written: Mutex<Option<std::fs::File>>,
    lost: AtomicU64,
    wake: Arc<Wake>,
}

#[derive(Debug, Default)]
struct Wake {
    is_due: Mutex<bool>,
    condition: Condvar,
    stopped: AtomicBool,
}

impl AccessLogFile {
    /// Appends a line with `write`. Cost: a lock that is held for the time of formatting the line.
    pub(crate) fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= MAX_WAITING {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let before = waiting.len();
        write(&mut waiting);
        if before < FLUSH_BYTES && waiting.len() >= FLUSH_BYTES {
            self.wake.now();
        }
    }

    fn flush(&self) {
        // The file is locked first, so that lines are written in order.
        let mut written = self.written.lock();
        let lines = std::mem::take(&mut *self.waiting.lock());
        if let Some(file) = written.as_mut()
            && !lines.is_empty()
            && let Err(error) = file.write_all(&lines)
        {
            mixer_base::warn_limited!(1, path = self.path, %error, "access log lines are lost");
        }
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            mixer_base::warn_limited!(
                1,
                path = self.path,
                lost,
                "access log lines are lost: the disk is too slow"
            );
        }
    }

    fn reopen(&self) -> std::io::Result<()> {
        let file = open(&self.path)?;
        self.flush();
        *self.written.lock() = Some(file);
        Ok(())
    }
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
        let file = Arc::new(AccessLogFile {
            path: path.to_owned(),
            waiting: Mutex::default(),
            written: Mutex::new(Some(open(path)?)),
            lost: AtomicU64::new(0),
            wake: Arc::clone(&self.wake),
        });
        files.insert(path.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    /// Starts the thread. Errors: it cannot be created.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        let (files, wake, stopping) =
            (Arc::clone(&self.files), Arc::clone(&self.wake), Arc::clone(&self.wake));
        let is_stopping = move || stopping.stopped.load(Ordering::Acquire);
        let thread = Task::restarted("access log").spawn_thread("access-log", is_stopping, move |_| {
            while !wake.stopped.load(Ordering::Acquire) {
                wake.wait();
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

    /// Writes what waits and ends the thread.
    pub(crate) fn stop(&self) {
        self.wake.stopped.store(true, Ordering::Release);
        self.wake.now();
        if let Some(thread) = self.thread.lock().take() {
            // A panic of it is logged by its supervision.
            let _ = thread.join();
        }
        self.files.lock().values().for_each(|file| file.flush());
    }
}
