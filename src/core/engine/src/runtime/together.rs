//! What changed together with a resource that goes back to its last good version.
//!
//! An instance that was made for the new version of a handler may mean nothing to the last one, which then refuses nobody: a list of
//! names that is given addresses. So what goes back, for whatever reason, takes with it what changed for its new version.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use foldhash::{HashMap, HashSet};

use super::corrections::Corrections;
use super::kept::Reason;
use crate::snapshot::{ActionConfig, BuildStage, RuleConfig, Snapshot, SnapshotBuilder};
use mixer_config::message::suggested;
use mixer_config::{MappingEntry, Node, RawResource, ResourceKey};

/// What goes back, or is left out if it is new, because it changed together with what goes back already:
///
/// - with a handler or an instance, the parts that rules use with it; and, if it can be read, the rules that use it, unless only another action
///   changed;
/// - with a rule that was to use other parts than before, those which its last good version uses;
/// - with an extension, such as a role, those of its namespace that name it, or that it names.
///
/// And so on for each of them. A rule with an error that uses the same parts as before takes nothing with it: a list may change although a
/// condition is misspelt.
pub(super) fn changed_together(
    snapshot: &Snapshot,
    corrections: &Corrections<'_>,
    builder: &SnapshotBuilder,
) -> Vec<(ResourceKey, Reason)> {
    let mut waiting = corrections.gone_back();
    if waiting.is_empty() {
        return Vec::new();
    }
    let changes = Changes::new(snapshot, corrections, builder);
    let mut seen: HashSet<ResourceKey> = waiting.iter().map(|(key, _)| key.clone()).collect();
    let mut found = Vec::new();
    while let Some((key, reason)) = waiting.pop() {
        if builder.is_interrupted() {
            return Vec::new();
        }
        let with = match builder.stage_of(&key.kind) {
            BuildStage::Parts => changes.with_part(&key),
            BuildStage::Rules => changes.with_rule(&key),
            BuildStage::Extensions => changes.with_extension(&key),
            BuildStage::Vocabulary | BuildStage::Ignored => continue,
        };
        let is_own = reason.problem.as_ref().is_some_and(|problem| problem.resource == key.to_string());
        let why = if is_own { "whose new version has an error" } else { "whose previous version serves" };
        let reason = Reason::new(format!("it is used together with {key}, {why}"), reason.problem);
        for other in with {
            if !seen.insert(other.clone()) {
                continue;
            }
            // What a rule takes with it is that of its last good version, which the next build has.
            if builder.stage_of(&other.kind) != BuildStage::Rules {
                waiting.push((other.clone(), reason.clone()));
            }
            found.push((other, reason.clone()));
        }
    }
    found
}

/// A build, and what of it differs from the last good configuration.
struct Changes<'c> {
    corrections: &'c Corrections<'c>,
    rules: BTreeMap<&'c ResourceKey, &'c RuleConfig>,
    /// The actions that use a part.
    uses: BTreeMap<&'c ResourceKey, Vec<(&'c RuleConfig, &'c ActionConfig)>>,
    /// The names of all resources.
    names: OnceCell<BTreeSet<&'c str>>,
    /// What references that nothing fits were meant to be.
    meant: RefCell<HashMap<Box<str>, Option<&'c str>>>,
    /// The versions of changed rules with several actions.
    texts: RefCell<HashMap<&'c ResourceKey, Rc<[Text; 2]>>>,
    /// The texts that each changed extension has, in either version.
    extensions: OnceCell<Vec<(ResourceKey, BTreeSet<Box<str>>)>>,
    builder: &'c SnapshotBuilder,
}

impl<'c> Changes<'c> {
    fn new(snapshot: &'c Snapshot, corrections: &'c Corrections<'c>, builder: &'c SnapshotBuilder) -> Self {
        let mut uses: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for rule in snapshot.rules.iter().map(|rule| &**rule) {
            for action in &rule.actions {
                parts_of(action).for_each(|part| uses.entry(part).or_default().push((rule, action)));
            }
        }
        let rules = snapshot.rules.iter().map(|rule| (&rule.key, &**rule)).collect();
        let (names, meant, texts) = (OnceCell::new(), RefCell::default(), RefCell::default());
        Self { corrections, rules, uses, names, meant, texts, extensions: OnceCell::new(), builder }
    }

