//! Builds snapshots, each with the help of the one before.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::dynamic::{self, Resource as DynamicResource};
use super::handlers::{HandlerState, build_handler, build_legacy_handler};
use super::instances::{InstanceState, build_instance, build_legacy_instance};
use super::memo::{Built, Change, Located, Programs, Unit};
use super::model::{Snapshot, SnapshotCounts, SnapshotId};
use super::rules::{Known, RuleState, build_rule};
use super::vocabulary::{Manifest, build_manifest, merge};
use crate::core::adapter::{self, ErasedAdapter, INVENTORY};
use crate::core::config::message::suggestion;
use crate::core::config::{Diagnostic, Diagnostics, FieldPath, Origin, RawResource, ResourceKey};
use crate::core::expr::Language;
use crate::core::store::StoreContents;
use crate::core::template::{self, TEMPLATES, TemplateInfo};

/// The annotation that selects the language of a rule or instance.
const LANGUAGE: &str = "policy.istio.io/lang";

/// What building depends on beside the resources.
#[derive(Debug, Clone)]
pub struct SnapshotOptions {
    /// Namespace of mesh-wide rules.
    pub default_namespace: Arc<str>,
    /// The language of all resources, whatever their annotations say: the environment variable `ISTIO_LANG`.
    pub language: Option<Language>,
    /// Whether the kinds named like adapters are known.
    pub adapter_kinds: bool,
    /// Whether the kinds named like templates are known.
    pub template_kinds: bool,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self {
            default_namespace: "istio-system".into(),
            language: None,
            adapter_kinds: true,
            template_kinds: true,
        }
    }
}

/// Turns the contents of a store into snapshots and remembers what the next build can use again.
///
/// A unit (manifest, handler, instance, rule) is built again only if it or something that it depends on changed; everything
/// else is the same `Arc` as before. A full build and an incremental one give the same snapshot, except that a resource whose
/// new version does not convert stays in force in its old one.
#[derive(Debug)]
pub struct SnapshotBuilder {
    options: SnapshotOptions,
    builds: u64,
    programs: Programs,
    manifests: FxHashMap<ResourceKey, Unit<Manifest>>,
    handlers: FxHashMap<ResourceKey, Unit<HandlerState>>,
    instances: FxHashMap<ResourceKey, Unit<InstanceState>>,
    rules: FxHashMap<ResourceKey, Unit<RuleState>>,
    dynamic: FxHashMap<ResourceKey, Unit<DynamicResource>>,
    unknown: FxHashMap<ResourceKey, Unit<Unknown>>,
}

/// A resource of a kind that nobody knows.
#[derive(Debug)]
struct Unknown;

impl Located for Unknown {
    fn relocate(&mut self, _: &Origin) {}
}

/// What a kind means.
#[derive(Clone, Copy)]
enum Kind {
    Manifest,
    Handler(Option<&'static dyn ErasedAdapter>),
    Instance(Option<&'static TemplateInfo>),
    Rule,
    Dynamic,
    Unknown,
}

type Resources<'r> = Vec<(&'r Arc<RawResource>, Kind)>;

impl SnapshotBuilder {
    /// A builder that has built nothing yet.
    pub fn new(options: SnapshotOptions) -> Self {
        let vocabulary = merge(std::iter::empty(), &mut Vec::new());
        Self {
            options,
            builds: 0,
            programs: Programs::new(Arc::new(vocabulary)),
            manifests: FxHashMap::default(),
            handlers: FxHashMap::default(),
            instances: FxHashMap::default(),
            rules: FxHashMap::default(),
            dynamic: FxHashMap::default(),
            unknown: FxHashMap::default(),
        }
    }

    /// The snapshot that is in effect before the first build: number 0, nothing in it.
    pub fn empty(&self) -> Arc<Snapshot> {
        let vocabulary = self.programs.vocabulary.clone();
        let counts =
            SnapshotCounts { attributes: vocabulary.declared().count() as u64, ..SnapshotCounts::default() };
        Arc::new(Snapshot {
            id: SnapshotId(0),
            vocabulary,
            handlers: Vec::new(),
            instances: Vec::new(),
            rules: Vec::new(),
            diagnostics: Vec::new(),
            counts,
            default_namespace: self.options.default_namespace.clone(),
        })
    }

