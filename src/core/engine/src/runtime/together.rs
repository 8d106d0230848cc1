//! What changed together with a resource that serves in its last good version.
//!
//! An instance that was made for the new version of a handler may mean nothing to the last one, which then refuses nobody: a list of
//! names that is given addresses. So what serves in its last good version, for whatever reason, takes with it what changed for its new
//! version, whether that can be read or not. Cost of a search: in proportion to the actions of all rules and to the texts of what changed.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use foldhash::{HashMap, HashSet};

use super::corrections::Corrections;
use super::extension_changes::ExtensionChanges;
use super::kept::Reason;
use super::rule_changes::{RuleChange, RuleText, prefixes};
use crate::snapshot::{ActionConfig, BuildStage, RuleConfig, Snapshot, SnapshotBuilder, candidates};
use mixer_config::message::suggested;
use mixer_config::{RawResource, ResourceKey};

/// The number of misspelt names that are compared with the names of all parts. Each of the others counts as another name.
const MAX_COMPARED: usize = 64;

/// What goes back, or is left out if it is new, because it changed together with what serves in its last good version:
///
/// - with a handler or an instance, the parts that rules use with it, the rules that use it, unless only another action changed, and the
///   resources that its adapter reads, such as roles;
/// - with a rule that was to use other parts than before, or of which that is unknown, those which its last good version uses; and a
///   resource that no longer names the namespace of the rule or a quota that it charges, such as an `envoybridge`;
/// - with a resource of an extension, such as a role, those of its namespace that name it, or that it names, the parts and rules whose
///   adapter reads it, and the rules that no longer have a quota that it names.
///
/// And so on for each of them. A rule with an error that uses the same parts as before takes nothing with it: a list may change although a
/// condition is misspelt. `is_partial`: something of the store is not read, so that a name that nothing has may be one of it.
pub(super) fn changed_together(
    snapshot: &Snapshot,
    corrections: &Corrections<'_>,
    is_partial: bool,
    builder: &SnapshotBuilder,
) -> Vec<(ResourceKey, Reason)> {
    let Some(changed) = corrections.changes_that_serve(builder) else { return Vec::new() };
    let mut waiting = corrections.previous(builder);
    if waiting.is_empty() {
        return Vec::new();
    }
    let unknown = corrections.unknown(&waiting);
    let mut seen: HashSet<ResourceKey> = waiting.iter().map(|(key, _)| key.clone()).collect();
    let mut search =
        Search::new(snapshot, corrections, Changed { keys: changed, unknown, is_partial }, builder);
    let mut found = Vec::new();
    while let Some((key, reason)) = waiting.pop() {
        if builder.ends_early() {
            return Vec::new();
        }
        let with = match builder.stage_of(&key.kind) {
            BuildStage::Parts => search.with_part(&key),
            BuildStage::Rules => search.with_rule(&key),
            BuildStage::Extensions => search.with_extension(&key),
            BuildStage::Vocabulary | BuildStage::Ignored => continue,
        };
        let is_own = reason.problem.as_ref().is_some_and(|problem| problem.resource == key.to_string());
        let why = if is_own { "whose new version has an error" } else { "whose previous version serves" };
        let reason = Reason::new(format!("it is used together with {key}, {why}"), reason.problem);
        for other in with {
            if seen.insert(other.clone()) {
                waiting.push((other.clone(), reason.clone()));
                found.push((other, reason.clone()));
            }
        }
    }
    found
}

/// How a version of the store differs from the last good configuration.
struct Changed {
    keys: Vec<ResourceKey>,
    /// Resources whose new version cannot be read.
    unknown: HashSet<ResourceKey>,
    /// Whether something is not read.
    is_partial: bool,
}

/// An action of a rule that is built.
type Action<'c> = (&'c RuleConfig, &'c ActionConfig);

/// A build, and what of it differs from the last good configuration.
struct Search<'c> {
    snapshot: &'c Snapshot,
    corrections: &'c Corrections<'c>,
    changed: Changed,
    actions: Vec<Action<'c>>,
    /// Whether the parts of each action were looked at.
    visited: Vec<bool>,
    /// The actions that use a part.
    uses: HashMap<&'c ResourceKey, Vec<usize>>,
    /// The actions by adapter, of the adapters that read resources.
    readers: HashMap<&'static str, Vec<usize>>,
    /// The adapters whose actions were looked at.
    adapters: HashSet<&'static str>,
    /// The adapters of which the resources that they read were looked at.
    read: HashSet<&'static str>,
    /// The names of all parts.
    names: OnceCell<BTreeSet<&'c str>>,
    /// The name that is nearest to a misspelt one.
    nearest: HashMap<Box<str>, Option<&'c str>>,
    /// How changed rules differ.
    rules: RefCell<HashMap<&'c ResourceKey, Rc<RuleChange>>>,
    extensions: OnceCell<ExtensionChanges>,
    builder: &'c SnapshotBuilder,
}

