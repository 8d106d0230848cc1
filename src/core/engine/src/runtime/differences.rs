//! The changes from one version of a store to the next.

use std::sync::Arc;

use mixer_base::shared_map::SharedMap;
use mixer_config::{RawResource, ResourceKey};

/// The resources of a store.
pub(super) type Resources = SharedMap<Arc<RawResource>>;

/// A resource that was added, removed or changed.
#[derive(Debug, Clone)]
pub struct ResourceChange {
    /// Its key.
    pub key: ResourceKey,
    /// The old version; `None` if it was added.
    pub before: Option<Arc<RawResource>>,
    /// The new version; `None` if it was removed.
    pub after: Option<Arc<RawResource>>,
}

/// The changes from one version of a store to the next, by key.
pub(super) fn differences(before: &Resources, after: &Resources) -> Vec<ResourceChange> {
    let changes = before.changes(after, |old, new| old.revision == new.revision);
    let change = |(before, after): (Option<&Arc<RawResource>>, Option<&Arc<RawResource>>)| {
        let key = after.or(before)?.key.clone();
        Some(ResourceChange { key, before: before.cloned(), after: after.cloned() })
    };
    changes.into_iter().filter_map(change).collect()
}

/// Whether a resource with the same text is in another file or line, which positions of problems and of rules show.
pub(super) fn moves(before: &Resources, after: &Resources) -> bool {
    before.changes(after, Arc::ptr_eq).iter().any(|change| match change {
        (Some(old), Some(new)) => old.revision == new.revision && !old.origin.is_at(&new.origin),
        (None, _) | (_, None) => false,
    })
}
