//! Loopback ports for the servers that tests and the load harness start.

use std::io::{Error, ErrorKind};
use std::net::TcpListener;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports of outgoing connections, of which one could take the port before the server does.
const PORTS: Range<u32> = 20_000..32_000;

/// A free loopback port; never the same twice in one process, before all are used up.
///
/// Another process can take the port before the caller binds it: a start that fails is repeated with other ports. Errors: no port is
/// free.
pub(crate) fn next_free_port() -> Result<u16, Error> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Other processes begin elsewhere.
    let first = std::process::id().wrapping_mul(7919);
    for _ in PORTS {
        let step = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(PORTS.start + step % (PORTS.end - PORTS.start)).map_err(Error::other)?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::new(ErrorKind::AddrInUse, "no free loopback port"))
}
