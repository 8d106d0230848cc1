//! Listening sockets: bound by the main thread, one for each worker or one for all.

use std::net::{SocketAddr, TcpListener};

use parking_lot::Mutex;
use socket2::{Domain, SockRef, Socket, Type};

/// The bound sockets of a listener. They listen once a worker takes one.
#[derive(Debug)]
pub(crate) struct SocketFactory {
    /// One for each worker, or a single one.
    sockets: Mutex<Vec<Socket>>,
    /// The address, with the port that was chosen.
    pub(crate) address: SocketAddr,
}

impl SocketFactory {
    /// Binds the sockets of a listener for `workers` workers.
    ///
    /// Errors: `cannot bind '127.0.0.1:80': Permission denied`.
    pub(crate) fn bind(address: SocketAddr, reuse_port: bool, workers: usize) -> Result<Self, String> {
        let refused = |address: SocketAddr, error: &std::io::Error| {
            format!("cannot bind '{address}': {}", reason(error))
        };
        let count = if reuse_port { workers.max(1) } else { 1 };
        let mut bound = address;
        let mut sockets = Vec::with_capacity(count);
        for _ in 0..count {
            // The first one chooses the port of all.
            let socket = bind_one(bound, reuse_port).map_err(|error| refused(bound, &error))?;
            let local = socket.local_addr().map_err(|error| refused(bound, &error))?;
            bound = local.as_socket().unwrap_or(bound);
            sockets.push(socket);
        }
        Ok(Self { sockets: Mutex::new(sockets), address: bound })
    }

    /// The socket of a worker, which listens from now on, with this backlog. Errors: listen(2) failed, or no descriptor is left.
    pub(crate) fn socket(&self, worker: usize, backlog: u32) -> std::io::Result<TcpListener> {
        let sockets = self.sockets.lock();
        let socket = sockets.get(worker % sockets.len().max(1));
        let socket = socket.ok_or(std::io::ErrorKind::NotConnected)?.try_clone()?;
        socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        Ok(socket.into())
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

fn bind_one(address: SocketAddr, reuse_port: bool) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    let reference = SockRef::from(&socket);
    reference.set_reuse_address(true)?;
    if reuse_port {
        reference.set_reuse_port(true)?;
    }
    if address.is_ipv6() {
        reference.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_a_port() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let many = SocketFactory::bind(any, true, 3).unwrap();
        assert_eq!(many.sockets.lock().len(), 3);
        let ports = (0..3).map(|worker| many.socket(worker, 16).unwrap().local_addr().unwrap().port());
        assert!(ports.into_iter().all(|port| port == many.address.port()));
        let one = SocketFactory::bind(any, false, 3).unwrap();
        assert_eq!(one.sockets.lock().len(), 1);
        assert_eq!(one.socket(2, 16).unwrap().local_addr().unwrap(), one.address);
        let error = SocketFactory::bind(one.address, false, 1).unwrap_err();
        assert_eq!(error, format!("cannot bind '{}': Address already in use", one.address));
    }
}
