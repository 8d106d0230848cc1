//! One built handler.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio_util::sync::DropGuard;

use super::Signature;
use crate::adapter::{
    BoundInstance, CheckResult, Generated, Handler, HandlerError, HandlerStatus, Instance, ProbeFuture,
    QuotaCall, QuotaLevel, QuotaResult, Reply, TaskSpawner,
};
use crate::snapshot::{HandlerConfig, OnError};
use crate::template::Variety;
use mixer_base::pool::{Pool, PoolStatus};

/// The longest time that a handler has after its own deadline.
const TO_GIVE_UP: Duration = Duration::from_secs(2);

/// A built handler. A panic in a call becomes an error of that call.
pub struct LiveHandler {
    /// Its configuration. The position may be that of an earlier version of the file if the text is unchanged.
    pub config: Arc<HandlerConfig>,
    /// The bound instances, in name order; [`Instance::bound`] is an index into them.
    pub instances: Vec<BoundInstance>,
    signature: Signature,
    handler: Box<dyn Handler>,
    tasks: TaskSpawner,
    /// Ends the tasks of a handler that is dropped without being closed.
    _ends_tasks: DropGuard,
    /// Limits its asynchronous calls.
    pool: Arc<Pool>,
    failing: Failing,
    /// Asynchronous calls that ended while their callers waited.
    answered: AtomicU64,
}

/// The last failure of a handler, until a call succeeds.
#[derive(Default)]
struct Failing {
    is_failing: AtomicBool,
    last: Mutex<Option<(Instant, String)>>,
}

/// How long a failure counts that no call follows.
const FAILING_FOR: Duration = Duration::from_secs(60);

impl Failing {
    fn failed(&self, error: &HandlerError) {
        *self.last.lock() = Some((Instant::now(), error.message.clone()));
        self.is_failing.store(true, Ordering::Relaxed);
    }

    fn succeeded(&self) {
        // Read first: calls of all workers end here.
        if self.is_failing.load(Ordering::Relaxed) {
            self.is_failing.store(false, Ordering::Relaxed);
        }
    }

    /// Why calls fail, if they do.
    fn why(&self) -> Option<String> {
        if !self.is_failing.load(Ordering::Relaxed) {
            return None;
        }
        let last = self.last.lock();
        last.as_ref().filter(|(at, _)| at.elapsed() < FAILING_FOR).map(|(_, text)| text.clone())
    }
}

impl std::fmt::Debug for LiveHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveHandler").field("name", &self.config.name).finish_non_exhaustive()
    }
}

impl LiveHandler {
    pub(super) fn new(
        config: Arc<HandlerConfig>,
        instances: Vec<BoundInstance>,
        signature: Signature,
        handler: Box<dyn Handler>,
        tasks: TaskSpawner,
        pool: Arc<Pool>,
    ) -> Self {
        let _ends_tasks = tasks.guard();
        let (failing, answered) = (Failing::default(), AtomicU64::new(0));
        Self { config, instances, signature, handler, tasks, _ends_tasks, pool, failing, answered }
    }

    /// The name shown to users.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// The name of its adapter.
    pub fn adapter(&self) -> &str {
        self.config.adapter_name()
    }

    /// The digest of its configuration.
    pub(crate) fn signature(&self) -> Signature {
        self.signature
    }

    /// Number of running background tasks.
    pub fn live_tasks(&self) -> usize {
        self.tasks.live()
    }

    /// Status of the pool of its asynchronous calls.
    pub fn waiting(&self) -> PoolStatus {
        self.pool.status()
    }

    /// Its status for operators; a panic is reported as trouble.
    pub fn status(&self) -> HandlerStatus {
        std::panic::catch_unwind(AssertUnwindSafe(|| self.handler.status())).unwrap_or_else(|panic| {
            HandlerStatus {
                trouble: Some(format!("panic: {}", panic_text(&*panic))),
                ..HandlerStatus::default()
            }
        })
    }

