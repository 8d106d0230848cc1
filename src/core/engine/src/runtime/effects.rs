//! What the change of one resource may do to requests.
//!
//! A rule with its handlers and instances refuses some requests. Of a resource that changes, the *gain* has at least the requests that
//! only its new version refuses, and the *loss* those that only its last good version refuses. They are known from the syntax alone:
//! conditions select requests ([`Selection`]), and entries of a list of `listchecker` refuse those that have them as a value. What is
//! not understood counts as all requests that the rules concerned select. The name of an attribute that does not exist counts as the
//! one that is nearest to it.
//!
//! What refuses requests without saying so in its own text counts where it changes: the namespace of a request chooses the rules that decide
//! about it, a quota that no rule charges may be refused, a request of Envoy that names no namespace is while any of them has rules, and
//! the type of an attribute decides what a comparison means.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::HashMap;

use super::corrections::Corrections;
use super::made_attributes::{
    Attributes, SELECTORS, made_by, may_make, may_read, only_makes_attributes, read_by,
};
use super::requests::Requests;
use super::rule_changes::{RuleUse, condition_of};
use crate::snapshot::{BuildStage, SnapshotBuilder};
use mixer_attribute::Vocabulary;
use mixer_config::annotation::{DEFAULT, ON_ERROR};
use mixer_config::message::{resembles, suggested};
use mixer_config::{MappingEntry, Node, NodeKind, RawResource, ResourceKey};
use mixer_expr::{Language, Selection};

/// The number of names without an attribute that are compared with all attributes. Each of the others may be any.
const MAX_COMPARED: usize = 64;
/// What texts have that charge quotas, and those that name them.
const QUOTA: &str = "quota";
/// The attribute with the side of the caller or of the called that reports a request, and the value of the former: the namespace of the
/// caller chooses the rules.
const OUTBOUND: (&str, &str) = ("context.reporter.kind", "outbound");
/// The annotations of rules which also select the requests for which their condition fails.
const CLOSED: [&str; 2] = [ON_ERROR, DEFAULT];
/// The adapter whose lists are understood.
const LISTS: &str = "listchecker";

/// What a change may do.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Requests that only the new version refuses.
    pub(super) gain: Requests,
    /// Requests that only the last good version refuses.
    pub(super) loss: Requests,
}

impl Effects {
    /// Either for these.
    fn either(requests: Requests) -> Self {
        Self { gain: requests.clone(), loss: requests }
    }

    /// If refusing fewer requests may also refuse more, as with what allows where what no rule allows is refused.
    fn of_both(mut self) -> Self {
        self.gain.add(self.loss.clone());
        Self::either(self.gain)
    }
}

/// A use of a part by a version of a rule, with the instances of the action.
pub(super) struct Use<'c> {
    pub(super) rule: &'c RawResource,
    pub(super) instances: Vec<Option<ResourceKey>>,
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
    vocabulary: &'c Vocabulary,
    corrections: &'c Corrections<'c>,
    builder: &'c SnapshotBuilder,
    mesh: &'c str,
    /// Whether somewhere what no rule allows is refused.
    has_defaults: bool,
    /// Whether a handler may refuse what makes the condition of a rule fail.
    has_closed_handlers: bool,
    /// Whether an instance may make attributes.
    has_generators: bool,
    /// Whether requests of Envoy are charged to quotas, and refused if no rule charges them.
    has_charges: bool,
    /// Whether a rule is for the requests to one namespace.
    has_namespaces: bool,
    /// Attributes that may have more than one value, or another meaning, in one request. What they are compared with tells nothing.
    shifting: Attributes,
    /// What is meant by names without an attribute.
    meant: RefCell<HashMap<Box<str>, Option<Box<str>>>>,
}

