//! Waiting for conditions with a deadline, and loopback ports.

use std::collections::HashSet;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::fatal;

/// How long a test waits for a condition before it fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

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

/// A loopback port that the kernel chose for port 0; never the same twice in one test binary.
///
/// Another process can take the port before the caller binds it: [`super::ServerBuilder`] retries with other ports.
pub(crate) fn free_port() -> u16 {
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    for _ in 0..1000 {
        let port =
            TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr()).map(|a| a.port());
        let mut given = GIVEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Ok(port) = port
            && given.get_or_insert_with(HashSet::new).insert(port)
        {
            return port;
        }
    }
    fatal("no free loopback port")
}

/// Whether a process accepts connections on a loopback port.
pub(crate) fn is_listening(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), Duration::from_secs(1)).is_ok()
}
