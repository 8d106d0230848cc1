//! What happens to items that are kept on disk. The keeper, who owns the disk, does one step at a time and tells what became of it.

use std::time::{Duration, Instant};

use super::{Courier, Queue, Signal, Step};
use crate::backlog::{Backlog, DiskStep, Keeper, Stored};
use crate::items::Items;

/// Most bytes of a record, unless one item has more.
const RECORD: usize = 1 << 20;
/// The pause after an error of the disk.
const DISK_PAUSE: Duration = Duration::from_secs(1);
/// How long a courier waits for the disk: to be opened at the start, since what is there is older, and to take one record more at the end.
const PATIENCE: Duration = Duration::from_secs(1);

impl<B: Items> Queue<B> {
    /// Keeps what has no room on disk.
    pub(crate) fn with_backlog(mut self) -> Self {
        self.backlog = Some(Backlog::new());
        self
    }

    /// An earlier process left so many items on disk.
    pub(crate) fn recovered(&mut self, items: u64, bytes: u64) -> Signal {
        self.counts.accepted += items;
        self.counts.recovered += items;
        self.at_disk(|backlog| backlog.recovered(items, bytes))
    }

    /// Whether items are kept on disk.
    pub(crate) fn has_backlog(&self) -> bool {
        self.backlog.is_some()
    }

    /// Whether the courier has ended, or waits until everything is on disk.
    fn has_left(&self) -> bool {
        self.is_closing && (self.is_late || self.courier == Courier::Stopped || self.left_by.is_some())
    }

    /// Whether items that wait go to the disk: older ones are there, the sink fails, the queue is half full, or the courier leaves them there. Never while
    /// the courier of a delivery that closes goes on because the disk takes nothing.
    fn spills(&self, backlog: &Backlog<B>) -> bool {
        let has_ended = self.has_left();
        if self.is_closing && !has_ended && !backlog.can_take() {
            return false;
        }
        let is_pressed = backlog.is_pressed || self.failures.in_a_row() > 0 || self.is_half_full();
        !self.waiting.is_empty() && (has_ended || is_pressed || backlog.holds_older())
    }

    fn is_half_full(&self) -> bool {
        let bounds = self.settings.bounds;
        self.waiting.len() > bounds.items / 2 || self.waiting.bytes() > bounds.bytes / 2
    }

    /// Whether the keeper must be woken for items that were added.
    pub(super) fn rouse_keeper(&mut self) -> Signal {
        let Some(backlog) = &self.backlog else { return Signal::None };
        let wakes = match backlog.keeper {
            Keeper::Sleeping => self.spills(backlog),
            Keeper::Gathering => self.is_full_batch(),
            Keeper::Pausing | Keeper::Busy | Keeper::Stopped => false,
        };
        if let Some(backlog) = self.backlog.as_mut().filter(|_| wakes) {
            backlog.keeper = Keeper::Busy;
            return Signal::WakeKeeper;
        }
        Signal::None
    }

    /// Whether what the courier has is to be kept on disk: the delivery closes, what is left would not be delivered soon, and the disk takes it.
    fn leaves_rest(&self) -> bool {
        let Some(backlog) = self.backlog.as_ref().filter(|_| self.is_closing) else { return false };
        let would_stay = self.left_by.is_some() || backlog.has_some() || self.failures.in_a_row() > 0;
        backlog.can_take() && would_stay
    }

    /// The courier leaves what it has to the disk, and ends once everything is there: the next process goes on with it. `None`: it is not to leave it, or the
    /// disk does not take it, or not in time; then the courier delivers until its deadline.
    pub(super) fn leave_to_disk(&mut self, now: Instant, batch: &mut B) -> Option<Step> {
        if !self.leaves_rest() {
            self.left_by = None;
            return None;
        }
        let by = *self.left_by.get_or_insert(now + PATIENCE);
        self.leave(batch);
        let is_in_memory = self.backlog.as_ref().is_some_and(Backlog::has_in_memory);
        if self.waiting.is_empty() && !is_in_memory {
            return Some(Step::End);
        }
        if now < by {
            self.courier = Courier::Awaiting;
            return Some(Step::LeaveUntil(by));
        }
        self.courier = Courier::Busy;
        self.left_by = None;
        if let Some(backlog) = &mut self.backlog {
            backlog.refuses = true;
        }
        None
    }

