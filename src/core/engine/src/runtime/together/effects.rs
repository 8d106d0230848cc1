//! What the changes of a search do to requests, and which versions of rules use what.

use std::collections::BTreeSet;
use std::rc::Rc;

use foldhash::{HashMap, HashSet};

use super::super::effects::{Effects, Reader, RuleFacts, Use, Versions, is_made_otherwise, may_charge};
use super::super::loosened::Loosened;
use super::super::made_attributes::{Attributes, made_by};
use super::super::requests::Requests;
use super::super::rule_changes::{RuleText, RuleUse, prefixes};
use super::super::type_changes::{declared_by, retyped};
use super::{Search, generators_of, kind_at, parts_of};
use crate::snapshot::{ActionConfig, BuildStage, RuleConfig, candidates, is_dry_run};
use crate::template::Variety;
use mixer_config::{RawResource, ResourceKey};

impl<'c> Search<'c> {
    /// Takes out what may let pass what a resource is to refuse, of which the new version does not serve.
    pub(super) fn loosened_for(&mut self, key: &ResourceKey) -> Vec<ResourceKey> {
        let gain = self.effects(key).gain;
        // What one role allows, no other one refuses.
        let (builder, adapter) = (self.builder, self.builder.adapter_reading(&key.kind));
        let is_of_same =
            |other: &ResourceKey| adapter.is_some() && builder.adapter_reading(&other.kind) == adapter;
        self.loosened().take(&gain, is_of_same)
    }

    pub(super) fn loosened(&mut self) -> &mut Loosened {
        let loosened = self.loosened.take().unwrap_or_else(|| {
            let (corrections, builder) = (self.corrections, self.builder);
            let serving = self.changed.keys.iter().filter(|key| corrections.serves_as_read(key, builder));
            Loosened::new(serving, |key| self.effects(key).loss, self.builder)
        });
        self.loosened.insert(loosened)
    }

    /// What the change of a resource may do.
    fn effects(&self, key: &ResourceKey) -> Effects {
        let corrections = self.corrections;
        let (good, new) = (corrections.last.get(key), corrections.read.resources.get(key));
        let versions = (good.map(|good| &**good), new.map(|new| &**new));
        let reader = self.reader();
        match (self.builder.stage_of(&key.kind), versions) {
            (BuildStage::Rules, _) => reader.of_rule(versions, self),
            (BuildStage::Parts, _) => reader.of_part(versions, self, self.uses_of(key)),
            (BuildStage::Extensions, _) => match self.builder.adapter_reading(&key.kind) {
                Some(adapter) => self.effects_of_roles(adapter),
                None => Effects::either(Requests::any()),
            },
            (BuildStage::Vocabulary, _) if declares_same(versions) => Effects::default(),
            (BuildStage::Vocabulary, _) => Effects::either(Requests::any()),
            (BuildStage::Ignored, _) => Effects::default(),
        }
    }

    /// Whether a resource differs from its last good version.
    fn has_changed(&self, key: &ResourceKey) -> bool {
        self.corrections.last.differs(key, self.corrections.read.resources.get(key))
    }

    /// Whether a resource has a last good version only.
    fn is_gone(&self, key: &ResourceKey) -> bool {
        self.corrections.last.get(key).is_some() && !self.corrections.read.resources.contains_key(key)
    }

    /// Whether the versions of a part are of other adapters or templates. Many rules may use one part, whose text may be long.
    fn is_made_otherwise(&self, part: &ResourceKey) -> bool {
        if !self.has_changed(part) {
            return false;
        }
        if let Some(known) = self.made_otherwise.borrow().get(part) {
            return *known;
        }
        let (good, new) = (self.corrections.last.get(part), self.corrections.read.resources.get(part));
        let is_made = good.zip(new).is_some_and(|(good, new)| is_made_otherwise(good, new));
        self.made_otherwise.borrow_mut().insert(part.clone(), is_made);
        is_made
    }

