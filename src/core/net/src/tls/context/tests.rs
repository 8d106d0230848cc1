//! Handshakes between the two contexts, with certificates made for each test.

use std::time::SystemTime;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: Pem,
}

fn inline(text: String) -> Pem {
    Pem::Inline(text.into_bytes().into())
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = inline(params.self_signed(&key).unwrap().pem());
        Self { issuer: Issuer::new(params, key), root }
    }

    /// Certificate and key with a name.
    fn issue(&self, name: &str) -> (Pem, Pem) {
        self.issue_for(name, &[])
    }

    /// As [`issue`](Self::issue), with a key for these purposes.
    fn issue_for(&self, name: &str, usages: &[KeyUsagePurpose]) -> (Pem, Pem) {
        self.issue_until(name, usages, None)
    }

    /// As [`issue_for`](Self::issue_for), valid for so long.
    fn issue_until(&self, name: &str, usages: &[KeyUsagePurpose], valid: Option<Duration>) -> (Pem, Pem) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        if let Some(valid) = valid {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            params.not_after = rcgen::date_time_ymd(1970, 1, 1) + (now + valid);
        }
        params.key_usages = usages.to_vec();
        params.subject_alt_names = vec![match name.contains("://") {
            true => SanType::URI(name.try_into().unwrap()),
            false => SanType::DnsName(name.try_into().unwrap()),
        }];
        (inline(params.signed_by(&key, &self.issuer).unwrap().pem()), inline(key.serialize_pem()))
    }
}

const LIMIT: Duration = Duration::from_secs(20);

type Outcome = Result<TlsSession, HandshakeError>;

/// Both sides of a handshake: what the server and the client say of it.
async fn handshake(server: ContextOptions, client: ContextOptions, name: &str) -> (Outcome, Outcome) {
    let server = ServerContext::load(server).unwrap();
    let client = ClientContext::load(client, name).unwrap();
    handshake_of(&server, &client).await
}

/// As [`handshake`], of contexts, which remember sessions.
async fn handshake_of(server: &ServerContext, client: &ClientContext) -> (Outcome, Outcome) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        let (mut stream, session) = server.accept(stream, LIMIT).await?;
        stream.write_all(b"x").await.unwrap();
        stream.flush().await.unwrap();
        Ok::<_, HandshakeError>(session)
    };
    let ask = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut stream, session) = client.connect(stream, LIMIT, None).await?;
        // With TLS 1.3 the server may refuse the certificate afterwards.
        stream.read_u8().await.map_err(HandshakeError::Other)?;
        Ok::<_, HandshakeError>(session)
    };
    tokio::join!(serve, ask)
}

#[tokio::test]
async fn both_sides_know_each_other() {
    let authority = Authority::new();
    let server = ContextOptions {
        certificates: vec![authority.issue("other.test"), authority.issue("*.w.test")],
        roots: Some(authority.root.clone()),
        allowed: Some(Arc::new(|peer: &PeerCertificate| peer.uris == ["spiffe://a"])),
        alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        requires_certificate: true,
        ..ContextOptions::default()
    };
    let client = ContextOptions {
        certificates: vec![authority.issue("spiffe://a")],
        roots: Some(authority.root.clone()),
        allowed: Some(Arc::new(|peer: &PeerCertificate| peer.dns == ["*.w.test"])),
        alpn: vec![b"http/1.1".to_vec()],
        ..ContextOptions::default()
    };
    let (served, asked) = handshake(server.clone(), client.clone(), "a.w.test").await;
    let (served, asked) = (served.unwrap(), asked.unwrap());
    assert_eq!((served.version, asked.version), ("TLSv1.3", "TLSv1.3"));
    assert_eq!(served.server_name.as_deref(), Some("a.w.test"));
    assert_eq!(served.protocol.as_deref(), Some(&b"http/1.1"[..]));
    assert_eq!(served.peer.unwrap().uris, ["spiffe://a"]);
    assert_eq!(asked.peer.unwrap().dns, ["*.w.test"], "the certificate of the server name");
    assert!(served.cipher.starts_with("TLS_") && !served.group.is_empty());

    let old = ContextOptions { versions: (TlsVersion::V1_2, TlsVersion::V1_2), ..client.clone() };
    let (served, _) = handshake(server.clone(), old, "a.w.test").await;
    assert_eq!(served.unwrap().version, "TLSv1.2");

    let (served, _) =
        handshake(server.clone(), ContextOptions { certificates: Vec::new(), ..client.clone() }, "a.w.test")
            .await;
    assert!(matches!(served, Err(HandshakeError::NoCertificate)), "{served:?}");
    let stranger = ContextOptions { certificates: vec![authority.issue("spiffe://b")], ..client.clone() };
    let (served, _) = handshake(server.clone(), stranger, "a.w.test").await;
    assert!(matches!(served, Err(HandshakeError::Name)), "{served:?}");
    let stranger =
        ContextOptions { certificates: vec![Authority::new().issue("spiffe://a")], ..client.clone() };
    let (served, _) = handshake(server.clone(), stranger, "a.w.test").await;
    assert!(matches!(served, Err(HandshakeError::Certificate(_))), "{served:?}");
    let (_, asked) = handshake(server.clone(), client.clone(), "other.test").await;
    assert!(matches!(asked, Err(HandshakeError::Name)), "{asked:?}");
    let trusting = ContextOptions { roots: Some(Authority::new().root), ..client.clone() };
    let (_, asked) = handshake(server.clone(), trusting, "a.w.test").await;
    assert!(matches!(asked, Err(HandshakeError::Certificate(_))), "{asked:?}");
    let (served, asked) =
        handshake(server, ContextOptions { roots: None, allowed: None, ..client }, "").await;
    assert_eq!((served.unwrap().server_name, asked.is_ok()), (None, true), "anyone, and no server name");
}

