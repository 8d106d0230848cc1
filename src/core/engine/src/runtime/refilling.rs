//! Whether what the store lacks may still come.

use mixer_config::store::StoreContents;
use mixer_config::store::refill::{Cause, Refill};
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
    pub(super) fn look(&mut self, contents: &StoreContents, may_lack: bool) {
        let is_lapse = std::mem::replace(&mut self.lapses, contents.lapses) < contents.lapses;
        self.refill.complete(Instant::now());
        // What came back before anybody looked lacks nothing.
        if is_lapse && may_lack && self.refill == Refill::Complete {
            self.refill = Refill::Empty(Cause::Reconnected);
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