impl<'c> Search<'c> {
    fn new(
        snapshot: &'c Snapshot,
        corrections: &'c Corrections<'c>,
        changed: Changed,
        builder: &'c SnapshotBuilder,
    ) -> Self {
        let rules = snapshot.rules.iter().map(|rule| &**rule);
        let actions: Vec<Action<'c>> =
            rules.flat_map(|rule| rule.actions.iter().map(move |action| (rule, action))).collect();
        let mut uses: HashMap<_, Vec<_>> = HashMap::default();
        let mut readers: HashMap<_, Vec<_>> = HashMap::default();
        let reading = builder.reading_adapters();
        for (at, (_, action)) in actions.iter().enumerate() {
            parts_of(action).for_each(|part| uses.entry(part).or_default().push(at));
            let adapter = action.handler.adapter.info().name;
            if reading.contains(&adapter) {
                readers.entry(adapter).or_default().push(at);
            }
        }
        Self {
            snapshot,
            corrections,
            changed,
            visited: vec![false; actions.len()],
            actions,
            uses,
            readers,
            adapters: HashSet::default(),
            read: HashSet::default(),
            names: OnceCell::new(),
            nearest: HashMap::default(),
            rules: RefCell::default(),
            extensions: OnceCell::new(),
            builder,
        }
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

    fn with_part(&mut self, part: &ResourceKey) -> Vec<ResourceKey> {
        let mut with = Vec::new();
        for at in self.uses.get(part).cloned().unwrap_or_default() {
            self.add_action(at, part, &mut with);
            if let Some((_, action)) = self.actions.get(at) {
                self.add_read(action.handler.adapter.info().name, &mut with);
            }
        }
        with
    }

    /// Adds what changed of the resources that an adapter reads, once.
    fn add_read(&mut self, adapter: &'static str, with: &mut Vec<ResourceKey>) {
        if self.read.insert(adapter) {
            with.extend(self.extensions().of_adapter(adapter).iter().cloned());
        }
    }

    /// Adds what changed of an action: its parts, unless they were looked at, and its rule if it was made for a part.
    fn add_action(&mut self, at: usize, part: &ResourceKey, with: &mut Vec<ResourceKey>) {
        let (Some((rule, action)), Some(visited)) = (self.actions.get(at), self.visited.get_mut(at)) else {
            return;
        };
        if !std::mem::replace(visited, true) {
            with.extend(parts_of(action).filter(|other| self.is_changed(other)).cloned());
        }
        if self.is_made_for(&rule.key, part) {
            with.push(rule.key.clone());
        }
    }

    /// Whether a rule is new, or changed in more than actions that do not use a part.
    fn is_made_for(&self, rule: &'c ResourceKey, part: &ResourceKey) -> bool {
        let Some((good, new)) = self.versions(rule) else { return false };
        let Some(good) = good else { return true };
        self.change_of(rule, good, new).concerns(&part.name)
    }

    fn change_of(&self, rule: &'c ResourceKey, good: &RawResource, new: &RawResource) -> Rc<RuleChange> {
        let mut rules = self.rules.borrow_mut();
        Rc::clone(rules.entry(rule).or_insert_with(|| Rc::new(RuleChange::between(good, new))))
    }

    fn with_rule(&mut self, rule: &ResourceKey) -> Vec<ResourceKey> {
        let Some(good) = self.corrections.last.get(rule) else { return Vec::new() };
        let text = RuleText::of(good);
        let mut with = self.extensions().without(text.subjects(&rule.namespace));
        if !self.changed.unknown.contains(rule) {
            let Some((_, new)) = self.versions(rule) else { return with };
            if !self.uses_others(&text, &RuleText::of(new), &rule.namespace) {
                return with;
            }
        }
        for part in self.parts_named_by(&text, &rule.namespace).into_iter().flatten().flatten() {
            if self.is_changed(&part) {
                with.push(part.clone());
            }
            if let Some(handler) = self.snapshot.handlers.get(&part) {
                self.add_read(handler.adapter.info().name, &mut with);
            }
        }
        with
    }

    /// What the names in each action of a rule mean; `None` for a name that nothing has.
    fn parts_named_by(&self, text: &RuleText, namespace: &str) -> Vec<Vec<Option<ResourceKey>>> {
        let find = |at: usize, name: &str| {
            let (first, second) = candidates(name, if at == 0 { "handler" } else { "instance" }, namespace);
            let keys = |full: &str| self.corrections.keys_of(full, self.builder).into_iter().next();
            keys(&first).or_else(|| keys(&second?))
        };
        let all = |names: &Vec<Box<str>>| names.iter().enumerate().map(|(at, name)| find(at, name)).collect();
        text.actions.iter().map(all).collect()
    }

    /// Whether the new version of a rule was to use other parts. A name that nothing has is a mistake; what it was meant to be is the name that is
    /// nearest to it.
    fn uses_others(&mut self, good: &RuleText, new: &RuleText, namespace: &str) -> bool {
        let (keys, new_keys) = (self.parts_named_by(good, namespace), self.parts_named_by(new, namespace));
        let is_same = |a: &[Option<ResourceKey>], b: &[Option<ResourceKey>]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_some() && a == b)
        };
        let are_same = keys.len() == new_keys.len() && keys.iter().zip(&new_keys).all(|(a, b)| is_same(a, b));
        if are_same || good.actions == new.actions {
            return false;
        }
        let known: HashSet<&ResourceKey> = keys.iter().flatten().flatten().collect();
        let named: BTreeSet<&str> = good.actions.iter().flatten().map(|name| &**name).collect();
        let meanings: HashSet<&str> = named.iter().flat_map(|name| prefixes(name)).collect();
        let news = new.actions.iter().flatten().zip(new_keys.iter().flatten());
        let mut others = news
            .filter(|(name, key)| key.as_ref().map_or(!named.contains(&***name), |key| !known.contains(key)))
            .peekable();
        others.peek().is_none()
            || others.any(|(name, key)| key.is_some() || self.means_another(name, &meanings))
    }

    /// Whether a name that nothing has was meant to be another than those which its rule had.
    fn means_another(&mut self, reference: &str, known: &HashSet<&str>) -> bool {
        let names = self.names.get_or_init(|| {
            let resources = self.corrections.read.resources.iter();
            let parts =
                resources.filter(|resource| self.builder.stage_of(&resource.key.kind) == BuildStage::Parts);
            parts.map(|part| &*part.key.name).collect()
        });
        if self.changed.is_partial || prefixes(reference).any(|name| names.contains(name)) {
            return true;
        }
        let name = reference.split('.').next().unwrap_or_default();
        if !self.nearest.contains_key(name) && self.nearest.len() >= MAX_COMPARED {
            return true;
        }
        let nearest = self.nearest.entry(name.into());
        let nearest = nearest.or_insert_with(|| suggested(name, names.iter().copied()));
        nearest.is_none_or(|nearest| !known.contains(nearest))
    }

    fn extensions(&self) -> &ExtensionChanges {
        self.extensions
            .get_or_init(|| ExtensionChanges::new(&self.changed.keys, self.corrections, self.builder))
    }

    fn with_extension(&mut self, key: &ResourceKey) -> Vec<ResourceKey> {
        let is_unknown = self.changed.unknown.contains(key);
        let mut with = self.extensions().with(key, is_unknown, self.corrections, self.builder);
        let adapter = self.builder.adapter_reading(&key.kind);
        if let Some(adapter) = adapter.filter(|adapter| self.adapters.insert(adapter)) {
            for at in self.readers.get(adapter).cloned().unwrap_or_default() {
                if let Some(handler) = self.actions.get(at).map(|(_, action)| &action.handler.key) {
                    self.add_action(at, handler, &mut with);
                }
            }
        }
        with
    }
}

/// The handler and the instances of an action; out of process, with their adapter and templates.
fn parts_of(action: &ActionConfig) -> impl Iterator<Item = &ResourceKey> {
    let adapter = action.handler.external.iter().map(|external| &external.key);
    let templates = action.instances.iter().filter_map(|instance| instance.external.as_ref());
    let instances = action.instances.iter().map(|instance| &instance.key);
    std::iter::once(&action.handler.key).chain(instances).chain(adapter).chain(templates)
}
