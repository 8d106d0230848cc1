//! The environment of a handler.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use mixer_attribute::Timestamp;
use mixer_base::metrics::Metrics;
use mixer_base::task::Task;
use mixer_delivery::Holds;

/// A clock. Tests use one that they advance.
pub trait Clock: Send + Sync {
    /// Time since 1970-01-01T00:00:00Z.
    fn unix_time(&self) -> Duration;

    /// Monotonic time since an arbitrary point: what windows, expiries and leases are measured with. Changes of the time of day do not
    /// affect it.
    fn monotonic(&self) -> Duration;

    /// The current time.
    fn now(&self) -> Timestamp {
        let since = self.unix_time();
        Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanos: since.subsec_nanos() }
    }
}

/// The system clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_time(&self) -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }

    fn monotonic(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }
}

/// Dependencies of a handler.
#[derive(Clone)]
pub struct Env {
    /// The name shown to users, for example `h.istio-system`.
    pub handler_name: Arc<str>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Spawns background tasks, which are cancelled when the handler closes.
    pub tasks: TaskSpawner,
    /// Port of the metrics endpoint shared by all prometheus handlers; 0 means any.
    pub metrics_port: u16,
    /// Where the handler records metrics.
    pub metrics: Arc<Metrics>,
    /// State shared by the handlers of one server across configurations.
    pub commons: Arc<Commons>,
    /// The resources that configure the handlers of this adapter beside their parameters, if it has such kinds.
    pub resources: Option<AdapterResources>,
}

/// Resources that configure the handlers of an adapter, beside their parameters: those of all kinds of one snapshot extension, assembled.
#[derive(Clone)]
pub struct AdapterResources {
    assembled: Arc<dyn Any + Send + Sync>,
    digest: u128,
}

impl AdapterResources {
    /// What an extension assembled from resources with this digest.
    pub fn new(assembled: Arc<dyn Any + Send + Sync>, digest: u128) -> Self {
        Self { assembled, digest }
    }

    /// The assembled resources; `None` if the extension of another adapter assembled them.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.assembled).downcast().ok()
    }

    /// Equal digests are equal resources: their handlers are the same.
    pub(crate) fn digest(&self) -> u128 {
        self.digest
    }
}

impl std::fmt::Debug for AdapterResources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdapterResources").field("digest", &self.digest).finish_non_exhaustive()
    }
}

/// State shared by the handlers of one server: at most one value per type, created on first use.
///
/// An adapter with one listener, file or client for all of its handlers stores it here instead of in a global, so that servers
/// and tests in one process are isolated.
#[derive(Default)]
pub struct Commons {
    values: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Commons {
    /// Those of a process that only tries a configuration: handlers create no files, and use no directory on disk that a server may use.
    pub fn of_rehearsal() -> Self {
        let commons = Self::default();
        commons.insert(Arc::new(Holds::of_rehearsal()));
        commons
    }

    /// Sets the shared value of type `T`, before the first use of it.
    pub fn insert<T: Send + Sync + 'static>(&self, value: Arc<T>) {
        self.values.lock().insert(TypeId::of::<T>(), value);
    }

    /// The shared value of type `T`.
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut values = self.values.lock();
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        // INVARIANT: the value under a `TypeId` has that type.
        Arc::clone(value).downcast().unwrap_or_default()
    }
}

impl std::fmt::Debug for Commons {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Commons").field("values", &self.values.lock().len()).finish()
    }
}

/// Spawns background tasks of one handler.
#[derive(Clone)]
pub struct TaskSpawner {
    runtime: tokio::runtime::Handle,
    tracker: tokio_util::task::TaskTracker,
    cancel: tokio_util::sync::CancellationToken,
}

impl TaskSpawner {
    /// A spawner onto `runtime`.
    pub fn new(runtime: tokio::runtime::Handle) -> Self {
        Self {
            runtime,
            tracker: tokio_util::task::TaskTracker::new(),
            cancel: tokio_util::sync::CancellationToken::new(),
        }
    }

    /// Starts a supervised task: `make` is called for each start, and a task that panics or ends is restarted. It is cancelled when
    /// the handler closes.
    pub fn spawn<F, Fut>(&self, task: Task, mut make: F)
    where
        F: FnMut() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let cancel = self.cancel.clone();
        let tracked = self.tracker.token();
        task.spawn_on(&self.runtime, self.cancel.clone(), move || {
            // Counted as live until the closure is dropped with the task.
            let _ = &tracked;
            let (cancel, future) = (cancel.clone(), make());
            async move {
                tokio::select! {
                    () = cancel.cancelled() => {}
                    () = future => {}
                }
            }
        });
    }

    /// Number of running tasks.
    pub fn live(&self) -> usize {
        self.tracker.len()
    }

    /// Cancels all tasks when it is dropped.
    pub(crate) fn guard(&self) -> tokio_util::sync::DropGuard {
        self.cancel.clone().drop_guard()
    }

    /// Cancels all tasks and waits for them to end.
    pub async fn shut_down(&self) {
        self.cancel.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
