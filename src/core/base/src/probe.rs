//! Liveness and readiness, and probe files: a server refreshes a file while it is available, a probe checks the age of the file.
//!
//! [`Availability`] combines named emitters ([`ProbeEmitter`]): available while all of them are. [`FileProbe`] refreshes the file
//! every half interval while its availability lasts, and removes it otherwise. [`inspect`] is the probe.
//! The files are those of Istio Mixer.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info};

use crate::looks::Looks;
use crate::rotate::os_text;
use crate::task::{Task, hang_if_injected};

/// Added to the interval before a file is stale.
pub const TOLERANCE: Duration = Duration::from_millis(10);

/// The state of a probe file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inspection {
    /// Modified within the interval, or in the future.
    Fresh,
    /// Last modified at this time, before the interval.
    Stale(SystemTime),
    /// It cannot be read; the error of the operating system in lower case.
    Unreadable(String),
}

/// Checks the modification time of `path`, whatever the content and type of the file.
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

/// The combined status of several emitters, for example liveness or readiness. Clones share it.
#[derive(Debug, Clone)]
pub struct Availability {
    shared: Arc<Emitters>,
}

#[derive(Debug)]
struct Emitters {
    /// Its name in errors and in the log.
    name: String,
    conditions: Mutex<Conditions>,
    /// Number of status changes.
    changes: watch::Sender<u64>,
}

/// The status of every emitter, and what the log says about all of them.
#[derive(Debug, Default)]
struct Conditions {
    by_name: BTreeMap<String, Condition>,
    logged: Logged,
}

#[derive(Debug)]
struct Condition {
    status: Result<(), String>,
    /// Whether it was set since it was registered.
    is_set: bool,
    /// Whether it is unavailable on purpose.
    is_withdrawn: bool,
}

/// What the log says.
#[derive(Debug, Default)]
enum Logged {
    #[default]
    Nothing,
    Available,
    /// Since when.
    Unavailable(Instant),
}

/// One of the conditions of an availability. After it is dropped, it stays registered with its last status.
#[derive(Debug, Clone)]
pub struct ProbeEmitter {
    shared: Arc<Emitters>,
    name: String,
}

impl Availability {
    /// Unavailable until emitters are registered and available. `name` appears in the log.
    pub fn new(name: impl Into<String>) -> Self {
        let conditions = Mutex::default();
        Self { shared: Arc::new(Emitters { name: name.into(), conditions, changes: watch::Sender::new(0) }) }
    }

    /// Registers an emitter, unavailable for `reason` until it is set. A name that is registered already returns the same
    /// emitter and changes nothing.
    pub fn emitter(&self, name: &str, reason: &str) -> ProbeEmitter {
        let mut conditions = self.shared.conditions.lock();
        if conditions.by_name.contains_key(name) {
            debug!(probe = self.shared.name, emitter = name, "emitter is registered already");
        } else {
            let status = Err(reason.to_owned());
            let condition = Condition { status, is_set: false, is_withdrawn: false };
            conditions.by_name.insert(name.to_owned(), condition);
            drop(conditions);
            self.shared.changes.send_modify(|n| *n += 1);
        }
        ProbeEmitter { shared: Arc::clone(&self.shared), name: name.to_owned() }
    }

    /// Whether every emitter is available. Errors: `<emitter>: <reason>, …`.
    pub fn status(&self) -> Result<(), String> {
        self.shared.conditions.lock().status(&self.shared.name)
    }

    /// Every emitter with its status, by name.
    pub fn emitters(&self) -> Vec<(String, Result<(), String>)> {
        let conditions = self.shared.conditions.lock();
        conditions.by_name.iter().map(|(name, condition)| (name.clone(), condition.status.clone())).collect()
    }

    /// Changes whenever an emitter does.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }
}

impl ProbeEmitter {
    /// Sets whether it is available, or why not.
    pub fn set(&self, status: Result<(), String>) {
        self.change(status, false);
    }

    /// Becomes unavailable on purpose, for example to shut down: logged as info, not as an error.
    pub fn withdraw(&self, reason: &str) {
        self.change(Err(reason.to_owned()), true);
    }

    fn change(&self, status: Result<(), String>, on_purpose: bool) {
        let probe = &self.shared.name;
        let mut conditions = self.shared.conditions.lock();
        let before = conditions.status(probe);
        let Some(condition) = conditions.by_name.get_mut(&self.name) else { return };
        let is_changed = condition.status != status;
        if !is_changed && condition.is_set {
            return;
        }
        *condition = Condition { status, is_set: true, is_withdrawn: on_purpose };
        conditions.log(probe, before, on_purpose);
        drop(conditions);
        if is_changed {
            self.shared.changes.send_modify(|n| *n += 1);
        }
    }
}

