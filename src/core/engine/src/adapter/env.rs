//! What the outside world looks like to a handler.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use mixer_attribute::Timestamp;
use mixer_base::metrics::Metrics;

/// The time. Tests stop and move it.
pub trait Clock: Send + Sync {
    /// Since 1970-01-01T00:00:00Z.
    fn unix_time(&self) -> Duration;

    /// Monotonic time since an arbitrary point.
    fn monotonic(&self) -> Duration {
        self.unix_time()
    }

    /// The present instant.
    fn now(&self) -> Timestamp {
        let since = self.unix_time();
        Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanos: since.subsec_nanos() }
    }
}

/// The time of the machine.
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

/// What a handler may use beside its parameters.
#[derive(Clone)]
pub struct Env {
    /// The name shown to users, for example `h.istio-system`.
    pub handler_name: Arc<str>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where background tasks run; they end with the handler.
    pub tasks: TaskSpawner,
    /// Port of the metrics endpoint that all prometheus handlers share; 0 means any.
    pub metrics_port: u16,
    /// Where the handler counts what it drops.
    pub metrics: Arc<Metrics>,
    /// What the handlers of one server share, and keep from one configuration to the next.
    pub commons: Arc<Commons>,
}

/// What the handlers of one server share: at most one value a type, made when it is first asked for.
///
/// An adapter that has one listener, file or client for all of its handlers keeps it here instead of in a global, so that
/// servers and tests in one process do not meet.
#[derive(Default)]
pub struct Commons {
    values: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Commons {
    /// The value of type `T`, the same one for everybody.
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut values = self.values.lock();
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        // INVARIANT: the value under the id of a type is of that type.
        Arc::clone(value).downcast().unwrap_or_default()
    }
}

impl std::fmt::Debug for Commons {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Commons").field("values", &self.values.lock().len()).finish()
    }
}

/// Starts background tasks that belong to one handler.
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

    /// Starts a task. It is dropped when the handler closes. A panic in it is logged and ends only it.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let cancel = self.cancel.clone();
        self.runtime.spawn(self.tracker.track_future(async move {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = future => {}
            }
        }));
    }

    /// Tasks that have not ended.
    pub fn live(&self) -> usize {
        self.tracker.len()
    }

    /// Ends all tasks and waits until they are gone.
    pub async fn shut_down(&self) {
        self.cancel.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
