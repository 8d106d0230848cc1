//! What happens to items, as a state machine: no clock, lock or thread.

mod disk;

use std::sync::Arc;
use std::time::Instant;

use mixer_base::budget::{Account, Charge};

use crate::backlog::Backlog;
use crate::items::{Addition, Items};
use crate::retry::{Failures, Verdict};
use crate::settings::{Bounds, Settings, WhenFull};
use crate::sink::Tally;

/// Why items were not accepted. They are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAccepted {
    /// There was no room, or no memory.
    Full,
    /// The delivery has ended.
    Closed,
    /// They waited for room, and the server [stops](crate::Holds::end).
    Stopping,
}

/// What became of all items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeliveryStatus {
    /// Items that were handed over, also those that were dropped at once, and those that an earlier process left on disk.
    pub accepted: u64,
    /// Items that an earlier process left on disk.
    pub recovered: u64,
    /// Items that the sink delivered.
    pub delivered: u64,
    /// Items dropped because there was no room or no memory: those that arrived, or those that waited longest.
    pub full: u64,
    /// Items that the sink did not deliver, at the last of its attempts.
    pub failed: u64,
    /// Items dropped because the delivery had ended, at its deadline, or because they waited for room when the server stopped.
    pub closed: u64,
    /// Items in the queue.
    pub queued: usize,
    /// Their bytes.
    pub queued_bytes: usize,
    /// Items that the sink has, or that wait for its next attempt.
    pub in_flight: usize,
    /// Items on disk, or on their way there or back.
    pub spilled: u64,
    /// Those of `spilled` that are on disk, and survive the process.
    pub on_disk: u64,
    /// Bytes on disk.
    pub spilled_bytes: u64,
    /// Attempts that failed since the last one that did not.
    pub failures_in_a_row: u32,
    /// Whether the circuit breaker is open.
    pub is_breaker_open: bool,
}

impl DeliveryStatus {
    /// Items of which it is not known yet what becomes of them.
    pub fn waiting(&self) -> u64 {
        (self.queued + self.in_flight) as u64 + self.spilled
    }

    /// Items that were dropped, for any reason.
    pub fn dropped(&self) -> u64 {
        self.full + self.failed + self.closed
    }

    /// Whether every item is counted once.
    pub fn adds_up(&self) -> bool {
        self.accepted == self.delivered + self.dropped() + self.waiting()
    }
}

/// What the courier does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Gives the batch to the sink, and then calls [`Queue::completed`].
    Deliver,
    /// Waits until it is woken.
    Sleep,
    /// Waits until it is woken, and until then at most.
    WaitUntil(Instant),
    /// As `WaitUntil`; the keeper of the disk is to be woken first, for it is to write what is left.
    LeaveUntil(Instant),
    /// Ends: the delivery closes, and nothing waits.
    End,
}

/// What a producer does after its items were accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Nothing.
    None,
    /// Wakes the courier.
    Wake,
    /// Wakes the keeper of the disk.
    WakeKeeper,
    /// Starts the courier.
    Start,
}

/// What the courier does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Courier {
    /// It does not run: not yet, or no more.
    Stopped,
    /// It waits for the first item.
    Sleeping,
    /// It waits for more items, until a batch is due.
    Gathering,
    /// It waits before the next attempt.
    Pausing,
    /// It waits for a batch from the disk, or until the disk has what is left.
    Awaiting,
    /// It looks at the queue before it waits.
    Busy,
}

/// The items that wait, the batch in flight, and all counts.
pub(crate) struct Queue<B> {
    settings: Settings,
    waiting: B,
    /// When the courier saw the first item that waits.
    since: Option<Instant>,
    /// Number of the items in flight.
    in_flight: usize,
    memory: Memory,
    /// What is kept on disk; `None`: nothing ever is.
    backlog: Option<Backlog<B>>,
    /// Until when the courier waits for the disk to be opened.
    opened_by: Option<Instant>,
    /// Until when the courier of a delivery that closes waits for the disk to take what is left; `None`: it does not.
    left_by: Option<Instant>,
    courier: Courier,
    failures: Failures,
    /// The end of the pause before the next attempt.
    retry_at: Option<Instant>,
    /// Why the last attempt failed.
    trouble: Option<String>,
    is_closing: bool,
    /// Whether the deadline of closing has passed: nothing is tried again.
    is_late: bool,
    /// Whether late items start the courier again. They are dropped otherwise.
    restarts: bool,
    counts: DeliveryStatus,
}