#[tokio::test]
async fn a_key_to_encrypt_with_is_no_identity_of_a_client() {
    let authority = Authority::new();
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        for (usages, is_known) in [
            (&[][..], true),
            (&[KeyUsagePurpose::DigitalSignature], true),
            (&[KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DigitalSignature], true),
            (&[KeyUsagePurpose::KeyEncipherment], false),
            (&[KeyUsagePurpose::KeyCertSign], false),
        ] {
            let server = ContextOptions {
                certificates: vec![authority.issue("a.test")],
                roots: Some(authority.root.clone()),
                requires_certificate: true,
                ..ContextOptions::default()
            };
            let client = ContextOptions {
                certificates: vec![authority.issue_for("spiffe://a", usages)],
                versions: (version, version),
                ..ContextOptions::default()
            };
            let (served, _) = handshake(server, client, "a.test").await;
            assert_eq!(served.is_ok(), is_known, "{usages:?}: {served:?}");
        }
    }
}

#[tokio::test]
async fn a_client_is_not_resumed_beyond_the_validity_of_its_certificate() {
    let authority = Authority::new();
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        let server = ContextOptions {
            certificates: vec![authority.issue("a.test")],
            roots: Some(authority.root.clone()),
            requires_certificate: true,
            ..ContextOptions::default()
        };
        let valid = Duration::from_secs(4);
        let client = ContextOptions {
            certificates: vec![authority.issue_until("spiffe://a", &[], Some(valid))],
            roots: Some(authority.root.clone()),
            versions: (version, version),
            ..ContextOptions::default()
        };
        let server = ServerContext::load(server).unwrap();
        let client = ClientContext::load(client, "a.test").unwrap();
        let issued = std::time::Instant::now();
        for is_resumed in [false, true, true] {
            let (served, _) = handshake_of(&server, &client).await;
            match served {
                Ok(session) => {
                    assert_eq!(session.is_resumed, is_resumed, "{version:?}");
                    assert_eq!(session.peer.unwrap().uris, ["spiffe://a"]);
                }
                Err(error) => assert!(issued.elapsed() >= valid, "{version:?}: {error}"),
            }
        }
        tokio::time::sleep((valid + Duration::from_secs(1)).saturating_sub(issued.elapsed())).await;
        let (served, _) = handshake_of(&server, &client).await;
        assert!(matches!(served, Err(HandshakeError::Certificate(_))), "{version:?}: {served:?}");
    }
}

#[tokio::test]
async fn a_server_knows_the_uri_that_it_presents() {
    let authority = Authority::new();
    let (plain, named) = (authority.issue("a.test"), authority.issue("spiffe://td/own"));
    for (certificates, expected) in [
        (vec![plain.clone()], None),
        (vec![named.clone()], Some("spiffe://td/own")),
        // The first is that of the server name.
        (vec![named, plain], None),
    ] {
        let server = ContextOptions { certificates, ..ContextOptions::default() };
        let (served, asked) = handshake(server, ContextOptions::default(), "a.test").await;
        assert_eq!((served.unwrap().own_uri.as_deref(), asked.unwrap().own_uri), (expected, None));
    }
}

#[tokio::test]
async fn a_silent_client_is_not_waited_for() {
    let authority = Authority::new();
    let options =
        ContextOptions { certificates: vec![authority.issue("a.test")], ..ContextOptions::default() };
    let server = ServerContext::load(options).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let limit = Duration::from_millis(20);
    assert!(matches!(server.accept(stream, limit).await, Err(HandshakeError::Timeout(_))));
}

#[test]
fn files_are_followed_and_a_bad_one_changes_nothing() {
    let authority = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let write = |name: &str, pem: &Pem| std::fs::write(path(name), pem.bytes("").unwrap()).unwrap();
    let (chain, key) = authority.issue("a.test");
    write("chain", &chain);
    write("key", &key);
    let options = ContextOptions {
        certificates: vec![(Pem::File(path("chain")), Pem::File(path("key")))],
        ..ContextOptions::default()
    };
    let context = ServerContext::load(options).unwrap();
    assert!(!context.reload_if_changed().unwrap());
    let (chain, other_key) = authority.issue("b.test");
    write("chain", &chain);
    let error = context.reload_if_changed().unwrap_err().to_string();
    assert!(error.contains("cannot be used"), "the key is not its: {error}");
    write("key", &other_key);
    assert!(context.reload_if_changed().unwrap());
    assert!(!context.reload_if_changed().unwrap());
    std::fs::remove_file(path("key")).unwrap();
    assert!(context.reload_if_changed().is_err());
}

#[test]
fn a_hello_is_read_as_it_comes() {
    let client = ClientContext::load(
        ContextOptions { alpn: vec![b"h2".to_vec()], ..ContextOptions::default() },
        "a.test",
    )
    .unwrap();
    drop(client);
    crate::tls::install_crypto_provider();
    let mut config = rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"x".to_vec()];
    let name = rustls::pki_types::ServerName::try_from("a.test").unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    let found = Hello::Found {
        server_name: Some("a.test".to_owned()),
        protocols: vec!["h2".to_owned(), "x".to_owned()],
    };
    assert_eq!(read_hello(&bytes), found);
    for length in 0..bytes.len() {
        assert_eq!(read_hello(&bytes[..length]), Hello::Incomplete, "{length}");
    }
    assert_eq!(read_hello(b"GET / HTTP/1.1"), Hello::None);
    assert_eq!(read_hello(&[22, 9, 9, 0, 3, 1, 2, 3]), Hello::None);
}
