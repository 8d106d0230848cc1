//! The series of a metric.
//!
//! A series is in one of several shards, by the hash of its attributes, and its value is behind the lock of that shard: a sample costs one
//! lock and one look-up. Series take their bytes from the share `series` of the memory budget. Without room, samples go to the overflow
//! series, so that the sum of all series is that of all samples.

use std::cell::RefCell;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::Mutex;
use prost::Message as _;

use mixer_base::budget::Account;
use mixer_engine::adapter::Clock;
use mixer_otlp::{HistogramPoint, NumberPoint, NumberValue};

/// Number of shards. The reader holds the lock of one while it copies the values of its series.
const SHARDS: usize = 64;

static HASHER: LazyLock<foldhash::fast::RandomState> = LazyLock::new(Default::default);

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Bytes of a series without its attributes and buckets, with its place in a table that may be half empty.
const SERIES_BYTES: usize = 2 * size_of::<Series>() + 64;

/// How samples become a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Aggregation {
    Last,
    Sum {
        is_delta: bool,
    },
    /// With upper bounds, which increase.
    Distribution {
        bounds: Box<[f64]>,
        is_delta: bool,
    },
}

/// A sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Int(i64),
    /// Finite.
    Double(f64),
}

/// How far the time of day may be set back without going back here: more than that corrects a time that was wrong.
const STEP: u64 = 60_000_000_000;

/// The time of day, which goes back only if it was wrong by more than a minute.
pub(super) struct WallClock {
    clock: Arc<dyn Clock>,
    last: AtomicU64,
}

impl WallClock {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, last: AtomicU64::new(0) }
    }

    /// Nanoseconds since 1970. A clock that is set back by up to a minute stands still until it has caught up.
    pub(super) fn now(&self) -> u64 {
        let now = u64::try_from(self.clock.unix_time().as_nanos()).unwrap_or(u64::MAX);
        // Relaxed: only the maximum matters.
        let last = self.last.fetch_max(now, Ordering::Relaxed).max(now);
        if last - now <= STEP {
            return last;
        }
        // Everything would have the wrong time until it comes, which may be years.
        self.last.store(now, Ordering::Relaxed);
        now
    }

    /// Time since an arbitrary point.
    pub(super) fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
}

/// All series of a metric.
pub(super) struct SeriesTable {
    aggregation: Aggregation,
    shards: Box<[Mutex<HashTable<Series>>]>,
    /// What found no room.
    overflow: Mutex<Series>,
    length: AtomicUsize,
    most: usize,
    account: Arc<Account>,
    wall: Arc<WallClock>,
}

struct Series {
    /// Encoded.
    attributes: Arc<[u8]>,
    hash: u64,
    /// Since when its value counts.
    start: u64,
    /// When its last sample came, by the monotonic clock.
    updated: Duration,
    /// Whether it has a sample that the reader has not seen.
    has_news: bool,
    value: Aggregate,
}

enum Aggregate {
    Number(Number),
    Distribution { counts: Box<[u64]>, sum: f64, least: f64, greatest: f64 },
}

/// A value of a series, without its attributes.
#[derive(Debug)]
pub(super) struct Sampled {
    pub(super) attributes: Arc<[u8]>,
    /// The rest of the point, encoded.
    pub(super) point: Vec<u8>,
}

/// Where a sample went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recorded {
    Series,
    Overflow,
}

impl SeriesTable {
    /// An empty table. `overflow`: the encoded attributes of the overflow series.
    pub(super) fn new(
        aggregation: Aggregation,
        zero: Number,
        most: usize,
        overflow: &[u8],
        account: Arc<Account>,
        wall: Arc<WallClock>,
    ) -> Self {
        let overflow = Series::new(overflow, 0, wall.now(), aggregation.zero(zero));
        account.overdraw(overflow.bytes());
        Self {
            aggregation,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            overflow: Mutex::new(overflow),
            length: AtomicUsize::new(0),
            most,
            account,
            wall,
        }
    }

    /// Number of series, without that of overflow.
    pub(super) fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    /// Most series. Those with long texts take more memory, which may allow fewer.
    pub(super) fn most(&self) -> usize {
        self.most.min(self.account.share().limit() / SERIES_BYTES)
    }

