//! Tests of TLS: roots and client certificates, embedded and in files that are replaced.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;

use super::*;

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Certificate and key for 127.0.0.1.
    fn issue(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// A server that answers with the version of HTTP, to clients with a certificate of the authority. Returns its URL.
async fn serve(authority: &Authority) -> String {
    install_crypto_provider();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap()).unwrap();
    let verifier = WebPkiClientVerifier::builder(roots.into()).build().unwrap();
    let (chain, key) = authority.issue();
    let chain = vec![CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let builder = rustls::ServerConfig::builder().with_client_cert_verifier(verifier);
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service =
                    hyper::service::service_fn(async |request: hyper::Request<hyper::body::Incoming>| {
                        let version = format!("\"{:?}\"", request.version());
                        Ok::<_, std::convert::Infallible>(hyper::Response::new(version))
                    });
                let builder =
                    hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
                let _ = builder.serve_connection(hyper_util::rt::TokioIo::new(stream), service).await;
            });
        }
    });
    url
}

fn encoded(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn config(url: &str, cluster: &str, user: &str) -> String {
    kubeconfig(url, user).replace("'}}]", &format!("'{cluster}}}}}]"))
}

async fn asked(client: &Client) -> Result<Value, Error> {
    client.get("/version", "application/json").await
}

#[tokio::test]
async fn both_sides_show_certificates() {
    let [ours, other] = ["ours", "other"].map(Authority::new);
    let url = serve(&ours).await;
    let (certificate, key) = ours.issue();
    let user =
        format!("client-certificate-data: {}, client-key-data: {}", encoded(&certificate), encoded(&key));
    let root = |of: &Authority| format!(", certificate-authority-data: {}", encoded(&of.certificate));
    let client = |root: &str, user: &str| Client::new(Access::of_text(config(&url, root, user))).unwrap();
    assert_eq!(asked(&client(&root(&ours), &user)).await.unwrap(), "HTTP/2.0");
    for (root, user) in [(root(&other), &*user), (root(&ours), "")] {
        let error = asked(&client(&root, user)).await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    }
}

#[tokio::test]
async fn certificates_that_are_replaced_are_used_at_once() {
    let [ours, other] = ["ours", "other"].map(Authority::new);
    let url = serve(&ours).await;
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        std::fs::write(directory.path().join("new"), text).unwrap();
        std::fs::rename(directory.path().join("new"), directory.path().join(name)).unwrap();
    };
    let (certificate, key) = ours.issue();
    put("ca", &other.certificate);
    put("cert", &certificate);
    put("key", &key);
    put("config", &config(&url, ", certificate-authority: ca", "client-certificate: cert, client-key: key"));
    let client = Client::new(Access::of_file(directory.path().join("config"))).unwrap();
    assert!(asked(&client).await.is_err());
    put("ca", &ours.certificate);
    assert_eq!(asked(&client).await.unwrap(), "HTTP/2.0");
    put("key", "");
    assert_eq!(asked(&client).await.unwrap(), "HTTP/2.0", "the last ones are used on");
}