impl Conditions {
    fn status(&self, name: &str) -> Result<(), String> {
        if self.by_name.is_empty() {
            return Err(format!("{name} has no emitters"));
        }
        let errors: Vec<String> = self
            .by_name
            .iter()
            .filter_map(|(name, condition)| {
                condition.status.as_ref().err().map(|error| format!("{name}: {error}"))
            })
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join(", ")) }
    }

    /// Logs each transition once. The first one is logged when every emitter was set: before that, a start is in progress.
    fn log(&mut self, probe: &str, before: Result<(), String>, on_purpose: bool) {
        match (self.status(probe), &self.logged) {
            (Ok(()), Logged::Available) => {}
            (Ok(()), Logged::Nothing) => {
                info!("{probe} turns available");
                self.logged = Logged::Available;
            }
            (Ok(()), Logged::Unavailable(since)) => {
                let (why, time) = (before.err().unwrap_or_default(), since.elapsed());
                info!("{probe} turns available; for {time:.1?} it was not, because of {why}");
                self.logged = Logged::Available;
            }
            (Err(list), Logged::Available) => {
                if on_purpose {
                    info!("{probe} turns unavailable: {list}");
                } else {
                    error!("{probe} turns unavailable: {list}");
                }
                self.logged = Logged::Unavailable(Instant::now());
            }
            (Err(list), Logged::Nothing) if self.by_name.values().all(|condition| condition.is_set) => {
                // As when a start is ended before it is over.
                if self.by_name.values().any(|condition| condition.is_withdrawn) {
                    info!("{probe} never turned available: {list}");
                } else {
                    error!("{probe} is unavailable from the start: {list}");
                }
                self.logged = Logged::Unavailable(Instant::now());
            }
            (Err(list), Logged::Nothing | Logged::Unavailable(_)) => {
                debug!("{probe} is still unavailable: {list}");
            }
        }
    }
}

/// How long the start and the end wait for the file system.
const PATIENCE: Duration = Duration::from_secs(1);

/// Maintains one probe file. Dropping it without [`close`](Self::close) leaves the file behind, unless an update goes on.
#[derive(Debug)]
pub struct FileProbe {
    file: Arc<ProbeFile>,
    ticker: Option<tokio::task::JoinHandle<()>>,
}

#[derive(Debug)]
struct ProbeFile {
    path: PathBuf,
    availability: Availability,
    stop: CancellationToken,
    /// A file system that hangs holds up nothing but the file, which is stale then.
    looks: Looks,
}

impl FileProbe {
    /// Updates the file at once, then every half `interval` on threads of `runtime`. The first update is waited for, for a second at most.
    ///
    /// The first update removes a stale file of an earlier process, because no emitter is available yet.
    pub fn start(
        path: PathBuf,
        interval: Duration,
        availability: Availability,
        runtime: &tokio::runtime::Handle,
    ) -> Self {
        let task = Task::restarted("probe file").of(Self::name_of(&path));
        let stop = CancellationToken::new();
        let file = Arc::new(ProbeFile { path, availability, stop: stop.clone(), looks: Looks::on(runtime) });
        let updated = Arc::clone(&file);
        // A file system that hangs makes the file stale, which is what a probe looks at.
        let _ = file.looks.wait(PATIENCE, move || updated.update());
        let period = (interval / 2).max(Duration::from_millis(1));
        let ticking = Arc::clone(&file);
        let ticker = task.spawn_on(runtime, stop, move || {
            let file = Arc::clone(&ticking);
            async move {
                let mut ticks = tokio::time::interval(period);
                ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                loop {
                    tokio::select! {
                        () = file.stop.cancelled() => return,
                        _ = ticks.tick() => {
                            file.begin(|| {});
                        }
                    }
                }
            }
        });
        Self { file, ticker: Some(ticker) }
    }

    /// The name of a probe file at `path` in the log.
    pub fn name_of(path: &Path) -> String {
        path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Stops the ticker, waits for it and removes the file. A file system that does not answer within a second keeps the file.
    pub async fn close(mut self) {
        self.file.stop.cancel();
        if let Some(ticker) = self.ticker.take() {
            let _ = ticker.await;
        }
        let removed = async {
            loop {
                let (ended, end) = tokio::sync::oneshot::channel();
                if self.file.begin(move || _ = ended.send(())) {
                    // It is dropped by an update that panics.
                    let _ = end.await;
                    return;
                }
                // An update goes on.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, removed).await.is_err() {
            error!("Failed to remove the path {}: the file system does not answer", self.file.path.display());
        }
    }
}

impl ProbeFile {
    /// Begins an update, and calls `ended` after it. False while an earlier one goes on.
    fn begin(self: &Arc<Self>, ended: impl FnOnce() + Send + 'static) -> bool {
        let file = Arc::clone(self);
        self.looks.begin(move || file.update(), ended)
    }

    fn update(&self) {
        hang_if_injected();
        let path = &self.path;
        if self.stop.is_cancelled() || self.availability.status().is_err() {
            remove(path);
        } else if let Err(error) = create(path).and_then(|f| touch(&f)) {
            error!("Failed to create the path {}: {error}", path.display());
        }
    }
}

impl Drop for FileProbe {
    fn drop(&mut self) {
        self.file.stop.cancel();
    }
}

/// Creates or empties the file. Never waits, whatever is at the path.
fn create(path: &Path) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    std::fs::OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(path)
}

fn remove(path: &Path) {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            error!("Failed to remove the path {}: {error}", path.display());
        }
        _ => {}
    }
}

