//! Amounts in use, by key.

use std::collections::VecDeque;
use std::sync::Arc;

use mixer_base::bounded::{Bounded, BoundedTable, Modified, WhenFull};
use mixer_base::budget::Account;

use super::Limit;

/// Most slots that a window stores. A window that needs more has wider slots: amounts are then available again up to a 512th of
/// its length late. Windows of up to 102.4 s, and longer ones that are used rarely, are exact.
const MAX_SLOTS: usize = 1024;

/// Length of a slot of a window, in nanoseconds.
const TICK: u64 = 100_000_000;
/// Slots per second.
const TICKS_PER_SECOND: i64 = 10;

/// One shard of the cells of a handler. The account of the handler bounds the bytes of all shards. Beyond it, the cells used least recently
/// are evicted, which frees their amounts: with more live keys than fit, a limit is enforced for the keys used last. A cell that
/// cannot be stored is granted nothing.
#[derive(Debug)]
pub(crate) struct Cells {
    table: BoundedTable<Cell>,
    /// New cells that could not be stored.
    rejected: u64,
    /// Lost cells that [`take_lost`](Self::take_lost) has returned.
    taken: u64,
}

#[derive(Debug)]
struct Cell {
    key: Box<[u8]>,
    /// Tick of the last use.
    used_at: u64,
    usage: Usage,
}

#[derive(Debug)]
enum Usage {
    /// In use until released.
    Counter(i64),
    Window(Window),
}

/// A rolling window. Only slots with an amount are stored, oldest first.
#[derive(Debug)]
struct Window {
    /// Slots after which an amount is available again.
    length: u64,
    slots: VecDeque<(u64, i64)>,
    /// Ticks of a slot; a slot is named by its last one.
    width: u64,
    in_use: i64,
    last: u64,
}

impl Bounded for Cell {
    /// One for counters, and one for the windows of each binary order of magnitude.
    const QUEUES: usize = 32;

    fn heap_bytes(&self) -> usize {
        let slots = match &self.usage {
            Usage::Counter(_) => 0,
            Usage::Window(window) => window.slots.capacity() * size_of::<(u64, i64)>(),
        };
        self.key.len() + slots
    }

    fn queue(&self) -> usize {
        match &self.usage {
            Usage::Counter(_) => 0,
            Usage::Window(window) => 1 + window.length.max(1).ilog2().min(30) as usize,
        }
    }

    fn is_expired(&self, tick: u64) -> bool {
        match &self.usage {
            Usage::Counter(in_use) => *in_use == 0,
            Usage::Window(window) => window.slots.back().is_none_or(|(slot, _)| window.is_over(*slot, tick)),
        }
    }

    fn eviction_rank(&self) -> u64 {
        self.used_at
    }
}

impl Cells {
    /// No cells yet; their bytes are taken from `account`.
    pub(crate) fn new(account: Arc<Account>) -> Self {
        Self { table: BoundedTable::within(account, WhenFull::Evict), rejected: 0, taken: 0 }
    }

    /// Bytes that count against the budget.
    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// The key of every cell with an amount in use, and the amount.
    pub(crate) fn in_use(&self, now: u64) -> impl Iterator<Item = (&[u8], i64)> {
        let tick = now / TICK;
        self.table.iter().filter_map(move |cell| {
            let used = cell.usage.in_use_at(tick);
            (used > 0).then_some((&*cell.key, used))
        })
    }

    /// Cells in use that were lost to the budget since the last call.
    pub(crate) fn take_lost(&mut self) -> u64 {
        let lost = self.table.evicted() + self.rejected;
        lost - std::mem::replace(&mut self.taken, lost)
    }

    /// Allocates `amount` > 0, or what is available of it if `best_effort`. Returns the amount granted, and whether it is
    /// granted for the duration of the limit.
    pub(crate) fn allocate(
        &mut self,
        hash: u64,
        key: &[u8],
        limit: Limit,
        amount: i64,
        best_effort: bool,
        now: u64,
    ) -> (i64, bool) {
        let tick = now / TICK;
        let grant = |in_use: i64| {
            let available = limit.max_amount.saturating_sub(in_use).max(0);
            if amount <= available {
                Some(amount)
            } else if best_effort {
                Some(available)
            } else {
                None
            }
        };
        let known = self.table.modify(
            hash,
            |cell| *cell.key == *key,
            tick,
            |cell| {
                let granted = grant(cell.usage.in_use_at(tick));
                match granted {
                    Some(1..) => {
                        cell.add(granted.unwrap_or(0), tick);
                        (Modified::Used, granted)
                    }
                    _ => (Modified::InPlace, granted),
                }
            },
        );
        let granted = known.unwrap_or_else(|| {
            let granted = grant(0);
            match granted {
                // What cannot be counted is not granted.
                Some(amount @ 1..) if !self.insert(hash, key, limit, amount, tick) => None,
                granted => granted,
            }
        });
        granted.map_or((0, false), |granted| (granted, limit.valid_duration.nanos != 0))
    }