    pub(super) fn reader(&self) -> &Reader<'c> {
        self.reader.get_or_init(|| Reader::new(self.corrections, &self.shifting(), self.builder))
    }

    /// The attributes whose type is another one.
    fn retyped(&self) -> &Attributes {
        self.retyped.get_or_init(|| {
            let mut changed = self.changed.keys.iter();
            let any = changed.any(|key| self.builder.stage_of(&key.kind) == BuildStage::Vocabulary);
            if any { retyped(self.corrections, self.builder) } else { Attributes::new() }
        })
    }

    /// Those among them that a manifest declares, in either version.
    pub(super) fn retyped_by(&self, manifest: &ResourceKey) -> Attributes {
        let retyped = self.retyped();
        if retyped.is_empty() {
            return Attributes::new();
        }
        let versions = [self.corrections.last.get(manifest), self.corrections.read.resources.get(manifest)];
        let declared = versions.into_iter().flatten().flat_map(|version| declared_by(version));
        declared.map(|(name, _)| name).filter(|name| retyped.contains(name)).collect()
    }

    /// The attributes that may have several values or meanings in one request: those of another type and, if what generators do may change, those
    /// that they make, because the rules that have them make attributes are chosen by what a request has before.
    fn shifting(&self) -> Attributes {
        let retyped = self.retyped();
        let generates = |part: &ResourceKey| !self.versions_made_by(part).is_empty();
        let has_changed = || {
            let parts =
                self.changed.keys.iter().filter(|key| self.builder.stage_of(&key.kind) == BuildStage::Parts);
            let mut parts = parts.chain(self.named().keys());
            parts.any(|part| {
                let actions =
                    self.uses.get(part).into_iter().flatten().filter_map(|at| self.actions.get(*at));
                generates(part) || actions.flat_map(|(_, action)| generators_of(action)).next().is_some()
            })
        };
        let mut shifting = retyped.clone();
        if !retyped.is_empty() || has_changed() {
            let versions = [Some(&self.corrections.read.resources), self.corrections.last.resources()];
            let all = versions.into_iter().flatten().flat_map(|resources| resources.iter());
            let parts = all.filter(|part| self.builder.stage_of(&part.key.kind) == BuildStage::Parts);
            shifting.extend(parts.flat_map(|part| made_by(part)));
        }
        shifting
    }

    /// The attributes that either version of a part makes.
    fn versions_made_by(&self, part: &ResourceKey) -> Attributes {
        let versions = [self.corrections.last.get(part), self.corrections.read.resources.get(part)];
        versions.into_iter().flatten().flat_map(|version| made_by(version)).collect()
    }

    /// What a change of what an adapter reads may do. The same for all roles and bindings.
    fn effects_of_roles(&self, adapter: &'static str) -> Effects {
        if let Some(known) = self.of_roles.borrow().get(adapter) {
            return known.clone();
        }
        let effects = self.reader().of_role(self.uses_by(adapter));
        self.of_roles.borrow_mut().insert(adapter, effects.clone());
        effects
    }

    /// The uses of the handlers of an adapter, by either version of each rule.
    fn uses_by(&self, adapter: &'static str) -> impl Iterator<Item = Use<'c>> + '_ {
        let handlers = self.snapshot.handlers.iter().map(|handler| &**handler);
        let handlers = handlers.filter(move |handler| handler.adapter.info().name == adapter);
        handlers.flat_map(|handler| self.uses_of(&handler.key))
    }

    /// The namespaces, other than that of the mesh, with rules that refuse requests in whichever version serves.
    fn lasting(&self) -> &BTreeSet<&'c str> {
        self.lasting.get_or_init(|| {
            let rules = self.snapshot.rules.iter().map(|rule| &**rule);
            let rules = rules.filter(|rule| !rule.of_mesh && !rule.dry_run && decides(rule));
            let is_made_otherwise = |rule: &RuleConfig| {
                rule.actions.iter().flat_map(parts_of).any(|part| self.is_made_otherwise(part))
            };
            let rules = rules.take_while(|_| !self.builder.ends_early());
            let lasting = rules.filter(|rule| !is_made_otherwise(rule)).filter(|rule| {
                let (last, read) = (self.corrections.last.get(&rule.key), &self.corrections.read);
                let Some((good, new)) = last.zip(read.resources.get(&rule.key)) else { return false };
                !self.corrections.last.differs(&rule.key, Some(new)) || {
                    let both = RuleUse::between(good, new, self.builder.options().language_of(good));
                    both.has_no_fewer && both.has_no_more
                }
            });
            lasting.map(|rule| &*rule.key.namespace).collect()
        })
    }

    /// The uses of a part that may refuse, by either version of each rule.
    fn uses_of<'s>(&'s self, part: &'s ResourceKey) -> impl Iterator<Item = Use<'c>> + 's {
        let uses = self.uses.get(part).into_iter().flatten().filter_map(|at| self.actions.get(*at));
        let is_made_otherwise = self.is_made_otherwise(part);
        let refusing = uses.filter(move |(_, action)| is_made_otherwise || !only_reports(action));
        // Rules do not name what is out of process.
        let is_external = matches!(&*part.kind, "adapter" | "template");
        let built = refusing.flat_map(move |(rule, _)| {
            let is_changed = self.has_changed(&rule.key);
            // Of a changed rule the versions that name the part are among those below.
            [(true, !is_changed || is_external), (false, is_changed && is_external)]
                .into_iter()
                .filter_map(|(is_good, is_used)| is_used.then_some((&rule.key, is_good)))
        });
        let named = self.named().get(part).into_iter().flatten().map(|(rule, is_good)| (rule, *is_good));
        let mut seen: HashSet<(&ResourceKey, bool)> = HashSet::default();
        let all = built.chain(named).filter(move |of| seen.insert(*of));
        all.filter_map(|(rule, is_good)| {
            let version = if is_good {
                self.corrections.last.get(rule)
            } else {
                self.corrections.read.resources.get(rule)
            };
            Some(Use { rule: version?, is_good })
        })
    }

    /// The versions of changed rules by the parts that they may name; of parts that are new or gone also those of other rules.
    fn named(&self) -> &HashMap<ResourceKey, Vec<(ResourceKey, bool)>> {
        self.named.get_or_init(|| {
            let mut named: HashMap<ResourceKey, Vec<(ResourceKey, bool)>> = HashMap::default();
            let mut add = |rule: &RawResource, is_good: bool| {
                for part in &*self.perhaps_named_by(rule) {
                    named.entry(part.clone()).or_default().push((rule.key.clone(), is_good));
                }
            };
            let (last, read) = (self.corrections.last, &self.corrections.read.resources);
            let of_stage = |stage| {
                let changed = self.changed.keys.iter();
                changed.filter(move |key| self.builder.stage_of(&key.kind) == stage)
            };
            for rule in of_stage(BuildStage::Rules).take_while(|_| !self.builder.ends_early()) {
                let versions = [(last.get(rule), true), (read.get(rule), false)];
                versions.into_iter().for_each(|(version, is_good)| {
                    version.into_iter().for_each(|version| add(version, is_good));
                });
            }
            let in_one = of_stage(BuildStage::Parts)
                .filter(|part| last.get(part).is_some() != read.contains_key(part));
            let in_one: HashSet<&str> = in_one.map(|part| &*part.name).collect();
            if !in_one.is_empty() {
                let is_rule = |rule: &RawResource| {
                    self.builder.stage_of(&rule.key.kind) == BuildStage::Rules && !self.has_changed(&rule.key)
                };
                let rules = read.iter().filter(|rule| is_rule(rule));
                for rule in rules.take_while(|_| !self.builder.ends_early()) {
                    let text = RuleText::of(rule);
                    let mut names = text.actions.iter().flatten().flat_map(|name| prefixes(name));
                    if names.any(|name| in_one.contains(name)) {
                        add(rule, true);
                    }
                }
            }
            named
        })
    }

    /// All parts that the names in a version of a rule may mean, each once. The version is one of the store or of the last good configuration, which
    /// stay where they are as long as the search.
    fn perhaps_named_by(&self, rule: &RawResource) -> Rc<[ResourceKey]> {
        let place = std::ptr::from_ref(rule);
        if let Some(known) = self.names.borrow().get(&place) {
            return Rc::clone(known);
        }
        let (text, namespace) = (RuleText::of(rule), &rule.key.namespace);
        let meanings = |(at, name): (usize, &str)| {
            let (first, second) = candidates(name, kind_at(at), namespace);
            let names = std::iter::once(first).chain(second);
            names.flat_map(|name| self.corrections.keys_of(&name, self.builder)).collect::<Vec<_>>()
        };
        let names = text.actions.iter().flat_map(|names| names.iter().map(|name| &**name).enumerate());
        let mut seen = HashSet::default();
        let parts = names.flat_map(meanings).filter(|part| seen.insert(part.clone()));
        let parts: Rc<[ResourceKey]> = parts.collect();
        self.names.borrow_mut().insert(place, Rc::clone(&parts));
        parts
    }

    /// Whether an adapter or a template out of process is another one, or gone.
    fn has_other_process(&self) -> bool {
        *self.has_other_process.get_or_init(|| {
            let of_process = |key: &&ResourceKey| matches!(&*key.kind, "adapter" | "template");
            self.changed.keys.iter().filter(of_process).any(|key| self.is_other(key))
        })
    }

    /// Whether a part was another one, or is gone.
    fn is_other(&self, part: &ResourceKey) -> bool {
        self.is_changed(part) || self.is_gone(part)
    }
}