/// The memory of all containers.
struct Memory {
    account: Option<Arc<Account>>,
    /// Bytes that the account has acquired, if there is one.
    acquired: usize,
    /// Bytes that the container of the courier held when it was last seen.
    courier: usize,
}

impl Memory {
    /// Acquires memory for what exists already.
    fn overdraw(&mut self, bytes: usize) {
        self.acquired += bytes;
        if let Some(account) = &self.account {
            account.overdraw(bytes);
        }
    }

    fn acquire(&mut self, bytes: usize) -> bool {
        let acquired = match &self.account {
            Some(account) if bytes > 0 => account.acquire(bytes),
            _ => true,
        };
        self.acquired += if acquired { bytes } else { 0 };
        acquired
    }

    /// Whether there is memory for so many bytes once others are released, as far as one can tell.
    fn can_acquire(&self, bytes: usize, released: usize) -> bool {
        let fits = |account: &Arc<Account>| {
            let others = account.share().used().saturating_sub(released);
            others.saturating_add(bytes) <= account.share().limit()
        };
        bytes <= released && self.account.as_ref().is_none_or(fits)
    }

    /// Releases what is not in use any more.
    fn keep(&mut self, used: usize) {
        debug_assert!(used <= self.acquired, "{used} of {} bytes", self.acquired);
        let unused = self.acquired.saturating_sub(used);
        self.acquired -= unused;
        if let Some(account) = self.account.as_ref().filter(|_| unused > 0) {
            account.release(unused);
        }
    }
}

impl<B: Items> Queue<B> {
    pub(crate) fn new(settings: Settings, restarts: bool) -> Self {
        let account = settings.memory.as_ref().map(|share| Arc::new(share.open()));
        Self {
            failures: Failures::new(settings.retry, fastrand::Rng::new()),
            retry_at: None,
            trouble: None,
            is_late: false,
            settings,
            waiting: B::default(),
            since: None,
            in_flight: 0,
            memory: Memory { account, acquired: 0, courier: 0 },
            backlog: None,
            opened_by: None,
            left_by: None,
            // A courier that is not started by its first items is started with the queue.
            courier: if restarts { Courier::Stopped } else { Courier::Busy },
            is_closing: false,
            restarts,
            counts: DeliveryStatus::default(),
        }
    }

    /// Adds items, all or none.
    pub(crate) fn accept(&mut self, addition: impl Addition<B>) -> Result<Signal, NotAccepted> {
        let items = addition.items();
        self.counts.accepted += items as u64;
        if self.has_closed() {
            self.counts.closed += items as u64;
            return Err(NotAccepted::Closed);
        }
        if !self.make_room(&addition) {
            self.count_full(items);
            return Err(NotAccepted::Full);
        }
        Ok(self.add(addition))
    }

    /// Items that the sink would not take, whatever happens: they fail at once.
    pub(crate) fn refuse(&mut self, items: usize) {
        self.counts.accepted += items as u64;
        self.count_failed(items as u64);
    }

    /// Items that waited for room when the server stopped: they are dropped.
    pub(crate) fn stop_waiting(&mut self, items: usize) -> NotAccepted {
        self.counts.accepted += items as u64;
        self.counts.closed += items as u64;
        NotAccepted::Stopping
    }

    /// As [`accept`](Self::accept), but without room nothing is dropped or counted, and the addition is returned.
    pub(crate) fn accept_if_room<A: Addition<B>>(
        &mut self,
        addition: A,
    ) -> Result<Result<Signal, NotAccepted>, A> {
        if self.has_closed() {
            return Ok(self.accept(addition));
        }
        if !self.acquire_room(&addition) {
            return Err(addition);
        }
        self.counts.accepted += addition.items() as u64;
        Ok(Ok(self.add(addition)))
    }

    /// Acquires memory for an item that waits for room outside of the queue; without a share, nothing is acquired.
    ///
    /// Errors: there is no memory.
    pub(crate) fn hold(&self, bytes: usize) -> Result<Option<Charge>, NotAccepted> {
        let charge =
            self.memory.account.as_ref().map(|account| account.charge(bytes).ok_or(NotAccepted::Full));
        charge.transpose()
    }

    /// As [`hold`](Self::hold) for an item that was held, and found no room.
    pub(crate) fn hold_again(&self, bytes: usize) -> Option<Charge> {
        self.memory.account.as_ref().map(|account| account.overdrawn(bytes))
    }

