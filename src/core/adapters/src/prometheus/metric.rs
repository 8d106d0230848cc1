//! A metric and its series.
//!
//! Series are known to all shards by a [`Series`], born once under a lock; values are kept a shard, each behind a lock of its own
//! that only its worker takes, but for scrapes and sweeps. Locks are taken in the order `sorted`, `born`, shards by index.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashTable;
use parking_lot::Mutex;

use super::MetricKind;
use super::definition::Definition;
use super::key::LabelKey;
use mixer_base::exposition::{Kind, Labels, Writer};
use mixer_base::metrics::Counter;
use mixer_base::shard;

/// Expires never.
pub(super) const NEVER: u64 = u64::MAX;

/// A metric with its values.
#[derive(Debug)]
pub(super) struct Metric {
    pub(super) definition: Definition,
    max_series: AtomicUsize,
    refused: Counter,
    shards: Box<[Shard]>,
    born: Mutex<Born>,
    sorted: Mutex<Sorted>,
}

/// Labels with at least one value somewhere.
#[derive(Debug)]
struct Series {
    key: Box<[u8]>,
    hash: u64,
    labels: Labels,
    /// Its place in the sorted list of the scrape that is going on; only meaningful under the lock `sorted`.
    place: AtomicUsize,
}

#[derive(Debug, Default)]
struct Born {
    table: HashTable<Arc<Series>>,
    /// Counts births and deaths.
    changes: u64,
}

#[derive(Debug, Default)]
struct Sorted {
    /// Of which `changes` this is the list.
    of: u64,
    series: Vec<Arc<Series>>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<HashTable<Entry>>);

#[derive(Debug)]
struct Entry {
    series: Arc<Series>,
    /// Nanoseconds since the epoch.
    expires: u64,
    cell: Cell,
}

#[derive(Debug, Clone)]
enum Cell {
    /// A counter, or a gauge with the moment when it was set.
    Number { value: f64, set_at: u64 },
    /// Counts by bucket, not cumulative.
    Distribution { counts: Box<[u64]>, sum: f64 },
}

/// One value to take in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) value: f64,
    /// When its series is forgotten unless there is another; nanoseconds since the epoch.
    pub(super) expires: u64,
    /// When it was reported, on a clock that never goes back and is the same for all threads; for gauges.
    pub(super) at: u64,
}

/// What became of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Recorded {
    /// It counts.
    Taken,
    /// It would have made a series too many.
    Refused,
    /// The text of the error.
    Invalid(String),
}

impl Metric {
    pub(super) fn new(definition: Definition, refused: Counter) -> Self {
        Self {
            max_series: AtomicUsize::new(definition.max_series),
            definition,
            refused,
            shards: (0..shard::count()).map(|_| Shard::default()).collect(),
            born: Mutex::default(),
            sorted: Mutex::default(),
        }
    }

    /// Changes the limit; series above it stay.
    pub(super) fn set_max_series(&self, max_series: usize) {
        self.max_series.store(max_series, Ordering::Relaxed);
    }

    /// Series now, and how many there may be.
    pub(super) fn fill(&self) -> (usize, usize) {
        (self.born.lock().table.len(), self.max_series.load(Ordering::Relaxed))
    }

