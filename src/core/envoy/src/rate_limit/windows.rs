//! Counters of fixed windows, shared by all workers.

use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use mixer_base::bounded::{Bounded, BoundedTable, Modified, WhenFull, stored_key};
use mixer_base::budget::Share;
use mixer_engine::adapter::Clock;
use parking_lot::Mutex;

/// Independent parts; each has its own lock.
const SHARDS: usize = 64;

/// The count of the current window of each key. Survives configuration changes, because keys identify what they count. Beyond the
/// share of the memory budget, the counters whose windows end first are evicted.
///
/// Cost of a call: a hash, and a lock that is rarely contended.
pub(crate) struct WindowCounters {
    clock: Arc<dyn Clock>,
    /// Unix time at which the monotonic time of the clock was 0, as it was at the start: windows are aligned to the time of day, and no
    /// later change of that time moves them.
    epoch: Duration,
    hasher: foldhash::quality::RandomState,
    shards: Vec<Shard>,
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
}

impl WindowCounter {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }
}

impl Bounded for WindowCounter {
    const QUEUES: usize = 32;

    fn heap_bytes(&self) -> usize {
        self.key.len()
    }

    /// WindowCounters of one length end in the order in which they began.
    fn queue(&self) -> usize {
        self.length.ilog2().min(31) as usize
    }

    fn is_expired(&self, now: u64) -> bool {
        self.end() <= now
    }

    fn eviction_rank(&self) -> u64 {
        self.end()
    }
}

impl WindowCounters {
    /// No counters yet. Bytes are taken from `share`.
    pub(crate) fn new(share: &Arc<Share>, clock: Arc<dyn Clock>) -> Self {
        let account = Arc::new(share.open());
        let shard = || Shard(Mutex::new(BoundedTable::within(Arc::clone(&account), WhenFull::Evict)));
        Self {
            epoch: clock.unix_time().saturating_sub(clock.monotonic()),
            clock,
            hasher: foldhash::quality::RandomState::default(),
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
        }
    }

    /// Seconds since 1970 by the time of day at the start and the monotonic clock since.
    pub(crate) fn now(&self) -> u64 {
        (self.epoch + self.clock.monotonic()).as_secs()
    }

    /// Adds `amount` to the counter of `key` in the window of `length` seconds that contains `now`, in seconds since 1970.
    /// Returns the new count. An amount of 0 reads the counter; a negative amount is refunded, to no less than 0.
    pub(super) fn add(&self, key: &[u8], length: u64, now: u64, amount: i64) -> i64 {
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
            (if is_new_window { Modified::Used } else { Modified::InPlace }, counter.count)
        });
        match counted {
            Some(count) => count,
            None if amount <= 0 => 0,
            None => {
                let counter = WindowCounter { key: key.into(), length, start, count: amount };
                // What cannot be counted is over every limit.
                if table.insert(hash, counter, now) { amount } else { i64::MAX }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_engine::adapter::SystemClock;

    impl WindowCounters {
        fn with_budget(bytes: usize) -> Self {
            Self::new(&Arc::new(Share::new(bytes)), Arc::new(SystemClock))
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
        let windows =
            WindowCounters::new(&Arc::new(Share::new(1 << 20)), Arc::clone(&clock) as Arc<dyn Clock>);
        assert_eq!(windows.now(), 6_000_010, "windows are aligned to the time of day");
        assert_eq!(windows.add(b"k", 60, windows.now(), 1), 1);
        for (day, now) in [(6_000_610, 5), (5_999_410, 5), (0, 6)] {
            *clock.0.lock() = (day, now);
            assert_eq!(windows.now(), 6_000_005 + now);
            assert!(windows.add(b"k", 60, windows.now(), 1) > 1, "{day}");
        }
        *clock.0.lock() = (0, 55);
        assert_eq!(windows.add(b"k", 60, windows.now(), 1), 1, "the next minute");
    }

    fn len(windows: &WindowCounters) -> usize {
        windows.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    #[test]
    fn a_window_ends_at_a_multiple_of_its_length() {
        let windows = WindowCounters::default();
        assert_eq!(windows.add(b"k", 60, 119, 3), 3);
        assert_eq!(windows.add(b"k", 60, 119, 1), 4);
        assert_eq!(windows.add(b"k", 60, 120, 1), 1, "the next window");
        assert_eq!(windows.add(b"k", 60, 119, 1), 2, "the clock goes back");
        assert_eq!(windows.add(b"k", 1, 120, 1), 1, "each length has its own counter");
    }

    #[test]
    fn a_read_counts_nothing_and_a_refund_stops_at_zero() {
        let windows = WindowCounters::default();
        assert_eq!(windows.add(b"k", 60, 0, 0), 0);
        assert_eq!(len(&windows), 0);
        assert_eq!(windows.add(b"k", 60, 0, 5), 5);
        assert_eq!(windows.add(b"k", 60, 0, -2), 3);
        assert_eq!(windows.add(b"k", 60, 0, -9), 0);
        assert_eq!(windows.add(b"k", 60, 0, i64::MAX), i64::MAX);
        assert_eq!(windows.add(b"k", 60, 0, i64::MAX), i64::MAX);
    }

    #[test]
    fn memory_is_bounded_and_windows_that_end_first_are_evicted() {
        let budget = SHARDS * 16 * (BoundedTable::<WindowCounter>::ENTRY_BYTES + 8);
        let windows = WindowCounters::with_budget(budget);
        for i in 0..10_000_u64 {
            windows.add(&i.to_le_bytes(), if i == 0 { 86_400 } else { 3600 }, 7, 1);
        }
        assert!(len(&windows) <= SHARDS * 16, "{}", len(&windows));
        assert_eq!(windows.add(&0_u64.to_le_bytes(), 86_400, 7, 0), 1, "this window ends last");
        let long = vec![0; budget];
        assert_eq!(windows.add(&long, 3600, 7, 1), 1);
        assert_eq!(windows.add(&long, 3600, 7, 0), 1, "a key larger than the budget is counted");
    }

    #[test]
    fn long_keys_evict_no_more_than_short_ones() {
        let windows = WindowCounters::default();
        for victim in 0..50_u8 {
            windows.add(&[victim; 20], 3600, 7, 3);
        }
        for i in 0..300_u64 {
            let mut long = vec![b'x'; 1 << 20];
            long.extend_from_slice(&i.to_le_bytes());
            assert_eq!((windows.add(&long, 3600, 7, 1), windows.add(&long, 3600, 7, 1)), (1, 2));
        }
        assert_eq!(len(&windows), 350);
        assert!((0..50_u8).all(|victim| windows.add(&[victim; 20], 3600, 7, 0) == 3));
    }

    #[test]
    fn a_key_that_cannot_be_counted_is_over_every_limit() {
        let windows = WindowCounters::with_budget(SHARDS);
        assert_eq!(windows.add(b"k", 60, 0, 1), i64::MAX);
    }
}
