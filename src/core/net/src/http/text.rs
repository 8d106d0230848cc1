//! A long text in memory.

use std::io;

use bytes::Bytes;

/// Length of a piece: allocated with pages of its own (see `mixer_base::memory`), and so short that the system takes them back in a
/// fraction of a millisecond, between two of which the worker of the core goes on.
const PIECE: usize = 512 << 10;
/// Bytes that are written before other threads may run: some microseconds of rendering.
const PART: usize = 4 << 10;

/// A text that is written piece by piece: nothing is copied while it grows, and it is released piece by piece. While it is written, threads
/// that wait for the core run now and then (see `mixer_base::scheduling`).
#[derive(Debug, Default)]
pub struct LongText {
    pieces: Vec<Bytes>,
    last: Vec<u8>,
    length: usize,
}

impl LongText {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The text as one; a copy if it is long.
    pub fn into_bytes(mut self) -> Vec<u8> {
        if self.pieces.is_empty() {
            return std::mem::take(&mut self.last);
        }
        [self.pieces.concat(), self.last].concat()
    }

    /// The pieces, none of them empty.
    pub(super) fn into_pieces(mut self) -> Vec<Bytes> {
        if !self.last.is_empty() {
            self.pieces.push(self.last.into());
        }
        self.pieces
    }
}

impl From<Bytes> for LongText {
    fn from(text: Bytes) -> Self {
        let length = text.len();
        let pieces = Some(text).filter(|text| !text.is_empty()).into_iter().collect();
        Self { pieces, last: Vec::new(), length }
    }
}

impl From<Vec<u8>> for LongText {
    fn from(text: Vec<u8>) -> Self {
        Self::from(Bytes::from(text))
    }
}

impl io::Write for LongText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.last.len() == PIECE {
                self.pieces.push(std::mem::take(&mut self.last).into());
            }
            if self.last.capacity() == 0 && !self.pieces.is_empty() {
                self.last.reserve_exact(PIECE);
            }
            let (now, later) = rest.split_at(rest.len().min(PIECE - self.last.len()));
            self.last.extend_from_slice(now);
            rest = later;
        }
        let before = self.length / PART;
        self.length += bytes.len();
        if self.length / PART != before {
            mixer_base::scheduling::let_others_run();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn what_is_written_is_kept_in_pieces() {
        for (written, pieces) in
            [(0, 0), (1, 1), (PIECE, 1), (PIECE + 1, 2), (3 * PIECE, 3), (3 * PIECE + 5, 4)]
        {
            let all: Vec<u8> = (0..written).map(|n| u8::try_from(n % 251).unwrap()).collect();
            for step in [1000, PIECE - 1, PIECE, 5 * PIECE] {
                let write = || {
                    let mut text = LongText::default();
                    all.chunks(step).for_each(|part| text.write_all(part).unwrap());
                    text
                };
                assert_eq!((write().len(), write().is_empty()), (written, written == 0));
                let found = write().into_pieces();
                assert_eq!((found.len(), found.concat() == all), (pieces, true), "{written} by {step}");
                assert!(write().into_bytes() == all, "{written} by {step}");
            }
        }
    }
}
