//! Counters of fixed windows, shared by all workers.

use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use mixer_base::bounded::{Bounded, BoundedTable, Modified, WhenFull, stored_key};
use mixer_base::budget::Share;
use mixer_base::metrics::Counter;
use mixer_engine::adapter::Clock;
use parking_lot::Mutex;

/// Independent parts; each has its own lock.
const SHARDS: usize = 64;

/// The count of the current window of each key. Survives configuration changes, because keys identify what they count. Beyond the
/// share of the memory budget counters are evicted: first those that have not reached their limit, by the end of their windows, so that
/// a caller who is over a limit stays over it whatever other keys callers send.
///
/// Cost of a call: a hash, and a lock that is rarely contended.
pub(crate) struct WindowCounters {
    clock: Arc<dyn Clock>,
    /// Unix time at which the monotonic time of the clock was 0, as it was at the start: windows are aligned to the time of day, and no
    /// later change of that time moves them.
    epoch: Duration,
    hasher: foldhash::quality::RandomState,
    shards: Vec<Shard>,
    evicted: Counter,
}

#[repr(align(64))]
struct Shard(Mutex<BoundedTable<WindowCounter>>);

struct WindowCounter {
    key: Box<[u8]>,
    /// Length of the window in seconds.
    length: u64,
    /// Start of the window, in seconds since 1970.
    start: u64,
    count: i64,
    /// Whether the count has reached the limit of the last charge.
    is_exhausted: bool,
}

/// What a request takes from a counter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Charge {
    /// 0 reads the counter; a negative amount is refunded, to no less than 0.
    pub(super) amount: i64,
    /// The limit.
    pub(super) limit: i64,
}

/// Bits of the length of a window that select its queue.
const LENGTHS: usize = 32;

impl WindowCounter {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }
}

impl Bounded for WindowCounter {
    const QUEUES: usize = 2 * LENGTHS;

    fn heap_bytes(&self) -> usize {
        self.key.len()
    }

    /// Windows of one length end in the order in which they began.
    fn queue(&self) -> usize {
        let length = (self.length.ilog2() as usize).min(LENGTHS - 1);
        if self.is_exhausted { LENGTHS + length } else { length }
    }

    fn is_expired(&self, now: u64) -> bool {
        self.end() <= now
    }

    fn eviction_rank(&self) -> u64 {
        const EXHAUSTED: u64 = 1 << 63;
        self.end().min(EXHAUSTED - 1) | if self.is_exhausted { EXHAUSTED } else { 0 }
    }
}

impl WindowCounters {
    /// No counters yet. Bytes are taken from `share`; evictions are counted in `evicted`.
    pub(crate) fn new(share: &Arc<Share>, clock: Arc<dyn Clock>, evicted: Counter) -> Self {
        let account = Arc::new(share.open());
        let shard = || Shard(Mutex::new(BoundedTable::within(Arc::clone(&account), WhenFull::Evict)));
        Self {
            epoch: clock.unix_time().saturating_sub(clock.monotonic()),
            clock,
            hasher: foldhash::quality::RandomState::default(),
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
            evicted,
        }
    }

    /// Seconds since 1970 by the time of day at the start and the monotonic clock since.
    pub(crate) fn now(&self) -> u64 {
        (self.epoch + self.clock.monotonic()).as_secs()
    }

