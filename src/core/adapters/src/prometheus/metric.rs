//! A metric and its series.
//!
//! A [`Series`] is created once, under a lock, and shared by all shards. Values are per shard, each shard behind a lock that only
//! its worker takes, apart from scrapes and sweeps. Lock order: `sorted`, `registry`, shards by index.
//!
//! Series and values take their bytes from the share `series` of the memory budget when they are created. A series pays for its row in
//! one rendering as well, so that one scrape at a time needs no more memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use hashbrown::HashTable;
use parking_lot::Mutex;

use super::MetricKind;
use super::definition::Definition;
use super::key::LabelKey;
use mixer_base::bounded::{Bounded, BoundedTable, WhenFull};
use mixer_base::budget::{Account, Charge};
use mixer_base::exposition::{FamilyKind, Labels};
use mixer_base::metrics::Counter;
use mixer_base::shard;

/// Time at which nothing expires.
pub(super) const NEVER: u64 = u64::MAX;

/// A metric with its values.
#[derive(Debug)]
pub(super) struct Metric {
    pub(super) definition: Definition,
    max_series: AtomicUsize,
    counters: MetricCounters,
    account: Arc<Account>,
    /// The metric that took its place when it was redefined.
    successor: OnceLock<Arc<Metric>>,
    shards: Box<[Shard]>,
    registry: Mutex<SeriesRegistry>,
    sorted: Mutex<SortedSeries>,
}

/// What is counted of a metric.
#[derive(Debug, Clone)]
pub(super) struct MetricCounters {
    /// Samples that were refused.
    pub(super) refused: Counter,
    /// Label values that were cut.
    pub(super) cut: Counter,
}

/// The labels of a new series.
#[derive(Debug)]
pub(super) struct NewLabels {
    pub(super) labels: Labels,
    /// Number of values that were cut.
    pub(super) cut: u64,
}

/// Labels with a value in at least one shard.
#[derive(Debug)]
pub(super) struct Series {
    key: Box<[u8]>,
    hash: u64,
    pub(super) labels: Labels,
    /// Its index in the sorted list of the current scrape; only meaningful under the lock `sorted`.
    rank: AtomicUsize,
    /// Its bytes, until the last rendering that shows it is dropped.
    _charge: Charge,
}

/// A series and its value at one instant.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) series: Arc<Series>,
    pub(super) value: SeriesValue,
}

impl Bounded for Series {
    fn heap_bytes(&self) -> usize {
        self.key.len() + self.labels.text().len()
    }
}

/// The series of all shards.
#[derive(Debug)]
struct SeriesRegistry {
    table: BoundedTable<Arc<Series>>,
    /// Version of the set of series.
    version: u64,
}

#[derive(Debug, Default)]
struct SortedSeries {
    /// The version that is sorted.
    version: u64,
    series: Vec<Arc<Series>>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<HashTable<ShardSeries>>);

/// The value of a series in one shard.
#[derive(Debug)]
struct ShardSeries {
    series: Arc<Series>,
    /// Nanoseconds of the adapter's clock.
    expires: u64,
    value: SeriesValue,
    _charge: Charge,
}

#[derive(Debug, Clone)]
pub(super) enum SeriesValue {
    /// A counter, or a gauge with the time when it was set.
    Number { value: f64, set_at: u64 },
    /// Counts by bucket, not cumulative.
    Distribution { counts: Box<[u64]>, sum: f64 },
}

/// One value to record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation {
    pub(super) value: f64,
    /// When its series is removed unless another sample arrives; nanoseconds of the adapter's clock.
    pub(super) expires: u64,
    /// When it was reported, in nanoseconds of the adapter's clock; for gauges.
    pub(super) at: u64,
}

/// The result of recording a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Recorded {
    /// It is recorded.
    Taken,
    /// It would have exceeded the limit of series, or the memory for their labels.
    Refused,
    /// The text of the error.
    Invalid(String),
}