    /// The last good version of a resource and the one that was read, if they differ.
    fn versions(&self, key: &ResourceKey) -> Option<(Option<&'c RawResource>, &'c RawResource)> {
        let new = self.corrections.read.resources.get(key)?;
        let good = self.corrections.last.get(key);
        self.corrections.last.differs(key, Some(new)).then_some((good.map(|good| &**good), &**new))
    }

    /// Whether a part has a last good version, which is another one.
    fn is_changed(&self, part: &ResourceKey) -> bool {
        self.corrections.last.get(part).is_some()
            && self.corrections.last.differs(part, self.corrections.read.resources.get(part))
    }

    fn with_part(&self, part: &ResourceKey) -> Vec<ResourceKey> {
        let can_be_read = self.corrections.read.resources.contains_key(part);
        let mut with = Vec::new();
        let mut last_rule = None;
        for (rule, action) in self.uses.get(part).into_iter().flatten() {
            with.extend(parts_of(action).filter(|other| *other != part && self.is_changed(other)).cloned());
            let is_next = last_rule.replace(&rule.key) != Some(&rule.key);
            if is_next && can_be_read && self.is_made_for(rule, part) {
                with.push(rule.key.clone());
            }
        }
        with
    }

    /// Whether a rule is new, or changed in more than actions that do not use a part.
    fn is_made_for(&self, rule: &'c RuleConfig, part: &ResourceKey) -> bool {
        let Some((good, new)) = self.versions(&rule.key) else { return false };
        let Some(good) = good else { return true };
        let parse = || Rc::new([Text::of(good), Text::of(new)]);
        let versions = match rule.actions.len() {
            0 | 1 => parse(),
            _ => Rc::clone(self.texts.borrow_mut().entry(&rule.key).or_insert_with(parse)),
        };
        let [good, new] = &*versions;
        !good.is_same_with(new, part)
    }

    fn with_rule(&self, rule: &ResourceKey) -> Vec<ResourceKey> {
        let Some((Some(good), new)) = self.versions(rule) else { return Vec::new() };
        let Some(built) = self.rules.get(rule) else { return Vec::new() };
        let parts = built.actions.iter().flat_map(parts_of).filter(|part| self.is_changed(part));
        let parts: Vec<ResourceKey> = parts.cloned().collect();
        if parts.is_empty() || !self.uses_others(&Text::of(good), &Text::of(new)) {
            return Vec::new();
        }
        parts
    }

    /// Whether the new version of a rule was to use other parts. A name that nothing has is a mistake; what it was meant to be is the name that is
    /// nearest to it.
    fn uses_others(&self, good: &Text, new: &Text) -> bool {
        let (good, new) = (good.names(), new.names());
        if good == new {
            return false;
        }
        let known: BTreeSet<&str> = good.iter().flatten().copied().collect();
        let mut others = new.iter().flatten().filter(|name| !known.contains(**name)).peekable();
        if others.peek().is_none() {
            return true;
        }
        let names = self.names.get_or_init(|| {
            let resources = self.corrections.read.resources.iter();
            let parts =
                resources.filter(|resource| self.builder.stage_of(&resource.key.kind) == BuildStage::Parts);
            parts.map(|part| &*part.key.name).collect()
        });
        others.any(|other| {
            if prefixes(other).any(|name| names.contains(name)) {
                return true;
            }
            let name = other.split('.').next().unwrap_or_default();
            let mut meant = self.meant.borrow_mut();
            let meant = meant.entry(name.into()).or_insert_with(|| suggested(name, names.iter().copied()));
            meant.is_some_and(|meant| !known.iter().any(|known| is_name(known, meant)))
        })
    }

