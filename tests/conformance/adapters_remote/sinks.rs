//! Backends of the cases: listeners that record what they receive.

use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use crate::support::msgpack;

/// How often a sink looks whether its case has ended.
const INTERVAL: Duration = Duration::from_millis(50);

/// A listener; it ends when it is dropped.
pub(super) struct Sink {
    pub(super) port: u16,
    content: Content,
    has_ended: Arc<AtomicBool>,
}

/// What was received so far.
pub(super) enum Content {
    Datagrams(Arc<Mutex<Vec<Vec<u8>>>>),
    /// The bytes of each connection, which are msgpack.
    Connections(Connections),
}

/// What each connection received so far.
type Connections = Arc<Mutex<Vec<Arc<Mutex<Vec<u8>>>>>>;

impl Sink {
    /// A listener with the settings of a case.
    pub(super) fn open(settings: &Value) -> Result<Self, String> {
        let has_ended = Arc::new(AtomicBool::new(false));
        match settings.get("kind").and_then(Value::as_str) {
            Some("udp") => udp(has_ended),
            Some("tcp") => tcp(has_ended),
            other => Err(format!("sinks of kind {other:?} come later")),
        }
    }

    pub(super) fn content(&self) -> &Content {
        &self.content
    }

    /// Number of datagrams, or of messages of all connections, so far.
    pub(super) fn received(&self) -> usize {
        match &self.content {
            Content::Datagrams(datagrams) => datagrams.lock().len(),
            Content::Connections(connections) => {
                let messages = |bytes: &Arc<Mutex<Vec<u8>>>| {
                    msgpack::values(&bytes.lock()).map_or(0, |values| values.len())
                };
                connections.lock().iter().map(messages).sum()
            }
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

fn udp(has_ended: Arc<AtomicBool>) -> Result<Sink, String> {
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
    Ok(Sink { port, content: Content::Datagrams(datagrams), has_ended })
}

fn tcp(has_ended: Arc<AtomicBool>) -> Result<Sink, String> {
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
    Ok(Sink { port, content: Content::Connections(connections), has_ended })
}
