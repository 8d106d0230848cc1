//! Fixtures of the tests of adapters.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use mixer_attribute::{Value, ValueType};
use mixer_config::Diagnostics;
use mixer_engine::adapter::{
    Adapter, BoundInstance, Clock, Env, Handler, Instance, Leaf, Reply, SystemClock, TaskSpawner,
};
use mixer_engine::template;

/// A manual clock, whose time of day can jump.
#[derive(Debug, Default)]
pub(crate) struct TestClock {
    nanos: AtomicU64,
    /// Seconds by which the time of day is ahead.
    ahead: AtomicI64,
}

impl TestClock {
    /// A clock at `start`.
    pub(crate) fn at(start: Duration) -> Arc<Self> {
        Arc::new(Self { nanos: AtomicU64::new(start.as_nanos() as u64), ahead: AtomicI64::new(0) })
    }

    /// Sets the time.
    pub(crate) fn set(&self, time: Duration) {
        self.nanos.store(time.as_nanos() as u64, Ordering::SeqCst);
    }

    /// Sets the time of day ahead, or back.
    pub(crate) fn jump(&self, seconds: i64) {
        self.ahead.store(seconds, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn unix_time(&self) -> Duration {
        let ahead = self.ahead.load(Ordering::SeqCst);
        let moved = Duration::from_secs(ahead.unsigned_abs());
        let time = self.monotonic();
        if ahead < 0 { time.saturating_sub(moved) } else { time + moved }
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::SeqCst))
    }
}

/// An environment on the current runtime, with the system clock.
pub(crate) fn test_env(name: &str) -> Env {
    Env {
        handler_name: name.into(),
        clock: Arc::new(SystemClock),
        tasks: TaskSpawner::new(tokio::runtime::Handle::current()),
        metrics_port: 0,
        metrics: Arc::default(),
        commons: Arc::default(),
        resources: None,
    }
}

/// A handler with default parameters and no instances.
pub(crate) async fn build_default<A: Adapter>() -> Box<dyn Handler> {
    A::build(A::Params::default(), Vec::new(), test_env("h.istio-system")).await.unwrap()
}

/// The messages of all diagnostics of an adapter.
pub(crate) fn problems<A: Adapter>(params: &A::Params) -> Vec<String> {
    let mut problems = Diagnostics::new();
    A::validate(params, &[], &mut problems);
    problems.into_iter().map(|p| p.message.clone()).collect()
}

/// An instance for a handler.
pub(crate) fn instance<'a>(name: &'a str, values: &'a [Option<Value<'a>>]) -> Instance<'a> {
    Instance { bound: 0, name, values }
}

/// A bound instance of a template with one map field, for example `quota`'s dimensions.
pub(crate) fn bound(
    name: &str,
    template_name: &str,
    field: &str,
    keys: &[(&str, ValueType)],
) -> BoundInstance {
    let leaves = keys.iter().map(|(key, value_type)| Leaf::new(field, Some(key), *value_type));
    BoundInstance {
        name: name.into(),
        template: template::find(template_name).unwrap(),
        leaves: leaves.collect(),
        messages: Vec::new(),
        plan: None,
        read_outputs: Arc::default(),
    }
}

/// The result of a synchronous reply.
pub(crate) fn ready<T>(reply: Reply<T>) -> T {
    match reply {
        Reply::Ready(result) => result.unwrap(),
        Reply::Later(_) => panic!("a synchronous reply is expected"),
    }
}
