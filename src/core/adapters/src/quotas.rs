//! State of quotas in memory, of all adapters that have some: what is in use of limits, by instance and dimension values, and the answers to
//! deduplication ids.
//!
//! State is in [`SHARDS`] parts with a lock each, by the hash of its key.

pub(crate) mod cells;
pub(crate) mod dedup;
pub(crate) mod key;

use mixer_attribute::SignedDuration;
use mixer_config::message::Elsewhere;
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

/// Names that other programs have for the fields of a limit.
pub(crate) const LIMIT_NAMES: &[Elsewhere] = &[
    ("limit", "did you mean `maxAmount`?"),
    ("amount", "did you mean `maxAmount`?"),
    ("requestsPerUnit", "did you mean `maxAmount`?"),
    ("window", "did you mean `validDuration`?"),
    ("period", "did you mean `validDuration`?"),
    ("unit", "did you mean `validDuration`? For example `validDuration: 1m`"),
];

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

#[cfg(test)]
mod tests {
    use super::LIMIT_NAMES;
    use crate::{memquota, redisquota};
    use mixer_config::message::Message;

    #[test]
    fn limits_of_all_adapters_know_the_names_of_other_programs() {
        let of_messages = [
            <memquota::Quota as Message>::ELSEWHERE,
            <memquota::Override as Message>::ELSEWHERE,
            <redisquota::Quota as Message>::ELSEWHERE,
        ];
        assert!(of_messages.iter().all(|known| *known == LIMIT_NAMES));
    }
}
