//! The leases of a handler: grants without Redis, and exchanges with it in the background.
//!
//! A lease is found by the instance and its dimension values, in one of [`SHARDS`] tables with a lock each, which is held for a grant and never
//! across an exchange. Leases take their bytes from the share `quota-cells`; the one used least recently makes room for another one, and what
//! it held is given back. [`Exchanges`](super::exchanges) sends what leases request.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::answers::Failure;
use super::lease::{Answer, Lease, LeaseStatus, Outcome, Request, Step};
use super::scripts::LeasedWindow;
use crate::quotas::{SHARDS, Shard, shard_of};
use mixer_base::bounded::{Bounded, BoundedTable, Modified, WhenFull};
use mixer_base::budget::Account;
use mixer_base::metrics::{Counter, Family, Metrics};

/// Leases that made room whose shares are being given back, at most: callers choose how fast they come. What others held is lost, as that of a
/// server that died.
const MAX_RETURNS: usize = 4096;

/// How the wait of a call ends: an answer arrived, or none did.
pub(super) type Woken = Result<(), Failure>;

/// A lease, by number, and the hash of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    pub(super) hash: u64,
    pub(super) number: u64,
}

/// A request to be sent.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The lease that requested it; one that made room for another one is not found any more.
    pub(super) found: Found,
    pub(super) window: Arc<LeasedWindow>,
    /// The id of the lease in Redis.
    pub(super) id: String,
    pub(super) request: Request,
    /// What is given back.
    pub(super) returned: i64,
    /// Of a lease that made room: one of [`MAX_RETURNS`].
    _return: Option<Arc<()>>,
}

/// What is to be done in the background.
#[derive(Debug)]
pub(super) enum Work {
    /// A lease may have to send something.
    Look(Found),
    /// A lease that made room gives back what it held.
    Send(Exchange),
}

/// What a look at a lease finds.
#[derive(Debug)]
pub(super) enum Next {
    Send(Exchange),
    /// At this time there is to be another look.
    Later(u64),
    Nothing,
}

/// What a call gets.
#[derive(Debug)]
pub(super) enum Called {
    /// So much, for so many nanoseconds.
    Granted(i64, u64),
    Refused,
    /// An answer of Redis is needed; then the call is repeated.
    Waits(oneshot::Receiver<Woken>, Arc<LeasedWindow>),
    /// There is no room for a lease: Redis is to be asked for each call.
    NoRoom,
}

/// The leases of a handler.
pub(super) struct Leases {
    shards: [Shard<Table>; SHARDS],
    hasher: foldhash::quality::RandomState,
    /// Of leases in Redis: of this handler, in this process.
    name: String,
    numbers: AtomicU64,
    /// At most one entry for each lease, and for each that made room.
    work: Mutex<Vec<Work>>,
    has_work: Notify,
    /// Each lease that made room and is being given back has a clone.
    returns: Arc<()>,
    amounts: Amounts,
}

/// What became of shares.
struct Amounts {
    taken: Counter,
    returned: Counter,
    lost: Counter,
}

/// What the leases of a handler are at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) leases: usize,
    pub(super) held: i64,
    pub(super) bytes: usize,
    pub(super) returned: u64,
    pub(super) lost: u64,
}

#[derive(Debug)]
struct Table {
    entries: BoundedTable<Entry>,
    /// Calls that wait, by number of the lease.
    waiting: HashMap<u64, Vec<oneshot::Sender<Woken>>>,
}

#[derive(Debug)]
struct Entry {
    key: Box<[u8]>,
    number: u64,
    window: Arc<LeasedWindow>,
    lease: Lease,
    used_at: u64,
    /// Whether a look is asked for already.
    is_queued: bool,
    /// When the next look is due.
    due: Option<u64>,
    /// What requests gave back that no answer acknowledged.
    returned: i64,
}

impl Bounded for Entry {
    fn heap_bytes(&self) -> usize {
        let window = &*self.window;
        let keys = window.meta.len() + window.data.len() + window.leases.len();
        self.key.len() + keys + size_of::<LeasedWindow>()
    }

    fn eviction_rank(&self) -> u64 {
        self.used_at
    }
}

