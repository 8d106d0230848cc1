//! What the tests of adapters share.

use std::sync::Arc;

use super::{Adapter, Env, Handler, Instance, Reply, SystemClock, TaskSpawner};
use crate::core::attribute::Value;
use crate::core::config::Diagnostics;

/// An environment on the present runtime, with the real time.
pub(crate) fn test_env(name: &str) -> Env {
    Env {
        handler_name: name.into(),
        clock: Arc::new(SystemClock),
        tasks: TaskSpawner::new(tokio::runtime::Handle::current()),
        metrics_port: 0,
    }
}

/// A handler with default parameters and no instances.
pub(crate) async fn build_default<A: Adapter>() -> Box<dyn Handler> {
    A::build(A::Params::default(), Vec::new(), test_env("h.istio-system")).await.unwrap()
}

/// The texts of all problems that an adapter finds.
pub(crate) fn problems<A: Adapter>(params: &A::Params) -> Vec<String> {
    let mut problems = Diagnostics::new();
    A::validate(params, &[], &mut problems);
    problems.into_iter().map(|p| p.message).collect()
}

/// An instance as a handler sees it.
pub(crate) fn instance<'a>(name: &'a str, values: &'a [Option<Value<'a>>]) -> Instance<'a> {
    Instance { bound: 0, name, values }
}

/// The answer of a handler that need not wait.
pub(crate) fn ready<T>(reply: Reply<T>) -> T {
    match reply {
        Reply::Ready(result) => result.unwrap(),
        Reply::Later(_) => panic!("an answer at once is expected"),
    }
}
