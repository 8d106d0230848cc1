//! Certificates made for a test, clients and hosts that speak TLS.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::proxy::DEADLINE;

/// A certificate authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) root: String,
}

/// Certificate and key, as PEM.
#[derive(Clone)]
pub(crate) struct Issued {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Issued {
    /// Writes both to files.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> [PathBuf; 2] {
        [("chain", &self.chain), ("key", &self.key)].map(|(kind, text)| {
            let path = directory.join(format!("{name}.{kind}"));
            std::fs::write(&path, text).unwrap();
            path
        })
    }

    fn parts(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let chain = CertificateDer::pem_slice_iter(self.chain.as_bytes()).map(Result::unwrap).collect();
        (chain, PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap())
    }
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "root");
        let root = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), root }
    }

    /// A certificate with names.
    pub(crate) fn issue(&self, names: &[&str]) -> Issued {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CountryName, "DE");
        params.distinguished_name.push(DnType::OrganizationName, "Big, Co");
        params.distinguished_name.push(DnType::CommonName, "peer+1");
        params.subject_alt_names = names
            .iter()
            .map(|name| match name.contains("://") {
                true => SanType::URI((*name).try_into().unwrap()),
                false => SanType::DnsName((*name).try_into().unwrap()),
            })
            .collect();
        Issued { chain: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }
}

/// What a client does.
#[derive(Clone, Default)]
pub(crate) struct Client {
    pub(crate) certificate: Option<Issued>,
    /// Empty for none.
    pub(crate) server_name: &'static str,
    pub(crate) alpn: &'static [&'static str],
    pub(crate) only_1_2: bool,
    /// Whether it reads late.
    pub(crate) is_slow: bool,
}

impl Client {
    /// TLS with a server; nothing is verified.
    pub(crate) fn connect(&self, port: u16) -> StreamOwned<ClientConnection, TcpStream> {
        let versions: &[&rustls::SupportedProtocolVersion] = match self.only_1_2 {
            true => &[&rustls::version::TLS12],
            false => &[&rustls::version::TLS13, &rustls::version::TLS12],
        };
        let builder = ClientConfig::builder_with_protocol_versions(versions)
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone));
        let mut config = match &self.certificate {
            Some(issued) => {
                let (chain, key) = issued.parts();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = self.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config.enable_sni = !self.server_name.is_empty();
        let name = match self.server_name {
            "" => ServerName::try_from("127.0.0.1"),
            name => ServerName::try_from(name),
        };
        let client = ClientConnection::new(Arc::new(config), name.unwrap()).unwrap();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        StreamOwned::new(client, stream)
    }

    /// Sends a request; shows the response and what was negotiated, or that there is none.
    pub(crate) fn ask(&self, port: u16, request: &str) -> String {
        let mut stream = self.connect(port);
        let mut bytes = Vec::new();
        let asked = stream.write_all(request.as_bytes()).and_then(|()| {
            if self.is_slow {
                // What is not read fills every buffer on the way.
                std::thread::sleep(std::time::Duration::from_millis(500));
            }
            stream.read_to_end(&mut bytes)
        });
        if let (true, Err(_)) = (bytes.is_empty(), asked) {
            return "refused".to_owned();
        }
        let alpn = stream.conn.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
        let version = stream.conn.protocol_version();
        format!("{version:?} {alpn:?}\n{}", crate::pair::shown(&bytes, false))
    }
}

/// Trusts everyone.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Starts a host that requires a certificate, and answers with what it knows of its client; returns its port.
pub(crate) fn host(authority: &Authority, issued: &Issued) -> u16 {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.root.as_bytes()).unwrap()).unwrap();
    let verifier = rustls::server::WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
    let (chain, key) = issued.parts();
    let mut config =
        ServerConfig::builder().with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            std::thread::spawn(move || {
                let connection = ServerConnection::new(config).unwrap();
                // The client ends the connection, or it is refused.
                let _ = answer(StreamOwned::new(connection, stream));
            });
        }
    });
    port
}

fn answer(mut stream: StreamOwned<ServerConnection, TcpStream>) -> std::io::Result<()> {
    let mut head = Vec::new();
    loop {
        let mut byte = [0];
        if stream.read(&mut byte)? == 0 {
            return Ok(());
        }
        head.push(byte[0]);
        if head.ends_with(b"\r\n\r\n") {
            let body = format!(
                "name {:?}, alpn {:?}, version {:?}, certificate {}",
                stream.conn.server_name(),
                stream.conn.alpn_protocol().map(String::from_utf8_lossy),
                stream.conn.protocol_version(),
                stream.conn.peer_certificates().is_some(),
            );
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
            head.clear();
        }
    }
}

/// The certificate that a server shows to a client.
pub(crate) fn certificate(client: &Client, port: u16) -> Option<Vec<u8>> {
    let mut stream = client.connect(port);
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.flush().ok()?;
    let leaf = stream.conn.peer_certificates()?.first()?.to_vec();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    Some(leaf)
}

/// The bytes of a certificate in PEM.
pub(crate) fn der(issued: &Issued) -> Vec<u8> {
    CertificateDer::from_pem_slice(issued.chain.as_bytes()).unwrap().to_vec()
}
