//! Trusted roots with what webpki does not keep of them: how long they are valid, and whether they may sign certificates.
//!
//! webpki takes a subject and a key for a root, and nothing else. Here a chain is valid only if its root is valid now and is an authority, and
//! if its intermediates may sign certificates. Spec: RFC 5280, 4.1.2.5, 4.2.1.3 and 4.2.1.9.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, DistinguishedName, Error, OtherError, RootCertStore};
use webpki::{EndEntityCert, KeyUsage, VerifiedPath};

use super::certificate::PeerCertificate;
use super::error::TlsError;
use super::files;
use super::usage::Usage;
use super::validity::{Validity, validity};
use mixer_base::time::Timestamp;

/// Trusted roots.
#[derive(Debug)]
pub(super) struct Roots {
    store: RootCertStore,
    /// In the order of the store.
    known: Vec<Root>,
}

/// What is known of a root besides its anchor.
#[derive(Debug, Clone)]
struct Root {
    certificate: CertificateDer<'static>,
    /// Its subject, and where it is.
    shown: Arc<str>,
    validity: Option<Validity>,
    usage: Usage,
}

/// Why a certificate that a chain leads to does not make it a trusted one.
#[derive(Clone, thiserror::Error)]
#[error("{certificate} {why}{}", Validity::shown(validity.as_ref()))]
pub(super) struct Untrusted {
    /// For example ``the root `CN=a` in `ca.pem` ``.
    certificate: String,
    why: &'static str,
    validity: Option<Validity>,
}

/// As it is displayed: rustls shows errors of verifiers so.
impl std::fmt::Debug for Untrusted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Default for Roots {
    /// None.
    fn default() -> Self {
        Self { store: RootCertStore::empty(), known: Vec::new() }
    }
}

impl Root {
    fn untrusted(&self, why: &'static str) -> Untrusted {
        let certificate = format!("the root {}", self.shown);
        Untrusted { certificate, why, validity: self.validity }
    }

    fn check_validity(&self, now: Timestamp) -> Result<(), Untrusted> {
        match &self.validity {
            None => Err(self.untrusted("has no validity period")),
            Some(period) if now > period.until => Err(self.untrusted("has expired")),
            Some(period) if now < period.from => Err(self.untrusted("is not valid yet")),
            Some(_) => Ok(()),
        }
    }

    /// Whether it may sign certificates, over so many intermediates.
    fn check_usage(&self, intermediates: usize) -> Result<(), Untrusted> {
        match self.usage.path_length {
            _ if !self.usage.is_signer => {
                Err(self.untrusted("may not sign certificates: its key usage is without keyCertSign"))
            }
            _ if !self.usage.is_authority => Err(self.untrusted(
                "is no certificate authority: it may not sign certificates, as its basic constraints say or lack",
            )),
            Some(most) if intermediates > most => {
                Err(self.untrusted("does not allow as many intermediate certificates"))
            }
            _ => Ok(()),
        }
    }
}

impl Roots {
    /// The certificates of a file. Errors: one that is invalid, or none that can be trusted now.
    pub(super) fn of_file(path: &Path) -> Result<Self, TlsError> {
        let mut roots = Self::default();
        roots.add_file(path)?;
        roots.checked()
    }

    /// Adds the certificates of a file. Errors: an invalid one.
    pub(super) fn add_file(&mut self, path: &Path) -> Result<(), TlsError> {
        let file = path.display();
        let certificates = files::certificates(path)?;
        certificates.into_iter().try_for_each(|certificate| {
            self.add(certificate, &format!("in `{file}`"), || format!("a certificate in `{file}`"))
        })
    }

    /// Adds a certificate. `place`: where it is, for example ``in `ca.pem` ``. Errors: it is invalid, as that of `what`.
    pub(super) fn add(
        &mut self,
        certificate: CertificateDer<'static>,
        place: &str,
        what: impl FnOnce() -> String,
    ) -> Result<(), TlsError> {
        self.insert(certificate, place).map_err(|error| TlsError::unusable(what(), error))
    }

    /// Adds the roots of the system; those that are invalid are left out.
    pub(super) fn add_system(&mut self) {
        for certificate in rustls_native_certs::load_native_certs().certs {
            let _ = self.insert(certificate, "of this system");
        }
    }

