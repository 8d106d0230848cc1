//! Listening sockets: TCP and unix.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::accepted::Accepted;
use crate::address::ListenAddress;
use crate::descriptors;
use crate::http::Backoff;
use crate::peer::Peer;
use crate::socket_file::{self, SocketFile};
use crate::stream::Socket;
use mixer_base::rotate::os_text;

/// Backlog of listen(2).
const BACKLOG: i32 = 1024;
/// The send buffer of every connection, in bytes, of which Linux makes twice as much. Without a bound it grows to megabytes for a client
/// that does not read; write(2) fills them, and close(2) frees them, in one go, during which no other connection is served.
const SEND_BUFFER: usize = 128 * 1024;

/// A socket could not be opened. The text is that of Istio Mixer after `unable to …`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ListenError(pub String);

/// What a taken address is called.
pub(crate) const IN_USE: &str = "address already in use";

impl ListenError {
    /// Whether somebody listens there already.
    pub fn is_in_use(&self) -> bool {
        self.0.contains(IN_USE)
    }
}

/// A bound socket.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpAcceptor),
    /// A unix socket; its file is removed when the listener is dropped, unless another one has taken its place.
    Unix {
        /// The socket.
        listener: UnixListener,
        /// Its file; `None` for an inherited socket.
        file: Option<SocketFile>,
    },
}

/// Accepts TCP connections. Those that wait already are not registered with this event loop, which takes most of the time of accepting: that of
/// a worker is to serve them.
#[derive(Debug)]
pub struct TcpAcceptor {
    socket: std::net::TcpListener,
    /// The same socket.
    events: TcpListener,
}

impl TcpAcceptor {
    /// Must run on an event loop. Errors: registration with it failed, or there is no descriptor left.
    fn new(listener: TcpListener) -> std::io::Result<Self> {
        // Connections have the option of the socket that they come from.
        socket2::SockRef::from(&listener).set_tcp_nodelay(true)?;
        let socket = listener.into_std()?;
        Ok(Self { socket: socket.try_clone()?, events: TcpListener::from_std(socket)? })
    }

    async fn accept(&self) -> std::io::Result<(std::net::TcpStream, SocketAddr)> {
        match self.socket.accept() {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let (stream, peer) = self.events.accept().await?;
                Ok((stream.into_std()?, peer))
            }
            accepted => {
                let (stream, peer) = accepted?;
                stream.set_nonblocking(true)?;
                Ok((stream, peer))
            }
        }
    }
}

/// A listening socket that another process opened.
#[derive(Debug)]
pub enum InheritedSocket {
    /// TCP.
    Tcp(std::net::TcpListener),
    /// Unix.
    Unix(std::os::unix::net::UnixListener),
}

impl InheritedSocket {
    /// The address that it listens on.
    pub fn address(&self) -> ListenAddress {
        match self {
            InheritedSocket::Tcp(socket) => {
                let address = socket.local_addr().map(|a| a.to_string()).unwrap_or_default();
                ListenAddress::Tcp { network: "tcp".to_owned(), address }
            }
            InheritedSocket::Unix(socket) => {
                let address = socket.local_addr().ok();
                let path = address.and_then(|a| a.as_pathname().map(std::path::Path::to_path_buf));
                ListenAddress::Unix(path.unwrap_or_default())
            }
        }
    }
}

