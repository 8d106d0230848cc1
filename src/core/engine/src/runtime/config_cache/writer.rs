//! Writes the cache, and tries again while that fails.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{
    CacheError, CacheIdentity, CacheMedium, CachedConfiguration, PROBLEM, Served, encode, read_cache,
    read_last,
};
use mixer_attribute::Timestamp;
use mixer_base::metrics::{Family, Metrics};
use mixer_base::task::Group;
use mixer_config::{Diagnostic, FieldPath};

/// The time from the first write that fails to the next attempt; each further failure doubles it.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest time between attempts.
const LAST_RETRY: Duration = Duration::from_secs(60);
/// How long a configuration waits for its write before it serves: a disk that hangs holds no change up.
const PATIENCE: Duration = Duration::from_secs(2);

/// A cache in use: reads once, writes on a background thread, the newest configuration first.
pub struct ConfigCache {
    identity: CacheIdentity,
    shared: Arc<Shared>,
    writers: TaskTracker,
}

struct Shared {
    medium: Arc<dyn CacheMedium>,
    state: Mutex<WriterState>,
    /// Ends the pause before the next attempt.
    work: Notify,
    /// Ends the attempts.
    stop: CancellationToken,
    /// The number of the configuration that was written last, or could not be.
    attempted: watch::Sender<u64>,
    /// Changes with the trouble.
    news: watch::Sender<()>,
}

#[derive(Default)]
struct WriterState {
    /// To be written next.
    next: Option<Arc<Job>>,
    /// The number of the last one that was to be written.
    last: u64,
    is_writing: bool,
    /// Why the cache is not what it should be.
    trouble: Option<CacheTrouble>,
    /// Why the cache of an earlier process is not used.
    ignored: Option<CacheTrouble>,
    /// The same, until another configuration is written.
    unused: Option<Arc<str>>,
    /// Whether it was read, so that it is known whose it is.
    is_read: bool,
    /// What the medium has, if that can be used.
    kept: Option<Served>,
    /// What was found too late to start with it.
    late: Option<Box<CachedConfiguration>>,
}

impl WriterState {
    /// Takes what was read.
    fn take(
        &mut self,
        found: Result<Option<CachedConfiguration>, CacheError>,
        medium: &dyn CacheMedium,
    ) -> Option<CachedConfiguration> {
        self.is_read = true;
        match found {
            Ok(cached) => {
                let kept = cached.as_ref().map(|cached| (cached.resources.clone(), cached.since.clone()));
                self.kept = kept.map(|(resources, since)| Served { resources, since });
                cached
            }
            Err(why) => {
                self.ignore(CacheTrouble::ignored(&medium.name(), &why));
                None
            }
        }
    }

    /// Notes why the cache of an earlier process is not used.
    fn ignore(&mut self, trouble: CacheTrouble) {
        self.kept = None;
        self.unused = Some(trouble.text.as_str().into());
        match trouble.is_final {
            true => self.trouble = Some(trouble),
            false => self.ignored = Some(trouble),
        }
    }
}

/// How a cache is read.
type Read = fn(&dyn CacheMedium, &CacheIdentity) -> Result<Option<CachedConfiguration>, CacheError>;

/// A configuration to be written.
struct Job {
    number: u64,
    served: Served,
    now: Timestamp,
}

#[derive(Clone, PartialEq)]
struct CacheTrouble {
    text: String,
    hint: &'static str,
    /// Whether the cache is of another store, so that it is not written.
    is_final: bool,
}

/// What a cache that is not written means.
const NO_CACHE: &str = "a restart while the configuration is broken would serve nothing";
/// What a cache that has what serves means although it cannot be written.
const SAME_CACHE: &str =
    "a restart would serve it; no other configuration can be kept until the disk takes files";
/// What a cache means whose place is none for files.
const NO_PLACE: &str = "name a file in a directory: what is above the file is none";
/// What a cache that is neither written nor removed means.
const OLD_CACHE: &str = "delete the file: a restart while the configuration is broken would serve the older configuration that it has";