impl<'c> Reader<'c> {
    /// `shifting`: attributes that have another value, or another type, in what serves than in the last good configuration or in that which
    /// is meant. Cost: one pass over all resources.
    pub(super) fn new(
        vocabulary: &'c Vocabulary,
        corrections: &'c Corrections<'c>,
        shifting: Attributes,
        builder: &'c SnapshotBuilder,
    ) -> Self {
        let mesh = &*builder.options().default_namespace;
        let versions = [Some(&corrections.read.resources), corrections.last.resources()];
        let (mut has_defaults, mut has_closed_handlers, mut has_generators) = (false, false, false);
        let (mut has_charges, mut has_namespaces) = (false, false);
        for resource in versions.into_iter().flatten().flat_map(|resources| resources.iter()) {
            has_defaults |= resource.annotations.contains_key(DEFAULT);
            let (is_closed, makes) = (resource.annotations.contains_key(ON_ERROR), may_make(resource));
            if (is_closed || makes) && builder.stage_of(&resource.key.kind) == BuildStage::Parts {
                has_closed_handlers |= is_closed;
                has_generators |= makes;
            }
            match builder.stage_of(&resource.key.kind) {
                BuildStage::Rules => has_namespaces |= *resource.key.namespace != *mesh,
                BuildStage::Extensions => has_charges |= resource.origin.text.contains(QUOTA),
                BuildStage::Parts | BuildStage::Vocabulary | BuildStage::Ignored => {}
            }
        }
        let meant = RefCell::default();
        Self {
            vocabulary,
            corrections,
            builder,
            mesh,
            has_defaults,
            has_closed_handlers,
            has_generators,
            has_charges,
            has_namespaces,
            shifting,
            meant,
        }
    }

