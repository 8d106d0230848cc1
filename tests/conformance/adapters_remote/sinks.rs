//! Backends of the cases: listeners that record what they receive.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use socket2::{Domain, Socket, Type};

use super::vendors::{self, Identity};
use crate::support::msgpack;

/// How often a sink looks whether its case has ended.
const INTERVAL: Duration = Duration::from_millis(50);

/// A listener; it ends when it is dropped.
pub(super) struct Sink {
    pub(super) port: u16,
    content: Content,
    has_ended: Arc<AtomicBool>,
    /// Refuses connections until it listens.
    place: Option<Socket>,
    answers: Answers,
    /// The certificate, for HTTPS.
    pub(super) tls: Option<Identity>,
}

/// What was received so far.
pub(super) enum Content {
    Datagrams(Arc<Mutex<Vec<Vec<u8>>>>),
    /// The bytes of each connection, which are msgpack.
    Connections(Connections),
    /// Requests of HTTP.
    Requests(Arc<Mutex<Vec<Request>>>),
}

/// A request of HTTP.
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    /// By names in lower case.
    pub(super) headers: BTreeMap<String, String>,
    /// The body, if it is not protobuf.
    pub(super) json: Value,
    pub(super) datapoints: Option<Value>,
}

/// What a sink of HTTP answers: statuses with bodies.
#[derive(Clone)]
pub(super) struct Answers {
    /// To the first request.
    pub(super) first: &'static str,
    pub(super) then: &'static str,
}

/// What each connection received so far.
type Connections = Arc<Mutex<Vec<Arc<Mutex<Vec<u8>>>>>>;

impl Sink {
    /// A listener with the settings of a case.
    pub(super) fn open(settings: &Value, answers: Answers) -> Result<Self, String> {
        let has_ended = Arc::new(AtomicBool::new(false));
        match settings.get("kind").and_then(Value::as_str) {
            Some("udp") => udp(has_ended, answers),
            Some("tcp") => tcp(has_ended, answers),
            Some("http") => {
                let mut sink = http(has_ended, answers).map_err(|error| error.to_string())?;
                if settings.get("tls").and_then(Value::as_bool) == Some(true) {
                    sink.tls = Some(Identity::new()?);
                }
                if settings.get("initially").and_then(Value::as_str) != Some("down") {
                    sink.listen()?;
                }
                Ok(sink)
            }
            other => Err(format!("sinks of kind {other:?} come later")),
        }
    }

    pub(super) fn content(&self) -> &Content {
        &self.content
    }

    /// Begins to listen, with HTTP.
    pub(super) fn listen(&self) -> Result<(), String> {
        let (Some(place), Content::Requests(requests)) = (&self.place, &self.content) else {
            return Err("this sink listens from the beginning".to_owned());
        };
        place.listen(16).map_err(|error| error.to_string())?;
        let listener: TcpListener = place.try_clone().map_err(|error| error.to_string())?.into();
        listener.set_nonblocking(true).map_err(|error| error.to_string())?;
        let (requests, ended) = (Arc::clone(requests), Arc::clone(&self.has_ended));
        let (answers, tls) = (self.answers.clone(), self.tls.as_ref().map(|tls| Arc::clone(&tls.server)));
        std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    std::thread::sleep(INTERVAL);
                    continue;
                };
                let (requests, ended) = (Arc::clone(&requests), Arc::clone(&ended));
                let (answers, tls) = (answers.clone(), tls.clone());
                std::thread::spawn(move || {
                    let _ = stream.set_nonblocking(false);
                    let _ = stream.set_read_timeout(Some(INTERVAL));
                    match tls.map(rustls::ServerConnection::new) {
                        None => serve(stream, &answers, &requests, &ended),
                        Some(Ok(tls)) => {
                            serve(rustls::StreamOwned::new(tls, stream), &answers, &requests, &ended);
                        }
                        Some(Err(_)) => {}
                    }
                });
            }
        });
        Ok(())
    }

    /// Number of datagrams, of messages of all connections, or of entries of all requests, so far.
    pub(super) fn received(&self) -> usize {
        match &self.content {
            Content::Datagrams(datagrams) => datagrams.lock().len(),
            Content::Connections(connections) => {
                let messages = |bytes: &Arc<Mutex<Vec<u8>>>| {
                    msgpack::values(&bytes.lock()).map_or(0, |values| values.len())
                };
                connections.lock().iter().map(messages).sum()
            }
            Content::Requests(requests) => {
                let entries = |request: &Request| request.json.as_array().map_or(1, Vec::len);
                requests.lock().iter().map(entries).sum()
            }
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

fn udp(has_ended: Arc<AtomicBool>, answers: Answers) -> Result<Sink, String> {
    let text = |error: std::io::Error| error.to_string();
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(text)?;
    socket.set_read_timeout(Some(INTERVAL)).map_err(text)?;
    let port = socket.local_addr().map_err(text)?.port();
    let datagrams = Arc::new(Mutex::new(Vec::new()));
    let (received, ended) = (Arc::clone(&datagrams), Arc::clone(&has_ended));
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while !ended.load(Ordering::Relaxed) {
            if let Ok(length) = socket.recv(&mut buffer) {
                received.lock().push(buffer.get(..length).unwrap_or_default().to_vec());
            }
        }
    });
    Ok(Sink { port, content: Content::Datagrams(datagrams), has_ended, place: None, answers, tls: None })
}

