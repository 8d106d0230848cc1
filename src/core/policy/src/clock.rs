//! A manual clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mixer_engine::adapter::Clock;

/// A clock that only moves when it is set.
#[derive(Debug)]
pub struct ManualClock {
    /// Time since 1970.
    nanos: AtomicU64,
}

impl ManualClock {
    /// A clock at `time` since 1970.
    pub fn at(time: Duration) -> Self {
        Self { nanos: AtomicU64::new(nanos(time)) }
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        self.nanos.fetch_add(nanos(by), Ordering::SeqCst);
    }

    /// Sets the clock to `time`, never backwards.
    pub fn advance_to(&self, time: Duration) {
        self.nanos.fetch_max(nanos(time), Ordering::SeqCst);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Clock for ManualClock {
    fn unix_time(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::SeqCst))
    }
}
