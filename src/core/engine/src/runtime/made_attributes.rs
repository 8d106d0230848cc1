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

/// The namespace of requests of Envoy that name none; the field that chooses it, and the attribute that it makes.
const DEFAULT_NAMESPACE: (&str, &str) = ("defaultNamespace", "destination.namespace");

/// The attribute that both versions of an `envoybridge` give another value where a request has none.
pub(super) fn defaulted_otherwise(good: &RawResource, new: &RawResource) -> Option<&'static str> {
    let (field, attribute) = DEFAULT_NAMESPACE;
    let documents = [good.document(), new.document()];
    let [before, after] =
        documents.each_ref().map(|document| document.member("spec").and_then(|spec| spec.member(field)));
    let is_same = match (before, after) {
        (Some(before), Some(after)) => before.same_value(after),
        (before, after) => before.is_none() && after.is_none(),
    };
    (!is_same).then_some(attribute)
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

/// The attributes that choose the namespace whose rules decide about a request.
pub(super) const SELECTORS: [&str; 3] =
    ["context.reporter.kind", "destination.namespace", "source.namespace"];

/// The attributes that a resource may read: those in its text, and of a rule that is not for the mesh those that choose its requests.
pub(super) fn read_by<'r>(
    resource: &'r RawResource,
    builder: &SnapshotBuilder,
) -> impl Iterator<Item = &'r str> + use<'r> {
    let RawResource { key, origin, .. } = resource;
    let is_chosen = builder.stage_of(&key.kind) == BuildStage::Rules
        && *key.namespace != *builder.options().default_namespace;
    let selectors = SELECTORS.into_iter().filter(move |_| is_chosen);
    read_in(&origin.text).chain(selectors)
}

/// Whether a resource may read attributes: a rule, an instance, and what charges or describes requests by them. A mapping names those
/// that it makes.
pub(super) fn may_read(resource: &RawResource, builder: &SnapshotBuilder) -> bool {
    let kind = &resource.key.kind;
    match builder.stage_of(kind) {
        BuildStage::Parts | BuildStage::Rules => true,
        BuildStage::Extensions => builder.adapter_reading(kind).is_none() && !only_makes_attributes(resource),
        BuildStage::Vocabulary | BuildStage::Ignored => false,
    }
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

    /// Those among these that read attributes, in their new version or in the last good one. One that is deleted reads nothing any more.
    pub(super) fn readers(
        changed: &[ResourceKey],
        corrections: &Corrections<'_>,
        builder: &SnapshotBuilder,
    ) -> Self {
        let mut all = Self::default();
        for key in changed {
            if builder.ends_early() {
                break;
            }
            let Some(new) = corrections.read.resources.get(key) else { continue };
            let versions = [Some(new), corrections.last.get(key)].into_iter().flatten();
            let reading = versions.filter(|version| may_read(version, builder));
            let read: BTreeSet<&str> = reading.flat_map(|version| read_by(version, builder)).collect();
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
