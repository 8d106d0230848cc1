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
    close(&handler, timeout).await
}

/// How much of the time of a stop a handler waits for its last call.
const WAIT_OF_STOP: u32 = 4;

/// As [`retire`], when the server stops: a handler that something still holds after a quarter of `timeout`, such as a call or a build that hangs,
/// is closed all the same, so that what it has is flushed or kept. The handlers have what is left of `timeout` for that.
pub async fn retire_at_stop(retired: Vec<Arc<LiveHandler>>, timeout: Duration) -> (u64, u64) {
    let closing = retired.into_iter().map(|handler| close_at_stop(handler, timeout));
    let results = futures_util::future::join_all(closing).await;
    let failures = results.iter().filter(|ok| !**ok).count();
    (results.len() as u64, failures as u64)
}

async fn close_at_stop(shared: Arc<LiveHandler>, timeout: Duration) -> bool {
    let started = tokio::time::Instant::now();
    while Arc::strong_count(&shared) > 1 {
        if started.elapsed() >= timeout / WAIT_OF_STOP {
            tracing::warn!(adapter = shared.name(), "a handler is closed at the stop although it is in use");
            break;
        }
        tokio::time::sleep(DRAIN_CHECK).await;
    }
    close(&shared, timeout.saturating_sub(started.elapsed())).await
}

async fn close(handler: &LiveHandler, timeout: Duration) -> bool {
    match handler.close(timeout).await {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(adapter = handler.name(), error, "Error closing adapter");
            false
        }
    }
}
