//! Closes the handlers that a new table does not reuse.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::LiveHandler;
use mixer_base::task::Group;

/// How often a replaced handler is checked for calls in flight.
const DRAIN_CHECK: Duration = Duration::from_millis(20);

/// Closes replaced handlers, each after its last call and when no table holds it. After `timeout` a warning is logged and the wait
/// continues: a handler is never closed during a call and never leaked. Closing itself is bounded by `timeout`.
///
/// Returns how many handlers were closed, and how many of them failed to close cleanly.
pub async fn retire(retired: Vec<Arc<LiveHandler>>, timeout: Duration) -> (u64, u64) {
    retire_with(retired, timeout, || tokio::time::sleep(DRAIN_CHECK), std::future::pending).await
}

/// As [`retire`], until the server stops: `stop` says how long handlers have then, as [`retire_at_stop`] does. A handler that is being closed has
/// no more than that either.
pub(crate) async fn retire_until_stop(
    retired: Vec<Arc<LiveHandler>>,
    timeout: Duration,
    stop: &watch::Receiver<Option<Duration>>,
) -> (u64, u64) {
    let stopped = || {
        let mut stop = stop.clone();
        async move {
            match stop.wait_for(Option::is_some).await.map(|limit| *limit) {
                Ok(Some(limit)) => limit,
                _ => std::future::pending().await,
            }
        }
    };
    retire_with(retired, timeout, || tokio::time::sleep(DRAIN_CHECK), stopped).await
}

/// [`retire`] with a given wait function, for the model tests, and the end of all.
pub(super) async fn retire_with<W: Future<Output = ()>, S: Future<Output = Duration>>(
    retired: Vec<Arc<LiveHandler>>,
    timeout: Duration,
    wait: impl Fn() -> W + Copy,
    stop: impl Fn() -> S,
) -> (u64, u64) {
    let closing = retired.into_iter().map(|handler| close_when_idle(handler, timeout, wait, stop()));
    let results = futures_util::future::join_all(closing).await;
    let failures = results.iter().filter(|ok| !**ok).count();
    (results.len() as u64, failures as u64)
}

async fn close_when_idle<W: Future<Output = ()>>(
    mut shared: Arc<LiveHandler>,
    timeout: Duration,
    wait: impl Fn() -> W,
    stop: impl Future<Output = Duration>,
) -> bool {
    let started = tokio::time::Instant::now();
    let mut warned = false;
    let mut stop = std::pin::pin!(stop);
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
        tokio::select! {
            biased;
            () = wait() => {}
            limit = &mut stop => return close_at_stop(shared, limit).await,
        }
    };
    tokio::select! {
        biased;
        closed = close(&handler, timeout) => closed,
        limit = &mut stop => close(&handler, limit.min(timeout)).await,
    }
}

/// How much of the time of a stop a handler waits for its last call.
const WAIT_OF_STOP: u32 = 4;
/// How much of it is kept for telling what did not close.
const TELLING_OF_STOP: u32 = 20;

/// As [`retire`], when the server stops: a handler that something still holds after a quarter of `timeout`, such as a call or a build that hangs,
/// is closed all the same, so that what it has is flushed or kept. The handlers have what is left of `timeout` for that, and those that do not
/// close by then are told: one that hangs, or blocks its thread, keeps no other from closing. Must run on a runtime.
pub async fn retire_at_stop(retired: Vec<Arc<LiveHandler>>, timeout: Duration) -> (u64, u64) {
    let group = Group::new("retirement of handlers");
    let closing = retired.into_iter().map(|handler| {
        let name = Arc::clone(&handler.config.name);
        let (closed, result) = oneshot::channel();
        group.spawn(async move {
            // Nobody waits any more at the end of the time.
            let _ = closed.send(close_at_stop(handler, timeout - timeout / TELLING_OF_STOP).await);
        });
        async move {
            match tokio::time::timeout(timeout, result).await {
                Ok(closed) => closed.unwrap_or(false),
                Err(_) => {
                    tracing::error!(
                        adapter = &*name,
                        "a handler does not close and is left alone: what it has in memory is lost"
                    );
                    false
                }
            }
        }
    });
    // All at once: each of them has begun before the first one is waited for.
    let closing: Vec<_> = closing.collect();
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
