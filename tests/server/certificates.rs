//! Certificate authorities and certificates for the tests of TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// An authority that signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, PEM.
    pub(crate) certificate: String,
}

/// A certificate and its key, PEM.
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Paths of a certificate and its key.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // A unique name, as authorities have: the issuer of a certificate is matched by name.
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        params.distinguished_name.push(DnType::CommonName, format!("authority {number}"));
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// A certificate for some names: URIs, DNS names or addresses.
    pub(crate) fn issue(&self, names: &[&str]) -> Issued {
        self.issue_until(names, (4096, 1, 1))
    }

    /// The same, valid until the beginning of a day.
    pub(crate) fn issue_until(&self, names: &[&str], (year, month, day): (i32, u8, u8)) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        let name = |name: &&str| match name.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) if name.contains("://") => SanType::URI((*name).try_into().expect("a URI")),
            Err(_) => SanType::DnsName((*name).try_into().expect("a name")),
        };
        params.not_after = rcgen::date_time_ymd(year, month, day);
        params.distinguished_name.push(DnType::CommonName, names[0]);
        params.subject_alt_names = names.iter().map(name).collect();
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Issued { certificate, key: key.serialize_pem() }
    }

    /// A configuration that trusts this authority, for clients of these versions, with a certificate or without.
    pub(crate) fn client(
        &self,
        shown: Option<&Issued>,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Arc<rustls::ClientConfig> {
        mixer_net::tls::install_crypto_provider();
        let mut roots = rustls::RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("PEM");
        roots.add(root).expect("a root");
        let builder =
            rustls::ClientConfig::builder_with_protocol_versions(versions).with_root_certificates(roots);
        let mut config = match shown {
            None => builder.with_no_client_auth(),
            Some(issued) => {
                let chain = vec![CertificateDer::from_pem_slice(issued.certificate.as_bytes()).expect("PEM")];
                let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).expect("PEM");
                builder.with_client_auth_cert(chain, key).expect("a certificate and its key")
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }
}

impl Issued {
    /// Writes both files.
    pub(crate) fn put(&self, directory: &Path, name: &str) -> Files {
        Files {
            certificate: put(directory, &format!("{name}.pem"), &self.certificate),
            key: put(directory, &format!("{name}.key"), &self.key),
        }
    }
}

/// Writes a file and returns its path.
pub(crate) fn put(directory: &Path, name: &str, content: &str) -> String {
    let path: PathBuf = directory.join(name);
    std::fs::write(&path, content).expect("it is writable");
    path.display().to_string()
}