impl Listener {
    /// Opens a socket. Must run on an event loop. A unix socket appears at its path with the permissions `socket_mode`, or those of
    /// the umask.
    ///
    /// Errors: `listen tcp 127.0.0.1:9091: bind: address already in use` and the like.
    pub fn bind(address: &ListenAddress, socket_mode: Option<u32>) -> Result<Self, ListenError> {
        match address {
            ListenAddress::Tcp { network, address } => {
                let listener = bind_tcp(network, address)?;
                Self::tcp(listener)
                    .map_err(|e| ListenError(format!("listen {network} {address}: {}", os_text(&e))))
            }
            ListenAddress::Unix(path) => {
                let refuse = |step: &str, error: &std::io::Error| {
                    ListenError(format!("listen unix {}: {step}: {}", path.display(), os_text(error)))
                };
                let Some(mode) = socket_mode else {
                    let listener = UnixListener::bind(path).map_err(|e| refuse("bind", &e))?;
                    let file = SocketFile::at(path).map_err(|e| refuse("stat", &e))?;
                    return Ok(Listener::Unix { listener, file: Some(file) });
                };
                // Renamed into place after chmod, so that no client connects before the permissions apply.
                let mut temporary = path.clone().into_os_string();
                temporary.push(format!(".{}", std::process::id()));
                let temporary = PathBuf::from(temporary);
                // A process with the same number, as in a container, was killed before it had renamed it.
                if socket_file::is_served(&temporary).is_ok_and(|is_served| !is_served) {
                    // What cannot be removed is an error of `bind`.
                    let _ = remove_stale_socket(&temporary);
                }
                let refuse_temporary = |error: &std::io::Error| {
                    ListenError(format!("listen unix {}: bind: {}", temporary.display(), os_text(error)))
                };
                let listener = UnixListener::bind(&temporary).map_err(|e| refuse_temporary(&e))?;
                let file = SocketFile::at(&temporary).map_err(|e| refuse("stat", &e))?;
                let mut listener = Listener::Unix { listener, file: Some(file) };
                std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(mode))
                    .map_err(|e| refuse("chmod", &e))?;
                std::fs::rename(&temporary, path).map_err(|e| refuse("rename", &e))?;
                if let Listener::Unix { file: Some(file), .. } = &mut listener {
                    file.renamed_to(path);
                }
                Ok(listener)
            }
        }
    }

    /// Accepts from a TCP socket. Must run on an event loop. Errors: registration with it failed.
    pub fn tcp(listener: TcpListener) -> std::io::Result<Self> {
        TcpAcceptor::new(listener).map(Listener::Tcp)
    }

    /// Takes over an inherited socket; its file is not removed. Must run on an event loop.
    ///
    /// Errors: registration with the event loop failed.
    pub fn inherit(socket: InheritedSocket) -> std::io::Result<Self> {
        match socket {
            InheritedSocket::Tcp(socket) => Self::tcp(inherit_tcp(socket)?),
            InheritedSocket::Unix(socket) => {
                socket.set_nonblocking(true)?;
                Ok(Listener::Unix { listener: UnixListener::from_std(socket)?, file: None })
            }
        }
    }

    /// Accepts connections until `stop` and passes them to `serve`; at most `limit` are open, others wait in the backlog.
    ///
    /// When no descriptor is left, the endpoints for operators are asked for theirs and accepting pauses, longer each time.
    pub async fn accept_all<F: Future<Output = ()>>(
        &self,
        limit: usize,
        stop: &CancellationToken,
        serve: impl Fn(Accepted) -> F,
    ) {
        let places = Arc::new(Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS)));
        let mut backoff = Backoff::default();
        loop {
            let accepted = tokio::select! {
                accepted = self.accept_one(&places, limit) => accepted,
                () = stop.cancelled() => return,
            };
            match accepted {
                Ok(connection) => {
                    backoff = Backoff::default();
                    serve(connection).await;
                    // In a flood of connections this loop would go on for as long as there are any.
                    mixer_base::scheduling::let_others_run();
                }
                Err(error) => {
                    mixer_base::warn_limited!(1, %error, "accept failed");
                    descriptors::report_shortage();
                    tokio::select! {
                        () = backoff.pause() => {}
                        () = stop.cancelled() => return,
                    }
                }
            }
        }
    }

    /// Accepts the next connection when there is a place for it.
    async fn accept_one(&self, places: &Arc<Semaphore>, limit: usize) -> std::io::Result<Accepted> {
        let place = match Arc::clone(places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                mixer_base::warn_limited!(1, limit, "the limit of connections is reached; others wait");
                // The semaphore is never closed.
                Arc::clone(places).acquire_owned().await.map_err(std::io::Error::other)?
            }
        };
        self.accept().await.map(|connection| connection.with_place(place))
    }

    /// Accepts the next connection.
    pub async fn accept(&self) -> std::io::Result<Accepted> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok(Accepted { socket: Socket::Tcp(stream), peer: Peer::Tcp(peer), tls: None, place: None })
            }
            Listener::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                Ok(Accepted {
                    socket: Socket::Unix(stream.into_std()?),
                    peer: Peer::Unix,
                    tls: None,
                    place: None,
                })
            }
        }
    }

    /// The file by which clients reach it; `None` for TCP and for inherited sockets.
    pub fn file(&self) -> Option<&SocketFile> {
        match self {
            Listener::Unix { file, .. } => file.as_ref(),
            Listener::Tcp(_) => None,
        }
    }

    /// The bound TCP address; `None` for unix sockets.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.socket.local_addr().ok(),
            Listener::Unix { .. } => None,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The socket is still open: as long as it is, no other file has the number of its inode.
        if let Some(file) = self.file() {
            file.remove();
        }
    }
}