impl Leases {
    /// No leases; their bytes are taken from `account`.
    pub(super) fn new(account: &Arc<Account>, metrics: &Metrics, handler_name: &str) -> Self {
        let amounts = |event: &str| metrics.counter(Family::RedisquotaLeaseAmounts, &[event, handler_name]);
        let table = || Table {
            entries: BoundedTable::within(Arc::clone(account), WhenFull::Refuse),
            waiting: HashMap::new(),
        };
        Self {
            shards: std::array::from_fn(|_| Shard(Mutex::new(table()))),
            hasher: foldhash::quality::RandomState::default(),
            name: format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..)),
            numbers: AtomicU64::new(0),
            work: Mutex::new(Vec::new()),
            has_work: Notify::new(),
            returns: Arc::default(),
            amounts: Amounts {
                taken: amounts("taken"),
                returned: amounts("returned"),
                lost: amounts("lost"),
            },
        }
    }

    /// The hash of a key.
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    fn shard(&self, hash: u64) -> &Mutex<Table> {
        let [first, ..] = &self.shards;
        &self.shards.get(shard_of(hash)).unwrap_or(first).0
    }

    /// A call for `amount` > 0 of the window that `window` makes if there is no lease of it. `is_new`: it did not wait before.
    pub(super) fn call(
        &self,
        key: &[u8],
        amount: i64,
        best_effort: bool,
        is_new: bool,
        now: u64,
        window: impl FnOnce() -> Arc<LeasedWindow>,
    ) -> Called {
        let hash = self.hash(key);
        let mut table = self.shard(hash).lock();
        let known = table.call(hash, key, amount, best_effort, is_new, now);
        let (called, look) = match known {
            Some(known) => known,
            None => {
                let number = self.numbers.fetch_add(1, Ordering::Relaxed);
                if !self.insert(&mut table, hash, key, number, window(), now) {
                    return Called::NoRoom;
                }
                match table.call(hash, key, amount, best_effort, is_new, now) {
                    Some(called) => called,
                    None => return Called::NoRoom,
                }
            }
        };
        drop(table);
        if let Some(found) = look {
            self.push(Work::Look(found));
        }
        called
    }

    /// Adds a lease. Those used least recently make room.
    fn insert(
        &self,
        table: &mut Table,
        hash: u64,
        key: &[u8],
        number: u64,
        window: Arc<LeasedWindow>,
        now: u64,
    ) -> bool {
        let lease = Lease::new(window.lease, window.max_amount, now);
        let mut entry = Entry {
            key: key.into(),
            number,
            window,
            lease,
            used_at: now,
            is_queued: false,
            due: None,
            returned: 0,
        };
        loop {
            match table.entries.try_insert(hash, entry, now) {
                Ok(()) => return true,
                Err(refused) => entry = refused,
            }
            let Some(mut victim) = table.entries.take_victim(now) else { return false };
            table.wake(victim.number, &Ok(()));
            if let Some(exchange) = self.settle(&mut victim, now) {
                self.give_back(exchange);
            }
        }
    }

    /// Sends the last request of a lease that made room, unless there are too many of them.
    fn give_back(&self, exchange: Exchange) {
        // One is that of this table.
        if Arc::strong_count(&self.returns) > MAX_RETURNS {
            self.amounts.lost.add(exchange.returned.max(0).cast_unsigned());
            return;
        }
        self.push(Work::Send(Exchange { _return: Some(Arc::clone(&self.returns)), ..exchange }));
    }

    /// The request that gives back all that a lease holds.
    fn settle(&self, entry: &mut Entry, now: u64) -> Option<Exchange> {
        let held = entry.lease.total_held();
        let Some(request) = entry.lease.settle(now) else {
            self.amounts.lost.add(held.cast_unsigned());
            return None;
        };
        let returned = entry.returned + held;
        let found = Found { hash: 0, number: entry.number };
        Some(self.exchange(found, entry, request, returned))
    }

    fn exchange(&self, found: Found, entry: &Entry, request: Request, returned: i64) -> Exchange {
        let id = format!("{}-{:x}-{:x}", self.name, entry.number, entry.lease.generation());
        Exchange { found, window: Arc::clone(&entry.window), id, request, returned, _return: None }
    }

    fn push(&self, work: Work) {
        self.work.lock().push(work);
        self.has_work.notify_one();
    }

    /// Waits for work, and takes all of it.
    pub(super) async fn work(&self) -> Vec<Work> {
        loop {
            let work = std::mem::take(&mut *self.work.lock());
            if !work.is_empty() {
                return work;
            }
            self.has_work.notified().await;
        }
    }

    /// All leases.
    pub(super) fn all(&self) -> Vec<Found> {
        let of = |shard: &Shard<Table>| {
            let table = shard.0.lock();
            let entries = table.entries.iter();
            entries
                .map(|entry| Found { hash: self.hash(&entry.key), number: entry.number })
                .collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(of).collect()
    }

    /// Looks at what a lease needs. `due`: the look is one that was due then.
    pub(super) fn look(&self, found: Found, now: u64, patience: u64, due: Option<u64>) -> Next {
        let mut table = self.shard(found.hash).lock();
        let is_key = |entry: &Entry| entry.number == found.number;
        let look = |entry: &mut Entry| {
            if due.is_none() {
                entry.is_queued = false;
            } else if due == entry.due {
                entry.due = None;
            }
            let next = self.step(found, entry, now, patience);
            let modified = if next.is_none() { Modified::Removed } else { Modified::InPlace };
            (modified, next.unwrap_or(Next::Nothing))
        };
        table.entries.modify(found.hash, is_key, now, look).unwrap_or(Next::Nothing)
    }

    /// What a lease needs; `None`: it can be forgotten.
    fn step(&self, found: Found, entry: &mut Entry, now: u64, patience: u64) -> Option<Next> {
        loop {
            let held = entry.lease.total_held();
            let due = match entry.lease.step(now, patience) {
                Step::Send(request) => {
                    entry.returned += held - request.keep;
                    return Some(Next::Send(self.exchange(found, entry, request, 0)));
                }
                Step::Lost(lost) => {
                    let lost = lost + std::mem::take(&mut entry.returned);
                    self.amounts.lost.add(lost.cast_unsigned());
                    continue;
                }
                Step::Later(due) => due,
                Step::Rest if entry.lease.is_idle(now) => return None,
                Step::Rest => now.saturating_add(entry.window.lease),
            };
            // One that is due earlier finds out that there is another.
            let is_due = entry.due.is_some_and(|known| known <= due);
            if !is_due {
                entry.due = Some(due);
            }
            return Some(if is_due { Next::Nothing } else { Next::Later(due) });
        }
    }

    /// The request of a lease was answered: `None` if another one has overtaken it. Calls that wait are repeated.
    pub(super) fn answered(&self, exchange: &Exchange, answer: Option<&Answer>, now: u64) {
        let Some(answer) = answer else {
            return self.failed(
                exchange,
                &Failure::Error("the answer is that to another request".into()),
                now,
            );
        };
        self.amounts.taken.add(answer.granted.max(0).cast_unsigned());
        let found = exchange.found;
        let mut table = self.shard(found.hash).lock();
        let is_key = |entry: &Entry| entry.number == found.number;
        let change = |entry: &mut Entry| {
            entry.lease.answer(now, exchange.request.number, answer);
            (Modified::InPlace, std::mem::take(&mut entry.returned))
        };
        let returned = table.entries.modify(found.hash, is_key, now, change);
        self.amounts.returned.add(returned.unwrap_or(exchange.returned).max(0).cast_unsigned());
        table.wake(found.number, &Ok(()));
    }

    /// The request of a lease was not answered. Calls that wait fail.
    pub(super) fn failed(&self, exchange: &Exchange, failure: &Failure, now: u64) {
        let found = exchange.found;
        let mut table = self.shard(found.hash).lock();
        let is_key = |entry: &Entry| entry.number == found.number;
        let known = table.entries.modify(found.hash, is_key, now, |entry| {
            entry.lease.fail(now);
            (Modified::InPlace, ())
        });
        if known.is_none() {
            self.amounts.lost.add(exchange.returned.max(0).cast_unsigned());
        }
        table.wake(found.number, &Err(failure.clone()));
    }

    /// Ends all leases. Returns the requests that give back what they hold.
    pub(super) fn end(&self, now: u64) -> Vec<Exchange> {
        let mut exchanges = Vec::new();
        for shard in &self.shards {
            let mut table = shard.0.lock();
            while let Some(mut entry) = table.entries.take_victim(now) {
                table.wake(entry.number, &Ok(()));
                exchanges.extend(self.settle(&mut entry, now));
            }
        }
        exchanges
    }

    /// Looks at the key of each lease of which something is known, and at what that is. Holds one lock at a time, and none in `look`.
    pub(super) fn each(&self, now: u64, mut look: impl FnMut(Box<[u8]>, LeaseStatus)) {
        for shard in &self.shards {
            let known: Vec<_> = {
                let table = shard.0.lock();
                let known = |entry: &Entry| Some((entry.key.clone(), entry.lease.status(now)?));
                table.entries.iter().filter_map(known).collect()
            };
            known.into_iter().for_each(|(key, status)| look(key, status));
        }
    }

    /// Whether something is known of the window of a key because there is a lease of it.
    pub(super) fn knows(&self, key: &[u8], now: u64) -> bool {
        let hash = self.hash(key);
        let table = self.shard(hash).lock();
        let entry = table.entries.find(hash, |entry| *entry.key == *key);
        entry.is_some_and(|entry| entry.lease.status(now).is_some())
    }

    /// What there is. Holds one lock at a time.
    pub(super) fn summary(&self, now: u64) -> Summary {
        let mut summary = Summary {
            returned: self.amounts.returned.get(),
            lost: self.amounts.lost.get(),
            ..Summary::default()
        };
        for shard in &self.shards {
            let table = shard.0.lock();
            summary.bytes += table.entries.bytes();
            for entry in table.entries.iter() {
                let held = entry.lease.held(now);
                summary.leases += usize::from(held > 0);
                summary.held = summary.held.saturating_add(held);
            }
        }
        summary
    }
}