    /// Builds the snapshot of `contents`. Whatever cannot be built is left out and diagnosed; nothing here fails.
    ///
    /// Cost: proportional to the number of resources for the comparison, to what changed for the work.
    pub fn build(&mut self, contents: &StoreContents) -> Arc<Snapshot> {
        self.builds += 1;
        let mut diagnostics = contents.diagnostics.clone();
        let resources: Resources<'_> =
            contents.resources.iter().map(|(key, resource)| (resource, self.kind(&key.kind))).collect();
        let same_vocabulary = self.build_vocabulary(&resources, &mut diagnostics);
        let mut changes = Changes::default();
        self.build_handlers(&resources, &mut changes);
        self.build_instances(&resources, same_vocabulary, &mut changes);
        self.build_rules(&resources, same_vocabulary, &changes);
        self.build_others(&resources);
        if changes.built {
            self.programs.sweep();
        }
        self.snapshot(&resources, diagnostics)
    }

    fn kind(&self, kind: &str) -> Kind {
        match kind {
            "attributemanifest" => Kind::Manifest,
            "handler" => Kind::Handler(None),
            "instance" => Kind::Instance(None),
            "rule" => Kind::Rule,
            "template" | "adapter" => Kind::Dynamic,
            kind => {
                let adapter = adapter::find(kind).filter(|_| self.options.adapter_kinds);
                let template = template::find(kind).filter(|_| self.options.template_kinds);
                match (adapter, template) {
                    (Some(adapter), _) => Kind::Handler(Some(adapter)),
                    (None, Some(template)) => Kind::Instance(Some(template)),
                    (None, None) => Kind::Unknown,
                }
            }
        }
    }

    fn language(&self, resource: &RawResource) -> Language {
        let annotated =
            || resource.annotations.get(LANGUAGE).map_or(Language::Cexl, |name| Language::from_name(name));
        self.options.language.unwrap_or_else(annotated)
    }

    /// The text about a resource that does not convert.
    fn failure(&self, key: &ResourceKey) -> impl Fn(&str) -> String + use<> {
        let (name, event) = (key.to_string(), if self.builds > 1 { "an event" } else { "spec" });
        move |text| format!("Failed to convert {name} {event}: {text}")
    }

    /// Brings manifests and the vocabulary up to date; true if the vocabulary is the one of the last build.
    fn build_vocabulary(&mut self, resources: &Resources<'_>, diagnostics: &mut Diagnostics) -> bool {
        let mut old = std::mem::take(&mut self.manifests);
        let manifests = resources.iter().filter(|(_, kind)| matches!(kind, Kind::Manifest));
        for (resource, _) in manifests.clone() {
            let failure = self.failure(&resource.key);
            let (unit, _) =
                Unit::update(old.remove(&resource.key), resource, true, |r| build_manifest(r, &failure));
            self.manifests.insert(resource.key.clone(), unit);
        }
        let units = manifests.filter_map(|(resource, _)| self.manifests.get(&resource.key));
        let in_force = units.filter_map(|u| Some((u.in_force.as_ref()?, u.state.as_ref()?)));
        let vocabulary = merge(in_force, diagnostics);
        if vocabulary.declared().eq(self.programs.vocabulary.declared()) {
            return true;
        }
        self.programs = Programs::new(Arc::new(vocabulary));
        false
    }

    fn build_handlers(&mut self, resources: &Resources<'_>, changes: &mut Changes) {
        let mut old = std::mem::take(&mut self.handlers);
        for (resource, kind) in resources {
            let Kind::Handler(adapter) = kind else { continue };
            let failure = self.failure(&resource.key);
            let (unit, change) = Unit::update(old.remove(&resource.key), resource, true, |r| match adapter {
                Some(adapter) => build_legacy_handler(r, *adapter, &failure),
                None => build_handler(r, &failure),
            });
            changes.note(&resource.key, change);
            self.handlers.insert(resource.key.clone(), unit);
        }
        changes.gone(old.into_keys());
    }

