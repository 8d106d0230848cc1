//! Servers of the tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A certificate of `localhost`, which is its own root.
pub(crate) struct TestTls {
    pub(crate) root: PathBuf,
    acceptor: TlsAcceptor,
}

impl TestTls {
    pub(crate) fn new(directory: &Path) -> Self {
        mixer_net::tls::install_crypto_provider();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let root = directory.join("root.pem");
        std::fs::write(&root, made.cert.pem()).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let config = ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        Self { root, acceptor: TlsAcceptor::from(Arc::new(config)) }
    }
}

/// A server that answers each request, or each line, with the next of its answers, and hangs when there are no more. An empty answer
/// ends the connection.
pub(crate) struct TestServer {
    pub(crate) port: u16,
    pub(crate) received: UnboundedReceiver<String>,
    /// Number of connections.
    pub(crate) connections: Arc<std::sync::atomic::AtomicUsize>,
}

impl TestServer {
    pub(crate) async fn start(answers: &[&str], tls: Option<&TestTls>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, received) = unbounded_channel();
        let connections = Arc::default();
        let counted: Arc<std::sync::atomic::AtomicUsize> = Arc::clone(&connections);
        let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
        let acceptor = tls.map(|tls| tls.acceptor.clone());
        tokio::spawn(async move {
            let answers = Arc::new(Mutex::new(answers.into_iter()));
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let (acceptor, answers, sender) = (acceptor.clone(), Arc::clone(&answers), sender.clone());
                tokio::spawn(async move {
                    match acceptor {
                        None => serve(stream, &answers, &sender).await,
                        Some(acceptor) => {
                            // A client that does not trust the certificate ends the handshake.
                            if let Ok(stream) = acceptor.accept(stream).await {
                                serve(stream, &answers, &sender).await;
                            }
                        }
                    }
                });
            }
        });
        Self { port, received, connections }
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answers: &Mutex<std::vec::IntoIter<String>>,
    sender: &UnboundedSender<String>,
) {
    let mut pending = Vec::new();
    loop {
        while let Some(length) = request_length(&pending) {
            let request: Vec<u8> = pending.drain(..length).collect();
            let _ = sender.send(String::from_utf8(request).unwrap());
            let answer = answers.lock().next();
            match answer {
                None => std::future::pending().await,
                Some(answer) if answer.is_empty() => return,
                Some(answer) => stream.write_all(answer.as_bytes()).await.unwrap(),
            }
        }
        match stream.read_buf(&mut pending).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Bytes of the first request of HTTP/1.1, or of the first line.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(bytes).unwrap();
    if !["POST", "CONNECT", "GET", "PUT"].iter().any(|method| text.starts_with(method)) {
        return text.find('\n').map(|end| end + 1);
    }
    let head = text.find("\r\n\r\n")? + 4;
    let length = text[..head].to_ascii_lowercase().lines().find_map(|line| {
        line.strip_prefix("content-length: ").map(|length| length.parse::<usize>().unwrap())
    });
    let all = head + length.unwrap_or(0);
    (text.len() >= all).then_some(all)
}
