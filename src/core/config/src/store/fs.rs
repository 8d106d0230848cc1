//! A store of the files below a directory.
//!
//! A thread of its own reads the directory; nobody else waits for the file system. It reads only changed files and parses only
//! changed chunks. It waits for file events (inotify), then until none arrive for a short time. If the events name plain files,
//! only those are read; otherwise, or if events were lost, the whole tree is walked. The tree is polled only where events may
//! be missing: on network file systems, where watches fail, or where links lead out of the tree or are broken.
//!
//! A file is read once its writer has closed it; until then its last contents stay in force. So they do when the file or the
//! directory becomes unreadable, and for a second after a file vanished or became empty.

pub(super) mod file;
mod mounts;
mod problems;
mod replaced;
mod scan;
mod wake;
pub(super) mod walk;
mod watch;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use super::{ConfigStore, Outage, Reading, StoreContents, parallel};
use crate::{Diagnostic, FieldPath};
use file::broken_file;
use mixer_base::task::{self, External, FaultPoint, Group, Task};
use scan::{Scanner, Scope};
use wake::{Wake, Woken};

/// Changes are read when no event arrives for this long.
const QUIET: Duration = Duration::from_millis(10);
/// Changes are read at the latest this long after the first event.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// The first read waits at most this long for the writers of files, and for more files.
const FIRST_WRITERS: Duration = Duration::from_secs(2);
/// The first read for a server is over once no file has changed for this long: the directory may be being filled.
const FIRST_QUIET: Duration = Duration::from_millis(100);
/// Interval of looks at these files.
const FIRST_WRITERS_POLL: Duration = Duration::from_millis(20);
/// A scan that takes longer is reported: the file system may hang.
const SCAN_LIMIT: Duration = Duration::from_secs(10);

/// How long a look that was asked for is waited for.
const LOOK_LIMIT: Duration = Duration::from_secs(1);
/// Interval of looks at the root alone.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Interval of scans after one that panicked.
const RETRY: Duration = Duration::from_secs(1);
/// What follows a failure of the program itself.
const UNREAD_HINT: &str = "it is tried again; the log has more";
/// What follows a first read that is overdue.
const HANGS_HINT: &str = "look at the mount; what is there serves once the file system answers";

/// What happens when the directory becomes unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenLost {
    /// The last contents stay in force.
    #[default]
    Keep,
    /// All configuration is dropped, as in Istio Mixer.
    Drop,
}

/// A store of the YAML files below a directory.
pub(super) struct FsStore {
    url: String,
    lost: WhenLost,
    root: PathBuf,
    /// See [`Reading::is_urgent`].
    is_urgent: bool,
    /// See [`Reading::on_request`].
    is_on_request: bool,
    shared: Arc<Shared>,
    start: Mutex<Start>,
}

/// The start of the thread that reads.
struct Start {
    /// What the thread takes when it runs: one that cannot be created leaves it here.
    scanner: Arc<Mutex<Option<Scanner>>>,
    state: StartState,
    /// The next attempts that fail.
    #[cfg(test)]
    failures_to_inject: u32,
}

enum StartState {
    /// Nobody asked for the contents yet.
    Idle,
    /// The thread cannot be created; the time of the next attempt.
    Waiting(Arc<External>, Instant),
    Running,
}

/// What the thread that reads shares with the users of the store. No lock is held across I/O.
struct Shared {
    wake: Arc<Wake>,
    published: Mutex<Published>,
    /// Signals a new version to [`ConfigStore::changed`].
    changed: Notify,
    /// Signals the first version to [`ConfigStore::load`].
    loaded: Condvar,
    /// Files that [`ConfigStore::expect`] named, until the next scan.
    expected: Mutex<Vec<PathBuf>>,
    /// Whether somebody waits for the first read in order to serve.
    serves: AtomicBool,
    /// Called before each scan.
    #[cfg(test)]
    gate: Mutex<Option<Box<dyn Fn() + Send>>>,
}

struct Published {
    contents: Arc<StoreContents>,
    /// Version of the contents; 0 before the first read.
    version: u64,
    /// The version that `changed` last announced.
    announced: u64,
    /// The start of a scan that has not ended.
    scanning_since: Option<Instant>,
    /// The number of scans that began, and of the last one that ended.
    scans: (u64, u64),
    /// Whether the last scan saw changes that the contents do not have.
    awaits_change: bool,
    /// When something last happened to a file.
    touched: Option<Instant>,
    /// Why the last scan failed.
    failure: Option<String>,
    /// Whether a scan could read everything, so that contents stay in effect which are not those of a part.
    has_read: bool,
}