    fn build_instances(&mut self, resources: &Resources<'_>, same_vocabulary: bool, changes: &mut Changes) {
        let mut old = std::mem::take(&mut self.instances);
        for (resource, kind) in resources {
            let Kind::Instance(template) = kind else { continue };
            let failure = self.failure(&resource.key);
            let language = self.language(resource);
            let programs = &mut self.programs;
            let before = old.remove(&resource.key);
            let (unit, change) = Unit::update(before, resource, same_vocabulary, |r| match template {
                Some(template) => build_legacy_instance(r, template, language, programs, &failure),
                None => build_instance(r, language, programs, &failure),
            });
            changes.note(&resource.key, change);
            self.instances.insert(resource.key.clone(), unit);
        }
        changes.gone(old.into_keys());
    }

    fn build_rules(&mut self, resources: &Resources<'_>, same_vocabulary: bool, changes: &Changes) {
        let mut old = std::mem::take(&mut self.rules);
        let handlers = names(&self.handlers);
        let instances = names(&self.instances);
        let known = Known { handlers: by_name(&handlers), instances: by_name(&instances) };
        let mut rules = FxHashMap::default();
        rules.reserve(old.len());
        for (resource, _) in resources.iter().filter(|(_, kind)| matches!(kind, Kind::Rule)) {
            let before = old.remove(&resource.key);
            let change =
                before.as_ref().and_then(|u| u.state.as_ref()).map_or(Change::None, |s| changes.of(s));
            let usable = same_vocabulary && change != Change::Changed;
            let language = self.language(resource);
            let failure = self.failure(&resource.key);
            let programs = &mut self.programs;
            let (mut unit, rebuilt) = Unit::update(before, resource, usable, |r| {
                build_rule(r, language, &known, programs, &failure)
            });
            if change == Change::Moved
                && rebuilt != Change::Changed
                && let Some(state) = &mut unit.state
            {
                state.refresh(&known);
            }
            rules.insert(resource.key.clone(), unit);
        }
        self.rules = rules;
    }

    /// Resources of kinds that are not run here.
    fn build_others(&mut self, resources: &Resources<'_>) {
        let mut old = std::mem::take(&mut self.dynamic);
        let mut old_unknown = std::mem::take(&mut self.unknown);
        for (resource, kind) in resources {
            match kind {
                Kind::Dynamic => {
                    let failure = self.failure(&resource.key);
                    let before = old.remove(&resource.key);
                    let (unit, _) = Unit::update(before, resource, true, |r| dynamic::build(r, &failure));
                    self.dynamic.insert(resource.key.clone(), unit);
                }
                Kind::Unknown => {
                    let before = old_unknown.remove(&resource.key);
                    let (unit, _) =
                        Unit::update(before, resource, true, |r| Built::Done(Unknown, vec![unknown_kind(r)]));
                    self.unknown.insert(resource.key.clone(), unit);
                }
                _ => {}
            }
        }
    }

    fn snapshot(&self, resources: &Resources<'_>, mut diagnostics: Diagnostics) -> Arc<Snapshot> {
        let mut counts = SnapshotCounts {
            attributes: self.programs.vocabulary.declared().count() as u64,
            ..SnapshotCounts::default()
        };
        let (mut handlers, mut instances, mut rules) = (Vec::new(), Vec::new(), Vec::new());
        let outside = dynamic::Outside::new(&self.dynamic);
        outside.diagnose(&mut counts, &mut diagnostics);
        for (resource, kind) in resources {
            let key = &resource.key;
            match kind {
                Kind::Manifest => diagnostics.extend(problems(self.manifests.get(key))),
                Kind::Handler(_) => {
                    let Some(unit) = self.handlers.get(key) else { continue };
                    diagnostics.extend(unit.diagnostics());
                    match &unit.state {
                        Some(HandlerState::Static(config)) => handlers.push(config.clone()),
                        Some(HandlerState::Dynamic(adapter)) => {
                            counts.handler_configs += outside.handler(unit, adapter, &mut diagnostics);
                        }
                        _ => {}
                    }
                }
                Kind::Instance(_) => {
                    let Some(unit) = self.instances.get(key) else { continue };
                    diagnostics.extend(unit.diagnostics());
                    match &unit.state {
                        Some(InstanceState::Static(config)) => instances.push(config.clone()),
                        Some(InstanceState::Dynamic(template)) => {
                            let there = outside.instance(unit, template, &mut diagnostics);
                            counts.instance_configs += there;
                            counts.instance_config_errors += 1 - there;
                        }
                        Some(InstanceState::Uncompilable) => counts.instance_configs += 1,
                        Some(InstanceState::Broken) => counts.instance_config_errors += 1,
                        None => {}
                    }
                }
                Kind::Rule => {
                    let Some(unit) = self.rules.get(key) else { continue };
                    diagnostics.extend(unit.diagnostics());
                    if let Some(state) = &unit.state {
                        counts.rule_config_errors += state.errors;
                        counts.rule_config_match_errors += u64::from(state.broken_match);
                        rules.extend(state.config.clone());
                    }
                }
                Kind::Dynamic => diagnostics.extend(problems(self.dynamic.get(key))),
                Kind::Unknown => diagnostics.extend(problems(self.unknown.get(key))),
            }
        }
        counts.handler_configs += handlers.len() as u64;
        counts.instance_configs += instances.len() as u64;
        counts.rule_configs = rules.len() as u64;
        // Stable: within a namespace they come by name.
        rules.sort_by_key(|rule| rule.key.namespace != self.options.default_namespace);
        sort(&mut diagnostics);
        Arc::new(Snapshot {
            id: SnapshotId(self.builds),
            vocabulary: self.programs.vocabulary.clone(),
            handlers,
            instances,
            rules,
            diagnostics,
            counts,
            default_namespace: self.options.default_namespace.clone(),
        })
    }
}

fn problems<T: Located>(unit: Option<&Unit<T>>) -> impl Iterator<Item = Diagnostic> + '_ {
    unit.into_iter().flat_map(Unit::diagnostics)
}

