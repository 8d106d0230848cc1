//! Attributes that manifests give another type than before: a condition with the same text may select other requests.

use std::collections::BTreeMap;

use super::corrections::Corrections;
use super::last_good::Resources;
use super::made_attributes::Attributes;
use crate::snapshot::{BuildStage, SnapshotBuilder};
use mixer_config::{Node, RawResource};

/// The attributes whose type is another one than in the last good configuration. One that is declared anew, or no longer, counts if it
/// has had a meaning before or still has one, as an entry of another attribute; whatever else reads it has an error.
///
/// Cost: one pass over all manifests.
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
    before.keys().chain(after.keys()).filter(|name| is_retyped(name)).cloned().collect()
}

/// The attributes that a manifest declares, with the texts of their types; with an empty one if the type cannot be told.
pub(super) fn declared_by(manifest: &RawResource) -> Vec<(Box<str>, Box<str>)> {
    let document = manifest.document();
    // The name of the field may have a mistake.
    let fields = document.member("spec").map_or(&[][..], Node::entries);
    let declared = fields.iter().flat_map(|field| field.value.entries()).map(|entry| {
        let declared = ["valueType", "value_type"].into_iter().find_map(|field| entry.value.member(field));
        let declared = declared.and_then(Node::as_str).unwrap_or_default();
        (entry.key.clone(), declared.into())
    });
    declared.collect()
}
