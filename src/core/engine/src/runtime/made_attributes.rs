//! Attributes that resources make, such as those that a generator binds, and what changed that makes or reads them.

use std::collections::BTreeSet;

use foldhash::HashMap;

use super::corrections::Corrections;
use crate::snapshot::{BuildStage, SnapshotBuilder};
use mixer_config::text_index::words;
use mixer_config::{Node, RawResource, ResourceKey};

/// Fields whose keys are attributes that their resource makes, in lower case.
const BINDINGS: [&str; 2] = ["attributebindings", "staticattributes"];
/// A field whose value is such an attribute.
const TARGET: &str = "attribute";
/// The only field of a specification that does nothing but make attributes.
const MAPPINGS: &str = "mappings";
/// The parts of a name that are looked at: an attribute, and what CEL selects of it.
const MAX_PARTS: usize = 16;

/// Names of attributes.
pub(super) type Attributes = BTreeSet<Box<str>>;

/// The attributes that a resource makes, as far as its text tells.
pub(super) fn made_by(resource: &RawResource) -> Attributes {
    let mut made = Attributes::new();
    if may_make(resource) {
        collect(&resource.document(), &mut made);
    }
    made
}

/// Whether a resource perhaps makes attributes: every field for that has this in its name. Parsing costs more.
pub(super) fn may_make(resource: &RawResource) -> bool {
    resource.origin.text.contains("ttribute")
}

/// Whether a resource does nothing but make attributes.
pub(super) fn only_makes_attributes(resource: &RawResource) -> bool {
    let document = resource.document();
    let fields = document.member("spec").map_or(&[][..], Node::entries);
    !fields.is_empty() && fields.iter().all(|field| &*field.key == MAPPINGS)
}

fn collect(node: &Node, made: &mut Attributes) {
    node.items().iter().for_each(|item| collect(item, made));
    for entry in node.entries() {
        let name = entry.key.replace('_', "").to_ascii_lowercase();
        if BINDINGS.contains(&&*name) {
            made.extend(entry.value.entries().iter().map(|binding| binding.key.clone()));
        } else if name == TARGET {
            made.extend(entry.value.as_str().map(Box::from));
        }
        collect(&entry.value, made);
    }
}

/// The attributes that a text may read: its words, and their beginnings.
pub(super) fn read_in(text: &str) -> impl Iterator<Item = &str> {
    let beginnings = |word| {
        let dots = |word: &str| -> Vec<usize> {
            word.match_indices('.').map(|(at, _)| at).take(MAX_PARTS).chain([word.len()]).collect()
        };
        dots(word).into_iter().filter_map(move |at| word.get(..at))
    };
    words(text).flat_map(beginnings)
}

/// Changed resources by attributes that they make, or that they read.
#[derive(Debug, Default)]
pub(super) struct ByAttribute {
    resources: HashMap<Box<str>, Vec<ResourceKey>>,
}

impl ByAttribute {
    /// Adds a resource.
    pub(super) fn add(&mut self, attribute: &str, key: &ResourceKey) {
        self.resources.entry(attribute.into()).or_default().push(key.clone());
    }

    /// The rules and instances among these that read attributes, in their new version or in the last good one. One that is deleted
    /// reads nothing any more.
    pub(super) fn readers(
        changed: &[ResourceKey],
        corrections: &Corrections<'_>,
        builder: &SnapshotBuilder,
    ) -> Self {
        let mut all = Self::default();
        let may_read =
            |key: &&ResourceKey| matches!(builder.stage_of(&key.kind), BuildStage::Parts | BuildStage::Rules);
        for key in changed.iter().filter(may_read) {
            if builder.ends_early() {
                break;
            }
            let Some(new) = corrections.read.resources.get(key) else { continue };
            let versions = [Some(new), corrections.last.get(key)].into_iter().flatten();
            let read: BTreeSet<&str> = versions.flat_map(|version| read_in(&version.origin.text)).collect();
            read.into_iter().for_each(|attribute| all.add(attribute, key));
        }
        all
    }

    /// Takes out the resources of these attributes, because each goes back once.
    pub(super) fn take<'a>(&mut self, attributes: impl IntoIterator<Item = &'a str>) -> Vec<ResourceKey> {
        if self.resources.is_empty() {
            return Vec::new();
        }
        attributes.into_iter().filter_map(|attribute| self.resources.remove(attribute)).flatten().collect()
    }
}