    /// Adds items for which room was acquired.
    fn add(&mut self, addition: impl Addition<B>) -> Signal {
        addition.add_to(&mut self.waiting);
        debug_assert_eq!(self.used_memory(), self.memory.acquired);
        let signal = match self.courier {
            Courier::Pausing | Courier::Awaiting => Signal::None,
            Courier::Gathering if !self.is_full_batch() => Signal::None,
            Courier::Stopped if self.backlog.is_some() => Signal::None,
            _ => self.rouse(),
        };
        if signal == Signal::None { self.rouse_keeper() } else { signal }
    }

    /// Whether items that arrive are dropped, because the delivery has ended.
    fn has_closed(&self) -> bool {
        self.is_closing && self.courier == Courier::Stopped && !self.restarts
    }

    /// The courier has something to do.
    fn rouse(&mut self) -> Signal {
        match std::mem::replace(&mut self.courier, Courier::Busy) {
            Courier::Busy => Signal::None,
            Courier::Sleeping | Courier::Gathering | Courier::Pausing | Courier::Awaiting => Signal::Wake,
            Courier::Stopped => Signal::Start,
        }
    }

    /// The courier has panicked, and is not restarted before the next items arrive.
    pub(crate) fn courier_failed(&mut self) {
        self.courier = Courier::Stopped;
    }

    /// Starts the courier before there are items.
    pub(crate) fn start(&mut self) -> Signal {
        match self.courier {
            Courier::Stopped => self.rouse(),
            _ => Signal::None,
        }
    }

    /// Whether items of so many bytes fit.
    fn has_room(&self, items: usize, bytes: usize) -> bool {
        let Bounds { bytes: most, takes_larger, .. } = self.settings.bounds;
        let fits = self.fits(self.waiting.len(), items, self.waiting.bytes(), bytes);
        fits || takes_larger && bytes > most && self.waiting.is_empty()
    }

    /// Whether new items fit beside so many that wait.
    fn fits(&self, waiting: usize, items: usize, waiting_bytes: usize, bytes: usize) -> bool {
        let Bounds { items: most_items, bytes: most_bytes, .. } = self.settings.bounds;
        let within =
            |kept: usize, new: usize, most: usize| kept.checked_add(new).is_some_and(|sum| sum <= most);
        within(waiting, items, most_items) && within(waiting_bytes, bytes, most_bytes)
    }

    /// Acquires memory for items that fit. Returns false if there is no room or no memory.
    fn acquire_room(&mut self, addition: &impl Addition<B>) -> bool {
        if !self.has_room(addition.items(), addition.bytes()) {
            return false;
        }
        let acquired = self.memory.acquire(addition.growth(&self.waiting));
        if let Some(backlog) = self.backlog.as_mut().filter(|_| !acquired) {
            backlog.is_pressed = true;
        }
        acquired
    }

    /// As [`acquire_room`](Self::acquire_room), after others were dropped for them if the settings say so.
    fn make_room(&mut self, addition: &impl Addition<B>) -> bool {
        if self.acquire_room(addition) {
            return true;
        }
        // Nothing is dropped in vain.
        let drops = self.settings.when_full == WhenFull::DropOldest
            && self.fits(0, addition.items(), 0, addition.bytes())
            && self.memory.can_acquire(addition.growth(&self.waiting), self.waiting.memory());
        while drops && !self.waiting.is_empty() {
            let missing = self.missing_bytes(addition.bytes());
            let dropped = self.waiting.drop_front(missing);
            self.count_full(dropped);
            self.memory.keep(self.used_memory());
            if self.acquire_room(addition) {
                return true;
            }
        }
        false
    }

    /// Bytes that have to leave the queue for so many new ones.
    fn missing_bytes(&self, bytes: usize) -> usize {
        self.waiting.bytes().saturating_add(bytes).saturating_sub(self.settings.bounds.bytes)
    }

    fn count_full(&mut self, items: usize) {
        self.counts.full += items as u64;
        if let Some(full) = &self.settings.losses.full {
            full.add(items as u64);
        }
    }

    fn count_failed(&mut self, items: u64) {
        self.counts.failed += items;
        if let Some(failed) = self.settings.losses.failed.as_ref().filter(|_| items > 0) {
            failed.add(items);
        }
    }

    fn is_full_batch(&self) -> bool {
        let batching = &self.settings.batching;
        self.waiting.len() >= batching.items || self.waiting.bytes() >= batching.bytes
    }