    /// Charges the counter of `key` in the window of `length` seconds that contains `now`, in seconds since 1970. Returns the new count.
    pub(super) fn add(&self, key: &[u8], length: u64, now: u64, charge: Charge) -> i64 {
        let Charge { amount, limit } = charge;
        let key = &*stored_key(key);
        let length = length.max(1);
        let start = now - now % length;
        let hash = self.hasher.hash_one((key, length));
        let shard = usize::try_from(hash >> 40).unwrap_or(0) % SHARDS;
        let Some(shard) = self.shards.get(shard) else { return 0 };
        let mut table = shard.0.lock();
        let is_key = |counter: &WindowCounter| counter.length == length && *counter.key == *key;
        let counted = table.modify(hash, is_key, now, |counter| {
            // If the clock goes back, the counter stays in the window that it has reached.
            let is_new_window = start > counter.start;
            if is_new_window {
                (counter.start, counter.count) = (start, 0);
            }
            counter.count = counter.count.saturating_add(amount).max(0);
            let was_exhausted = std::mem::replace(&mut counter.is_exhausted, counter.count >= limit);
            let moves = is_new_window || was_exhausted != counter.is_exhausted;
            (if moves { Modified::Used } else { Modified::InPlace }, counter.count)
        });
        match counted {
            Some(count) => count,
            None if amount <= 0 => 0,
            None => {
                let is_exhausted = amount >= limit;
                let counter = WindowCounter { key: key.into(), length, start, count: amount, is_exhausted };
                let before = table.evicted();
                let inserted = table.insert(hash, counter, now);
                let evicted = table.evicted() - before;
                drop(table);
                self.count_evicted(evicted);
                // What cannot be counted is over every limit.
                if inserted { amount } else { i64::MAX }
            }
        }
    }
}

