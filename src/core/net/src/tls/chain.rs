//! Servers: their chain, and by what they are known, a name or a URI in their certificate.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use super::certificate::PeerCertificate;
use super::context::PeerTest;
use super::identity::PeerIdentity;
use super::roots::{Roots, other};

/// Verifies the chain of a server, and its names.
#[derive(Debug)]
pub(super) struct ChainVerifier {
    /// `None`: every chain will do.
    roots: Option<Roots>,
    allowed: Allowed,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Which certificates of the roots are accepted.
pub(super) enum Allowed {
    /// All.
    Any,
    /// Those of the server name.
    Name,
    /// Those that have one of these URIs.
    Uris(Vec<String>),
    /// Those that pass a test.
    Test(PeerTest),
}

impl std::fmt::Debug for Allowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Allowed::Any => f.write_str("Any"),
            Allowed::Name => f.write_str("Name"),
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

/// The algorithms of signatures of the crypto provider.
pub(super) fn algorithms() -> WebPkiSupportedAlgorithms {
    let provider = CryptoProvider::get_default();
    provider.map_or_else(
        || rustls::crypto::ring::default_provider().signature_verification_algorithms,
        |provider| provider.signature_verification_algorithms,
    )
}

impl ChainVerifier {
    pub(super) fn new(roots: Option<Roots>, allowed: Allowed) -> Self {
        Self { roots, allowed, algorithms: algorithms() }
    }
}

impl ServerCertVerifier for ChainVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            let usage = webpki::KeyUsage::server_auth();
            roots.verify(certificate, intermediates, now, usage, &self.algorithms)?;
        }
        match &self.allowed {
            Allowed::Any => Ok(ServerCertVerified::assertion()),
            Allowed::Name => {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
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
