//! What a delivery keeps on disk: between its queue and its courier, older than what waits and newer than what is in flight.

use std::collections::VecDeque;
use std::time::Instant;

use crate::items::Items;

/// What the keeper of the disk does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskStep {
    /// Removes the oldest record, which was settled, and calls [`Queue::removed`](crate::queue::Queue::removed).
    Remove,
    /// Reads the oldest record for the courier, and calls [`Queue::loaded`](crate::queue::Queue::loaded).
    Load,
    /// Writes what it has in hand, and calls [`Queue::stored`](crate::queue::Queue::stored).
    Store,
    /// Waits until it is woken.
    Sleep,
    /// Waits until it is woken, and until then at most.
    WaitUntil(Instant),
    /// Ends: the delivery has ended, and everything is on disk.
    End,
}

/// What became of an attempt to write.
#[derive(Debug)]
pub(crate) enum Stored {
    /// It is on disk, with so many bytes in all.
    Yes(u64),
    /// The limit of the disk is reached.
    Full,
    /// It cannot be written.
    Failed(String),
}

/// What the keeper does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeper {
    Sleeping,
    /// Waits until what waits is due.
    Gathering,
    /// Waits for the end of a pause, or for room on disk.
    Pausing,
    Busy,
    Stopped,
}

/// A batch for the courier.
struct Loaded<B> {
    batch: B,
    /// Otherwise it could not be written, and goes to the courier directly.
    is_on_disk: bool,
}

/// The items on disk, and those on their way there or back.
pub(crate) struct Backlog<B> {
    pub(crate) keeper: Keeper,
    /// Items on disk that are not in memory as well.
    stored: u64,
    /// Bytes on disk.
    pub(crate) stored_bytes: u64,
    /// Items that the keeper writes.
    in_hand: usize,
    hand_memory: usize,
    loaded: Option<Loaded<B>>,
    /// Whether the batch in flight is the oldest record.
    is_in_flight: bool,
    /// Whether the oldest record was settled, and is to be removed.
    is_settled: bool,
    /// What the courier left when it ended, and what the disk did not take since then, from old to new.
    left: VecDeque<B>,
    /// Whether what the keeper writes was left so.
    is_hand_left: bool,
    /// Whether the first attempt to open the directory has ended, and whether it is open.
    pub(crate) is_tried: bool,
    is_open: bool,
    /// Whether the disk did not take, or not in time, what it was given last.
    pub(crate) refuses: bool,
    /// Whether there is no room on disk until a record is removed.
    is_full: bool,
    /// The end of the pause after an error of writing: what is there is read meanwhile, which makes room.
    pub(crate) write_after: Option<Instant>,
    /// The end of the pause after an error of reading.
    pub(crate) read_after: Option<Instant>,
    /// Why the last attempt to write or read failed.
    pub(crate) trouble: Option<String>,
    /// Whether there was no memory for items since the queue was empty.
    pub(crate) is_pressed: bool,
}

impl<B: Items> Backlog<B> {
    /// Nothing is kept.
    pub(crate) fn new() -> Self {
        Self {
            keeper: Keeper::Busy,
            stored: 0,
            stored_bytes: 0,
            in_hand: 0,
            hand_memory: 0,
            loaded: None,
            is_in_flight: false,
            is_settled: false,
            left: VecDeque::new(),
            is_hand_left: false,
            is_tried: false,
            is_open: false,
            refuses: false,
            is_full: false,
            write_after: None,
            read_after: None,
            trouble: None,
            is_pressed: false,
        }
    }

