//! What files lack and may not have been deleted, and what an earlier process published.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use tokio::time::Instant;

use mixer_config::RawResource;
use mixer_config::store::refill::{Cause, Refill};
use mixer_config::store::{StoreContents, Unread};

use super::{Files, Found, Kept};
use crate::keeper::Earlier;
use crate::source::Ended;

impl Files {
    /// Asks for what an earlier process published, once.
    pub(super) async fn restore(self: &Arc<Self>) -> Result<(), Ended> {
        let keeper = self.options.keeper.as_ref().filter(|_| self.options.keeps_last);
        let Some(keeper) = keeper.filter(|_| !std::mem::replace(&mut self.state.lock().has_asked, true))
        else {
            return Ok(());
        };
        match keeper.load().await {
            Ok(None) => {}
            Err(why) => self.state.lock().mismatch = Some(why),
            Ok(Some(earlier)) => {
                let this = Arc::clone(self);
                let restored = tokio::task::spawn_blocking(move || this.take_earlier(earlier)).await;
                restored.map_err(|error| Ended::Failed(format!("cannot read the cache: {error}")))?;
            }
        }
        Ok(())
    }

    /// Begins with what an earlier process published.
    fn take_earlier(&self, earlier: Earlier) {
        let Earlier { documents, written } = earlier;
        let with_effect = documents.iter().filter(|resource| self.has_effect(resource)).count();
        // That nothing is meant was said to the earlier process alone.
        if with_effect == 0 && !self.options.allows_empty {
            return;
        }
        let mut all: Vec<Arc<RawResource>> = documents.iter().cloned().collect();
        sort_by_place(&mut all);
        let files: BTreeSet<&Path> = all.iter().map(|resource| Path::new(&*resource.origin.file)).collect();
        self.store.expect(&files.into_iter().collect::<Vec<_>>());
        let mut state = self.state.lock();
        drop(self.put(&mut state, &all));
        state.with_effect = with_effect;
        state.contents = Arc::new(StoreContents { resources: documents, ..StoreContents::default() });
        state.has_read = true;
        state.refill = Refill::Empty(Cause::Started);
        state.restored = Some(written);
    }

    /// Notes whether what these contents lack may still come, as a policy server does that reads files.
    pub(super) fn note_losses(&self, state: &mut Kept, found: &Found<'_>) {
        let &Found { contents: next, gone, .. } = found;
        let now = Instant::now();
        if let Some(at) = self.store.touched() {
            state.refill.touch(Instant::from_std(at));
        }
        state.refill.complete(now);
        if !self.options.keeps_last || state.seen.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, next)) {
            return;
        }
        let files = || next.resources.iter().map(|resource| &resource.origin.file);
        let covers_all = |unread: &Unread| files().all(|file| **file != *unread.path && unread.covers(file));
        let is_void = self.is_emptied(found)
            || next.unavailable.is_some()
            || (!next.resources.is_empty() && next.unread().iter().any(covers_all));
        // A first publication lacks whatever may still come.
        let lacks_any = !state.has_read || gone.iter().any(|resource| self.has_effect(resource));
        state.refill = state.refill.after(is_void, lacks_any, now);
        state.seen = Some(Arc::clone(next));
    }

    /// Whether contents have nothing, which is not said to be meant.
    pub(super) fn is_emptied(&self, found: &Found<'_>) -> bool {
        !self.options.allows_empty && found.with_effect == 0
    }

    /// Whether a document is of a kind that is distributed.
    pub(super) fn has_effect(&self, resource: &RawResource) -> bool {
        self.kind(resource).is_ok_and(|kind| self.options.reads(kind))
    }
}

/// In the order in which they are read.
pub(super) fn sort_by_place(resources: &mut [Arc<RawResource>]) {
    resources.sort_by(|a, b| {
        let place = |resource: &RawResource| resource.origin.first_line;
        Path::new(&*a.origin.file).cmp(Path::new(&*b.origin.file)).then_with(|| place(a).cmp(&place(b)))
    });
}
