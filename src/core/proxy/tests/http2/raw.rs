//! Frames as a test writes them, valid or not.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::peers::connect;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// A connection.
pub(crate) struct Raw(pub(crate) TcpStream);

/// The bytes of a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A header block of literals.
pub(crate) fn block(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            assert!(text.len() < 127);
            out.push(u8::try_from(text.len()).unwrap());
            out.extend(*text);
        }
    }
    out
}

/// The pseudo headers of a request.
pub(crate) const POST: [(&[u8], &[u8]); 4] =
    [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"h"), (b":path", b"/a")];

impl Raw {
    /// Connects, and sends the preface with settings: pairs of identifiers and values.
    pub(crate) fn connect(port: u16, settings: &[(u16, u32)]) -> Self {
        let mut raw = Self(connect(port));
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend(name.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        raw.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        raw.send(SETTINGS, 0, 0, &payload);
        raw
    }

    /// Sends a frame. The connection may be closed already.
    pub(crate) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.0.write_all(&frame(kind, flags, stream, payload)).is_ok()
    }

    /// Sends a request of these fields.
    pub(crate) fn request(&mut self, stream: u32, flags: u8, fields: &[(&[u8], &[u8])]) -> bool {
        self.send(HEADERS, END_HEADERS | flags, stream, &block(fields))
    }

    /// The next frame; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// The next frame of a kind; `None` if the connection ends before.
    pub(crate) fn next_of(&mut self, kinds: &[u8]) -> Option<Frame> {
        loop {
            let next = self.next()?;
            if kinds.contains(&next.kind) {
                return Some(next);
            }
        }
    }
}
