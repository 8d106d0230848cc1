//! Bodies: where they end, read strictly.

use bytes::{Buf as _, BytesMut};

use crate::head::{Head, HeadError, end_of_head, is_bodiless, is_token_byte};

/// The longest line before a chunk, with its extensions.
const MAX_CHUNK_LINE: usize = 256;
/// The most bytes of trailers.
const MAX_TRAILERS: usize = 8 << 10;

/// How a body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is none.
    Empty,
    /// By a length.
    Length(u64),
    /// By chunks.
    Chunked,
    /// By the end of the connection; responses only.
    UntilClose,
}

/// The length and coding that the fields of a message give.
///
/// Errors: several lengths, a length that is no number, a length beside a transfer coding, a coding other than exactly `chunked`.
fn declared(head: &Head) -> Result<Framing, HeadError> {
    let (lengths, codings) = (head.count("content-length"), head.count("transfer-encoding"));
    match (lengths, codings) {
        (0, 0) => Ok(Framing::Empty),
        (1, 0) => {
            let text = head.get("content-length").unwrap_or_default();
            let is_number = !text.is_empty() && text.len() <= 19 && text.iter().all(u8::is_ascii_digit);
            let number =
                std::str::from_utf8(text).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
            number.map(Framing::Length).ok_or(HeadError::Framing)
        }
        (0, 1) => {
            let coding = head.get("transfer-encoding").unwrap_or_default();
            if coding.eq_ignore_ascii_case(b"chunked") {
                Ok(Framing::Chunked)
            } else {
                Err(HeadError::UnknownCoding)
            }
        }
        _ => Err(HeadError::Framing),
    }
}

/// The framing of a request.
pub(crate) fn of_request(head: &Head) -> Result<Framing, HeadError> {
    declared(head)
}

/// How a body is sent on whose head may have lost its length by edits of the configuration: its end is told by chunks then, as with Envoy.
pub(crate) fn after_edits(framing: Framing, head: &Head) -> Framing {
    match framing {
        Framing::Length(length) if head.get("content-length").is_none() => match length {
            0 => Framing::Empty,
            _ => Framing::Chunked,
        },
        framing => framing,
    }
}

/// The framing of a response to a request, which may be a HEAD request.
///
/// Errors: as of requests; a body where there is none by definition, which other readers may take for the next response; a transfer coding
/// of HTTP/1.0, which does not have them.
pub(crate) fn of_response(head: &Head, to_head: bool, is_http11: bool) -> Result<Framing, HeadError> {
    let has_coding = head.count("transfer-encoding") > 0;
    let has_none = matches!(head.status, 100..=199 | 204);
    if has_coding && (has_none || !is_http11) {
        return Err(HeadError::Framing);
    }
    if has_none && !matches!(declared(head)?, Framing::Empty | Framing::Length(0)) {
        return Err(HeadError::Framing);
    }
    let declared = match (declared(head)?, head.count("content-length") + head.count("transfer-encoding")) {
        (Framing::Empty, 0) => Framing::UntilClose,
        (framing, _) => framing,
    };
    if to_head || is_bodiless(head.status) {
        return Ok(Framing::Empty);
    }
    Ok(declared)
}

/// What is left of a body that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remaining {
    /// Nothing.
    Done,
    /// Bytes.
    Bytes(u64),
    /// Everything up to the end of the connection.
    UntilClose,
    /// The line before a chunk.
    ChunkLine,
    /// Bytes of a chunk.
    Chunk(u64),
    /// The end of the line after a chunk.
    ChunkEnd,
    /// Trailers, of which so many bytes were looked at.
    Trailers(usize),
    /// What was read ahead, and is not in the input; what follows it is known with it.
    Ahead,
}

/// A body is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyError;

impl Remaining {
    /// The start of a body.
    pub(crate) fn of(framing: Framing) -> Self {
        match framing {
            Framing::Empty | Framing::Length(0) => Remaining::Done,
            Framing::Length(length) => Remaining::Bytes(length),
            Framing::Chunked => Remaining::ChunkLine,
            Framing::UntilClose => Remaining::UntilClose,
        }
    }

    /// Whether the body is complete.
    pub(crate) fn is_done(self) -> bool {
        self == Remaining::Done
    }

