//! Supervision: every thread and task that outlives a call is started here.
//!
//! A panic or an unexpected end is logged with the name of the task, counted and shown ([`list`]). What follows is its [`Policy`]:
//! a restart after a pause that doubles, or, for a task without which the process is of no use and that keeps failing, an orderly
//! end of the process ([`failure_of_the_process`]). While a [serving](Policy::Serving) task is down the server is not ready
//! ([`down`]). The tables of tasks are in docs/operations.md and docs/galley.md.
//!
//! The registry is that of the process, as threads are.
//!
//! ```
//! use mixer_base::task::Task;
//! use tokio_util::sync::CancellationToken;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let stop = CancellationToken::new();
//! let until = stop.clone();
//! // Called once more for every restart.
//! let follow = move || { let until = until.clone(); async move { until.cancelled().await } };
//! let task = Task::restarted("certificates").spawn(stop.clone(), follow);
//! stop.cancel();
//! task.await.unwrap();
//! # });
//! ```

mod entry;
mod fault;
mod group;
mod main_loop;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use entry::{RoleStatus, TaskState, TaskStatus, changes, down, failure_of_the_process, list, roles};
pub use fault::{hang_if_injected, inject_panic, is_injection_enabled};
pub use group::Group;
pub use main_loop::main_loop;

use entry::{Entry, Failure};

/// The first pause before a restart.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause before a restart.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A task that ran this long starts again with the first pause.
const STABLE: Duration = Duration::from_secs(60);
/// Failures in a row after which an essential task ends the process.
const ESSENTIAL_FAILURES: u32 = 5;

/// What follows when a task panics or ends unexpectedly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// It is restarted. The server stays ready: it serves without it.
    Restarted,
    /// It is restarted. The server is not ready while it is down.
    Serving,
    /// As `Serving`; five failures in a row, none of which ran for a minute, end the process in order.
    Essential,
}

/// A task or thread to be started.
#[derive(Debug)]
pub struct Task {
    name: &'static str,
    detail: String,
    policy: Policy,
}

impl Task {
    /// A task that is [restarted](Policy::Restarted). `name` is the label of its metrics.
    pub fn restarted(name: &'static str) -> Self {
        Self { name, detail: String::new(), policy: Policy::Restarted }
    }

    /// A task with [`Policy::Serving`].
    pub fn serving(name: &'static str) -> Self {
        Self { policy: Policy::Serving, ..Self::restarted(name) }
    }

    /// A task with [`Policy::Essential`].
    pub fn essential(name: &'static str) -> Self {
        Self { policy: Policy::Essential, ..Self::restarted(name) }
    }

    /// Which of several tasks with this name it is, for example the name of a handler. In the log and in ControlZ only.
    #[must_use]
    pub fn of(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Starts it on the current runtime. `make` is called for each start; a future that completes before `stop` is cancelled is a
    /// failure. The handle completes when the task has ended for good.
    pub fn spawn<F, Fut>(self, stop: CancellationToken, make: F) -> JoinHandle<()>
    where
        F: FnMut() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.spawn_on(&Handle::current(), stop, make)
    }

    /// As [`spawn`](Self::spawn), on `runtime`.
    pub fn spawn_on<F, Fut>(self, runtime: &Handle, stop: CancellationToken, make: F) -> JoinHandle<()>
    where
        F: FnMut() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        runtime.spawn(self.supervised(stop, make))
    }

    /// As [`spawn`](Self::spawn), on the `LocalSet` of the current thread.
    pub fn spawn_local<F, Fut>(self, stop: CancellationToken, make: F) -> JoinHandle<()>
    where
        F: FnMut() -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        tokio::task::spawn_local(self.supervised(stop, make))
    }

    /// A thread that the caller, or a library, starts and has started again.
    pub fn external(self) -> External {
        External(Entry::register(self.name, self.detail, self.policy))
    }

    /// The supervised future, for a caller that tracks or polls it itself.
    pub fn supervised<F, Fut>(self, stop: CancellationToken, make: F) -> impl Future<Output = ()>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = ()>,
    {
        // Registered before the first poll, so that the task is listed at once.
        let entry = Entry::register(self.name, self.detail, self.policy);
        supervise(entry, stop, make)
    }

    /// Starts a thread; see [`External::spawn_thread`].
    ///
    /// Errors: the thread cannot be created.
    pub fn spawn_thread<F>(
        self,
        thread: impl Into<String>,
        stop: impl Fn() -> bool + Send + 'static,
        body: F,
    ) -> std::io::Result<std::thread::JoinHandle<()>>
    where
        F: FnMut(&FaultPoint<'_>) + Send + 'static,
    {
        Arc::new(self.external()).spawn_thread(thread, stop, body)
    }
}

/// A task whose owner starts it, such as a thread of a library: listed, counted and logged as every task. The owner notices its end.
#[derive(Debug)]
pub struct External(Entry);

impl External {
    /// It was started, for the first time or again.
    pub fn started(&self) {
        self.0.started();
    }

    /// It ended although nobody asked it to, with this panic if there was one. Returns the pause before it is to be started again.
    pub fn failed(&self, panic: Option<String>) -> Duration {
        self.0.failed(panic.map_or(Failure::Ended, Failure::Panicked)).unwrap_or(LONGEST_PAUSE)
    }

