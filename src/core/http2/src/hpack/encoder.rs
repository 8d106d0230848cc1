//! From the lines of an answer to a header block.

use http::{HeaderMap, StatusCode};

/// `:status: 200`, which every table has.
const STATUS_200: u8 = 0x88;
/// `:status`, with a value of its own.
const STATUS: u8 = 0x08;
/// The table is emptied: nothing will be remembered.
const EMPTY_TABLE: u8 = 0x20;
/// Bytes of the table that this side has use for.
const TABLE_NEEDED: u32 = 4096;

/// A response that is sent over and over: status 200, one header line, a body, one trailer line. Both lines are kept in the table of
/// the client, so that every response after the first spends three bytes on them.
#[derive(Debug)]
pub struct FixedResponse {
    head: Line,
    trailer: Line,
}

/// One header line, encoded.
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
    /// A response with these two lines. Names are in lower case.
    pub fn new(header: (&str, &str), trailer: (&str, &str)) -> Self {
        Self { head: Line::new(header.0, header.1), trailer: Line::new(trailer.0, trailer.1) }
    }
}

/// Both lines, once the client has them: the one that came last is number 62.
const HEADER_KNOWN: &[u8] = b"\x88\xbf";
const TRAILER_KNOWN: &[u8] = b"\xbe";

/// Encodes the blocks of one connection, in order.
#[derive(Debug)]
pub(in super::super) struct Encoder {
    fixed: &'static FixedResponse,
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The caller remembers nothing yet.
    #[default]
    New,
    /// It knows the header of the fixed response, and comes to know the trailers with the same answer.
    Half,
    /// It knows both lines.
    Known,
    /// It wants to remember less, and must be told that it need not remember anything.
    Leaving,
    /// It is asked to remember nothing.
    Literal,
}

impl Encoder {
    /// An encoder for a new connection.
    pub(in super::super) fn new(fixed: &'static FixedResponse) -> Self {
        Self { fixed, state: State::New }
    }

    /// The caller says how much it is ready to remember.
    pub(in super::super) fn set_table_size(&mut self, size: u32) {
        if size < TABLE_NEEDED && self.state != State::Literal {
            self.state = State::Leaving;
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.state == State::Leaving {
            out.push(EMPTY_TABLE);
            self.state = State::Literal;
        }
    }

    /// The head of the fixed response. What follows on this connection must be its trailer, or another block of any sort.
    pub(in super::super) fn fixed_head(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        match self.state {
            State::New => {
                self.state = State::Half;
                out.push(STATUS_200);
                out.extend_from_slice(&self.fixed.head.indexed);
            }
            // Nothing but the trailer comes between: number 62 is still this line.
            State::Half => out.extend_from_slice(b"\x88\xbe"),
            State::Known => out.extend_from_slice(HEADER_KNOWN),
            State::Leaving | State::Literal => {
                out.push(STATUS_200);
                out.extend_from_slice(&self.fixed.head.literal);
            }
        }
    }

    /// The trailer of the fixed response.
    pub(in super::super) fn fixed_trailer(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        out.extend_from_slice(match self.state {
            State::Half => {
                self.state = State::Known;
                &self.fixed.trailer.indexed
            }
            State::Known => TRAILER_KNOWN,
            State::New | State::Leaving | State::Literal => &self.fixed.trailer.literal,
        });
    }

    /// Any headers.
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

    /// Any trailers.
    pub(in super::super) fn trailers(&mut self, trailers: &HeaderMap, out: &mut Vec<u8>) {
        self.begin(out);
        for (name, value) in trailers {
            // Literal, not remembered; or never, if it is secret.
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

/// An integer behind a pattern in the upper bits of its first byte. Spec: RFC 7541 section 5.1.
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
    fn every_answer_says_the_same_to_a_caller_who_remembers() {
        let (headers, trailers) = (["content-type=application/grpc"], ["grpc-status=0"]);
        for forgets_after in 0..6 {
            let (mut encoder, mut decoder) = (Encoder::new(&GRPC), Decoder::new());
            let mut sizes = Vec::new();
            for turn in 0..5 {
                if turn == forgets_after {
                    encoder.set_table_size(0);
                }
                let mut out = Vec::new();
                encoder.fixed_head(&mut out);
                let first = out.len();
                assert_eq!(decode(&mut decoder, &out), headers);
                out.clear();
                encoder.fixed_trailer(&mut out);
                assert_eq!(decode(&mut decoder, &out), trailers);
                sizes.push(first + out.len());
            }
            if forgets_after > 4 {
                assert_eq!(sizes[1..], [3, 3, 3, 3]);
            }
        }
    }

    #[test]
    fn answers_that_overlap_are_understood() {
        // Two headers before the first trailers, and a failure between.
        let (mut encoder, mut decoder) = (Encoder::new(&GRPC), Decoder::new());
        let mut say = |what: fn(&mut Encoder, &mut Vec<u8>)| {
            let mut out = Vec::new();
            what(&mut encoder, &mut out);
            decode(&mut decoder, &out)
        };
        assert_eq!(say(Encoder::fixed_trailer), ["grpc-status=0"]);
        for _ in 0..2 {
            assert_eq!(say(Encoder::fixed_head), ["content-type=application/grpc"]);
        }
        say(|encoder, out| {
            let mut failure = HeaderMap::new();
            failure.insert(header::RETRY_AFTER, HeaderValue::from_static("7"));
            encoder.headers(StatusCode::IM_A_TEAPOT, &failure, out);
        });
        for _ in 0..2 {
            assert_eq!(say(Encoder::fixed_trailer), ["grpc-status=0"]);
            assert_eq!(say(Encoder::fixed_head), ["content-type=application/grpc"]);
        }
    }

    #[test]
    fn long_values_and_secrets_are_sent_literally() {
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
