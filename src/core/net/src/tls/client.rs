//! TLS of clients.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ConfigBuilder, WantsVerifier};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::chain::{Allowed, ChainVerifier};
use super::error::TlsError;
use super::identity::PeerIdentity;
use super::roots::Roots;
use super::{TlsVersion, files};

/// TLS settings of a client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientTlsOptions {
    /// Trusted roots, PEM; empty: those of the system.
    pub ca_file: PathBuf,
    /// Client certificate chain, PEM; empty: none.
    pub cert_file: PathBuf,
    /// Key of the client certificate, PEM.
    pub key_file: PathBuf,
    /// Expected server name; empty: the host.
    pub server_name: String,
    /// Whether the roots of the system are trusted beside those of `ca_file`.
    pub trusts_system_roots: bool,
    /// By what the server is known.
    pub server_identity: ServerIdentity,
}

/// By what the certificate of a server is known, beside its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServerIdentity {
    /// The server name.
    #[default]
    Name,
    /// A URI, such as a SPIFFE ID, that the client certificate has too. Names do not count.
    UriOfClient,
    /// Nothing: every certificate of the roots will do.
    Any,
}

/// TLS for connections to one server.
#[derive(Clone)]
pub struct ClientTls {
    /// The configuration of connections.
    pub config: Arc<ClientConfig>,
    /// The expected server name.
    pub name: ServerName<'static>,
}

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientTls").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ClientTls {
    /// Loads the files for connections to `host`.
    ///
    /// Errors: an unreadable or unusable file, or an invalid server name.
    pub fn load(options: &ClientTlsOptions, host: &str) -> Result<Self, TlsError> {
        super::install_crypto_provider();
        let name = if options.server_name.is_empty() { host } else { options.server_name.as_str() };
        let name = ServerName::try_from(name.to_owned())
            .map_err(|e| TlsError::unusable(format!("the server name `{name}`"), e))?;
        let builder = ClientConfig::builder_with_protocol_versions(TlsVersion::V1_2.versions());
        let roots = roots(options)?;
        let builder = match options.server_identity {
            ServerIdentity::Name => dangerous(builder, ChainVerifier::new(Some(roots), Allowed::Name)),
            ServerIdentity::UriOfClient => {
                let own = PeerIdentity::of_chain(&files::certificates(&options.cert_file)?);
                let allowed = own.names.into_iter().filter(|name| name.contains("://")).collect();
                dangerous(builder, ChainVerifier::new(Some(roots), Allowed::Uris(allowed)))
            }
            ServerIdentity::Any => dangerous(builder, ChainVerifier::new(Some(roots), Allowed::Any)),
        };
        let has_cert = !options.cert_file.as_os_str().is_empty();
        if has_cert == options.key_file.as_os_str().is_empty() {
            return Err(TlsError::Settings("a certificate and its key belong together".to_owned()));
        }
        let mut config = if has_cert {
            let chain = files::certificates(&options.cert_file)?;
            let key = files::private_key(&options.key_file)?;
            let shown = options.cert_file.display().to_string();
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|e| TlsError::unusable(format!("the certificate in `{shown}`"), e))?
        } else {
            builder.with_no_client_auth()
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self { config: Arc::new(config), name })
    }

    /// TLS on a connection, for these protocols of ALPN; empty: none is offered.
    ///
    /// Errors: the handshake failed.
    pub async fn connect<S>(&self, stream: S, protocols: &[&[u8]]) -> std::io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        TlsConnector::from(Arc::new(config)).connect(self.name.clone(), stream).await
    }
}

/// A configuration with a verifier of its own, which verifies more than the usual one does.
pub(super) fn dangerous(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    verifier: ChainVerifier,
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
}

fn roots(options: &ClientTlsOptions) -> Result<Roots, TlsError> {
    if options.ca_file.as_os_str().is_empty() {
        return system_roots("name some with --ca-file");
    }
    let mut roots = Roots::default();
    roots.add_file(&options.ca_file)?;
    if options.trusts_system_roots {
        roots.add_system();
    }
    roots.checked()
}

/// The roots of the system. Errors: there are none; `cure` says what to do.
pub(super) fn system_roots(cure: &str) -> Result<Roots, TlsError> {
    let mut roots = Roots::default();
    roots.add_system();
    if roots.is_empty() {
        return Err(TlsError::Settings(format!("this system has no root certificates; {cure}")));
    }
    Ok(roots)
}
