//! Heads that another implementation of HTTP/2 takes for errors of the connection, made errors of their stream.
//!
//! RFC 9113 section 8.1.1 has a malformed message end its stream. An implementation that decodes names and values to typed ones may fail in
//! the middle of a header block instead: its dynamic table is not that of the peer any more, and the connection must end with all that is on it.
//! A [`Screen`] stands before it. Bytes of a client pass as they are until the first such head. That head is replaced by one that is refused,
//! and those that follow are written without the dynamic table.

use std::borrow::Cow;

use bytes::{BufMut as _, BytesMut};
use http::{HeaderName, HeaderValue, Method};

use super::hpack::{Decoder, Field, Name};

/// Bytes of the preface of a client, and of the header of a frame.
const PREFACE: usize = 24;
const FRAME: usize = 9;
/// Types of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
/// Flags of frames.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;
/// Bytes of priority in HEADERS.
const PRIORITY_LENGTH: usize = 5;
/// Bytes that are written anew and count as a frame.
const KIB: usize = 1 << 10;
/// SETTINGS_MAX_FRAME_SIZE of a server (the default).
const MAX_FRAME: usize = 16 << 10;
/// What names and values of a head may have together, with 32 bytes for each, when it is written anew; more if its block may be longer.
const MAX_LIST: usize = 128 << 10;
/// Bytes that wait for the other side, after which no more are written anew: an index of one byte may stand for thousands.
const MAX_OUT: usize = 64 << 10;
/// Frames of a header block.
const MAX_FRAMES: u32 = 1024;
/// The longest block that is compared with the next one.
const MAX_KEPT: usize = 4 << 10;

/// A request that everybody refuses: its two hosts are different.
const REFUSED: &[(&str, &str)] =
    &[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/"), ("host", "b")];
/// Trailers that everybody refuses: `te` concerns a connection.
const REFUSED_TRAILERS: &[(&str, &str)] = &[("te", "trailers")];

/// The bytes of a client on their way to another implementation.
#[derive(Debug)]
pub struct Screen {
    decoder: Decoder,
    /// Bytes that pass unseen: of a payload, or of the preface.
    skip: usize,
    max_block: usize,
    /// What names and values of trailers may have together, with 32 bytes for each.
    max_trailers: usize,
    /// The last stream that a client has opened.
    last_stream: u32,
    /// Whether header blocks are written without the dynamic table: the other side does not know that of the client.
    rewrites: bool,
    /// Whether everything passes: the other side ends the connection.
    is_off: bool,
    /// The last block that passed and changed nothing, for the next one, which is often the same.
    kept: Vec<u8>,
    kept_changes: u64,
    frames: u32,
    empty: u32,
    /// Frames that the other side answers by itself.
    controls: u32,
    /// Bytes without which a header block is not there as a whole.
    needed: usize,
}

/// The connection must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

/// What comes next.
enum Next {
    /// So many bytes as they are.
    Pass(usize),
    /// Something else instead of so many bytes, which was written.
    Replaced(usize),
    /// More bytes are needed.
    More,
}

/// A header block and what is around it.
struct Block<'b> {
    stream: u32,
    is_end: bool,
    bytes: Cow<'b, [u8]>,
    /// Its frames, and their bytes.
    frames: u32,
    length: usize,
}

impl Screen {
    /// Of a connection that begins, with header blocks of at most so many bytes.
    pub fn new(max_block: usize) -> Self {
        Self {
            // Huffman codes have five bits at least.
            decoder: Decoder::with_max_text(max_block.saturating_mul(2)),
            skip: PREFACE,
            max_block,
            max_trailers: usize::MAX,
            last_stream: 0,
            rewrites: false,
            is_off: false,
            kept: Vec::new(),
            kept_changes: 0,
            frames: 0,
            empty: 0,
            controls: 0,
            needed: 0,
        }
    }

    /// With trailers whose names and values have less than so many bytes together, with 32 bytes for each: larger ones are malformed. The other
    /// side would leave fields out, and take the message for whole.
    #[must_use]
    pub fn with_max_trailers(self, max_trailers: usize) -> Self {
        Self { max_trailers, ..self }
    }

    /// How many bytes from the beginning pass as they are. What follows is to be given to [`pass`](Self::pass).
    pub fn scan(&mut self, input: &[u8]) -> usize {
        let (mut rest, mut replaced) = (input, BytesMut::new());
        while !rest.is_empty() {
            match self.next(rest, &mut replaced, false) {
                Ok(Next::Pass(count)) => rest = rest.get(count..).unwrap_or_default(),
                Ok(Next::Replaced(_) | Next::More) | Err(Broken) => break,
            }
        }
        input.len() - rest.len()
    }

