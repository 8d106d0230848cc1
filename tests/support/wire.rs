//! Connections that speak raw HTTP/2.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::DEADLINE;
use super::http2::{self, DATA, END_HEADERS, END_STREAM, HEADERS, frame};

/// The preface, the largest stream window and the largest window of the connection.
pub(crate) fn wide_open() -> Vec<u8> {
    let settings = frame(http2::SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
    let window = frame(http2::WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes());
    [&http2::PREFACE[..24], &settings, &window].concat()
}

/// A connection that has sent `bytes`.
pub(crate) fn connect(port: u16, bytes: &[u8]) -> Result<TcpStream, String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|e| e.to_string())?;
    stream.set_read_timeout(Some(DEADLINE)).map_err(|e| e.to_string())?;
    stream.set_write_timeout(Some(DEADLINE)).map_err(|e| e.to_string())?;
    stream.write_all(bytes).map_err(|e| e.to_string())?;
    Ok(stream)
}

/// The HEADERS frame of a gRPC call with further literal fields.
pub(crate) fn call_headers(stream: u32, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    let mut text = |prefix: &[u8], value: &str| {
        block.extend_from_slice(prefix);
        // HPACK integers of seven bits suffice for these texts.
        block.push(u8::try_from(value.len()).ok().filter(|length| *length < 127).expect("a short text"));
        block.extend_from_slice(value.as_bytes());
    };
    text(&[0x04], path);
    text(&[0x01], "mixer");
    text(&[0x0f, 0x10], "application/grpc");
    for (name, value) in fields {
        text(&[0x00], name);
        text(&[], value);
    }
    frame(HEADERS, END_HEADERS, stream, &block)
}

/// A gRPC message with its prefix.
pub(crate) fn message(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("a short message").to_be_bytes();
    [&[0], &length[..], body].concat()
}

/// A whole unary call in frames of at most 16 KiB.
pub(crate) fn call(stream: u32, path: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = call_headers(stream, path, &[]);
    let framed = message(body);
    let mut pieces = framed.chunks(16 << 10).peekable();
    while let Some(piece) = pieces.next() {
        let flags = if pieces.peek().is_none() { END_STREAM } else { 0 };
        bytes.extend(frame(DATA, flags, stream, piece));
    }
    bytes
}

/// When a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Everything.
    Eager,
    /// A little, and only when the server takes no more: the output of the server is never empty.
    Reluctant,
}

/// Writes and reads what the socket takes and has, for `length` or until it is closed. `input` is repeated.
pub(crate) fn pump(
    stream: &TcpStream,
    input: &mut dyn FnMut() -> Vec<u8>,
    reading: Reading,
    length: Duration,
) -> Result<(), String> {
    let mut socket = stream;
    stream.set_nonblocking(true).map_err(|e| e.to_string())?;
    let (mut pending, mut sent) = (input(), 0);
    let mut buffer = vec![0; if reading == Reading::Eager { 64 << 10 } else { 32 << 10 }];
    let end = Instant::now() + length;
    while Instant::now() < end {
        let (mut is_idle, mut reads) = (true, reading == Reading::Eager);
        match socket.write(pending.get(sent..).unwrap_or_default()) {
            Ok(count) => {
                is_idle = false;
                sent += count;
                if sent >= pending.len() {
                    (pending, sent) = (input(), 0);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => reads = true,
            Err(error) => return Err(error.to_string()),
        }
        if reads {
            match socket.read(&mut buffer) {
                Ok(0) => return Err("closed".to_owned()),
                Ok(_) => is_idle = false,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        if is_idle {
            // Neither direction is ready.
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    stream.set_nonblocking(false).map_err(|e| e.to_string())
}
