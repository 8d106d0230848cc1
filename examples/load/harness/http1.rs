//! Minimal HTTP/1.1 clients and upstream.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::client::{Seen, histogram};

/// A request and its expected status.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The complete request; it has no body.
    pub(crate) head: String,
    /// The expected status.
    pub(crate) status: u16,
}

/// An upstream that answers every request with `ok`.
pub(crate) async fn serve(listener: TcpListener) {
    while let Ok((socket, _)) = listener.accept().await {
        tokio::task::spawn_local(answer(socket));
    }
}

async fn answer(mut socket: TcpStream) -> Result<()> {
    socket.set_nodelay(true)?;
    let mut read = Vec::new();
    while take_head(&mut socket, &mut read).await?.is_some() {
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await?;
    }
    Ok(())
}

/// The head of the next message; `None` at the end.
async fn take_head(socket: &mut TcpStream, read: &mut Vec<u8>) -> Result<Option<Vec<u8>>> {
    loop {
        if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            return Ok(Some(read.drain(..at + 4).collect()));
        }
        if socket.read_buf(read).await? == 0 {
            return Ok(None);
        }
    }
}

/// Sends every request once and verifies the status.
pub(crate) async fn verify(address: SocketAddr, requests: &[Request]) -> Result<()> {
    let mut caller = Caller::connect(address).await?;
    for request in requests {
        caller.exchange(request).await?;
    }
    Ok(())
}

/// Sends requests round-robin from this many clients; each must be answered.
pub(crate) async fn drive(
    address: SocketAddr,
    requests: &[Request],
    callers: usize,
    duration: Duration,
) -> Result<Seen> {
    let started = Instant::now();
    let requests: Rc<[Request]> = requests.into();
    let mut running = Vec::new();
    for number in 0..callers {
        let requests = Rc::clone(&requests);
        running.push(tokio::task::spawn_local(async move {
            let mut latencies: Histogram<u64> = histogram()?;
            let mut caller = Caller::connect(address).await?;
            for request in requests.iter().cycle().skip(number) {
                let begun = Instant::now();
                if begun.duration_since(started) >= duration {
                    break;
                }
                caller.exchange(request).await?;
                latencies.saturating_record(u64::try_from(begun.elapsed().as_micros())?);
            }
            anyhow::Ok(latencies)
        }));
    }
    let mut latencies = histogram()?;
    for caller in running {
        latencies.add(caller.await??)?;
    }
    Ok(Seen { calls: latencies.len(), took: started.elapsed(), latencies })
}

/// One connection.
struct Caller {
    socket: TcpStream,
    read: Vec<u8>,
}

impl Caller {
    async fn connect(address: SocketAddr) -> Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, read: Vec::new() })
    }

    async fn exchange(&mut self, request: &Request) -> Result<()> {
        self.socket.write_all(request.head.as_bytes()).await?;
        let head = take_head(&mut self.socket, &mut self.read).await?.context("the connection ended")?;
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let status: u16 = head.split(' ').nth(1).and_then(|s| s.parse().ok()).context("no status")?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        let length: usize = length.context("no length")?;
        while self.read.len() < length {
            ensure!(self.socket.read_buf(&mut self.read).await? != 0, "the connection ended");
        }
        self.read.drain(..length);
        ensure!(status == request.status, "HTTP status {status}, not {}", request.status);
        Ok(())
    }
}
