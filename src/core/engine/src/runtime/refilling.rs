//! Whether what the store lacks may still come.

use mixer_config::store::refill::{Cause, Refill};
use mixer_config::store::{ConfigStore, StoreContents};
use tokio::time::Instant;

/// What of the configuration may still come, and what of that is known already.
#[derive(Debug, Default)]
pub(super) struct Refilling {
    refill: Refill,
    /// The [lapses](StoreContents::lapses) that were looked at.
    lapses: u64,
}

impl Refilling {
    /// The last good configuration is that of an earlier process, and nothing is known of the store.
    pub(super) fn started_with_cache(&mut self) {
        self.refill = Refill::Empty(Cause::Started);
    }

    /// Before a version of the store is dealt with. `may_lack`: it has other resources than the one before, or that
    /// one did not serve as written.
    pub(super) fn look(&mut self, store: &dyn ConfigStore, contents: &StoreContents, may_lack: bool) {
        let is_lapse = std::mem::replace(&mut self.lapses, contents.lapses) < contents.lapses;
        if let Some(at) = store.touched() {
            self.refill.touch(Instant::from_std(at));
        }
        self.refill.complete(Instant::now());
        // What came back before anybody looked lacks nothing.
        if is_lapse && may_lack && self.refill == Refill::Complete {
            self.refill = Refill::Empty(Cause::Reconnected);
        }
    }

    /// The version changes nothing: what it lacks, it lacked before the source was connected again.
    pub(super) fn unchanged(&mut self) {
        if self.refill == Refill::Empty(Cause::Reconnected) {
            self.refill = Refill::Complete;
        }
    }

    /// Why what is missing may still come, if it may.
    pub(super) fn expected(&self) -> Option<Cause> {
        self.refill.expected()
    }

    /// When the store is complete, if nothing changes.
    pub(super) fn due(&self) -> Option<Instant> {
        self.refill.due()
    }

    /// After a version of the store, see [`Refill::after`].
    pub(super) fn after(&mut self, is_empty: bool, lacks_any: bool) {
        self.refill = self.refill.after(is_empty, lacks_any, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::time::Duration;

    use mixer_config::store::refill::QUIET;

    use super::*;

    /// A store to which something happened then.
    struct Touched(Option<std::time::Instant>);

    impl ConfigStore for Touched {
        fn url(&self) -> &str {
            "memory://touched"
        }

        fn contents(&self) -> Arc<StoreContents> {
            Arc::default()
        }

        fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            Box::pin(std::future::pending())
        }

        fn touched(&self) -> Option<std::time::Instant> {
            self.0
        }
    }

    fn lapsed(lapses: u64) -> StoreContents {
        StoreContents { lapses, ..StoreContents::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_source_lacks_again_is_expected_until_nothing_happens() {
        let (mut refilling, store) = (Refilling::default(), Touched(None));
        refilling.look(&store, &lapsed(1), false);
        assert_eq!(refilling.expected(), None, "it lacks nothing");
        refilling.look(&store, &lapsed(1), true);
        assert_eq!(refilling.expected(), None, "a deletion");
        refilling.look(&store, &lapsed(2), true);
        refilling.after(false, true);
        assert_eq!(refilling.expected(), Some(Cause::Reconnected));
        tokio::time::advance(QUIET.saturating_sub(Duration::from_secs(1))).await;
        // What happens without another version.
        let store = Touched(Some(Instant::now().into_std()));
        tokio::time::advance(Duration::from_secs(2)).await;
        refilling.look(&store, &lapsed(2), true);
        assert_eq!(refilling.expected(), Some(Cause::Reconnected));
        tokio::time::advance(QUIET).await;
        refilling.look(&store, &lapsed(2), true);
        assert_eq!((refilling.expected(), refilling.due()), (None, None));
        // All of it came back before anybody looked: a deletion hours later is none of the source's.
        refilling.look(&store, &lapsed(3), true);
        refilling.unchanged();
        refilling.look(&store, &lapsed(3), true);
        assert_eq!(refilling.expected(), None);
        // What is there again.
        refilling.look(&store, &lapsed(4), true);
        refilling.after(false, false);
        assert_eq!(refilling.expected(), None);
    }
}
