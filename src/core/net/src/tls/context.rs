//! TLS of proxies: contexts of servers and clients made of PEM texts or files, with everything that a configuration can say of them.
//!
//! [`ServerContext`] performs handshakes with clients, [`ClientContext`] with servers; both tell a [`TlsSession`]. [`follow`] reloads the
//! files of contexts. A context whose files cannot be used any more goes on with what it loaded before.

mod client;
mod hello;
mod server;

use std::hash::Hasher as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CertificateError, CommonState, Error, SupportedProtocolVersion};
use tokio_util::sync::CancellationToken;

pub use client::ClientContext;
pub use hello::{Hello, begins_as_hello, read_hello};
pub use server::ServerContext;

use super::TlsVersion;
use super::certificate::PeerCertificate;
use super::error::{TlsError, read};
use super::follow::follow_files;
use super::roots::Roots;

/// PEM text, or the file that it is in.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// A file, which is followed.
    File(PathBuf),
    /// The text itself.
    Inline(Arc<[u8]>),
}

impl std::fmt::Debug for Pem {
    /// Without the text, which may be a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Pem::File(path) => f.debug_tuple("File").field(path).finish(),
            Pem::Inline(_) => f.write_str("Inline"),
        }
    }
}

impl Pem {
    fn bytes(&self, what: &'static str) -> Result<Vec<u8>, TlsError> {
        match self {
            Pem::File(path) => read(what, path),
            Pem::Inline(text) => Ok(text.to_vec()),
        }
    }

    /// For messages.
    fn shown(&self) -> String {
        match self {
            Pem::File(path) => format!("`{}`", path.display()),
            Pem::Inline(_) => "the inline text".to_owned(),
        }
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let bytes = self.bytes("the certificates in")?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
        let found = found.map_err(|error| TlsError::unusable(self.shown(), error))?;
        if found.is_empty() {
            return Err(TlsError::Settings(format!("there is no certificate in {}", self.shown())));
        }
        Ok(found)
    }

    /// Errors never contain the key.
    fn private_key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        let bytes = self.bytes("the key in")?;
        PrivateKeyDer::from_pem_slice(&bytes)
            .map_err(|_| TlsError::Settings(format!("there is no private key in {}", self.shown())))
    }

    fn roots(&self) -> Result<Roots, TlsError> {
        let mut roots = Roots::default();
        for certificate in self.certificates()? {
            let place = format!("in {}", self.shown());
            roots.add(certificate, &place, || format!("a certificate in {}", self.shown()))?;
        }
        roots.checked()
    }
}

/// A test of the certificate of a peer, beside its chain.
pub type PeerTest = Arc<dyn Fn(&PeerCertificate) -> bool + Send + Sync>;

/// What a context is made of.
#[derive(Clone)]
pub struct ContextOptions {
    /// Chains and keys. A server chooses by server name and signature algorithms; a client has one at most.
    pub certificates: Vec<(Pem, Pem)>,
    /// Trusted roots; `None`: a server asks for no certificate, and a client accepts any.
    pub roots: Option<Pem>,
    /// A test of the certificate of a peer that has one; needs `roots`.
    pub allowed: Option<PeerTest>,
    /// Protocols of ALPN in the order of preference; empty: none are negotiated.
    pub alpn: Vec<Vec<u8>>,
    /// The lowest and the highest version.
    pub versions: (TlsVersion, TlsVersion),
    /// Whether clients without a certificate are refused; needs `roots`.
    pub requires_certificate: bool,
}

impl Default for ContextOptions {
    fn default() -> Self {
        Self {
            certificates: Vec::new(),
            roots: None,
            allowed: None,
            alpn: Vec::new(),
            versions: (TlsVersion::V1_2, TlsVersion::V1_3),
            requires_certificate: false,
        }
    }
}

impl std::fmt::Debug for ContextOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContextOptions")
            .field("certificates", &self.certificates)
            .field("roots", &self.roots)
            .field("versions", &self.versions)
            .finish_non_exhaustive()
    }
}