    /// Records a sample that came at a time of the monotonic clock. `encode` appends its attributes.
    ///
    /// Cost, if its series exists: a lock, a look-up, no allocation.
    pub(super) fn record(&self, sample: Number, at: Duration, encode: impl FnOnce(&mut Vec<u8>)) -> Recorded {
        SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
            Ok(mut key) => self.record_with(&mut key, sample, at, encode),
            Err(_) => self.record_with(&mut Vec::new(), sample, at, encode),
        })
    }

    fn record_with(
        &self,
        key: &mut Vec<u8>,
        sample: Number,
        at: Duration,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Recorded {
        key.clear();
        encode(key);
        let hash = HASHER.hash_one(&key[..]);
        if let Some(shard) = self.shards.get(hash as usize % SHARDS) {
            let mut shard = shard.lock();
            match shard.entry(hash, |series| series.hash == hash && *series.attributes == **key, |s| s.hash) {
                Entry::Occupied(mut known) => {
                    known.get_mut().take(&self.aggregation, sample, at);
                    return Recorded::Series;
                }
                Entry::Vacant(place) => {
                    if let Some(mut series) = self.new_series(key, hash, sample) {
                        series.take(&self.aggregation, sample, at);
                        place.insert(series);
                        return Recorded::Series;
                    }
                }
            }
        }
        self.overflow.lock().take(&self.aggregation, sample, at);
        Recorded::Overflow
    }

    /// A series, if there is room for it.
    fn new_series(&self, attributes: &[u8], hash: u64, sample: Number) -> Option<Series> {
        let more = |length: usize| (length < self.most).then_some(length + 1);
        // Relaxed: only the number matters.
        self.length.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        let zero = match sample {
            Number::Int(_) => Number::Int(0),
            Number::Double(_) => Number::Double(0.0),
        };
        let series = Series::new(attributes, hash, self.wall.now(), self.aggregation.zero(zero));
        if self.account.acquire(series.bytes()) {
            return Some(series);
        }
        self.length.fetch_sub(1, Ordering::Relaxed);
        None
    }

    /// The parts that [`read`](Self::read) reads.
    pub(super) fn parts(&self) -> std::ops::RangeInclusive<usize> {
        0..=self.shards.len()
    }

    /// The points of a part of all series. A series whose last sample came at least `expiry` ago, and was read, ends.
    pub(super) fn read(&self, part: usize, expiry: Option<Duration>) -> Vec<Sampled> {
        let Some(shard) = self.shards.get(part) else {
            let mut overflow = self.overflow.lock();
            let is_used = overflow.updated > Duration::ZERO || overflow.has_news;
            let sampled = is_used.then(|| overflow.read(&self.aggregation, self.wall.now()));
            return sampled.flatten().into_iter().collect();
        };
        let mut shard = shard.lock();
        if shard.is_empty() {
            return Vec::new();
        }
        // With the lock: no series of the shard starts later.
        let (now, at) = (self.wall.now(), self.wall.monotonic());
        let mut points = Vec::with_capacity(shard.len());
        shard.retain(|series| {
            let has_expired = expiry.is_some_and(|after| at.saturating_sub(series.updated) >= after);
            if has_expired && !series.has_news {
                self.account.release(series.bytes());
                self.length.fetch_sub(1, Ordering::Relaxed);
                return false;
            }
            points.extend(series.read(&self.aggregation, now));
            true
        });
        // Memory that a burst needed, and that the account does not have any more.
        if shard.len() < shard.capacity() / 4 {
            let least = 2 * shard.len();
            shard.shrink_to(least, |series| series.hash);
        }
        points
    }
}

impl Aggregation {
    fn zero(&self, zero: Number) -> Aggregate {
        match self {
            Aggregation::Last | Aggregation::Sum { .. } => Aggregate::Number(zero),
            Aggregation::Distribution { bounds, .. } => Aggregate::Distribution {
                counts: vec![0; bounds.len() + 1].into(),
                sum: 0.0,
                least: f64::INFINITY,
                greatest: f64::NEG_INFINITY,
            },
        }
    }

