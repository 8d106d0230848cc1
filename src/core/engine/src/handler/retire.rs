//! The end of handlers that a new table did not take over.

use std::sync::Arc;
use std::time::Duration;

use super::LiveHandler;

/// How often the last calls of a replaced handler are looked for.
const DRAIN_CHECK: Duration = Duration::from_millis(20);

/// Closes handlers that nothing routes to any more: each one as soon as nobody else holds it, which is when its last call is over.
/// After `patience` the wait is logged once and goes on: a handler is never closed under a running call and never leaked.
///
/// Returns the number of handlers closed and of those that failed to close cleanly.
pub async fn retire(gone: Vec<Arc<LiveHandler>>, patience: Duration) -> (u64, u64) {
    let closing = gone.into_iter().map(|handler| close_when_idle(handler, patience));
    let results = futures_util::future::join_all(closing).await;
    let failures = results.iter().filter(|ok| !**ok).count();
    (results.len() as u64, failures as u64)
}

async fn close_when_idle(handler: Arc<LiveHandler>, patience: Duration) -> bool {
    let started = tokio::time::Instant::now();
    let mut warned = false;
    while Arc::strong_count(&handler) > 1 {
        if !warned && started.elapsed() > patience {
            warned = true;
            tracing::warn!(adapter = handler.name(), waited = ?patience, "calls of a replaced handler are still running");
        }
        tokio::time::sleep(DRAIN_CHECK).await;
    }
    match handler.close(patience).await {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(adapter = handler.name(), error, "Error closing adapter");
            false
        }
    }
}