impl Metric {
    pub(super) fn new(definition: Definition, counters: MetricCounters, account: Account) -> Self {
        // Series pay from the account themselves, because renderings can outlive the table.
        let table = BoundedTable::new(usize::MAX, WhenFull::Refuse);
        Self {
            max_series: AtomicUsize::new(definition.max_series),
            definition,
            counters,
            account: Arc::new(account),
            successor: OnceLock::new(),
            shards: (0..shard::count()).map(|_| Shard::default()).collect(),
            registry: Mutex::new(SeriesRegistry { table, version: 0 }),
            sorted: Mutex::default(),
        }
    }

    /// Changes the limit; series above it stay.
    pub(super) fn set_max_series(&self, max_series: usize) {
        self.max_series.store(max_series, Ordering::Relaxed);
    }

    /// The metric that took the place of this one, if it was redefined.
    #[inline]
    pub(super) fn successor(&self) -> Option<Arc<Metric>> {
        let mut last = self.successor.get()?;
        while let Some(next) = last.successor.get() {
            last = next;
        }
        Some(Arc::clone(last))
    }

    /// Names the metric that takes the place of this one, and drops all series.
    pub(super) fn succeed(&self, by: &Arc<Metric>) {
        if self.successor.set(Arc::clone(by)).is_ok() {
            self.sorted.lock().series.clear();
            let mut registry = self.registry.lock();
            registry.table = BoundedTable::new(usize::MAX, WhenFull::Refuse);
            registry.version += 1;
            self.shards.iter().for_each(|Shard(shard)| shard.lock().clear());
        }
    }

    /// The number of series and its limit.
    pub(super) fn fill(&self) -> (usize, usize) {
        (self.registry.lock().table.len(), self.max_series.load(Ordering::Relaxed))
    }

    /// Samples refused so far.
    pub(super) fn refused(&self) -> u64 {
        self.counters.refused.get()
    }

    /// Bytes of the value of a series in a shard or in a rendering.
    fn value_bytes(&self) -> usize {
        match self.definition.kind {
            MetricKind::Distribution => (self.definition.bounds.len() + 1) * size_of::<u64>() + 16,
            _ => 0,
        }
    }

    /// The text of its type.
    pub(super) fn family_kind(&self) -> FamilyKind {
        match self.definition.kind {
            MetricKind::Gauge => FamilyKind::Gauge,
            MetricKind::Distribution => FamilyKind::Histogram,
            MetricKind::Counter | MetricKind::Unspecified => FamilyKind::Counter,
        }
    }

    /// Records one sample. `labels` renders the labels of a new series.
    ///
    /// Cost, if the series exists in this shard: one uncontended lock, one look-up, no allocation.
    pub(super) fn record(
        &self,
        key: &LabelKey,
        sample: Observation,
        labels: impl FnOnce() -> Result<NewLabels, String>,
    ) -> Recorded {
        if self.definition.kind == MetricKind::Counter && sample.value < 0.0 {
            // compat(1.3): the series exists from now on.
            return match self.record(key, Observation { value: 0.0, ..sample }, labels) {
                Recorded::Taken => Recorded::Invalid("counter cannot decrease in value".to_owned()),
                other => other,
            };
        }
        let Some(Shard(shard)) = self.shards.get(shard::current()) else {
            return Recorded::Refused;
        };
        if let Some(entry) = find(&mut shard.lock(), key) {
            entry.take(&self.definition, sample);
            return Recorded::Taken;
        }
        self.record_new(shard, key, sample, labels)
    }

