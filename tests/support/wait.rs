//! Waiting for conditions with a deadline, and loopback ports.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
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

/// A free loopback port; never the same twice in one test binary.
///
/// Another process can take the port before the caller binds it: [`super::ServerBuilder`] retries with other ports.
pub(crate) fn free_port() -> u16 {
    // Below the ports of outgoing connections, of which one could take the port before the server does.
    const PORTS: std::ops::Range<u32> = 20_000..32_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Other test processes begin elsewhere.
    let first = std::process::id().wrapping_mul(7919);
    for _ in PORTS {
        let step = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(PORTS.start + step % (PORTS.end - PORTS.start)).expect("a port");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    fatal("no free loopback port")
}

/// Whether a process accepts connections on a loopback port.
pub(crate) fn is_listening(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), Duration::from_secs(1)).is_ok()
}
