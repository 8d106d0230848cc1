//! Where a server is, and how it is connected to.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tonic::Status;

use crate::RemoteError;
use crate::tls::ReloadedTls;
use mixer_base::dial::dial;
use mixer_base::secrets::mask_address;
use mixer_net::tls::ClientTlsOptions;

/// A connection is probed after this time without a word from the server, and given up if what was sent is not acknowledged for as long.
const SILENCE: Duration = Duration::from_secs(20);

/// Makes connections to one server: its address, and the TLS of the connections, whose files are loaded again when they change.
pub struct Connector {
    scheme: Scheme,
    authority: Authority,
    target: Target,
    tls: Option<ReloadedTls>,
    connect_timeout: Duration,
}

enum Target {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// What a connection reads and writes.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = mask_address(self.authority.as_str());
        f.debug_struct("Connector").field("authority", &authority).finish_non_exhaustive()
    }
}

/// Checks an address as [`Connector::new`] does. Returns the port that is used because the address has none.
///
/// Errors: an invalid address.
pub fn check_address(address: &str, has_tls: bool) -> Result<Option<u16>, RemoteError> {
    Ok(match parse(address, has_tls)? {
        (authority, Target::Tcp { port, .. }) if authority.port().is_none() => Some(port),
        _ => None,
    })
}

fn parse(address: &str, has_tls: bool) -> Result<(Authority, Target), RemoteError> {
    let address = address
        .strip_prefix("dns:///")
        .or_else(|| address.strip_prefix("passthrough:///"))
        .unwrap_or(address);
    let shown = mask_address(address);
    let invalid = |why: &dyn fmt::Display| RemoteError::Invalid(format!("invalid address `{shown}`: {why}"));
    if address.is_empty() {
        return Err(invalid(&"it is empty"));
    }
    if let Some(path) = address.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        if has_tls {
            return Err(invalid(&"a socket of this machine has no TLS"));
        }
        return Ok((Authority::from_static("localhost"), Target::Unix(path.into())));
    }
    if address.contains("://") {
        return Err(invalid(&"an address is HOST:PORT, without a scheme"));
    }
    let full = if address.starts_with(':') { format!("localhost{address}") } else { address.to_owned() };
    let authority = Authority::try_from(full).map_err(|error| invalid(&error))?;
    let default = if has_tls { 443 } else { 80 };
    let port = match authority.port_u16() {
        None if authority.as_str() != authority.host() => return Err(invalid(&"invalid port")),
        port => port.unwrap_or(default),
    };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok((authority, Target::Tcp { host, port }))
}

impl Connector {
    /// Checks the address and loads the certificates. Errors: an invalid address, or a certificate that cannot be used.
    pub fn new(
        address: &str,
        tls: Option<&ClientTlsOptions>,
        connect_timeout: Duration,
    ) -> Result<Self, RemoteError> {
        let (authority, target) = parse(address, tls.is_some())?;
        let scheme = if tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
        let tls = match (tls, &target) {
            (Some(tls), Target::Tcp { host, .. }) => Some(ReloadedTls::load(tls, host, &[b"h2"])?),
            _ => None,
        };
        Ok(Self { scheme, authority, target, tls, connect_timeout })
    }

    /// The URI of a method. Errors: a path that is none.
    pub fn uri(&self, path: PathAndQuery) -> Result<Uri, Status> {
        let mut parts = http::uri::Parts::default();
        (parts.scheme, parts.authority) = (Some(self.scheme.clone()), Some(self.authority.clone()));
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).map_err(|error| Status::internal(error.to_string()))
    }

    /// A new connection, to whichever address of the name answers. Errors: the text for operators.
    pub async fn connect(&self) -> Result<Box<dyn Stream>, String> {
        match tokio::time::timeout(self.connect_timeout, self.open()).await {
            Ok(opened) => opened.map_err(|error| format!("cannot connect: {error}")),
            Err(_) => Err(format!("cannot connect: no connection within {:?}", self.connect_timeout)),
        }
    }

    async fn open(&self) -> io::Result<Box<dyn Stream>> {
        let (host, port) = match &self.target {
            Target::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
            Target::Tcp { host, port } => (host.as_str(), *port),
        };
        let stream = dial(host, port, self.connect_timeout).await?;
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(SILENCE).with_interval(SILENCE / 4))?;
        socket.set_tcp_user_timeout(Some(SILENCE))?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        tls.refresh().await;
        let current = tls.current();
        let stream = tokio_rustls::TlsConnector::from(current.config).connect(current.name, stream).await?;
        Ok(Box::new(stream))
    }
}