    /// The effects of a change of a rule.
    pub(super) fn of_rule(&self, (good, new): Versions<'c>, rules: &impl RuleFacts) -> Effects {
        let enforced = |rule: Option<&'c RawResource>| {
            rule.filter(|rule| rules.may_enforce(rule)).map(|rule| (rule, rule.document()))
        };
        let (before, after) = (enforced(good), enforced(new));
        let namespace = good.or(new).and_then(|rule| self.scope(&rule.key));
        let of = |selection| Requests::of(namespace, selection);
        let charges =
            self.has_charges && [good, new].into_iter().flatten().any(|rule| rules.may_charge(rule));
        let selected = |(rule, document): &(&RawResource, Node)| self.selected_by(rule, document, charges);
        // Whether the actions of one version are all of the other one.
        let (mut has_no_more, mut has_no_fewer) = (false, false);
        let mut effects = match (&before, &after) {
            (None, None) => return Effects::default(),
            (None, Some(after)) => {
                has_no_fewer = true;
                Effects { gain: of(selected(after)), loss: Requests::default() }
            }
            (Some(before), None) => {
                has_no_more = true;
                Effects { gain: Requests::default(), loss: of(selected(before)) }
            }
            (Some((good, document)), Some((new, new_document))) => {
                let both = RuleUse::between(good, new, [document, new_document]);
                let uses_same = || both.is_same_beside && rules.use_same_parts(good, new);
                has_no_more = both.has_no_more_actions || uses_same();
                has_no_fewer = both.has_no_fewer_actions || uses_same();
                let all = [(good, document), (new, new_document)];
                let all = all.map(|(rule, document)| self.selected_by(rule, document, charges));
                let without = |all: &Selection, other: &Selection, is_use_within: bool| match is_use_within {
                    true if both.has_same_condition => Selection::never(),
                    true => all.clone().minus(other),
                    false => all.clone(),
                };
                let [before, after] = &all;
                Effects {
                    gain: of(without(after, before, has_no_more)),
                    loss: of(without(before, after, has_no_fewer)),
                }
            }
        };
        let may_do_both = |rule| {
            self.has_generators && rules.makes_attributes(rule) || self.has_defaults && rules.may_allow(rule)
        };
        if charges || [good, new].into_iter().flatten().any(may_do_both) {
            effects = effects.of_both();
        }
        if let Some(namespace) = good.or(new).map(|rule| &rule.key.namespace) {
            let refused = (!has_no_more || !has_no_fewer).then(|| self.without_rules_of(namespace, rules));
            let refused = refused.unwrap_or_default();
            if !has_no_more {
                effects.gain.add(refused.clone());
            }
            if !has_no_fewer {
                effects.loss.add(refused);
            }
        }
        effects
    }

    /// The requests of Envoy that are refused because a namespace has rules: those that name none, and those that misspell it.
    fn without_rules_of(&self, namespace: &str, rules: &impl RuleFacts) -> Requests {
        let mut refused = Requests::default();
        if *namespace == *self.mesh || rules.has_lasting(Some(namespace)) {
            return refused;
        }
        // A name of Kubernetes is misspelt only by one that has no rules.
        if namespace.trim() != namespace || namespace.to_ascii_lowercase() != namespace {
            return Requests::any();
        }
        refused.add(Requests::misnaming(namespace));
        if !rules.has_lasting(None) {
            refused.add(Requests::naming_none(Selection::all()));
        }
        refused
    }

    /// Whether a rule perhaps selects requests in its last good version that its new version does not.
    pub(super) fn may_select_fewer(&self, good: &RawResource, new: &RawResource) -> bool {
        let (document, new_document) = (good.document(), new.document());
        let selected = || self.selected_by(good, &document, false);
        !RuleUse::between(good, new, [&document, &new_document]).has_same_condition
            && !selected().is_within(&self.selected_by(new, &new_document, false))
    }

    /// The effects of a change of a handler, an instance, or what one of them consists of. `uses`: by either version of any rule.
    pub(super) fn of_part(
        &self,
        (good, new): Versions<'c>,
        rules: &impl RuleFacts,
        uses: impl Iterator<Item = Use<'c>>,
    ) -> Effects {
        let entries = good.zip(new).and_then(|(good, new)| EntryChange::between(good, new));
        let is_made_otherwise = good.zip(new).is_some_and(|(good, new)| is_made_otherwise(good, new));
        let may_charge = |part: &RawResource| &*part.key.kind == QUOTA || part.origin.text.contains(QUOTA);
        let charges = self.has_charges && [good, new].into_iter().flatten().any(may_charge);
        let (mut reach, mut added, mut removed) =
            (Requests::default(), Requests::default(), Requests::default());
        for Use { rule, instances } in uses {
            let (namespace, selection) = (self.scope(&rule.key), self.selected(rule, charges));
            if is_made_otherwise {
                reach.add(self.without_rules_of(&rule.key.namespace, rules));
            }
            match &entries {
                None => reach.add(Requests::of(namespace, selection)),
                Some(entries) => {
                    let of = |texts| {
                        let with = self.with_value(&instances, texts);
                        Requests::of(namespace, selection.clone().and(with))
                    };
                    added.add(of(&entries.added));
                    removed.add(of(&entries.removed));
                }
            }
            if reach.is_any() || added.is_any() && removed.is_any() {
                break;
            }
        }
        let effects = match entries {
            None => Effects::either(reach),
            Some(entries) if entries.is_black => Effects { gain: added, loss: removed },
            Some(_) => Effects { gain: removed, loss: added },
        };
        if self.has_defaults { effects.of_both() } else { effects }
    }

    /// The effects of a change of a resource of an extension that no adapter reads.
    pub(super) fn of_extension(&self, (good, new): Versions<'c>) -> Effects {
        if [good, new].into_iter().flatten().all(only_makes_attributes) {
            let made = [good, new].into_iter().flatten().flat_map(made_by).collect();
            if !self.is_any_read(&made) {
                return Effects::default();
            }
        }
        Effects::either(Requests::any())
    }

    /// The effects of a change of a role: it decides about requests to its namespace, which is that of the rule or what the instance says.
    /// `uses`: of the handlers that read it, by either version of any rule.
    pub(super) fn of_role(&self, key: &ResourceKey, uses: impl Iterator<Item = Use<'c>>) -> Effects {
        let mut reach = Requests::default();
        for Use { rule, instances } in uses {
            let (namespace, selection) = (self.scope(&rule.key), self.selected(rule, false));
            match self.scope(key).filter(|_| self.are_of_destination(&instances)) {
                None => reach.add(Requests::of(namespace, selection)),
                Some(own) => {
                    let (attribute, value) = OUTBOUND;
                    let names = &mut |name: &str| self.attribute(name);
                    let outbound = Selection::of_operand(attribute, Language::Cexl, [value], names)
                        .and(selection.clone());
                    reach.add(Requests::of(namespace, outbound));
                    if namespace.is_none() && self.may_default_to(&instances, own) {
                        reach.add(Requests::naming_none(selection.clone()));
                    }
                    if namespace.is_none_or(|namespace| namespace == own) {
                        reach.add(Requests::of(Some(own), selection));
                    }
                }
            }
            if reach.is_any() {
                break;
            }
        }
        Effects::either(reach)
    }

    /// Whether these instances, in either version, ask for roles of the namespace that a request is to, or of none.
    fn are_of_destination(&self, instances: &[Option<ResourceKey>]) -> bool {
        self.all_name_roles(instances, |namespace| {
            namespace.split('|').next().map(str::trim) == Some("destination.namespace")
        })
    }

    /// Whether one of these instances, in either version, may ask for the roles of a namespace if a request names none.
    fn may_default_to(&self, instances: &[Option<ResourceKey>], own: &str) -> bool {
        !self.all_name_roles(instances, |namespace| {
            let Some((_, default)) = namespace.split_once('|') else { return true };
            let constant = default.trim().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
            constant.is_some_and(|constant| constant != own && !constant.contains(['"', '\\']))
        })
    }

    /// Whether this holds for the expression of each of these instances, in either version, that says whose roles decide.
    fn all_name_roles(&self, instances: &[Option<ResourceKey>], holds: impl Fn(&str) -> bool) -> bool {
        let does_hold = |instance: &RawResource| {
            let document = instance.document();
            let action = params_of(&document).and_then(|params| params.member("action"));
            let namespace = action.and_then(|action| action.member("namespace")).and_then(Node::as_str);
            namespace.is_some_and(&holds)
        };
        instances.iter().all(|instance| {
            let Some(key) = instance else { return false };
            let versions = [self.corrections.last.get(key), self.corrections.read.resources.get(key)];
            versions.into_iter().flatten().all(|version| does_hold(version))
        })
    }

    /// The effects of another type of attributes: what the rules select that read them, or of which a part does.
    pub(super) fn of_types<U: Iterator<Item = Use<'c>>>(
        &self,
        retyped: &Attributes,
        rules: &impl RuleFacts,
        uses_of: impl Fn(&'c ResourceKey) -> U,
    ) -> Effects {
        let versions = [Some(&self.corrections.read.resources), self.corrections.last.resources()];
        let mut reach = Requests::default();
        for resource in versions.into_iter().flatten().flat_map(|resources| resources.iter()) {
            if reach.is_any() || self.builder.ends_early() {
                break;
            }
            if !self.reads_any(resource, retyped) {
                continue;
            }
            let of = |rule: &RawResource| Requests::of(self.scope(&rule.key), self.selected(rule, true));
            match self.builder.stage_of(&resource.key.kind) {
                BuildStage::Rules if rules.may_enforce(resource) => reach.add(of(resource)),
                BuildStage::Parts => uses_of(&resource.key).for_each(|used| reach.add(of(used.rule))),
                BuildStage::Extensions => reach = Requests::any(),
                BuildStage::Rules | BuildStage::Vocabulary | BuildStage::Ignored => {}
            }
        }
        Effects::either(reach)
    }

    /// Whether anything reads one of these attributes, in any version.
    fn is_any_read(&self, attributes: &Attributes) -> bool {
        let chooses = self.has_namespaces && SELECTORS.iter().any(|name| attributes.contains(*name));
        let versions = [Some(&self.corrections.read.resources), self.corrections.last.resources()];
        let mut resources = versions.into_iter().flatten().flat_map(|resources| resources.iter());
        chooses || resources.any(|resource| self.reads_any(resource, attributes))
    }

    fn reads_any(&self, resource: &RawResource, attributes: &Attributes) -> bool {
        may_read(resource, self.builder)
            && read_by(resource, self.builder).any(|read| attributes.contains(read))
    }

    /// The namespace of the requests that a rule or role decides about; all if it is for the mesh, or if that of a request is not known.
    fn scope<'k>(&self, key: &'k ResourceKey) -> Option<&'k Arc<str>> {
        let shifts = !self.shifting.is_empty() && SELECTORS.iter().any(|name| self.shifting.contains(*name));
        Some(&key.namespace).filter(|namespace| !shifts && ***namespace != *self.mesh)
    }

    /// The requests that a rule selects; `fails_closed`: also those of which its condition fails.
    fn selected(&self, rule: &RawResource, fails_closed: bool) -> Selection {
        self.selected_by(rule, &rule.document(), fails_closed)
    }

    /// The same, of its document.
    fn selected_by(&self, rule: &RawResource, document: &Node, fails_closed: bool) -> Selection {
        let Some(condition) = condition_of(document) else { return Selection::all() };
        let fails_closed = fails_closed
            || self.has_closed_handlers
            || CLOSED.iter().any(|name| rule.annotations.contains_key(name));
        let Some(text) = condition.as_str() else { return Selection::unknown() };
        if text.trim().is_empty() {
            return Selection::all();
        }
        let language = self.builder.options().language_of(rule);
        Selection::of(text, language, fails_closed, &mut |name| self.attribute(name))
    }

    /// The requests for which one of these instances, in either version, has one of these texts as its value.
    fn with_value(&self, instances: &[Option<ResourceKey>], texts: &BTreeSet<Box<str>>) -> Selection {
        let mut all = Selection::never();
        for instance in instances {
            let Some(key) = instance else { return Selection::unknown() };
            let versions = [self.corrections.last.get(key), self.corrections.read.resources.get(key)];
            for version in versions.into_iter().flatten() {
                let document = version.document();
                let value = params_of(&document).and_then(|params| params.member("value"));
                let Some(value) = value.and_then(Node::as_str) else { return Selection::unknown() };
                let among = texts.iter().map(|text| &**text);
                let language = self.builder.options().language_of(version);
                all = all.or(Selection::of_operand(value, language, among, &mut |name| self.attribute(name)));
            }
        }
        all
    }

    /// The attribute with a name, or that which is nearest to it.
    fn attribute(&self, name: &str) -> Option<Box<str>> {
        if self.shifting.contains(name) {
            return None;
        }
        if self.vocabulary.slot(name.as_bytes()).is_some() {
            return Some(name.into());
        }
        let mut meant = self.meant.borrow_mut();
        if let Some(known) = meant.get(name) {
            return known.clone();
        }
        // What begins with an attribute may be an entry of it.
        let is_entry = name.match_indices('.').any(|(at, _)| {
            name.get(..at).is_some_and(|begin| self.vocabulary.slot(begin.as_bytes()).is_some())
        });
        if is_entry || meant.len() >= MAX_COMPARED {
            return None;
        }
        let nearest = suggested(name, self.vocabulary.typed().map(|(name, _)| name)).map(Box::from);
        meant.insert(name.into(), nearest.clone());
        nearest
    }
}

