//! Frames of HTTP/2 (RFC 9113), for clients that break its rules.

use super::rpc;

/// The connection preface and an empty SETTINGS frame.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The same with SETTINGS_INITIAL_WINDOW_SIZE 0.
pub(crate) const PREFACE_WITHOUT_WINDOW: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0";

/// Frame types.
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// The flag END_STREAM of DATA and HEADERS.
pub(crate) const END_STREAM: u8 = 1;
/// The flag END_HEADERS of HEADERS and CONTINUATION.
pub(crate) const END_HEADERS: u8 = 4;

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The error code of RST_STREAM and GOAWAY.
    pub(crate) fn error_code(&self) -> Option<u32> {
        let at = match self.kind {
            RST_STREAM => 0,
            GOAWAY => 4,
            _ => return None,
        };
        let bytes = self.payload.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    }
}

/// Encodes a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Encodes the HEADERS frame of a check.
pub(crate) fn check_headers(stream: u32) -> Vec<u8> {
    headers(stream, rpc::CHECK, "application/grpc", &[])
}

/// Encodes the HEADERS frame of a call with more fields; names are encoded as literals.
pub(crate) fn headers(stream: u32, path: &str, content_type: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| {
        let length = u8::try_from(text.len()).expect("a short text");
        [&[length], text.as_bytes()].concat()
    };
    let mut block = vec![0x83, 0x86];
    for (name, value) in [(0x04, path), (0x01, "mixer")] {
        block.push(name);
        block.extend(text(value));
    }
    for (name, value) in [("content-type", content_type)].iter().chain(more) {
        block.push(0);
        block.extend([text(name), text(value)].concat());
    }
    frame(HEADERS, END_HEADERS, stream, &block)
}

/// Decodes the complete frames at the start of `bytes`.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let [a, b, c, kind, _, stream @ ..] = bytes {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let (Some(stream), Some(payload)) = (stream.get(..4), bytes.get(9..9 + length)) else { break };
        let stream = u32::from_be_bytes(stream.try_into().expect("four bytes")) & 0x7fff_ffff;
        frames.push(Frame { kind: *kind, stream, payload: payload.to_vec() });
        bytes = bytes.get(9 + length..).unwrap_or_default();
    }
    frames
}
