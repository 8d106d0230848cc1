//! A clock that moves only when told to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mixer_engine::adapter::Clock;

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct ManualClock {
    /// Unix time.
    nanos: AtomicU64,
}

impl ManualClock {
    /// A clock at this Unix time.
    pub(crate) fn at(time: Duration) -> Self {
        Self { nanos: AtomicU64::new(nanos(time)) }
    }

    /// Advances the clock.
    pub(crate) fn advance(&self, by: Duration) {
        self.nanos.fetch_add(nanos(by), Ordering::SeqCst);
    }

    /// Advances the clock to `time`; never moves it backwards.
    pub(crate) fn advance_to(&self, time: Duration) {
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

    fn monotonic(&self) -> Duration {
        self.unix_time()
    }
}
