//! Clients: their chain, and a test of their names.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::certificate::PeerCertificate;
use super::chain::algorithms;
use super::context::PeerTest;
use super::roots::Roots;
use super::sessions;
use super::usage::Usage;

/// Clients with a certificate of a trusted root, and a test of its names.
pub(super) struct ClientVerifier {
    roots: Roots,
    names: Vec<DistinguishedName>,
    is_required: bool,
    allowed: Option<PeerTest>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientVerifier {
    /// `is_required`: clients without a certificate are refused.
    pub(super) fn new(roots: Roots, is_required: bool, allowed: Option<PeerTest>) -> Self {
        Self { names: roots.subjects(), roots, is_required, allowed, algorithms: algorithms() }
    }
}

impl std::fmt::Debug for ClientVerifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientVerifier").field("roots", &self.roots).finish_non_exhaustive()
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.is_required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.names
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let usage = webpki::KeyUsage::client_auth();
        self.roots.verify(certificate, intermediates, now, usage, &self.algorithms)?;
        // Who was given a key to encrypt with is nobody by it. Spec: RFC 5280 section 4.2.1.3.
        if !Usage::of(certificate).is_witness {
            return Err(Error::InvalidCertificate(CertificateError::InvalidPurpose));
        }
        match &self.allowed {
            Some(allowed) if !allowed(&PeerCertificate::read(certificate)) => {
                Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
            }
            _ => {
                sessions::verified(certificate, intermediates);
                Ok(ClientCertVerified::assertion())
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
