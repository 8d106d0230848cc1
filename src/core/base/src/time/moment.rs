//! When this process saw an event, on both clocks.

use std::time::{Duration, Instant, SystemTime};

/// When this process saw an event. What is told of it by the calendar is what the wall clock said then; its age is measured by the monotonic
/// clock, so that a wall clock that is set meanwhile changes no age. Ordered by the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    at: Instant,
    time: SystemTime,
}

impl Moment {
    /// Now. Cost: a read of each clock.
    pub fn now() -> Self {
        Self { at: Instant::now(), time: SystemTime::now() }
    }

    /// A moment that is known by its age.
    pub fn before_now(age: Duration) -> Self {
        let Self { at, time } = Self::now();
        Self { at: at.checked_sub(age).unwrap_or(at), time: time.checked_sub(age).unwrap_or(time) }
    }

    /// What the wall clock said.
    pub fn time(&self) -> SystemTime {
        self.time
    }

    /// How long ago it was.
    pub fn age(&self) -> Duration {
        self.at.elapsed()
    }

    /// The moment this long after it.
    pub fn after(&self, passed: Duration) -> Self {
        let Self { at, time } = *self;
        Self { at: at.checked_add(passed).unwrap_or(at), time: time.checked_add(passed).unwrap_or(time) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_changes_no_age() {
        let day = Duration::from_secs(86_400);
        let now = Moment::now();
        for time in [now.time - day, now.time + day] {
            let moment = Moment { time, ..now };
            assert!(moment.age() < Duration::from_secs(60));
            assert_eq!(moment.time(), time);
        }
    }

    #[test]
    fn moments_are_known_by_their_distance() {
        let minute = Duration::from_secs(60);
        let before = Moment::before_now(minute);
        assert!(before.age() >= minute && before.age() < minute * 2);
        assert!(before < Moment::now());
        assert!(before.after(minute).age() < minute);
        assert!(Moment::before_now(Duration::MAX).age() < minute, "it is not before the clock began");
    }
}