    fn is_delta(&self) -> bool {
        match self {
            Aggregation::Last => false,
            Aggregation::Sum { is_delta } | Aggregation::Distribution { is_delta, .. } => *is_delta,
        }
    }
}

impl Series {
    fn new(attributes: &[u8], hash: u64, start: u64, value: Aggregate) -> Self {
        Self { attributes: attributes.into(), hash, start, updated: Duration::ZERO, has_news: false, value }
    }

    /// Bytes that it takes.
    fn bytes(&self) -> usize {
        let counts = match &self.value {
            Aggregate::Number(_) => 0,
            Aggregate::Distribution { counts, .. } => size_of_val(&**counts),
        };
        SERIES_BYTES + self.attributes.len() + counts
    }

    #[inline]
    fn take(&mut self, aggregation: &Aggregation, sample: Number, at: Duration) {
        self.updated = self.updated.max(at);
        self.has_news = true;
        match (&mut self.value, aggregation) {
            (Aggregate::Number(last), Aggregation::Last) => *last = sample,
            (Aggregate::Number(sum), _) => *sum = sum.plus(sample),
            (Aggregate::Distribution { counts, sum, least, greatest }, aggregation) => {
                let value = sample.as_double();
                let bucket = match aggregation {
                    Aggregation::Distribution { bounds, .. } => {
                        bounds.partition_point(|bound| *bound < value)
                    }
                    Aggregation::Last | Aggregation::Sum { .. } => 0,
                };
                if let Some(count) = counts.get_mut(bucket) {
                    *count += 1;
                }
                *sum += value;
                (*least, *greatest) = (least.min(value), greatest.max(value));
            }
        }
    }

    /// Its point at a time; `None`: it has none. Of a delta, the next one begins here.
    fn read(&mut self, aggregation: &Aggregation, now: u64) -> Option<Sampled> {
        let is_delta = aggregation.is_delta();
        if is_delta && !self.has_news {
            self.start = self.start.max(now);
            return None;
        }
        self.has_news = false;
        if is_delta && self.start > now.saturating_add(STEP) {
            // The time was wrong when its last point was made.
            self.start = now.saturating_sub(1);
        }
        // A point that ends when it starts would mean that its start is not known.
        let time = now.max(self.start + 1);
        let point = match &self.value {
            Aggregate::Number(number) => NumberPoint {
                attributes: Vec::new(),
                start_time_unix_nano: if *aggregation == Aggregation::Last { 0 } else { self.start },
                time_unix_nano: time,
                value: Some(match number {
                    Number::Int(number) => NumberValue::Int(*number),
                    Number::Double(number) => NumberValue::Double(*number),
                }),
            }
            .encode_to_vec(),
            Aggregate::Distribution { counts, sum, least, greatest } => HistogramPoint {
                attributes: Vec::new(),
                start_time_unix_nano: self.start,
                time_unix_nano: time,
                count: counts.iter().sum(),
                // OTLP: with negative values a sum could decrease, which backends take for a restart.
                sum: (*least >= 0.0).then_some(*sum),
                bucket_counts: counts.to_vec(),
                explicit_bounds: match aggregation {
                    Aggregation::Distribution { bounds, .. } => bounds.to_vec(),
                    Aggregation::Last | Aggregation::Sum { .. } => Vec::new(),
                },
                min: Some(*least),
                max: Some(*greatest),
            }
            .encode_to_vec(),
        };
        if is_delta {
            self.start = time;
            self.value = aggregation.zero(match self.value {
                Aggregate::Number(Number::Int(_)) => Number::Int(0),
                _ => Number::Double(0.0),
            });
        }
        Some(Sampled { attributes: Arc::clone(&self.attributes), point })
    }
}

impl Number {
    /// Sums of whole numbers stop at the greatest one.
    fn plus(self, other: Number) -> Number {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => Number::Int(a.saturating_add(b)),
            (a, b) => Number::Double(a.as_double() + b.as_double()),
        }
    }

    fn as_double(self) -> f64 {
        match self {
            Number::Int(number) => number as f64,
            Number::Double(number) => number,
        }
    }
}
