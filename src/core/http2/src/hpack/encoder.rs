//! Encodes response header blocks.

use http::{HeaderMap, StatusCode};

/// `:status: 200`, indexed in the static table.
const STATUS_200: u8 = 0x88;
/// `:status` with a literal value.
const STATUS: u8 = 0x08;
/// Dynamic table size update to 0.
const EMPTY_TABLE: u8 = 0x20;
/// Minimum dynamic table size for indexing.
const TABLE_NEEDED: u32 = 4096;

/// The form of a repeated response: status 200, one header field, a body, one trailer field. Both fields are indexed in the dynamic
/// table, so that every response after the first encodes them in three bytes.
#[derive(Debug)]
pub struct FixedResponse {
    head: Line,
    trailer: Line,
}

/// An encoded field line.
#[derive(Debug)]
struct Line {
    /// Literal with incremental indexing.
    indexed: Vec<u8>,
    /// Literal without indexing.
    literal: Vec<u8>,
}

impl Line {
    fn new(name: &str, value: &str) -> Self {
        let encode = |pattern: u8, prefix_bits: u8| {
            let mut out = Vec::new();
            match super::table::static_name(name.as_bytes()) {
                Some(index) => push_integer(&mut out, pattern, prefix_bits, index),
                None => {
                    out.push(pattern);
                    push_text(&mut out, name.as_bytes());
                }
            }
            push_text(&mut out, value.as_bytes());
            out
        };
        Self { indexed: encode(0x40, 6), literal: encode(0x00, 4) }
    }
}

impl FixedResponse {
    /// A response with these two field lines. Names are lower case; both fields must fit into the default dynamic table (4096 bytes).
    pub fn new(header: (&str, &str), trailer: (&str, &str)) -> Self {
        Self { head: Line::new(header.0, header.1), trailer: Line::new(trailer.0, trailer.1) }
    }
}

/// Both field lines once indexed; the newest entry has index 62.
const HEADER_INDEXED: &[u8] = b"\x88\xbf";
const TRAILER_INDEXED: &[u8] = b"\xbe";

/// Encodes the header blocks of one connection, in order.
#[derive(Debug)]
pub(in super::super) struct Encoder {
    fixed: &'static FixedResponse,
    state: TableState,
}

/// What the dynamic table of the peer contains.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum TableState {
    /// Nothing.
    #[default]
    Empty,
    /// The header field; the trailer field is indexed with the same response.
    HeaderIndexed,
    /// Both field lines.
    Indexed,
    /// The peer lowered its limit; the next block starts with a size update.
    Clearing,
    /// Nothing; everything is sent as a literal.
    Literal,
}

impl Encoder {
    /// An encoder for a new connection.
    pub(in super::super) fn new(fixed: &'static FixedResponse) -> Self {
        Self { fixed, state: TableState::Empty }
    }

