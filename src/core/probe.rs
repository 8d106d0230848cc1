//! Probes by file: a server keeps a file fresh while it is available, a probe looks at the age of the file.
//!
//! [`inspect`] is the looking side. [`FileProbe`] is the keeping side: it owns named emitters ([`ProbeEmitter`]); while every one of
//! them is available the file is refreshed every half interval, else it is removed. It knows nothing of what the emitters
//! stand for.
//! Spec: cli-operations.md section 2.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

use crate::core::telemetry::rotate::os_text;

/// Added to the interval before a file counts as too old.
pub const TOLERANCE: Duration = Duration::from_millis(10);

/// What looking at a probe file shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inspection {
    /// Young enough, or from the future.
    Fresh,
    /// Last modified at this time, too long ago.
    Stale(SystemTime),
    /// It cannot be examined; the words of the operating system in lower case.
    Unreadable(String),
}

/// Looks at the modification time of `path`; content and type of the file do not matter.
pub fn inspect(path: &Path, interval: Duration, now: SystemTime) -> Inspection {
    let modified = match std::fs::metadata(path).and_then(|m| m.modified()) {
        Ok(modified) => modified,
        Err(error) => return Inspection::Unreadable(os_text(&error)),
    };
    match now.duration_since(modified) {
        Ok(age) if age > interval + TOLERANCE => Inspection::Stale(modified),
        _ => Inspection::Fresh,
    }
}

/// Keeps one probe file. Dropping it without [`close`](Self::close) leaves the file behind.
#[derive(Debug)]
pub struct FileProbe {
    shared: Arc<Shared>,
    stop: CancellationToken,
    ticker: Option<tokio::task::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    emitters: Mutex<BTreeMap<String, Result<(), String>>>,
}

/// One reason to be available or not. It stays registered after it is dropped, with its last status.
#[derive(Debug, Clone)]
pub struct ProbeEmitter {
    shared: Arc<Shared>,
    name: String,
}

impl FileProbe {
    /// Acts on the status at once, then every half `interval` on `runtime`.
    ///
    /// A stale file that an earlier process left is removed by the first act, because nobody has registered yet.
    pub fn start(path: PathBuf, interval: Duration, runtime: &tokio::runtime::Handle) -> Self {
        let shared = Arc::new(Shared { path, emitters: Mutex::new(BTreeMap::new()) });
        shared.act();
        let stop = CancellationToken::new();
        let (ticking, stopped) = (Arc::clone(&shared), stop.clone());
        let period = (interval / 2).max(Duration::from_millis(1));
        let ticker = runtime.spawn(async move {
            let mut ticks = tokio::time::interval(period);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    () = stopped.cancelled() => return,
                    _ = ticks.tick() => ticking.act(),
                }
            }
        });
        Self { shared, stop, ticker: Some(ticker) }
    }

    /// Registers an emitter, unavailable for `reason` until it says otherwise. A name that is taken already gives the same
    /// emitter again and changes nothing.
    pub fn emitter(&self, name: &str, reason: &str) -> ProbeEmitter {
        let mut emitters = self.shared.emitters.lock();
        if emitters.contains_key(name) {
            debug!(probe = self.shared.base_name(), emitter = name, "emitter is registered already");
        } else {
            emitters.insert(name.to_owned(), Err(reason.to_owned()));
        }
        ProbeEmitter { shared: Arc::clone(&self.shared), name: name.to_owned() }
    }

    /// Whether every emitter is available. Errors: what is wrong, `<emitter>: <reason>, …`.
    pub fn status(&self) -> Result<(), String> {
        self.shared.status()
    }

    /// Every emitter with its status, by name.
    pub fn emitters(&self) -> Vec<(String, Result<(), String>)> {
        self.shared.emitters.lock().iter().map(|(name, status)| (name.clone(), status.clone())).collect()
    }

    /// Stops the ticker, waits for it, drops the emitters and removes the file.
    pub async fn close(mut self) {
        self.stop.cancel();
        if let Some(ticker) = self.ticker.take() {
            // A ticker that panicked has stopped as well.
            let _ = ticker.await;
        }
        self.shared.emitters.lock().clear();
        self.shared.remove();
    }
}

