//! When a batch that was not delivered is tried again.

use std::time::{Duration, Instant};

/// The longest pause that a backend can ask for.
const LONGEST_REQUESTED_PAUSE: Duration = Duration::from_secs(300);

/// Which batches are tried again, and when. By default, none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// The pause after the first failure; it doubles with every failure in a row. Each pause is shortened at random by up to a half, so
    /// that servers that failed together do not come back together.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// A batch is given up at the first failure after this time since its first attempt. Zero: at its first failure.
    pub budget: Duration,
    /// Failures in a row after which the circuit breaker opens: until something is delivered, there is one attempt every
    /// `longest_pause` (shortened as above), also if its batch is given up, and the time of the budget stands still between attempts. 0: it
    /// never opens.
    pub breaker_failures: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(30),
            budget: Duration::ZERO,
            breaker_failures: 0,
        }
    }
}

/// What follows a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The batch is tried again at this time.
    Again(Instant),
    /// The batch is given up, and the next one waits until this time: now, unless the circuit breaker is open or the backend asked for a
    /// pause.
    GiveUp(Instant),
}

/// The failures of a sink, and of the batch in flight.
#[derive(Debug)]
pub(crate) struct Failures {
    retry: Retry,
    random: fastrand::Rng,
    /// Failures in a row, of this batch and of those before it.
    in_a_row: u32,
    /// What is left of the budget of the batch, and since when it is used up.
    budget: Duration,
    used_since: Option<Instant>,
    /// Whether no pause is longer than the first one.
    is_hurried: bool,
}

impl Failures {
    pub(crate) fn new(retry: Retry, random: fastrand::Rng) -> Self {
        Self { retry, random, in_a_row: 0, budget: retry.budget, used_since: None, is_hurried: false }
    }

    /// The delivery closes: from now on a pause is no longer than the first one, unless the backend asks for more.
    pub(crate) fn hurry(&mut self) {
        self.is_hurried = true;
    }

