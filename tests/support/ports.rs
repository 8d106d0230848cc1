//! Ports for the servers that tests and the load harness start.

use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

/// Below the ports of outgoing connections, of which one could take the port before the server does.
const PORTS: Range<u16> = 20_000..32_000;
/// Ports that a process reserves at once.
const BLOCK: u16 = 200;

/// The ports of this process.
static OWN: Mutex<Own> = Mutex::new(Own { blocks: Vec::new(), used: 0 });

/// Blocks of ports that no other process of tests uses. A server that is started again finds its ports as it left them.
struct Own {
    /// The first port of each, and what reserves it: a socket with a name that the system has once. It ends with the process.
    blocks: Vec<(u16, Option<UnixListener>)>,
    /// How many ports were given out.
    used: usize,
}

impl Own {
    /// Reserves a block that nobody has.
    fn reserve(&mut self) -> bool {
        let count = (PORTS.end - PORTS.start) / BLOCK;
        // Other processes begin elsewhere.
        let begin = std::process::id().wrapping_mul(7919);
        let blocks = (0..u32::from(count)).map(|step| begin.wrapping_add(step) % u32::from(count));
        let blocks = blocks.filter_map(|block| u16::try_from(block).ok());
        for first in blocks.map(|block| PORTS.start + block * BLOCK) {
            let name = SocketAddr::from_abstract_name(format!("mixer-test-ports-{first}"));
            if let Ok(socket) = name.and_then(|name| UnixListener::bind_addr(&name)) {
                self.blocks.push((first, Some(socket)));
                return true;
            }
        }
        false
    }

    /// The next port, whether it is free or not; from the beginning when all were given out.
    fn next(&mut self) -> Option<u16> {
        let size = usize::from(BLOCK);
        if self.used == self.blocks.len() * size && !self.reserve() {
            if self.blocks.is_empty() {
                // Everything is reserved by others, of whom few use all that they have.
                self.blocks.extend(PORTS.step_by(size).map(|first| (first, None)));
            }
            self.used = 0;
        }
        let (first, _) = self.blocks.get(self.used / size)?;
        let port = first + u16::try_from(self.used % size).ok()?;
        self.used += 1;
        Some(port)
    }
}

/// A port that is free for TCP and for UDP; never the same twice in one process, before all are used up, and none that another process of tests gets.
///
/// Another program can take the port before the caller binds it: a start that fails is repeated with other ports. Errors: no port is
/// free.
pub(crate) fn next_free_port() -> Result<u16, Error> {
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in PORTS {
        let Some(port) = own.next() else { break };
        // On all addresses: whoever has it on one of them keeps a server from binding it on all.
        let address = (Ipv4Addr::UNSPECIFIED, port);
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::new(ErrorKind::AddrInUse, "no free port"))
}