impl CacheTrouble {
    /// That of a cache that is not used.
    fn ignored(name: &str, why: &CacheError) -> Self {
        let is_final = matches!(why, CacheError::OfAnother { .. });
        let (hint, what) = if is_final { (why.hint(), "is not used") } else { (NO_CACHE, "is ignored") };
        Self { text: format!("the configuration cache {name} {what}: {why}"), hint, is_final }
    }

    /// That of a cache that cannot be written. `left`: what became of the older one that was there.
    fn unwritten(name: &str, error: &io::Error, left: &Left) -> Self {
        let text = format!("the configuration cache {name} cannot be written: {error}");
        let (text, hint) = match left {
            Left::Same => (format!("{text}; it has what serves"), SAME_CACHE),
            Left::Never => (text, NO_PLACE),
            Left::Nothing => (format!("{text}; the older one is removed"), NO_CACHE),
            Left::Older(why) => (format!("{text}; nor can the older one be removed: {why}"), OLD_CACHE),
        };
        Self { text, hint, is_final: false }
    }

    /// That of a disk that hangs.
    fn late(name: &str) -> Self {
        let seconds = PATIENCE.as_secs();
        let text =
            format!("the configuration cache {name} is not written after {seconds} s: its disk may hang");
        Self { text, hint: OLD_CACHE, is_final: false }
    }

    fn diagnostic(&self, name: &str) -> Diagnostic {
        let new = if self.is_final { Diagnostic::error } else { Diagnostic::warning };
        let mut problem = new(PROBLEM, FieldPath::root(), self.text.clone()).with_hint(self.hint);
        problem.file = Some(name.into());
        problem
    }
}

/// What a medium has that could not be written.
enum Left {
    /// What serves.
    Same,
    Nothing,
    /// Nothing, nor had it ever: what is above the file is no directory.
    Never,
    /// An older configuration, for this reason.
    Older(io::Error),
}

/// What reading a cache came to.
type Found = Result<Result<Option<CachedConfiguration>, CacheError>, tokio::task::JoinError>;

impl Shared {
    /// Takes what was read after all, unless another configuration was to be written meanwhile: that one is newer.
    fn came_late(&self, found: Found) {
        let Ok(found) = found else { return };
        let mut state = self.state.lock();
        if state.last > 0 {
            return;
        }
        if found.is_ok() {
            (state.ignored, state.unused) = (None, None);
        }
        state.late = state.take(found, &*self.medium).map(Box::new);
        drop(state);
        self.news.send_replace(());
    }
}

impl ConfigCache {
    /// A cache in a medium, of the configuration with this identity. Reads nothing yet.
    pub fn new(medium: Arc<dyn CacheMedium>, identity: CacheIdentity) -> Self {
        let shared = Shared {
            medium,
            state: Mutex::default(),
            work: Notify::new(),
            stop: CancellationToken::new(),
            attempted: watch::Sender::new(0),
            news: watch::Sender::new(()),
        };
        Self { identity, shared: Arc::new(shared), writers: TaskTracker::new() }
    }

    /// Reads the cache; `None` if there is none that can be used, or if that takes longer than `limit`.
    pub async fn load(&self, limit: Duration) -> Option<CachedConfiguration> {
        self.load_by(read_cache, limit).await
    }

    /// [`load`](Self::load) for others who may have what served last, and are not to get anything older: nothing of a medium that cannot be
    /// written now, which is the [trouble](Self::trouble) until it is.
    pub async fn load_last(&self, limit: Duration) -> Option<CachedConfiguration> {
        self.load_by(read_last, limit).await
    }

    async fn load_by(&self, read: Read, limit: Duration) -> Option<CachedConfiguration> {
        let (medium, identity) = (Arc::clone(&self.shared.medium), self.identity.clone());
        let mut reading = tokio::task::spawn_blocking(move || read(&*medium, &identity));
        let Ok(found) = tokio::time::timeout(limit, &mut reading).await else {
            let why = format!("it is not read after {} s", limit.as_secs()).into();
            let mut state = self.shared.state.lock();
            state.ignore(CacheTrouble::ignored(&self.shared.medium.name(), &why));
            drop(state);
            let shared = Arc::clone(&self.shared);
            Group::new("configuration cache").spawn(async move {
                tokio::select! {
                    () = shared.stop.cancelled() => {}
                    found = reading => shared.came_late(found),
                }
            });
            return None;
        };
        let found = found.unwrap_or_else(|error| Err(error.to_string().into()));
        self.shared.state.lock().take(found, &*self.shared.medium)
    }

