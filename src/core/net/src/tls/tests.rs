//! Certificates are generated for each test.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};

use super::*;

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Certificate and key for some names.
    fn issue(&self, names: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = names
            .iter()
            .map(|name| match name.contains("://") {
                true => SanType::URI((*name).try_into().unwrap()),
                false => SanType::DnsName((*name).try_into().unwrap()),
            })
            .collect();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

fn put(directory: &Path, name: &str, content: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

#[test]
fn the_provider_is_installed_once() {
    install_crypto_provider();
    install_crypto_provider();
    assert!(rustls::crypto::CryptoProvider::get_default().is_some());
}

#[test]
fn inconsistent_settings_are_refused() {
    type Change = fn(&mut ServerTlsOptions);
    let cases: [(Change, &str); 4] = [
        (|o| o.key_file = PathBuf::new(), "a certificate and its key belong together"),
        (
            |o| {
                o.cert_file = PathBuf::new();
                o.key_file = PathBuf::new();
            },
            "--tls-client-ca-file needs",
        ),
        (|o| o.client_auth = ClientAuth::Optional, "--tls-allowed-peers needs"),
        (|o| o.allowed_peers = "a*b".to_owned(), "--tls-allowed-peers: `a*b`"),
    ];
    let good = ServerTlsOptions {
        cert_file: "c".into(),
        key_file: "k".into(),
        client_ca_file: "r".into(),
        allowed_peers: "a".to_owned(),
        ..ServerTlsOptions::default()
    };
    assert!(good.check().is_ok());
    assert!(ServerTlsOptions::default().check().is_ok());
    for (change, text) in cases {
        let mut options = good.clone();
        change(&mut options);
        let error = options.check().unwrap_err().to_string();
        assert!(error.starts_with(text), "{error}");
    }
}

#[test]
fn errors_name_unusable_files() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let authority = Authority::new();
    let (certificate, key) = authority.issue(&["localhost"]);
    let (_, other_key) = authority.issue(&["localhost"]);
    let load = || {
        let options = ServerTlsOptions { cert_file: at("c"), key_file: at("k"), ..Default::default() };
        ServerTls::load(options).map(drop).map_err(|e| e.to_string())
    };
    let shown = |name: &str| at(name).display().to_string();
    let missing = format!("cannot read the certificates in `{}`: no such file or directory", shown("c"));
    assert_eq!(load(), Err(missing));
    put(directory.path(), "c", "nothing");
    put(directory.path(), "k", "nothing");
    assert_eq!(load(), Err(format!("there is no certificate in `{}`", shown("c"))));
    put(directory.path(), "c", &certificate);
    assert_eq!(load(), Err(format!("there is no private key in `{}`", shown("k"))));
    put(directory.path(), "k", &other_key);
    let mismatch = load().unwrap_err();
    assert!(mismatch.contains("cannot be used: keys may not be consistent: KeyMismatch"), "{mismatch}");
    put(directory.path(), "k", &key);
    assert_eq!(load(), Ok(()));
}

#[test]
fn a_failed_reload_keeps_the_previous_files() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let write = |(certificate, key): (String, String)| ServerTlsOptions {
        cert_file: put(directory.path(), "c", &certificate),
        key_file: put(directory.path(), "k", &key),
        ..Default::default()
    };
    let tls = ServerTls::load(write(authority.issue(&["localhost"]))).unwrap();
    let first = tls.config();
    assert!(!tls.reload_if_changed().unwrap());
    put(directory.path(), "c", "nothing");
    assert!(tls.reload_if_changed().is_err());
    assert!(std::sync::Arc::ptr_eq(&first, &tls.config()));
    write(authority.issue(&["localhost"]));
    assert!(tls.reload_if_changed().unwrap());
    assert!(!std::sync::Arc::ptr_eq(&first, &tls.config()));
    assert!(!tls.reload_if_changed().unwrap());
}

#[test]
fn identities_come_from_the_certificate() {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    let authority = Authority::new();
    assert!(authority.certificate.contains("BEGIN CERTIFICATE"));
    let (certificate, _) = authority.issue(&["web.shop", "spiffe://local/ns/shop/sa/web"]);
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let identity = PeerIdentity::of_chain(&[der]);
    assert_eq!(identity.names, ["spiffe://local/ns/shop/sa/web", "web.shop"]);
    assert_eq!(identity.principal(), "spiffe://local/ns/shop/sa/web");
    assert_eq!(PeerIdentity::of_chain(&[]).principal(), "");
}

#[test]
fn a_server_without_a_name_is_known_by_its_roots_and_a_uri_of_the_client() {
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::{ServerName, UnixTime};

    let directory = tempfile::tempdir().unwrap();
    let (trusted, other) = (Authority::new(), Authority::new());
    let roots = || roots::Roots::of_file(&put(directory.path(), "ca.pem", &trusted.certificate)).unwrap();
    let own = "spiffe://local/ns/a/sa/mixer";
    let verified = |authority: &Authority, names: &[&str], allowed: Option<&str>| {
        let path = put(directory.path(), "server.pem", &authority.issue(names).0);
        let chain = files::certificates(&path).unwrap();
        let allowed = allowed.map_or(chain::Allowed::Any, |uri| chain::Allowed::Uris(vec![uri.to_owned()]));
        let verifier = chain::ChainVerifier::new(Some(roots()), allowed);
        let name = ServerName::try_from("elsewhere").unwrap();
        verifier.verify_server_cert(&chain[0], &[], &name, &[], UnixTime::now())
    };
    assert!(verified(&trusted, &[own], Some(own)).is_ok());
    assert!(verified(&trusted, &["spiffe://local/ns/b/sa/x", own], Some(own)).is_ok());
    assert!(verified(&trusted, &["anything"], None).is_ok());
    let refused = verified(&trusted, &["spiffe://local/ns/a/sa/other", "elsewhere"], Some(own)).unwrap_err();
    assert!(refused.to_string().contains("is not whitelisted"), "{refused}");
    for allowed in [Some(own), None] {
        assert!(verified(&other, &[own], allowed).is_err());
    }
}