impl FsStore {
    /// A store of the files below `root`; `url` is its URL for users. Nothing is read yet.
    pub(super) fn new(url: &str, root: impl Into<PathBuf>, lost: WhenLost) -> Self {
        Self::reading(url, root, lost, Reading::default())
    }

    /// [`new`](Self::new), of files that are read in another way.
    pub(super) fn reading(url: &str, root: impl Into<PathBuf>, lost: WhenLost, reading: Reading) -> Self {
        let root = root.into();
        let contents = unread(&root, "not read yet".to_owned(), "the file system may hang");
        let published = Published {
            contents: Arc::new(contents),
            version: 0,
            announced: 0,
            scanning_since: None,
            scans: (0, 0),
            awaits_change: false,
            touched: None,
            failure: None,
            has_read: false,
        };
        let shared = Shared {
            wake: Arc::default(),
            published: Mutex::new(published),
            changed: Notify::new(),
            loaded: Condvar::new(),
            expected: Mutex::default(),
            serves: AtomicBool::new(false),
            #[cfg(test)]
            gate: Mutex::new(None),
        };
        let start = Start {
            scanner: Arc::new(Mutex::new(Some(Scanner::new(root.clone(), lost).reading(reading)))),
            state: StartState::Idle,
            #[cfg(test)]
            failures_to_inject: 0,
        };
        let Reading { is_urgent, on_request: is_on_request, .. } = reading;
        Self {
            url: url.to_owned(),
            lost,
            root,
            is_urgent,
            is_on_request,
            shared: Arc::new(shared),
            start: Mutex::new(start),
        }
    }

    /// Starts the thread that reads, unless it runs. Returns the pause before the next attempt if it cannot be created.
    fn start(&self) -> Option<Duration> {
        let mut start = self.start.lock();
        let task = match &start.state {
            StartState::Running => return None,
            StartState::Idle => Arc::new(Task::restarted("store").external()),
            StartState::Waiting(task, at) => match at.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => return Some(left),
                _ => Arc::clone(task),
            },
        };
        let Err(error) = self.spawn(&task, &mut start) else {
            start.state = StartState::Running;
            return None;
        };
        let pause = task.not_started(&error);
        start.state = StartState::Waiting(task, Instant::now() + pause);
        let why = format!("cannot start the thread that reads the configuration: {error}");
        let mut published = self.shared.published.lock();
        if published.contents.unavailable.as_ref() != Some(&why) {
            published.contents = Arc::new(unread(&self.root, why, UNREAD_HINT));
            published.version += 1;
            self.shared.announce();
        }
        Some(pause)
    }

    fn spawn(&self, task: &Arc<External>, start: &mut Start) -> std::io::Result<()> {
        #[cfg(test)]
        if start.failures_to_inject > 0 {
            start.failures_to_inject -= 1;
            return Err(std::io::Error::other("out of threads"));
        }
        let (shared, wake) = (Arc::clone(&self.shared), Arc::clone(&self.shared.wake));
        let (offered, mut taken) = (Arc::clone(&start.scanner), None);
        let is_urgent = self.is_urgent;
        let body = move |fault: &FaultPoint<'_>| {
            if taken.is_none() {
                taken = offered.lock().take();
            }
            if let Some(scanner) = &mut taken {
                shared.follow(scanner, !is_urgent, fault);
            }
        };
        task.spawn_thread("config-store", move || wake.is_stopped(), body).map(drop)
    }

    /// Starts the thread again and again until it runs; never completes.
    async fn keep_starting(&self) {
        while let Some(pause) = self.start() {
            tokio::time::sleep(pause).await;
        }
        std::future::pending().await
    }
}

impl Published {
    /// How long the first read may still take; `None` once there was one.
    fn first_read_left(&self) -> Option<Duration> {
        let taken = self.scanning_since.map_or(Duration::ZERO, |since| since.elapsed());
        (self.version == 0).then(|| SCAN_LIMIT.saturating_sub(taken))
    }
}

/// Why a read is overdue.
fn hangs() -> String {
    format!(
        "reading takes longer than {} s: the file system may hang, or the machine is too busy to read",
        SCAN_LIMIT.as_secs()
    )
}

/// The contents of a store of which nothing could be read.
fn unread(root: &Path, why: String, hint: &str) -> StoreContents {
    let path = root.display().to_string();
    let problem = Diagnostic::error("store-unreadable", FieldPath::root(), format!("{path}: {why}"));
    let problem = Diagnostic { file: Some(path.into()), ..problem.with_hint(hint) };
    StoreContents {
        broken: vec![broken_file(root, problem.clone(), false)],
        diagnostics: vec![problem],
        unavailable: Some(why),
        ..StoreContents::default()
    }
}