    fn insert(&mut self, certificate: CertificateDer<'static>, place: &str) -> Result<(), Error> {
        self.store.add(certificate.clone())?;
        let subject = PeerCertificate::read(&certificate).subject;
        let shown = if subject.is_empty() { place.to_owned() } else { format!("`{subject}` {place}") };
        let (validity, usage) = (validity(&certificate), Usage::of(&certificate));
        self.known.push(Root { certificate, shown: shown.into(), validity, usage });
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The names of all, for clients.
    pub(super) fn subjects(&self) -> Vec<DistinguishedName> {
        self.store.subjects()
    }

    /// Warns of those that cannot be trusted now. Errors: none of them can, with the reason of the first.
    pub(super) fn checked(self) -> Result<Self, TlsError> {
        let now = Timestamp::from_system_time(SystemTime::now());
        // One that is no authority may be the certificate of the peer itself.
        let check = |root: &Root| {
            root.check_validity(now)?;
            if root.usage.is_own_issuer && !root.usage.is_authority { Ok(()) } else { root.check_usage(0) }
        };
        let problems: Vec<Untrusted> = self.known.iter().filter_map(|root| check(root).err()).collect();
        match problems.first() {
            Some(first) if problems.len() == self.known.len() => Err(TlsError::Root(first.to_string())),
            _ => {
                for problem in problems {
                    tracing::warn!("{problem}; no certificate is trusted because of it");
                }
                Ok(self)
            }
        }
    }

    /// Whether a certificate is trusted for `usage`. Errors: it is not; a root or an intermediate that is the reason is named.
    pub(super) fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        usage: KeyUsage,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Result<(), Error> {
        let leaf = EndEntityCert::try_from(certificate).map_err(named)?;
        let reason = RefCell::new(None);
        let check = |path: &VerifiedPath<'_>| {
            self.check_path(path, certificate, now).map_err(|why| {
                *reason.borrow_mut() = Some(why);
                webpki::Error::UnknownIssuer
            })
        };
        let anchors = &self.store.roots;
        let verified =
            leaf.verify_for_usage(algorithms.all, anchors, intermediates, now, usage, None, Some(&check));
        verified.map(drop).map_err(|error| reason.take().map_or_else(|| named(error), other))
    }

    /// What webpki does not look at.
    fn check_path(
        &self,
        path: &VerifiedPath<'_>,
        leaf: &CertificateDer<'_>,
        now: UnixTime,
    ) -> Result<(), Untrusted> {
        let mut intermediates = 0;
        for intermediate in path.intermediate_certificates() {
            let der = intermediate.der();
            intermediates += usize::from(intermediate.issuer() != intermediate.subject());
            if !Usage::of(&der).is_signer {
                return Err(Untrusted {
                    certificate: format!(
                        "the intermediate certificate `{}`",
                        PeerCertificate::read(&der).subject
                    ),
                    why: "may not sign certificates: its key usage is without keyCertSign",
                    validity: validity(&der),
                });
            }
        }
        let now = Timestamp { seconds: i64::try_from(now.as_secs()).unwrap_or(i64::MAX), nanos: 0 };
        let anchor = path.anchor();
        // A root that was renewed has the same name and key. One with other constraints is another root: the path was built over this one.
        let same = self.store.roots.iter().zip(&self.known).filter(|(known, _)| *known == anchor);
        let mut result = Ok(());
        for (_, root) in same {
            result = root.check_validity(now);
            if root.certificate != *leaf {
                result = result.and_then(|()| root.check_usage(intermediates));
            }
            if result.is_ok() {
                break;
            }
        }
        result
    }
}

/// An error that rustls has no name for.
pub(super) fn other(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
}

/// By the name that rustls has for it, if it has one.
fn named(error: webpki::Error) -> Error {
    let known = match error {
        webpki::Error::BadDer | webpki::Error::BadDerTime | webpki::Error::TrailingData(_) => {
            CertificateError::BadEncoding
        }
        webpki::Error::CertNotValidYet { time, not_before } => {
            CertificateError::NotValidYetContext { time, not_before }
        }
        webpki::Error::CertExpired { time, not_after } => {
            CertificateError::ExpiredContext { time, not_after }
        }
        webpki::Error::InvalidCertValidity => CertificateError::Expired,
        webpki::Error::UnknownIssuer => CertificateError::UnknownIssuer,
        webpki::Error::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        webpki::Error::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        unnamed => return other(unnamed),
    };
    Error::InvalidCertificate(known)
}

#[cfg(test)]
mod tests;
