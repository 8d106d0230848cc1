//! The state of a store at one moment.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::FileContents;
use crate::{Diagnostic, Diagnostics, FieldPath, RawResource, ResourceKey, Span};
use mixer_base::shared_map::SharedMap;

/// The state of a store at one moment. Two states share the resources that they have in common.
#[derive(Debug, Clone, Default)]
pub struct StoreContents {
    /// All resources by key.
    pub resources: SharedMap<Arc<RawResource>>,
    /// Files and documents that could not be read, duplicates, and the like.
    pub diagnostics: Diagnostics,
    /// Why the store itself is not available, if it is not: the text of the readiness probe.
    pub unavailable: Option<String>,
    /// How many files were read.
    pub files: usize,
    /// How many documents with an identity they hold, duplicates included.
    pub documents: usize,
}

impl StoreContents {
    /// Adds what files hold. A resource that is there already is replaced, with a warning that names both places.
    pub fn add<'f>(&mut self, files: impl IntoIterator<Item = &'f FileContents>) {
        let mut all: Vec<Arc<RawResource>> = self.resources.iter().cloned().collect();
        for file in files {
            self.files += 1;
            self.documents += file.resources.len();
            self.diagnostics.extend(file.diagnostics.iter().cloned());
            all.extend(file.resources.iter().cloned());
        }
        // Stable: of equal keys the later one counts.
        all.sort_by(|a, b| a.key.cmp(&b.key));
        for (before, resource) in all.iter().zip(all.iter().skip(1)) {
            // The same text twice is what links and copies give, and does no harm.
            if before.key == resource.key && before.revision != resource.revision {
                self.diagnostics.push(duplicate(before, resource));
            }
        }
        all.reverse();
        all.dedup_by(|earlier, later| earlier.key == later.key);
        all.reverse();
        self.resources = all.into_iter().collect();
    }

    /// Whether some resource stands in more than one place.
    pub(super) fn has_duplicates(&self) -> bool {
        self.documents != self.resources.len()
    }

    /// Puts a new version of a file in the place of the old one, either of which may be missing. Diagnostics are left to the
    /// caller. `None`, and the contents are of no use any more, when a resource stands in more than one place.
    pub(super) fn replace(&mut self, old: Option<&FileContents>, new: Option<&FileContents>) -> Option<()> {
        let before = old.map_or(&[][..], |file| &file.resources);
        let mut gone: FxHashMap<&ResourceKey, &Arc<RawResource>> =
            before.iter().map(|r| (&r.key, r)).collect();
        for resource in new.map_or(&[][..], |file| &file.resources) {
            match gone.remove(&resource.key) {
                Some(old) if Arc::ptr_eq(old, resource) => continue,
                None if self.resources.contains_key(&resource.key) => return None,
                Some(_) | None => {}
            }
            self.resources.put(Arc::clone(resource));
        }
        for key in gone.into_keys() {
            self.resources.remove(key);
        }
        self.files = self.files + usize::from(new.is_some()) - usize::from(old.is_some());
        self.documents = self.documents + new.map_or(0, |file| file.resources.len()) - before.len();
        Some(())
    }

    /// Whether the resources are the same, wherever they stand, and nothing else is new.
    pub fn same_as(&self, other: &StoreContents) -> bool {
        self.unavailable == other.unavailable
            && self.diagnostics == other.diagnostics
            && self.resources.len() == other.resources.len()
            && self.resources.changes(&other.resources, |a, b| a.revision == b.revision).is_empty()
    }
}

fn duplicate(before: &RawResource, resource: &RawResource) -> Diagnostic {
    let place = |r: &RawResource| format!("{}:{}", r.origin.file, r.origin.first_line);
    let (first, second) = (place(before), place(resource));
    let start = resource.document().span.start;
    let span = Span { start, end: start };
    let message = format!("{} is defined twice: {first} is replaced by {second}", resource.key);
    let mut diagnostic = Diagnostic::warning("resource-duplicate", FieldPath::root(), message)
        .with_resource(resource.key.to_string())
        .with_hint(format!("remove or rename one of them; the other one stands at {first}"));
    diagnostic.file = Some(resource.origin.file.clone());
    diagnostic.span = Some(resource.origin.in_file(span));
    diagnostic
}
