//! What serves in its last good version together with what does not serve as written.
//!
//! A configuration is served of which some changed resources are in their new version, and the others, which *wait*, in their last good
//! one. It must refuse whom both the last good configuration and the one that is meant refuse, and nobody whom both allow.
//!
//! 1. A rule, the handlers and instances that it uses, the roles that their adapter reads and what makes the attributes that it reads
//!    decide together. They wait together, unless mixing both versions refuses no more than one of the configurations: a rule waits
//!    alone if its new version has the same condition and annotations and uses the same parts. So nobody is refused whom both allow.
//! 2. A change that [may refuse fewer](super::effects) requests of a namespace than before waits if something that waits may be to refuse more of
//!    them from now on, whatever their conditions say. So a request that both configurations refuse is refused: by what
//!    refused it before, unless that serves in a new version that does not; and by what is to refuse it, unless that waits and did not
//!    refuse it before. If both were so, the request would be in the loss of the one and in the gain of the other.
//! 3. While anything is out of sight, a file that cannot be read or a document of which nobody knows what it is, it may be to refuse
//!    anything. Then every change that may refuse fewer requests waits. It follows from the last good configuration and the store alone, so
//!    that it holds after a restart with a configuration cache.
//!
//! What a name that nothing has was to mean is not guessed. Cost of a search: in proportion to the actions of all rules and to the texts of what
//! changed.

mod effects;

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use foldhash::{HashMap, HashSet};

use super::corrections::Corrections;
use super::effects::{Effects, Reader, RuleFacts as _};
use super::extension_changes::ExtensionChanges;
use super::kept::{CommonCause, Reason};
use super::loosened::Loosened;
use super::made_attributes::{Attributes, ByAttribute, defaulted_otherwise, made_by};
use super::rule_changes::{RuleChange, RuleText, RuleUse};
use crate::snapshot::{
    ActionConfig, BuildStage, InstanceConfig, RuleConfig, Snapshot, SnapshotBuilder, candidates,
};
use crate::template::Variety;
use mixer_config::{RawResource, ResourceKey};

/// What goes back, or is left out if it is new, because it changed together with what serves in its last good version:
///
/// - with a handler or an instance, the parts that rules use with it, the rules that use it, unless only another action changed, and the
///   resources that its adapter reads, such as roles;
/// - with a rule that was to use other parts than before, that may select fewer requests than before, or of which that is unknown, those
///   which its last good version uses; and a resource that no longer names the namespace of the rule or a quota that it charges, such as an
///   `envoybridge`;
/// - with a resource of an extension, such as a role, those of its namespace that name it, or that it names, the parts and rules whose
///   adapter reads it, and the rules that no longer have a quota that it names;
/// - with what makes an attribute, such as an instance of a generator, or a manifest that gives it another type, what reads it, and the other way
///   round, unless only actions of the rule changed: rules and instances, a rule that is not for the mesh also what chooses the namespace of a request;
/// - with each of these and with a new one that is left out, what may let pass now what they are to refuse: the rule that is split, the list of
///   which an entry moves to another one; with what is out of sight, whatever may let pass more.
///
/// And so on for each of them. A rule with an error that selects no fewer requests and names the same parts as before takes nothing with it: a
/// list may change although a condition is misspelt. `unseen`: why something of the store is not read, if nobody knows what that is to do.
pub(super) fn changed_together(
    snapshot: &Snapshot,
    corrections: &Corrections<'_>,
    unseen: Option<CommonCause>,
    builder: &SnapshotBuilder,
) -> Vec<(ResourceKey, Reason)> {
    let Some(keys) = corrections.changes_that_serve(builder) else { return Vec::new() };
    let mut waiting = corrections.previous(builder);
    let unknown = corrections.unknown(&waiting);
    let left_out = corrections.left_out().filter(|(new, _)| !corrections.is_released(&new.key, builder));
    waiting.extend(left_out.map(|(new, reason)| (new.key.clone(), reason.clone())));
    if waiting.is_empty() && unseen.is_none() {
        return Vec::new();
    }
    let mut seen: HashSet<ResourceKey> = waiting.iter().map(|(key, _)| key.clone()).collect();
    let mut search = Search::new(snapshot, corrections, Changed { keys, unknown }, builder);
    let mut found = Vec::new();
    if let Some(cause) = unseen {
        let all: Vec<ResourceKey> = search.loosened().take_all().collect();
        for other in all.into_iter().filter(|other| seen.insert(other.clone())) {
            let reason = out_of_sight(&cause);
            waiting.push((other.clone(), reason.clone()));
            found.push((other, reason));
        }
    }
    while let Some((key, reason)) = waiting.pop() {
        if builder.ends_early() {
            return Vec::new();
        }
        let stage = builder.stage_of(&key.kind);
        let with = match stage {
            BuildStage::Parts => search.with_part(&key),
            BuildStage::Rules => search.with_rule(&key),
            BuildStage::Extensions => search.with_extension(&key),
            BuildStage::Vocabulary => Vec::new(),
            BuildStage::Ignored => continue,
        };
        let made = search.with_made(&key, stage);
        let is_own = reason.problem.as_ref().is_some_and(|problem| problem.resource == key.to_string());
        let why = if is_own { "whose new version has an error" } else { "whose previous version serves" };
        let used = format!("it is used together with {key}, {why}");
        let used = with.into_iter().chain(made).map(|other| (other, used.clone()));
        let why = if is_own { "has an error" } else { "does not serve as written" };
        let why = format!("it may refuse fewer requests than before, and waits for {key}, which {why}");
        let loosened = search.loosened_for(&key).into_iter().map(|other| (other, why.clone()));
        for (other, why) in used.chain(loosened) {
            if seen.insert(other.clone()) {
                let reason = Reason::new(why, reason.problem.clone());
                waiting.push((other.clone(), reason.clone()));
                found.push((other, reason));
            }
        }
    }
    found
}