fn tcp(has_ended: Arc<AtomicBool>, answers: Answers) -> Result<Sink, String> {
    let text = |error: std::io::Error| error.to_string();
    let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
    listener.set_nonblocking(true).map_err(text)?;
    let port = listener.local_addr().map_err(text)?.port();
    let connections: Connections = Arc::default();
    let (received, ended) = (Arc::clone(&connections), Arc::clone(&has_ended));
    std::thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            let Ok((mut stream, _)) = listener.accept() else {
                std::thread::sleep(INTERVAL);
                continue;
            };
            let bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
            received.lock().push(Arc::clone(&bytes));
            let _ = stream.set_nonblocking(false);
            let _ = stream.set_read_timeout(Some(INTERVAL));
            let ended = Arc::clone(&ended);
            std::thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while !ended.load(Ordering::Relaxed) {
                    match stream.read(&mut buffer) {
                        Ok(0) => return,
                        Ok(length) => {
                            bytes.lock().extend_from_slice(buffer.get(..length).unwrap_or_default())
                        }
                        Err(_) => {}
                    }
                }
            });
        }
    });
    Ok(Sink { port, content: Content::Connections(connections), has_ended, place: None, answers, tls: None })
}

fn http(has_ended: Arc<AtomicBool>, answers: Answers) -> std::io::Result<Sink> {
    let place = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    place.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
    let port = place.local_addr()?.as_socket().map_or(0, |address| address.port());
    Ok(Sink {
        port,
        content: Content::Requests(Arc::default()),
        has_ended,
        place: Some(place),
        answers,
        tls: None,
    })
}

/// Records the requests of a connection.
fn serve(
    mut stream: impl Read + Write,
    answers: &Answers,
    requests: &Mutex<Vec<Request>>,
    ended: &AtomicBool,
) {
    let mut pending = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while !ended.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => pending.extend_from_slice(buffer.get(..length).unwrap_or_default()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(_) => return,
        }
        while let Some((request, length)) = first_request(&pending) {
            pending.drain(..length);
            let is_first = {
                let mut requests = requests.lock();
                requests.push(request);
                requests.len() == 1
            };
            let answer = if is_first { answers.first } else { answers.then };
            let (status, body) = answer.split_once('\n').unwrap_or((answer, ""));
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            if stream.write_all(answer.as_bytes()).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
    }
}

/// The first request and its length, if it is complete.
fn first_request(bytes: &[u8]) -> Option<(Request, usize)> {
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ').map(str::to_owned);
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length").and_then(|length| length.parse::<usize>().ok()).unwrap_or(0);
    let body = bytes.get(end..end + length)?;
    let kind = headers.get("content-type").map(String::as_str);
    let is_compressed = headers.get("content-encoding").is_some_and(|encoding| encoding == "gzip");
    let datapoints =
        (kind == Some("application/x-protobuf")).then(|| vendors::datapoints(body, is_compressed));
    // What is no JSON differs from what is expected.
    let json = match &datapoints {
        Some(_) => Value::Null,
        None => serde_json::from_slice(body).unwrap_or_else(|error| Value::String(error.to_string())),
    };
    let (method, path) = (first.next()?, first.next()?);
    Some((Request { method, path, headers, json, datapoints }, end + length))
}
