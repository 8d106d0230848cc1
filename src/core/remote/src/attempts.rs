//! When a file that has changed is read again, of which an attempt may fail.

use std::time::{Duration, Instant};

/// What cannot be used is tried again after this time although its files are as they were: not every failure is one of their contents.
const PAUSE: Duration = Duration::from_secs(10);

/// The last attempt to read files. `S` tells whether they have changed.
///
/// Files that cannot be used are not read again for each request, and the log does not say so for each.
#[derive(Debug)]
pub(crate) struct Attempts<S> {
    /// The files as they were before it.
    stamp: S,
    /// When it failed.
    failed: Option<Instant>,
}

impl<S: PartialEq> Attempts<S> {
    /// The first attempt, which succeeded. `stamp` is that of the files before they were read, so that a change meanwhile is noticed.
    pub(crate) fn succeeded(stamp: S) -> Self {
        Self { stamp, failed: None }
    }

    /// Whether files that are like `stamp` now are to be read; [`note`](Self::note) follows.
    pub(crate) fn are_due(&self, stamp: &S, now: Instant) -> bool {
        *stamp != self.stamp
            || self.failed.is_some_and(|failed| now.saturating_duration_since(failed) >= PAUSE)
    }

    /// Whether the last attempt failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Notes an attempt. Returns whether it is the first one that failed since one succeeded.
    pub(crate) fn note(&mut self, stamp: S, has_failed: bool, now: Instant) -> bool {
        self.stamp = stamp;
        let failed_before = std::mem::replace(&mut self.failed, has_failed.then_some(now)).is_some();
        has_failed && !failed_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_used_is_tried_once_a_change_and_an_interval() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut attempts = Attempts::succeeded(1);
        assert!(!attempts.are_due(&1, at(1000)), "unchanged");
        assert!(attempts.are_due(&2, at(1)));
        assert!(attempts.note(2, true, at(1)), "the first failure is told");
        assert!(!attempts.are_due(&2, at(10)));
        assert!(attempts.are_due(&1, at(10)), "changed back is changed");
        assert!(attempts.are_due(&2, at(11)));
        assert!(!attempts.note(2, true, at(11)), "the second one is not");
        assert!(!attempts.are_due(&2, at(20)));
        assert!(!attempts.note(3, false, at(20)));
        assert!(!attempts.are_due(&3, at(1000)));
        assert!(attempts.note(4, true, at(1000)), "it is told again after a success");
    }
}
