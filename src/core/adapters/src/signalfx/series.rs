//! The series of a metric, by their dimensions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use mixer_base::budget::Account;

use super::histogram::Histogram;

/// Number of shards, each with its lock.
const SHARDS: usize = 16;
/// Bytes of a series without its dimensions and bins, with its place in a table that may be half empty.
const SERIES_BYTES: usize = 2 * size_of::<(Arc<[u8]>, Series)>() + 64;

type Shard = HashMap<Arc<[u8]>, Series, foldhash::fast::RandomState>;

/// What a series has.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Aggregate {
    /// The sum of all values.
    Sum(i64),
    /// Boxed: most series are sums.
    Distribution(Box<Distribution>),
}

/// The values of a histogram: all of them, and those since they were last read.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Distribution {
    pub(super) count: i64,
    pub(super) sum: f64,
    pub(super) sum_of_squares: f64,
    pub(super) recent: Histogram,
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Int(i64),
    /// Finite.
    Double(f64),
}

#[derive(Debug)]
struct Series {
    value: Aggregate,
    /// When its last value came, by the monotonic clock.
    updated: Duration,
}

/// All series of a metric.
pub(super) struct SeriesTable {
    is_distribution: bool,
    shards: Box<[Mutex<Shard>]>,
    hasher: foldhash::fast::RandomState,
    /// What found no room; `None` until then.
    overflow: Mutex<Option<Aggregate>>,
    length: AtomicUsize,
    account: Arc<Account>,
}

/// Where a value went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recorded {
    Series,
    Overflow,
}

impl Aggregate {
    fn new(is_distribution: bool) -> Self {
        if is_distribution { Aggregate::Distribution(Box::default()) } else { Aggregate::Sum(0) }
    }

    /// compat(1.3): sums are of whole numbers, those of others are cut off.
    fn add(&mut self, number: Number) {
        match self {
            Aggregate::Sum(sum) => {
                let whole = match number {
                    Number::Int(number) => number,
                    Number::Double(number) => number as i64,
                };
                *sum = sum.saturating_add(whole);
            }
            Aggregate::Distribution(all) => {
                let number = match number {
                    Number::Int(number) => number as f64,
                    Number::Double(number) => number,
                };
                all.count = all.count.saturating_add(1);
                all.sum += number;
                all.sum_of_squares += number * number;
                all.recent.add(number);
            }
        }
    }

    /// A copy; what is recent begins again.
    fn read(&mut self) -> Self {
        match self {
            Aggregate::Sum(sum) => Aggregate::Sum(*sum),
            Aggregate::Distribution(all) => {
                let recent = std::mem::take(&mut all.recent);
                Aggregate::Distribution(Box::new(Distribution { recent, ..(**all).clone() }))
            }
        }
    }
}

impl SeriesTable {
    pub(super) fn new(is_distribution: bool, account: Arc<Account>) -> Self {
        Self {
            is_distribution,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: foldhash::fast::RandomState::default(),
            overflow: Mutex::new(None),
            length: AtomicUsize::new(0),
            account,
        }
    }

    /// Number of series, without that of overflow.
    pub(super) fn len(&self) -> usize {
        // Relaxed: only the number matters.
        self.length.load(Ordering::Relaxed)
    }

    /// Most series. Those with long texts take more memory, which may allow fewer.
    pub(super) fn most(&self) -> usize {
        self.account.share().limit() / self.bytes(&[])
    }

    fn bytes(&self, dimensions: &[u8]) -> usize {
        let bins = if self.is_distribution { Histogram::BYTES + size_of::<Distribution>() } else { 0 };
        SERIES_BYTES + dimensions.len() + bins
    }

    /// Adds a value that came at a time of the monotonic clock to the series with these encoded dimensions.
    pub(super) fn record(&self, dimensions: &[u8], number: Number, at: Duration) -> Recorded {
        use std::hash::BuildHasher as _;
        let hash = self.hasher.hash_one(dimensions);
        if let Some(shard) = self.shards.get(hash as usize % SHARDS) {
            let mut shard = shard.lock();
            if let Some(series) = shard.get_mut(dimensions) {
                series.value.add(number);
                series.updated = series.updated.max(at);
                return Recorded::Series;
            }
            if self.account.acquire(self.bytes(dimensions)) {
                let mut value = Aggregate::new(self.is_distribution);
                value.add(number);
                shard.insert(dimensions.into(), Series { value, updated: at });
                self.length.fetch_add(1, Ordering::Relaxed);
                return Recorded::Series;
            }
        }
        self.overflow.lock().get_or_insert_with(|| Aggregate::new(self.is_distribution)).add(number);
        Recorded::Overflow
    }

    /// The parts that [`read`](Self::read) reads, of which the last one is the overflow series.
    pub(super) fn parts(&self) -> std::ops::RangeInclusive<usize> {
        0..=self.shards.len()
    }

