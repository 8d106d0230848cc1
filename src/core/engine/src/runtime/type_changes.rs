//! Attributes that manifests give another type than before: a condition with the same text may select other requests.

use std::collections::{BTreeMap, BTreeSet};

use super::corrections::Corrections;
use super::last_good::Resources;
use super::made_attributes::Attributes;
use super::read_attributes::Read;
use crate::snapshot::{BuildStage, SnapshotBuilder};
use mixer_config::message::Field as _;
use mixer_config::{Node, RawResource};

/// The attributes whose type is another one than in the last good configuration. One that is declared anew, or no longer, counts if it
/// has had a meaning before or still has one, as an entry of another attribute, or in what reads it where it is not declared: requests may have
/// it as an entry of a map, such as `envoy.context_extensions`, while it is none of the attributes. Whatever else reads it has an error.
///
/// Cost: one pass over all manifests; one over all texts if an attribute is declared in one of both configurations.
pub(super) fn retyped(corrections: &Corrections<'_>, builder: &SnapshotBuilder) -> Attributes {
    let types = |resources: &Resources| -> BTreeMap<Box<str>, Box<str>> {
        let mut types = BTreeMap::new();
        let is_manifest = |kind: &str| builder.stage_of(kind) == BuildStage::Vocabulary;
        for manifest in resources.iter().filter(|resource| is_manifest(&resource.key.kind)) {
            for (name, declared) in declared_by(manifest) {
                // The first of them counts.
                types.entry(name).or_insert(declared);
            }
        }
        types
    };
    let Some(good) = corrections.last.resources() else { return Attributes::new() };
    let (before, after) = (types(good), types(&corrections.read.resources));
    let type_in = |types: &BTreeMap<Box<str>, Box<str>>, name: &str| -> Option<Box<str>> {
        let built_in = || builder.built_in_type(name).map(|built_in| built_in.name().into());
        types.get(name).cloned().or_else(built_in)
    };
    let is_known = |name: &str| type_in(&before, name).is_some() || type_in(&after, name).is_some();
    let is_entry = |name: &str| name.match_indices('.').any(|(at, _)| name.get(..at).is_some_and(is_known));
    let is_retyped = |name: &str| match (type_in(&before, name), type_in(&after, name)) {
        (Some(before), Some(after)) => before != after,
        (None, None) => false,
        _ => is_entry(name),
    };
    let mut retyped: Attributes =
        before.keys().chain(after.keys()).filter(|name| is_retyped(name)).cloned().collect();
    for (resources, types, others) in
        [(good, &before, &after), (&corrections.read.resources, &after, &before)]
    {
        let undeclared: BTreeSet<&str> =
            others.keys().map(|name| &**name).filter(|name| type_in(types, name).is_none()).collect();
        retyped.extend(read_among(resources, &undeclared, builder));
    }
    retyped
}

/// Those among these names that resources read.
fn read_among(resources: &Resources, names: &BTreeSet<&str>, builder: &SnapshotBuilder) -> Attributes {
    if names.is_empty() {
        return Attributes::new();
    }
    let mut read = Read::default();
    resources.iter().for_each(|resource| read.add(resource, builder));
    names.iter().filter(|name| read.has(name)).map(|name| Box::from(*name)).collect()
}

/// The attributes that a manifest declares, with the texts of their types; with an empty one if the type cannot be told.
pub(super) fn declared_by(manifest: &RawResource) -> Vec<(Box<str>, Box<str>)> {
    let document = manifest.document();
    // The name of the field may have a mistake.
    let fields = document.member("spec").map_or(&[][..], Node::entries);
    let declared = fields.iter().flat_map(|field| field.value.entries()).map(|entry| {
        let declared = ["valueType", "value_type"].into_iter().find_map(|field| entry.value.member(field));
        // A number is a type as well.
        let text =
            |declared: &Node| declared.as_str().map_or_else(|| declared.to_json().to_string(), str::to_owned);
        (entry.key.clone(), declared.map(text).unwrap_or_default().into())
    });
    declared.collect()
}
