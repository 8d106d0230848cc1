//! The client: requests on connections that stay, at a rate or as fast as answers come.

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::{Outcome, host};

/// As a browser sends it.
const REQUEST: &[u8] = b"GET /api/items?page=2 HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n\
Accept: application/json\r\nAccept-Encoding: gzip, deflate, br\r\nAccept-Language: en-US,en;q=0.9\r\nCookie: session=0123456789abcdef0123456789abcdef\r\n\
Authorization: Bearer eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl\r\n\r\n";

/// The name that the request and the certificate have.
pub(crate) const HOST: &str = "shop.example.com";

/// The headers of [`REQUEST`] beside the pseudo headers, for HTTP/2.
const FIELDS: [(&str, &str); 6] = [
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64)"),
    ("accept", "application/json"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-language", "en-US,en;q=0.9"),
    ("cookie", "session=0123456789abcdef0123456789abcdef"),
    ("authorization", "Bearer eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"),
];

/// How requests are sent.
#[derive(Clone)]
pub(crate) enum Protocol {
    /// HTTP/1.1 in plain text.
    Http1,
    /// HTTP/1.1 over TLS, with the certificate that the proxies have.
    Tls(CertificateDer<'static>),
    /// HTTP/2 with prior knowledge, in plain text.
    Http2,
}

/// How much is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    /// Requests a second, of all connections; 0 for as many as there are answers.
    pub(crate) rate: u64,
    pub(crate) duration: Duration,
}

/// What came back.
pub(crate) struct Seen {
    /// In microseconds, sorted.
    pub(crate) latencies: Vec<u32>,
    pub(crate) took: Duration,
}

impl Seen {
    /// The latency at a quantile, in microseconds.
    pub(crate) fn quantile(&self, quantile: f64) -> f64 {
        let place = (self.latencies.len() as f64 * quantile) as usize;
        self.latencies.get(place).copied().map_or(f64::NAN, f64::from)
    }
}

/// Sends a load to a port. Errors: a connection fails, or an answer is not that of the host.
pub(crate) fn run(port: u16, load: Load, protocol: &Protocol) -> Outcome<Seen> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let connector = match protocol {
            Protocol::Tls(certificate) => Some(connector(certificate)?),
            _ => None,
        };
        // Connections are open before the time begins, so that a handshake is in no latency.
        let mut connections = Vec::new();
        for _ in 0..load.connections {
            let stream = TcpStream::connect(("127.0.0.1", port)).await?;
            stream.set_nodelay(true)?;
            connections.push(match (protocol, &connector) {
                (Protocol::Tls(_), Some(connector)) => Connection::Stream(Box::new(
                    connector.connect(ServerName::try_from(HOST)?, stream).await?,
                )),
                (Protocol::Http2, _) => {
                    let (client, connection) = h2::client::handshake(stream).await?;
                    // It ends with the runtime.
                    tokio::spawn(connection);
                    Connection::Http2(client.ready().await?)
                }
                _ => Connection::Stream(Box::new(stream)),
            });
        }
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for (number, connection) in connections.into_iter().enumerate() {
            tasks.spawn(requests(connection, load, begun, number));
        }
        let mut latencies = Vec::new();
        while let Some(seen) = tasks.join_next().await {
            latencies.extend(seen?.map_err(|error| error.to_string())?);
        }
        latencies.sort_unstable();
        Ok(Seen { latencies, took: begun.elapsed() })
    })
}

/// Sends one request. Returns: its connection, which stays open. Errors: the answer is not that of the host.
pub(crate) fn one_request(port: u16) -> Outcome<std::net::TcpStream> {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(REQUEST)?;
    let (mut seen, mut part) = (Vec::new(), [0; 4096]);
    while !host::is_answer(&seen) {
        match stream.read(&mut part)? {
            0 => return Err("the proxy has closed the connection".into()),
            count => seen.extend_from_slice(part.get(..count).unwrap_or_default()),
        }
    }
    Ok(stream)
}

fn connector(certificate: &CertificateDer<'static>) -> Outcome<TlsConnector> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

enum Connection {
    Stream(Box<dyn Duplex>),
    Http2(h2::client::SendRequest<bytes::Bytes>),
}

/// The requests of one connection, one after the other.
async fn requests(
    mut connection: Connection,
    load: Load,
    begun: Instant,
    number: usize,
) -> Result<Vec<u32>, Box<dyn Error + Send + Sync>> {
    let interval = Duration::from_secs_f64(load.connections as f64 / load.rate.max(1) as f64);
    let first = begun + interval.mul_f64(number as f64 / load.connections as f64);
    let mut latencies = Vec::new();
    let mut buffer = Vec::with_capacity(4096);
    for turn in 0_u32.. {
        // A request that could not be sent in time counts from when it was due.
        let due = if load.rate == 0 { Instant::now() } else { first + interval * turn };
        if due.duration_since(begun) >= load.duration {
            break;
        }
        if load.rate > 0 {
            tokio::time::sleep_until(due).await;
        }
        buffer.clear();
        match &mut connection {
            Connection::Stream(stream) => {
                stream.write_all(REQUEST).await?;
                stream.flush().await?;
                while !host::is_answer(&buffer) {
                    if stream.read_buf(&mut buffer).await? == 0 {
                        return Err("the proxy has closed the connection".into());
                    }
                }
            }
            Connection::Http2(client) => exchange(client, &mut buffer).await?,
        }
        latencies.push(u32::try_from(due.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
    Ok(latencies)
}

/// One request of HTTP/2 and its answer.
async fn exchange(
    client: &mut h2::client::SendRequest<bytes::Bytes>,
    body: &mut Vec<u8>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut request = http::Request::get(format!("http://{HOST}/api/items?page=2"));
    for (name, value) in FIELDS {
        request = request.header(name, value);
    }
    let (response, _) = client.send_request(request.body(())?, true)?;
    let mut response = response.await?;
    if response.status() != http::StatusCode::OK {
        return Err(format!("the answer is {}", response.status()).into());
    }
    while let Some(part) = response.body_mut().data().await {
        let part = part?;
        response.body_mut().flow_control().release_capacity(part.len())?;
        body.extend_from_slice(&part);
    }
    if host::is_body(body) { Ok(()) } else { Err("the body is not that of the host".into()) }
}