    /// Dimensions and values of a part of all series. A series whose last value came more than `expiry` before `now` ends.
    pub(super) fn read(
        &self,
        part: usize,
        overflow: &Arc<[u8]>,
        now: Duration,
        expiry: Duration,
    ) -> Vec<(Arc<[u8]>, Aggregate)> {
        let Some(shard) = self.shards.get(part) else {
            let value = self.overflow.lock().as_mut().map(Aggregate::read);
            return value.map(|value| (Arc::clone(overflow), value)).into_iter().collect();
        };
        let mut shard = shard.lock();
        let mut all = Vec::with_capacity(shard.len());
        shard.retain(|dimensions, series| {
            all.push((Arc::clone(dimensions), series.value.read()));
            let lives = now.saturating_sub(series.updated) <= expiry;
            if !lives {
                self.account.release(self.bytes(dimensions));
                self.length.fetch_sub(1, Ordering::Relaxed);
            }
            lives
        });
        // Memory that a burst needed, and that the account does not have any more.
        if shard.len() < shard.capacity() / 4 {
            let least = 2 * shard.len();
            shard.shrink_to(least);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_base::budget::Share;

    fn read(table: &SeriesTable, at: u64) -> Vec<(Arc<[u8]>, Aggregate)> {
        let overflow = Arc::from(&b"overflow"[..]);
        let (now, expiry) = (Duration::from_secs(at), Duration::from_secs(300));
        let mut all: Vec<_> =
            table.parts().flat_map(|part| table.read(part, &overflow, now, expiry)).collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }

    fn sums(table: &SeriesTable, at: u64) -> Vec<(String, i64)> {
        let sum = |(dimensions, value): (Arc<[u8]>, Aggregate)| match value {
            Aggregate::Sum(sum) => (String::from_utf8(dimensions.to_vec()).unwrap(), sum),
            Aggregate::Distribution(all) => panic!("{all:?}"),
        };
        read(table, at).into_iter().map(sum).collect()
    }

    #[test]
    fn sums_go_on_until_nothing_came_for_long() {
        let share = Arc::new(Share::new(1 << 20));
        let table = SeriesTable::new(false, Arc::new(share.open()));
        let record = |dimensions: &str, number, at| {
            assert_eq!(
                table.record(dimensions.as_bytes(), number, Duration::from_secs(at)),
                Recorded::Series
            );
        };
        record("a", Number::Int(5), 0);
        record("b", Number::Double(2.9), 0);
        record("a", Number::Double(-1.9), 1);
        assert_eq!(sums(&table, 1), [("a".to_owned(), 4), ("b".to_owned(), 2)]);
        record("a", Number::Int(i64::MAX), 10);
        let last = [("a".to_owned(), i64::MAX), ("b".to_owned(), 2)];
        assert_eq!(sums(&table, 301), last);
        assert_eq!((sums(&table, 302), table.len()), (last[..1].to_vec(), 1), "the other has ended");
        assert_eq!(sums(&table, 1000), last[..1]);
        assert_eq!((sums(&table, 1001), share.used()), (Vec::new(), 0));
        record("a", Number::Int(1), 1002);
        assert_eq!(sums(&table, 1002), [("a".to_owned(), 1)], "it begins anew");
    }

    #[test]
    fn without_room_the_total_stays_exact() {
        let share = Arc::new(Share::new(3 * SERIES_BYTES));
        let table = SeriesTable::new(false, Arc::new(share.open()));
        let overflowed = (0..100_u8)
            .filter(|number| {
                let at = Duration::from_secs(1);
                table.record(&[b'a' + number % 20], Number::Int(1), at) == Recorded::Overflow
            })
            .count();
        let all = sums(&table, 1);
        assert_eq!(all.iter().map(|(_, sum)| sum).sum::<i64>(), 100, "{all:?}");
        let of_overflow = all.iter().find(|(dimensions, _)| dimensions == "overflow").unwrap().1;
        assert!(of_overflow == overflowed as i64 && table.len() < 3 && share.used() <= share.limit());
    }

    #[test]
    fn what_is_recent_begins_again_and_what_is_cumulative_does_not() {
        let share = Arc::new(Share::new(1 << 20));
        let table = SeriesTable::new(true, Arc::new(share.open()));
        let one = |at| match read(&table, at).pop().unwrap().1 {
            Aggregate::Distribution(all) => *all,
            Aggregate::Sum(sum) => panic!("{sum}"),
        };
        for number in [Number::Int(3), Number::Double(-0.5)] {
            table.record(b"a", number, Duration::ZERO);
        }
        let first = one(0);
        assert_eq!((first.count, first.sum, first.sum_of_squares), (2, 2.5, 9.25));
        assert_eq!((first.recent.least(), first.recent.greatest()), (-0.5, 3.0));
        let second = one(1);
        assert!(second.recent.is_empty() && second.count == 2);
    }
}