    /// Applies the peer's SETTINGS_HEADER_TABLE_SIZE.
    pub(in super::super) fn set_table_size(&mut self, size: u32) {
        if size < TABLE_NEEDED && self.state != TableState::Literal {
            self.state = TableState::Clearing;
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.state == TableState::Clearing {
            out.push(EMPTY_TABLE);
            self.state = TableState::Literal;
        }
    }

    /// The header block of the fixed response.
    pub(in super::super) fn fixed_header(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        match self.state {
            TableState::Empty => {
                self.state = TableState::HeaderIndexed;
                out.push(STATUS_200);
                out.extend_from_slice(&self.fixed.head.indexed);
            }
            // Only the trailer is ever inserted next: index 62 is still this field.
            TableState::HeaderIndexed => out.extend_from_slice(b"\x88\xbe"),
            TableState::Indexed => out.extend_from_slice(HEADER_INDEXED),
            TableState::Clearing | TableState::Literal => {
                out.push(STATUS_200);
                out.extend_from_slice(&self.fixed.head.literal);
            }
        }
    }

    /// The trailer block of the fixed response.
    pub(in super::super) fn fixed_trailer(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        out.extend_from_slice(match self.state {
            TableState::HeaderIndexed => {
                self.state = TableState::Indexed;
                &self.fixed.trailer.indexed
            }
            TableState::Indexed => TRAILER_INDEXED,
            TableState::Empty | TableState::Clearing | TableState::Literal => &self.fixed.trailer.literal,
        });
    }

    /// A response header block.
    pub(in super::super) fn headers(&mut self, status: StatusCode, headers: &HeaderMap, out: &mut Vec<u8>) {
        self.begin(out);
        if status == StatusCode::OK {
            out.push(STATUS_200);
        } else {
            out.push(STATUS);
            push_text(out, status.as_str().as_bytes());
        }
        self.trailers(headers, out);
    }

    /// A trailer block.
    pub(in super::super) fn trailers(&mut self, trailers: &HeaderMap, out: &mut Vec<u8>) {
        self.begin(out);
        for (name, value) in trailers {
            // Literal without indexing; never indexed if sensitive.
            out.push(if value.is_sensitive() { 0x10 } else { 0x00 });
            push_text(out, name.as_str().as_bytes());
            push_text(out, value.as_bytes());
        }
    }
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_integer(out, 0, 7, text.len());
    out.extend_from_slice(text);
}

/// An integer with a prefix; `pattern` is the upper bits of its first byte. Spec: RFC 7541 section 5.1.
fn push_integer(out: &mut Vec<u8>, pattern: u8, prefix_bits: u8, mut number: usize) {
    let most = (1 << prefix_bits) - 1;
    if number < most {
        out.push(pattern | number as u8);
        return;
    }
    out.push(pattern | most as u8);
    number -= most;
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use http::{HeaderValue, header};

    use super::super::{Decoder, Field, Name};
    use super::*;

    static GRPC: LazyLock<FixedResponse> =
        LazyLock::new(|| FixedResponse::new(("content-type", "application/grpc"), ("grpc-status", "0")));

    fn decode(decoder: &mut Decoder, block: &[u8]) -> Vec<String> {
        let mut fields = Vec::new();
        let add = |field: &Field| {
            let Name::Header(name) = &field.name else { return };
            fields.push(format!("{name}={}", field.value.as_ref().unwrap().to_str().unwrap()));
        };
        decoder.decode(block, add).unwrap();
        fields
    }

    #[test]
    fn fixed_responses_decode_in_every_table_state() {
        let (headers, trailers) = (["content-type=application/grpc"], ["grpc-status=0"]);
        for cleared_at in 0..6 {
            let (mut encoder, mut decoder) = (Encoder::new(&GRPC), Decoder::new());
            let mut sizes = Vec::new();
            for turn in 0..5 {
                if turn == cleared_at {
                    encoder.set_table_size(0);
                }
                let mut out = Vec::new();
                encoder.fixed_header(&mut out);
                let first = out.len();
                assert_eq!(decode(&mut decoder, &out), headers);
                out.clear();
                encoder.fixed_trailer(&mut out);
                assert_eq!(decode(&mut decoder, &out), trailers);
                sizes.push(first + out.len());
            }
            if cleared_at > 4 {
                assert_eq!(sizes[1..], [3, 3, 3, 3]);
            }
        }
    }

    #[test]
    fn interleaved_responses_decode() {
        // Two header blocks before the first trailers, and an error between.
        let (mut encoder, mut decoder) = (Encoder::new(&GRPC), Decoder::new());
        let mut say = |what: fn(&mut Encoder, &mut Vec<u8>)| {
            let mut out = Vec::new();
            what(&mut encoder, &mut out);
            decode(&mut decoder, &out)
        };
        assert_eq!(say(Encoder::fixed_trailer), ["grpc-status=0"]);
        for _ in 0..2 {
            assert_eq!(say(Encoder::fixed_header), ["content-type=application/grpc"]);
        }
        say(|encoder, out| {
            let mut failure = HeaderMap::new();
            failure.insert(header::RETRY_AFTER, HeaderValue::from_static("7"));
            encoder.headers(StatusCode::IM_A_TEAPOT, &failure, out);
        });
        for _ in 0..2 {
            assert_eq!(say(Encoder::fixed_trailer), ["grpc-status=0"]);
            assert_eq!(say(Encoder::fixed_header), ["content-type=application/grpc"]);
        }
    }

    #[test]
    fn long_and_sensitive_values_are_literals() {
        let mut headers = HeaderMap::new();
        let long = "x".repeat(300);
        headers.insert("long", HeaderValue::from_str(&long).unwrap());
        let mut secret = HeaderValue::from_static("s");
        secret.set_sensitive(true);
        headers.insert("secret", secret);
        let mut out = Vec::new();
        Encoder::new(&GRPC).headers(StatusCode::OK, &headers, &mut out);
        assert_eq!(decode(&mut Decoder::new(), &out), [format!("long={long}"), "secret=s".to_owned()]);
        assert!(out.windows(7).any(|bytes| bytes == b"\x10\x06secre"));
    }
}
