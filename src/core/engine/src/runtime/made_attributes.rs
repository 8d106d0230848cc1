//! Attributes that resources make, such as those that a generator binds, and what changed that makes or reads them.

use std::collections::BTreeSet;

use foldhash::HashMap;

use super::corrections::Corrections;
use super::read_attributes::Read;
use crate::snapshot::SnapshotBuilder;
use mixer_config::{Node, RawResource, ResourceKey};

/// Fields whose keys are attributes that their resource makes, in lower case.
const BINDINGS: [&str; 2] = ["attributebindings", "staticattributes"];
/// A field whose value is such an attribute.
const TARGET: &str = "attribute";
/// The only field of a specification that does nothing but make attributes.
const MAPPINGS: &str = "mappings";

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
const DEFAULT_NAMESPACE: (&str, &str) = ("defaultnamespace", "destination.namespace");

/// The attribute that both versions of an `envoybridge` give another value where a request has none.
pub(super) fn defaulted_otherwise(good: &RawResource, new: &RawResource) -> Option<&'static str> {
    let (field, attribute) = DEFAULT_NAMESPACE;
    let documents = [good.document(), new.document()];
    let [before, after] = documents.each_ref().map(|document| {
        let spec = document.member("spec").map_or(&[][..], Node::entries);
        spec.iter().find(|entry| plain(&entry.key) == field).map(|entry| &entry.value)
    });
    let is_same = match (before, after) {
        (Some(before), Some(after)) => before.same_value(after),
        (before, after) => before.is_none() && after.is_none(),
    };
    (!is_same).then_some(attribute)
}

/// The name of a field in lower case: decoders accept `attributeBindings` and `attribute_bindings`.
fn plain(name: &str) -> String {
    name.replace('_', "").to_ascii_lowercase()
}

fn collect(node: &Node, made: &mut Attributes) {
    node.items().iter().for_each(|item| collect(item, made));
    for entry in node.entries() {
        let name = plain(&entry.key);
        if BINDINGS.contains(&&*name) {
            made.extend(entry.value.entries().iter().map(|binding| binding.key.clone()));
        } else if name == TARGET {
            made.extend(entry.value.as_str().map(Box::from));
        }
        collect(&entry.value, made);
    }
}

/// Changed resources by attributes that they make, or that they read.
#[derive(Debug, Default)]
pub(super) struct ByAttribute {
    resources: HashMap<Box<str>, Vec<ResourceKey>>,
    /// Those that may read others, too.
    others: Vec<(Read, ResourceKey)>,
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
            let mut read = Read::default();
            let versions = [Some(new), corrections.last.get(key)].into_iter().flatten();
            versions.for_each(|version| read.add(version, builder));
            read.names().for_each(|attribute| all.add(attribute, key));
            if read.has_others() {
                all.others.push((read, key.clone()));
            }
        }
        all
    }

    /// Takes out the resources of these attributes, because each goes back once.
    pub(super) fn take(&mut self, attributes: &Attributes) -> Vec<ResourceKey> {
        let named = attributes.iter().filter_map(|attribute| self.resources.remove(attribute));
        let mut taken: Vec<ResourceKey> = named.flatten().collect();
        let others = self.others.extract_if(.., |(read, _)| attributes.iter().any(|name| read.has(name)));
        taken.extend(others.map(|(_, key)| key));
        taken
    }

    /// Takes out the resources of the attributes that a resource may read.
    pub(super) fn take_read_by(
        &mut self,
        resource: &RawResource,
        builder: &SnapshotBuilder,
    ) -> Vec<ResourceKey> {
        if self.resources.is_empty() {
            return Vec::new();
        }
        let mut read = Read::default();
        read.add(resource, builder);
        let names = if read.has_others() {
            self.resources.keys().filter(|name| read.has(name)).cloned().collect()
        } else {
            read.names().map(Box::from).collect::<Vec<_>>()
        };
        names.iter().filter_map(|name| self.resources.remove(name)).flatten().collect()
    }
}