    #[cold]
    fn record_new(
        &self,
        shard: &Mutex<HashTable<ShardSeries>>,
        key: &LabelKey,
        sample: Observation,
        labels: impl FnOnce() -> Result<NewLabels, String>,
    ) -> Recorded {
        let refuse = || {
            self.counters.refused.increment();
            Recorded::Refused
        };
        let mut registry = self.registry.lock();
        let Some(paid) = self.account.charge(2 * size_of::<ShardSeries>() + self.value_bytes()) else {
            return refuse();
        };
        let known = registry.table.find(key.hash(), |s| *s.key == *key.bytes()).cloned();
        let series = match known {
            Some(series) => series,
            None if registry.table.len() >= self.max_series.load(Ordering::Relaxed) => return refuse(),
            None => {
                let NewLabels { labels, cut } = match labels() {
                    Ok(labels) => labels,
                    Err(text) => return Recorded::Invalid(text),
                };
                let Some(charge) = self.account.charge(self.series_bytes(key.bytes(), &labels)) else {
                    return refuse();
                };
                let (key, hash) = (key.bytes().into(), key.hash());
                let rank = AtomicUsize::new(usize::MAX);
                let series = Arc::new(Series { key, hash, labels, rank, _charge: charge });
                // Sweeps remove series that have expired, so the table needs no time.
                if !registry.table.insert(hash, Arc::clone(&series), 0) {
                    return refuse();
                }
                registry.version += 1;
                self.counters.cut.add(cut);
                series
            }
        };
        let mut shard = shard.lock();
        match find(&mut shard, key) {
            // Another thread of this shard created it meanwhile.
            Some(entry) => entry.take(&self.definition, sample),
            None => {
                let value = SeriesValue::zero(&self.definition);
                let mut entry = ShardSeries { series, expires: 0, value, _charge: paid };
                entry.take(&self.definition, sample);
                shard.insert_unique(key.hash(), entry, |e| e.series.hash);
            }
        }
        Recorded::Taken
    }

    /// Bytes of a series: itself, its entry in the table and in the sorted list, and its row in one rendering.
    fn series_bytes(&self, key: &[u8], labels: &Labels) -> usize {
        let owned = key.len() + labels.text().len() + size_of::<Series>() + 64;
        owned + BoundedTable::<Arc<Series>>::ENTRY_BYTES + 2 * size_of::<Arc<Series>>() + self.row_bytes()
    }

    /// Bytes of a row of a rendering, and of the value that it is made of.
    pub(super) fn row_bytes(&self) -> usize {
        size_of::<Option<SeriesValue>>() + size_of::<Row>() + self.value_bytes()
    }

    /// Removes every series that has expired in all shards.
    pub(super) fn sweep(&self, now: u64) {
        let mut registry = self.registry.lock();
        if registry.table.is_empty() {
            return;
        }
        // A series lives as long as its value in one of the shards.
        let mut living = hashbrown::HashSet::<*const Series, foldhash::fast::RandomState>::default();
        for Shard(shard) in &self.shards {
            living.extend(shard.lock().iter().filter(|e| e.expires > now).map(|e| Arc::as_ptr(&e.series)));
        }
        if living.len() == registry.table.len() {
            return;
        }
        // Samples may have arrived since: check the others again, with all shards locked.
        let mut shards: Vec<_> = self.shards.iter().map(|Shard(shard)| shard.lock()).collect();
        let dead: Vec<Arc<Series>> =
            registry.table.iter().filter(|s| !living.contains(&Arc::as_ptr(s))).cloned().collect();
        for series in dead {
            let of = |e: &ShardSeries| Arc::ptr_eq(&e.series, &series);
            if shards.iter().any(|t| t.find(series.hash, of).is_some_and(|e| e.expires > now)) {
                continue;
            }
            for shard in &mut shards {
                if let Ok(entry) = shard.find_entry(series.hash, of) {
                    entry.remove();
                }
            }
            if registry.table.remove(series.hash, |s| Arc::ptr_eq(s, &series)).is_some() {
                registry.version += 1;
            }
        }
    }

