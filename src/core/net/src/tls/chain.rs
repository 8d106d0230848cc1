//! Servers that are known by their chain and by a URI in their certificate instead of a name.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};

use super::certificate::PeerCertificate;
use super::context::PeerTest;
use super::identity::PeerIdentity;

/// Verifies the chain of a server, and a URI of its certificate.
#[derive(Debug)]
pub(super) struct ChainVerifier {
    /// `None`: every chain will do.
    roots: Option<RootCertStore>,
    allowed: Allowed,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Which certificates of the roots are accepted.
pub(super) enum Allowed {
    /// All.
    Any,
    /// Those that have one of these URIs.
    Uris(Vec<String>),
    /// Those that pass a test.
    Test(PeerTest),
}

impl std::fmt::Debug for Allowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Allowed::Any => f.write_str("Any"),
            Allowed::Uris(uris) => f.debug_tuple("Uris").field(uris).finish(),
            Allowed::Test(_) => f.write_str("Test"),
        }
    }
}

/// The certificate has none of the URIs.
#[derive(thiserror::Error)]
#[error("failed to authenticate, cert SAN {found:?} is not whitelisted, expected one of {allowed:?}")]
struct NotAllowed {
    found: Vec<String>,
    allowed: Vec<String>,
}

/// As it is displayed: rustls shows errors of verifiers so.
impl std::fmt::Debug for NotAllowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl ChainVerifier {
    pub(super) fn new(roots: Option<RootCertStore>, allowed: Allowed) -> Self {
        let provider = CryptoProvider::get_default();
        let algorithms = provider.map_or_else(
            || rustls::crypto::ring::default_provider().signature_verification_algorithms,
            |provider| provider.signature_verification_algorithms,
        );
        Self { roots, allowed, algorithms }
    }
}

/// An error that rustls has no name for.
fn other(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(std::sync::Arc::new(error))))
}

impl ChainVerifier {
    fn verify_chain(
        &self,
        roots: &RootCertStore,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let leaf = webpki::EndEntityCert::try_from(certificate)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let usage = webpki::KeyUsage::server_auth();
        let verified =
            leaf.verify_for_usage(self.algorithms.all, &roots.roots, intermediates, now, usage, None, None);
        verified.map(drop).map_err(|error| match error {
            webpki::Error::CertExpired { .. } => Error::InvalidCertificate(CertificateError::Expired),
            webpki::Error::UnknownIssuer => Error::InvalidCertificate(CertificateError::UnknownIssuer),
            unnamed => other(unnamed),
        })
    }
}

impl ServerCertVerifier for ChainVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            self.verify_chain(roots, certificate, intermediates, now)?;
        }
        match &self.allowed {
            Allowed::Any => Ok(ServerCertVerified::assertion()),
            Allowed::Uris(allowed) => {
                let found = PeerIdentity::of_chain(std::slice::from_ref(certificate)).names;
                if found.iter().any(|name| allowed.contains(name)) {
                    return Ok(ServerCertVerified::assertion());
                }
                Err(other(NotAllowed { found, allowed: allowed.clone() }))
            }
            Allowed::Test(test) if test(&PeerCertificate::read(certificate)) => {
                Ok(ServerCertVerified::assertion())
            }
            Allowed::Test(_) => {
                Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
