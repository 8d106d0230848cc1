//! When a changed group is published.

use tokio::time::Instant;

use mixer_schema::Strategy;

use crate::options::Debounce;

/// When a changed group is due.
#[derive(Debug)]
pub(super) struct Pending {
    strategy: Strategy,
    debounce: Debounce,
    /// The first and the last change that are not published.
    changes: Option<(Instant, Instant)>,
}

impl Pending {
    pub(super) fn new(strategy: Strategy, debounce: Debounce) -> Self {
        Self { strategy, debounce, changes: None }
    }

    /// Something changed.
    pub(super) fn note(&mut self, now: Instant) {
        let first = self.changes.map_or(now, |(first, _)| first);
        self.changes = Some((first, now));
    }

    /// It was published.
    pub(super) fn clear(&mut self) {
        self.changes = None;
    }

    /// Whether changes wait.
    pub(super) fn is_pending(&self) -> bool {
        self.changes.is_some()
    }

    /// Whether another change makes those that wait, wait longer.
    pub(super) fn delays(&self) -> bool {
        self.strategy == Strategy::Debounce && self.is_pending()
    }

    /// When the first of the changes that wait arrived.
    pub(super) fn first(&self) -> Option<Instant> {
        self.changes.map(|(first, _)| first)
    }

    /// When it is to be published; `None` without changes.
    pub(super) fn due(&self) -> Option<Instant> {
        let (first, last) = self.changes?;
        Some(match self.strategy {
            Strategy::Immediate => last,
            Strategy::Debounce => (last + self.debounce.quiet).min(first + self.debounce.max_wait),
        })
    }

    /// Whether changes have gone on for so long that the longest wait decided.
    pub(super) fn reached_max_wait(&self) -> bool {
        self.strategy == Strategy::Debounce
            && self
                .changes
                .is_some_and(|(first, last)| first + self.debounce.max_wait < last + self.debounce.quiet)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_pause_publishes_and_so_does_the_longest_wait() {
        let (quiet, max_wait) = (Duration::from_millis(10), Duration::from_millis(25));
        let mut pending = Pending::new(Strategy::Debounce, Debounce { quiet, max_wait });
        let start = Instant::now();
        assert_eq!((pending.due(), pending.delays()), (None, false));
        pending.note(start);
        assert!(pending.delays());
        assert_eq!(pending.due(), Some(start + quiet));
        pending.note(start + Duration::from_millis(8));
        assert_eq!(pending.due(), Some(start + Duration::from_millis(18)));
        assert!(!pending.reached_max_wait());
        pending.note(start + Duration::from_millis(17));
        assert_eq!(pending.due(), Some(start + max_wait));
        assert!(pending.reached_max_wait());
        pending.clear();
        assert_eq!((pending.due(), pending.is_pending()), (None, false));
        let mut at_once = Pending::new(Strategy::Immediate, Debounce::FAST);
        at_once.note(start);
        assert_eq!((at_once.due(), at_once.delays()), (Some(start), false));
    }
}
