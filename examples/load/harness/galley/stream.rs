//! A stream of a sink on a connection of its own, with as little work as possible: the sinks share the machine with the program that is measured.
//!
//! Of a message its version, collection and nonce are read, wherever they stand in it; resources are skipped.

use anyhow::{Context as _, Result, bail, ensure};
use bytes::{BufMut as _, BytesMut};
use mixer_mcp::message::{RequestResources, SinkNode};
use prost::Message as _;

/// Frames of HTTP/2, by type.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// Flags.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
/// The stream of all requests.
const STREAM: u32 = 1;
/// Length of the head of a frame.
const FRAME_HEAD: usize = 9;
/// Length of the prefix of a message.
const PREFIX: usize = 5;
/// Largest window.
const WINDOW: u32 = (1 << 31) - 1;
/// Received bytes after which the windows are opened again.
const REFILL: u32 = 1 << 29;
/// Most bytes of a frame that is not of data.
const MAX_CONTROL: usize = 1 << 16;

/// What is read of a message.
#[derive(Debug, Clone, Default)]
pub(super) struct Heard {
    pub(super) version: String,
    pub(super) collection: String,
    pub(super) nonce: String,
    /// The whole message, if the stream keeps it.
    pub(super) bytes: Vec<u8>,
}

/// The bytes that begin a connection and its stream.
pub(super) fn opening() -> BytesMut {
    let mut out = BytesMut::from(&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..]);
    frame(&mut out, SETTINGS, 0, 0, 6);
    // The initial window of streams.
    out.put_u16(4);
    out.put_u32(WINDOW);
    window(&mut out, 0, WINDOW - 65_535);
    let mut headers = BytesMut::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/istio.mcp.v1alpha1.ResourceSource/EstablishResourceStream"),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        // A literal that is not indexed; all of them are shorter than 127 bytes.
        headers.put_u8(0);
        for text in [name, value] {
            headers.put_u8(u8::try_from(text.len()).unwrap_or(0));
            headers.put_slice(text.as_bytes());
        }
    }
    frame(&mut out, HEADERS, END_HEADERS, STREAM, headers.len());
    out.put_slice(&headers);
    out
}

/// A request for a collection, or with a nonce an ACK.
pub(super) fn request(collection: &str, nonce: &str, is_incremental: bool) -> BytesMut {
    let request = RequestResources {
        sink_node: Some(SinkNode { id: "load".to_owned(), ..SinkNode::default() }),
        collection: collection.to_owned(),
        response_nonce: nonce.to_owned(),
        incremental: is_incremental,
        ..RequestResources::default()
    };
    let length = request.encoded_len();
    let mut out = BytesMut::with_capacity(FRAME_HEAD + PREFIX + length);
    frame(&mut out, DATA, 0, STREAM, PREFIX + length);
    out.put_u8(0);
    out.put_u32(u32::try_from(length).unwrap_or(0));
    // The buffer grows as needed.
    let _ = request.encode(&mut out);
    out
}

fn frame(out: &mut BytesMut, kind: u8, flags: u8, stream: u32, length: usize) {
    out.put_uint(length as u64, 3);
    out.put_u8(kind);
    out.put_u8(flags);
    out.put_u32(stream);
}

fn window(out: &mut BytesMut, stream: u32, more: u32) {
    frame(out, WINDOW_UPDATE, 0, stream, 4);
    out.put_u32(more);
}

/// The bytes that arrive, turned into messages.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    head: Vec<u8>,
    control: Vec<u8>,
    kind: u8,
    flags: u8,
    /// Bytes of the payload that have not arrived.
    left: usize,
    is_in_payload: bool,
    consumed: u32,
    message: Message,
}

impl Receiver {
    /// Keeps whole messages.
    pub(super) fn keeping() -> Self {
        Self { message: Message { keeps: true, ..Message::default() }, ..Self::default() }
    }

    /// Takes bytes. Messages that are complete are passed on, and answers of the connection appended.
    ///
    /// Errors: the stream has ended.
    pub(super) fn receive(
        &mut self,
        mut bytes: &[u8],
        out: &mut BytesMut,
        heard: &mut Vec<Heard>,
    ) -> Result<()> {
        while !bytes.is_empty() || (self.is_in_payload && self.left == 0) {
            if !self.is_in_payload {
                let missing = FRAME_HEAD - self.head.len();
                let (head, rest) = bytes.split_at(missing.min(bytes.len()));
                self.head.extend_from_slice(head);
                bytes = rest;
                let &[a, b, c, kind, flags, ..] = &*self.head else { continue };
                if self.head.len() < FRAME_HEAD {
                    continue;
                }
                self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                (self.kind, self.flags, self.is_in_payload) = (kind, flags, true);
                self.head.clear();
                self.control.clear();
                ensure!(kind != DATA || flags & PADDED == 0, "padded data");
                continue;
            }
            let (part, rest) = bytes.split_at(self.left.min(bytes.len()));
            bytes = rest;
            self.left -= part.len();
            if self.kind == DATA {
                self.consumed += u32::try_from(part.len()).unwrap_or(0);
                self.message.receive(part, heard)?;
            } else {
                ensure!(self.control.len() + part.len() <= MAX_CONTROL, "a frame is too long");
                self.control.extend_from_slice(part);
            }
            if self.left == 0 {
                self.is_in_payload = false;
                self.finish(out)?;
            }
        }
        if self.consumed > REFILL {
            window(out, 0, self.consumed);
            window(out, STREAM, self.consumed);
            self.consumed = 0;
        }
        Ok(())
    }

