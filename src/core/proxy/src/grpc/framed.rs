//! A message with its prefix, as it is sent: its beginning, and perhaps a field of any length that comes last and is not copied.

use std::rc::Rc;

use bytes::{BufMut as _, Bytes, BytesMut};
use tonic::Status;

/// The bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A message. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Framed {
    /// The prefix, and the message without what follows.
    pub(crate) head: Bytes,
    body: Rc<[Bytes]>,
    /// Whether the field is text: what is not UTF-8 is replaced while it is sent.
    is_text: bool,
}

impl From<Bytes> for Framed {
    /// A message and its prefix.
    fn from(head: Bytes) -> Self {
        Self { head, body: Rc::default(), is_text: false }
    }
}

impl Framed {
    /// A message, which does not outlive its encoding.
    ///
    /// Errors: it has more than 4 GiB.
    pub(crate) fn of(message: impl prost::Message) -> Result<Self, Status> {
        Self::begin(message.encoded_len(), 0, |out| message.encode_raw(out))
    }

    /// A message that begins with what `encode` writes, of `length` bytes, so many of which follow.
    ///
    /// Errors: it has more than 4 GiB.
    pub(crate) fn begin(
        length: usize,
        follow: usize,
        encode: impl FnOnce(&mut BytesMut),
    ) -> Result<Self, Status> {
        let told = u32::try_from(length)
            .map_err(|_| Status::resource_exhausted("the request has more than 4 GiB"))?;
        let mut out = BytesMut::with_capacity(PREFIX + length - follow);
        out.put_u8(0);
        out.put_u32(told);
        encode(&mut out);
        Ok(Self::from(out.freeze()))
    }

    /// With the end of a message: the value of a field of bytes, or of text.
    pub(crate) fn with(self, body: Vec<Bytes>, is_text: bool) -> Self {
        Self { body: body.into(), is_text, ..self }
    }

    /// Its length, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.body.iter().map(Bytes::len).sum::<usize>()
    }

    /// What follows the head, in pieces.
    pub(crate) fn body(&self) -> impl Iterator<Item = Bytes> + use<> {
        let (body, mut text) = (Rc::clone(&self.body), self.is_text.then(Text::default));
        (0..body.len()).filter_map(move |index| {
            let piece = body.get(index)?.clone();
            match &mut text {
                Some(text) => {
                    Some(text.next(piece, index + 1 == body.len())).filter(|piece| !piece.is_empty())
                }
                None => Some(piece),
            }
        })
    }
}

/// Text in pieces: each byte that is not of UTF-8 becomes `!`, as with Envoy, so that its length stays.
#[derive(Debug, Default)]
struct Text {
    /// The beginning of a character whose end is in the next piece.
    begun: Vec<u8>,
}

impl Text {
    fn next(&mut self, piece: Bytes, is_last: bool) -> Bytes {
        if self.begun.is_empty() && std::str::from_utf8(&piece).is_ok() {
            return piece;
        }
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(&piece);
        let mut out = BytesMut::with_capacity(all.len());
        let mut rest = all.as_slice();
        while let Err(error) = std::str::from_utf8(rest) {
            let (valid, invalid) = rest.split_at_checked(error.valid_up_to()).unwrap_or((rest, b""));
            out.put_slice(valid);
            let length = match error.error_len() {
                None if !is_last => {
                    self.begun = invalid.to_vec();
                    return out.freeze();
                }
                None => invalid.len(),
                Some(length) => length,
            };
            out.put_bytes(b'!', length);
            rest = invalid.get(length..).unwrap_or_default();
        }
        out.put_slice(rest);
        out.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_pieces_is_that_of_the_whole() {
        let expected = |bytes: &[u8]| {
            let chunks = bytes.utf8_chunks();
            chunks
                .map(|chunk| format!("{}{}", chunk.valid(), "!".repeat(chunk.invalid().len())))
                .collect::<String>()
        };
        let mut random = fastrand::Rng::with_seed(5);
        let parts: [&[u8]; 9] = [
            b"a",
            b"bcd",
            "é".as_bytes(),
            "☺".as_bytes(),
            "😀".as_bytes(),
            b"\xff",
            b"\xe2\x98",
            b"\xf0\x9f\x98",
            b"\x80",
        ];
        for _ in 0..2_000 {
            let whole: Vec<u8> =
                (0..random.usize(..30)).flat_map(|_| parts[random.usize(..parts.len())].to_vec()).collect();
            let (mut rest, mut pieces) = (whole.as_slice(), Vec::new());
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(random.usize(1..=rest.len().min(5)));
                pieces.push(Bytes::copy_from_slice(piece));
                rest = behind;
            }
            let framed = Framed::from(Bytes::new()).with(pieces.clone(), true);
            let sent: Vec<Bytes> = framed.body().collect();
            assert_eq!(String::from_utf8(sent.concat()).unwrap(), expected(&whole), "{pieces:?}");
            let sent: Vec<Bytes> = framed.clone().with(pieces, false).body().collect();
            assert_eq!(sent.concat(), whole);
        }
    }
}
