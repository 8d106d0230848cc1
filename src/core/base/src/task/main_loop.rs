//! The loop of the main thread of a process.

use std::sync::OnceLock;

use tokio_util::sync::CancellationToken;

use super::{Task, failure_of_the_process};

/// Runs the loop of the main thread, which handles signals, as the [essential](super::Policy::Essential) task `signals`, until the loop
/// returns why the process stops, or an essential task failed too often. Returns the reason, and whether it is such a failure. `make` is
/// called again after a panic; what the loop before it held is released by then.
pub async fn main_loop<F, Fut>(mut make: F) -> (String, bool)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = String>,
{
    let (stop, asked) = (CancellationToken::new(), OnceLock::new());
    let handle = || {
        let (run, stop, asked) = (make(), &stop, &asked);
        async move {
            // Set once: the task ends with it.
            let _ = asked.set(run.await);
            stop.cancel();
        }
    };
    let handled = Task::essential("signals").supervised(stop.clone(), handle);
    let failed = tokio::select! {
        () = handled => None,
        reason = failure_of_the_process() => Some(reason),
    };
    match (failed, asked.get()) {
        (Some(reason), _) => (reason, true),
        (None, Some(reason)) => (reason.clone(), false),
        // It failed too often.
        (None, None) => (failure_of_the_process().await, true),
    }
}
