//! What the change of one resource may do to requests.
//!
//! A rule with its handlers and instances refuses some requests. Of a resource that changes, the *gain* has at least the requests that
//! only its new version refuses, and the *loss* those that only its last good version refuses. They are known by namespace: the rules of
//! one decide about no request to another. Whether there is a loss at all follows from what was added and what was there before:
//!
//! - a new rule refuses more, and so does one with further actions, or with further alternatives behind its condition in the classic language; every other edit may do both;
//! - a list of `listchecker` that refuses what it has refuses more with more entries, one that refuses what it has not with fewer; every other
//!   edit of a part may do both;
//! - a part that is new or gone may do both to the rules that name it already, of which a name may have meant another part;
//! - a type of an attribute, a mapping, and whatever else applies to all requests may do both.
//!
//! What refuses requests without saying so in its own text counts where it changes: the namespace of a request chooses the rules that decide
//! about it, a quota that no rule charges may be refused, and a request of Envoy that names no namespace is while any of them has rules.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::corrections::Corrections;
use super::made_attributes::{Attributes, may_make};
use super::read_attributes::SELECTORS;
use super::requests::Requests;
use super::rule_changes::RuleUse;
use crate::snapshot::{BuildStage, SnapshotBuilder};
use mixer_config::annotation::DEFAULT;
use mixer_config::message::resembles;
use mixer_config::{MappingEntry, Node, NodeKind, RawResource};

/// What texts have that charge quotas, and those that name them.
const QUOTA: &str = "quota";
/// The field with the parameters of a part.
const PARAMS: &str = "params";
/// The adapter whose lists are understood.
const LISTS: &str = "listchecker";

/// What a change may do.
#[derive(Debug, Default, Clone)]
pub(super) struct Effects {
    /// Requests that only the new version refuses.
    pub(super) gain: Requests,
    /// Requests that only the last good version refuses.
    pub(super) loss: Requests,
}

impl Effects {
    /// Either for these.
    pub(super) fn either(requests: Requests) -> Self {
        Self { gain: requests.clone(), loss: requests }
    }

    /// If refusing fewer requests may also refuse more, as with what allows where what no rule allows is refused.
    fn of_both(mut self) -> Self {
        self.gain.add(self.loss.clone());
        Self::either(self.gain)
    }
}

/// A use of a part by a version of a rule.
pub(super) struct Use<'c> {
    pub(super) rule: &'c RawResource,
    /// Whether that is the last good one.
    pub(super) is_good: bool,
}

/// What else is known of rules.
pub(super) trait RuleFacts {
    /// Whether it may decide about requests.
    fn may_enforce(&self, rule: &RawResource) -> bool;
    /// Whether it makes attributes, which others read.
    fn makes_attributes(&self, rule: &RawResource) -> bool;
    /// Whether OK of one of its handlers may allow what a default refuses.
    fn may_allow(&self, rule: &RawResource) -> bool;
    /// Whether it charges a quota.
    fn may_charge(&self, rule: &RawResource) -> bool;
    /// Whether another rule of a namespace, or of any but that of the mesh, decides about requests in whichever version serves.
    fn has_lasting(&self, namespace: Option<&str>) -> bool;
    /// Whether both versions use the same handlers and instances.
    fn use_same_parts(&self, good: &RawResource, new: &RawResource) -> bool;
}

/// Both versions of a resource.
pub(super) type Versions<'c> = (Option<&'c RawResource>, Option<&'c RawResource>);

/// Reads the effects of changes from texts.
pub(super) struct Reader<'c> {
    builder: &'c SnapshotBuilder,
    /// Whether somewhere what no rule allows is refused.
    has_defaults: bool,
    /// Whether an instance may make attributes.
    has_generators: bool,
    /// Whether requests of Envoy are charged to quotas, and refused if no rule charges them.
    has_charges: bool,
    /// Whether what chooses the namespace of a request may have more than one value, or another meaning.
    shifts: bool,
}

