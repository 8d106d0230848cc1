//! The server's side.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::ServerName;
use rustls::server::{Acceptor, ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::{LazyConfigAcceptor, TlsStream};

use super::{ContextOptions, Followed, HandshakeError, TlsError, TlsSession, bounded};
use crate::stream::Stream;
use crate::tls::certificate::PeerCertificate;
use crate::tls::clients::ClientVerifier;
use crate::tls::sessions::{self, Sessions};

/// TLS with clients. New connections use the last loaded files.
#[derive(Debug)]
pub struct ServerContext {
    options: ContextOptions,
    configs: ArcSwap<Configs>,
    fingerprint: Mutex<u64>,
}

/// The configuration of connections.
#[derive(Debug)]
struct Configs {
    /// Chooses the certificate.
    certificates: Arc<ByName>,
    /// For clients that offer one of the protocols.
    with_protocols: Arc<ServerConfig>,
    /// For clients that offer none of them: they are served without.
    without: Arc<ServerConfig>,
}

impl ServerContext {
    /// Loads certificates and keys.
    ///
    /// Errors: no certificate, one that cannot be read or used, or a key that does not match it.
    pub fn load(options: ContextOptions) -> Result<Self, TlsError> {
        // First, so that a change in between is found by the next look.
        let fingerprint = Mutex::new(options.fingerprint()?);
        let configs = ArcSwap::from_pointee(load(&options)?);
        Ok(Self { options, configs, fingerprint })
    }

    /// The handshake with a client, within a time limit.
    ///
    /// Errors: it failed, or took too long.
    pub async fn accept(
        &self,
        stream: TcpStream,
        limit: Duration,
    ) -> Result<(Stream, TlsSession), HandshakeError> {
        let handshake = async {
            let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
            let is_offered = start.client_hello().alpn().is_some_and(|mut offered| {
                offered.any(|protocol| self.options.alpn.iter().any(|known| known == protocol))
            });
            let configs = self.configs.load();
            let own = configs.certificates.choose(&start.client_hello());
            let own_uri = own.and_then(|own| own.uri.clone());
            let config = if is_offered { &configs.with_protocols } else { &configs.without };
            let config = Arc::clone(config);
            drop(configs);
            Ok((start.into_stream(config).await?, own_uri))
        };
        let (stream, own_uri) = bounded(sessions::handshake(handshake), limit).await?;
        let connection = stream.get_ref().1;
        let mut session = TlsSession::of(connection, connection.server_name().map(str::to_owned));
        session.own_uri = own_uri;
        Ok((Stream::Tls(Box::new(TlsStream::Server(stream))), session))
    }
}

impl Followed for ServerContext {
    fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let now = self.options.fingerprint()?;
        if now == *self.fingerprint.lock() {
            return Ok(false);
        }
        self.configs.store(Arc::new(load(&self.options)?));
        *self.fingerprint.lock() = now;
        Ok(true)
    }
}

fn load(options: &ContextOptions) -> Result<Configs, TlsError> {
    crate::tls::install_crypto_provider();
    let mut keys = Vec::new();
    for (chain, key) in &options.certificates {
        let provider = rustls::crypto::ring::default_provider();
        let certified = CertifiedKey::from_der(chain.certificates()?, key.private_key()?, &provider);
        let certified = certified.map_err(|error| {
            let what = format!("the certificate in {} with the key in {}", chain.shown(), key.shown());
            TlsError::unusable(what, error)
        })?;
        let names = certified.cert.first().map(|leaf| PeerCertificate::read(leaf));
        let uri = names.and_then(|names| names.uris.into_iter().next());
        keys.push(Own { key: Arc::new(certified), uri });
    }
    if keys.is_empty() {
        return Err(TlsError::Settings("a TLS server needs a certificate".to_owned()));
    }
    let builder = ServerConfig::builder_with_protocol_versions(&options.versions());
    let builder = match &options.roots {
        None if options.requires_certificate => {
            let text = "a client certificate can only be required with trusted roots";
            return Err(TlsError::Settings(text.to_owned()));
        }
        None => builder.with_no_client_auth(),
        Some(roots) => {
            let (roots, allowed) = (roots.roots()?, options.allowed.clone());
            let verifier = ClientVerifier::new(roots, options.requires_certificate, allowed);
            builder.with_client_cert_verifier(Arc::new(verifier))
        }
    };
    let certificates = Arc::new(ByName(keys));
    let mut without = builder.with_cert_resolver(Arc::<ByName>::clone(&certificates));
    if options.roots.is_some() {
        without.session_storage = Sessions::new();
    }
    let mut with_protocols = without.clone();
    with_protocols.alpn_protocols.clone_from(&options.alpn);
    Ok(Configs { certificates, with_protocols: Arc::new(with_protocols), without: Arc::new(without) })
}

/// A certificate of the server.
#[derive(Debug)]
struct Own {
    key: Arc<CertifiedKey>,
    /// Its first URI.
    uri: Option<String>,
}

/// Certificates: that of the server name which the client can verify, else the first that it can verify.
#[derive(Debug)]
struct ByName(Vec<Own>);

impl ByName {
    fn choose(&self, hello: &ClientHello<'_>) -> Option<&Own> {
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let usable = || {
            let schemes = hello.signature_schemes();
            self.0.iter().filter(move |own| own.key.key.choose_scheme(schemes).is_some())
        };
        let is_named = |own: &&Own| {
            let leaf = own.key.cert.first().and_then(|leaf| webpki::EndEntityCert::try_from(leaf).ok());
            let (Some(leaf), Some(name)) = (leaf, &name) else { return false };
            leaf.verify_is_valid_for_subject_name(name).is_ok()
        };
        let found = if self.0.len() > 1 { usable().find(is_named) } else { None };
        found.or_else(|| usable().next()).or(self.0.first())
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.choose(&hello).map(|own| Arc::clone(&own.key))
    }
}
