//! Which of the resources that a version of the store no longer has were deleted, and which only cannot be seen.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::kept::{CommonCause, Reason};
use crate::snapshot::{BuildStage, SnapshotBuilder};
use mixer_config::store::refill::{Cause, LIMIT, QUIET};
use mixer_config::store::{StoreContents, Unread};
use mixer_config::{RawResource, ResourceKey};

/// Files that serve in their previous version although they can be read, because each has a new resource with an error; with the
/// cause.
pub(super) type HeldFiles = BTreeMap<Arc<str>, CommonCause>;

/// Files with a resource that has an error, or had one in its last good version; with the error.
pub(super) type FaultyFiles = BTreeMap<Arc<str>, CommonCause>;

/// Distinguishes resources that were deleted from those that only cannot be read.
pub(super) struct Absences<'r> {
    unread: HashMap<&'r Path, &'r Unread>,
    /// What may have any resource that is missing.
    any: Option<&'r Unread>,
    held: &'r HeldFiles,
    faulty: &'r FaultyFiles,
    /// Why what is missing may still come.
    expected: Option<Cause>,
    /// A file that is in the middle of a change.
    changing: Option<&'r Arc<str>>,
    /// The files that are not read because of their names, by what they have.
    misnamed: HashMap<&'r ResourceKey, &'r Arc<str>>,
    /// The files of which anything is read.
    files: HashSet<&'r str>,
    /// Resources of unknown kinds, by file, namespace and name.
    ignored: HashMap<[&'r str; 3], &'r RawResource>,
}

impl<'r> Absences<'r> {
    pub(super) fn new(
        read: &'r StoreContents,
        unread: &'r [Unread],
        held: &'r HeldFiles,
        faulty: &'r FaultyFiles,
        expected: Option<Cause>,
        builder: &SnapshotBuilder,
    ) -> Self {
        let ignored = read.resources.iter().filter(|resource| !has_effect(&resource.key, builder));
        Self {
            unread: unread.iter().map(|unread| (Path::new(&*unread.path), unread)).collect(),
            any: unread.first(),
            held,
            faulty,
            expected,
            changing: read.changing.first(),
            misnamed: read.misnamed.iter().map(|(key, file)| (key, file)).collect(),
            files: match read.misnamed.is_empty() {
                true => HashSet::default(),
                false => read.resources.iter().map(|resource| &*resource.origin.file).collect(),
            },
            ignored: ignored.map(|resource| (place_of(resource), &**resource)).collect(),
        }
    }

    /// Why a resource that the store no longer has was not deleted; `None` if it was.
    pub(super) fn why_kept(&self, old: &RawResource, builder: &SnapshotBuilder) -> Option<Reason> {
        if let Some(found) = self.ignored.get(&place_of(old)).filter(|_| has_effect(&old.key, builder)) {
            let why = format!("its kind is now `{}`, which is unknown", found.key.kind);
            return Some(Reason::new(why, None));
        }
        let file = &*old.origin.file;
        if let Some(unread) = Path::new(file).ancestors().find_map(|path| self.unread.get(path)) {
            return Some(because_of(unread, "its file is not read completely"));
        }
        if let Some(cause) = self.held.get(file) {
            let why = format!("it is gone from a file that does not serve yet: {}", cause.text);
            return Some(Reason { why, common: Some(cause.clone()), problem: None });
        }
        // What is left of a file may be two documents that were joined.
        if let Some(cause) = self.faulty.get(file) {
            let why = format!("it is gone from a file with an error: {}", cause.text);
            return Some(Reason { why, common: Some(cause.clone()), problem: None });
        }
        // A copy of a file that is read is none that was renamed.
        if let Some(misnamed) = self.misnamed.get(&old.key).filter(|_| !self.files.contains(file)) {
            let text = format!("{misnamed} is not read: its name does not end in .yaml or .yml");
            let why = format!("its file is gone, and {text}");
            let common = CommonCause { text: text.into(), file: Some(Arc::clone(misnamed)) };
            return Some(Reason { why, common: Some(common), problem: None });
        }
        // It may have been moved to what is not read, now or before.
        if let Some(unread) = self.any {
            return Some(because_of(unread, "it is gone, and what may have it now is not read"));
        }
        // It may have been moved to a file that does not serve yet.
        if let Some(cause) = self.held.values().next() {
            let why = format!("it is gone, perhaps moved: {}", cause.text);
            return Some(Reason { why, common: Some(cause.clone()), problem: None });
        }
        // It may be moving to a file that its writer has not closed.
        if let Some(changing) = self.changing {
            let cause = CommonCause {
                text: format!("{changing} is being changed").into(),
                file: Some(Arc::clone(changing)),
            };
            let why = format!("it is gone, perhaps moved: {}", cause.text);
            return Some(Reason { why, common: Some(cause), problem: None });
        }
        self.expected.map(|cause| {
            let (cause, quiet, limit) = (cause.text(), QUIET.as_secs(), LIMIT.as_secs());
            let why = format!(
                "{cause}; it counts as deleted when nothing changed for {quiet} s, or after {limit} s"
            );
            Reason { why, common: Some(CommonCause { text: cause.into(), file: None }), problem: None }
        })
    }
}

/// The reason of everything that `unread` concerns.
pub(super) fn because_of(unread: &Unread, what: &str) -> Reason {
    let common = CommonCause { text: unread.why.as_str().into(), file: Some(Arc::clone(&unread.path)) };
    Reason { why: format!("{what}: {}", unread.why), common: Some(common), problem: None }
}

fn place_of(resource: &RawResource) -> [&str; 3] {
    [&resource.origin.file, &resource.key.namespace, &resource.key.name]
}

pub(super) fn has_effect(key: &ResourceKey, builder: &SnapshotBuilder) -> bool {
    builder.stage_of(&key.kind) != BuildStage::Ignored
}