impl WindowCounters {
    fn count_evicted(&self, evicted: u64) {
        if evicted > 0 {
            self.evicted.add(evicted);
            mixer_base::warn_limited!(
                1,
                evicted,
                "rate limits of Envoy have no memory left: counters of windows that have not ended were evicted (--memory-limit)"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_base::metrics::{Family, Metrics};
    use mixer_engine::adapter::SystemClock;

    impl WindowCounters {
        fn with_budget(bytes: usize) -> Self {
            Self::with_clock(bytes, Arc::new(SystemClock))
        }

        fn with_clock(bytes: usize, clock: Arc<dyn Clock>) -> Self {
            let evicted = Metrics::new().counter(Family::BridgeRateLimitEvicted, &[]);
            Self::new(&Arc::new(Share::new(bytes)), clock, evicted)
        }

        /// Charges a counter without a limit.
        fn charge(&self, key: &[u8], length: u64, now: u64, amount: i64) -> i64 {
            self.add(key, length, now, Charge { amount, limit: i64::MAX })
        }
    }

    impl Default for WindowCounters {
        fn default() -> Self {
            Self::with_budget(64 << 20)
        }
    }

    /// Times of day and since the start, in seconds.
    struct JumpingClock(Mutex<(u64, u64)>);

    impl Clock for JumpingClock {
        fn unix_time(&self) -> Duration {
            Duration::from_secs(self.0.lock().0)
        }

        fn monotonic(&self) -> Duration {
            Duration::from_secs(self.0.lock().1)
        }
    }

    #[test]
    fn a_time_of_day_that_jumps_changes_no_window() {
        let clock = Arc::new(JumpingClock(Mutex::new((6_000_010, 5))));
        let windows = WindowCounters::with_clock(1 << 20, Arc::clone(&clock) as Arc<dyn Clock>);
        assert_eq!(windows.now(), 6_000_010, "windows are aligned to the time of day");
        assert_eq!(windows.charge(b"k", 60, windows.now(), 1), 1);
        for (day, now) in [(6_000_610, 5), (5_999_410, 5), (0, 6)] {
            *clock.0.lock() = (day, now);
            assert_eq!(windows.now(), 6_000_005 + now);
            assert!(windows.charge(b"k", 60, windows.now(), 1) > 1, "{day}");
        }
        *clock.0.lock() = (0, 55);
        assert_eq!(windows.charge(b"k", 60, windows.now(), 1), 1, "the next minute");
    }

    fn len(windows: &WindowCounters) -> usize {
        windows.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    #[test]
    fn a_window_ends_at_a_multiple_of_its_length() {
        let windows = WindowCounters::default();
        assert_eq!(windows.charge(b"k", 60, 119, 3), 3);
        assert_eq!(windows.charge(b"k", 60, 119, 1), 4);
        assert_eq!(windows.charge(b"k", 60, 120, 1), 1, "the next window");
        assert_eq!(windows.charge(b"k", 60, 119, 1), 2, "the clock goes back");
        assert_eq!(windows.charge(b"k", 1, 120, 1), 1, "each length has its own counter");
    }

    #[test]
    fn a_read_counts_nothing_and_a_refund_stops_at_zero() {
        let windows = WindowCounters::default();
        assert_eq!(windows.charge(b"k", 60, 0, 0), 0);
        assert_eq!(len(&windows), 0);
        assert_eq!(windows.charge(b"k", 60, 0, 5), 5);
        assert_eq!(windows.charge(b"k", 60, 0, -2), 3);
        assert_eq!(windows.charge(b"k", 60, 0, -9), 0);
        assert_eq!(windows.charge(b"k", 60, 0, i64::MAX), i64::MAX);
        assert_eq!(windows.charge(b"k", 60, 0, i64::MAX), i64::MAX);
    }

    #[test]
    fn memory_is_bounded_and_windows_that_end_first_are_evicted() {
        let budget = SHARDS * 16 * (BoundedTable::<WindowCounter>::ENTRY_BYTES + 8);
        let windows = WindowCounters::with_budget(budget);
        for i in 0..10_000_u64 {
            windows.charge(&i.to_le_bytes(), if i == 0 { 86_400 } else { 3600 }, 7, 1);
        }
        assert!(len(&windows) <= SHARDS * 16, "{}", len(&windows));
        assert_eq!(windows.charge(&0_u64.to_le_bytes(), 86_400, 7, 0), 1, "this window ends last");
        let long = vec![0; budget];
        assert_eq!(windows.charge(&long, 3600, 7, 1), 1);
        assert_eq!(windows.charge(&long, 3600, 7, 0), 1, "a key larger than the budget is counted");
    }

    #[test]
    fn counters_that_reached_their_limit_are_evicted_last() {
        let budget = SHARDS * 16 * (BoundedTable::<WindowCounter>::ENTRY_BYTES + 8);
        let windows = WindowCounters::with_budget(budget);
        let charge = Charge { amount: 3, limit: 3 };
        assert_eq!(windows.add(b"victim", 3600, 7, charge), 3);
        for i in 0..10_000_u64 {
            // Below the limit, in windows that end later.
            windows.add(&i.to_le_bytes(), 86_400, 7, Charge { amount: 1, ..charge });
        }
        assert_eq!(windows.add(b"victim", 3600, 7, Charge { amount: 0, ..charge }), 3);
        assert!(windows.evicted.get() > 8000, "{} evictions are counted", windows.evicted.get());
        // Refunded, the counter is like others.
        windows.add(b"victim", 3600, 7, Charge { amount: -1, ..charge });
        for i in 0..10_000_u64 {
            windows.add(&i.to_be_bytes(), 86_400, 7, Charge { amount: 1, ..charge });
        }
        assert_eq!(windows.add(b"victim", 3600, 7, Charge { amount: 0, ..charge }), 0);
        // In the next window an exhausted counter begins anew.
        windows.add(b"victim", 3600, 7, charge);
        assert_eq!(windows.add(b"victim", 3600, 3600, Charge { amount: 1, ..charge }), 1);
    }

    #[test]
    fn long_keys_evict_no_more_than_short_ones() {
        let windows = WindowCounters::default();
        for victim in 0..50_u8 {
            windows.charge(&[victim; 20], 3600, 7, 3);
        }
        for i in 0..300_u64 {
            let mut long = vec![b'x'; 1 << 20];
            long.extend_from_slice(&i.to_le_bytes());
            assert_eq!((windows.charge(&long, 3600, 7, 1), windows.charge(&long, 3600, 7, 1)), (1, 2));
        }
        assert_eq!(len(&windows), 350);
        assert!((0..50_u8).all(|victim| windows.charge(&[victim; 20], 3600, 7, 0) == 3));
    }

    #[test]
    fn a_key_that_cannot_be_counted_is_over_every_limit() {
        let windows = WindowCounters::with_budget(SHARDS);
        assert_eq!(windows.charge(b"k", 60, 0, 1), i64::MAX);
    }
}