    /// Passes the next data of the body to `take`, at most `limit` bytes, and removes what was read from `input`. Returns the number of
    /// bytes of data; 0 if more input is needed, or the body is complete.
    pub(crate) fn decode(
        &mut self,
        input: &mut BytesMut,
        limit: usize,
        mut take: impl FnMut(&[u8]),
    ) -> Result<usize, BodyError> {
        let mut passed = 0_usize;
        loop {
            let wanted = match *self {
                Remaining::Done | Remaining::Ahead => return Ok(passed),
                Remaining::Bytes(left) | Remaining::Chunk(left) => {
                    usize::try_from(left).unwrap_or(usize::MAX)
                }
                Remaining::UntilClose => usize::MAX,
                Remaining::ChunkLine => match chunk_line(input)? {
                    None => return Ok(passed),
                    Some(0) => {
                        *self = Remaining::Trailers(0);
                        continue;
                    }
                    Some(size) => {
                        *self = Remaining::Chunk(size);
                        continue;
                    }
                },
                Remaining::ChunkEnd => match input.get(..2) {
                    Some(b"\r\n") => {
                        input.advance(2);
                        *self = Remaining::ChunkLine;
                        continue;
                    }
                    Some(_) => return Err(BodyError),
                    None => return Ok(passed),
                },
                Remaining::Trailers(scanned) => {
                    if !trailers(input, scanned, self)? {
                        return Ok(passed);
                    }
                    continue;
                }
            };
            let count = wanted.min(input.len()).min(limit - passed);
            if count == 0 {
                return Ok(passed);
            }
            take(input.get(..count).unwrap_or_default());
            input.advance(count);
            passed += count;
            let left = |left: u64| left - u64::try_from(count).unwrap_or(left);
            *self = match *self {
                Remaining::Bytes(bytes) if left(bytes) == 0 => Remaining::Done,
                Remaining::Bytes(bytes) => Remaining::Bytes(left(bytes)),
                Remaining::Chunk(bytes) if left(bytes) == 0 => Remaining::ChunkEnd,
                Remaining::Chunk(bytes) => Remaining::Chunk(left(bytes)),
                other => other,
            };
        }
    }
}

/// Reads the line before a chunk: its size in hexadecimal digits, and extensions, which have no effect.
fn chunk_line(input: &mut BytesMut) -> Result<Option<u64>, BodyError> {
    let Some(end) = memchr::memchr(b'\n', input) else {
        return if input.len() > MAX_CHUNK_LINE { Err(BodyError) } else { Ok(None) };
    };
    let line = input.get(..end).and_then(|line| line.strip_suffix(b"\r")).ok_or(BodyError)?;
    if line.len() > MAX_CHUNK_LINE {
        return Err(BodyError);
    }
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (digits, extension) = line.split_at_checked(digits).ok_or(BodyError)?;
    if digits.is_empty() || digits.len() > 15 {
        return Err(BodyError);
    }
    if !are_extensions(extension) {
        return Err(BodyError);
    }
    let text = std::str::from_utf8(digits).map_err(|_| BodyError)?;
    let size = u64::from_str_radix(text, 16).map_err(|_| BodyError)?;
    input.advance(end + 1);
    Ok(Some(size))
}

/// Whether this is `*( ";" token [ "=" ( token / quoted-string ) ] )`. What is not, some parsers end at another place.
fn are_extensions(mut text: &[u8]) -> bool {
    let token = |text: &[u8]| text.iter().take_while(|byte| is_token_byte(**byte)).count();
    while let Some((b';', rest)) = text.split_first() {
        let name = token(rest);
        text = rest.get(name..).unwrap_or_default();
        let value = match text {
            _ if name == 0 => return false,
            [b'=', b'"', value @ ..] => {
                let Some(after) = end_of_quotes(value) else { return false };
                text = after;
                continue;
            }
            [b'=', value @ ..] => value,
            _ => continue,
        };
        let length = token(value);
        if length == 0 {
            return false;
        }
        text = value.get(length..).unwrap_or_default();
    }
    text.is_empty()
}

/// What follows a quoted string, of which the first quote was read.
fn end_of_quotes(mut text: &[u8]) -> Option<&[u8]> {
    loop {
        text = match text {
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'\t' | b' '..=b'~' | 0x80.., after @ ..] => after,
            [b'\\', ..] => return None,
            [b'\t' | b' '..=b'~' | 0x80.., after @ ..] => after,
            _ => return None,
        };
    }
}

/// Reads the trailers, which are checked and dropped. Returns whether they are complete.
fn trailers(input: &mut BytesMut, mut scanned: usize, state: &mut Remaining) -> Result<bool, BodyError> {
    let end = end_of_head(input, &mut scanned, MAX_TRAILERS).map_err(|_| BodyError)?;
    let Some(end) = end else {
        *state = Remaining::Trailers(scanned);
        return Ok(false);
    };
    let lines = input.get(..end).unwrap_or_default().split(|byte| *byte == b'\n');
    for line in lines.filter(|line| !matches!(*line, b"" | b"\r")) {
        let colon = memchr::memchr(b':', line).ok_or(BodyError)?;
        let (name, value) = line.split_at_checked(colon).ok_or(BodyError)?;
        let is_value = value
            .strip_suffix(b"\r")
            .ok_or(BodyError)?
            .iter()
            .all(|b| *b == b'\t' || (*b >= b' ' && *b != 0x7f));
        if name.is_empty() || !name.iter().copied().all(is_token_byte) || !is_value {
            return Err(BodyError);
        }
    }
    input.advance(end);
    *state = Remaining::Done;
    Ok(true)
}
