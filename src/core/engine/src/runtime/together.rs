//! What changed together with a resource that serves in its last good version.
//!
//! An instance that was made for the new version of a handler may mean nothing to the last one, which then refuses nobody: a list of
//! names that is given addresses. So what serves in its last good version, for whatever reason, takes with it what changed for its new
//! version, whether that can be read or not. Cost of a search: in proportion to the actions of all rules and to the texts of what changed.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::constants::Constants;
use super::corrections::Corrections;
use super::extension_changes::ExtensionChanges;
use super::kept::Reason;
use super::made_attributes::{Attributes, ByAttribute, made_by, read_in};
use super::moved::{FileWords, Moved, Refused};
use super::rule_changes::{RuleChange, RuleText, prefixes};
use crate::snapshot::{
    ActionConfig, BuildStage, InstanceConfig, RuleConfig, Snapshot, SnapshotBuilder, candidates,
};
use crate::template::Variety;
use mixer_config::message::suggested;
use mixer_config::store::Unread;
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
///   adapter reads it, and the rules that no longer have a quota that it names;
/// - with what makes an attribute, such as an instance of a generator, the rules and instances that read it, and the other way round, unless only
///   actions of the rule changed;
/// - with each of these, with a new one that is left out, and with a document that cannot be read, what perhaps allows now what they are meant to
///   refuse, as [their constants](super::moved) tell: the rule that is split, the list of which an entry moves to another one.
///
/// And so on for each of them. A rule with an error that uses the same parts as before takes nothing with it: a list may change although a
/// condition is misspelt. `unread`: what of the store is not read; `is_partial`: something is not, so that a name that nothing has may be one
/// of it.
pub(super) fn changed_together(
    snapshot: &Snapshot,
    corrections: &Corrections<'_>,
    (unread, is_partial): (&[Unread], bool),
    builder: &SnapshotBuilder,
) -> Vec<(ResourceKey, Reason)> {
    let Some(changed) = corrections.changes_that_serve(builder) else { return Vec::new() };
    let mut waiting = corrections.previous(builder);
    let unknown = corrections.unknown(&waiting);
    waiting.extend(corrections.left_out().map(|(new, reason)| (new.key.clone(), reason.clone())));
    if waiting.is_empty() && unread.iter().all(|unread| unread.text.is_empty()) {
        return Vec::new();
    }
    let mut seen: HashSet<ResourceKey> = waiting.iter().map(|(key, _)| key.clone()).collect();
    let mut search =
        Search::new(snapshot, corrections, Changed { keys: changed, unknown, is_partial }, builder);
    let mut found = Vec::new();
    for (other, why) in search.moved_to_unread(unread) {
        if seen.insert(other.clone()) {
            let reason = Reason::new(why, None);
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
            BuildStage::Vocabulary | BuildStage::Ignored => continue,
        };
        let made = search.with_made(&key, stage);
        let is_own = reason.problem.as_ref().is_some_and(|problem| problem.resource == key.to_string());
        let why = if is_own { "whose new version has an error" } else { "whose previous version serves" };
        let used = format!("it is used together with {key}, {why}");
        let used = with.into_iter().chain(made).map(|other| (other, used.clone()));
        let why = if is_own { "has an error" } else { "does not serve as written" };
        let moved =
            search.moved_to(&key).into_iter().map(|(other, what)| (other, format!("{what}, which {why}")));
        for (other, why) in used.chain(moved) {
            if seen.insert(other.clone()) {
                let reason = Reason::new(why, reason.problem.clone());
                waiting.push((other.clone(), reason.clone()));
                found.push((other, reason));
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
    moved: Option<Moved>,
    /// The parts of which the constants were looked for in `moved`, with the namespace for which.
    looked_for: HashSet<(Arc<str>, ResourceKey)>,
    /// What rules name that do not serve as written.
    named: OnceCell<HashSet<Box<str>>>,
    /// What changed and makes attributes, by these.
    makers: Option<ByAttribute>,
    /// What changed and reads attributes, by these.
    attribute_readers: Option<ByAttribute>,
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
            names: OnceCell::new(),
            nearest: HashMap::default(),
            rules: RefCell::default(),
            extensions: OnceCell::new(),
            moved: None,
            looked_for: HashSet::default(),
            named: OnceCell::new(),
            makers: None,
            attribute_readers: None,
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

    /// What changed and reads attributes that a resource makes, and what makes those that it reads.
    fn with_made(&mut self, key: &ResourceKey, stage: BuildStage) -> Vec<ResourceKey> {
        let made = self.attributes_of(key, stage);
        let mut with = Vec::new();
        if !made.is_empty() {
            let (changed, corrections, builder) = (&self.changed.keys, self.corrections, self.builder);
            let readers = self
                .attribute_readers
                .get_or_insert_with(|| ByAttribute::readers(changed, corrections, builder));
            with = readers.take(made.iter().map(|attribute| &**attribute));
        }
        if self.reads_otherwise(key, stage)
            && let Some(good) = self.corrections.last.get(key)
        {
            let mut makers = self.makers.take().unwrap_or_else(|| self.makers());
            with.extend(makers.take(read_in(&good.origin.text)));
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
            BuildStage::Extensions if self.builder.adapter_reading(&key.kind).is_none() => vec![key.clone()],
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

    /// What perhaps allows what a resource is to refuse, of which the new version does not serve.
    fn moved_to(&mut self, key: &ResourceKey) -> Vec<(ResourceKey, String)> {
        // What was read of a file that is not read any more serves: what it is to be is unknown.
        let is_read = !self.changed.unknown.contains(key) || self.corrections.get(key).is_some();
        let new = self.corrections.read.resources.get(key).filter(|new| is_read && self.may_refuse(new));
        let Some(new) = new else { return Vec::new() };
        let good = self.corrections.last.get(key).map(|good| &**good);
        let stage = self.builder.stage_of(&key.kind);
        let refused = if stage == BuildStage::Rules {
            let others = self.other_parts(new, good);
            Refused::by_rule(new, good, others)
        } else {
            // A new part is used by a rule that does not serve yet.
            let reach = self.reach(key).or_else(|| good.is_none().then(Constants::default));
            let reach = reach.or_else(|| (stage == BuildStage::Extensions).then(Constants::default));
            reach.and_then(|reach| Refused::by(new, good, reach))
        };
        let Some(refused) = refused else { return Vec::new() };
        let mesh = &*self.builder.options().default_namespace;
        let both = [&*key.namespace, mesh];
        // What is for the mesh may do the work of any namespace.
        let namespaces = if *key.namespace == *mesh { &[][..] } else { &both[..] };
        let (found, name) = (self.moved().take(&refused, namespaces), key.to_string());
        found.into_iter().map(|(other, word)| (other, moved_into(word, &name))).collect()
    }

    /// The constants of the parts that a rule is to use instead of those of its last good version, if it does; broad if one of them is unknown.
    fn other_parts(&mut self, new: &RawResource, good: Option<&RawResource>) -> Option<Constants> {
        let (namespace, text) = (&new.key.namespace, RuleText::of(new));
        let good = good.map(RuleText::of);
        if good.as_ref().is_some_and(|good| !self.uses_others(good, &text, namespace)) {
            return None;
        }
        let before = good.iter().flat_map(|good| self.parts_named_by(good, namespace));
        let before: HashSet<ResourceKey> = before.flatten().flatten().collect();
        let mut all = Constants::default();
        for part in self.parts_named_by(&text, namespace).into_iter().flatten() {
            let Some(part) = part else {
                all.is_broad = true;
                continue;
            };
            let read = self.corrections.read.resources.get(&part).filter(|_| !before.contains(&part));
            // What they refuse is looked for once for each namespace.
            if let Some(read) = read
                && self.looked_for.insert((Arc::clone(namespace), part))
            {
                all.words.extend(Constants::of(&read.document()).words);
            }
        }
        Some(all)
    }

    /// The same of documents that are not read.
    fn moved_to_unread(&mut self, unread: &[Unread]) -> Vec<(ResourceKey, String)> {
        let documents: Vec<&Unread> = unread.iter().filter(|unread| !unread.text.is_empty()).collect();
        if documents.is_empty() {
            return Vec::new();
        }
        let corrections = self.corrections;
        // A document may be read all the same, as one with a key twice.
        let lines: HashSet<(&str, u32)> = documents.iter().filter_map(|unread| place_of(unread)).collect();
        let read = corrections
            .read
            .resources
            .iter()
            .map(|read| ((&*read.origin.file, read.origin.first_line), read));
        let read = read.filter(|(place, _)| lines.contains(place));
        let read: HashMap<(&str, u32), &ResourceKey> = read.map(|(place, read)| (place, &read.key)).collect();
        // What a file had and has no more may be in any of its documents.
        let mut files: HashMap<&str, FileWords<'_>> = HashMap::default();
        for resource in corrections.missing() {
            files.entry(&resource.origin.file).or_default().add_known(&resource.origin.text);
        }
        for unread in &documents {
            let words = files.entry(&unread.path).or_default();
            words.add_now(&unread.text);
            let key = place_of(unread).and_then(|place| read.get(&place));
            if let Some(good) = key.and_then(|key| corrections.last.get(key)) {
                words.add_known(&good.origin.text);
            }
        }
        files.values_mut().for_each(FileWords::compare);
        let mut found = Vec::new();
        for unread in documents {
            if self.builder.ends_early() {
                break;
            }
            let Some(words) = files.get(&*unread.path) else { continue };
            let refused = Refused::by_text(&unread.text, words);
            let moved = self.moved().take(&refused, &[]);
            found.extend(moved.into_iter().map(|(key, word)| {
                let what = moved_into(word, "a document that is not read");
                (key, format!("{what}: {}", unread.why))
            }));
        }
        found
    }

    fn moved(&mut self) -> &mut Moved {
        let moved = self.moved.take().unwrap_or_else(|| {
            Moved::new(&self.changed.keys, self.corrections, self.builder, |part| self.reach(part))
        });
        self.moved.insert(moved)
    }

    /// The constants of the conditions under which rules use a part; `None` if they only report with it.
    fn reach(&self, part: &ResourceKey) -> Option<Constants> {
        let uses = self.uses.get(part).into_iter().flatten().filter_map(|at| self.actions.get(*at));
        let mut refusing = uses.filter(|(_, action)| !only_reports(action)).peekable();
        refusing.peek()?;
        let mut reach = Constants::default();
        for (rule, _) in refusing {
            let of_rule = Constants::of_condition(&rule.match_text);
            reach.is_broad |= of_rule.is_broad;
            reach.words.extend(of_rule.words);
        }
        Some(reach)
    }

    /// Whether a resource may be meant to refuse. A new part only if a rule that does not serve as written names it.
    fn may_refuse(&self, new: &RawResource) -> bool {
        match self.builder.stage_of(&new.key.kind) {
            BuildStage::Rules => self.builder.may_enforce(new),
            BuildStage::Parts => {
                self.corrections.last.get(&new.key).is_some() || self.is_named(&new.key.name)
            }
            BuildStage::Extensions => true,
            BuildStage::Vocabulary | BuildStage::Ignored => false,
        }
    }

    /// Whether a rule that does not serve as written names a part.
    fn is_named(&self, part: &str) -> bool {
        let named = self.named.get_or_init(|| {
            let replaced = self.corrections.replaced();
            let rules = replaced.filter(|new| self.builder.stage_of(&new.key.kind) == BuildStage::Rules);
            let names = rules.flat_map(|rule| RuleText::of(rule).actions.into_iter().flatten());
            names.flat_map(|name| prefixes(&name).map(Box::from).collect::<Vec<_>>()).collect()
        });
        named.contains(part)
    }
}

/// The handler and the instances of an action; out of process, with their adapter and templates.
fn parts_of(action: &ActionConfig) -> impl Iterator<Item = &ResourceKey> {
    let adapter = action.handler.external.iter().map(|external| &external.key);
    let templates = action.instances.iter().filter_map(|instance| instance.external.as_ref());
    let instances = action.instances.iter().map(|instance| &instance.key);
    std::iter::once(&action.handler.key).chain(instances).chain(adapter).chain(templates)
}

/// Why something waits for `name`, which has a constant, or may be meant to refuse anything.
fn moved_into(constant: Option<&str>, name: &str) -> String {
    match constant {
        Some(constant) => format!("`{constant}`, about which it decides otherwise now, is in {name}"),
        None => format!("it refused what may be meant to be refused by {name}"),
    }
}

/// The file of a document that is not read, and its first line.
fn place_of(unread: &Unread) -> Option<(&str, u32)> {
    Some((&*unread.path, unread.problem.chunk?.line))
}

/// Whether an action decides nothing.
fn only_reports(action: &ActionConfig) -> bool {
    action.instances.iter().all(|instance| instance.template().variety == Variety::Report)
}

/// The instances of an action whose handler generates attributes of them.
fn generators_of(action: &ActionConfig) -> impl Iterator<Item = &InstanceConfig> {
    let instances = action.instances.iter().map(|instance| &**instance);
    instances.filter(|instance| instance.template().variety == Variety::AttributeGenerator)
}
