//! The state of a store at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::FileContents;
use crate::core::config::{Diagnostic, Diagnostics, FieldPath, RawResource, ResourceKey, Span};

/// The state of a store at one moment.
#[derive(Debug, Clone, Default)]
pub struct StoreContents {
    /// All resources.
    pub resources: BTreeMap<ResourceKey, Arc<RawResource>>,
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
    /// Adds what a file holds. A resource that is there already is replaced, with a warning that names both places.
    pub fn add(&mut self, file: &FileContents) {
        self.files += 1;
        self.documents += file.resources.len();
        self.diagnostics.extend(file.diagnostics.iter().cloned());
        for resource in &file.resources {
            if let Some(before) = self.resources.insert(resource.key.clone(), resource.clone()) {
                // The same text twice is what links and copies give, and does no harm.
                if before.revision != resource.revision {
                    self.diagnostics.push(duplicate(&before, resource));
                }
            }
        }
    }

    /// Whether the resources are the same, wherever they stand, and nothing else is new.
    pub fn same_as(&self, other: &StoreContents) -> bool {
        self.unavailable == other.unavailable
            && self.diagnostics == other.diagnostics
            && self.resources.len() == other.resources.len()
            && self.resources.iter().zip(&other.resources).all(|((key, a), (other_key, b))| {
                Arc::ptr_eq(a, b) || (a.revision == b.revision && key == other_key)
            })
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
