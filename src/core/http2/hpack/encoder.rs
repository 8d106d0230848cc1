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

/// `content-type: application/grpc`, to be remembered (its name is number 31) or not.
const GRPC_HEADERS_NEW: &[u8] = b"\x88\x5f\x10application/grpc";
const GRPC_HEADERS_LITERAL: &[u8] = b"\x88\x0f\x10\x10application/grpc";
/// `grpc-status: 0`, likewise.
const GRPC_TRAILERS_NEW: &[u8] = b"\x40\x0bgrpc-status\x010";
const GRPC_TRAILERS_LITERAL: &[u8] = b"\x00\x0bgrpc-status\x010";
/// Both, once the caller has them: what came last is number 62.
const GRPC_HEADERS_KNOWN: &[u8] = b"\x88\xbf";
const GRPC_TRAILERS_KNOWN: &[u8] = b"\xbe";

/// Encodes the blocks of one connection, in order.
#[derive(Debug, Default)]
pub(in super::super) struct Encoder {
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The caller remembers nothing yet.
    #[default]
    New,
    /// It knows the headers of gRPC, and comes to know the trailers with the same answer.
    Half,
    /// It knows both lines.
    Known,
    /// It wants to remember less, and must be told that it need not remember anything.
    Leaving,
    /// It is asked to remember nothing.
    Literal,
}

impl Encoder {
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

    /// The headers of a gRPC answer. What follows on this connection must be its trailers, or another block of any sort.
    pub(in super::super) fn grpc_headers(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        out.extend_from_slice(match self.state {
            State::New => {
                self.state = State::Half;
                GRPC_HEADERS_NEW
            }
            // Nothing but the trailers comes between: number 62 is still this line.
            State::Half => b"\x88\xbe",
            State::Known => GRPC_HEADERS_KNOWN,
            State::Leaving | State::Literal => GRPC_HEADERS_LITERAL,
        });
    }

    /// The trailers of a gRPC answer that succeeded.
    pub(in super::super) fn grpc_trailers(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        out.extend_from_slice(match self.state {
            State::Half => {
                self.state = State::Known;
                GRPC_TRAILERS_NEW
            }
            State::Known => GRPC_TRAILERS_KNOWN,
            State::New | State::Leaving | State::Literal => GRPC_TRAILERS_LITERAL,
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
    let mut length = text.len();
    if length < 0x7f {
        out.push(length as u8);
    } else {
        out.push(0x7f);
        length -= 0x7f;
        while length >= 0x80 {
            out.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
    }
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, header};

    use super::super::{Decoder, Field, Name};
    use super::*;

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
            let (mut encoder, mut decoder) = (Encoder::default(), Decoder::new());
            let mut sizes = Vec::new();
            for turn in 0..5 {
                if turn == forgets_after {
                    encoder.set_table_size(0);
                }
                let mut out = Vec::new();
                encoder.grpc_headers(&mut out);
                let first = out.len();
                assert_eq!(decode(&mut decoder, &out), headers);
                out.clear();
                encoder.grpc_trailers(&mut out);
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
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::new());
        let mut say = |what: fn(&mut Encoder, &mut Vec<u8>)| {
            let mut out = Vec::new();
            what(&mut encoder, &mut out);
            decode(&mut decoder, &out)
        };
        assert_eq!(say(Encoder::grpc_trailers), ["grpc-status=0"]);
        for _ in 0..2 {
            assert_eq!(say(Encoder::grpc_headers), ["content-type=application/grpc"]);
        }
        say(|encoder, out| {
            let mut failure = HeaderMap::new();
            failure.insert(header::RETRY_AFTER, HeaderValue::from_static("7"));
            encoder.headers(StatusCode::IM_A_TEAPOT, &failure, out);
        });
        for _ in 0..2 {
            assert_eq!(say(Encoder::grpc_trailers), ["grpc-status=0"]);
            assert_eq!(say(Encoder::grpc_headers), ["content-type=application/grpc"]);
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
        Encoder::default().headers(StatusCode::OK, &headers, &mut out);
        assert_eq!(decode(&mut Decoder::new(), &out), [format!("long={long}"), "secret=s".to_owned()]);
        assert!(out.windows(7).any(|bytes| bytes == b"\x10\x06secre"));
    }
}
