//! Counters, gauges and histograms that cost a few nanoseconds to touch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::families::{Family, FamilyInfo};
use crate::rpc_code;
use crate::shard::ShardedCounters;

/// A handle on something that only grows. Cost of adding: one write to a cache line of the present thread's shard.
#[derive(Debug, Clone)]
pub struct Counter(Arc<ShardedCounters>);

impl Counter {
    pub(super) fn new() -> Self {
        Self(Arc::new(ShardedCounters::new(1)))
    }

    /// One more.
    #[inline]
    pub fn increment(&self) {
        self.0.add(0, 1);
    }

    /// Several more.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.add(0, amount);
    }

    /// The present count. Cost: a read a shard.
    pub fn get(&self) -> u64 {
        self.0.total(0)
    }
}

/// A handle on something that goes up and down. It is not shown until it was set.
#[derive(Debug, Clone)]
pub struct Gauge(Arc<AtomicU64>);

/// The bits of a NaN that no calculation gives: not set yet.
const UNSET: u64 = u64::MAX;

impl Gauge {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(UNSET)))
    }

    /// Shows this value from now on.
    pub fn set(&self, value: impl Into<GaugeValue>) {
        self.0.store(value.into().0.to_bits(), Ordering::Relaxed);
    }

    /// Is not shown any more until it is set again.
    pub fn clear(&self) {
        self.0.store(UNSET, Ordering::Relaxed);
    }

    /// What is shown.
    pub fn get(&self) -> Option<f64> {
        let bits = self.0.load(Ordering::Relaxed);
        (bits != UNSET).then(|| f64::from_bits(bits))
    }
}

/// What a gauge can be set to.
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

/// A handle on a count of values by size. Values are whole numbers: nanoseconds, bytes or things.
#[derive(Debug, Clone)]
pub struct Histogram {
    family: Family,
    buckets: Buckets,
    /// One a bucket, then the sum.
    cells: Arc<ShardedCounters>,
}

impl Histogram {
    pub(super) fn new(family: Family) -> Self {
        let buckets = Buckets::new(family.info());
        let cells = Arc::new(ShardedCounters::new(buckets.width() + 1));
        Self { family, buckets, cells }
    }

    /// Counts one value, in the unit that is recorded.
    #[inline]
    pub fn observe(&self, value: u64) {
        self.cells.add(self.buckets.index(value), 1);
        self.cells.add(self.buckets.width(), value);
    }

    /// Counts one duration, for families of durations.
    #[inline]
    pub fn observe_duration(&self, value: Duration) {
        self.observe(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts by bucket, not cumulative, and the sum in the unit of the family's name.
    pub fn get(&self) -> (Vec<u64>, f64) {
        let counts = (0..self.buckets.width()).map(|i| self.cells.total(i)).collect();
        (counts, self.cells.total(self.buckets.width()) as f64 / self.family.info().scale)
    }
}

/// Bounds of buckets in the recorded unit.
#[derive(Debug, Clone)]
struct Buckets(Arc<[u64]>);

impl Buckets {
    fn new(info: &FamilyInfo) -> Self {
        Self(info.bounds.iter().map(|bound| (bound * info.scale).round() as u64).collect())
    }

    fn width(&self) -> usize {
        self.0.len() + 1
    }

    /// Small values are the common ones, so this looks from below.
    #[inline]
    fn index(&self, value: u64) -> usize {
        self.0.iter().position(|bound| value < *bound).unwrap_or(self.0.len())
    }
}

/// Everything that is counted about the calls of one handler for one template.
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

    /// Counts one call. Cost: two writes to a cache line of the present thread's shard.
    #[inline]
    pub fn record(&self, elapsed: Duration, failed: bool) {
        if failed { &self.failed } else { &self.succeeded }.observe_duration(elapsed);
    }

    pub(super) fn of(&self, failed: bool) -> &Histogram {
        if failed { &self.failed } else { &self.succeeded }
    }
}

/// Everything that is counted about the calls of one gRPC method.
#[derive(Debug)]
pub struct RpcCounters {
    completed: ShardedCounters,
    pub(super) latency: Histogram,
    pub(super) received: Histogram,
    pub(super) sent: Histogram,
}

impl RpcCounters {
    pub(super) fn new() -> Self {
        Self {
            completed: ShardedCounters::new(rpc_code::COUNT),
            latency: Histogram::new(Family::RpcLatency),
            received: Histogram::new(Family::RpcBytesReceived),
            sent: Histogram::new(Family::RpcBytesSent),
        }
    }

    /// Counts one call that ended with gRPC status `code` (0 is OK; numbers that are none count as UNKNOWN). Sizes are those of
    /// the encoded messages, in bytes.
    #[inline]
    pub fn record(&self, code: i32, elapsed: Duration, received: usize, sent: usize) {
        let code = usize::try_from(code).ok().filter(|code| *code < rpc_code::COUNT).unwrap_or(2);
        self.completed.add(code, 1);
        self.latency.observe_duration(elapsed);
        self.received.observe(received as u64);
        self.sent.observe(sent as u64);
    }

    /// How calls were carried through so far.
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// Calls so far by the name of their status.
    pub fn completed(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let codes = (0..).zip(0..rpc_code::COUNT);
        codes.filter_map(|(code, at)| Some((rpc_code::name(code)?, self.completed.total(at))))
    }
}
