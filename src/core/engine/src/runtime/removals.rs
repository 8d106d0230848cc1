//! What a change removes from the configuration that serves, for the log.

use std::sync::Arc;

use foldhash::HashSet;

use super::last_good::Resources;
use super::made_attributes::{Attributes, made_by, may_make};
use super::read_attributes::Read;
use crate::snapshot::{BuildStage, SnapshotBuilder};
use mixer_config::RawResource;

/// The number of resources that are logged by name.
const NAMED: usize = 50;

/// What a change removes.
pub(super) struct Removed {
    /// Resources that may have refused calls: what they refused is allowed from now on.
    refusing: Vec<Arc<RawResource>>,
    /// Attributes by which rules may have refused calls, with the resources that made them and no longer do.
    attributes: Vec<(Box<str>, Arc<RawResource>)>,
    /// Other resources.
    others: Vec<Arc<RawResource>>,
}

impl Removed {
    /// What served and is gone from a configuration that is about to serve. Cost: proportional to what changed; if an attribute is no longer
    /// made, to the texts of the rules and instances.
    pub(super) fn between(good: &Resources, next: &Resources, builder: &SnapshotBuilder) -> Self {
        let mut removed = Self { refusing: Vec::new(), attributes: Vec::new(), others: Vec::new() };
        for change in good.changes(next, |a, b| a.revision == b.revision) {
            let resource = match change {
                (Some(old), None) => old,
                (Some(old), Some(new)) => {
                    removed.attributes.extend(unmade(old, new, builder));
                    continue;
                }
                (None, _) => continue,
            };
            let refuses = match builder.stage_of(&resource.key.kind) {
                BuildStage::Ignored => continue,
                BuildStage::Rules => builder.may_enforce(resource),
                BuildStage::Extensions => true,
                BuildStage::Vocabulary | BuildStage::Parts => false,
            };
            let list = if refuses { &mut removed.refusing } else { &mut removed.others };
            list.push(Arc::clone(resource));
        }
        if !removed.attributes.is_empty() {
            let read = read_where_calls_are_refused(&removed.attributes, next, builder);
            removed.attributes.retain(|(attribute, _)| read.contains(attribute));
        }
        removed
    }

    /// Logs it, at most [`NAMED`] resources and attributes by name.
    pub(super) fn log(&self) {
        for resource in self.refusing.iter().take(NAMED) {
            let (file, line) = (&*resource.origin.file, resource.origin.document_line());
            tracing::warn!(file, line, "removed: {}, which may have refused calls", resource.key);
        }
        let mut left = NAMED.saturating_sub(self.refusing.len());
        for (attribute, resource) in self.attributes.iter().take(left) {
            let (file, line) = (&*resource.origin.file, resource.origin.document_line());
            let key = &resource.key;
            tracing::warn!(file, line, "removed: {attribute} of {key}, by which calls may have been refused");
        }
        left = left.saturating_sub(self.attributes.len());
        for resource in self.others.iter().take(left) {
            let (file, line) = (&*resource.origin.file, resource.origin.document_line());
            tracing::info!(file, line, "removed: {}", resource.key);
        }
        let more = (self.refusing.len() + self.attributes.len() + self.others.len()).saturating_sub(NAMED);
        if more > 0 {
            tracing::warn!("removed: {more} more resources");
        }
    }
}

/// The attributes that a resource made and no longer makes, with its new version.
fn unmade(
    old: &Arc<RawResource>,
    new: &Arc<RawResource>,
    builder: &SnapshotBuilder,
) -> Vec<(Box<str>, Arc<RawResource>)> {
    match builder.stage_of(&new.key.kind) {
        BuildStage::Parts | BuildStage::Extensions if may_make(old) => {}
        _ => return Vec::new(),
    }
    let made = made_by(new);
    let gone = made_by(old).into_iter().filter(|attribute| !made.contains(attribute));
    gone.map(|attribute| (attribute, Arc::clone(new))).collect()
}

/// Those among these attributes that no other resource makes, and that a rule may read by which calls are refused, or an instance of one.
fn read_where_calls_are_refused(
    attributes: &[(Box<str>, Arc<RawResource>)],
    next: &Resources,
    builder: &SnapshotBuilder,
) -> Attributes {
    let mut open: Attributes = attributes.iter().map(|(attribute, _)| attribute.clone()).collect();
    for resource in next.iter().filter(|resource| may_make(resource)) {
        if matches!(builder.stage_of(&resource.key.kind), BuildStage::Parts | BuildStage::Extensions) {
            for attribute in made_by(resource) {
                open.remove(&attribute);
            }
        }
    }
    let (mut found, mut in_instances) = (Attributes::new(), Vec::new());
    for resource in next.iter() {
        let stage = builder.stage_of(&resource.key.kind);
        if open.is_empty() {
            break;
        }
        if !matches!(stage, BuildStage::Parts | BuildStage::Rules) {
            continue;
        }
        let mut read = Read::default();
        read.add(resource, builder);
        let read: Vec<Box<str>> = open.iter().filter(|attribute| read.has(attribute)).cloned().collect();
        match stage {
            BuildStage::Rules if !read.is_empty() && builder.may_enforce(resource) => {
                open.retain(|attribute| !read.contains(attribute));
                found.extend(read);
            }
            BuildStage::Parts if !read.is_empty() => in_instances.push((resource.key.to_string(), read)),
            _ => {}
        }
    }
    if !in_instances.is_empty() {
        let rules = next.iter().filter(|resource| builder.stage_of(&resource.key.kind) == BuildStage::Rules);
        let rules = rules.filter(|rule| builder.may_enforce(rule));
        let named: HashSet<Arc<str>> = rules.flat_map(|rule| builder.references_of(&rule.key)).collect();
        let used = in_instances.into_iter().filter(|(name, _)| named.contains(&**name));
        found.extend(used.flat_map(|(_, read)| read));
    }
    found
}
