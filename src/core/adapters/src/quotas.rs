//! State of quotas in memory, of all adapters that have some: what is in use of limits, by instance and dimension values, and the answers to
//! deduplication ids.
//!
//! State is in [`SHARDS`] parts with a lock each, by the hash of its key.

pub(crate) mod cells;
pub(crate) mod dedup;
pub(crate) mod key;

use mixer_attribute::SignedDuration;
use mixer_engine::adapter::Clock;
use parking_lot::Mutex;

/// A limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    /// Amount that may be in use.
    pub(crate) max_amount: i64,
    /// Length of the window; zero: no window.
    pub(crate) valid_duration: SignedDuration,
}

/// Keys, and overrides, of a quota that its status lists.
pub(crate) const LISTED: usize = 20;

/// Independent parts of the state; each has its own lock.
pub(crate) const SHARDS: usize = 16;

/// Avoids false sharing.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Shard<T>(pub(crate) Mutex<T>);

/// The top bits choose the shard; tables use the bottom and the seven topmost bits, hence the shift.
pub(crate) fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

/// Monotonic time in nanoseconds.
pub(crate) fn nanos(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.monotonic().as_nanos()).unwrap_or(u64::MAX)
}