/// How a list differs of which only entries changed.
#[derive(Debug)]
struct EntryChange {
    /// Whether it refuses what it has, and not what it does not have.
    is_black: bool,
    added: BTreeSet<Box<str>>,
    removed: BTreeSet<Box<str>>,
}

impl EntryChange {
    /// `None` if more changed, or if it is not known what an entry refuses. A field with a misspelt name is the field.
    fn between(good: &RawResource, new: &RawResource) -> Option<Self> {
        if good.annotations != new.annotations {
            return None;
        }
        let (before, after) = (good.document(), new.document());
        if !(is_list(good, &before) && is_list(new, &after)) {
            return None;
        }
        let (before, after) = (params_of(&before)?, params_of(&after)?);
        if [before, after].iter().any(|params| params.member("entryType").is_some()) {
            return None;
        }
        let is_black = before.member("blacklist").is_some_and(|value| value.kind == NodeKind::Bool(true));
        let mut change = Self { is_black, added: BTreeSet::new(), removed: BTreeSet::new() };
        if before.entries().len() != after.entries().len() {
            return None;
        }
        for (old, new) in before.entries().iter().zip(after.entries()) {
            let is_same_field = old.key == new.key || resembles(&new.key, &old.key);
            match (texts_of(old), texts_of(new)) {
                _ if !is_same_field => return None,
                (Some(old), Some(new)) => {
                    change.added.extend(new.difference(&old).map(|text| Box::from(*text)));
                    change.removed.extend(old.difference(&new).map(|text| Box::from(*text)));
                }
                _ if old.value.same_value(&new.value) => {}
                _ => return None,
            }
        }
        Some(change)
    }
}

