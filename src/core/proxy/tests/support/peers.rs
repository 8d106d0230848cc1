//! Hosts and clients that a test scripts.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::proxy::DEADLINE;

/// Serves connections, each in a thread of its own, with its number; returns the port.
pub(crate) fn serve(handle: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (handle, count) = (Arc::new(handle), AtomicUsize::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (handle, number) = (Arc::clone(&handle), count.fetch_add(1, Ordering::Relaxed));
            let _ = stream.set_nodelay(true);
            std::thread::spawn(move || handle(stream, number));
        }
    });
    port
}

/// A connection to a port.
pub(crate) fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Reads up to the end of a head; `None` if the connection ends before.
pub(crate) fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).ok()
}

/// Reads so many bytes.
pub(crate) fn read_exact(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}