    /// An attempt begins.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.used_since.get_or_insert(now);
    }

    /// The batch was delivered, or a part of it.
    pub(crate) fn succeeded(&mut self) {
        self.in_a_row = 0;
        self.next_batch();
    }

    /// The batch has ended.
    pub(crate) fn next_batch(&mut self) {
        self.budget = self.retry.budget;
        self.used_since = None;
    }

    /// The batch was not delivered, and another attempt may help after `least`.
    pub(crate) fn failed(&mut self, now: Instant, least: Duration) -> Verdict {
        self.in_a_row = self.in_a_row.saturating_add(1);
        let used = self.used_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let least = least.min(LONGEST_REQUESTED_PAUSE);
        let pause = self.pause().max(least);
        if used >= self.budget {
            return Verdict::GiveUp(now + if self.is_open() { pause } else { least });
        }
        if self.is_open() {
            self.budget -= used;
            self.used_since = None;
        }
        Verdict::Again(now + pause)
    }

    /// Whether the circuit breaker is open.
    pub(crate) fn is_open(&self) -> bool {
        self.retry.breaker_failures > 0 && self.in_a_row >= self.retry.breaker_failures
    }

    /// Attempts that failed since the last one that did not.
    pub(crate) fn in_a_row(&self) -> u32 {
        self.in_a_row
    }

    fn pause(&mut self) -> Duration {
        let longest = match self.is_hurried {
            true => self.retry.first_pause.min(self.retry.longest_pause),
            false => self.retry.longest_pause,
        };
        let doubled = 1_u32.checked_shl(self.in_a_row.saturating_sub(1)).unwrap_or(u32::MAX);
        let pause = match self.is_open() {
            true => longest,
            false => self.retry.first_pause.saturating_mul(doubled.max(1)).min(longest),
        };
        pause.mul_f64(1.0 - self.random.f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn failures(budget: Duration, breaker_failures: u32) -> Failures {
        let retry = Retry { first_pause: 100 * MS, longest_pause: 1000 * MS, budget, breaker_failures };
        Failures::new(retry, fastrand::Rng::with_seed(7))
    }

    /// The pause after a failure.
    fn fail(failures: &mut Failures, now: &mut Instant) -> Option<Duration> {
        failures.begin(*now);
        match failures.failed(*now, Duration::ZERO) {
            Verdict::Again(at) => {
                let pause = at - *now;
                *now = at;
                Some(pause)
            }
            Verdict::GiveUp(at) => {
                *now = at;
                None
            }
        }
    }

    #[test]
    fn pauses_double_with_jitter_up_to_the_longest() {
        let mut failures = failures(3600 * 1000 * MS, 0);
        let mut now = Instant::now();
        for most in [100, 200, 400, 800, 1000, 1000, 1000] {
            let pause = fail(&mut failures, &mut now).unwrap();
            assert!(pause >= most * MS / 2 && pause <= most * MS, "{pause:?} of {most} ms");
        }
        failures.in_a_row = u32::MAX;
        assert!(fail(&mut failures, &mut now).unwrap() <= 1000 * MS);
        failures.succeeded();
        assert!(fail(&mut failures, &mut now).unwrap() <= 100 * MS, "a success starts again");
    }

    #[test]
    fn at_the_end_of_an_outage_no_pause_is_longer_than_the_first() {
        for breaker_failures in [0, 3] {
            let mut failures = failures(3600 * 1000 * MS, breaker_failures);
            let mut now = Instant::now();
            (0..10).for_each(|_| _ = fail(&mut failures, &mut now));
            failures.hurry();
            for _ in 0..10 {
                let pause = fail(&mut failures, &mut now).unwrap();
                assert!(pause >= 50 * MS && pause <= 100 * MS, "{pause:?}");
            }
            let Verdict::Again(at) = failures.failed(now, 700 * MS) else { panic!("it is tried again") };
            assert_eq!(at, now + 700 * MS, "the backend asked for it");
        }
    }

    #[test]
    fn a_backend_can_ask_for_a_longer_pause() {
        let mut failures = failures(3600 * 1000 * MS, 0);
        let now = Instant::now();
        for (asked, least, most) in [(0, 50, 100), (5000, 5000, 5000), (86_400_000, 300_000, 300_000)] {
            failures.succeeded();
            let Verdict::Again(at) = failures.failed(now, asked * MS) else { panic!("it is tried again") };
            assert!(at >= now + least * MS && at <= now + most * MS, "{asked} ms: {:?}", at - now);
        }
    }

    #[test]
    fn a_batch_is_given_up_when_its_budget_is_used_up() {
        let mut without = failures(Duration::ZERO, 0);
        let mut now = Instant::now();
        assert_eq!(fail(&mut without, &mut now), None);
        let mut failures = failures(2000 * MS, 0);
        let started = now;
        let attempts = (0..100).take_while(|_| fail(&mut failures, &mut now).is_some()).count();
        assert!((3..10).contains(&attempts), "{attempts}");
        assert!(now - started >= 2000 * MS && now - started < 3000 * MS);
        failures.next_batch();
        assert!(fail(&mut failures, &mut now).is_some(), "the next batch has its own budget");
    }

    #[test]
    fn while_the_breaker_is_open_no_budget_is_used_between_attempts() {
        let mut failures = failures(500 * MS, 2);
        let mut now = Instant::now();
        assert!(fail(&mut failures, &mut now).is_some() && !failures.is_open());
        for _ in 0..1000 {
            let pause = fail(&mut failures, &mut now).expect("it waits for the sink");
            assert!(failures.is_open() && pause >= 500 * MS);
        }
        // A slow attempt uses it up.
        failures.begin(now);
        let verdict = failures.failed(now + 600 * MS, Duration::ZERO);
        let Verdict::GiveUp(next) = verdict else { panic!("{verdict:?}") };
        assert!(next >= now + 1100 * MS, "the next batch has no attempt before its time either");
        failures.succeeded();
        assert!(!failures.is_open());
    }

    #[test]
    fn a_pause_that_a_backend_asked_for_outlives_the_batch() {
        let mut failures = failures(Duration::ZERO, 0);
        let now = Instant::now();
        assert_eq!(failures.failed(now, 700 * MS), Verdict::GiveUp(now + 700 * MS));
        assert_eq!(failures.failed(now, Duration::ZERO), Verdict::GiveUp(now));
    }
}