/// Why a change that may refuse fewer requests waits for what nobody can see.
fn out_of_sight(cause: &CommonCause) -> Reason {
    let text = format!("what may refuse fewer requests than before waits, because {}", cause.text);
    let common = Some(CommonCause { text: text.into(), file: cause.file.clone() });
    let why = format!("it may refuse fewer requests than before, and waits, because {}", cause.text);
    Reason { why, common, problem: None }
}

/// How a version of the store differs from the last good configuration.
struct Changed {
    keys: Vec<ResourceKey>,
    /// Resources whose new version cannot be read.
    unknown: HashSet<ResourceKey>,
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
    /// Whether the versions of a part are of other adapters or templates, for those that were looked at.
    made_otherwise: RefCell<HashMap<ResourceKey, bool>>,
    /// How changed rules differ.
    rules: RefCell<HashMap<&'c ResourceKey, Rc<RuleChange>>>,
    extensions: OnceCell<ExtensionChanges>,
    reader: OnceCell<Reader<'c>>,
    loosened: Option<Loosened>,
    /// The versions of rules, and whether that is the last good one, by the parts that they name: those of changed rules.
    named: OnceCell<HashMap<ResourceKey, Vec<(ResourceKey, bool)>>>,
    /// The parts that a version of a rule may name, by its place in memory.
    names: RefCell<HashMap<*const RawResource, Rc<[ResourceKey]>>>,
    /// What a change of what an adapter reads may do, by adapter.
    of_roles: RefCell<HashMap<&'static str, Effects>>,
    /// Whether what rules do not name has changed: adapters and templates out of process.
    has_other_process: OnceCell<bool>,
    /// What changed and makes attributes, by these.
    makers: Option<ByAttribute>,
    /// What changed and reads attributes, by these.
    attribute_readers: Option<ByAttribute>,
    /// The attributes whose type is another one.
    retyped: OnceCell<Attributes>,
    /// The namespaces with rules that decide in whichever version serves.
    lasting: OnceCell<BTreeSet<&'c str>>,
    /// The attributes that either version of an instance makes.
    made: HashMap<ResourceKey, Rc<Attributes>>,
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
            made_otherwise: RefCell::default(),
            names: RefCell::default(),
            of_roles: RefCell::default(),
            has_other_process: OnceCell::new(),
            rules: RefCell::default(),
            extensions: OnceCell::new(),
            reader: OnceCell::new(),
            loosened: None,
            named: OnceCell::new(),
            makers: None,
            attribute_readers: None,
            retyped: OnceCell::new(),
            lasting: OnceCell::new(),
            made: HashMap::default(),
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
            let new = self.corrections.read.resources.get(rule);
            if !self.corrections.last.differs(rule, new) {
                return with;
            }
            if let Some(new) = new
                && RuleUse::between(good, new, self.builder.options().language_of(good)).selects_same
                && self.use_same_parts(good, new)
            {
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
            let (first, second) = candidates(name, kind_at(at), namespace);
            let keys = |full: &str| self.corrections.keys_of(full, self.builder).into_iter().next();
            keys(&first).or_else(|| keys(&second?))
        };
        let all = |names: &Vec<Box<str>>| names.iter().enumerate().map(|(at, name)| find(at, name)).collect();
        text.actions.iter().map(all).collect()
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

