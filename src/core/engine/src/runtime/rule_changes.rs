//! What rules name, and how two versions of one differ.

use std::collections::BTreeSet;

use foldhash::HashSet;

use mixer_config::{MappingEntry, Node, RawResource, ResourceKey};
use mixer_expr::Language;

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
    /// Whether they have the same condition and annotations.
    pub(super) selects_same: bool,
    /// Whether nothing differs but the names in their actions.
    pub(super) is_same_beside_names: bool,
    /// Whether the new version refuses all that the good one does: it has all of its actions, its condition, perhaps with more alternatives,
    /// and nothing else changed.
    pub(super) has_no_fewer: bool,
    /// The same the other way round.
    pub(super) has_no_more: bool,
}

/// The field with the condition of a rule.
const MATCH: &str = "match";
/// What is between the alternatives of a condition.
const OR: &str = "||";
/// Most actions of a rule that are compared with each other.
const MAX_ACTIONS: usize = 64;

impl RuleUse {
    /// `language`: that of the conditions, if both have the same annotations. In CEL an alternative can be true although what is before it fails, so that
    /// the rule decides about a request that its failure refused.
    pub(super) fn between(good: &RawResource, new: &RawResource, language: Language) -> Self {
        let has_same_annotations = good.annotations == new.annotations;
        let documents = [good.document(), new.document()];
        let documents = documents.each_ref();
        let [before, after] = documents.map(actions_of);
        let rest = |document| -> Vec<&MappingEntry> {
            rest_of(document).into_iter().filter(|entry| &*entry.key != MATCH).collect()
        };
        let [good_rest, new_rest] = documents.map(rest);
        let is_same = has_same_annotations && are_same(&good_rest, &new_rest);
        let [good, new] = documents.map(|document| document.member("spec").and_then(|spec| spec.get(MATCH)));
        let has_same_condition = match (good, new) {
            (Some(good), Some(new)) => good.same_value(new),
            (good, new) => good.is_none() && new.is_none(),
        };
        let extends = |some, more| language == Language::Cexl && has_alternatives(some, more);
        let is_within = |some: &[Node], all: &[Node]| {
            some.len().max(all.len()) <= MAX_ACTIONS
                && some.iter().all(|action| all.iter().any(|other| action.same_value(other)))
        };
        let mut actions = before.iter().zip(after);
        Self {
            selects_same: has_same_annotations && has_same_condition,
            is_same_beside_names: is_same
                && has_same_condition
                && before.len() == after.len()
                && actions.all(|(good, new)| are_same(&beside_names(good), &beside_names(new))),
            has_no_fewer: is_same && is_within(before, after) && (has_same_condition || extends(good, new)),
            has_no_more: is_same && is_within(after, before) && (has_same_condition || extends(new, good)),
        }
    }
}

/// Whether the second condition is the first one with alternatives behind it. Those before it may fail, and with them the whole.
fn has_alternatives(some: Option<&Node>, more: Option<&Node>) -> bool {
    let Some((some, more)) = some.and_then(text_of).zip(more.and_then(text_of)) else { return false };
    more.strip_prefix(some).is_some_and(|rest| rest.trim_start().starts_with(OR))
}

fn text_of(condition: &Node) -> Option<&str> {
    condition.as_str().map(str::trim).filter(|text| !text.is_empty())
}

/// The fields of an action that name parts.
const NAMES: [&str; 2] = ["handler", "instances"];

fn beside_names(action: &Node) -> Vec<&MappingEntry> {
    action.entries().iter().filter(|entry| !NAMES.contains(&&*entry.key)).collect()
}

/// Most parts of a name that are told apart.
const MAX_PARTS: usize = 64;

/// What may be the name of a part in a reference, which may go on with its kind and its namespace. Names may have dots. All of them together have
/// a bounded length.
pub(super) fn prefixes(reference: &str) -> impl Iterator<Item = &str> {
    let dots = reference.match_indices('.').map(|(at, _)| at).take(MAX_PARTS).chain([reference.len()]);
    dots.take_while(|at| *at <= ResourceKey::MAX_PART).filter_map(|at| reference.get(..at))
}

fn spec_of(document: &Node) -> &[MappingEntry] {
    document.member("spec").map_or(&[], Node::entries)
}

fn actions_of(document: &Node) -> &[Node] {
    spec_of(document).iter().find(|entry| &*entry.key == "actions").map_or(&[], |entry| entry.value.items())
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
