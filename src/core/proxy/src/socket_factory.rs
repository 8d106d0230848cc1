//! Sockets of listeners: bound by the main thread, one for each worker or one for all.

use std::net::{SocketAddr, TcpListener, UdpSocket};

use parking_lot::Mutex;
use socket2::{Domain, SockRef, Socket, Type};

use mixer_net::datagram;

/// The bound sockets of a listener. Those of TCP listen once a worker takes one.
#[derive(Debug)]
pub(crate) struct SocketFactory {
    /// One for each worker, or a single one.
    sockets: Mutex<Vec<Socket>>,
    /// The address, with the port that was chosen.
    pub(crate) address: SocketAddr,
}

impl SocketFactory {
    /// Binds the sockets of a listener for `workers` workers: of streams, or of datagrams.
    ///
    /// Errors: `cannot bind '127.0.0.1:80': Permission denied`.
    pub(crate) fn bind(
        address: SocketAddr,
        kind: Type,
        reuse_port: bool,
        workers: usize,
    ) -> Result<Self, String> {
        let refused = |address: SocketAddr, error: &std::io::Error| {
            format!("cannot bind '{address}': {}", reason(error))
        };
        let count = if reuse_port { workers.max(1) } else { 1 };
        let mut bound = address;
        let mut sockets = Vec::with_capacity(count);
        for _ in 0..count {
            // The first one chooses the port of all.
            let socket = bind_one(bound, kind, reuse_port).map_err(|error| refused(bound, &error))?;
            let local = socket.local_addr().map_err(|error| refused(bound, &error))?;
            bound = local.as_socket().unwrap_or(bound);
            sockets.push(socket);
        }
        Ok(Self { sockets: Mutex::new(sockets), address: bound })
    }

    /// The socket of a worker, which listens from now on, with this backlog. Errors: listen(2) failed, or no descriptor is left.
    pub(crate) fn socket(&self, worker: usize, backlog: u32) -> std::io::Result<TcpListener> {
        let socket = self.of_worker(worker)?;
        socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        Ok(socket.into())
    }

    /// The socket of a worker for datagrams. Errors: no descriptor is left.
    pub(crate) fn datagrams(&self, worker: usize) -> std::io::Result<UdpSocket> {
        Ok(self.of_worker(worker)?.into())
    }

    fn of_worker(&self, worker: usize) -> std::io::Result<Socket> {
        let sockets = self.sockets.lock();
        let socket = sockets.get(worker % sockets.len().max(1));
        socket.ok_or(std::io::ErrorKind::NotConnected)?.try_clone()
    }

    /// Closes the sockets of the main thread: once workers have closed theirs, connections are refused.
    pub(crate) fn close(&self) {
        self.sockets.lock().clear();
    }
}

/// The text of an error as strerror(3) gives it, which is how Envoy prints it.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn bind_one(address: SocketAddr, kind: Type, reuse_port: bool) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    socket.set_nonblocking(true)?;
    let reference = SockRef::from(&socket);
    if kind == Type::STREAM {
        // Of datagrams it would share the address with any process that asks for it.
        reference.set_reuse_address(true)?;
    }
    if reuse_port {
        reference.set_reuse_port(true)?;
    }
    if address.is_ipv6() {
        reference.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    if kind == Type::DGRAM && address.ip().is_unspecified() {
        datagram::tell_destinations(&socket)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_a_port() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let many = SocketFactory::bind(any, Type::STREAM, true, 3).unwrap();
        assert_eq!(many.sockets.lock().len(), 3);
        let ports = (0..3).map(|worker| many.socket(worker, 16).unwrap().local_addr().unwrap().port());
        assert!(ports.into_iter().all(|port| port == many.address.port()));
        let one = SocketFactory::bind(any, Type::STREAM, false, 3).unwrap();
        assert_eq!(one.sockets.lock().len(), 1);
        assert_eq!(one.socket(2, 16).unwrap().local_addr().unwrap(), one.address);
        let bind = |kind, reuse_port| SocketFactory::bind(one.address, kind, reuse_port, 2);
        let in_use = format!("cannot bind '{}': Address already in use", one.address);
        assert_eq!(bind(Type::STREAM, false).unwrap_err(), in_use);
        // Ports of UDP are others.
        let datagrams = bind(Type::DGRAM, true).unwrap();
        let local = |worker| datagrams.datagrams(worker).unwrap().local_addr().unwrap();
        assert_eq!((local(0), local(1)), (one.address, one.address));
        assert_eq!(bind(Type::DGRAM, false).unwrap_err(), in_use);
    }
}
