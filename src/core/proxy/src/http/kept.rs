//! What was read of a body ahead of its host, because a filter has to see it: pieces, which are shared with who asks about them, and freed one
//! by one as the host gets them.

use std::collections::VecDeque;

use bytes::Bytes;

use super::framing::Remaining;
use super::pieces::{Pieces, allocated};
use crate::bodies::{NoRoom, Room};
use crate::buffer::HIGH_WATERMARK;

/// A part of a body.
#[derive(Debug)]
pub(super) struct Kept {
    /// What may be shared, each with the memory that it takes. These come first.
    shared: VecDeque<(Bytes, usize)>,
    /// What arrived since.
    open: Pieces,
    /// Bytes of the body in it.
    len: usize,
    room: Room,
    /// Of HTTP/1.1: what follows it in the input.
    pub(super) follows: Remaining,
}

impl Kept {
    /// Nothing yet of a body, of which all of `follows` is to come.
    pub(super) fn new(room: Room, follows: Remaining) -> Self {
        Self { shared: VecDeque::new(), open: Pieces::default(), len: 0, room, follows }
    }

    /// Bytes of the body.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds data.
    ///
    /// Errors: there is no memory for it, and the body is incomplete.
    pub(super) fn push(&mut self, data: &[u8]) -> Result<(), NoRoom> {
        let (before, room) = (self.open.len(), &mut self.room);
        let mut refused = None;
        self.open.push(data, |bytes| {
            refused = room.grow(bytes).err();
            refused.is_none()
        });
        self.len += self.open.len() - before;
        refused.map_or(Ok(()), Err)
    }

    /// At most so many bytes from the beginning. They are not copied.
    pub(super) fn share(&mut self, mut max: usize) -> Vec<Bytes> {
        while let Some(piece) = self.open.pop() {
            let size = allocated(&piece);
            self.shared.push_back((Bytes::from(piece), size));
        }
        let mut pieces = Vec::new();
        for (piece, _) in &self.shared {
            let piece = piece.slice(..piece.len().min(max));
            if piece.is_empty() {
                break;
            }
            max -= piece.len();
            pieces.push(piece);
        }
        pieces
    }

    /// Passes on what comes first, and frees it: as many pieces as may wait for a host at once. Returns the number of bytes; 0 if nothing is
    /// left.
    pub(super) fn take(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        let mut count = 0;
        while count < HIGH_WATERMARK {
            let size = if let Some((piece, size)) = self.shared.pop_front() {
                take(&piece);
                count += piece.len();
                size
            } else if let Some(piece) = self.open.pop() {
                take(&piece);
                count += piece.len();
                allocated(&piece)
            } else {
                break;
            };
            self.room.shrink(size);
        }
        self.len -= count;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::Budget;

    #[test]
    fn a_body_is_shared_and_passed_on_in_pieces() {
        let budget = Budget::new(64 << 20);
        let mut kept = Kept::new(Room::new(&budget), Remaining::Done);
        let mut random = fastrand::Rng::with_seed(7);
        let mut whole: Vec<u8> = Vec::new();
        for round in 0..3 {
            for _ in 0..200 {
                let data: Vec<u8> = (0..random.usize(..20_000)).map(|_| random.u8(..)).collect();
                kept.push(&data).unwrap();
                whole.extend(data);
            }
            assert_eq!(kept.len(), whole.len());
            for max in [0, 1, 100_000, whole.len(), usize::MAX] {
                let shared = kept.share(max);
                assert!(shared.iter().all(|piece| (1..=16 << 10).contains(&piece.len())));
                assert!(shared.concat() == whole[..max.min(whole.len())], "{round} {max}");
            }
        }
        assert!(budget.held() < whole.len() + whole.len() / 10, "{} {}", budget.held(), whole.len());
        kept.push(b"not shared").unwrap();
        whole.extend(b"not shared");
        let mut passed = Vec::new();
        while kept.len() > 0 {
            let before = budget.held();
            let count = kept.take(|piece| {
                assert!(piece.len() <= 16 << 10);
                passed.extend_from_slice(piece);
            });
            assert!((1..HIGH_WATERMARK + (16 << 10)).contains(&count));
            assert!(budget.held() <= before - count, "what was passed on is free");
        }
        assert!(passed == whole);
        assert_eq!((kept.take(|_| ()), budget.held()), (0, 0));
    }

    #[test]
    fn a_body_without_room_says_so() {
        let budget = Budget::new(140_000);
        let mut kept = Kept::new(Room::new(&budget), Remaining::Done);
        assert_eq!(kept.push(&[0; 30_000]), Ok(()));
        assert_eq!(kept.push(&[0; 30_000]), Err(NoRoom::TooLarge));
        let mut other = Kept::new(Room::new(&budget), Remaining::Done);
        assert_eq!(other.push(&[0; 40_000]), Err(NoRoom::Busy));
        drop((kept, other));
        assert_eq!(budget.held(), 0);
    }
}
