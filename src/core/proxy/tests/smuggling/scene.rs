//! A proxy between a client that sends any bytes and hosts that record what reaches them.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use mixer_proxy::server::DrainOptions;
use parking_lot::Mutex;
use socket2::SockRef;

use super::proxy::{DEADLINE, Proxy, free_ports};
use super::reference::{self, End, Request};

/// What a host received.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) requests: Vec<Request>,
    /// What was no valid request, with its bytes.
    pub(crate) invalid: Vec<String>,
}

/// A path through the proxy that nobody else uses: a listener, and the host behind it.
pub(crate) struct Lane {
    pub(crate) port: u16,
    seen: Arc<Mutex<Seen>>,
}

/// What came of a stream.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) seen: Seen,
    /// Statuses of final responses.
    pub(crate) statuses: Vec<u16>,
    /// Whether the proxy ended the connection.
    pub(crate) has_ended: bool,
}

/// The request that follows a stream which ends after a request: it is answered if the proxy thinks so, too.
const SENTINEL: &[u8] = b"GET /sentinel HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n";

/// Starts a proxy with so many lanes.
pub(crate) fn start<const LANES: usize>() -> (Proxy, [Lane; LANES]) {
    let (mut listeners, mut clusters) = (String::new(), String::new());
    let [admin] = free_ports();
    let lanes = free_ports::<LANES>().map(|port| {
        let host = TcpListener::bind("127.0.0.1:0").unwrap();
        let host_port = host.local_addr().unwrap().port();
        listeners.push_str(&include_str!("listener.yaml").replace("$PORT", &port.to_string()));
        let cluster = include_str!("cluster.yaml").replace("$PORT", &port.to_string());
        clusters.push_str(&cluster.replace("$HOST", &host_port.to_string()));
        Lane { port, seen: record(host) }
    });
    let text = format!(
        "admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {admin}}}}}}}\nstatic_resources:\n  listeners:\n{listeners}  clusters:\n{clusters}"
    );
    (Proxy::start(&text, admin, 2, DrainOptions::default()), lanes)
}

/// Starts a host that answers and records.
pub(crate) fn record(listener: TcpListener) -> Arc<Mutex<Seen>> {
    let seen = Arc::<Mutex<Seen>>::default();
    let shared = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let seen = Arc::clone(&shared);
            std::thread::spawn(move || {
                // The proxy ends the connection.
                let _ = answer(stream, &seen);
            });
        }
    });
    seen
}

fn answer(mut stream: TcpStream, seen: &Mutex<Seen>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut received, mut answered) = (Vec::new(), 0);
    let mut piece = vec![0; 64 << 10];
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        received.extend_from_slice(&piece[..count]);
        let (mut requests, end) = reference::read(&received);
        let new = requests.split_off(answered);
        answered += new.len();
        let mut responses = Vec::new();
        for request in &new {
            responses.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
            if request.method != "HEAD" {
                responses.extend_from_slice(b"ok");
            }
        }
        let mut seen = seen.lock();
        seen.requests.extend(new);
        if let End::Refused(why) = end {
            seen.invalid.push(format!("{why}: {}", received.escape_ascii()));
        }
        drop(seen);
        if end == End::Clean {
            received.clear();
            answered = 0;
        }
        stream.write_all(&responses)?;
    }
}

/// Responses as a client counts them.
#[derive(Default)]
struct Responses {
    bytes: Vec<u8>,
    statuses: Vec<u16>,
}

impl Responses {
    /// Takes the complete responses; `heads` says of which requests the response has no body.
    fn take(&mut self, heads: &[bool]) {
        while let Some(end) = self.bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&self.bytes[..end]).into_owned();
            let status: u16 = head.get(9..12).and_then(|text| text.parse().ok()).unwrap_or(0);
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            let has_body = !heads.get(self.statuses.len()).copied().unwrap_or(false);
            let length = length.filter(|_| has_body).unwrap_or(0);
            if self.bytes.len() < end + 4 + length {
                return;
            }
            self.bytes.drain(..end + 4 + length);
            if status >= 200 {
                self.statuses.push(status);
            }
        }
    }
}

impl Lane {
    /// A path through a proxy that listens at `port` and forwards to `host`.
    pub(crate) fn of(port: u16, host: TcpListener) -> Self {
        Self { port, seen: record(host) }
    }

    /// What the host has received.
    pub(crate) fn seen_requests(&self) -> Vec<Request> {
        self.seen.lock().requests.clone()
    }

    /// Sends a stream to a proxy of which nothing is expected.
    pub(crate) fn play_patiently(&self, stream: &[u8]) -> Played {
        *self.seen.lock() = Seen::default();
        let mut client = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(150))).unwrap();
        let _ = client.write_all(stream);
        let mut responses = Responses::default();
        let has_ended = read(&mut client, &mut responses, &[], None);
        let _ = SockRef::from(&client).set_linger(Some(Duration::ZERO));
        Played { seen: std::mem::take(&mut *self.seen.lock()), statuses: responses.statuses, has_ended }
    }

    /// Sends a stream in pieces of at most `piece` bytes, which is expected to be read as `expected`.
    pub(crate) fn play(&self, stream: &[u8], piece: usize, expected: &(Vec<Request>, End)) -> Played {
        *self.seen.lock() = Seen::default();
        let mut client = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        client.set_nodelay(true).unwrap();
        client.set_read_timeout(Some(DEADLINE)).unwrap();
        for part in stream.chunks(piece.max(1)) {
            // The proxy may have refused it already.
            if client.write_all(part).is_err() {
                break;
            }
        }
        let (requests, end) = expected;
        let heads: Vec<bool> = requests.iter().map(|request| request.method == "HEAD").collect();
        let mut responses = Responses::default();
        let mut has_ended = read(&mut client, &mut responses, &heads, Some(requests.len()));
        match end {
            End::Clean => {
                let _ = client.write_all(SENTINEL);
            }
            End::Closed => {}
            End::Refused(_) => {
                // What is wrong may be seen only with the next byte.
                client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                has_ended = has_ended || read(&mut client, &mut responses, &heads, None);
                client.set_read_timeout(Some(DEADLINE)).unwrap();
                let _ = client.shutdown(Shutdown::Write);
            }
            End::Incomplete => {
                let _ = client.shutdown(Shutdown::Write);
            }
        }
        has_ended = has_ended || read(&mut client, &mut responses, &heads, None);
        // Many connections a second: none of them is to wait for its last packets.
        let _ = SockRef::from(&client).set_linger(Some(Duration::ZERO));
        let mut seen = std::mem::take(&mut *self.seen.lock());
        if *end == End::Clean && seen.requests.last().is_some_and(|last| last.path == "/sentinel") {
            seen.requests.pop();
        } else if *end == End::Clean {
            seen.invalid.push("the request after it was not forwarded".to_owned());
        }
        Played { seen, statuses: responses.statuses, has_ended }
    }
}

/// Reads up to so many final responses, or to the end. Returns whether the connection has ended.
fn read(client: &mut TcpStream, responses: &mut Responses, heads: &[bool], count: Option<usize>) -> bool {
    let mut piece = [0; 4096];
    while count.is_none_or(|count| responses.statuses.len() < count) {
        match client.read(&mut piece) {
            Ok(0) => return true,
            Ok(length) => responses.bytes.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return false,
            // A read with a timeout ends so when the process was stopped and continues, without any handler of signals.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // Reset.
            Err(_) => return true,
        }
        responses.take(heads);
    }
    false
}
