//! Counters, gauges and histograms that cost a few nanoseconds to update.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::HistogramSample;
use super::buckets::Buckets;
use super::families::Family;
use crate::rpc_code;
use crate::shard::ShardedCounters;

/// A handle on a counter. Cost of an update: one write to a cache line of the current thread's shard.
#[derive(Debug, Clone)]
pub struct Counter(Arc<ShardedCounters>);

impl Counter {
    pub(super) fn new() -> Self {
        Self(Arc::new(ShardedCounters::new(1)))
    }

    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.0.add(0, 1);
    }

    /// Adds `amount`.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.add(0, amount);
    }

    /// Whether this is the only handle.
    pub(super) fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// The current count. Cost: a read per shard.
    pub fn get(&self) -> u64 {
        self.0.total(0)
    }
}

/// A handle on a gauge, which is exposed once it has been set.
#[derive(Debug, Clone)]
pub struct Gauge(Arc<AtomicU64>);

/// The bits of a NaN that no calculation produces: not set.
const UNSET: u64 = u64::MAX;

impl Gauge {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(UNSET)))
    }

    /// Sets the value.
    pub fn set(&self, value: impl Into<GaugeValue>) {
        self.0.store(value.into().0.to_bits(), Ordering::Relaxed);
    }

    /// Removes the value: the gauge is no longer exposed.
    pub fn clear(&self) {
        self.0.store(UNSET, Ordering::Relaxed);
    }

    /// The value, if it is set.
    pub fn get(&self) -> Option<f64> {
        let bits = self.0.load(Ordering::Relaxed);
        (bits != UNSET).then(|| f64::from_bits(bits))
    }
}

/// A value of a gauge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaugeValue(f64);

impl From<f64> for GaugeValue {
    fn from(value: f64) -> Self {
        Self(value)
    }
}

impl From<u64> for GaugeValue {
    fn from(value: u64) -> Self {
        Self(value as f64)
    }
}

impl From<usize> for GaugeValue {
    fn from(value: usize) -> Self {
        Self(value as f64)
    }
}

/// A handle on a histogram. Values are integers: nanoseconds, bytes or counts.
#[derive(Debug, Clone)]
pub struct Histogram {
    family: Family,
    buckets: &'static Buckets,
    /// Those of the buckets, then the sum.
    cells: Arc<ShardedCounters>,
}

impl Histogram {
    pub(super) fn new(family: Family) -> Self {
        let buckets = Buckets::of(family);
        let cells = Arc::new(ShardedCounters::on_demand(buckets.cells() + 1));
        Self { family, buckets, cells }
    }

    /// Records one value, in the recorded unit.
    #[inline]
    pub fn observe(&self, value: u64) {
        self.cells.add(self.buckets.cell(value), 1);
        self.cells.add(self.buckets.cells(), value);
    }

    /// Records one duration, for families of durations.
    #[inline]
    fn observe_duration(&self, value: Duration) {
        self.observe(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts by bucket, not cumulative, and the sum in the unit of the family's name.
    pub fn get(&self) -> (Vec<u64>, f64) {
        let HistogramSample { counts, sum, .. } = self.sample();
        (counts, sum)
    }

    /// The same, with the native buckets.
    pub(super) fn sample(&self) -> HistogramSample {
        let mut cells = self.cells.totals(self.buckets.cells() + 1);
        let sum = cells.pop().unwrap_or_default() as f64 / self.family.info().scale;
        HistogramSample { counts: self.buckets.classic(&cells), sum, native: self.buckets.native(&cells) }
    }
}

/// The metrics of calls of one handler for one template.
#[derive(Debug)]
pub struct DispatchCounters {
    succeeded: Histogram,
    failed: Histogram,
}

impl DispatchCounters {
    pub(super) fn new() -> Self {
        let histogram = || Histogram::new(Family::RuntimeDispatchDuration);
        Self { succeeded: histogram(), failed: histogram() }
    }

    /// Records one call. Cost: two writes to a cache line of the current thread's shard.
    #[inline]
    pub fn record(&self, elapsed: Duration, failed: bool) {
        if failed { &self.failed } else { &self.succeeded }.observe_duration(elapsed);
    }

    pub(super) fn of(&self, failed: bool) -> &Histogram {
        if failed { &self.failed } else { &self.succeeded }
    }
}

/// The metrics of calls of one gRPC method.
#[derive(Debug)]
pub struct RpcCounters {
    completed: ShardedCounters,
    /// Those that were refused for what their caller sent, by the status that says so. Not exposed: their status is.
    invalid: ShardedCounters,
    pub(super) latency: Histogram,
    pub(super) received: Histogram,
    pub(super) sent: Histogram,
}

impl RpcCounters {
    pub(super) fn new() -> Self {
        Self {
            completed: ShardedCounters::new(rpc_code::COUNT),
            invalid: ShardedCounters::new(rpc_code::COUNT),
            latency: Histogram::new(Family::RpcLatency),
            received: Histogram::new(Family::RpcBytesReceived),
            sent: Histogram::new(Family::RpcBytesSent),
        }
    }

    /// Records one call that ended with gRPC status `code` (0 is OK; unknown codes count as UNKNOWN). Sizes are those of the
    /// encoded messages, in bytes.
    #[inline]
    pub fn record(&self, code: i32, elapsed: Duration, received: usize, sent: usize) {
        self.completed.add(index_of(code), 1);
        self.latency.observe_duration(elapsed);
        self.received.observe(received as u64);
        self.sent.observe(sent as u64);
    }

    /// Notes that a call was refused for what its caller sent, before anything was evaluated, which this status says; 0 if its answer is a denial.
    pub fn record_invalid(&self, code: i32) {
        self.invalid.add(index_of(code), 1);
    }

    /// Latencies of calls so far.
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// Calls so far by the name of their status.
    pub fn completed(&self) -> impl Iterator<Item = (&'static str, u64)> {
        by_name(&self.completed)
    }

    /// Those of them that were refused for what their caller sent, by the name of the status that says so.
    pub fn invalid(&self) -> impl Iterator<Item = (&'static str, u64)> {
        by_name(&self.invalid)
    }
}

/// The place of a gRPC status; that of UNKNOWN for those that are not known.
fn index_of(code: i32) -> usize {
    usize::try_from(code).ok().filter(|code| *code < rpc_code::COUNT).unwrap_or(2)
}

fn by_name(counters: &ShardedCounters) -> impl Iterator<Item = (&'static str, u64)> {
    let codes = (0..).zip(0..rpc_code::COUNT);
    codes.filter_map(|(code, at)| Some((rpc_code::name(code)?, counters.total(at))))
}
