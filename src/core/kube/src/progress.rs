//! What a reflector has reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::time::Instant;

/// What a [`Reflector`](crate::Reflector) has reached, for concurrent readers.
#[derive(Debug)]
pub struct Progress {
    reached: ArcSwap<Reached>,
    /// Changes with every change of what was reached.
    changed: watch::Sender<()>,
    failures: AtomicU64,
    lists: AtomicU64,
}

/// What was reached at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reached {
    /// Whether the objects were listed once. The store is complete from then on, and perhaps not current.
    pub is_synced: bool,
    /// The version of the API server up to which changes are known.
    pub version: Arc<str>,
    /// What stands in the way of following changes; `None` while they are followed.
    pub trouble: Option<Trouble>,
}

/// What stands in the way of following changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The last failure, for operators.
    pub why: Arc<str>,
    /// Whether the account may not do what was asked for, as far as the last failure tells.
    pub is_forbidden: bool,
    /// Since when nothing succeeded.
    pub since: Instant,
}

impl Reached {
    /// Whether waiting alone leads nowhere: the objects were listed once, or the account may not.
    pub fn is_settled(&self) -> bool {
        self.is_synced || self.trouble.as_ref().is_some_and(|trouble| trouble.is_forbidden)
    }
}

impl Trouble {
    /// Whether it has lasted this long.
    pub fn has_lasted(&self, time: Duration) -> bool {
        self.since.elapsed() >= time
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            reached: ArcSwap::default(),
            changed: watch::Sender::new(()),
            failures: AtomicU64::new(0),
            lists: AtomicU64::new(0),
        }
    }
}

impl Progress {
    /// What was reached by now. Takes no lock.
    pub fn reached(&self) -> arc_swap::Guard<Arc<Reached>> {
        self.reached.load()
    }

    /// Waits until the objects were listed once. Cancel safe.
    pub async fn synced(&self) {
        self.until(|reached| reached.is_synced).await;
    }

    /// Waits until the objects were listed once, or the account may not. Cancel safe.
    pub async fn settled(&self) {
        self.until(Reached::is_settled).await;
    }

    async fn until(&self, condition: impl Fn(&Reached) -> bool) {
        let mut changes = self.changed.subscribe();
        while !condition(&self.reached.load()) {
            // The sender lives as long as this.
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// How many requests failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// How often all objects were listed.
    pub fn lists(&self) -> u64 {
        self.lists.load(Ordering::Relaxed)
    }

    /// All objects are known in this version.
    pub(crate) fn listed(&self, version: &str) {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.replace(|reached| Reached { is_synced: true, version: version.into(), ..reached });
    }

    /// Changes are known up to this version.
    pub(crate) fn followed(&self, version: &str) {
        self.replace(|reached| Reached { version: version.into(), ..reached });
    }

    /// A request succeeded, and goes on to.
    pub(crate) fn works(&self) {
        if self.reached.load().trouble.is_some() {
            self.replace(|reached| Reached { trouble: None, ..reached });
        }
    }

    /// Objects that are known are listed again, which has taken this long: their changes are not followed meanwhile.
    pub(crate) fn lists_again_for(&self, time: Duration) {
        let reached = self.reached.load();
        if !reached.is_synced || reached.trouble.is_some() {
            return;
        }
        let now = Instant::now();
        let since = now.checked_sub(time).unwrap_or(now);
        let why = "they are listed again, and that takes long".into();
        self.replace(|reached| Reached {
            trouble: Some(Trouble { why, is_forbidden: false, since }),
            ..reached
        });
    }

    /// A request failed.
    pub(crate) fn failed(&self, why: &str, is_forbidden: bool) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.replace(|reached| {
            let since = reached.trouble.as_ref().map_or_else(Instant::now, |trouble| trouble.since);
            Reached { trouble: Some(Trouble { why: why.into(), is_forbidden, since }), ..reached }
        });
    }

    /// One task writes.
    fn replace(&self, change: impl FnOnce(Reached) -> Reached) {
        self.reached.store(Arc::new(change(Reached::clone(&self.reached.load()))));
        self.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_list_that_takes_long_is_a_trouble_once_there_was_one() {
        let (progress, time) = (Progress::default(), Duration::from_secs(5));
        progress.lists_again_for(time);
        assert!(progress.reached().trouble.is_none(), "the first one");
        progress.listed("1");
        progress.lists_again_for(time);
        let trouble = progress.reached().trouble.clone().unwrap();
        assert!(!trouble.is_forbidden && trouble.has_lasted(time), "{trouble:?}");
        assert_eq!(progress.failures(), 0);
        progress.listed("2");
        assert!(progress.reached().trouble.is_some(), "until changes are followed");
        progress.works();
        assert!(progress.reached().trouble.is_none());
    }
}