    /// Releases up to `amount` > 0. Returns the amount released.
    pub(crate) fn release(&mut self, hash: u64, key: &[u8], amount: i64, now: u64) -> i64 {
        let tick = now / TICK;
        let released = self.table.modify(
            hash,
            |cell| *cell.key == *key,
            tick,
            |cell| {
                cell.used_at = cell.used_at.max(tick);
                let (released, is_empty) = match &mut cell.usage {
                    Usage::Counter(in_use) => {
                        let released = amount.min(*in_use);
                        *in_use -= released;
                        (released, *in_use == 0)
                    }
                    Usage::Window(window) => {
                        let released = window.release(amount, tick);
                        (released, window.slots.is_empty())
                    }
                };
                (if is_empty { Modified::Removed } else { Modified::Used }, released)
            },
        );
        released.unwrap_or(0)
    }

    /// The amount in use, and in how many nanoseconds the oldest part of it is available again; 0 if none is in use, or if it
    /// is in use until released.
    pub(crate) fn level(&self, hash: u64, key: &[u8], now: u64) -> (i64, u64) {
        let tick = now / TICK;
        match self.table.find(hash, |cell| *cell.key == *key).map(|cell| &cell.usage) {
            None => (0, 0),
            Some(Usage::Counter(in_use)) => (*in_use, 0),
            Some(Usage::Window(window)) => {
                let oldest = window.slots.iter().find(|(slot, _)| !window.is_over(*slot, tick));
                let end =
                    oldest.map_or(0, |(slot, _)| slot.saturating_add(window.length).saturating_mul(TICK));
                (window.in_use_at(tick), end.saturating_sub(now))
            }
        }
    }

    /// Returns false if there is no room.
    fn insert(&mut self, hash: u64, key: &[u8], limit: Limit, granted: i64, tick: u64) -> bool {
        let usage = if limit.valid_duration.nanos == 0 {
            Usage::Counter(0)
        } else {
            Usage::Window(Window::new(limit.valid_duration.nanos))
        };
        let mut cell = Cell { key: key.into(), used_at: tick, usage };
        cell.add(granted, tick);
        let inserted = self.table.insert(hash, cell, tick);
        self.rejected += u64::from(!inserted);
        inserted
    }
}

impl Cell {
    fn add(&mut self, amount: i64, tick: u64) {
        self.used_at = self.used_at.max(tick);
        match &mut self.usage {
            Usage::Counter(in_use) => *in_use = in_use.saturating_add(amount),
            Usage::Window(window) => window.add(amount, tick),
        }
    }
}

impl Usage {
    fn in_use_at(&self, tick: u64) -> i64 {
        match self {
            Usage::Counter(in_use) => *in_use,
            Usage::Window(window) => window.in_use_at(tick),
        }
    }
}

impl Window {
    /// A window as long as `nanos`, rounded up to whole seconds, at least one.
    fn new(nanos: i64) -> Self {
        let seconds = nanos.saturating_add(999_999_999) / 1_000_000_000;
        let length = (seconds.max(1) * TICKS_PER_SECOND).cast_unsigned();
        Self { length, slots: VecDeque::new(), width: 1, in_use: 0, last: 0 }
    }

    /// Whether a slot is outside the window at `tick`.
    fn is_over(&self, slot: u64, tick: u64) -> bool {
        slot.saturating_add(self.length) <= tick
    }

    /// The amount in use at `tick`.
    fn in_use_at(&self, tick: u64) -> i64 {
        let over: i64 =
            self.slots.iter().take_while(|(slot, _)| self.is_over(*slot, tick)).map(|(_, a)| *a).sum();
        self.in_use - over
    }

    /// Moves to `tick`. A clock that goes back stands still.
    fn roll(&mut self, tick: u64) {
        self.last = self.last.max(tick);
        while let Some((slot, amount)) = self.slots.front().copied() {
            if !self.is_over(slot, self.last) {
                break;
            }
            self.in_use -= amount;
            self.slots.pop_front();
        }
    }