    /// What [`load`](Self::load) found no sooner than after its limit, once; `None` also if another configuration was to be written before.
    pub(in crate::runtime) fn take_late(&self) -> Option<CachedConfiguration> {
        self.shared.state.lock().late.take().map(|late| *late)
    }

    /// Notes that what was read is not used.
    pub(in crate::runtime) fn ignore(&self, why: &CacheError) {
        self.shared.state.lock().ignore(CacheTrouble::ignored(&self.shared.medium.name(), why));
    }

    /// Writes a configuration that is about to serve. Returns when it is written or cannot be, or when that takes too long: then it goes on
    /// in the background, as do further attempts. A write that is known to hang is not waited for.
    pub async fn save(
        &self,
        served: Served,
        now: Timestamp,
        runtime: &tokio::runtime::Handle,
        metrics: &Arc<Metrics>,
    ) {
        let mut attempted = self.shared.attempted.subscribe();
        let (number, is_slow) = {
            let mut state = self.shared.state.lock();
            if state.trouble.as_ref().is_some_and(|trouble| trouble.is_final) {
                return;
            }
            state.last += 1;
            let number = state.last;
            let is_slow = state.is_writing && *attempted.borrow() + 1 < number;
            state.next = Some(Arc::new(Job { number, served, now }));
            if !std::mem::replace(&mut state.is_writing, true) {
                let writing = write_all(Arc::clone(&self.shared), self.identity.clone(), Arc::clone(metrics));
                let writing = self.writers.track_future(writing);
                Group::new("configuration cache").spawn_on(runtime, writing);
            }
            (number, is_slow)
        };
        self.shared.work.notify_one();
        let written = attempted.wait_for(|done| *done >= number);
        if !is_slow && tokio::time::timeout(PATIENCE, written).await.is_ok() {
            return;
        }
        let mut state = self.shared.state.lock();
        // Under the lock, so that a write that ended just now counts.
        if *self.shared.attempted.borrow() < number {
            state.trouble = Some(CacheTrouble::late(&self.shared.medium.name()));
        }
    }

    /// Waits until everything is written, as far as it can be.
    pub(in crate::runtime) async fn flush(&self) {
        let last = self.shared.state.lock().last;
        let mut attempted = self.shared.attempted.subscribe();
        // The sender is a part of this.
        let _ = attempted.wait_for(|done| *done >= last).await;
    }

    /// Ends the attempts to write what cannot be written, and waits for the last one.
    pub async fn close(&self) {
        self.flush().await;
        self.shared.stop.cancel();
        self.writers.close();
        self.writers.wait().await;
    }

    /// Why the cache is not what it should be.
    pub fn trouble(&self) -> Option<Arc<str>> {
        let state = self.shared.state.lock();
        let trouble = state.trouble.as_ref().map(|trouble| trouble.text.as_str().into());
        trouble.or_else(|| state.unused.clone())
    }

    /// The diagnostics of a cache that cannot be written, and, once, of one that was not used.
    pub(in crate::runtime) fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut state = self.shared.state.lock();
        let (ignored, trouble) = (state.ignored.take(), state.trouble.clone());
        let name = self.shared.medium.name();
        ignored.into_iter().chain(trouble).map(|trouble| trouble.diagnostic(&name)).collect()
    }

    /// That it is of another store or default namespace, if it is.
    pub fn mismatch(&self) -> Option<Diagnostic> {
        let state = self.shared.state.lock();
        let mismatch = state.trouble.as_ref().filter(|trouble| trouble.is_final);
        mismatch.map(|trouble| trouble.diagnostic(&self.shared.medium.name()))
    }

    /// Waits until the [trouble](Self::trouble) changes in the background. Cancel safe.
    pub(in crate::runtime) fn news(&self) -> watch::Receiver<()> {
        self.shared.news.subscribe()
    }
}

