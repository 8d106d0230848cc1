//! Closes the handlers that a new table does not reuse.

use std::sync::Arc;
use std::time::Duration;

use super::LiveHandler;

/// How often a replaced handler is checked for calls in flight.
const DRAIN_CHECK: Duration = Duration::from_millis(20);

/// Closes replaced handlers, each after its last call and when no table holds it. After `timeout` a warning is logged and the wait
/// continues: a handler is never closed during a call and never leaked. Closing itself is bounded by `timeout`.
///
/// Returns how many handlers were closed, and how many of them failed to close cleanly.
pub async fn retire(retired: Vec<Arc<LiveHandler>>, timeout: Duration) -> (u64, u64) {
    retire_with(retired, timeout, || tokio::time::sleep(DRAIN_CHECK)).await
}

/// [`retire`] with a given wait function, for the model tests.
pub(super) async fn retire_with<W: Future<Output = ()>>(
    retired: Vec<Arc<LiveHandler>>,
    timeout: Duration,
    wait: impl Fn() -> W + Copy,
) -> (u64, u64) {
    let closing = retired.into_iter().map(|handler| close_when_idle(handler, timeout, wait));
    let results = futures_util::future::join_all(closing).await;
    let failures = results.iter().filter(|ok| !**ok).count();
    (results.len() as u64, failures as u64)
}

async fn close_when_idle<W: Future<Output = ()>>(
    mut shared: Arc<LiveHandler>,
    timeout: Duration,
    wait: impl Fn() -> W,
) -> bool {
    let started = tokio::time::Instant::now();
    let mut warned = false;
    // Only the sole owner closes, so that no call is in flight or can start.
    let handler = loop {
        shared = match Arc::try_unwrap(shared) {
            Ok(handler) => break handler,
            Err(shared) => shared,
        };
        if !warned && started.elapsed() > timeout {
            warned = true;
            tracing::warn!(adapter = shared.name(), waited = ?timeout, "calls of a replaced handler are still running");
        }
        wait().await;
    };
    match handler.close(timeout).await {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(adapter = handler.name(), error, "Error closing adapter");
            false
        }
    }
}
