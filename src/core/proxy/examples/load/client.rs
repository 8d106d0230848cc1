//! The client: requests on connections that stay, at a rate or as fast as answers come.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Outcome, host};

/// As a browser sends it.
const REQUEST: &[u8] = b"GET /api/items?page=2 HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n\
Accept: application/json\r\nAccept-Encoding: gzip, deflate, br\r\nAccept-Language: en-US,en;q=0.9\r\nCookie: session=0123456789abcdef0123456789abcdef\r\n\
Authorization: Bearer eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl\r\n\r\n";

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
pub(crate) fn run(port: u16, load: Load) -> Outcome<Seen> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for number in 0..load.connections {
            tasks.spawn(connection(port, load, number));
        }
        let mut latencies = Vec::new();
        while let Some(seen) = tasks.join_next().await {
            latencies.extend(seen?.map_err(|error| error.to_string())?);
        }
        latencies.sort_unstable();
        Ok(Seen { latencies, took: begun.elapsed() })
    })
}

async fn connection(port: u16, load: Load, number: usize) -> std::io::Result<Vec<u32>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let begun = Instant::now();
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
        stream.write_all(REQUEST).await?;
        buffer.clear();
        while !host::is_answer(&buffer) {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        latencies.push(u32::try_from(due.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
    Ok(latencies)
}
