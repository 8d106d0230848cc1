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
mod scan;
mod wake;
pub(super) mod walk;
mod watch;
mod writer;

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use super::{ConfigStore, Outage, StoreContents, parallel};
use crate::{Diagnostic, FieldPath};
use file::broken_file;
use mixer_base::task::{self, FaultPoint, Group, Task};
use scan::{Scanner, Scope};
use wake::{Wake, Woken};
pub use writer::{Lease, Writer, writer_of};

/// Changes are read when no event arrives for this long.
const QUIET: Duration = Duration::from_millis(10);
/// Changes are read at the latest this long after the first event.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// The first read waits at most this long for the writers of files.
const FIRST_WRITERS: Duration = Duration::from_secs(2);
/// Interval of looks at these files.
const FIRST_WRITERS_POLL: Duration = Duration::from_millis(20);
/// A scan that takes longer is reported: the file system may hang.
const SCAN_LIMIT: Duration = Duration::from_secs(10);

/// Interval of scans after one that panicked.
const RETRY: Duration = Duration::from_secs(1);

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
    shared: Arc<Shared>,
    /// Until the thread is started.
    scanner: Mutex<Option<Scanner>>,
}

/// What the thread that reads shares with the users of the store. No lock is held across I/O.
struct Shared {
    wake: Arc<Wake>,
    published: Mutex<Published>,
    /// Signals a new version to [`ConfigStore::changed`].
    changed: Notify,
    /// Signals the first version to [`ConfigStore::load`].
    loaded: Condvar,
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
    /// Why the last scan failed.
    failure: Option<String>,
    /// Whether a scan could read everything, so that contents stay in effect which are not those of a part.
    has_read: bool,
}

impl FsStore {
    /// A store of the files below `root`; `url` is its URL for users. Nothing is read yet.
    pub(super) fn new(url: &str, root: impl Into<PathBuf>, lost: WhenLost) -> Self {
        let root = root.into();
        let (unread, path) = ("not read yet".to_owned(), root.display().to_string());
        let mut problem =
            Diagnostic::error("store-unreadable", FieldPath::root(), format!("{path}: {unread}"))
                .with_hint("the file system may hang");
        problem.file = Some(path.into());
        let contents = StoreContents {
            broken: vec![broken_file(&root, problem.clone())],
            diagnostics: vec![problem],
            unavailable: Some(unread),
            ..StoreContents::default()
        };
        let published = Published {
            contents: Arc::new(contents),
            version: 0,
            announced: 0,
            scanning_since: None,
            failure: None,
            has_read: false,
        };
        let shared = Shared {
            wake: Arc::default(),
            published: Mutex::new(published),
            changed: Notify::new(),
            loaded: Condvar::new(),
            #[cfg(test)]
            gate: Mutex::new(None),
        };
        Self {
            url: url.to_owned(),
            lost,
            shared: Arc::new(shared),
            scanner: Mutex::new(Some(Scanner::new(root, lost))),
        }
    }

    /// Starts the thread that reads, once.
    fn start(&self) {
        let Some(mut scanner) = self.scanner.lock().take() else { return };
        let (shared, wake) = (Arc::clone(&self.shared), Arc::clone(&self.shared.wake));
        let started = Task::restarted("store").spawn_thread(
            "config-store",
            move || wake.is_stopped(),
            move |fault| {
                shared.follow(&mut scanner, fault);
            },
        );
        if let Err(error) = started {
            let mut published = self.shared.published.lock();
            let text = format!("cannot start the thread that reads the configuration: {error}");
            published.contents =
                Arc::new(StoreContents { unavailable: Some(text), ..StoreContents::default() });
            published.version += 1;
            self.shared.announce();
        }
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
        self.start();
        Box::pin(self.shared.until(|published| published.version > 0))
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.shared.wake.follow();
        self.start();
        Box::pin(self.shared.until(|published| {
            let news = published.version != published.announced;
            published.announced = published.version;
            news
        }))
    }

    fn rescan(&self) {
        self.shared.wake.rescan();
    }

    fn availability(&self) -> Result<(), Outage> {
        let published = self.shared.published.lock();
        let overdue = published.scanning_since.filter(|since| since.elapsed() > SCAN_LIMIT);
        let why = if let Some(failure) = &published.failure {
            Some(failure.clone())
        } else if overdue.is_some() {
            Some(format!("reading takes longer than {} s: the file system may hang", SCAN_LIMIT.as_secs()))
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
    fn follow(&self, scanner: &mut Scanner, fault: &FaultPoint<'_>) {
        let mut watching = false;
        let mut scope = Scope::Everything;
        loop {
            if !watching && self.wake.follows() {
                watching = true;
                scope = Scope::Everything;
                self.attempt(|| scanner.watch(&self.wake));
            }
            fault.check();
            let next = match self.scan(scanner, scope) {
                true => scanner.next_scan(Instant::now()).filter(|_| watching),
                false => Some((RETRY, Scope::Everything)),
            };
            let next =
                next.and_then(|(interval, scope)| Some((Instant::now().checked_add(interval)?, scope)));
            let deadline = next.map(|(deadline, _)| deadline);
            scope = match self.wake.wait(deadline) {
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

    /// Scans and publishes what changed; false if the scan panicked.
    fn scan(&self, scanner: &mut Scanner, scope: Scope) -> bool {
        let started = Instant::now();
        let first = {
            let mut published = self.published.lock();
            published.scanning_since = Some(started);
            published.version == 0
        };
        let mut changed = false;
        let failure = self.attempt(|| {
            #[cfg(test)]
            if let Some(gate) = &*self.gate.lock() {
                gate();
            }
            changed = scanner.scan(scope, self.wake.take(), Instant::now());
            while first && scanner.awaits_writer() && started.elapsed() < FIRST_WRITERS {
                if self.wake.wait(Some(Instant::now() + FIRST_WRITERS_POLL)) == Woken::Stopped {
                    return;
                }
                scanner.scan(Scope::Noted, self.wake.take(), Instant::now());
            }
        });
        let mut published = self.published.lock();
        published.scanning_since = None;
        published.failure.clone_from(&failure);
        published.contents = match (first, &failure) {
            (true, Some(_)) => {
                Arc::new(StoreContents { unavailable: failure.clone(), ..StoreContents::default() })
            }
            _ => Arc::clone(scanner.contents()),
        };
        published.has_read |= published.contents.unavailable.is_none();
        // Resources whose origin alone changed are replaced without a new version.
        if changed || first {
            published.version += 1;
            self.announce();
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
