//! A store that was emptied, or may be in the middle of being filled: what is missing was not deleted.

use std::time::Duration;

use tokio::time::Instant;

/// How long such a store must be unchanged until what it lacks counts as deleted.
pub const QUIET: Duration = Duration::from_secs(5);

/// How long a store that changes all the time may lack something until it counts as deleted.
pub const LIMIT: Duration = Duration::from_secs(300);

/// That a store of files has nothing. `setting`: what names its directory. `only`: when that is meant, and the flag that says so; last, because
/// the flag opens everything.
pub fn no_configuration(setting: &str, only: &str) -> String {
    format!(
        "the store has no configuration: check the path in {setting}, that the names of the files end in .yaml or .yml, and that their \
         resources are of kinds of this server; only {only}"
    )
}

/// Why what is missing may still come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The store was empty, or its directory could not be read.
    Emptied,
    /// The process started with a cached configuration, and does not know what the store was doing.
    Started,
    /// The source was connected again, and had less of something than before: it may have been started again.
    Reconnected,
}

impl Cause {
    /// One line.
    pub fn text(self) -> &'static str {
        match self {
            Self::Emptied => "the configuration was empty, and is being filled again",
            Self::Started => {
                "the server started with its cache, and the configuration may still be being filled"
            }
            Self::Reconnected => {
                "the source was connected again, and had less than before: it may still be reading its configuration"
            }
        }
    }
}

/// What became of a store that was empty, or of which nothing was known. The clock is monotonic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Refill {
    /// It lacks nothing that may still come.
    #[default]
    Complete,
    /// It has nothing, or was not read yet.
    Empty(Cause),
    /// It has something and lacks something.
    Filling {
        /// Why it may.
        cause: Cause,
        /// When it had something first.
        since: Instant,
        /// When it changed last.
        changed: Instant,
    },
}

impl Refill {
    /// Why what is missing may still come, if it may.
    pub fn expected(self) -> Option<Cause> {
        match self {
            Self::Complete => None,
            Self::Empty(cause) | Self::Filling { cause, .. } => Some(cause),
        }
    }

    /// Completes it if it is time.
    pub fn complete(&mut self, now: Instant) {
        if self.due().is_some_and(|due| due <= now) {
            *self = Self::Complete;
        }
    }

    /// Something happened to the store then, whatever it changed.
    pub fn touch(&mut self, at: Instant) {
        if let Self::Filling { changed, .. } = self {
            *changed = at.max(*changed);
        }
    }

    /// When it is complete, if nothing changes.
    pub fn due(self) -> Option<Instant> {
        match self {
            Self::Filling { since, changed, .. } => {
                Some(changed.checked_add(QUIET)?.min(since.checked_add(LIMIT)?))
            }
            Self::Complete | Self::Empty(_) => None,
        }
    }

    /// After a version of the store. `is_empty`: it has nothing, or nothing of it could be read. `lacks_any`: the last good configuration has
    /// a resource that it does not have.
    #[must_use]
    pub fn after(self, is_empty: bool, lacks_any: bool, now: Instant) -> Self {
        match self {
            _ if is_empty => Self::Empty(Cause::Emptied),
            Self::Empty(cause) if lacks_any => Self::Filling { cause, since: now, changed: now },
            Self::Filling { cause, since, .. } if lacks_any => Self::Filling { cause, since, changed: now },
            Self::Complete | Self::Empty(_) | Self::Filling { .. } => Self::Complete,
        }
    }
}