    /// What changed and reads attributes that a resource makes, and what makes those that it reads.
    fn with_made(&mut self, key: &ResourceKey, stage: BuildStage) -> Vec<ResourceKey> {
        let made = self.attributes_of(key, stage);
        let mut with = Vec::new();
        if !made.is_empty() {
            let (changed, corrections, builder) = (&self.changed.keys, self.corrections, self.builder);
            let readers = self
                .attribute_readers
                .get_or_insert_with(|| ByAttribute::readers(changed, corrections, builder));
            with = readers.take(&made);
        }
        if stage != BuildStage::Vocabulary
            && self.reads_otherwise(key, stage)
            && let Some(good) = self.corrections.last.get(key)
        {
            let mut makers = self.makers.take().unwrap_or_else(|| self.makers());
            with.extend(makers.take_read_by(good, self.builder));
            self.makers = Some(makers);
        }
        with
    }

    /// Whether it may be that a resource was to read other attributes.
    fn reads_otherwise(&self, key: &ResourceKey, stage: BuildStage) -> bool {
        if stage != BuildStage::Rules || self.changed.unknown.contains(key) {
            return true;
        }
        let Some(new) = self.corrections.read.resources.get(key) else { return true };
        let good = self.corrections.last.get(key);
        good.is_none_or(|good| self.change_of(&new.key, good, new).beyond_actions)
    }

    /// The attributes that either version of a resource makes, or has its instances make.
    fn attributes_of(&mut self, key: &ResourceKey, stage: BuildStage) -> Attributes {
        let versions = [self.corrections.last.get(key), self.corrections.read.resources.get(key)];
        let mut all = Attributes::new();
        let instances: Vec<ResourceKey> = match stage {
            BuildStage::Rules => {
                let texts: Vec<RuleText> =
                    versions.into_iter().flatten().map(|rule| RuleText::of(rule)).collect();
                let named = texts.iter().flat_map(|text| self.parts_named_by(text, &key.namespace));
                named.flatten().flatten().collect()
            }
            BuildStage::Parts => {
                let uses = self.uses.get(key).into_iter().flatten().filter_map(|at| self.actions.get(*at));
                let generators = uses.flat_map(|(_, action)| generators_of(action));
                let own = std::iter::once(key).filter(|key| !self.uses.contains_key(key));
                own.chain(generators.map(|instance| &instance.key)).cloned().collect()
            }
            BuildStage::Extensions if self.builder.adapter_reading(&key.kind).is_none() => {
                if let [Some(good), Some(new)] = versions {
                    all.extend(defaulted_otherwise(good, new).map(Box::from));
                }
                vec![key.clone()]
            }
            BuildStage::Vocabulary => return self.retyped_by(key),
            _ => Vec::new(),
        };
        for instance in instances {
            all.extend(self.made_by(&instance).iter().cloned());
        }
        all
    }

    fn made_by(&mut self, key: &ResourceKey) -> Rc<Attributes> {
        let versions = [self.corrections.last.get(key), self.corrections.read.resources.get(key)];
        let made = self.made.entry(key.clone()).or_insert_with(|| {
            let made = versions.into_iter().flatten().flat_map(|version| made_by(version));
            Rc::new(made.collect())
        });
        Rc::clone(made)
    }

    /// What changed and makes attributes, and the rules that are gone and did.
    fn makers(&mut self) -> ByAttribute {
        let mut makers = ByAttribute::default();
        for key in self.changed.keys.clone() {
            if self.builder.ends_early() {
                break;
            }
            let stage = self.builder.stage_of(&key.kind);
            let is_gone = !self.corrections.read.resources.contains_key(&key);
            if self.corrections.last.get(&key).is_some() && (stage == BuildStage::Rules || !is_gone) {
                self.attributes_of(&key, stage).iter().for_each(|attribute| makers.add(attribute, &key));
            }
        }
        makers
    }
}

/// The kind of what an action names: its handler, then its instances.
fn kind_at(at: usize) -> &'static str {
    if at == 0 { "handler" } else { "instance" }
}

/// The handler and the instances of an action; out of process, with their adapter and templates.
fn parts_of(action: &ActionConfig) -> impl Iterator<Item = &ResourceKey> {
    let adapter = action.handler.external.iter().map(|external| &external.key);
    let templates = action.instances.iter().filter_map(|instance| instance.external.as_ref());
    let instances = action.instances.iter().map(|instance| &instance.key);
    std::iter::once(&action.handler.key).chain(instances).chain(adapter).chain(templates)
}

/// The instances of an action whose handler generates attributes of them.
fn generators_of(action: &ActionConfig) -> impl Iterator<Item = &InstanceConfig> {
    let instances = action.instances.iter().map(|instance| &**instance);
    instances.filter(|instance| instance.template().variety == Variety::AttributeGenerator)
}