/// Refuses a path whose unix socket another process serves. Errors: as [`Listener::bind`].
pub fn refuse_served_socket(path: &Path) -> Result<(), ListenError> {
    let refuse = |why: &str| ListenError(format!("listen unix {}: {why}", path.display()));
    match socket_file::is_served(path) {
        Ok(false) => Ok(()),
        Ok(true) => Err(refuse(&format!("bind: {IN_USE}"))),
        Err(error) => Err(refuse(&format!("connect: {}", os_text(&error)))),
    }
}

/// Removes the unix socket that an earlier process left at `path`. Only sockets are removed.
///
/// Errors: `unable to remove unix://PATH: …`.
pub fn remove_stale_socket(path: &Path) -> Result<(), ListenError> {
    if check_stale_socket(path)? {
        std::fs::remove_file(path).map_err(|error| not_removed(path, &os_text(&error)))?;
    }
    Ok(())
}

/// Whether there is a unix socket at `path` that [`remove_stale_socket`] would remove. Errors: as there.
pub fn check_stale_socket(path: &Path) -> Result<bool, ListenError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(not_removed(path, &os_text(&error))),
        Ok(found) if !found.file_type().is_socket() => Err(not_removed(path, "not a socket")),
        Ok(_) => Ok(true),
    }
}

fn not_removed(path: &Path, why: &str) -> ListenError {
    ListenError(format!("unable to remove unix://{}: {why}", path.display()))
}

/// Opens a TCP socket; an empty host means all interfaces, those of IPv4 alone where there is no IPv6. Must run on an event loop.
///
/// Errors: as [`Listener::bind`].
pub fn bind_tcp(network: &str, address: &str) -> Result<TcpListener, ListenError> {
    let refuse = |step: &str, error: &std::io::Error| {
        ListenError(format!("listen {network} {address}: {step}{}", os_text(error)))
    };
    let resolved = resolve(network, address).map_err(|e| refuse("", &e))?;
    let socket = open_tcp(network, resolved, bound_socket).map_err(|(step, e)| refuse(step, &e))?;
    socket.listen(BACKLOG).map_err(|e| refuse("listen: ", &e))?;
    TcpListener::from_std(socket.into()).map_err(|e| refuse("", &e))
}

/// Opens a socket at `address`, or at that of IPv4 that stands for it where there is no IPv6.
fn open_tcp<S>(
    network: &str,
    address: SocketAddr,
    open: impl Fn(SocketAddr) -> Result<S, (&'static str, std::io::Error)>,
) -> Result<S, (&'static str, std::io::Error)> {
    open(address).or_else(|(step, error)| match without_ipv6(network, address, &error) {
        Some(instead) => open(instead),
        None => Err((step, error)),
    })
}

/// The address of IPv4 that stands for all of both families, if this error says that the machine has no IPv6.
fn without_ipv6(network: &str, address: SocketAddr, error: &std::io::Error) -> Option<SocketAddr> {
    let is_for_all = network != "tcp6" && address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let is_lacking = matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL));
    (is_for_all && is_lacking).then(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
}

/// A socket that is bound. Errors: the step that failed.
fn bound_socket(address: SocketAddr) -> Result<socket2::Socket, (&'static str, std::io::Error)> {
    let socket = tcp_socket(address).map_err(|e| ("socket: ", e))?;
    socket.bind(&address.into()).map_err(|e| ("bind: ", e))?;
    Ok(socket)
}

/// Registers a TCP socket that was opened elsewhere with the current event loop. Errors: registration failed.
pub fn inherit_tcp(socket: std::net::TcpListener) -> std::io::Result<TcpListener> {
    socket.set_nonblocking(true)?;
    socket2::SockRef::from(&socket).set_send_buffer_size(SEND_BUFFER)?;
    TcpListener::from_std(socket)
}

