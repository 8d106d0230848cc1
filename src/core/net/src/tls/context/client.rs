//! The client's side.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, TlsStream};

use super::{ContextOptions, Followed, HandshakeError, TlsError, TlsSession, bounded};
use crate::stream::Stream;
use crate::tls::chain::{Allowed, ChainVerifier};

/// TLS with servers. New connections use the last loaded files.
#[derive(Debug)]
pub struct ClientContext {
    options: ContextOptions,
    /// The server name that servers are told; `None`: none.
    name: Option<ServerName<'static>>,
    config: ArcSwap<ClientConfig>,
    fingerprint: Mutex<u64>,
}

impl ClientContext {
    /// Loads roots, certificate and key; servers are told the name `server_name` unless it is empty.
    ///
    /// A server is known by its chain and the test of its names; the server name says nothing of its certificate.
    ///
    /// Errors: what cannot be read or used, a key that does not match its certificate, or a name that is none.
    pub fn load(options: ContextOptions, server_name: &str) -> Result<Self, TlsError> {
        let unusable = |error| TlsError::unusable(format!("the server name `{server_name}`"), error);
        let name = match server_name {
            "" => None,
            name => Some(ServerName::try_from(name.to_owned()).map_err(unusable)?),
        };
        let fingerprint = Mutex::new(options.fingerprint()?);
        let config = ArcSwap::from_pointee(config(&options, name.is_some())?);
        Ok(Self { options, name, config, fingerprint })
    }

    /// The handshake with a server, within a time limit. `fallback` is the protocol of ALPN that is offered if the options name none.
    ///
    /// Errors: it failed, or took too long.
    pub async fn connect(
        &self,
        stream: TcpStream,
        limit: Duration,
        fallback: Option<&[u8]>,
    ) -> Result<(Stream, TlsSession), HandshakeError> {
        let peer = stream.peer_addr().map_err(HandshakeError::Other)?;
        // An address is never sent as a server name.
        let name = self.name.clone().unwrap_or_else(|| ServerName::IpAddress(peer.ip().into()));
        let mut config = self.config.load_full();
        if let (true, Some(protocol)) = (self.options.alpn.is_empty(), fallback) {
            Arc::make_mut(&mut config).alpn_protocols = vec![protocol.to_vec()];
        }
        let handshake = TlsConnector::from(config).connect(name, stream);
        let stream = bounded(handshake, limit).await?;
        let session = TlsSession::of(stream.get_ref().1, None);
        Ok((Stream::Tls(Box::new(TlsStream::Client(stream))), session))
    }
}

impl Followed for ClientContext {
    fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let now = self.options.fingerprint()?;
        if now == *self.fingerprint.lock() {
            return Ok(false);
        }
        self.config.store(Arc::new(config(&self.options, self.name.is_some())?));
        *self.fingerprint.lock() = now;
        Ok(true)
    }
}

fn config(options: &ContextOptions, has_name: bool) -> Result<ClientConfig, TlsError> {
    crate::tls::install_crypto_provider();
    let roots = options.roots.as_ref().map(|roots| roots.roots()).transpose()?;
    let allowed = options.allowed.clone().map_or(Allowed::Any, Allowed::Test);
    let verifier = ChainVerifier::new(roots, allowed);
    let builder = ClientConfig::builder_with_protocol_versions(&options.versions())
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match options.certificates.first() {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let what = || format!("the certificate in {} with the key in {}", chain.shown(), key.shown());
            builder
                .with_client_auth_cert(chain.certificates()?, key.private_key()?)
                .map_err(|error| TlsError::unusable(what(), error))?
        }
    };
    config.alpn_protocols.clone_from(&options.alpn);
    config.enable_sni = has_name;
    Ok(config)
}