/// The entries of a list, if this field has them.
fn texts_of(field: &MappingEntry) -> Option<BTreeSet<&str>> {
    let NodeKind::Sequence(items) = &field.value.kind else { return None };
    items.iter().map(Node::as_str).collect()
}

/// The fields that say of which adapter or template a part is, if its kind does not.
const MADE_OF: [&str; 4] = ["compiledAdapter", "adapter", "compiledTemplate", "template"];
/// The kinds of adapters and templates themselves.
const MADE_OF_KINDS: [&str; 2] = ["adapter", "template"];

/// Whether the versions of a part are of other adapters or templates, or it is one of these itself: the rules that use it may be the first ones
/// that decide, or decide no longer.
pub(super) fn is_made_otherwise(good: &RawResource, new: &RawResource) -> bool {
    let (before, after) = (good.document(), new.document());
    let field = |document: &Node, name: &str| {
        document.member("spec").and_then(|spec| spec.member(name)).and_then(Node::as_str).map(str::to_owned)
    };
    MADE_OF_KINDS.contains(&&*good.key.kind)
        || MADE_OF.iter().any(|name| field(&before, name) != field(&after, name))
}

fn is_list(resource: &RawResource, document: &Node) -> bool {
    let spec = document.member("spec");
    let adapter = spec.and_then(|spec| spec.member("compiledAdapter").or_else(|| spec.member("adapter")));
    &*resource.key.kind == LISTS || adapter.and_then(Node::as_str) == Some(LISTS)
}

/// The parameters; of a kind with the name of an adapter or template, its specification.
fn params_of(document: &Node) -> Option<&Node> {
    let spec = document.member("spec")?;
    Some(spec.member("params").unwrap_or(spec))
}
