//! Counters of fixed windows, shared by all workers.

use std::hash::BuildHasher as _;

use hashbrown::HashTable;
use parking_lot::Mutex;

/// Independent parts; each has its own lock.
const SHARDS: usize = 64;
/// Most counters. When there are more, those whose windows end first are forgotten.
const MAX_COUNTERS: usize = 1 << 20;

/// How much was counted in the present window of each key. Survives changes of configuration, as the keys say what they count.
///
/// Bounded by `MAX_COUNTERS`. Cost of a call: a hash and one lock that is hardly ever contended.
pub struct Windows {
    hasher: foldhash::quality::RandomState,
    shards: Vec<Shard>,
    capacity: usize,
}

#[derive(Default)]
#[repr(align(64))]
struct Shard(Mutex<HashTable<Counted>>);

struct Counted {
    hash: u64,
    key: Box<[u8]>,
    /// Length of the window in seconds.
    length: u64,
    /// When the window began, in seconds.
    began: u64,
    count: i64,
}

impl Counted {
    fn end(&self) -> u64 {
        self.began.saturating_add(self.length)
    }
}

impl Default for Windows {
    fn default() -> Self {
        Self::with_capacity(MAX_COUNTERS)
    }
}

impl Windows {
    /// Nothing counted yet, at most `capacity` counters.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            hasher: foldhash::quality::RandomState::default(),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            capacity: (capacity / SHARDS).max(1),
        }
    }

    /// Number of counters.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    /// Whether nothing is counted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds to the counter of `key` in the window of `length` seconds that `now`, in seconds since 1970, is in; gives its new
    /// value. 0 only looks; a negative amount gives back, at most what there is.
    pub fn add(&self, key: &[u8], length: u64, now: u64, amount: i64) -> i64 {
        let length = length.max(1);
        let began = now - now % length;
        let hash = self.hasher.hash_one((key, length));
        let shard = usize::try_from(hash >> 40).unwrap_or(0) % SHARDS;
        let Some(shard) = self.shards.get(shard) else { return 0 };
        let mut table = shard.0.lock();
        if let Some(counted) = table.find_mut(hash, |c| c.length == length && *c.key == *key) {
            // A clock that goes back stays in the window that it had reached.
            if began > counted.began {
                (counted.began, counted.count) = (began, 0);
            }
            counted.count = counted.count.saturating_add(amount).max(0);
            return counted.count;
        }
        if amount <= 0 {
            return 0;
        }
        make_room(&mut table, self.capacity, now);
        table
            .insert_unique(hash, Counted { hash, key: key.into(), length, began, count: amount }, |c| c.hash);
        amount
    }
}

/// Forgets windows that are over; if that is not enough, a sixteenth of the rest, those that end first.
fn make_room(table: &mut HashTable<Counted>, capacity: usize, now: u64) {
    if table.len() < capacity {
        return;
    }
    table.retain(|counted| counted.end() > now);
    if table.len() < capacity {
        return;
    }
    let mut ends: Vec<u64> = table.iter().map(Counted::end).collect();
    let wanted = (capacity / 16).max(1);
    let (_, threshold, _) = ends.select_nth_unstable(wanted - 1);
    let mut gone = 0;
    table.retain(|counted| {
        let goes = gone < wanted && counted.end() <= *threshold;
        gone += usize::from(goes);
        !goes
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_at_a_multiple_of_its_length() {
        let windows = Windows::default();
        assert_eq!(windows.add(b"k", 60, 119, 3), 3);
        assert_eq!(windows.add(b"k", 60, 119, 1), 4);
        assert_eq!(windows.add(b"k", 60, 120, 1), 1, "a new minute");
        assert_eq!(windows.add(b"k", 60, 119, 1), 2, "a clock that goes back");
        assert_eq!(windows.add(b"k", 1, 120, 1), 1, "another length is another counter");
    }

    #[test]
    fn looking_counts_nothing_and_giving_back_stops_at_nothing() {
        let windows = Windows::default();
        assert_eq!(windows.add(b"k", 60, 0, 0), 0);
        assert!(windows.is_empty());
        assert_eq!(windows.add(b"k", 60, 0, 5), 5);
        assert_eq!(windows.add(b"k", 60, 0, -2), 3);
        assert_eq!(windows.add(b"k", 60, 0, -9), 0);
        assert_eq!(windows.add(b"k", 60, 0, i64::MAX), i64::MAX);
        assert_eq!(windows.add(b"k", 60, 0, i64::MAX), i64::MAX);
    }

    #[test]
    fn the_number_of_counters_is_bounded() {
        let windows = Windows::with_capacity(64 * 16);
        for i in 0..10_000_u64 {
            windows.add(&i.to_le_bytes(), 3600, 7, 1);
        }
        assert!(windows.len() <= 64 * 16, "{}", windows.len());
    }
}
