//! What waits of a body, in pieces that are freed one by one as they are taken: a buffer that grows would keep its largest size.

use std::collections::VecDeque;

use crate::buffer::READ_SIZE;

/// Sizes of a piece: small ones are filled before the next begins.
const MIN_PIECE: usize = 512;
const MAX_PIECE: usize = READ_SIZE;
/// What a piece takes beside its bytes: its place in the queue, which may be half empty, and the header of the allocator.
const BESIDES: usize = 4 * size_of::<Vec<u8>>();

/// A queue of bytes. All pieces but the last are full, and hold what they were allocated for.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    queue: VecDeque<Vec<u8>>,
    /// Bytes in it.
    len: usize,
    /// Memory that it takes.
    allocated: usize,
}

/// The memory that a piece takes.
pub(super) fn allocated(piece: &Vec<u8>) -> usize {
    piece.capacity() + BESIDES
}

impl Pieces {
    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory that it takes.
    pub(super) fn allocated(&self) -> usize {
        self.allocated
    }

    /// Adds data. `grow` is asked for the memory of each piece; returns false if it refuses, and not all is added.
    pub(super) fn push(&mut self, mut data: &[u8], mut grow: impl FnMut(usize) -> bool) -> bool {
        while !data.is_empty() {
            let room = self.queue.back().map_or(0, |last| last.capacity() - last.len());
            if room == 0 {
                let size = data.len().clamp(MIN_PIECE, MAX_PIECE);
                let piece = Vec::with_capacity(size);
                if !grow(allocated(&piece)) {
                    return false;
                }
                self.allocated += allocated(&piece);
                self.queue.push_back(piece);
                continue;
            }
            let (now, later) = data.split_at_checked(room).unwrap_or((data, b""));
            if let Some(last) = self.queue.back_mut() {
                last.extend_from_slice(now);
            }
            self.len += now.len();
            data = later;
        }
        true
    }

    /// Takes the first piece.
    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let piece = self.queue.pop_front()?;
        self.len -= piece.len();
        self.allocated -= allocated(&piece);
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_in_order_and_memory_is_counted() {
        let mut random = fastrand::Rng::with_seed(3);
        let (mut pieces, mut expected, mut found) = (Pieces::default(), Vec::new(), Vec::new());
        for _ in 0..2_000 {
            let data: Vec<u8> = (0..random.usize(..3_000)).map(|_| random.u8(..)).collect();
            assert!(pieces.push(&data, |_| true));
            expected.extend(data);
            while random.bool() && pieces.len() > 100_000 {
                let piece = pieces.pop().unwrap();
                assert!(piece.len() <= MAX_PIECE);
                found.extend(piece);
            }
            let taken: usize = pieces.queue.iter().map(allocated).sum();
            assert_eq!(pieces.allocated(), taken);
            assert_eq!(pieces.len(), expected.len() - found.len());
        }
        while let Some(piece) = pieces.pop() {
            found.extend(piece);
        }
        assert!(found == expected);
        assert_eq!((pieces.len(), pieces.allocated(), pieces.queue.capacity()), (0, 0, 0));
    }

    #[test]
    fn single_bytes_take_no_more_than_their_piece() {
        let mut pieces = Pieces::default();
        for _ in 0..100_000 {
            assert!(pieces.push(b"x", |_| true));
        }
        assert!(pieces.allocated() < 125_000, "{}", pieces.allocated());
        assert!(!pieces.push(&[0; MAX_PIECE], |_| false));
    }
}