    /// Passes on what can be, and removes it from `held`. What is left waits for more, or until `out` was taken.
    ///
    /// Errors: the connection must end.
    pub fn pass(&mut self, held: &mut BytesMut, out: &mut BytesMut) -> Result<(), Broken> {
        while !held.is_empty() && held.len() >= self.needed && out.len() < MAX_OUT {
            self.needed = 0;
            match self.next(held, out, true)? {
                Next::Pass(count) => out.extend_from_slice(&held.split_to(count.min(held.len()))),
                Next::Replaced(count) => drop(held.split_to(count.min(held.len()))),
                Next::More => break,
            }
        }
        Ok(())
    }

    /// Frames since the last call, and those of data among them that have none and do not end their stream.
    pub fn take_frames(&mut self) -> (u32, u32) {
        (std::mem::take(&mut self.frames), std::mem::take(&mut self.empty))
    }

    /// SETTINGS and PING since the last call, each of which is answered.
    pub fn take_controls(&mut self) -> u32 {
        std::mem::take(&mut self.controls)
    }

    /// What `input`, which begins where the last step has ended, begins with. Without `replaces` only what passes is taken, and nothing changes
    /// otherwise.
    fn next(&mut self, input: &[u8], out: &mut BytesMut, replaces: bool) -> Result<Next, Broken> {
        if self.skip > 0 || self.is_off {
            let count = if self.is_off { input.len() } else { self.skip.min(input.len()) };
            self.skip -= count.min(self.skip);
            return Ok(Next::Pass(count));
        }
        let Some(header) = input.first_chunk::<FRAME>() else { return Ok(Next::More) };
        let [a, b, c, kind, flags, stream @ ..] = *header;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        if kind != HEADERS {
            self.frames = self.frames.saturating_add(1);
            self.empty += u32::from(kind == DATA && length == 0 && flags & END_STREAM == 0);
            self.controls += u32::from(matches!(kind, SETTINGS | PING) && flags & ACK == 0);
            self.skip = FRAME + length;
            return self.next(input, out, replaces);
        }
        let stream = u32::from_be_bytes(stream) & 0x7fff_ffff;
        match self.block(input, stream, flags & END_STREAM != 0) {
            Some(Some(block)) => self.screen(&block, out, replaces),
            Some(None) => Ok(Next::More),
            None => self.give_up(input.len()),
        }
    }

    /// The other side sees for itself what is wrong, unless it does not know what came before.
    fn give_up(&mut self, length: usize) -> Result<Next, Broken> {
        if self.rewrites {
            return Err(Broken);
        }
        self.is_off = true;
        Ok(Next::Pass(length))
    }

    /// The header block that `input` begins with: `Some(None)` if it is not there as a whole. `None`: it is none, or too long.
    fn block<'b>(&mut self, input: &'b [u8], stream: u32, is_end: bool) -> Option<Option<Block<'b>>> {
        // First only where it ends: it may arrive byte by byte.
        let (mut rest, mut frames, mut size) = (input, 0_u32, 0_usize);
        loop {
            let Some(header) = rest.first_chunk::<FRAME>() else {
                self.needed = input.len() - rest.len() + FRAME;
                return Some(None);
            };
            let [a, b, c, kind, flags, of @ ..] = *header;
            let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            let expected = if frames == 0 { HEADERS } else { CONTINUATION };
            let is_other = u32::from_be_bytes(of) & 0x7fff_ffff != stream;
            frames += 1;
            size += length;
            // Empty frames take no place in the block.
            if kind != expected
                || is_other
                || length > MAX_FRAME
                || size > self.max_block
                || frames > MAX_FRAMES
            {
                return None;
            }
            let Some(behind) = rest.get(FRAME + length..) else {
                self.needed = input.len() - rest.len() + FRAME + length;
                return Some(None);
            };
            rest = behind;
            if flags & END_HEADERS != 0 {
                break;
            }
        }
        let length = input.len() - rest.len();
        let bytes = fragments(input.get(..length).unwrap_or_default(), frames)?;
        Some(Some(Block { stream, is_end, bytes, frames, length }))
    }

    fn screen(&mut self, block: &Block<'_>, out: &mut BytesMut, replaces: bool) -> Result<Next, Broken> {
        let is_known = !self.rewrites
            && !self.kept.is_empty()
            && self.kept_changes == self.decoder.changes()
            && *self.kept == *block.bytes;
        let are_trailers = block.stream <= self.last_stream;
        if is_known && !are_trailers {
            self.last_stream = block.stream;
            self.frames = self.frames.saturating_add(block.frames);
            return Ok(Next::Pass(block.length));
        }
        if !replaces {
            // It is decoded once: by who can replace it.
            return Ok(Next::More);
        }
        self.frames = self.frames.saturating_add(block.frames);
        let (mut is_odd, mut size, mut fields) = (false, 0_usize, Vec::new());
        let (before, rewrites) = (self.decoder.changes(), self.rewrites);
        let (max_list, max_trailers) = (self.max_block.max(MAX_LIST), self.max_trailers);
        let decoded = self.decoder.decode(&block.bytes, |field| {
            size = size.saturating_add(field.size);
            is_odd |= is_malformed(field, are_trailers)
                || (rewrites && size > max_list)
                || (are_trailers && size >= max_trailers);
            if rewrites && !is_odd {
                fields.push((field.name.clone(), field.value.clone()));
            }
        });
        if decoded.is_err() {
            return self.give_up(block.length);
        }
        self.last_stream = self.last_stream.max(block.stream);
        let mut written = Vec::new();
        if is_odd {
            self.rewrites = true;
            let replaced = if are_trailers { REFUSED_TRAILERS } else { REFUSED };
            replaced
                .iter()
                .for_each(|(name, value)| literal(name.as_bytes(), value.as_bytes(), &mut written));
        } else if rewrites {
            for (name, value) in &fields {
                let value = value.as_ref().map(HeaderValue::as_bytes).unwrap_or_default();
                literal(name_of(name), value, &mut written);
            }
        } else {
            self.kept.clear();
            if before == self.decoder.changes() && block.bytes.len() <= MAX_KEPT && !are_trailers {
                self.kept.extend_from_slice(&block.bytes);
                self.kept_changes = before;
            }
            return Ok(Next::Pass(block.length));
        }
        self.kept = Vec::new();
        write(block, &written, out);
        // What it costs the other side.
        self.frames = self.frames.saturating_add(u32::try_from(written.len() / KIB).unwrap_or(u32::MAX));
        Ok(Next::Replaced(block.length))
    }
}