    /// See [`Handler::probe`].
    pub(super) fn probe(&self, limit: Duration) -> ProbeFuture<'_> {
        self.handler.probe(limit)
    }

    /// Why it answers otherwise than its configuration says, or why its calls fail; if it panics there, its status says that.
    pub fn degradation(&self) -> Option<String> {
        let own = std::panic::catch_unwind(AssertUnwindSafe(|| self.handler.degradation())).ok().flatten();
        own.or_else(|| {
            let why = self.failing.why()?;
            let consequence = match self.config.on_error {
                Some(OnError::Allow) => "its calls fail and are decided without it",
                Some(OnError::Deny | OnError::LastKnown) | None => "its calls fail",
            };
            Some(format!("{consequence}: {why}"))
        })
    }

    /// Notes how a call ended that decides about a request. An error of the request says nothing about the handler.
    pub(crate) fn ended(&self, error: Option<&HandlerError>) {
        match error {
            None => self.failing.succeeded(),
            Some(error) if !error.is_of_request => self.failing.failed(error),
            Some(_) => {}
        }
    }

    /// How many asynchronous calls have ended so far while their callers waited.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Notes that an asynchronous call ended while its caller waited, however it ended.
    pub(crate) fn count_answer(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// The error of a call that has no answer in time.
    pub(crate) fn without_answer(&self, message: String) -> HandlerError {
        HandlerError { is_of_request: self.handler.callers_choose_duration(), ..HandlerError::new(message) }
    }

    /// Checks an instance.
    pub fn check(&self, instance: &Instance<'_>) -> Reply<CheckResult> {
        self.contained(|| self.handler.as_check().map_or_else(|| unsupported("check"), |h| h.check(instance)))
    }

    /// The version of what its answers to checks follow besides the configuration; 0 if it panics: then its checks fail, too.
    pub(crate) fn answers_version(&self) -> u64 {
        let version = || self.handler.as_check().map_or(0, |check| check.answers_version());
        std::panic::catch_unwind(AssertUnwindSafe(version)).unwrap_or(0)
    }

    /// Allocates or releases quota.
    pub fn quota(&self, instance: &Instance<'_>, call: QuotaCall<'_>) -> Reply<QuotaResult> {
        self.contained(|| {
            self.handler.as_quota().map_or_else(|| unsupported("quota"), |h| h.quota(instance, call))
        })
    }

    /// The level of a quota, if it is known locally. Errors: the handler panicked.
    pub(crate) fn quota_level(&self, instance: &Instance<'_>) -> Result<Option<QuotaLevel>, HandlerError> {
        let level = || self.handler.as_quota().and_then(|quota| quota.level(instance));
        std::panic::catch_unwind(AssertUnwindSafe(level)).map_err(|panic| panicked(&*panic))
    }

    /// Reports instances.
    pub fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        self.contained(|| {
            self.handler.as_report().map_or_else(|| unsupported("report"), |h| h.report(instances))
        })
    }

    /// Generates attributes.
    pub fn generate(&self, instance: &Instance<'_>) -> Reply<Generated> {
        self.contained(|| {
            self.handler.as_generate().map_or_else(|| unsupported("attribute"), |h| h.generate(instance))
        })
    }

    /// Runs a call. A panic in it or in its future becomes an error. A future acquires a permit of the pool first.
    fn contained<T: 'static>(&self, call: impl FnOnce() -> Reply<T>) -> Reply<T> {
        match std::panic::catch_unwind(AssertUnwindSafe(call)) {
            Ok(Reply::Ready(result)) => Reply::Ready(result),
            Ok(Reply::Later(future)) => {
                let pool = Arc::clone(&self.pool);
                let is_of_request = self.handler.callers_choose_duration();
                Reply::Later(Box::pin(async move {
                    // INVARIANT: the caller acquires the API permit before this one. The first poll, which tells the caller that the call is
                    // asynchronous, must therefore acquire nothing: otherwise two calls could deadlock.
                    tokio::task::yield_now().await;
                    let _permit = pool.enter().await.map_err(|full| HandlerError {
                        is_of_request,
                        ..HandlerError::new(format!("too many calls of this handler: {full}"))
                    })?;
                    AssertUnwindSafe(future)
                        .catch_unwind()
                        .await
                        .unwrap_or_else(|panic| Err(panicked(&*panic)))
                }))
            }
            Err(panic) => Reply::Ready(Err(panicked(&*panic))),
        }
    }

    /// Closes the handler, then cancels its tasks. Errors: the handler's own error, or the tasks that did not end.
    pub(super) async fn close(&self, deadline: Duration) -> Result<(), String> {
        // A handler that gives up at its deadline still counts what it has left, or writes it to a disk.
        let own = deadline - (deadline / 5).min(TO_GIVE_UP);
        // The call itself may panic as well as the future that it returns.
        let started = tokio::time::Instant::now();
        let closing = AssertUnwindSafe(async { self.handler.close(own).await }).catch_unwind();
        let closed = match tokio::time::timeout(deadline, closing).await {
            Ok(Ok(result)) => result.map_err(|e| e.message),
            Ok(Err(panic)) => Err(format!("panic: {}", panic_text(&*panic))),
            Err(_) => Err(format!("not closed within {deadline:?}")),
        };
        // They end at once, unless one of them blocks.
        let left = deadline.saturating_sub(started.elapsed()).max(deadline / 20);
        match tokio::time::timeout(left, self.tasks.shut_down()).await {
            Ok(()) => closed,
            Err(_) => {
                Err(format!("adapter did not close all the scheduled daemons: {} remain", self.tasks.live()))
            }
        }
    }
}