    /// Every series with its value, in the order of label values.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut sorted = self.sorted.lock();
        self.sort(&mut sorted);
        let values = self.collect(&sorted.series);
        let mut rows: Vec<Row> = Vec::with_capacity(sorted.series.len());
        for (series, value) in sorted.series.iter().zip(values) {
            let Some(value) = value else { continue };
            match rows.last_mut() {
                // Two keys with one text (a number and the same number as text) are one series to Prometheus.
                Some(last) if last.series.labels == series.labels => {
                    last.value.merge(&value, self.definition.kind);
                }
                _ => rows.push(Row { series: Arc::clone(series), value }),
            }
        }
        rows
    }

    /// Brings the sorted list up to date.
    fn sort(&self, sorted: &mut SortedSeries) {
        let registry = self.registry.lock();
        if sorted.version == registry.version {
            return;
        }
        sorted.version = registry.version;
        sorted.series.clear();
        sorted.series.extend(registry.table.iter().cloned());
        // Workers need not wait for the sort.
        drop(registry);
        sorted.series.sort_unstable_by(|a, b| a.labels.cmp_values(&b.labels));
        for (rank, series) in sorted.series.iter().enumerate() {
            series.rank.store(rank, Ordering::Relaxed);
        }
    }

    /// The values of these series over all shards, in the same order; `None` for one that was removed meanwhile.
    fn collect(&self, series: &[Arc<Series>]) -> Vec<Option<SeriesValue>> {
        let mut values: Vec<Option<SeriesValue>> = vec![None; series.len()];
        for Shard(shard) in &self.shards {
            for entry in shard.lock().iter() {
                let rank = entry.series.rank.load(Ordering::Relaxed);
                // Series created after the list have no rank in it.
                match values.get_mut(rank) {
                    Some(Some(value)) => value.merge(&entry.value, self.definition.kind),
                    Some(empty) => *empty = Some(entry.value.clone()),
                    None => {}
                }
            }
        }
        values
    }
}

fn find<'t>(shard: &'t mut HashTable<ShardSeries>, key: &LabelKey) -> Option<&'t mut ShardSeries> {
    shard.find_mut(key.hash(), |e| e.series.hash == key.hash() && *e.series.key == *key.bytes())
}

impl ShardSeries {
    #[inline]
    fn take(&mut self, definition: &Definition, sample: Observation) {
        self.expires = sample.expires;
        match &mut self.value {
            SeriesValue::Number { value, set_at } => {
                if definition.kind == MetricKind::Gauge {
                    *value = sample.value;
                    *set_at = sample.at;
                } else {
                    *value += sample.value;
                }
            }
            SeriesValue::Distribution { counts, sum } => {
                // NaN is less than no bound: it counts in the last bucket.
                let bucket = definition.bounds.iter().position(|bound| sample.value <= *bound);
                if let Some(count) = counts.get_mut(bucket.unwrap_or(definition.bounds.len())) {
                    *count += 1;
                }
                *sum += sample.value;
            }
        }
    }
}

impl SeriesValue {
    fn zero(definition: &Definition) -> Self {
        match definition.kind {
            MetricKind::Distribution => {
                SeriesValue::Distribution { counts: vec![0; definition.bounds.len() + 1].into(), sum: 0.0 }
            }
            _ => SeriesValue::Number { value: 0.0, set_at: 0 },
        }
    }

    /// Adds the value of another shard.
    fn merge(&mut self, other: &SeriesValue, kind: MetricKind) {
        match (self, other) {
            (SeriesValue::Number { value, set_at }, SeriesValue::Number { value: other, set_at: later })
                if kind == MetricKind::Gauge =>
            {
                if later > set_at {
                    (*value, *set_at) = (*other, *later);
                }
            }
            (SeriesValue::Number { value, .. }, SeriesValue::Number { value: other, .. }) => *value += other,
            (
                SeriesValue::Distribution { counts, sum },
                SeriesValue::Distribution { counts: others, sum: other },
            ) => {
                counts.iter_mut().zip(others).for_each(|(count, other)| *count += other);
                *sum += other;
            }
            // INVARIANT: all values of a metric are of one variant.
            _ => debug_assert!(false, "values of two variants in one metric"),
        }
    }
}
