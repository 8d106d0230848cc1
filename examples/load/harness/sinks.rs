//! Backends that take everything and do nothing with it: they cost the machine little, and the measured server as much as real ones.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;

use super::ports::next_free_port;
use super::scenario::{POLL, START_PATIENCE};

/// What answers to requests are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backend {
    /// Needs none.
    None,
    /// Datagrams.
    Udp,
    /// Bytes of a connection.
    Tcp,
    /// Requests of HTTP/1.1, answered with this body.
    Http(&'static str),
    /// Calls of gRPC, answered with an empty message.
    Grpc,
    /// Redis itself, without a disk.
    Redis,
}

/// A running backend; Redis ends with it, threads with the process.
pub(super) struct Sink {
    pub(super) port: u16,
    received: Arc<AtomicU64>,
    process: Option<Child>,
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // It may have ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Sink {
    /// Starts a backend on a loopback port.
    pub(super) fn start(backend: Backend) -> Result<Self> {
        let received = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&received);
        let listen = || -> Result<(TcpListener, u16)> {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let port = listener.local_addr()?.port();
            Ok((listener, port))
        };
        let port = match backend {
            Backend::None => 0,
            Backend::Udp => {
                let socket = UdpSocket::bind("127.0.0.1:0")?;
                let port = socket.local_addr()?.port();
                std::thread::spawn(move || {
                    let mut buffer = vec![0; 1 << 16];
                    while let Ok(length) = socket.recv(&mut buffer) {
                        counted.fetch_add(length as u64, Ordering::Relaxed);
                    }
                });
                port
            }
            Backend::Tcp | Backend::Http(_) => {
                let (listener, port) = listen()?;
                std::thread::spawn(move || {
                    for stream in listener.incoming().map_while(Result::ok) {
                        let counted = Arc::clone(&counted);
                        std::thread::spawn(move || match backend {
                            Backend::Http(body) => serve(stream, body, &counted),
                            _ => drain(stream, &counted),
                        });
                    }
                });
                port
            }
            Backend::Grpc => {
                let (listener, port) = listen()?;
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                std::thread::spawn(move || runtime.block_on(answer(listener, counted)));
                port
            }
            Backend::Redis => {
                let port = next_free_port()?;
                let arguments = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"];
                let mut command = Command::new("redis-server");
                command.args(arguments).arg(port.to_string()).stdout(Stdio::null());
                let started =
                    command.spawn().context("`redis-server` is needed: `.ci/run needs` installs it")?;
                // Ended with this, if it does not listen.
                let sink = Self { port, received, process: Some(started) };
                sink.listens()?;
                // What it receives is not counted.
                counted.store(1, Ordering::Relaxed);
                return Ok(sink);
            }
        };
        Ok(Self { port, received, process: None })
    }

    /// Waits for it: without Redis, Istio Mixer grants everything for as long as its configuration does not change.
    fn listens(&self) -> Result<()> {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            ensure!(begun.elapsed() < START_PATIENCE, "redis-server does not listen");
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Bytes received so far.
    pub(super) fn received(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.received)
    }
}

fn drain(mut stream: TcpStream, counted: &AtomicU64) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        counted.fetch_add(length as u64, Ordering::Relaxed);
    }
}

/// Answers requests until the connection ends.
fn serve(stream: TcpStream, body: &str, counted: &AtomicU64) {
    let mut reader = BufReader::with_capacity(1 << 16, stream);
    while let Some((path, length)) = head(&mut reader) {
        if std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink()).is_err() {
            return;
        }
        counted.fetch_add(length, Ordering::Relaxed);
        // Tokens of Google, from the metadata server.
        let body = match path.starts_with("/computeMetadata/") {
            true => r#"{"access_token": "T", "expires_in": 3600, "token_type": "Bearer"}"#,
            false => body,
        };
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmetadata-flavor: Google\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// The path of a request, and the length of its body; `None` at the end of the connection.
fn head(reader: &mut BufReader<TcpStream>) -> Option<(String, u64)> {
    let (mut path, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if path.is_none() {
            path = line.split(' ').nth(1).map(str::to_owned);
        } else if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        } else if line == "\r\n" {
            return path.map(|path| (path, length));
        }
    }
}

/// Answers every call.
async fn answer(listener: TcpListener, counted: Arc<AtomicU64>) -> Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let counted = Arc::clone(&counted);
        tokio::spawn(async move {
            let mut connection = h2::server::Builder::new()
                .initial_window_size(1 << 24)
                .initial_connection_window_size(1 << 24)
                .handshake::<_, Bytes>(stream)
                .await?;
            while let Some(Ok((request, respond))) = connection.accept().await {
                tokio::spawn(call(request.into_body(), respond, Arc::clone(&counted)));
            }
            Ok::<_, h2::Error>(())
        });
    }
}

async fn call(
    mut body: h2::RecvStream,
    mut respond: h2::server::SendResponse<Bytes>,
    counted: Arc<AtomicU64>,
) -> Result<()> {
    while let Some(chunk) = body.data().await {
        let length = chunk?.len();
        counted.fetch_add(length as u64, Ordering::Relaxed);
        body.flow_control().release_capacity(length)?;
    }
    let head = http::Response::builder().header("content-type", "application/grpc").body(())?;
    let mut stream = respond.send_response(head, false)?;
    stream.send_data(Bytes::from_static(&[0; 5]), false)?;
    let trailers = http::HeaderMap::from_iter([(
        http::HeaderName::from_static("grpc-status"),
        http::HeaderValue::from_static("0"),
    )]);
    stream.send_trailers(trailers)?;
    Ok(())
}
