//! Which of the resources that a version of the store no longer has were deleted, and which only cannot be seen.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::snapshot::{BuildStage, SnapshotBuilder};
use mixer_base::shared_map::SharedMap;
use mixer_config::store::Unread;
use mixer_config::{RawResource, ResourceKey};

/// Why a file serves in its previous version, although it can be read: it has a new resource with an error.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) why: String,
}

/// Distinguishes resources that were deleted from those that only cannot be read.
pub(super) struct Absences<'r> {
    unread: FxHashMap<&'r Path, &'r Unread>,
    /// The first that certainly has configuration: it may have any resource that is missing.
    certain: Option<&'r Unread>,
    held: &'r BTreeMap<Arc<str>, Held>,
    /// Resources of unknown kinds, by file, namespace and name.
    ignored: FxHashMap<[&'r str; 3], &'r RawResource>,
}

impl<'r> Absences<'r> {
    pub(super) fn new(
        read: &'r SharedMap<Arc<RawResource>>,
        unread: &'r [Unread],
        held: &'r BTreeMap<Arc<str>, Held>,
        builder: &SnapshotBuilder,
    ) -> Self {
        let ignored = read.iter().filter(|resource| !has_effect(&resource.key, builder));
        Self {
            unread: unread.iter().map(|unread| (Path::new(&*unread.path), unread)).collect(),
            certain: unread.iter().find(|unread| unread.certain),
            held,
            ignored: ignored.map(|resource| (place_of(resource), &**resource)).collect(),
        }
    }

    /// Why a resource that the store no longer has was not deleted; `None` if it was.
    pub(super) fn why_kept(&self, old: &RawResource, builder: &SnapshotBuilder) -> Option<String> {
        let file = &*old.origin.file;
        if let Some(unread) = Path::new(file).ancestors().find_map(|path| self.unread.get(path)) {
            return Some(format!("its file is not read completely: {}", unread.why));
        }
        if let Some(found) = self.ignored.get(&place_of(old)).filter(|_| has_effect(&old.key, builder)) {
            return Some(format!("its kind is now `{}`, which is unknown", found.key.kind));
        }
        if let Some(held) = self.held.get(file) {
            return Some(held.why.clone());
        }
        // It may have been moved to what is not read, now or before.
        if let Some(unread) = self.certain {
            return Some(format!("it is gone, and what may have it now is not read: {}", unread.why));
        }
        // It may have been moved to a file that does not serve yet.
        let held = self.held.values().next()?;
        Some(format!("it is gone, perhaps moved: {}", held.why))
    }
}

fn place_of(resource: &RawResource) -> [&str; 3] {
    [&resource.origin.file, &resource.key.namespace, &resource.key.name]
}

pub(super) fn has_effect(key: &ResourceKey, builder: &SnapshotBuilder) -> bool {
    builder.stage_of(&key.kind) != BuildStage::Ignored
}