    fn add(&mut self, amount: i64, tick: u64) {
        self.roll(tick);
        self.in_use = self.in_use.saturating_add(amount);
        let slot = end_of(self.last, self.width);
        match self.slots.back_mut() {
            Some((last, held)) if *last == slot => *held = held.saturating_add(amount),
            _ => {
                self.slots.push_back((slot, amount));
                if self.slots.len() > MAX_SLOTS {
                    self.widen();
                }
            }
        }
    }

    /// Doubles the width of the slots, so that no more than half of them are left if all are in use.
    #[cold]
    fn widen(&mut self) {
        self.width = self.width.saturating_mul(2);
        let mut wider: VecDeque<(u64, i64)> = VecDeque::with_capacity(MAX_SLOTS);
        for (slot, amount) in self.slots.drain(..) {
            let slot = end_of(slot, self.width);
            match wider.back_mut() {
                Some((last, held)) if *last == slot => *held = held.saturating_add(amount),
                _ => wider.push_back((slot, amount)),
            }
        }
        self.slots = wider;
    }

    /// Releases from the newest slot towards the oldest.
    fn release(&mut self, amount: i64, tick: u64) -> i64 {
        self.roll(tick);
        let mut wanted = amount;
        while let Some((_, held)) = self.slots.back_mut() {
            if *held > wanted {
                *held -= wanted;
                wanted = 0;
                break;
            }
            wanted -= *held;
            self.slots.pop_back();
        }
        let released = amount - wanted;
        self.in_use -= released;
        released
    }
}

