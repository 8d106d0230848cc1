//! What rules name, and how two versions of one differ.

use std::collections::BTreeSet;

use foldhash::HashSet;

use mixer_config::{MappingEntry, Node, RawResource};

/// The field with the condition of a rule.
const MATCH: &str = "match";

/// What a rule names.
pub(super) struct RuleText {
    /// Of each action its handler and its instances, in this order.
    pub(super) actions: Vec<Vec<Box<str>>>,
}

impl RuleText {
    /// Reads the document.
    pub(super) fn of(rule: &RawResource) -> Self {
        Self::in_document(&rule.document())
    }

    /// Of a document that is parsed.
    pub(super) fn in_document(document: &Node) -> Self {
        let names = |action: &Node| names_of(action).map(Box::from).collect();
        Self { actions: actions_of(document).iter().map(names).collect() }
    }

    /// What decides which requests are charged to a rule and which it sees: its namespace, and the names that its instances may have, in
    /// lower case.
    pub(super) fn subjects(&self, namespace: &str) -> BTreeSet<String> {
        let instances = self.actions.iter().flat_map(|names| names.iter().skip(1));
        let names = instances.flat_map(|name| prefixes(name));
        names.chain([namespace]).map(str::to_lowercase).collect()
    }
}

/// How two versions of a rule differ.
pub(super) struct RuleChange {
    /// Whether more than its actions changed.
    pub(super) beyond_actions: bool,
    /// What the names in changed actions may mean.
    names: HashSet<Box<str>>,
}

impl RuleChange {
    /// Actions at the beginning and at the end that are the same in both did not change.
    pub(super) fn between(good: &RawResource, new: &RawResource) -> Self {
        let documents = [good.document(), new.document()];
        let [before, after] = documents.each_ref().map(actions_of);
        let is_same = |(a, b): &(&Node, &Node)| a.same_value(b);
        let start = before.iter().zip(after).take_while(is_same).count();
        let (before, after) =
            (before.get(start..).unwrap_or_default(), after.get(start..).unwrap_or_default());
        let end = before.iter().rev().zip(after.iter().rev()).take_while(is_same).count();
        let changed = |actions: &'_ [Node]| actions.len().saturating_sub(end);
        let changed = before.iter().take(changed(before)).chain(after.iter().take(changed(after)));
        let names = changed.flat_map(names_of).flat_map(prefixes).map(Box::from).collect();
        let [good_rest, new_rest] = documents.each_ref().map(rest_of);
        let beyond_actions = good.annotations != new.annotations || !are_same(&good_rest, &new_rest);
        Self { beyond_actions, names }
    }

    /// Whether more changed than actions that do not use a part.
    pub(super) fn concerns(&self, part: &str) -> bool {
        self.beyond_actions || self.names.contains(part)
    }
}

/// What two versions of a rule have in common.
#[derive(Debug, Default)]
pub(super) struct RuleUse {
    pub(super) has_same_condition: bool,
    /// Whether nothing else but conditions and actions differs.
    pub(super) is_same_beside: bool,
    /// Whether the new version has all actions of the good one, and nothing else but conditions and actions changed.
    pub(super) has_no_fewer_actions: bool,
    /// Whether the good version has all actions of the new one, and nothing else but conditions and actions changed.
    pub(super) has_no_more_actions: bool,
}

/// Most actions of a rule that are compared with each other.
const MAX_ACTIONS: usize = 64;

impl RuleUse {
    /// `documents`: of both.
    pub(super) fn between(good: &RawResource, new: &RawResource, documents: [&Node; 2]) -> Self {
        let [good_condition, new_condition] = documents.map(condition_of);
        let [before, after] = documents.map(actions_of);
        let beside = |document| -> Vec<&MappingEntry> {
            rest_of(document).into_iter().filter(|entry| &*entry.key != MATCH).collect()
        };
        let [good_rest, new_rest] = documents.map(beside);
        let is_same = good.annotations == new.annotations && are_same(&good_rest, &new_rest);
        let is_within = |some: &[Node], all: &[Node]| {
            some.len().max(all.len()) <= MAX_ACTIONS
                && some.iter().all(|action| all.iter().any(|other| action.same_value(other)))
        };
        Self {
            has_same_condition: match (good_condition, new_condition) {
                (Some(good), Some(new)) => good.same_value(new),
                (good, new) => good.is_none() && new.is_none(),
            },
            is_same_beside: is_same,
            has_no_fewer_actions: is_same && is_within(before, after),
            has_no_more_actions: is_same && is_within(after, before),
        }
    }
}

/// The longest name of a resource, in bytes.
const MAX_NAME: usize = 1024;
/// Most parts of a name that are told apart.
const MAX_PARTS: usize = 64;

/// What may be the name of a part in a reference, which may go on with its kind and its namespace. Names may have dots. All of them together have
/// a bounded length.
pub(super) fn prefixes(reference: &str) -> impl Iterator<Item = &str> {
    let dots = reference.match_indices('.').map(|(at, _)| at).take(MAX_PARTS).chain([reference.len()]);
    dots.take_while(|at| *at <= MAX_NAME).filter_map(|at| reference.get(..at))
}

fn spec_of(document: &Node) -> &[MappingEntry] {
    document.member("spec").map_or(&[], Node::entries)
}

fn actions_of(document: &Node) -> &[Node] {
    spec_of(document).iter().find(|entry| &*entry.key == "actions").map_or(&[], |entry| entry.value.items())
}

/// The condition of a rule, if it has one.
pub(super) fn condition_of(document: &Node) -> Option<&Node> {
    document.member("spec")?.member(MATCH)
}

fn are_same(some: &[&MappingEntry], others: &[&MappingEntry]) -> bool {
    let is_same = |(a, b): (&&MappingEntry, &&MappingEntry)| a.key == b.key && a.value.same_value(&b.value);
    some.len() == others.len() && some.iter().zip(others).all(is_same)
}

/// The members of the spec but the actions.
fn rest_of(document: &Node) -> Vec<&MappingEntry> {
    spec_of(document).iter().filter(|entry| &*entry.key != "actions").collect()
}

/// The handler and the instances that an action names.
fn names_of(action: &Node) -> impl Iterator<Item = &str> {
    let instances = action.get("instances").map_or(&[][..], Node::items);
    let handler = action.get("handler").and_then(Node::as_str).unwrap_or_default();
    std::iter::once(handler).chain(instances.iter().map(|name| name.as_str().unwrap_or_default()))
}