/// Resolves `host:port`; an empty host means all interfaces.
fn resolve(network: &str, address: &str) -> std::io::Result<SocketAddr> {
    if let Some(port) = address.strip_prefix(':') {
        let port = port.parse().map_err(|_| std::io::Error::other(format!("unknown port {port}")))?;
        let any =
            if network == "tcp4" { IpAddr::from([0, 0, 0, 0]) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
        return Ok(SocketAddr::new(any, port));
    }
    let fits = |a: &SocketAddr| match network {
        "tcp4" => a.is_ipv4(),
        "tcp6" => a.is_ipv6(),
        _ => true,
    };
    let mut found: Vec<SocketAddr> = address.to_socket_addrs()?.filter(fits).collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().copied().ok_or_else(|| std::io::Error::other("no suitable address found"))
}

fn tcp_socket(address: SocketAddr) -> std::io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    // Connections inherit it.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine on which opening a socket of IPv6 fails with this number.
    fn opened_without_ipv6(network: &str, address: &str, number: i32) -> Result<SocketAddr, String> {
        let open = |address: SocketAddr| match address.is_ipv6() {
            true => Err(("socket: ", std::io::Error::from_raw_os_error(number))),
            false => Ok(address),
        };
        let resolved = resolve(network, address).unwrap();
        open_tcp(network, resolved, open).map_err(|(step, error)| format!("{step}{}", os_text(&error)))
    }

    #[test]
    fn without_ipv6_all_interfaces_are_those_of_ipv4() {
        for number in [libc::EAFNOSUPPORT, libc::EADDRNOTAVAIL] {
            for address in [":9091", "[::]:9091"] {
                let all = Ok("0.0.0.0:9091".parse().unwrap());
                assert_eq!(opened_without_ipv6("tcp", address, number), all, "{address}");
            }
        }
        let refused = Err("socket: address family not supported by protocol".to_owned());
        for (network, address) in [("tcp6", ":9091"), ("tcp", "[::1]:9091")] {
            assert_eq!(opened_without_ipv6(network, address, libc::EAFNOSUPPORT), refused, "{address}");
        }
        let taken = opened_without_ipv6("tcp", ":9091", libc::EADDRINUSE);
        assert_eq!(taken, Err(format!("socket: {IN_USE}")), "a port of IPv6 that is taken is no lack of it");
    }

    #[test]
    fn a_port_that_is_taken_is_told_also_without_ipv6() {
        let open = |address: SocketAddr| {
            let number = if address.is_ipv6() { libc::EAFNOSUPPORT } else { libc::EADDRINUSE };
            Err::<(), _>(("", std::io::Error::from_raw_os_error(number)))
        };
        let (_, error) = open_tcp("tcp", "[::]:80".parse().unwrap(), open).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
    }

    #[tokio::test]
    async fn a_socket_that_a_killed_process_did_not_rename_bars_no_start() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        let temporary = directory.path().join(format!("api.sock.{}", std::process::id()));
        let address = ListenAddress::Unix(path.clone());
        drop(std::os::unix::net::UnixListener::bind(&temporary).unwrap());
        assert!(temporary.exists());
        drop(Listener::bind(&address, Some(0o600)).unwrap());
        assert!(!temporary.exists() && !path.exists());
        // One that is served, and what is no socket, stay, and the error names them.
        let served = std::os::unix::net::UnixListener::bind(&temporary).unwrap();
        let refused = |why: &str| format!("listen unix {}: bind: {why}", temporary.display());
        assert_eq!(Listener::bind(&address, Some(0o600)).unwrap_err().0, refused(IN_USE));
        drop(served);
        std::fs::remove_file(&temporary).unwrap();
        std::fs::write(&temporary, "").unwrap();
        assert_eq!(Listener::bind(&address, Some(0o600)).unwrap_err().0, refused(IN_USE));
        assert!(temporary.exists());
    }

    #[tokio::test]
    async fn a_socket_that_is_served_is_refused_and_its_file_outlives_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        let address = ListenAddress::Unix(path.clone());
        for mode in [None, Some(0o600)] {
            let first = Listener::bind(&address, mode).unwrap();
            let refused = refuse_served_socket(&path).unwrap_err();
            assert_eq!(refused.0, format!("listen unix {}: bind: {IN_USE}", path.display()));
            assert!(refused.is_in_use());
            // As another server does that does not ask.
            remove_stale_socket(&path).unwrap();
            let second = Listener::bind(&address, mode).unwrap();
            assert!(first.file().unwrap().check().is_err());
            assert_eq!(second.file().unwrap().check(), Ok(()));
            drop(first);
            assert_eq!(
                second.file().unwrap().check(),
                Ok(()),
                "the end of the first leaves the file of the second"
            );
            drop(second);
            assert!(!path.exists());
        }
    }
}
