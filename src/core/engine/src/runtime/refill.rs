//! A store that was empty and is being filled again: what is still missing was not deleted.

use std::time::Duration;

use tokio::time::Instant;

/// How long a store that was empty must be unchanged until what it lacks counts as deleted.
pub(super) const QUIET: Duration = Duration::from_secs(5);

/// What became of a store that was empty, or whose directory could not be read. The clock is monotonic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Refill {
    /// It has been unchanged since, or was never empty.
    #[default]
    Complete,
    /// It is empty.
    Empty,
    /// It has something again, and changed last at this time.
    Filling(Instant),
}

impl Refill {
    /// Whether what is missing may still come.
    pub(super) fn is_expected(self) -> bool {
        self != Self::Complete
    }

    /// Completes it if it is time.
    pub(super) fn complete(&mut self, now: Instant) {
        if self.due().is_some_and(|due| due <= now) {
            *self = Self::Complete;
        }
    }

    /// When it is complete, if nothing changes.
    pub(super) fn due(self) -> Option<Instant> {
        match self {
            Self::Filling(changed) => changed.checked_add(QUIET),
            Self::Complete | Self::Empty => None,
        }
    }

    /// After a change.
    pub(super) fn after(self, is_empty: bool, now: Instant) -> Self {
        match self {
            _ if is_empty => Self::Empty,
            Self::Complete => Self::Complete,
            Self::Empty | Self::Filling(_) => Self::Filling(now),
        }
    }
}