impl ContextOptions {
    fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        let (min, max) = self.versions;
        let all = [(TlsVersion::V1_3, &rustls::version::TLS13), (TlsVersion::V1_2, &rustls::version::TLS12)];
        let rank = |version: TlsVersion| u8::from(version == TlsVersion::V1_3);
        let wanted = |version: TlsVersion| (rank(min)..=rank(max)).contains(&rank(version));
        all.into_iter().filter(|(version, _)| wanted(*version)).map(|(_, version)| version).collect()
    }

    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let pairs = self.certificates.iter().flat_map(|(chain, key)| [chain, key]);
        pairs.chain(&self.roots).filter_map(|pem| match pem {
            Pem::File(path) => Some(path),
            Pem::Inline(_) => None,
        })
    }

    /// A hash of all files; 0 without any.
    fn fingerprint(&self) -> Result<u64, TlsError> {
        let mut hasher = std::hash::DefaultHasher::new();
        let mut has_files = false;
        for path in self.files() {
            has_files = true;
            let bytes = read("the file", path)?;
            hasher.write_usize(bytes.len());
            hasher.write(&bytes);
        }
        Ok(if has_files { hasher.finish() } else { 0 })
    }
}

/// What a handshake negotiated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsSession {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite, by the name that OpenSSL gives it.
    pub cipher: &'static str,
    /// The group of the key exchange, by the name that OpenSSL gives it; empty if there was none.
    pub group: &'static str,
    /// The server name that the client asked for.
    pub server_name: Option<String>,
    /// The protocol of ALPN.
    pub protocol: Option<Vec<u8>>,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
    /// The certificate of the peer.
    pub peer: Option<PeerCertificate>,
    /// The first URI of the certificate that this side presents as a server.
    pub own_uri: Option<String>,
}

impl TlsSession {
    fn of(state: &CommonState, server_name: Option<String>) -> Self {
        let peer = state.peer_certificates().and_then(|chain| chain.first());
        Self {
            version: match state.protocol_version() {
                Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
                _ => "TLSv1.2",
            },
            cipher: state.negotiated_cipher_suite().map_or("", |suite| cipher_name(suite.suite())),
            group: state.negotiated_key_exchange_group().map_or("", |group| group_name(group.name())),
            server_name,
            protocol: state.alpn_protocol().map(<[u8]>::to_vec),
            is_resumed: state.handshake_kind() == Some(rustls::HandshakeKind::Resumed),
            peer: peer.map(|leaf| PeerCertificate::read(leaf)),
            own_uri: None,
        }
    }
}

fn cipher_name(suite: rustls::CipherSuite) -> &'static str {
    use rustls::CipherSuite as Suite;
    match suite {
        Suite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        Suite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        Suite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        Suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        Suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        Suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        Suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        Suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        Suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        _ => "",
    }
}

fn group_name(group: rustls::NamedGroup) -> &'static str {
    match group {
        rustls::NamedGroup::X25519 => "X25519",
        rustls::NamedGroup::secp256r1 => "P-256",
        rustls::NamedGroup::secp384r1 => "P-384",
        _ => "",
    }
}

/// A handshake failed. The text is for the log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// It was not complete in time.
    #[error("the TLS handshake was not complete within {0:?}")]
    Timeout(Duration),
    /// The client has no certificate, and must have one.
    #[error("the client has no certificate")]
    NoCertificate,
    /// The certificate of the peer is not trusted.
    #[error("the certificate of the peer is not trusted: {0}")]
    Certificate(std::io::Error),
    /// The names in the certificate of the peer are not among those expected.
    #[error("the certificate of the peer has none of the expected names")]
    Name,
    /// The peer ended the connection.
    #[error("the peer ended the connection")]
    Closed,
    /// Anything else.
    #[error("{0}")]
    Other(std::io::Error),
}

impl HandshakeError {
    fn of(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            return Self::Closed;
        }
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(Error::NoCertificatesPresented) => Self::NoCertificate,
            Some(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)) => Self::Name,
            Some(Error::InvalidCertificate(_)) => Self::Certificate(error),
            _ => Self::Other(error),
        }
    }
}

/// The handshake, within a time limit.
async fn bounded<T>(
    handshake: impl Future<Output = std::io::Result<T>>,
    limit: Duration,
) -> Result<T, HandshakeError> {
    match tokio::time::timeout(limit, handshake).await {
        Ok(done) => done.map_err(HandshakeError::of),
        Err(_) => Err(HandshakeError::Timeout(limit)),
    }
}

/// A context whose files are followed.
pub trait Followed: Send + Sync + 'static {
    /// Loads the files again if they have changed. Returns whether they have. Errors: as when they were loaded first.
    fn reload_if_changed(&self) -> Result<bool, TlsError>;
}

/// Reloads the files of a context when they change, until `stop`: they are looked at every `interval`.
pub async fn follow(context: Arc<impl Followed>, interval: Duration, stop: CancellationToken) {
    follow_files(interval, &stop, || {}, move || context.reload_if_changed(), |_| {}).await;
}

#[cfg(test)]
mod tests;
