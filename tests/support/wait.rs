//! Waiting for conditions with a deadline, and loopback ports.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::fatal;
use super::ports::next_free_port;

/// How long a test waits for a condition before it fails: long, because what it waits for may get a tenth of a core only.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// Time between two evaluations of a condition.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Polls a condition until it yields a value; `None` after `limit`.
pub(crate) fn wait_for<T>(limit: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = condition() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// [`wait_for`] for asynchronous conditions.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    limit: Duration,
    mut condition: impl FnMut() -> F,
) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = condition().await {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// A free loopback port; see [`next_free_port`]. [`super::ServerBuilder`] retries with other ports.
pub(crate) fn free_port() -> u16 {
    next_free_port().unwrap_or_else(|error| fatal(&error.to_string()))
}

/// Whether a process accepts connections on a loopback port.
pub(crate) fn is_listening(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), Duration::from_secs(1)).is_ok()
}
