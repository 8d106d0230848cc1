//! Amounts in use, by key.

use std::collections::VecDeque;

use hashbrown::HashTable;

use super::SHARDS;
use super::limit::Limit;

/// Most cells of one handler. When there are more, the ones used least recently are forgotten, which frees their amounts:
/// under more live keys than this, a limit is enforced for the keys in use now.
pub(super) const MAX_CELLS: usize = 262_144;

/// Length of a slot of a window, in nanoseconds.
const TICK: u64 = 100_000_000;
/// Slots a second.
const TICKS_PER_SECOND: i64 = 10;
/// Ticks between two sweeps for expired windows.
const SWEEP_INTERVAL: u64 = 60 * TICKS_PER_SECOND.cast_unsigned();

/// One part of the cells of a handler.
#[derive(Debug)]
pub(super) struct Cells {
    table: HashTable<Cell>,
    capacity: usize,
    swept: u64,
    /// Cells in use that were forgotten, until somebody asks.
    forgotten: u64,
}

#[derive(Debug)]
struct Cell {
    hash: u64,
    key: Box<[u8]>,
    /// Tick of the last use.
    used_at: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// In use until given back.
    Counter(i64),
    Window(Window),
}

/// A rolling window. Only slots that hold something are kept, oldest first.
#[derive(Debug)]
struct Window {
    /// Slots after which an amount is available again.
    length: u64,
    slots: VecDeque<(u64, i64)>,
    in_use: i64,
    last: u64,
}

impl Default for Cells {
    fn default() -> Self {
        Self::with_capacity(MAX_CELLS / SHARDS)
    }
}

impl Cells {
    /// No cells yet, at most `capacity`.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { table: HashTable::new(), capacity, swept: 0, forgotten: 0 }
    }

    /// Number of cells.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// The key of every cell with something in use, and how much that is.
    pub(super) fn in_use(&self, now: u64) -> impl Iterator<Item = (&[u8], i64)> {
        let tick = now / TICK;
        self.table.iter().filter_map(move |cell| {
            let used = match &cell.state {
                State::Counter(in_use) => *in_use,
                State::Window(window) => window.in_use_at(tick),
            };
            (used > 0).then_some((&*cell.key, used))
        })
    }

    /// How many cells in use were forgotten since the last call.
    pub(super) fn take_forgotten(&mut self) -> u64 {
        std::mem::take(&mut self.forgotten)
    }

    /// Takes `amount` > 0, or what is left of it if `best_effort`. Gives what was granted and whether it is for the duration
    /// of the limit.
    pub(super) fn allocate(
        &mut self,
        hash: u64,
        key: &[u8],
        limit: Limit,
        amount: i64,
        best_effort: bool,
        now: u64,
    ) -> (i64, bool) {
        let tick = now / TICK;
        let has_window = limit.valid_duration.nanos != 0;
        let cell = self.table.find_mut(hash, |c| *c.key == *key);
        let in_use = match &cell {
            None => 0,
            Some(Cell { state: State::Counter(in_use), .. }) => *in_use,
            Some(Cell { state: State::Window(window), .. }) => window.in_use_at(tick),
        };
        let left = limit.max_amount.saturating_sub(in_use).max(0);
        let granted = if amount <= left {
            amount
        } else if best_effort {
            left
        } else {
            return (0, false);
        };
        if granted > 0 {
            match cell {
                Some(cell) => cell.add(granted, tick),
                None => self.insert(hash, key, limit, granted, tick),
            }
        }
        (granted, has_window)
    }

    /// Gives back up to `amount` > 0, and says how much it was.
    pub(super) fn release(&mut self, hash: u64, key: &[u8], amount: i64, now: u64) -> i64 {
        let Ok(mut entry) = self.table.find_entry(hash, |c| *c.key == *key) else { return 0 };
        let cell = entry.get_mut();
        let tick = now / TICK;
        cell.used_at = cell.used_at.max(tick);
        let (released, empty) = match &mut cell.state {
            State::Counter(in_use) => {
                let released = amount.min(*in_use);
                *in_use -= released;
                (released, *in_use == 0)
            }
            State::Window(window) => {
                let released = window.release(amount, tick);
                (released, window.slots.is_empty())
            }
        };
        if empty {
            entry.remove();
        }
        released
    }

    /// What is in use, and in how many nanoseconds the oldest part of it is free again; 0 when nothing is, or nothing will.
    pub(super) fn level(&self, hash: u64, key: &[u8], now: u64) -> (i64, u64) {
        let tick = now / TICK;
        match self.table.find(hash, |c| *c.key == *key).map(|c| &c.state) {
            None => (0, 0),
            Some(State::Counter(in_use)) => (*in_use, 0),
            Some(State::Window(window)) => {
                let oldest = window.slots.iter().find(|(slot, _)| !window.is_over(*slot, tick));
                let end =
                    oldest.map_or(0, |(slot, _)| slot.saturating_add(window.length).saturating_mul(TICK));
                (window.in_use_at(tick), end.saturating_sub(now))
            }
        }
    }

    fn insert(&mut self, hash: u64, key: &[u8], limit: Limit, granted: i64, tick: u64) {
        self.make_room(tick);
        let state = if limit.valid_duration.nanos == 0 {
            State::Counter(0)
        } else {
            State::Window(Window::new(limit.valid_duration.nanos))
        };
        let mut cell = Cell { hash, key: key.into(), used_at: tick, state };
        cell.add(granted, tick);
        self.table.insert_unique(hash, cell, |c| c.hash);
    }

    /// Forgets windows that hold nothing any more from time to time; when full, also the cells used least recently.
    fn make_room(&mut self, tick: u64) {
        let full = self.table.len() >= self.capacity;
        if full || tick.saturating_sub(self.swept) >= SWEEP_INTERVAL {
            self.swept = tick;
            self.table.retain(|c| !c.is_expired(tick));
        }
        if self.table.len() < self.capacity {
            return;
        }
        // A sixteenth at a time, so that the cost of looking at all is spread over as many insertions.
        let mut last_used: Vec<u64> = self.table.iter().map(|c| c.used_at).collect();
        let wanted = (self.capacity / 16).max(1);
        let (_, threshold, _) = last_used.select_nth_unstable(wanted - 1);
        let mut evicted = 0;
        self.table.retain(|c| {
            let evict = evicted < wanted && c.used_at <= *threshold;
            evicted += usize::from(evict);
            !evict
        });
        self.forgotten += evicted as u64;
    }
}

