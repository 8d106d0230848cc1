//! What changed together with a handler, an instance or a rule that goes back to its last good version.
//!
//! An instance that was made for the new version of a handler may mean nothing to the last one, which then refuses nobody: a list of
//! names that is given addresses.

use std::collections::{BTreeMap, BTreeSet};

use super::corrections::Corrections;
use super::kept::Reason;
use crate::snapshot::{ActionConfig, BuildStage, RuleConfig, Snapshot, SnapshotBuilder};
use mixer_config::{Node, RawResource, ResourceKey};

/// What goes back because it changed together with a resource whose new version has an error: with a handler or an instance, the parts
/// that rules use with it, and rules that use other parts with it than in their last good version; with a rule that was to use other parts
/// than before, those which its last good version uses. And so on for each part that goes back.
///
/// A rule of which only the condition or another action changed is not among them, and neither is what is new.
pub(super) fn changed_together(
    snapshot: &Snapshot,
    corrections: &Corrections<'_>,
    builder: &SnapshotBuilder,
) -> Vec<(Vec<ResourceKey>, Reason)> {
    let (last, read) = (corrections.last, &corrections.read);
    let is_part = |key: &ResourceKey| builder.stage_of(&key.kind) == BuildStage::Parts;
    let versions = |key: &ResourceKey| last.get(key).zip(read.resources.get(key));
    let goes_back = |key: &ResourceKey| last.get(key).is_some() && last.differs(key, read.resources.get(key));
    let (mut changed, mut waiting) = (Vec::new(), Vec::new());
    let faulty = corrections.faulty();
    if faulty.is_empty() {
        return changed;
    }
    let used = Used::of(snapshot);
    for (key, reason) in faulty {
        let reason = Reason::new(
            format!("it is used together with {key}, whose new version has an error"),
            reason.problem,
        );
        if is_part(&key) {
            waiting.push((key, reason));
            continue;
        }
        let uses_others = versions(&key).is_some_and(|(good, new)| uses_others(good, new, corrections));
        let rule = used.rules.get(&key).filter(|_| uses_others);
        let parts = rule.into_iter().flat_map(|rule| rule.actions.iter().flat_map(parts_of));
        let parts: BTreeSet<ResourceKey> = parts.filter(goes_back).collect();
        waiting.extend(parts.iter().map(|part| (part.clone(), reason.clone())));
        changed.push((parts.into_iter().collect(), reason));
    }
    let mut seen: BTreeSet<ResourceKey> = waiting.iter().map(|(part, _)| part.clone()).collect();
    while let Some((part, reason)) = waiting.pop() {
        let mut keys = BTreeSet::new();
        for rule in used.by.get(&part).into_iter().flatten() {
            keys.extend(rule.actions.iter().map(parts_of).filter(|parts| parts.contains(&part)).flatten());
            let versions = versions(&rule.key);
            if versions.is_some_and(|(good, new)| actions_with(good, &part) != actions_with(new, &part)) {
                keys.insert(rule.key.clone());
            }
        }
        keys.retain(|key| *key != part && goes_back(key));
        let parts = keys.iter().filter(|key| is_part(key) && seen.insert((*key).clone()));
        waiting.extend(parts.map(|key| (key.clone(), reason.clone())));
        changed.push((keys.into_iter().collect(), reason));
    }
    changed
}

/// The rules of a snapshot.
struct Used<'s> {
    rules: BTreeMap<&'s ResourceKey, &'s RuleConfig>,
    /// Those that use a part.
    by: BTreeMap<&'s ResourceKey, Vec<&'s RuleConfig>>,
}

impl<'s> Used<'s> {
    fn of(snapshot: &'s Snapshot) -> Self {
        let mut used = Self { rules: BTreeMap::new(), by: BTreeMap::new() };
        for rule in &snapshot.rules {
            used.rules.insert(&rule.key, rule);
            let parts = rule.actions.iter().flat_map(|action| {
                std::iter::once(&action.handler.key).chain(action.instances.iter().map(|i| &i.key))
            });
            for part in parts.collect::<BTreeSet<_>>() {
                used.by.entry(part).or_default().push(rule);
            }
        }
        used
    }
}

/// Whether the new version of a rule uses other parts. A name that nothing has is a mistake, which tells nothing of other parts.
fn uses_others(good: &RawResource, new: &RawResource, corrections: &Corrections<'_>) -> bool {
    let (good, new) = (actions_of(good), actions_of(new));
    let known: BTreeSet<&String> = good.iter().flatten().collect();
    let mut others = new.iter().flatten().filter(|name| !known.contains(name)).peekable();
    let is_there =
        |name: &String| corrections.read.resources.iter().any(|resource| is_name(name, &resource.key));
    good != new && (others.peek().is_none() || others.any(is_there))
}

/// Whether a rule means a part by a name: with or without its kind and namespace.
fn is_name(name: &str, part: &ResourceKey) -> bool {
    name.strip_prefix(&*part.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The handler and the instances of an action.
fn parts_of(action: &ActionConfig) -> Vec<ResourceKey> {
    let instances = action.instances.iter().map(|instance| instance.key.clone());
    std::iter::once(action.handler.key.clone()).chain(instances).collect()
}

/// The names of the handler and the instances of each action of a rule.
fn actions_of(rule: &RawResource) -> Vec<Vec<String>> {
    let document = rule.document();
    let actions = document.get("spec").and_then(|spec| spec.get("actions"));
    let names = actions.map_or(&[][..], Node::items).iter().map(|action| {
        let instances = action.get("instances").map_or(&[][..], Node::items);
        let names = action.get("handler").into_iter().chain(instances);
        names.map(|name| name.as_str().unwrap_or_default().to_owned()).collect()
    });
    names.collect()
}

/// The same of the actions that name a part.
fn actions_with(rule: &RawResource, part: &ResourceKey) -> Vec<Vec<String>> {
    let mut actions = actions_of(rule);
    actions.retain(|names| names.iter().any(|name| is_name(name, part)));
    actions
}