/// Whether a handler implements the trait for a variety.
pub(super) fn supports(handler: &dyn Handler, variety: Variety) -> bool {
    match variety {
        Variety::Check | Variety::CheckWithOutput => handler.as_check().is_some(),
        Variety::Quota => handler.as_quota().is_some(),
        Variety::Report => handler.as_report().is_some(),
        Variety::AttributeGenerator => handler.as_generate().is_some(),
    }
}

fn unsupported<T>(what: &str) -> Reply<T> {
    Reply::Ready(Err(HandlerError::new(format!("this handler does not answer {what} calls"))))
}

fn panicked(panic: &(dyn Any + Send)) -> HandlerError {
    HandlerError::of_fault(format!("panic during handler dispatch: {}", panic_text(panic)))
}

/// The message of a panic.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown cause")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::super::retire;
    use super::*;
    use crate::adapter::{
        Adapter, AdapterInfo, BoundInstance, BuildError, Env, Erase, ErasedAdapter, HandleCheck, HandleQuota,
    };
    use mixer_base::pool::PoolOptions;
    use mixer_base::task::Task;
    use mixer_config::{Diagnostics, FieldPath, Origin, ResourceKey};

    /// Panics in the call or in its future; counts calls of `close`.
    struct Panicking {
        later: bool,
        closed: Arc<AtomicUsize>,
    }

    impl HandleCheck for Panicking {
        fn check(&self, _: &Instance<'_>) -> Reply<CheckResult> {
            if self.later {
                Reply::Later(Box::pin(async { panic!("late trouble") }))
            } else {
                panic!("trouble {}", 1)
            }
        }
    }

    impl Handler for Panicking {
        fn as_check(&self) -> Option<&dyn HandleCheck> {
            Some(self)
        }

        fn close(
            &self,
            _: Duration,
        ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
            self.closed.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::ready(Ok(())))
        }
    }

    mixer_config::message! {
        /// No parameters.
        pub struct NoParams: "test.NoParams" {
            /// Unused.
            1 nothing: bool = false;
        }
    }

    /// The adapter of handlers that tests construct directly.
    struct TestAdapter;

    impl Adapter for TestAdapter {
        const INFO: AdapterInfo = AdapterInfo { name: "byhand", about: "", templates: &["checknothing"] };
        type Params = NoParams;

        fn validate(_: &NoParams, _: &[BoundInstance], _: &mut Diagnostics) {}

        async fn build(_: NoParams, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
            Err(BuildError::Refused("tests construct handlers directly".to_owned()))
        }
    }

    static TEST_ADAPTER: Erase<TestAdapter> = Erase::new();

    fn live(handler: impl Handler) -> LiveHandler {
        let adapter: &'static dyn ErasedAdapter = &TEST_ADAPTER;
        let (params, _) = adapter.decode(None, FieldPath::root());
        let config = HandlerConfig {
            key: ResourceKey { kind: "handler".into(), namespace: "ns".into(), name: "h".into() },
            name: "h.ns".into(),
            adapter,
            params,
            external: None,
            on_error: None,
            origin: Origin { file: "h.yaml".into(), text: "".into(), first_line: 1 },
        };
        let signature = Signature::of(&config, &[], None);
        let tasks = TaskSpawner::new(tokio::runtime::Handle::current());
        LiveHandler::new(
            Arc::new(config),
            Vec::new(),
            signature,
            Box::new(handler),
            tasks,
            Pool::new(PoolOptions { floor: 1, ceiling: 1, queue: 1 }),
        )
    }

    const INSTANCE: Instance<'_> = Instance { bound: 0, name: "i.instance.ns", values: &[] };

    /// Takes all of its time to close.
    #[derive(Clone, Default)]
    struct Lingering(Arc<Mutex<Vec<Duration>>>);

    impl Handler for Lingering {
        fn close(
            &self,
            deadline: Duration,
        ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
            self.0.lock().push(deadline);
            Box::pin(async move {
                tokio::time::sleep(deadline).await;
                Ok(())
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_closes_handlers_within_its_limit_also_one_that_is_in_use() {
        for limit in [1, 4, 6, 10].map(Duration::from_secs) {
            let (free, used) = (Lingering::default(), Lingering::default());
            let handlers: Vec<_> = [&free, &used].map(|one| Arc::new(live(one.clone()))).into();
            let call = handlers.last().cloned();
            let started = tokio::time::Instant::now();
            assert_eq!(crate::handler::retire_at_stop(handlers, limit).await, (2, 0));
            assert!(started.elapsed() <= limit, "{:?} of {limit:?}", started.elapsed());
            for (handler, least) in [(&free, limit / 4 * 3), (&used, limit / 2)] {
                let [deadline] = handler.0.lock()[..] else { panic!("it closes once") };
                assert!(deadline >= least && deadline < limit, "{deadline:?} of {limit:?}");
            }
            drop(call);
        }
    }

    /// Does not close: its future never completes, or the call blocks the thread.
    struct Hanging {
        blocks: Option<Duration>,
    }

    impl Handler for Hanging {
        fn close(
            &self,
            _: Duration,
        ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
            if let Some(blocks) = self.blocks {
                std::thread::sleep(blocks);
            }
            Box::pin(std::future::pending())
        }
    }

    /// The first of them blocks a thread of the runtime.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_handler_that_hangs_at_the_stop_keeps_no_other_from_closing() {
        let limit = Duration::from_secs(1);
        let others: Vec<Lingering> = (0..5).map(|_| Lingering::default()).collect();
        let blocking = Hanging { blocks: Some(3 * limit) };
        let mut handlers = vec![Arc::new(live(blocking)), Arc::new(live(Hanging { blocks: None }))];
        handlers.extend(others.iter().map(|one| Arc::new(live(one.clone()))));
        let started = Instant::now();
        assert_eq!(crate::handler::retire_at_stop(handlers, limit).await, (7, 2));
        assert!(started.elapsed() < 2 * limit, "{:?}", started.elapsed());
        assert!(others.iter().all(|one| one.0.lock().len() == 1), "each of them was closed");
    }

    #[tokio::test]
    async fn panics_become_errors_of_the_call() {
        for (later, text) in [(false, "trouble 1"), (true, "late trouble")] {
            let handler = live(Panicking { later, closed: Arc::default() });
            let result = match handler.check(&INSTANCE) {
                Reply::Ready(result) => result,
                Reply::Later(future) => future.await,
            };
            let error = result.unwrap_err();
            assert_eq!(error, HandlerError::of_fault(format!("panic during handler dispatch: {text}")));
        }
    }

    #[tokio::test]
    async fn unsupported_calls_are_errors() {
        let handler = live(Panicking { later: false, closed: Arc::default() });
        let Reply::Ready(result) = handler.report(&[INSTANCE]) else { panic!("asynchronous") };
        assert_eq!(result.unwrap_err().message, "this handler does not answer report calls");
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_is_closed_once_after_its_last_call() {
        let closed = Arc::new(AtomicUsize::new(0));
        let handler = Arc::new(live(Panicking { later: false, closed: Arc::clone(&closed) }));
        let call = Arc::clone(&handler);
        let retiring = tokio::spawn(retire(vec![handler], Duration::from_secs(1)));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(closed.load(Ordering::SeqCst), 0, "a call is in flight");
        drop(call);
        assert_eq!(retiring.await.unwrap(), (1, 0));
        assert_eq!(closed.load(Ordering::SeqCst), 1);
    }

    /// Grants, and panics when it is asked for the level or closed.
    struct PanickingAside;

    impl HandleQuota for PanickingAside {
        fn quota(&self, _: &Instance<'_>, call: QuotaCall<'_>) -> Reply<QuotaResult> {
            Reply::Ready(Ok(QuotaResult { granted: call.amount, ..QuotaResult::default() }))
        }

        fn level(&self, _: &Instance<'_>) -> Option<QuotaLevel> {
            panic!("trouble with the level")
        }
    }

    impl Handler for PanickingAside {
        fn as_quota(&self) -> Option<&dyn HandleQuota> {
            Some(self)
        }

        fn close(
            &self,
            _: Duration,
        ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
            panic!("trouble with closing")
        }
    }

    #[tokio::test]
    async fn a_panic_in_the_level_of_a_quota_is_an_error() {
        let error = live(PanickingAside).quota_level(&INSTANCE).unwrap_err();
        assert_eq!(error.message, "panic during handler dispatch: trouble with the level");
    }

    #[tokio::test]
    async fn a_panic_while_a_handler_is_closed_leaves_the_others_alone() {
        let handler = live(PanickingAside);
        handler.tasks.spawn(Task::restarted("test"), std::future::pending);
        let error = handler.close(Duration::from_secs(1)).await.unwrap_err();
        assert_eq!((error.as_str(), handler.live_tasks()), ("panic: trouble with closing", 0));

        let closed = Arc::new(AtomicUsize::new(0));
        let other = live(Panicking { later: false, closed: Arc::clone(&closed) });
        let handlers = vec![Arc::new(live(PanickingAside)), Arc::new(other)];
        assert_eq!(retire(handlers, Duration::from_secs(1)).await, (2, 1));
        assert_eq!(closed.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn tasks_end_with_their_handler() {
        let handler = live(Panicking { later: false, closed: Arc::default() });
        handler.tasks.spawn(Task::restarted("test"), std::future::pending);
        assert_eq!(handler.live_tasks(), 1);
        handler.close(Duration::from_secs(1)).await.unwrap();
        assert_eq!(handler.live_tasks(), 0);
    }

    /// Answers when the semaphore has a permit; whether callers choose when that is.
    struct Slow(Arc<tokio::sync::Semaphore>, bool);

    impl HandleCheck for Slow {
        fn check(&self, _: &Instance<'_>) -> Reply<CheckResult> {
            let gate = Arc::clone(&self.0);
            Reply::Later(Box::pin(async move {
                gate.acquire().await.map(tokio::sync::SemaphorePermit::forget).unwrap();
                Ok(CheckResult::default())
            }))
        }
    }

    impl Handler for Slow {
        fn as_check(&self) -> Option<&dyn HandleCheck> {
            Some(self)
        }

        fn callers_choose_duration(&self) -> bool {
            self.1
        }
    }

    /// No failure that an error mode may allow.
    #[tokio::test]
    async fn a_call_without_answer_is_a_failure_of_the_request_if_callers_choose_how_long_it_takes() {
        for chosen in [false, true] {
            let handler = live(Slow(Arc::new(tokio::sync::Semaphore::new(0)), chosen));
            assert_eq!(handler.without_answer(String::new()).is_of_request, chosen);
            let call = || match handler.check(&INSTANCE) {
                Reply::Later(future) => tokio::spawn(future),
                Reply::Ready(_) => panic!("synchronous"),
            };
            let _held = (call(), call());
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            assert_eq!(call().await.unwrap().unwrap_err().is_of_request, chosen);
        }
    }

    #[tokio::test]
    async fn calls_of_a_slow_handler_are_queued_up_to_a_limit() {
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let handler = live(Slow(Arc::clone(&gate), false));
        let call = || match handler.check(&INSTANCE) {
            Reply::Later(future) => tokio::spawn(future),
            Reply::Ready(_) => panic!("synchronous"),
        };
        let (first, second) = (call(), call());
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let third = call().await.unwrap().unwrap_err();
        assert_eq!(
            third.message,
            "too many calls of this handler: the limit is reached: 1 calls in flight, 1 queued"
        );
        let Reply::Later(mut unpolled) = handler.check(&INSTANCE) else { panic!("synchronous") };
        assert!(futures_util::poll!(unpolled.as_mut()).is_pending());
        assert_eq!(handler.pool.status().queued, 1, "the first poll acquires nothing");
        drop(unpolled);
        gate.add_permits(2);
        assert!(first.await.unwrap().is_ok());
        assert!(second.await.unwrap().is_ok());
    }
}
