//! What the outside world looks like to a handler.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::core::attribute::Timestamp;

/// The time. Tests stop and move it.
pub trait Clock: Send + Sync {
    /// Since 1970-01-01T00:00:00Z.
    fn unix_time(&self) -> Duration;

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
    /// Port of the metrics endpoint that all prometheus handlers share.
    pub metrics_port: u16,
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