    fn with_extension(&self, key: &ResourceKey) -> Vec<ResourceKey> {
        let all = self.extensions.get_or_init(|| {
            let changed = self.corrections.of_stages(&[BuildStage::Extensions], self.builder);
            let changed = changed.into_iter().filter_map(|key| {
                let (good, new) = self.versions(&key)?;
                let mut texts = BTreeSet::new();
                for version in good.into_iter().chain([new]) {
                    collect_texts(&version.document(), &mut texts);
                }
                Some((key, texts))
            });
            changed.collect()
        });
        let texts = all.iter().find(|(of, _)| of == key).map(|(_, texts)| texts);
        let names = |other: &ResourceKey, others: &BTreeSet<Box<str>>| {
            others.contains(&*key.name) || texts.is_some_and(|texts| texts.contains(&*other.name))
        };
        let beside = all.iter().filter(|(other, _)| other != key && other.namespace == key.namespace);
        let with = beside.filter(|(other, others)| other.kind != key.kind && names(other, others));
        with.map(|(other, _)| other.clone()).collect()
    }
}

/// The handler and the instances of an action.
fn parts_of(action: &ActionConfig) -> impl Iterator<Item = &ResourceKey> {
    std::iter::once(&action.handler.key).chain(action.instances.iter().map(|instance| &instance.key))
}

/// What may be the name of a part in a reference, which may go on with its kind and its namespace. Names may have dots.
fn prefixes(reference: &str) -> impl Iterator<Item = &str> {
    let dots = reference.match_indices('.').map(|(at, _)| at).chain([reference.len()]);
    dots.filter_map(|at| reference.get(..at))
}

/// Whether a reference may mean the part with this name.
fn is_name(reference: &str, name: &str) -> bool {
    prefixes(reference).any(|prefix| prefix == name)
}

/// The text of a rule.
struct Text {
    annotations: BTreeMap<String, String>,
    document: Node,
}

impl Text {
    fn of(rule: &RawResource) -> Self {
        Self { annotations: rule.annotations.clone(), document: rule.document() }
    }

    fn spec(&self) -> &[MappingEntry] {
        self.document.member("spec").map_or(&[], Node::entries)
    }

    fn actions(&self) -> &[Node] {
        self.spec().iter().find(|entry| &*entry.key == "actions").map_or(&[], |entry| entry.value.items())
    }

    /// The names of the handler and the instances of each action.
    fn names(&self) -> Vec<Vec<&str>> {
        let names = |action| names_of(action).collect();
        self.actions().iter().map(names).collect()
    }

    /// Whether everything is the same but actions that do not use a part.
    fn is_same_with(&self, other: &Self, part: &ResourceKey) -> bool {
        let rest = |text: &Self| -> Vec<(Box<str>, Node)> {
            let rest = text.spec().iter().filter(|entry| &*entry.key != "actions");
            rest.map(|entry| (entry.key.clone(), entry.value.clone())).collect()
        };
        let using = |text: &Self| -> Vec<Node> {
            let is_using = |action: &&Node| names_of(action).any(|name| is_name(name, &part.name));
            text.actions().iter().filter(is_using).cloned().collect()
        };
        let (rests, uses) = ((rest(self), rest(other)), (using(self), using(other)));
        self.annotations == other.annotations
            && rests.0.len() == rests.1.len()
            && rests.0.iter().zip(&rests.1).all(|(a, b)| a.0 == b.0 && a.1.same_value(&b.1))
            && uses.0.len() == uses.1.len()
            && uses.0.iter().zip(&uses.1).all(|(a, b)| a.same_value(b))
    }
}

/// The handler and the instances that an action names.
fn names_of(action: &Node) -> impl Iterator<Item = &str> {
    let instances = action.get("instances").map_or(&[][..], Node::items);
    action.get("handler").into_iter().chain(instances).map(|name| name.as_str().unwrap_or_default())
}

/// Adds the texts of a document that are not keys.
fn collect_texts(node: &Node, texts: &mut BTreeSet<Box<str>>) {
    texts.extend(node.as_str().map(Box::from));
    node.items().iter().for_each(|item| collect_texts(item, texts));
    node.entries().iter().for_each(|entry| collect_texts(&entry.value, texts));
}