    /// A frame is complete.
    fn finish(&mut self, out: &mut BytesMut) -> Result<()> {
        match self.kind {
            DATA | HEADERS if self.flags & END_STREAM != 0 => {
                bail!("the stream was ended: {:?}", self.text())
            }
            SETTINGS if self.flags & ACK == 0 => frame(out, SETTINGS, ACK, 0, 0),
            PING if self.flags & ACK == 0 => {
                frame(out, PING, ACK, 0, self.control.len());
                out.put_slice(&self.control);
            }
            RST_STREAM | GOAWAY => bail!("the stream was reset: {:?}", self.text()),
            _ => {}
        }
        Ok(())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.control).into_owned()
    }
}

/// A message of gRPC that arrives in parts.
#[derive(Debug, Default)]
struct Message {
    prefix: Vec<u8>,
    left: usize,
    is_inside: bool,
    field: Field,
    heard: Heard,
    keeps: bool,
}

/// Where in a message the next byte stands.
#[derive(Debug)]
enum Field {
    /// In a number: its value so far, its bits so far, and of which field it is the length or the value; 0: it is a key.
    Number { value: u64, bits: u32, of: u64, is_length: bool },
    /// In a text or a message of a field, of which so many bytes are missing.
    Bytes { field: u64, left: usize },
}

impl Default for Field {
    fn default() -> Self {
        Field::Number { value: 0, bits: 0, of: 0, is_length: false }
    }
}

impl Message {
    fn receive(&mut self, mut bytes: &[u8], heard: &mut Vec<Heard>) -> Result<()> {
        loop {
            if self.is_inside {
                let (part, rest) = bytes.split_at(self.left.min(bytes.len()));
                self.left -= part.len();
                if self.keeps {
                    self.heard.bytes.extend_from_slice(part);
                }
                self.fields(part)?;
                bytes = rest;
                if self.left == 0 {
                    self.is_inside = false;
                    self.field = Field::default();
                    heard.push(std::mem::take(&mut self.heard));
                }
            }
            let (part, rest) = bytes.split_at((PREFIX - self.prefix.len()).min(bytes.len()));
            self.prefix.extend_from_slice(part);
            bytes = rest;
            let &[compressed, a, b, c, d] = &*self.prefix else {
                if bytes.is_empty() {
                    return Ok(());
                }
                continue;
            };
            ensure!(compressed == 0, "a compressed message");
            self.left = u32::from_be_bytes([a, b, c, d]) as usize;
            self.is_inside = true;
            self.prefix.clear();
            if bytes.is_empty() && self.left > 0 {
                return Ok(());
            }
        }
    }

    fn fields(&mut self, mut bytes: &[u8]) -> Result<()> {
        while let Some((first, rest)) = bytes.split_first() {
            match &mut self.field {
                Field::Bytes { field, left } => {
                    let (part, rest) = bytes.split_at((*left).min(bytes.len()));
                    let text = match field {
                        1 => Some(&mut self.heard.version),
                        2 => Some(&mut self.heard.collection),
                        5 => Some(&mut self.heard.nonce),
                        _ => None,
                    };
                    if let Some(text) = text {
                        text.push_str(std::str::from_utf8(part).context("a text")?);
                    }
                    *left -= part.len();
                    if *left == 0 {
                        self.field = Field::default();
                    }
                    bytes = rest;
                }
                Field::Number { value, bits, of, is_length } => {
                    ensure!(*bits < 64, "a number is too long");
                    *value |= u64::from(first & 0x7f) << *bits;
                    *bits += 7;
                    bytes = rest;
                    if first & 0x80 != 0 {
                        continue;
                    }
                    let (value, of, is_length) = (*value, *of, *is_length);
                    self.field = match (of, is_length, value & 7) {
                        (0, _, 2) => Field::Number { value: 0, bits: 0, of: value >> 3, is_length: true },
                        (0, _, 0) => Field::Number { value: 0, bits: 0, of: value >> 3, is_length: false },
                        (0, _, other) => bail!("a field of wire type {other}"),
                        (_, true, _) if value > 0 => {
                            Field::Bytes { field: of, left: usize::try_from(value)? }
                        }
                        _ => Field::default(),
                    };
                }
            }
        }
        Ok(())
    }
}
