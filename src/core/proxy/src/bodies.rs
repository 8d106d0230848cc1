//! The memory of the process for bodies of requests that filters wait for, or that are kept for retries.
//!
//! A body holds at most as much as it leaves to others, and a part is for the beginnings of bodies alone: long ones, however slowly they arrive,
//! do not keep out short ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the command line says unless told otherwise, in bytes.
pub const DEFAULT_BODY_MEMORY: usize = 256 << 20;

/// Bytes of a body that are its beginning.
const BEGINNING: usize = 64 << 10;

/// The memory for all bodies.
#[derive(Debug)]
pub(crate) struct Budget {
    max: usize,
    /// What is left to beginnings.
    reserve: usize,
    /// The most that is a beginning.
    beginning: usize,
    held: AtomicUsize,
}

impl Budget {
    /// A budget of so many bytes.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        let (reserve, beginning) = (max / 4, BEGINNING.min(max / 16));
        Arc::new(Self { max, reserve, beginning, held: AtomicUsize::new(0) })
    }

    /// Bytes that bodies hold.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// The most that one body can hold.
    pub(crate) fn most(&self) -> usize {
        self.beginning.max((self.max - self.reserve) / 2)
    }
}

/// Why a body cannot grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// It would not fit if it were the only one.
    TooLarge,
    /// Others hold too much at the moment.
    Busy,
}

/// What one body holds.
#[derive(Debug)]
pub(crate) struct Room {
    budget: Arc<Budget>,
    held: usize,
}

impl Room {
    /// Nothing of a budget.
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self { budget: Arc::clone(budget), held: 0 }
    }

    /// Holds more.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let budget = &*self.budget;
        let own = self.held.saturating_add(bytes);
        if own > budget.most() {
            return Err(NoRoom::TooLarge);
        }
        let taken = budget.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            let after = held.checked_add(bytes)?;
            let needed = match own <= budget.beginning {
                true => after,
                false => after.checked_add(own)?.checked_add(budget.reserve)?,
            };
            (needed <= budget.max).then_some(after)
        });
        taken.map_err(|_| NoRoom::Busy)?;
        self.held = own;
        Ok(())
    }

    /// Holds more of what a request can do without, if that leaves half of the memory to others. Returns whether it does.
    pub(crate) fn grow_spare(&mut self, bytes: usize) -> bool {
        let taken = self.budget.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            held.checked_add(bytes).filter(|after| *after <= self.budget.max / 2)
        });
        if taken.is_ok() {
            self.held += bytes;
        }
        taken.is_ok()
    }

    /// Holds less.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.held);
        self.held -= bytes;
        self.budget.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shrink(self.held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_bodies_leave_room_for_short_ones() {
        let budget = Budget::new(64 << 20);
        let mut rooms: Vec<Room> = Vec::new();
        for _ in 0..100 {
            let mut room = Room::new(&budget);
            // As much as it gets.
            while room.grow(1 << 10).is_ok() {}
            assert!(room.held >= BEGINNING, "{}", room.held);
            rooms.push(room);
        }
        assert_eq!(rooms[0].held, 24 << 20);
        assert!(rooms.iter().skip(1).all(|room| room.held <= 12 << 20));
        assert!(budget.held() < 55 << 20, "beginnings have what is left: {}", budget.held());
        assert_eq!(Room::new(&budget).grow((24 << 20) + 1), Err(NoRoom::TooLarge));
        assert_eq!(Room::new(&budget).grow(24 << 20), Err(NoRoom::Busy));
        let first = &mut rooms[0];
        first.shrink(usize::MAX);
        assert_eq!(first.held, 0);
        drop(rooms);
        assert_eq!(budget.held(), 0);
        assert_eq!(Room::new(&budget).grow(24 << 20), Ok(()));
        assert_eq!(Room::new(&Budget::new(0)).grow(1), Err(NoRoom::TooLarge));
    }

    #[test]
    fn what_is_kept_for_retries_leaves_half_to_others() {
        let budget = Budget::new(64 << 20);
        let mut kept: Vec<Room> = (0..40).map(|_| Room::new(&budget)).collect();
        let count = kept.iter_mut().filter_map(|room| room.grow_spare(1 << 20).then_some(())).count();
        assert_eq!((count, budget.held()), (32, 32 << 20));
        assert_eq!(Room::new(&budget).grow(8 << 20), Ok(()));
        kept.clear();
        assert_eq!(budget.held(), 0);
        assert!(!Room::new(&Budget::new(0)).grow_spare(1));
    }
}