impl Drop for FsStore {
    fn drop(&mut self) {
        // Not joined: the file system may hang.
        self.shared.wake.stop();
    }
}

impl ConfigStore for FsStore {
    fn url(&self) -> &str {
        &self.url
    }

    fn contents(&self) -> Arc<StoreContents> {
        Arc::clone(&self.shared.published.lock().contents)
    }

    fn load(&self) -> Arc<StoreContents> {
        self.start();
        let mut published = self.shared.published.lock();
        while published.version == 0 {
            self.shared.loaded.wait(&mut published);
        }
        Arc::clone(&published.contents)
    }

    fn loaded(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.shared.serves.store(true, Ordering::Release);
        self.start();
        Box::pin(async {
            tokio::select! {
                () = self.shared.until(|published| published.version > 0) => {}
                () = self.keep_starting() => {}
            }
        })
    }

    fn overdue(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            loop {
                let left = self.shared.published.lock().first_read_left();
                let Some(left) = left else { return std::future::pending().await };
                if left.is_zero() {
                    break;
                }
                tokio::time::sleep(left).await;
            }
            let mut published = self.shared.published.lock();
            if published.version == 0 {
                published.contents = Arc::new(unread(&self.root, hangs(), HANGS_HINT));
            }
        })
    }

    fn expect(&self, files: &[&Path]) {
        let within = files.iter().filter(|file| file.starts_with(&self.root));
        self.shared.expected.lock().extend(within.map(|file| file.to_path_buf()));
        self.shared.wake.rescan();
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.shared.wake.follow();
        self.start();
        let news = |published: &mut Published| {
            let is_new = published.version != published.announced;
            published.announced = published.version;
            is_new
        };
        Box::pin(async move {
            tokio::select! {
                () = self.shared.until(news) => {}
                () = self.keep_starting() => {}
            }
        })
    }

    fn rescan(&self) {
        self.shared.wake.rescan();
    }

    fn looked(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let (begun, version) = {
            let published = self.shared.published.lock();
            (published.scans.0, published.version)
        };
        if self.is_on_request || version == 0 {
            return Box::pin(std::future::ready(()));
        }
        self.shared.wake.rescan();
        // One that has begun may take the request, and the next one begins nevertheless.
        let is_done = move |published: &mut Published| published.scans.1 > begun;
        Box::pin(async move {
            let _ = tokio::time::timeout(LOOK_LIMIT, self.shared.until(is_done)).await;
        })
    }

    fn version(&self) -> u64 {
        self.shared.published.lock().version
    }

    fn awaits_change(&self) -> bool {
        let published = self.shared.published.lock();
        published.awaits_change || published.scans.0 != published.scans.1 || self.shared.wake.has_noted()
    }

    fn touched(&self) -> Option<Instant> {
        self.shared.published.lock().touched
    }

    fn availability(&self) -> Result<(), Outage> {
        let published = self.shared.published.lock();
        let overdue = published.scanning_since.filter(|since| since.elapsed() > SCAN_LIMIT);
        let why = if let Some(failure) = &published.failure {
            Some(failure.clone())
        } else if overdue.is_some() {
            Some(hangs())
        } else {
            published.contents.unavailable.clone()
        };
        let keeps_last = published.has_read && self.lost == WhenLost::Keep;
        why.map_or(Ok(()), |why| Err(Outage { why, keeps_last }))
    }

    fn has_changed(&self) -> bool {
        let published = self.shared.published.lock();
        published.version != published.announced
    }
}

impl Shared {
    /// Waits until `condition` holds; checks it whenever there is a new version.
    async fn until(&self, mut condition: impl FnMut(&mut Published) -> bool) {
        loop {
            let changed = self.changed.notified();
            if condition(&mut self.published.lock()) {
                return;
            }
            changed.await;
        }
    }

    /// Wakes everybody who waits for a version. The lock is held by the caller or was held after the change.
    fn announce(&self) {
        self.loaded.notify_all();
        self.changed.notify_waiters();
    }