impl Table {
    /// A call of a lease, if there is one, and the lease if there is to be a look at it.
    fn call(
        &mut self,
        hash: u64,
        key: &[u8],
        amount: i64,
        best_effort: bool,
        is_new: bool,
        now: u64,
    ) -> Option<(Called, Option<Found>)> {
        let waiting = &mut self.waiting;
        let change = |entry: &mut Entry| {
            entry.used_at = now;
            let (called, is_due) = match entry.lease.call(now, amount, best_effort, is_new) {
                Outcome::Granted(amount, valid) => (Called::Granted(amount, valid), entry.lease.is_low(now)),
                Outcome::Refused => (Called::Refused, false),
                Outcome::Waits => {
                    let (sender, receiver) = oneshot::channel();
                    waiting.entry(entry.number).or_default().push(sender);
                    (Called::Waits(receiver, Arc::clone(&entry.window)), !entry.lease.is_sent())
                }
            };
            let look = is_due && !entry.is_queued;
            entry.is_queued |= is_due;
            (Modified::Used, (called, look.then_some(Found { hash, number: entry.number })))
        };
        self.entries.modify(hash, |entry| *entry.key == *key, now, change)
    }

    /// Ends the wait of the calls of a lease.
    fn wake(&mut self, number: u64, woken: &Woken) {
        for call in self.waiting.remove(&number).into_iter().flatten() {
            // A call that timed out does not wait any more.
            let _ = call.send(woken.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use mixer_base::budget::Share;

    use super::super::scripts::Window;
    use super::*;

    fn window() -> Arc<LeasedWindow> {
        let key = || b"key".to_vec();
        let (meta, data, leases) = (key(), key(), key());
        let (window, length) = (Window::Fixed, 3_600_000_000_000);
        Arc::new(LeasedWindow { meta, data, leases, window, length, max_amount: 1000, lease: 1_000_000_000 })
    }

    /// A caller whose calls are all of other windows, while Redis answers nothing.
    #[tokio::test]
    async fn leases_that_make_room_are_given_back_up_to_a_number() {
        // So many that every shard has some, which make room.
        let share = Arc::new(Share::new(256 << 10));
        let leases = Leases::new(&Arc::new(share.open()), &Metrics::default(), "h");
        let mut under_way = Vec::new();
        let mut now = 1;
        for number in 0..3 * MAX_RETURNS {
            now += 1;
            let called = leases.call(number.to_string().as_bytes(), 1, false, true, now, window);
            assert!(matches!(called, Called::Waits(..)), "{called:?}");
            for work in leases.work().await {
                match work {
                    Work::Look(found) => {
                        let next = leases.look(found, now, 1_000_000_000, None);
                        assert!(matches!(next, Next::Send(_)), "{next:?}");
                    }
                    Work::Send(exchange) => under_way.push(exchange),
                }
            }
        }
        assert_eq!(under_way.len(), MAX_RETURNS);
        // There is room for others once these are answered.
        under_way.clear();
        now += 1;
        let _ = leases.call(b"another", 1, false, true, now, window);
        assert!(leases.work().await.iter().any(|work| matches!(work, Work::Send(_))));
    }
}