/// Orders diagnostics by file, place and code.
pub(super) fn sort(diagnostics: &mut Diagnostics) {
    diagnostics.sort_by(|a, b| {
        let place = |d: &Diagnostic| d.span.map(|s| (s.start.line, s.start.column));
        a.file.cmp(&b.file).then_with(|| place(a).cmp(&place(b))).then_with(|| a.code.cmp(b.code))
    });
}

fn names<T>(units: &FxHashMap<ResourceKey, Unit<T>>) -> Vec<(String, &T)> {
    units.iter().filter_map(|(key, unit)| Some((key.to_string(), unit.state.as_ref()?))).collect()
}

fn by_name<'n, T>(names: &'n [(String, &'n T)]) -> FxHashMap<&'n str, &'n T> {
    names.iter().map(|(name, state)| (name.as_str(), *state)).collect()
}

fn unknown_kind(resource: &RawResource) -> Diagnostic {
    let kind = &*resource.key.kind;
    let modern = ["attributemanifest", "handler", "instance", "rule", "template", "adapter"];
    let adapters = INVENTORY.iter().map(|a| a.info().name);
    let candidates = modern.into_iter().chain(adapters).chain(TEMPLATES.iter().map(|t| t.name));
    let field = FieldPath::root().field("kind");
    let span = resource.document().at(&field).span;
    let mut problem = Diagnostic::warning(
        "kind-unknown",
        field,
        format!("kind `{kind}` is unknown; the resource is ignored"),
    )
    .with_resource(resource.key.to_string());
    problem.hint = suggestion(kind, candidates);
    problem.span = Some(span);
    problem
}

/// Which handlers and instances are not what they were.
#[derive(Default)]
struct Changes {
    changed: FxHashSet<String>,
    moved: FxHashSet<String>,
    /// Whether programs may have lost their users.
    built: bool,
}

impl Changes {
    fn note(&mut self, key: &ResourceKey, change: Change) {
        match change {
            Change::None => {}
            Change::Moved => {
                self.moved.insert(key.to_string());
            }
            Change::Changed => {
                self.built = true;
                self.changed.insert(key.to_string());
            }
        }
    }

    fn gone(&mut self, keys: impl Iterator<Item = ResourceKey>) {
        for key in keys {
            self.note(&key, Change::Changed);
        }
    }

    /// What that means for a rule.
    fn of(&self, rule: &RuleState) -> Change {
        let any =
            |set: &FxHashSet<String>| !set.is_empty() && rule.references.iter().any(|r| set.contains(&**r));
        match () {
            () if any(&self.changed) || (rule.advised && !self.changed.is_empty()) => Change::Changed,
            () if any(&self.moved) => Change::Moved,
            () => Change::None,
        }
    }
}

#[cfg(test)]
mod tests;