impl Cell {
    fn add(&mut self, amount: i64, tick: u64) {
        self.used_at = self.used_at.max(tick);
        match &mut self.state {
            State::Counter(in_use) => *in_use = in_use.saturating_add(amount),
            State::Window(window) => window.add(amount, tick),
        }
    }

    fn is_expired(&self, tick: u64) -> bool {
        match &self.state {
            State::Counter(in_use) => *in_use == 0,
            State::Window(window) => window.in_use_at(tick) == 0,
        }
    }
}

impl Window {
    /// A window as long as `nanos`, rounded up to whole seconds, at least one.
    fn new(nanos: i64) -> Self {
        let seconds = nanos.saturating_add(999_999_999) / 1_000_000_000;
        let length = (seconds.max(1) * TICKS_PER_SECOND).cast_unsigned();
        Self { length, slots: VecDeque::new(), in_use: 0, last: 0 }
    }

    /// Whether a slot is out of the window at `tick`.
    fn is_over(&self, slot: u64, tick: u64) -> bool {
        slot.saturating_add(self.length) <= tick
    }

    /// What is in use at `tick`.
    fn in_use_at(&self, tick: u64) -> i64 {
        let over: i64 =
            self.slots.iter().take_while(|(slot, _)| self.is_over(*slot, tick)).map(|(_, a)| *a).sum();
        self.in_use - over
    }

    /// Moves to `tick`; a clock that goes back stands still instead.
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
        match self.slots.back_mut() {
            Some((slot, held)) if *slot == self.last => *held = held.saturating_add(amount),
            _ => self.slots.push_back((self.last, amount)),
        }
    }

    /// Gives back from the newest slot towards the oldest.
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

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_attribute::SignedDuration;

    const SECOND: u64 = 1_000_000_000;

    fn window(max_amount: i64, seconds: i64) -> Limit {
        Limit { max_amount, valid_duration: SignedDuration::from_secs(seconds) }
    }

    #[test]
    fn the_number_of_cells_is_bounded_and_the_oldest_go_first() {
        let mut cells = Cells::with_capacity(32);
        let limit = window(1, 1_000_000);
        for i in 0..1000_u64 {
            cells.allocate(i, &i.to_le_bytes(), limit, 1, false, i * SECOND);
            assert!(cells.len() <= 32);
        }
        assert_eq!(cells.take_forgotten(), 1000 - cells.len() as u64);
        // The newest is still limited.
        assert_eq!(cells.allocate(999, &999_u64.to_le_bytes(), limit, 1, false, 1000 * SECOND), (0, false));
        // The oldest was forgotten.
        assert_eq!(cells.allocate(0, &0_u64.to_le_bytes(), limit, 1, false, 1000 * SECOND), (1, true));
    }

    #[test]
    fn expired_windows_go_before_live_cells() {
        let mut cells = Cells::with_capacity(32);
        let counter = Limit { max_amount: 1, valid_duration: SignedDuration::ZERO };
        cells.allocate(0, b"held", counter, 1, false, 0);
        for i in 1..100_u64 {
            cells.allocate(i, &i.to_le_bytes(), window(1, 1), 1, false, i * 2 * SECOND);
        }
        assert_eq!(cells.allocate(0, b"held", counter, 1, false, 300 * SECOND), (0, false));
    }

    #[test]
    fn hash_collisions_do_not_share_a_cell() {
        let mut cells = Cells::with_capacity(32);
        assert_eq!(cells.allocate(7, b"a", window(1, 1), 1, false, 0), (1, true));
        assert_eq!(cells.allocate(7, b"b", window(1, 1), 1, false, 0), (1, true));
        assert_eq!(cells.allocate(7, b"a", window(1, 1), 1, false, 0), (0, false));
        assert_eq!(cells.release(7, b"b", 5, 0), 1);
        assert_eq!(cells.len(), 1);
    }

    #[test]
    fn extreme_amounts_do_not_overflow() {
        let counter = |max_amount| Limit { max_amount, valid_duration: SignedDuration::ZERO };
        let mut cells = Cells::with_capacity(32);
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
        let mut cells = Cells::with_capacity(32);
        assert_eq!(cells.allocate(1, b"k", window(2, 1), 1, false, 10 * SECOND), (1, true));
        assert_eq!(cells.allocate(1, b"k", window(2, 1), 1, false, 5 * SECOND), (1, true));
        assert_eq!(cells.allocate(1, b"k", window(2, 1), 1, false, 10 * SECOND), (0, false));
        assert_eq!(cells.allocate(1, b"k", window(2, 1), 2, false, 11 * SECOND), (2, true));
    }
}
