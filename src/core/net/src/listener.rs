//! Listening sockets: TCP and unix.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::address::ListenAddress;
use crate::tls::{PeerIdentity, ServerTls};
use mixer_base::rotate::os_text;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;
/// How long a caller may take to agree on a secure connection.
const HANDSHAKE_LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

/// Why a socket could not be opened. The text is that of the originals behind `unable to …`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ListenError(pub String);

/// A bound socket.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A unix socket; its file is removed when the listener goes.
    Unix {
        /// The socket.
        listener: UnixListener,
        /// Its file; none if somebody else made it.
        path: Option<PathBuf>,
    },
}

/// Where a call comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerAddress {
    /// Over TCP, from this address.
    Tcp(SocketAddr),
    /// Over a unix socket.
    Unix,
}

/// `host:port`, or `unix`.
impl std::fmt::Display for CallerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallerAddress::Tcp(address) => write!(f, "{address}"),
            CallerAddress::Unix => f.write_str("unix"),
        }
    }
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// Over TCP, from this address.
    Tcp(SocketAddr),
    /// Over TLS, from this address; who it is, if callers are asked for certificates.
    Tls(SocketAddr, Option<Arc<PeerIdentity>>),
    /// Over a unix socket.
    Unix,
}

impl Peer {
    /// Whether the caller is on this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Peer::Tcp(address) | Peer::Tls(address, _) => address.ip().to_canonical().is_loopback(),
            Peer::Unix => true,
        }
    }

    /// The caller as one number: by its name where it has one, else by its host, whatever the connection.
    pub fn key(&self) -> u64 {
        use std::hash::{Hash as _, Hasher as _};
        let mut hasher = rustc_hash::FxHasher::default();
        match (self, self.principal()) {
            (_, Some(name)) if !name.is_empty() => name.hash(&mut hasher),
            (Peer::Tcp(address) | Peer::Tls(address, _), _) => address.ip().to_canonical().hash(&mut hasher),
            (Peer::Unix, _) => return 1,
        }
        // The upper bits are the ones that are mixed.
        hasher.finish() >> 20
    }

    /// Where it calls from.
    pub fn address(&self) -> CallerAddress {
        match self {
            Peer::Tcp(address) | Peer::Tls(address, _) => CallerAddress::Tcp(*address),
            Peer::Unix => CallerAddress::Unix,
        }
    }

    /// The name in the certificate of the caller, empty if it has none; `None` if callers are not asked for certificates.
    pub fn principal(&self) -> Option<&str> {
        match self {
            Peer::Tls(_, identity) => identity.as_ref().map(|identity| identity.principal()),
            Peer::Tcp(_) | Peer::Unix => None,
        }
    }
}

/// The address, or `unix`; with the name in the certificate where there is one.
impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Peer::Tcp(address) => write!(f, "{address}"),
            Peer::Tls(address, _) => match self.principal() {
                None | Some("") => write!(f, "{address}"),
                Some(name) => write!(f, "{address} {name}"),
            },
            Peer::Unix => f.write_str("unix"),
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub enum InheritedSocket {
    /// TCP.
    Tcp(std::net::TcpListener),
    /// Unix.
    Unix(std::os::unix::net::UnixListener),
}

impl InheritedSocket {
    /// Where it listens.
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

/// A connection that was accepted and belongs to no event loop yet.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub socket: Socket,
    /// Who called.
    pub peer: Peer,
    /// How a TCP connection is secured; none means plain text.
    pub tls: Option<Arc<ServerTls>>,
}

/// Why a connection that was accepted is not served. The text is for the log.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The event loop does not take it.
    #[error("it could not be taken over: {0}")]
    TakeOver(#[from] std::io::Error),
    /// No secure connection came about.
    #[error("the TLS handshake failed: {0}{hint}", hint = explained(.0))]
    Handshake(std::io::Error),
    /// It took too long.
    #[error("the TLS handshake was not complete within {HANDSHAKE_LIMIT:?}")]
    Slow,
    /// Somebody who is not let in.
    #[error("{0}")]
    NotAllowed(String),
}

/// What a failed handshake means for whoever runs the server.
fn explained(error: &std::io::Error) -> &'static str {
    use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};
    let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else { return "" };
    match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => " (the caller does not speak TLS)",
        Error::NoCertificatesPresented => " (--tls-client-auth=require asks for one)",
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            " (no root in --tls-client-ca-file has signed it)"
        }
        Error::PeerIncompatible(_) => " (see --tls-min-version)",
        Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::UnsupportedCertificate,
        ) => " (the caller does not trust the certificate of this server)",
        _ => "",
    }
}

impl OpenError {
    /// Whether the caller closed without a word, as those do who only look whether somebody listens.
    pub fn is_silent(&self) -> bool {
        matches!(self, OpenError::Handshake(error) if error.kind() == std::io::ErrorKind::UnexpectedEof)
    }
}