impl RuleFacts for Search<'_> {
    fn may_enforce(&self, rule: &RawResource) -> bool {
        // The builder knows the parts as they are now, and this may be what the rule was.
        let was_otherwise =
            || self.has_other_process() || self.perhaps_named_by(rule).iter().any(|part| self.is_other(part));
        self.builder.may_enforce(rule) || (!is_dry_run(rule) && was_otherwise())
    }

    fn makes_attributes(&self, rule: &RawResource) -> bool {
        let actions = self.parts_named_by(&RuleText::of(rule), &rule.key.namespace);
        actions.iter().flat_map(|parts| parts.iter().skip(1)).flatten().any(|instance| {
            let (last, read) = (self.corrections.last, &self.corrections.read.resources);
            let versions = [last.get(instance), read.get(instance)];
            versions.into_iter().flatten().any(|version| !made_by(version).is_empty())
        })
    }

    fn may_charge(&self, rule: &RawResource) -> bool {
        let actions = self.parts_named_by(&RuleText::of(rule), &rule.key.namespace);
        actions.iter().flat_map(|parts| parts.iter().skip(1)).any(|instance| {
            let Some(key) = instance else { return true };
            let versions = [self.corrections.last.get(key), self.corrections.read.resources.get(key)];
            versions.into_iter().flatten().any(|version| may_charge(version))
        })
    }

    fn has_lasting(&self, namespace: Option<&str>) -> bool {
        let lasting = self.lasting();
        namespace.map_or(!lasting.is_empty(), |namespace| lasting.contains(namespace))
    }

    fn may_allow(&self, rule: &RawResource) -> bool {
        let actions = self.parts_named_by(&RuleText::of(rule), &rule.key.namespace);
        actions.iter().filter_map(|parts| parts.first()).any(|handler| {
            let handler = handler.as_ref().and_then(|key| self.snapshot.handlers.get(key));
            handler.is_none_or(|handler| handler.may_allow())
        })
    }

    /// In the same places. A name that nothing has may be meant to be that of any part.
    fn use_same_parts(&self, good: &RawResource, new: &RawResource) -> bool {
        let (good, new, namespace) = (RuleText::of(good), RuleText::of(new), &good.key.namespace);
        if good.actions == new.actions {
            return true;
        }
        let (keys, new_keys) = (self.parts_named_by(&good, namespace), self.parts_named_by(&new, namespace));
        keys == new_keys && keys.iter().flatten().all(Option::is_some)
    }
}

/// Whether both versions of a manifest declare the same attributes.
fn declares_same((good, new): Versions<'_>) -> bool {
    let declared = |manifest: Option<&RawResource>| -> BTreeSet<_> {
        manifest.map(declared_by).into_iter().flatten().collect()
    };
    declared(good) == declared(new)
}

/// Whether an action decides nothing.
fn only_reports(action: &ActionConfig) -> bool {
    action.instances.iter().all(|instance| instance.template().variety == Variety::Report)
}

/// Whether a rule allows or refuses requests, so that one of Envoy that does not name its namespace is refused.
fn decides(rule: &RuleConfig) -> bool {
    let mut instances = rule.actions.iter().flat_map(|action| &action.instances);
    let checks = |variety| matches!(variety, Variety::Check | Variety::CheckWithOutput);
    rule.denies_by_default || instances.any(|instance| checks(instance.template().variety))
}