    /// Releases memory that neither the queue nor the courier uses any more.
    fn release_unused(&mut self, batch: &B) {
        self.memory.courier = batch.memory();
        self.memory.keep(self.used_memory());
    }

    /// As [`release_unused`](Self::release_unused), of the keeper of the disk.
    fn release_unused_of_disk(&mut self) {
        self.memory.keep(self.used_memory());
    }

    fn used_memory(&self) -> usize {
        let backlog = self.backlog.as_ref().map_or(0, Backlog::memory);
        self.waiting.memory() + self.memory.courier + backlog
    }

    /// What the courier does next. `batch` is empty, and the items to be delivered are moved there; or it holds those that are tried
    /// again.
    pub(crate) fn next(&mut self, now: Instant, batch: &mut B) -> Step {
        self.courier = Courier::Busy;
        if let Some(step) = self.leave_to_disk(now, batch) {
            return step;
        }
        match self.retry_at.filter(|at| now < *at) {
            Some(at) if !batch.is_empty() || self.has_more() => {
                self.courier = Courier::Pausing;
                return Step::WaitUntil(at);
            }
            // It concerns items that arrive meanwhile.
            Some(_) => {}
            None => self.retry_at = None,
        }
        if !batch.is_empty() {
            self.failures.begin(now);
            return Step::Deliver;
        }
        if let Some(step) = self.next_from_disk(now, batch) {
            return step;
        }
        if self.waiting.is_empty() {
            self.since = None;
            // Free the memory of a burst.
            self.waiting.shrink();
            batch.shrink();
            self.release_unused(batch);
            if self.is_closing {
                self.courier = Courier::Stopped;
                return Step::End;
            }
            self.courier = Courier::Sleeping;
            return Step::Sleep;
        }
        let batching = self.settings.batching;
        let due = *self.since.get_or_insert(now) + batching.wait;
        if !self.is_closing && !self.is_full_batch() && now < due {
            self.courier = Courier::Gathering;
            return Step::WaitUntil(due);
        }
        self.since = None;
        self.waiting.move_front(batch, batching.items, batching.bytes);
        self.in_flight = batch.len();
        self.memory.courier = batch.memory();
        self.failures.begin(now);
        Step::Deliver
    }

    /// Whether there are items for the courier beside the batch in flight.
    fn has_more(&self) -> bool {
        let is_there = |backlog: &Backlog<B>| match self.is_closing {
            // What is on disk stays there.
            true => backlog.has_in_memory(),
            false => backlog.has_some(),
        };
        !self.waiting.is_empty() || self.backlog.as_ref().is_some_and(is_there)
    }

    /// As [`next`](Self::next), for a producer that delivers in place of a courier that cannot be started: it waits for nothing. Returns
    /// whether there is a batch; without one the courier has stopped.
    pub(crate) fn next_at_once(&mut self, now: Instant, batch: &mut B) -> bool {
        let is_closing = std::mem::replace(&mut self.is_closing, true);
        let step = self.next(now, batch);
        self.is_closing = is_closing;
        if step != Step::Deliver {
            self.courier = Courier::Stopped;
        }
        step == Step::Deliver
    }

    /// The sink returned. Items of the batch that it did not deliver are lost, unless they are tried again: then they stay in the batch.
    pub(crate) fn completed(&mut self, now: Instant, batch: &mut B, tally: &mut Tally) {
        match tally.again.take().filter(|_| !batch.is_empty()) {
            Some(pause) => {
                if tally.delivered > 0 {
                    // The backend is within reach.
                    self.failures.succeeded();
                }
                let verdict = self.failures.failed(now, pause);
                let (Verdict::Again(at) | Verdict::GiveUp(at)) = verdict;
                self.retry_at = Some(at).filter(|_| !self.is_late);
                if self.is_late || matches!(verdict, Verdict::GiveUp(_)) {
                    batch.clear();
                    self.failures.next_batch();
                }
            }
            None => {
                batch.clear();
                self.failures.succeeded();
            }
        }
        self.trouble = tally.trouble.take();
        self.settle(batch, tally);
    }

    /// The courier starts; whether there is a batch to be delivered. `batch` is what the previous one held when it panicked, if it did:
    /// what its sink had removed is settled. A sink that panics with a complete batch would do so forever, so that batch is lost.
    pub(crate) fn started(&mut self, batch: &mut B, tally: &mut Tally) -> bool {
        self.courier = Courier::Busy;
        if self.in_flight > 0 {
            self.trouble = Some("the sink panicked".to_owned());
        }
        // What it said about the batch before it panicked is void.
        (tally.again, tally.trouble) = (None, None);
        if batch.len() >= self.in_flight {
            batch.clear();
        }
        self.settle(batch, tally);
        !batch.is_empty()
    }