    /// Reports that would have made a series too many.
    pub(super) fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Takes one value in. `labels` makes the text of the labels of a new series.
    ///
    /// Cost, when the series exists in this shard: one lock that nobody else wants, one look-up, no allocation.
    pub(super) fn record(
        &self,
        key: &LabelKey,
        sample: Sample,
        labels: impl FnOnce() -> Result<Labels, String>,
    ) -> Recorded {
        if self.definition.kind == MetricKind::Counter && sample.value < 0.0 {
            // compat(1.3): the series is there from now on.
            return match self.record(key, Sample { value: 0.0, ..sample }, labels) {
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
        shard: &Mutex<HashTable<Entry>>,
        key: &LabelKey,
        sample: Sample,
        labels: impl FnOnce() -> Result<Labels, String>,
    ) -> Recorded {
        let mut born = self.born.lock();
        let known = born.table.find(key.hash(), |s| *s.key == *key.bytes()).cloned();
        let series = match known {
            Some(series) => series,
            None if born.table.len() >= self.max_series.load(Ordering::Relaxed) => {
                self.refused.increment();
                return Recorded::Refused;
            }
            None => {
                let labels = match labels() {
                    Ok(labels) => labels,
                    Err(text) => return Recorded::Invalid(text),
                };
                let (key, hash) = (key.bytes().into(), key.hash());
                let series = Arc::new(Series { key, hash, labels, place: AtomicUsize::new(usize::MAX) });
                born.table.insert_unique(hash, Arc::clone(&series), |s| s.hash);
                born.changes += 1;
                series
            }
        };
        let mut shard = shard.lock();
        match find(&mut shard, key) {
            // Another thread of this shard was faster.
            Some(entry) => entry.take(&self.definition, sample),
            None => {
                let mut entry = Entry { series, expires: 0, cell: Cell::new(&self.definition) };
                entry.take(&self.definition, sample);
                shard.insert_unique(key.hash(), entry, |e| e.series.hash);
            }
        }
        Recorded::Taken
    }

    /// Forgets every series whose time is over in all shards.
    pub(super) fn sweep(&self, now: u64) {
        let mut born = self.born.lock();
        if born.table.is_empty() {
            return;
        }
        // A series lives as long as one of its shards does.
        let mut living = hashbrown::HashSet::<*const Series, foldhash::fast::RandomState>::default();
        for Shard(shard) in &self.shards {
            living.extend(shard.lock().iter().filter(|e| e.expires > now).map(|e| Arc::as_ptr(&e.series)));
        }
        if living.len() == born.table.len() {
            return;
        }
        // Values may have come in since: look again, with everybody waiting, but only at those.
        let mut shards: Vec<_> = self.shards.iter().map(|Shard(shard)| shard.lock()).collect();
        let dead: Vec<Arc<Series>> =
            born.table.iter().filter(|s| !living.contains(&Arc::as_ptr(s))).cloned().collect();
        for series in dead {
            let of = |e: &Entry| Arc::ptr_eq(&e.series, &series);
            if shards.iter().any(|t| t.find(series.hash, of).is_some_and(|e| e.expires > now)) {
                continue;
            }
            for shard in &mut shards {
                if let Ok(entry) = shard.find_entry(series.hash, of) {
                    entry.remove();
                }
            }
            if let Ok(entry) = born.table.find_entry(series.hash, |s| Arc::ptr_eq(s, &series)) {
                entry.remove();
                born.changes += 1;
            }
        }
    }

    /// Writes the family, unless it has no series.
    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        let mut sorted = self.sorted.lock();
        self.sort(&mut sorted);
        if sorted.series.is_empty() {
            return;
        }
        let values = self.collect(&sorted.series);
        let Definition { name, help, kind, bounds, .. } = &self.definition;
        let kind = match kind {
            MetricKind::Gauge => Kind::Gauge,
            MetricKind::Distribution => Kind::Histogram,
            MetricKind::Counter | MetricKind::Unspecified => Kind::Counter,
        };
        writer.family(name, help, kind);
        let mut rows = sorted.series.iter().zip(values).filter_map(|(s, v)| Some((s, v?))).peekable();
        while let Some((series, mut cell)) = rows.next() {
            // Two keys with one text (a number and the same number as text) are one series to Prometheus.
            while let Some((_, twin)) = rows.next_if(|(next, _)| next.labels == series.labels) {
                cell.merge(&twin, self.definition.kind);
            }
            match cell {
                Cell::Number { value, .. } => writer.sample(name, &series.labels, value),
                Cell::Distribution { counts, sum } => {
                    writer.histogram(name, &series.labels, bounds, &counts, sum);
                }
            }
        }
    }

    /// Brings the sorted list up to date.
    fn sort(&self, sorted: &mut Sorted) {
        let born = self.born.lock();
        if sorted.of == born.changes {
            return;
        }
        sorted.of = born.changes;
        sorted.series.clear();
        sorted.series.extend(born.table.iter().cloned());
        // Workers may go on while this sorts.
        drop(born);
        sorted.series.sort_unstable_by(|a, b| a.labels.cmp_values(&b.labels));
        for (place, series) in sorted.series.iter().enumerate() {
            series.place.store(place, Ordering::Relaxed);
        }
    }

    /// The values of these series over all shards, in the same order; `None` for one that was forgotten meanwhile.
    fn collect(&self, series: &[Arc<Series>]) -> Vec<Option<Cell>> {
        let mut values: Vec<Option<Cell>> = vec![None; series.len()];
        for Shard(shard) in &self.shards {
            for entry in shard.lock().iter() {
                let place = entry.series.place.load(Ordering::Relaxed);
                // Series born after the list was made have no place in it.
                match values.get_mut(place) {
                    Some(Some(cell)) => cell.merge(&entry.cell, self.definition.kind),
                    Some(empty) => *empty = Some(entry.cell.clone()),
                    None => {}
                }
            }
        }
        values
    }
}

fn find<'t>(shard: &'t mut HashTable<Entry>, key: &LabelKey) -> Option<&'t mut Entry> {
    shard.find_mut(key.hash(), |e| e.series.hash == key.hash() && *e.series.key == *key.bytes())
}

impl Entry {
    #[inline]
    fn take(&mut self, definition: &Definition, sample: Sample) {
        self.expires = sample.expires;
        match &mut self.cell {
            Cell::Number { value, set_at } => {
                if definition.kind == MetricKind::Gauge {
                    *value = sample.value;
                    *set_at = sample.at;
                } else {
                    *value += sample.value;
                }
            }
            Cell::Distribution { counts, sum } => {
                // NaN is at most no bound: it counts in the last bucket.
                let bucket = definition.bounds.iter().position(|bound| sample.value <= *bound);
                if let Some(count) = counts.get_mut(bucket.unwrap_or(definition.bounds.len())) {
                    *count += 1;
                }
                *sum += sample.value;
            }
        }
    }
}

impl Cell {
    fn new(definition: &Definition) -> Self {
        match definition.kind {
            MetricKind::Distribution => {
                Cell::Distribution { counts: vec![0; definition.bounds.len() + 1].into(), sum: 0.0 }
            }
            _ => Cell::Number { value: 0.0, set_at: 0 },
        }
    }

    /// Makes this the value over two shards.
    fn merge(&mut self, other: &Cell, kind: MetricKind) {
        match (self, other) {
            (Cell::Number { value, set_at }, Cell::Number { value: other, set_at: later })
                if kind == MetricKind::Gauge =>
            {
                if later > set_at {
                    (*value, *set_at) = (*other, *later);
                }
            }
            (Cell::Number { value, .. }, Cell::Number { value: other, .. }) => *value += other,
            (Cell::Distribution { counts, sum }, Cell::Distribution { counts: others, sum: other }) => {
                counts.iter_mut().zip(others).for_each(|(count, other)| *count += other);
                *sum += other;
            }
            // INVARIANT: all cells of a metric are of one sort.
            _ => debug_assert!(false, "cells of two sorts in one metric"),
        }
    }
}
