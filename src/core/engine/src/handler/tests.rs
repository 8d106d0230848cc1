//! Model of publication and retirement: no call reaches a closed handler, and each handler is closed once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mixer_base::metrics::Metrics;
use mixer_config::{Diagnostics, FieldPath, Origin, ResourceKey};

use super::retire::retire_with;
use super::{HandlerTable, LiveHandler, Signature};
use crate::adapter::{
    Adapter, AdapterInfo, BoundInstance, BuildError, CheckResult, Env, Erase, ErasedAdapter, HandleCheck,
    Handler, HandlerError, Instance, Inventory, Reply, TaskSpawner,
};
use crate::routing::RoutingTable;
use crate::runtime::{Publication, Runtime};
use crate::snapshot::{HandlerConfig, Registry, Snapshot, SnapshotBuilder, SnapshotOptions};
use mixer_base::pool::{Pool, PoolOptions};

mixer_config::message! {
    /// No parameters.
    pub struct NoParams: "test.NoParams" {
        /// Unused.
        1 nothing: bool = false;
    }
}

/// The adapter of the probes, which tests construct directly.
struct TestAdapter;

impl Adapter for TestAdapter {
    const INFO: AdapterInfo = AdapterInfo { name: "byhand", about: "", templates: &["checknothing"] };
    type Params = NoParams;

    fn validate(_: &NoParams, _: &[BoundInstance], _: &mut Diagnostics) {}

    async fn build(_: NoParams, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        Err(BuildError::Refused("tests construct probes directly".to_owned()))
    }
}

static TEST_ADAPTER: Erase<TestAdapter> = Erase::new();
const INSTANCE: Instance<'_> = Instance { bound: 0, name: "i.instance.ns", values: &[] };

/// Events of one handler. Panics in calls are caught, so violations are counted instead.
#[derive(Default)]
struct ProbeCounts {
    calls: AtomicUsize,
    in_flight: AtomicUsize,
    closed: AtomicUsize,
    violations: AtomicUsize,
}

struct Probe(Arc<ProbeCounts>);

impl HandleCheck for Probe {
    fn check(&self, _: &Instance<'_>) -> Reply<CheckResult> {
        let seen = &*self.0;
        seen.calls.fetch_add(1, Ordering::SeqCst);
        seen.in_flight.fetch_add(1, Ordering::SeqCst);
        let before = seen.closed.load(Ordering::SeqCst);
        shuttle::thread::yield_now();
        let after = seen.closed.load(Ordering::SeqCst);
        seen.violations.fetch_add(before + after, Ordering::SeqCst);
        seen.in_flight.fetch_sub(1, Ordering::SeqCst);
        Reply::Ready(Ok(CheckResult::default()))
    }
}

impl Handler for Probe {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }

    fn close(
        &self,
        _: Duration,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        self.0.closed.fetch_add(1, Ordering::SeqCst);
        self.0.violations.fetch_add(self.0.in_flight.load(Ordering::SeqCst), Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(())))
    }
}

fn key() -> ResourceKey {
    ResourceKey { kind: "handler".into(), namespace: "ns".into(), name: "h".into() }
}

fn handler(seen: &Arc<ProbeCounts>) -> Arc<LiveHandler> {
    let adapter: &'static dyn ErasedAdapter = &TEST_ADAPTER;
    let (params, _) = adapter.decode(None, FieldPath::root());
    let config = HandlerConfig {
        key: key(),
        name: "h.ns".into(),
        adapter,
        params,
        external: None,
        on_error: None,
        origin: Origin { file: "h.yaml".into(), text: "".into(), first_line: 1 },
    };
    let signature = Signature::of(&config, &[], None);
    let tasks = TaskSpawner::new(tokio::runtime::Handle::current());
    let pool = Pool::new(PoolOptions { floor: 1, ceiling: 1, queue: 1 });
    let probe = Box::new(Probe(Arc::clone(seen)));
    Arc::new(LiveHandler::new(Arc::new(config), Vec::new(), signature, probe, tasks, pool))
}

fn routes(empty: &Arc<Snapshot>, handler: &Arc<LiveHandler>) -> RoutingTable {
    let mut table = HandlerTable::default();
    table.handlers.insert(key(), Arc::clone(handler));
    RoutingTable::build(Arc::clone(empty), table, &Metrics::new())
}

fn call(runtime: &Runtime) {
    let published = runtime.load();
    shuttle::thread::yield_now();
    let handler = published.routes.handlers().get(&key()).unwrap();
    assert!(matches!(handler.check(&INSTANCE), Reply::Ready(Ok(_))));
    // Some calls outlive the table that they started on.
    let kept = Arc::clone(handler);
    drop(published);
    shuttle::thread::yield_now();
    assert!(matches!(kept.check(&INSTANCE), Reply::Ready(Ok(_))));
}

/// Two callers while two tables are published.
fn scenario(empty: &Arc<Snapshot>) {
    let seen: [Arc<ProbeCounts>; 3] = Default::default();
    let mut old = handler(&seen[0]);
    let runtime = Arc::new(Runtime::on(routes(empty, &old)));
    let callers: Vec<_> = (0..2)
        .map(|_| {
            let runtime = Arc::clone(&runtime);
            shuttle::thread::spawn(move || (0..2).for_each(|_| call(&runtime)))
        })
        .collect();
    let mut retiring = Vec::new();
    for seen in &seen[1..] {
        let new = handler(seen);
        drop(runtime.publish(Publication::of(routes(empty, &new))));
        let retired = vec![std::mem::replace(&mut old, new)];
        retiring.push(shuttle::thread::spawn(move || {
            shuttle::future::block_on(retire_with(
                retired,
                Duration::from_secs(1),
                shuttle::future::yield_now,
                std::future::pending,
            ))
        }));
    }
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    retiring.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), (1, 0)));
    let sum =
        |count: fn(&ProbeCounts) -> &AtomicUsize| seen.each_ref().map(|s| count(s).load(Ordering::SeqCst));
    assert_eq!(sum(|s| &s.violations), [0; 3]);
    assert_eq!(sum(|s| &s.closed), [1, 1, 0]);
    assert_eq!(sum(|s| &s.calls).iter().sum::<usize>(), 8);
}

#[test]
fn model_closes_each_handler_once_after_its_last_call() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _entered = tokio.enter();
    let empty = SnapshotBuilder::new(SnapshotOptions::new(Registry {
        adapters: Inventory::default(),
        extensions: &[],
    }))
    .empty();
    let (random, ordered) = (Arc::clone(&empty), empty);
    shuttle::check_random(move || scenario(&random), 2_000);
    shuttle::check_pct(move || scenario(&ordered), 2_000, 3);
}