    /// Counts the items in flight that are not in `batch` any more.
    fn settle(&mut self, batch: &B, tally: &mut Tally) {
        let gone = self.in_flight.saturating_sub(batch.len());
        let delivered = std::mem::take(&mut tally.delivered);
        debug_assert!(delivered <= gone, "{delivered} of {gone} items were delivered");
        let delivered = delivered.min(gone) as u64;
        let failed = gone as u64 - delivered;
        self.in_flight = batch.len();
        if let Some(backlog) = self.backlog.as_mut().filter(|_| batch.is_empty()) {
            backlog.settled();
        }
        self.counts.delivered += delivered;
        self.count_failed(failed);
        self.release_unused(batch);
    }

    /// Delivers everything that waits, and then ends. Whether the courier must be started or woken for that.
    pub(crate) fn close(&mut self) -> Signal {
        self.is_closing = true;
        // One attempt at once, and others soon after it; the deadline may be near.
        self.retry_at = None;
        self.failures.hurry();
        // A task that has ended does not start again: with a courier that seems to run, the keeper of the disk would never end.
        if self.has_closed() || self.is_ended() { Signal::None } else { self.rouse() }
    }

    /// The deadline of closing has passed, and the sink cannot be interrupted: what is left is tried once.
    pub(crate) fn deadline_passed(&mut self) -> Signal {
        self.is_late = true;
        self.close()
    }

    /// Why the last attempt failed; `None` if it did not.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.clone().or_else(|| Some(format!("its disk: {}", self.disk_trouble()?)))
    }

    /// Why items were left at the end: what is wrong with the sink, and with the disk.
    pub(crate) fn troubles(&self) -> String {
        let of_disk = self.disk_trouble().map(|trouble| format!("its disk: {trouble}"));
        let all: Vec<String> = self.trouble.clone().into_iter().chain(of_disk).collect();
        if all.is_empty() { "there was no more time".to_owned() } else { all.join("; ") }
    }

    /// The courier ends, perhaps at its deadline; what is left goes to the disk, or is dropped.
    pub(crate) fn abandon(&mut self, batch: &mut B, tally: &mut Tally) {
        let delivered = std::mem::take(&mut tally.delivered).min(self.in_flight);
        self.counts.delivered += delivered as u64;
        // What the sink has removed and not delivered, it was refused.
        let refused = self.in_flight.saturating_sub(batch.len()).saturating_sub(delivered);
        if let Some(backlog) = &mut self.backlog {
            let left = self.in_flight - delivered;
            if !backlog.leave_record(left) {
                if delivered > self.in_flight.saturating_sub(batch.len()) {
                    // The sink does not remove what it delivers, so that nobody knows what is left.
                    batch.clear();
                }
                self.count_failed(refused as u64);
                self.counts.closed += left.saturating_sub(refused + batch.len()) as u64;
            } else {
                batch.clear();
            }
            self.leave(batch);
            return;
        }
        self.count_failed(refused as u64);
        self.counts.closed += (self.waiting.len() + self.in_flight - delivered - refused) as u64;
        batch.clear();
        self.waiting.clear();
        self.in_flight = 0;
        self.courier = Courier::Stopped;
        self.release_unused(batch);
    }

    /// Whether nothing waits and the courier does not run.
    pub(crate) fn is_ended(&self) -> bool {
        let keeper_has_ended = self.backlog.as_ref().is_none_or(Backlog::is_ended);
        keeper_has_ended && self.courier == Courier::Stopped && self.waiting.is_empty() && self.in_flight == 0
    }

    pub(crate) fn status(&self) -> DeliveryStatus {
        DeliveryStatus {
            queued: self.waiting.len(),
            queued_bytes: self.waiting.bytes(),
            in_flight: self.in_flight,
            spilled: self.backlog.as_ref().map_or(0, Backlog::items),
            on_disk: self.backlog.as_ref().map_or(0, Backlog::on_disk),
            spilled_bytes: self.backlog.as_ref().map_or(0, |backlog| backlog.stored_bytes),
            failures_in_a_row: self.failures.in_a_row(),
            is_breaker_open: self.failures.is_open(),
            ..self.counts
        }
    }
}

#[cfg(test)]
mod tests;