    /// The life of the thread: scans, and waits for the next reason to scan.
    fn follow(&self, scanner: &mut Scanner, mut gives_way: bool, fault: &FaultPoint<'_>) {
        let mut watching = false;
        let mut scope = Scope::Everything;
        let mut next_look = Instant::now() + LOOK_INTERVAL;
        loop {
            if !watching && !scanner.is_on_request() && self.wake.begins_to_follow() {
                watching = true;
                scope = Scope::Everything;
                self.attempt(|| scanner.watch(&self.wake));
            }
            fault.check();
            let next = match self.scan(scanner, scope) {
                true => scanner.next_scan(Instant::now()).filter(|_| watching || scanner.awaits_change()),
                false => Some((RETRY, Scope::Everything)),
            };
            // Once there is something to serve: until then no calls are spared, and all wait for this.
            if gives_way && self.published.lock().version > 0 {
                mixer_base::scheduling::give_way();
                gives_way = false;
            }
            let next =
                next.and_then(|(interval, scope)| Some((Instant::now().checked_add(interval)?, scope)));
            let deadline = next.map(|(deadline, _)| deadline);
            scope = match self.wait(scanner, deadline, &mut next_look) {
                Woken::Stopped => return,
                Woken::TimedOut => next.map_or(Scope::Noted, |(_, scope)| scope),
                Woken::Signalled => {
                    let latest = Instant::now() + MAX_DELAY;
                    while self.wake.wait(Some(latest.min(Instant::now() + QUIET))) == Woken::Signalled
                        && Instant::now() < latest
                    {}
                    // An event does not take the place of a poll.
                    next.filter(|(deadline, _)| *deadline <= Instant::now())
                        .map_or(Scope::Noted, |(_, scope)| scope)
                }
            };
        }
    }

    /// Waits for the next reason to scan, and looks every second whether the root is still the directory that was read, with the same mounts, and
    /// whether files are those that were read, however often there is a reason.
    fn wait(&self, scanner: &mut Scanner, deadline: Option<Instant>, next_look: &mut Instant) -> Woken {
        loop {
            let now = Instant::now();
            if now >= *next_look {
                *next_look = now + LOOK_INTERVAL;
                self.published.lock().scanning_since = Some(now);
                if scanner.is_followed() && (scanner.is_moved() || scanner.is_overlooked(now)) {
                    self.wake.rescan();
                }
                self.published.lock().scanning_since = None;
            }
            let until = deadline.map_or(*next_look, |deadline| deadline.min(*next_look));
            match self.wake.wait(Some(until)) {
                Woken::TimedOut if deadline.is_none_or(|deadline| deadline > Instant::now()) => {}
                woken => return woken,
            }
        }
    }

    /// Scans and publishes what changed; false if the scan panicked.
    fn scan(&self, scanner: &mut Scanner, scope: Scope) -> bool {
        let started = Instant::now();
        {
            let mut published = self.published.lock();
            published.scanning_since = Some(started);
            published.scans.0 += 1;
        }
        let first = !scanner.has_read();
        let mut changed = false;
        let failure = self.attempt(|| {
            #[cfg(test)]
            if let Some(gate) = &*self.gate.lock() {
                gate();
            }
            task::hang_if_injected();
            scanner.expect(std::mem::take(&mut *self.expected.lock()));
            changed = scanner.scan(scope, self.wake.take(), Instant::now());
            while first && started.elapsed() < FIRST_WRITERS {
                let filling = scanner.filling(FIRST_QUIET).filter(|_| self.serves.load(Ordering::Acquire));
                let (pause, scope) = match filling {
                    Some(left) => (left, Scope::Everything),
                    None if scanner.awaits_writer() => (FIRST_WRITERS_POLL, Scope::Noted),
                    None => break,
                };
                // An event is no end of it.
                let until = Instant::now() + pause;
                while self.wake.wait(Some(until)) != Woken::TimedOut {
                    if self.wake.is_stopped() {
                        return;
                    }
                }
                scanner.scan(scope, self.wake.take(), Instant::now());
            }
        });
        let mut published = self.published.lock();
        published.scanning_since = None;
        published.scans.1 = published.scans.0;
        published.awaits_change = scanner.awaits_change();
        published.touched = scanner.touched();
        published.failure.clone_from(&failure);
        match &failure {
            Some(why) if !scanner.has_read() => {
                changed = published.contents.unavailable.as_ref() != Some(why);
                if changed {
                    published.contents = Arc::new(unread(scanner.root(), why.clone(), UNREAD_HINT));
                }
            }
            _ => published.contents = Arc::clone(scanner.contents()),
        }
        published.has_read |= published.contents.unavailable.is_none();
        // Resources whose origin alone changed are replaced without a new version.
        if changed {
            published.version += 1;
            self.announce();
        } else {
            // For those who asked for a look.
            self.changed.notify_waiters();
        }
        failure.is_none()
    }

    /// Runs a part of a scan; the text if it panics.
    fn attempt(&self, part: impl FnOnce()) -> Option<String> {
        let panic = std::panic::catch_unwind(AssertUnwindSafe(part)).err()?;
        let text = task::panic_text(&*panic);
        Group::new("configuration scan").count_panic(&text);
        Some(format!("reading the configuration failed: {text}"))
    }
}

#[cfg(test)]
mod tests;