impl<'c> Reader<'c> {
    /// `shifting`: attributes that have another value, or another type, in what serves than in the last good configuration or in that which
    /// is meant. Cost: one pass over all resources.
    pub(super) fn new(
        corrections: &'c Corrections<'c>,
        shifting: &Attributes,
        builder: &'c SnapshotBuilder,
    ) -> Self {
        let versions = [Some(&corrections.read.resources), corrections.last.resources()];
        let (mut has_defaults, mut has_generators, mut has_charges) = (false, false, false);
        for resource in versions.into_iter().flatten().flat_map(|resources| resources.iter()) {
            has_defaults |= resource.annotations.contains_key(DEFAULT);
            match builder.stage_of(&resource.key.kind) {
                BuildStage::Parts => has_generators |= may_make(resource),
                BuildStage::Extensions => has_charges |= may_charge(resource),
                BuildStage::Rules | BuildStage::Vocabulary | BuildStage::Ignored => {}
            }
        }
        let shifts = SELECTORS.iter().any(|name| shifting.contains(*name));
        Self { builder, has_defaults, has_generators, has_charges, shifts }
    }

    /// The effects of a change of a rule.
    pub(super) fn of_rule(&self, (good, new): Versions<'c>, rules: &impl RuleFacts) -> Effects {
        let enforced = |rule: Option<&'c RawResource>| rule.filter(|rule| rules.may_enforce(rule));
        let Some(namespace) = good.or(new).map(|rule| &rule.key.namespace) else { return Effects::default() };
        let reach = Requests::of(self.scope(namespace));
        // Whether one version refuses no request that the other one does not.
        let (has_no_more, has_no_fewer) = match (enforced(good), enforced(new)) {
            (None, None) => return Effects::default(),
            (None, Some(_)) => (false, true),
            (Some(_), None) => (true, false),
            (Some(good), Some(new)) => {
                let both = RuleUse::between(good, new, self.builder.options().language_of(good));
                let uses_same = || both.is_same_beside_names && rules.use_same_parts(good, new);
                (both.has_no_more || uses_same(), both.has_no_fewer || uses_same())
            }
        };
        let mut effects = Effects::default();
        if !has_no_more {
            effects.gain = reach.clone();
            effects.gain.add(self.without_rules_of(namespace, rules));
        }
        if !has_no_fewer {
            effects.loss = reach;
            effects.loss.add(self.without_rules_of(namespace, rules));
        }
        let may_do_both = |rule: &RawResource| {
            self.has_charges && rules.may_charge(rule)
                || self.has_generators && rules.makes_attributes(rule)
                || self.has_defaults && (rules.may_allow(rule) || rule.annotations.contains_key(DEFAULT))
        };
        if [good, new].into_iter().flatten().any(may_do_both) { effects.of_both() } else { effects }
    }

    /// The requests of Envoy that are refused because a namespace has rules: those that name none, and those that misspell it.
    fn without_rules_of(&self, namespace: &str, rules: &impl RuleFacts) -> Requests {
        let mut refused = Requests::default();
        if self.is_mesh(namespace) || rules.has_lasting(Some(namespace)) {
            return refused;
        }
        // A name of Kubernetes is misspelt only by one that has no rules.
        if namespace.trim() != namespace || namespace.to_ascii_lowercase() != namespace {
            return Requests::any();
        }
        refused.add(Requests::misnaming(namespace));
        if !rules.has_lasting(None) {
            refused.add(Requests::naming_none());
        }
        refused
    }

    /// The effects of a change of a handler, an instance, or what one of them consists of. `uses`: by either version of any rule.
    pub(super) fn of_part(
        &self,
        versions: Versions<'c>,
        rules: &impl RuleFacts,
        uses: impl Iterator<Item = Use<'c>>,
    ) -> Effects {
        let both = match versions {
            (Some(good), Some(new)) => Some((good, new)),
            _ => None,
        };
        let is_made_otherwise = both.is_none_or(|(good, new)| is_made_otherwise(good, new));
        let (mut all, mut before) = (Requests::default(), Requests::default());
        for Use { rule, is_good } in uses {
            let mut reach = Requests::of(self.scope(&rule.key.namespace));
            if is_made_otherwise {
                reach.add(self.without_rules_of(&rule.key.namespace, rules));
            }
            if is_good {
                before.add(reach.clone());
            }
            all.add(reach);
            if before.is_any() {
                break;
            }
        }
        let entries = both.and_then(|(good, new)| EntryChange::between(good, new));
        let effects = match (both, entries) {
            // What a rule names that was there before may have been another part. What names it from now on has its own effects.
            (None, _) => return Effects { gain: all, loss: before },
            (_, None) => Effects::either(all),
            (_, Some(EntryChange { may_refuse_more, may_refuse_fewer })) => Effects {
                gain: if may_refuse_more { all.clone() } else { Requests::default() },
                loss: if may_refuse_fewer { all } else { Requests::default() },
            },
        };
        if self.has_defaults { effects.of_both() } else { effects }
    }