    /// Whether the disk has room, and was not left alone after an error.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.is_full && self.write_after.is_none() && self.read_after.is_none()
    }

    /// Whether the disk would take something, as far as one can tell.
    pub(crate) fn can_take(&self) -> bool {
        self.is_open && !self.refuses
    }

    /// All items, except those in flight.
    pub(crate) fn items(&self) -> u64 {
        let loaded = self.loaded.as_ref().map_or(0, |loaded| loaded.batch.len());
        let left: usize = self.left.iter().map(Items::len).sum();
        self.stored + (self.in_hand + loaded + left) as u64
    }

    /// Items on disk, except those in flight: they survive the process.
    pub(crate) fn on_disk(&self) -> u64 {
        let loaded = self.loaded.as_ref().filter(|loaded| loaded.is_on_disk);
        self.stored + loaded.map_or(0, |loaded| loaded.batch.len() as u64)
    }

    /// Memory of its items.
    pub(crate) fn memory(&self) -> usize {
        let loaded = self.loaded.as_ref().map_or(0, |loaded| loaded.batch.memory());
        self.hand_memory + loaded + self.left.iter().map(Items::memory).sum::<usize>()
    }

    /// Whether new items must go to the disk because older ones are there.
    pub(crate) fn holds_older(&self) -> bool {
        self.stored > 0 || self.in_hand > 0
    }

    /// Whether there is something for the courier, or will be.
    pub(crate) fn has_some(&self) -> bool {
        self.holds_older() || self.has_loaded()
    }

    /// Whether the keeper has something that is not on disk.
    pub(crate) fn is_in_hand(&self) -> bool {
        self.in_hand > 0
    }

    /// Whether there is something that is not on disk, or that the courier would get from memory.
    pub(crate) fn has_in_memory(&self) -> bool {
        self.is_in_hand() || self.has_loaded() || !self.left.is_empty()
    }

    /// Whether the keeper has ended, or has nothing: nobody waits for it while it opens the directory.
    pub(crate) fn is_ended(&self) -> bool {
        self.keeper == Keeper::Stopped || !self.is_open && self.is_written()
    }

    /// Whether nothing is left to be written.
    pub(crate) fn is_written(&self) -> bool {
        self.in_hand == 0 && self.loaded.is_none() && self.left.is_empty() && !self.is_settled
    }

    /// Whether a batch is ready for the courier.
    pub(crate) fn has_loaded(&self) -> bool {
        self.loaded.is_some()
    }

    /// When a record is read for the courier, if that must wait.
    pub(crate) fn load_after(&self, now: Instant) -> Option<Instant> {
        self.read_after.filter(|at| self.wants_record() && now < *at)
    }

    fn wants_record(&self) -> bool {
        self.loaded.is_none() && !self.is_in_flight && self.stored > 0
    }

    /// The oldest batch, for the courier.
    pub(crate) fn take_loaded(&mut self) -> Option<B> {
        let Loaded { batch, is_on_disk } = self.loaded.take()?;
        self.is_in_flight = is_on_disk;
        Some(batch)
    }

    /// Nothing of the batch in flight is left with the courier.
    pub(crate) fn settled(&mut self) {
        self.is_settled |= std::mem::take(&mut self.is_in_flight);
    }

    /// The courier ends with a batch of which `left` items were not delivered. Returns whether the batch is a record, which stays on disk
    /// as a whole: the next process delivers it again.
    pub(crate) fn leave_record(&mut self, left: usize) -> bool {
        if left > 0 && std::mem::take(&mut self.is_in_flight) {
            self.stored += left as u64;
            return true;
        }
        false
    }

    /// The courier ends: what it has stays on disk, or goes there.
    pub(crate) fn leave(&mut self, batch: &mut B) {
        let batch = std::mem::take(batch);
        if batch.is_empty() {
            self.settled();
        } else if std::mem::take(&mut self.is_in_flight) {
            self.stored += batch.len() as u64;
        } else {
            self.left.push_back(batch);
        }
        self.leave_loaded();
    }

    /// What is loaded for a courier that has ended stays on disk, or goes there.
    fn leave_loaded(&mut self) {
        match self.loaded.take() {
            Some(Loaded { batch, is_on_disk: true }) => self.stored += batch.len() as u64,
            Some(Loaded { batch, is_on_disk: false }) => self.left.push_back(batch),
            None => {}
        }
    }

    /// What is to be done with records that exist; `None`: nothing.
    pub(crate) fn next_record(&self, now: Instant, is_closing: bool) -> Option<DiskStep> {
        if self.is_settled {
            return Some(DiskStep::Remove);
        }
        let may = !is_closing && self.read_after.is_none_or(|at| now >= at);
        (self.wants_record() && may).then_some(DiskStep::Load)
    }

    /// Whether the keeper must wait before it writes what it has in hand.
    pub(crate) fn next_write(&self, now: Instant) -> DiskStep {
        // It is woken when a record is removed, or the courier takes what is loaded.
        let is_waiting = self.stored > 0 || self.is_in_flight || self.is_settled || self.loaded.is_some();
        match self.write_after.filter(|at| now < *at) {
            Some(at) => DiskStep::WaitUntil(at),
            None if self.is_full && is_waiting => DiskStep::Sleep,
            None => DiskStep::Store,
        }
    }

    /// What was left first, for the keeper, or for the courier once more.
    pub(crate) fn take_left(&mut self) -> Option<B> {
        self.left.pop_front()
    }

    /// The keeper takes what was left first to write it, if it may. Returns whether there is something.
    pub(crate) fn write_left(&mut self, hand: &mut B, may: bool) -> bool {
        let left = if may { self.take_left() } else { None };
        self.is_hand_left = left.is_some();
        if let Some(left) = left {
            *hand = left;
        }
        self.is_hand_left
    }

    /// What the keeper has in hand was not written, and waits for the courier, in its place.
    pub(crate) fn leave_hand(&mut self, hand: &mut B) {
        let batch = std::mem::take(hand);
        match self.is_hand_left {
            // What is left beside it is newer.
            true => self.left.push_front(batch),
            false => self.left.push_back(batch),
        }
        self.holds(hand);
    }

    /// The keeper has this in hand.
    pub(crate) fn holds(&mut self, hand: &B) {
        self.in_hand = hand.len();
        self.hand_memory = hand.memory();
    }

    /// The oldest record was removed; `bytes` are left on disk.
    pub(crate) fn removed(&mut self, bytes: u64) {
        self.is_settled = false;
        // It may have room.
        self.refuses &= !std::mem::take(&mut self.is_full);
        self.stored_bytes = bytes;
    }

    /// The oldest record was read.
    pub(crate) fn loaded(&mut self, batch: B) {
        self.stored = self.stored.saturating_sub(batch.len() as u64);
        if self.read_after.take().is_some() && self.is_at_work() {
            self.trouble = None;
        }
        self.loaded = Some(Loaded { batch, is_on_disk: true });
    }

    /// Items on disk cannot be read. Returns how many of these were there.
    pub(crate) fn lost(&mut self, items: u64, bytes: u64) -> u64 {
        let lost = items.min(self.stored);
        self.stored -= lost;
        self.stored_bytes = bytes;
        lost
    }

    /// The directory is open, with items of an earlier process.
    pub(crate) fn recovered(&mut self, items: u64, bytes: u64) {
        self.stored += items;
        self.stored_bytes = bytes;
        (self.is_tried, self.is_open, self.refuses) = (true, true, false);
        (self.trouble, self.write_after, self.read_after) = (None, None, None);
    }

    /// The directory cannot be opened now.
    pub(crate) fn not_open(&mut self, why: String) {
        (self.is_tried, self.is_open) = (true, false);
        self.trouble = Some(why);
    }

    /// The directory is not there any more. What is in memory as well goes on without it; returns how many other items are lost.
    pub(crate) fn gone(&mut self, why: String) -> u64 {
        if let Some(loaded) = &mut self.loaded {
            loaded.is_on_disk = false;
        }
        (self.is_in_flight, self.is_settled) = (false, false);
        (self.is_open, self.is_full) = (false, false);
        (self.write_after, self.read_after) = (None, None);
        self.trouble = Some(why);
        self.stored_bytes = 0;
        std::mem::take(&mut self.stored)
    }

    /// What the keeper has in hand was written.
    pub(crate) fn stored(&mut self, hand: &mut B, bytes: u64) {
        self.stored += hand.len() as u64;
        self.stored_bytes = bytes;
        hand.clear();
        self.holds(hand);
        self.refuses = false;
        (self.trouble, self.write_after, self.read_after) = (None, None, None);
    }

    /// What the keeper has in hand was not written. Without anything older, it goes to the courier from memory. Returns whether it does.
    pub(crate) fn not_stored(&mut self, hand: &mut B, is_full: bool) -> bool {
        let passes = self.stored == 0 && self.loaded.is_none() && !self.is_in_flight && !self.is_settled;
        if passes {
            self.loaded = Some(Loaded { batch: std::mem::take(hand), is_on_disk: false });
            self.holds(hand);
        } else {
            self.is_full = is_full;
        }
        passes
    }
}