/// The last tick of the slot of `width` ticks that contains `tick`.
fn end_of(tick: u64, width: u64) -> u64 {
    let width = width.max(1);
    (tick / width * width).saturating_add(width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_attribute::SignedDuration;
    use mixer_base::budget::Share;

    const SECOND: u64 = 1_000_000_000;

    /// A budget for so many cells with a window and keys of 8 bytes.
    fn cells_for(cells: usize) -> Cells {
        let mut one = within(1 << 20);
        one.allocate(0, &[0; 8], window(1, 1), 1, false, 0);
        within(cells * one.bytes())
    }

    fn within(bytes: usize) -> Cells {
        Cells::new(Arc::new(Arc::new(Share::new(bytes)).open()))
    }

    fn window(max_amount: i64, seconds: i64) -> Limit {
        Limit { max_amount, valid_duration: SignedDuration::from_secs(seconds) }
    }

    #[test]
    fn memory_is_bounded_and_the_least_recently_used_cells_are_evicted() {
        let mut cells = cells_for(32);
        let limit = window(1, 1_000_000);
        for i in 0..1000_u64 {
            cells.allocate(i, &i.to_le_bytes(), limit, 1, false, i * SECOND);
            assert!(cells.table.len() <= 32);
        }
        assert_eq!(cells.take_lost(), 1000 - cells.table.len() as u64);
        // The newest is still limited.
        assert_eq!(cells.allocate(999, &999_u64.to_le_bytes(), limit, 1, false, 1000 * SECOND), (0, false));
        // The oldest was evicted.
        assert_eq!(cells.allocate(0, &0_u64.to_le_bytes(), limit, 1, false, 1000 * SECOND), (1, true));
    }

    #[test]
    fn expired_windows_are_evicted_before_live_cells() {
        let mut cells = cells_for(32);
        let counter = Limit { max_amount: 1, valid_duration: SignedDuration::ZERO };
        cells.allocate(0, b"held", counter, 1, false, 0);
        for i in 1..100_u64 {
            cells.allocate(i, &i.to_le_bytes(), window(1, 1), 1, false, i * 2 * SECOND);
        }
        assert_eq!(cells.allocate(0, b"held", counter, 1, false, 300 * SECOND), (0, false));
    }

    #[test]
    fn the_slots_of_a_window_count_against_the_budget() {
        let mut cells = cells_for(32);
        for i in 0..20_u64 {
            cells.allocate(i, &i.to_le_bytes(), window(1, 1_000_000), 1, false, 0);
        }
        for tick in 0..10_000 {
            cells.allocate(100, b"heavy", window(i64::MAX, 100_000), 1, false, tick * TICK);
        }
        assert_eq!((cells.table.len(), cells.take_lost(), cells.take_lost()), (1, 20, 0));
        assert_eq!(cells.level(100, b"heavy", 0).0, 10_000, "the cell in use is not evicted");
        let larger = vec![0; 1 << 20];
        assert_eq!(cells.allocate(101, &larger, window(1, 1), 1, false, 0), (0, false), "nothing is granted");
        assert_eq!(cells.take_lost(), 1, "a key larger than the budget");
    }

    #[test]
    fn a_long_window_in_constant_use_has_few_slots_and_is_almost_exact() {
        let mut cells = within(1 << 20);
        let day = 24 * 3600;
        let limit = window(i64::MAX, day);
        let last = 20_000;
        for tick in 0..=last {
            cells.allocate(1, b"k", limit, 1, false, tick * TICK);
        }
        assert!(cells.bytes() < 40 << 10, "{}", cells.bytes());
        let in_use = |tick: u64| cells.level(1, b"k", tick * TICK).0;
        let length = day as u64 * 10;
        assert_eq!(in_use(last), last as i64 + 1);
        for past in [0, 5_000, 15_000, last] {
            let (exact, late) = ((last - past) as i64, (length / 512) as i64);
            let found = in_use(past + length);
            assert!((exact..=exact + late).contains(&found), "{found} of {exact} after {past}");
        }
        assert_eq!(in_use(last + length + length / 512), 0);
    }

    /// Visits are bounded, whatever the number of cells: see the test of the same name in `bounded`.
    #[test]
    fn cells_of_one_flooded_handler_leave_those_of_another_alone() {
        let share = Arc::new(Share::new(1 << 20));
        let (flooded, quiet) = (Arc::new(share.open()), Arc::new(share.open()));
        let (mut flooded, mut quiet) = (Cells::new(flooded), Cells::new(quiet));
        let limit = window(1, 1_000_000);
        for i in 0..100_u64 {
            assert_eq!(quiet.allocate(i, &i.to_le_bytes(), limit, 1, false, 0), (1, true));
        }
        for i in 0..50_000_u64 {
            flooded.allocate(i, &i.to_le_bytes(), limit, 1, false, i);
            assert!(share.used() <= share.limit());
        }
        assert!(flooded.take_lost() > 40_000);
        for i in 0..100_u64 {
            assert_eq!(quiet.allocate(i, &i.to_le_bytes(), limit, 1, false, 0), (0, false), "still counted");
        }
        for i in 100..500_u64 {
            assert_eq!(quiet.allocate(i, &i.to_le_bytes(), limit, 1, false, 0), (1, true), "the guarantee");
        }
    }

    #[test]
    fn hash_collisions_do_not_share_a_cell() {
        let mut cells = cells_for(32);
        assert_eq!(cells.allocate(7, b"a", window(1, 1), 1, false, 0), (1, true));
        assert_eq!(cells.allocate(7, b"b", window(1, 1), 1, false, 0), (1, true));
        assert_eq!(cells.allocate(7, b"a", window(1, 1), 1, false, 0), (0, false));
        assert_eq!(cells.release(7, b"b", 5, 0), 1);
        assert_eq!(cells.table.len(), 1);
    }

    #[test]
    fn extreme_amounts_do_not_overflow() {
        let counter = |max_amount| Limit { max_amount, valid_duration: SignedDuration::ZERO };
        let mut cells = cells_for(32);
        assert_eq!(cells.allocate(1, b"k", counter(i64::MAX), i64::MAX, false, 0), (i64::MAX, false));
        assert_eq!(cells.allocate(1, b"k", counter(i64::MAX), 1, true, 0), (0, false));
        assert_eq!(cells.allocate(2, b"n", counter(i64::MIN), 1, true, 0), (0, false));
        assert_eq!(cells.release(1, b"k", i64::MAX, 0), i64::MAX);
        assert_eq!(
            cells.allocate(3, b"w", window(i64::MAX, i64::MAX / 1_000_000_000), i64::MAX, false, u64::MAX),
            (i64::MAX, true)
        );
        assert_eq!(cells.release(3, b"w", i64::MAX, 0), i64::MAX);
    }

    #[test]
    fn a_clock_that_goes_back_stands_still() {
        let mut cells = cells_for(32);
        assert_eq!(cells.allocate(1, b"k", window(2, 1), 1, false, 10 * SECOND), (1, true));
        assert_eq!(cells.allocate(1, b"k", window(2, 1), 1, false, 5 * SECOND), (1, true));
        assert_eq!(cells.allocate(1, b"k", window(2, 1), 1, false, 10 * SECOND), (0, false));
        assert_eq!(cells.allocate(1, b"k", window(2, 1), 2, false, 11 * SECOND), (2, true));
    }
}