    /// What the courier, whose batch is empty, does about the disk, which comes before what waits; `None`: nothing.
    pub(super) fn next_from_disk(&mut self, now: Instant, batch: &mut B) -> Option<Step> {
        let backlog = self.backlog.as_mut()?;
        let (is_closing, is_older) = (self.is_closing, backlog.has_some());
        let next = match backlog.take_loaded() {
            None if is_closing => backlog.take_left(),
            loaded => loaded,
        };
        if let Some(next) = next {
            *batch = next;
            self.in_flight = batch.len();
            self.memory.courier = batch.memory();
            self.failures.begin(now);
            return Some(Step::Deliver);
        }
        let is_awaited = match is_closing {
            // What is on disk stays there. What the disk does not take comes back from the keeper.
            true => backlog.is_in_hand() && self.waiting.is_empty(),
            false => is_older,
        };
        if is_awaited {
            self.courier = Courier::Awaiting;
            return Some(Step::Sleep);
        }
        if is_closing || backlog.is_tried {
            return None;
        }
        let by = *self.opened_by.get_or_insert(now + PATIENCE);
        (now < by).then(|| {
            self.courier = Courier::Awaiting;
            Step::WaitUntil(by)
        })
    }

    /// The courier ends, and what it has is kept on disk.
    pub(super) fn leave(&mut self, batch: &mut B) {
        let Some(backlog) = &mut self.backlog else { return };
        backlog.leave(batch);
        self.in_flight = 0;
        self.courier = Courier::Stopped;
        self.release_unused(batch);
    }

    /// What the keeper does next. `hand` has what it is to write.
    pub(crate) fn next_disk_step(&mut self, now: Instant, hand: &mut B) -> DiskStep {
        let Some(mut backlog) = self.backlog.take() else { return DiskStep::End };
        backlog.keeper = Keeper::Busy;
        let step = match backlog.next_record(now, self.is_closing) {
            Some(step) => step,
            None => self.next_write(now, hand, &mut backlog),
        };
        self.backlog = Some(backlog);
        step
    }

    fn next_write(&mut self, now: Instant, hand: &mut B, backlog: &mut Backlog<B>) -> DiskStep {
        let due = self.since.map(|since| since + self.settings.batching.wait);
        let due = due.unwrap_or_else(|| now + self.settings.batching.wait);
        let spills = self.spills(backlog);
        if hand.is_empty() {
            let is_left = backlog.write_left(hand, self.has_left() || !self.is_closing);
            // What waits is newer.
            let spills = spills && !is_left;
            if spills && (self.is_closing || self.is_full_batch() || self.is_half_full() || now >= due) {
                let batching = self.settings.batching;
                self.since = None;
                self.waiting.move_front(hand, batching.items, batching.bytes.min(RECORD));
            } else if spills {
                self.since.get_or_insert(now);
            }
            backlog.holds(hand);
        }
        if !hand.is_empty() {
            let step = if self.is_closing { DiskStep::Store } else { backlog.next_write(now) };
            if step != DiskStep::Store {
                backlog.keeper = Keeper::Pausing;
            }
            return step;
        }
        if let Some(at) = backlog.load_after(now).filter(|_| !self.is_closing) {
            backlog.keeper = Keeper::Pausing;
            return DiskStep::WaitUntil(at);
        }
        if spills {
            backlog.keeper = Keeper::Gathering;
            return DiskStep::WaitUntil(due);
        }
        if self.waiting.is_empty() {
            backlog.is_pressed = false;
        }
        if self.is_closing && self.courier == Courier::Stopped && backlog.is_written() {
            backlog.keeper = Keeper::Stopped;
            return DiskStep::End;
        }
        backlog.keeper = Keeper::Sleeping;
        DiskStep::Sleep
    }

    /// The keeper has removed the oldest record; `bytes` are left on disk. `trouble`: the disk did not take that, which stops nothing.
    pub(crate) fn removed(&mut self, bytes: u64, trouble: Option<String>) -> Signal {
        self.at_disk(|backlog| {
            backlog.removed(bytes);
            if trouble.is_some() {
                backlog.trouble = trouble;
            }
        })
    }