/// The header block in these frames.
fn fragments(mut input: &[u8], frames: u32) -> Option<Cow<'_, [u8]>> {
    let mut bytes = Cow::Borrowed(&[][..]);
    while let Some(header) = input.first_chunk::<FRAME>() {
        let [a, b, c, kind, flags, ..] = *header;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        let payload = input.get(FRAME..FRAME + length)?;
        input = input.get(FRAME + length..)?;
        let fragment = if kind == HEADERS { fragment(payload, flags)? } else { payload };
        match frames {
            1 => bytes = Cow::Borrowed(fragment),
            _ => bytes.to_mut().extend_from_slice(fragment),
        }
    }
    Some(bytes)
}

/// The part of the payload of HEADERS that is of the header block.
fn fragment(mut payload: &[u8], flags: u8) -> Option<&[u8]> {
    let mut padding = 0;
    if flags & PADDED != 0 {
        let (first, rest) = payload.split_first()?;
        (padding, payload) = (usize::from(*first), rest);
    }
    if flags & PRIORITY != 0 {
        payload = payload.get(PRIORITY_LENGTH..)?;
    }
    payload.get(..payload.len().checked_sub(padding)?)
}

/// Whether a field makes its message malformed, such that an implementation with typed names and values may not decode it.
fn is_malformed(field: &Field, are_trailers: bool) -> bool {
    let Some(value) = &field.value else { return true };
    match &field.name {
        Name::Forbidden => true,
        Name::Header(_) => false,
        _ if are_trailers => true,
        Name::Method => Method::from_bytes(value.as_bytes()).is_err(),
        Name::Scheme | Name::Authority | Name::Path => std::str::from_utf8(value.as_bytes()).is_err(),
    }
}

fn name_of(name: &Name) -> &[u8] {
    match name {
        Name::Method => b":method",
        Name::Scheme => b":scheme",
        Name::Authority => b":authority",
        Name::Path => b":path",
        Name::Forbidden => b"",
        Name::Header(name) => HeaderName::as_str(name).as_bytes(),
    }
}

/// Writes a field without the dynamic table and without Huffman codes. Spec: RFC 7541 section 6.2.2.
fn literal(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.push(0);
    for text in [name, value] {
        let mut length = text.len();
        if length < 0x7f {
            out.push(u8::try_from(length).unwrap_or(0));
        } else {
            out.push(0x7f);
            length -= 0x7f;
            while length >= 0x80 {
                out.push(u8::try_from(length & 0x7f).unwrap_or(0) | 0x80);
                length >>= 7;
            }
            out.push(u8::try_from(length).unwrap_or(0));
        }
        out.extend_from_slice(text);
    }
}

/// Writes the frames of a header block.
fn write(block: &Block<'_>, bytes: &[u8], out: &mut BytesMut) {
    let mut rest = bytes;
    let (mut kind, mut flags) = (HEADERS, if block.is_end { END_STREAM } else { 0 });
    loop {
        let (now, later) = rest.split_at_checked(MAX_FRAME).unwrap_or((rest, b""));
        if later.is_empty() {
            flags |= END_HEADERS;
        }
        out.put_uint(u64::try_from(now.len()).unwrap_or(0), 3);
        out.put_u8(kind);
        out.put_u8(flags);
        out.put_u32(block.stream);
        out.put_slice(now);
        if later.is_empty() {
            return;
        }
        (rest, kind, flags) = (later, CONTINUATION, 0);
    }
}

#[cfg(test)]
mod tests;
