//! Accepted connections: registration with an event loop and the TLS handshake.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::{TlsAcceptor, TlsStream};

use crate::peer::Peer;
use crate::stream::{Socket, Stream};
use crate::tls::{ServerTls, sessions};

/// Time limit of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// An accepted connection that is not registered with an event loop.
#[derive(Debug)]
pub struct Accepted {
    /// The socket.
    pub(crate) socket: Socket,
    /// The peer; its identity follows from the handshake.
    pub(crate) peer: Peer,
    /// TLS settings for TCP connections; `None` for plain text.
    pub(crate) tls: Option<Arc<ServerTls>>,
    /// Its place among the connections of its port.
    pub(crate) place: Option<OwnedSemaphorePermit>,
}

/// An accepted connection could not be established. The text is for the log.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Registration with the event loop failed.
    #[error("registration with the event loop failed: {0}")]
    Register(#[from] std::io::Error),
    /// The TLS handshake failed.
    #[error("the TLS handshake failed: {0}{hint}", hint = hint(.0))]
    Handshake(std::io::Error),
    /// The TLS handshake timed out.
    #[error("the TLS handshake was not complete within {HANDSHAKE_TIMEOUT:?}")]
    Timeout,
    /// The identity of the client is not allowed.
    #[error("{0}")]
    NotAllowed(String),
}

/// A hint for operators.
fn hint(error: &std::io::Error) -> &'static str {
    use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};
    let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else { return "" };
    match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => " (the client does not speak TLS)",
        Error::NoApplicationProtocol => {
            " (the client offers no HTTP/2: the cluster of an Envoy needs http2_protocol_options, typed_extension_protocol_options)"
        }
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
        ) => " (the client does not trust the certificate of this server)",
        _ => "",
    }
}

impl OpenError {
    /// Whether the client closed the connection without sending anything, as TCP health checks do.
    pub fn is_health_check(&self) -> bool {
        matches!(self, OpenError::Handshake(error) if error.kind() == std::io::ErrorKind::UnexpectedEof)
    }
}

impl Accepted {
    /// Requires TLS on a TCP connection.
    pub fn with_tls(self, tls: Option<Arc<ServerTls>>) -> Self {
        Self { tls, ..self }
    }

    /// Holds a place among the connections of its port until it is closed.
    pub fn with_place(self, place: OwnedSemaphorePermit) -> Self {
        Self { place: Some(place), ..self }
    }

    /// As [`open`](Self::open), with its place among the connections of its port, for the caller to hold.
    ///
    /// Errors: as there.
    pub async fn open_keeping_place(
        mut self,
    ) -> Result<(Stream, Peer, Option<OwnedSemaphorePermit>), OpenError> {
        let place = self.place.take();
        let (stream, peer) = self.open().await?;
        Ok((stream, peer, place))
    }

    /// Registers the connection with the event loop of this thread and performs the TLS handshake.
    ///
    /// Errors: registration or handshake failed, or the client is not allowed.
    pub async fn open(self) -> Result<(Stream, Peer), OpenError> {
        let (tls, stream) = match (&self.tls, self.socket.into_stream()?) {
            (Some(tls), Stream::Tcp(stream)) => (tls, stream),
            (_, stream) => return Ok((stream, self.peer)),
        };
        let handshake = sessions::handshake(TlsAcceptor::from(tls.config()).accept(stream));
        let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
            Ok(stream) => stream.map_err(OpenError::Handshake)?,
            Err(_) => return Err(OpenError::Timeout),
        };
        let identity = tls.admit(stream.get_ref().1.peer_certificates()).map_err(OpenError::NotAllowed)?;
        let peer = match self.peer {
            Peer::Tcp(address) => Peer::Tls(address, identity.map(Arc::new)),
            other => other,
        };
        Ok((Stream::Tls(Box::new(TlsStream::Server(stream))), peer))
    }
}