impl Drop for ConfigCache {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl Shared {
    /// The configuration to be written next; without one, writing ends.
    fn next(&self, again: Option<Arc<Job>>) -> Option<(Arc<Job>, bool, Option<Served>)> {
        let mut state = self.state.lock();
        let job = state.next.take().or(again);
        if job.is_none() {
            state.is_writing = false;
        }
        job.map(|job| (job, state.is_read, state.kept.clone()))
    }

    /// Notes what became of a configuration. True if it has to be written again.
    fn note(&self, job: &Job, written: Written, metrics: &Metrics) -> bool {
        let name = self.medium.name();
        let mut state = self.state.lock();
        let result = if matches!(written, Written::Done) { "written" } else { "failed" };
        if !matches!(written, Written::Refused(_)) {
            metrics.counter(Family::ConfigCacheWrites, &[result]).add(1);
            state.is_read = true;
        }
        let was_unused = state.unused.is_some();
        let trouble = match written {
            Written::Done => {
                state.kept = Some(job.served.clone());
                state.unused = None;
                None
            }
            Written::Failed(error, left) => {
                if matches!(left, Left::Nothing) {
                    state.kept = None;
                }
                Some(CacheTrouble::unwritten(&name, &error, &left))
            }
            Written::Refused(why) => Some(CacheTrouble::ignored(&name, &why)),
        };
        let has_news = state.trouble != trouble || (was_unused && state.unused.is_none());
        if let Some(CacheTrouble { text, hint, is_final }) = trouble.as_ref().filter(|_| has_news) {
            match is_final {
                true => tracing::error!("{text}; {hint}"),
                false => tracing::warn!("{text}; {hint}"),
            }
        }
        let is_final = trouble.as_ref().is_some_and(|trouble| trouble.is_final);
        if is_final {
            state.next = None;
        }
        let goes_on = trouble.is_some() && !is_final;
        state.trouble = trouble;
        let done = if is_final { state.last } else { job.number };
        self.attempted.send_replace(done);
        drop(state);
        if has_news {
            self.news.send_replace(());
        }
        goes_on
    }
}

/// What became of a configuration.
enum Written {
    Done,
    Failed(io::Error, Left),
    /// The cache is of another store.
    Refused(CacheError),
}

/// Writes what is to be written, until there is nothing more.
async fn write_all(shared: Arc<Shared>, identity: CacheIdentity, metrics: Arc<Metrics>) {
    let (mut again, mut pause) = (None, FIRST_RETRY);
    while let Some((job, is_read, kept)) = shared.next(again.take()) {
        let (medium, identity, writing) = (Arc::clone(&shared.medium), identity.clone(), Arc::clone(&job));
        let write = move || write(&*medium, &identity, &writing, is_read, kept.as_ref());
        let written = tokio::task::spawn_blocking(write).await;
        let written = written.unwrap_or_else(|panic| {
            let left = Left::Older(io::Error::other("writing ended early"));
            Written::Failed(io::Error::other(panic), left)
        });
        if !shared.note(&job, written, &metrics) {
            pause = FIRST_RETRY;
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LAST_RETRY),
            () = shared.work.notified() => pause = FIRST_RETRY,
            () = shared.stop.cancelled() => return,
        }
        again = Some(job);
    }
}

/// Writes a configuration. If that fails, an older one is removed: a restart must not serve it.
fn write(
    medium: &dyn CacheMedium,
    identity: &CacheIdentity,
    job: &Job,
    is_read: bool,
    kept: Option<&Served>,
) -> Written {
    // It was not read in time: whose it is must be known before it is replaced.
    if !is_read && let Err(why @ CacheError::OfAnother { .. }) = read_cache(medium, identity) {
        return Written::Refused(why);
    }
    let Err(error) = encode(&job.served, identity, job.now).and_then(|bytes| medium.write(&bytes)) else {
        return Written::Done;
    };
    if kept.is_some_and(|kept| kept.serves_as(&job.served)) {
        return Written::Failed(error, Left::Same);
    }
    let left = match medium.discard() {
        Ok(()) => Left::Nothing,
        Err(why) if why.kind() == io::ErrorKind::NotADirectory => Left::Never,
        Err(why) => Left::Older(why),
    };
    Written::Failed(error, left)
}
