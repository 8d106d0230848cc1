//! TLS of clients from texts in memory, as a kubeconfig embeds them.

use std::fmt;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::chain::{Allowed, ChainVerifier};
use super::error::TlsError;
use super::roots::Roots;
use super::{TlsVersion, client};

/// Roots, certificate and key of a client, as texts in PEM.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ClientPem {
    /// Trusted roots; `None`: those of the system.
    pub roots: Option<Vec<u8>>,
    /// Certificate chain and key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for ClientPem {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (roots, identity) = (self.roots.is_some(), self.identity.is_some());
        f.debug_struct("ClientPem").field("roots", &roots).field("identity", &identity).finish()
    }
}

impl ClientPem {
    /// The configuration of connections with these protocols of ALPN. Errors: a text that cannot be used; they never contain the key.
    pub fn config(&self, protocols: &[&[u8]]) -> Result<ClientConfig, TlsError> {
        super::install_crypto_provider();
        let roots = match &self.roots {
            Some(text) => roots(text)?,
            None => client::system_roots("name the certificate authority")?,
        };
        let builder = ClientConfig::builder_with_protocol_versions(TlsVersion::V1_2.versions());
        let builder = client::dangerous(builder, ChainVerifier::new(Some(roots), Allowed::Name));
        let mut config = match &self.identity {
            Some((chain, key)) => {
                let chain = certificates(chain, "client certificate")?;
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
                    TlsError::Settings("there is no private key in the client key".to_owned())
                })?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| TlsError::unusable("the client certificate", error))?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(config)
    }
}

fn certificates(text: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| TlsError::unusable(format!("the {what}"), error))?;
    if found.is_empty() {
        return Err(TlsError::Settings(format!("there is no certificate in the {what}")));
    }
    Ok(found)
}

fn roots(text: &[u8]) -> Result<Roots, TlsError> {
    let what = "the certificate authority";
    let mut roots = Roots::default();
    for certificate in certificates(text, "certificate authority")? {
        roots.add(certificate, &format!("of {what}"), || what.to_owned())?;
    }
    roots.checked()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_no_certificates_are_named_without_their_content() {
        let of = |roots: Option<&str>, identity: Option<(&str, &str)>| ClientPem {
            roots: roots.map(|text| text.as_bytes().to_vec()),
            identity: identity.map(|(chain, key)| (chain.into(), key.into())),
        };
        let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let certificate = issued.cert.pem();
        let refused = |pem: ClientPem| pem.config(&[b"h2"]).unwrap_err().to_string();
        assert_eq!(
            refused(of(Some("hunter2"), None)),
            "there is no certificate in the certificate authority"
        );
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(refused(of(Some(broken), None)).starts_with("the certificate authority cannot be used: "));
        let root = Some(&*certificate);
        let text = refused(of(root, Some((&certificate, "hunter2"))));
        assert_eq!(text, "there is no private key in the client key");
        let text = refused(of(root, Some(("hunter2", "hunter2"))));
        assert_eq!(text, "there is no certificate in the client certificate");
        let key = issued.signing_key.serialize_pem();
        let whole = of(root, Some((&certificate, &key)));
        assert_eq!(whole.config(&[b"h2"]).unwrap().alpn_protocols, [b"h2".to_vec()]);
        assert_eq!(format!("{whole:?}"), "ClientPem { roots: true, identity: true }");
    }
}