    /// Its thread cannot be created. Returns the pause before the next attempt.
    pub fn not_started(&self, error: &std::io::Error) -> Duration {
        self.0.failed(Failure::NotStarted(error.to_string())).unwrap_or(LONGEST_PAUSE)
    }

    /// Panics if a fault was injected since; nothing in a release build. To be called on the thread.
    pub fn check(&self) {
        self.0.fault.check();
    }

    /// Starts a thread called `thread` (Linux shows 15 bytes). `body` is called for each start; it returns when its work is done, or
    /// panics. `stop` says whether the end of the thread is expected; pauses end early when it becomes true.
    ///
    /// Errors: the thread cannot be created, which is not recorded: [`not_started`](Self::not_started) is for a caller that tries again.
    pub fn spawn_thread<F>(
        self: &Arc<Self>,
        thread: impl Into<String>,
        stop: impl Fn() -> bool + Send + 'static,
        mut body: F,
    ) -> std::io::Result<std::thread::JoinHandle<()>>
    where
        F: FnMut(&FaultPoint<'_>) + Send + 'static,
    {
        let task = Arc::clone(self);
        std::thread::Builder::new().name(thread.into()).spawn(move || {
            let entry = &task.0;
            loop {
                entry.started();
                let ended = std::panic::catch_unwind(AssertUnwindSafe(|| body(&FaultPoint(entry))));
                let failure = match ended {
                    Ok(()) if stop() => return,
                    Ok(()) => Failure::Ended,
                    Err(panic) => Failure::Panicked(panic_text(&*panic)),
                };
                let Some(pause) = entry.failed(failure) else { return };
                let mut waited = Duration::ZERO;
                while waited < pause && !stop() {
                    std::thread::sleep(FIRST_PAUSE);
                    waited += FIRST_PAUSE;
                }
                if stop() {
                    return;
                }
            }
        })
    }
}

/// Where a thread can be made to panic by [`inject_panic`].
pub struct FaultPoint<'e>(&'e Entry);

impl FaultPoint<'_> {
    /// Panics if a fault was injected since; nothing in a release build.
    #[inline]
    pub fn check(&self) {
        self.0.fault.check();
    }

    /// Never completes; panics when a fault is injected.
    pub async fn injected(&self) {
        self.0.fault.injected().await;
    }
}

async fn supervise<F, Fut>(entry: Entry, stop: CancellationToken, mut make: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = ()>,
{
    loop {
        entry.started();
        let outcome = {
            // `make` may panic as well.
            let run = async {
                tokio::select! {
                    biased;
                    () = entry.fault.injected() => {}
                    () = make() => {}
                }
            };
            let mut run = std::pin::pin!(run);
            std::future::poll_fn(|cx| poll_contained(run.as_mut(), cx)).await
        };
        let failure = match outcome {
            Ok(()) if stop.is_cancelled() => return,
            Ok(()) => Failure::Ended,
            Err(text) => Failure::Panicked(text),
        };
        let Some(pause) = entry.failed(failure) else { return };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Polls a future and turns a panic into its text. The future must not be polled again after that.
pub fn poll_contained<F: Future>(
    future: std::pin::Pin<&mut F>,
    cx: &mut Context<'_>,
) -> Poll<Result<F::Output, String>> {
    match std::panic::catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Err(panic) => Poll::Ready(Err(panic_text(&*panic))),
    }
}

/// The message of a panic.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&'static str>().copied().map(str::to_owned);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown cause".to_owned())
}

/// Logs every panic of the process, at most ten a second, instead of printing it on standard error, which may block and would show
/// what a caller sent unescaped.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        static LIMIT: crate::rate_limit::RateLimit = crate::rate_limit::RateLimit::new(10);
        let Some(suppressed) = LIMIT.admit() else { return };
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or_default();
        let at = panic.location().map(ToString::to_string).unwrap_or_default();
        let text = panic_text(panic.payload());
        if suppressed > 0 {
            tracing::error!(thread, at, suppressed, "panic: {text}");
        } else {
            tracing::error!(thread, at, "panic: {text}");
        }
    }));
}

/// The group of the calls of all services; see [`Group::count_panic`].
pub fn calls() -> &'static Group {
    static CALLS: std::sync::OnceLock<Group> = std::sync::OnceLock::new();
    CALLS.get_or_init(|| Group::new("call"))
}

/// Exports the counts of all tasks.
#[derive(Debug, Default)]
pub struct TaskCollector(());

impl TaskCollector {
    /// A collector for a server's metrics.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }
}

impl crate::metrics::Collect for TaskCollector {
    fn collect(&self, out: &mut crate::metrics::Collected) {
        use crate::metrics::Family;
        for role in roles() {
            out.add(Family::TasksRunning, &[role.name], role.running as f64);
            out.add(Family::TaskFailures, &["panic", role.name], role.panics as f64);
            out.add(Family::TaskFailures, &["ended", role.name], role.ends as f64);
            out.add(Family::TaskRestarts, &[role.name], role.restarts as f64);
        }
    }
}

#[cfg(test)]
mod tests;