impl Accepted {
    /// Ties the connection to the event loop of this thread and secures it where that is asked for.
    ///
    /// Errors: no secure connection came about, or the caller is not let in.
    pub async fn open(self) -> Result<(Stream, Peer), OpenError> {
        let (tls, stream) = match (&self.tls, self.socket.into_stream()?) {
            (Some(tls), Stream::Tcp(stream)) => (tls, stream),
            (_, stream) => return Ok((stream, self.peer)),
        };
        let handshake = TlsAcceptor::from(tls.config()).accept(stream);
        let stream = match tokio::time::timeout(HANDSHAKE_LIMIT, handshake).await {
            Ok(stream) => stream.map_err(OpenError::Handshake)?,
            Err(_) => return Err(OpenError::Slow),
        };
        let identity = tls.admit(stream.get_ref().1.peer_certificates()).map_err(OpenError::NotAllowed)?;
        let peer = match self.peer {
            Peer::Tcp(address) => Peer::Tls(address, identity.map(Arc::new)),
            other => other,
        };
        Ok((Stream::Tls(Box::new(stream)), peer))
    }
}

/// A connection without an event loop.
#[derive(Debug)]
pub enum Socket {
    /// TCP.
    Tcp(std::net::TcpStream),
    /// Unix.
    Unix(std::os::unix::net::UnixStream),
}

impl Socket {
    /// Ties the connection to the event loop of this thread.
    pub fn into_stream(self) -> std::io::Result<Stream> {
        Ok(match self {
            Socket::Tcp(socket) => Stream::Tcp(TcpStream::from_std(socket)?),
            Socket::Unix(socket) => Stream::Unix(UnixStream::from_std(socket)?),
        })
    }
}

/// A connection on an event loop.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
    /// Unix.
    Unix(UnixStream),
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

impl Listener {
    /// Opens a socket. Must run on an event loop. The file of a unix socket has the permissions `socket_mode` from its first
    /// moment on, or those that the process gives its files.
    ///
    /// Errors: `listen tcp 127.0.0.1:9091: bind: address already in use` and the like.
    pub fn bind(address: &ListenAddress, socket_mode: Option<u32>) -> Result<Self, ListenError> {
        match address {
            ListenAddress::Tcp { network, address } => Ok(Listener::Tcp(bind_tcp(network, address)?)),
            ListenAddress::Unix(path) => {
                let refuse = |step: &str, error: &std::io::Error| {
                    ListenError(format!("listen unix {}: {step}: {}", path.display(), os_text(error)))
                };
                let Some(mode) = socket_mode else {
                    let listener = UnixListener::bind(path).map_err(|e| refuse("bind", &e))?;
                    return Ok(Listener::Unix { listener, path: Some(path.clone()) });
                };
                // Beside its place until it has its permissions, so that nobody gets in before.
                let mut beside = path.clone().into_os_string();
                beside.push(format!(".{}", std::process::id()));
                let beside = PathBuf::from(beside);
                let listener = UnixListener::bind(&beside).map_err(|e| refuse("bind", &e))?;
                let listener = Listener::Unix { listener, path: Some(beside.clone()) };
                std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(mode))
                    .map_err(|e| refuse("chmod", &e))?;
                std::fs::rename(&beside, path).map_err(|e| refuse("rename", &e))?;
                Ok(listener.at(path))
            }
        }
    }

    /// A socket that was opened by somebody else, and goes on without this process. Must run on an event loop.
    ///
    /// Errors: it cannot be used on an event loop.
    pub fn inherit(socket: InheritedSocket) -> std::io::Result<Self> {
        match socket {
            InheritedSocket::Tcp(socket) => on_loop(socket).map(Listener::Tcp),
            InheritedSocket::Unix(socket) => {
                socket.set_nonblocking(true)?;
                Ok(Listener::Unix { listener: UnixListener::from_std(socket)?, path: None })
            }
        }
    }

    /// Waits for the next connection.
    pub async fn accept(&self) -> std::io::Result<Accepted> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Accepted { socket: Socket::Tcp(stream.into_std()?), peer: Peer::Tcp(peer), tls: None })
            }
            Listener::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                Ok(Accepted { socket: Socket::Unix(stream.into_std()?), peer: Peer::Unix, tls: None })
            }
        }
    }

    /// The same socket, whose file is somewhere else now.
    fn at(mut self, path: &Path) -> Self {
        if let Listener::Unix { path: own, .. } = &mut self {
            *own = Some(path.to_path_buf());
        }
        self
    }

    /// The TCP address, once a port was chosen; `None` for unix sockets.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix { .. } => None,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix { path: Some(path), .. } = self {
            // A file that is gone already is what is wanted.
            let _ = std::fs::remove_file(path);
        }
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

/// Opens a TCP socket; an empty host means all interfaces. Must run on an event loop.
///
/// Errors: as [`Listener::bind`].
pub fn bind_tcp(network: &str, address: &str) -> Result<TcpListener, ListenError> {
    let refuse = |step: &str, error: &std::io::Error| {
        ListenError(format!("listen {network} {address}: {step}{}", os_text(error)))
    };
    let resolved = resolve(network, address).map_err(|e| refuse("", &e))?;
    let socket = tcp_socket(resolved).map_err(|e| refuse("socket: ", &e))?;
    socket.bind(&resolved.into()).map_err(|e| refuse("bind: ", &e))?;
    socket.listen(BACKLOG).map_err(|e| refuse("listen: ", &e))?;
    TcpListener::from_std(socket.into()).map_err(|e| refuse("", &e))
}

/// A TCP socket that exists, on this event loop. Errors: it cannot be used there.
pub fn on_loop(socket: std::net::TcpListener) -> std::io::Result<TcpListener> {
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

/// `host:port` to an address; an empty host means all interfaces.
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
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    Ok(socket)
}
