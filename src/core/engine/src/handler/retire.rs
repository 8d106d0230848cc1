//! Closes the handlers that a new table did not take over.

use std::sync::Arc;
use std::time::Duration;

use super::LiveHandler;

/// How often a replaced handler is checked for calls in flight.
const DRAIN_CHECK: Duration = Duration::from_millis(20);

/// Closes replaced handlers, each as soon as its last call is over and no table holds it. After `patience` the wait is logged
/// once and goes on: a handler is never closed during a call and never leaked.
///
/// Returns the number of handlers closed and of those that failed to close cleanly.
pub async fn retire(gone: Vec<Arc<LiveHandler>>, patience: Duration) -> (u64, u64) {
    retire_with(gone, patience, || tokio::time::sleep(DRAIN_CHECK)).await
}

/// [`retire`] with another way to wait, for the model.
pub(super) async fn retire_with<W: Future<Output = ()>>(
    gone: Vec<Arc<LiveHandler>>,
    patience: Duration,
    wait: impl Fn() -> W + Copy,
) -> (u64, u64) {
    let closing = gone.into_iter().map(|handler| close_when_idle(handler, patience, wait));
    let results = futures_util::future::join_all(closing).await;
    let failures = results.iter().filter(|ok| !**ok).count();
    (results.len() as u64, failures as u64)
}

async fn close_when_idle<W: Future<Output = ()>>(
    mut shared: Arc<LiveHandler>,
    patience: Duration,
    wait: impl Fn() -> W,
) -> bool {
    let started = tokio::time::Instant::now();
    let mut warned = false;
    // Only the sole owner closes, so that no call can run then or begin later.
    let handler = loop {
        shared = match Arc::try_unwrap(shared) {
            Ok(handler) => break handler,
            Err(shared) => shared,
        };
        if !warned && started.elapsed() > patience {
            warned = true;
            tracing::warn!(adapter = shared.name(), waited = ?patience, "calls of a replaced handler are still running");
        }
        wait().await;
    };
    match handler.close(patience).await {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(adapter = handler.name(), error, "Error closing adapter");
            false
        }
    }
}