    /// The keeper has removed what it could not before.
    pub(crate) fn tidied(&mut self) {
        // What is full or pauses has a trouble of its own.
        if let Some(backlog) = self.backlog.as_mut().filter(|backlog| backlog.is_at_work()) {
            backlog.trouble = None;
        }
    }

    /// The keeper has read the oldest record.
    pub(crate) fn loaded(&mut self, batch: B) -> Signal {
        if self.courier == Courier::Stopped {
            // It has ended meanwhile, and the record stays on disk.
            return Signal::None;
        }
        self.memory.overdraw(batch.memory());
        self.at_disk(|backlog| backlog.loaded(batch))
    }

    /// Items on disk cannot be read and were removed; `bytes` are left on disk.
    pub(crate) fn unreadable(&mut self, items: u64, bytes: u64, why: String) -> Signal {
        let mut lost = 0;
        let signal = self.at_disk(|backlog| {
            lost = backlog.lost(items, bytes);
            backlog.trouble = Some(why);
        });
        self.count_failed(lost);
        signal
    }

    /// The keeper has written what it has in hand, or tried.
    pub(crate) fn stored(&mut self, now: Instant, hand: &mut B, stored: Stored) -> Signal {
        let (is_closing, has_ended) = (self.is_closing, self.courier == Courier::Stopped);
        // It gets on, or the courier does.
        self.left_by = self.left_by.filter(|_| matches!(stored, Stored::Yes(_))).map(|_| now + PATIENCE);
        let mut closed = 0;
        let signal = self.at_disk(|backlog| {
            let (is_full, why) = match stored {
                Stored::Yes(bytes) => return backlog.stored(hand, bytes),
                Stored::Full => (true, "the limit of its size is reached".to_owned()),
                Stored::Failed(why) => (false, why),
            };
            backlog.trouble = Some(why);
            backlog.refuses = true;
            if is_closing && has_ended {
                closed = hand.len() as u64;
                hand.clear();
                backlog.holds(hand);
            } else if is_closing {
                // The courier has it once more.
                backlog.leave_hand(hand);
            } else if !backlog.not_stored(hand, is_full) && !is_full {
                backlog.write_after = Some(now + DISK_PAUSE);
            }
        });
        self.counts.closed += closed;
        self.release_unused_of_disk();
        signal
    }

    /// The disk cannot be opened yet; what is to be written has failed until then.
    pub(crate) fn disk_not_open(&mut self, why: String) -> Signal {
        self.at_disk(|backlog| backlog.not_open(why))
    }

    /// What was on disk is not there any more. Returns how many items are lost with it.
    pub(crate) fn gone(&mut self, why: String) -> (u64, Signal) {
        let mut lost = 0;
        let signal = self.at_disk(|backlog| lost = backlog.gone(why));
        self.count_failed(lost);
        (lost, signal)
    }

    /// The disk cannot be read now; it is tried again after a pause.
    pub(crate) fn disk_failed(&mut self, now: Instant, why: String) {
        if let Some(backlog) = &mut self.backlog {
            backlog.read_after = Some(now + DISK_PAUSE);
            backlog.trouble = Some(why);
        }
    }

    /// Changes the backlog. Returns whether the courier that waits for it has something to do then.
    fn at_disk(&mut self, change: impl FnOnce(&mut Backlog<B>)) -> Signal {
        let Some(backlog) = &mut self.backlog else { return Signal::None };
        change(backlog);
        let goes_on = match self.courier {
            // It may be that everything is on disk, or that the disk does not take it.
            Courier::Awaiting if self.is_closing => true,
            Courier::Awaiting => backlog.has_loaded() || !backlog.holds_older(),
            // It fell asleep before the disk was opened, which had something.
            Courier::Sleeping => backlog.has_loaded(),
            _ => false,
        };
        if goes_on { self.rouse() } else { Signal::None }
    }

    /// Why the disk failed, if it does.
    pub(crate) fn disk_trouble(&self) -> Option<String> {
        self.backlog.as_ref()?.trouble.clone()
    }
}