/// Sets the modification time, which truncating an empty file may not change.
fn touch(file: &std::fs::File) -> io::Result<()> {
    file.set_modified(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log;

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
        let ready = Availability::new(FileProbe::name_of(&path));
        let interval = Duration::from_millis(20);
        let probe = FileProbe::start(path.clone(), interval, ready.clone(), runtime.handle());
        assert!(!path.exists(), "a file of an earlier process is removed at the start");
        assert_eq!(ready.status(), Err("ready has no emitters".to_owned()));

        let store = ready.emitter("store", "uninitialized");
        let server = ready.emitter("server", "uninitialized");
        store.set(Ok(()));
        assert_eq!(ready.status(), Err("server: uninitialized".to_owned()));
        server.set(Ok(()));
        assert_eq!(ready.status(), Ok(()));
        assert!(runtime.block_on(eventually(|| path.exists())));

        std::fs::remove_file(&path).unwrap();
        assert!(runtime.block_on(eventually(|| path.exists())), "a missing file comes back");

        server.set(Err("gone".to_owned()));
        store.set(Err("lost".to_owned()));
        assert_eq!(ready.status(), Err("server: gone, store: lost".to_owned()));
        assert!(runtime.block_on(eventually(|| !path.exists())));

        server.set(Ok(()));
        store.set(Ok(()));
        assert!(runtime.block_on(eventually(|| path.exists())));
        runtime.block_on(probe.close());
        assert!(!path.exists(), "closing removes the file");
    }

    #[test]
    fn a_name_registered_twice_is_one_emitter() {
        let live = Availability::new("live");
        live.emitter("server", "first").set(Ok(()));
        live.emitter("server", "second");
        assert_eq!(live.emitters(), vec![("server".to_owned(), Ok(()))]);
    }

    #[test]
    fn each_transition_is_logged_once_with_its_reason() {
        let records = log::tests::records(|| {
            let ready = Availability::new("readiness");
            let (store, tasks) =
                (ready.emitter("store", "not read yet"), ready.emitter("tasks", "not looked at"));
            store.set(Err("not read yet".to_owned()));
            tasks.set(Ok(()));
            store.set(Ok(()));
            store.set(Ok(()));
            tasks.set(Err("worker is down".to_owned()));
            store.set(Err("lost".to_owned()));
            store.set(Err("lost".to_owned()));
            store.set(Ok(()));
            tasks.set(Ok(()));
            store.withdraw("stopping");
        });
        assert_eq!(
            records,
            [
                "error readiness is unavailable from the start: store: not read yet",
                "info readiness turns available; for TIME it was not, because of store: not read yet",
                "error readiness turns unavailable: tasks: worker is down",
                "info readiness turns available; for TIME it was not, because of tasks: worker is down",
                "info readiness turns unavailable: store: stopping",
            ]
        );
        let records = log::tests::records(|| {
            let ready = Availability::new("readiness");
            let (store, tasks) =
                (ready.emitter("store", "not read yet"), ready.emitter("tasks", "not looked at"));
            [&store, &tasks].into_iter().for_each(|emitter| emitter.set(Ok(())));
        });
        assert_eq!(records, ["info readiness turns available"], "a start that succeeds has no failures");
        let records = log::tests::records(|| {
            let ready = Availability::new("readiness");
            let (store, tasks) =
                (ready.emitter("store", "not read yet"), ready.emitter("tasks", "not looked at"));
            store.withdraw("stopping");
            tasks.set(Ok(()));
        });
        let stopped = "info readiness never turned available: store: stopping";
        assert_eq!(records, [stopped], "a stop before the start is over is none either");
    }

    #[test]
    fn receivers_are_notified_of_changes_only() {
        let live = Availability::new("live");
        let server = live.emitter("server", "first");
        let mut changes = live.changes();
        server.set(Err("first".to_owned()));
        assert!(!changes.has_changed().unwrap(), "nothing changed");
        server.set(Ok(()));
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        live.emitter("worker", "stuck");
        assert!(changes.has_changed().unwrap());
    }

    #[test]
    fn a_file_is_judged_by_its_age() {
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