    /// The effects of a change of a resource of an adapter, such as a role. `uses`: of the handlers that read it, by either version of any rule.
    pub(super) fn of_role(&self, uses: impl Iterator<Item = Use<'c>>) -> Effects {
        let mut reach = Requests::default();
        for used in uses {
            reach.add(Requests::of(self.scope(&used.rule.key.namespace)));
            if reach.is_any() {
                break;
            }
        }
        Effects::either(reach)
    }

    fn is_mesh(&self, namespace: &str) -> bool {
        *namespace == *self.builder.options().default_namespace
    }

    /// The namespace of the requests that a rule decides about; all if it is for the mesh, or if that of a request is not known.
    fn scope<'k>(&self, namespace: &'k Arc<str>) -> Option<&'k Arc<str>> {
        Some(namespace).filter(|namespace| !self.shifts && !self.is_mesh(namespace))
    }
}

/// Whether a resource may have to do with quotas.
pub(super) fn may_charge(resource: &RawResource) -> bool {
    &*resource.key.kind == QUOTA || resource.origin.text.to_ascii_lowercase().contains(QUOTA)
}

/// What more or fewer entries of a list do, if only these changed.
#[derive(Debug)]
struct EntryChange {
    may_refuse_more: bool,
    may_refuse_fewer: bool,
}

impl EntryChange {
    /// `None` if more changed. A field with a misspelt name is the field.
    fn between(good: &RawResource, new: &RawResource) -> Option<Self> {
        if good.annotations != new.annotations {
            return None;
        }
        let (before, after) = (good.document(), new.document());
        if !(is_list(good, &before) && is_list(new, &after)) {
            return None;
        }
        let (before, after) = (params_of(&before)?, params_of(&after)?);
        if before.entries().len() != after.entries().len() {
            return None;
        }
        let (mut has_more, mut has_fewer) = (false, false);
        for (old, new) in before.entries().iter().zip(after.entries()) {
            let is_same_field = old.key == new.key || resembles(&new.key, &old.key);
            match (texts_of(old), texts_of(new)) {
                _ if !is_same_field => return None,
                (Some(old), Some(new)) => {
                    has_more |= !new.is_subset(&old);
                    has_fewer |= !old.is_subset(&new);
                }
                _ if old.value.same_value(&new.value) => {}
                _ => return None,
            }
        }
        // Whether it refuses what it has, and not what it does not have.
        let is_black = before.member("blacklist").is_some_and(|value| value.kind == NodeKind::Bool(true));
        Some(match is_black {
            true => Self { may_refuse_more: has_more, may_refuse_fewer: has_fewer },
            false => Self { may_refuse_more: has_fewer, may_refuse_fewer: has_more },
        })
    }
}

/// The entries of a list, if this field has them.
fn texts_of(field: &MappingEntry) -> Option<BTreeSet<&str>> {
    let NodeKind::Sequence(items) = &field.value.kind else { return None };
    items.iter().map(Node::as_str).collect()
}

/// The kinds of adapters and templates themselves.
const MADE_OF_KINDS: [&str; 2] = ["adapter", "template"];

/// Whether the versions of a part may be of other adapters or templates, or it is one of these itself: the rules that use it may be the first ones
/// that decide, or decide no longer.
pub(super) fn is_made_otherwise(good: &RawResource, new: &RawResource) -> bool {
    let (before, after) = (good.document(), new.document());
    // Whatever says of which it is, if its kind does not.
    let beside = |document: &Node| {
        let spec = document.member("spec").map_or(&[][..], Node::entries);
        spec.iter().filter(|entry| &*entry.key != PARAMS).cloned().collect::<Vec<_>>()
    };
    let (before, after) = (beside(&before), beside(&after));
    let is_same = |(a, b): (&MappingEntry, &MappingEntry)| a.key == b.key && a.value.same_value(&b.value);
    MADE_OF_KINDS.contains(&&*good.key.kind)
        || before.len() != after.len()
        || !before.iter().zip(&after).all(is_same)
}

/// One out of process may have the same name.
fn is_list(resource: &RawResource, document: &Node) -> bool {
    let adapter = document.member("spec").and_then(|spec| spec.member("compiledAdapter"));
    &*resource.key.kind == LISTS || adapter.and_then(Node::as_str) == Some(LISTS)
}

/// The parameters; of a kind with the name of an adapter or template, its specification.
fn params_of(document: &Node) -> Option<&Node> {
    let spec = document.member("spec")?;
    Some(spec.member(PARAMS).unwrap_or(spec))
}