impl Drop for FileProbe {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl ProbeEmitter {
    /// Says available, or why not. The file follows with the next tick.
    pub fn set(&self, status: Result<(), String>) {
        let before = self.shared.status();
        self.shared.emitters.lock().insert(self.name.clone(), status);
        let after = self.shared.status();
        match (before, after) {
            (Ok(()), Err(list)) => error!("{} turns unavailable: {list}", self.shared.base_name()),
            (Err(_), Err(list)) => debug!("{} is still unavailable: {list}", self.shared.base_name()),
            (Err(_), Ok(())) => debug!("{} turns available", self.shared.base_name()),
            (Ok(()), Ok(())) => {}
        }
    }
}

impl Shared {
    fn base_name(&self) -> String {
        self.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn status(&self) -> Result<(), String> {
        let emitters = self.emitters.lock();
        if emitters.is_empty() {
            return Err(format!("{} has no emitters", self.base_name()));
        }
        let errors: Vec<String> = emitters
            .iter()
            .filter_map(|(name, status)| status.as_ref().err().map(|error| format!("{name}: {error}")))
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join(", ")) }
    }

    fn act(&self) {
        if self.status().is_err() {
            self.remove();
        } else if let Err(error) = std::fs::File::create(&self.path).and_then(|f| touch(&f)) {
            error!("Failed to create the path {}: {error}", self.path.display());
        }
    }

    fn remove(&self) {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                error!("Failed to remove the path {}: {error}", self.path.display());
            }
            _ => {}
        }
    }
}

/// Truncating an empty file need not change its time: it is set.
fn touch(file: &std::fs::File) -> io::Result<()> {
    file.set_modified(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    async fn eventually(what: impl Fn() -> bool) -> bool {
        for _ in 0..200 {
            if what() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        false
    }

    #[test]
    fn the_file_follows_the_emitters() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ready");
        std::fs::write(&path, "stale").unwrap();
        let runtime = runtime();
        let probe = FileProbe::start(path.clone(), Duration::from_millis(20), runtime.handle());
        assert!(!path.exists(), "a file of an earlier process is removed at the start");
        assert_eq!(probe.status(), Err("ready has no emitters".to_owned()));

        let store = probe.emitter("store", "uninitialized");
        let server = probe.emitter("server", "uninitialized");
        store.set(Ok(()));
        assert_eq!(probe.status(), Err("server: uninitialized".to_owned()));
        server.set(Ok(()));
        assert_eq!(probe.status(), Ok(()));
        assert!(runtime.block_on(eventually(|| path.exists())));

        std::fs::remove_file(&path).unwrap();
        assert!(runtime.block_on(eventually(|| path.exists())), "a missing file comes back");

        server.set(Err("gone".to_owned()));
        store.set(Err("lost".to_owned()));
        assert_eq!(probe.status(), Err("server: gone, store: lost".to_owned()));
        assert!(runtime.block_on(eventually(|| !path.exists())));

        server.set(Ok(()));
        store.set(Ok(()));
        assert!(runtime.block_on(eventually(|| path.exists())));
        runtime.block_on(probe.close());
        assert!(!path.exists(), "closing removes the file");
    }

    #[test]
    fn a_name_registered_twice_is_one_emitter() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = runtime();
        let probe = FileProbe::start(dir.path().join("live"), Duration::from_secs(9), runtime.handle());
        probe.emitter("server", "first").set(Ok(()));
        probe.emitter("server", "second");
        assert_eq!(probe.emitters(), vec![("server".to_owned(), Ok(()))]);
        runtime.block_on(probe.close());
    }

    #[test]
    fn only_the_age_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("live");
        std::fs::write(&path, "unavailable").unwrap();
        let interval = Duration::from_secs(1);
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        let at = |offset: Duration| inspect(&path, interval, modified + offset);
        assert_eq!(at(Duration::ZERO), Inspection::Fresh);
        assert_eq!(at(Duration::from_millis(1010)), Inspection::Fresh);
        assert_eq!(at(Duration::from_millis(1011)), Inspection::Stale(modified));
        let before = modified - Duration::from_secs(100);
        assert_eq!(inspect(&path, interval, before), Inspection::Fresh, "a time in the future is fresh");
        assert_eq!(inspect(dir.path(), Duration::from_secs(3600), SystemTime::now()), Inspection::Fresh);
        let none = inspect(&dir.path().join("none"), interval, modified);
        assert_eq!(none, Inspection::Unreadable("no such file or directory".to_owned()));
    }
}
