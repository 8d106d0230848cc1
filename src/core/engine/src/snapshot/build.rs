//! Builds snapshots, each with the help of the one before.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::bindings::Bindings;
use super::dynamic::{self, Resource as DynamicResource};
use super::extension::{Assembly, Decoded, Extension, Registry};
use super::handlers::{HandlerState, build_handler, build_legacy_handler};
use super::instances::{InstanceState, build_instance, build_legacy_instance};
use super::memo::{Built, Change, Located, Programs, Unit, Units};
use super::model::{HandlerConfig, InstanceConfig, Rules, Snapshot, SnapshotCounts, SnapshotId};
use super::rules::{Known, Names, RuleState, build_rule};
use super::vocabulary::{Manifest, build_manifest, merge};
use crate::adapter::ErasedAdapter;
use crate::template::{self, TEMPLATES, TemplateInfo};
use mixer_base::shared_map::SharedMap;
use mixer_config::message::suggestion;
use mixer_config::store::StoreContents;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Origin, RawResource, ResourceKey};
use mixer_expr::Language;

/// The annotation that selects the language of a rule or instance.
const LANGUAGE: &str = "policy.istio.io/lang";

/// What building depends on beside the resources.
#[derive(Debug, Clone)]
pub struct SnapshotOptions {
    /// What configuration may refer to.
    pub registry: Registry,
    /// Namespace of mesh-wide rules.
    pub default_namespace: Arc<str>,
    /// The language of all resources, whatever their annotations say: the environment variable `ISTIO_LANG`.
    pub language: Option<Language>,
    /// Whether the kinds named like adapters are known.
    pub adapter_kinds: bool,
    /// Whether the kinds named like templates are known.
    pub template_kinds: bool,
}

impl SnapshotOptions {
    /// The defaults of the server, over what configuration may refer to.
    pub fn new(registry: Registry) -> Self {
        Self {
            registry,
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
/// else is the same `Arc` as before, in chunks that both snapshots share. A full build and an incremental one give the same
/// snapshot, except that a resource whose new version does not convert stays in force in its old one.
#[derive(Debug)]
pub struct SnapshotBuilder {
    options: SnapshotOptions,
    builds: u64,
    programs: Programs,
    names: Names,
    /// What the last build was made of.
    resources: SharedMap<Arc<RawResource>>,
    manifests: BTreeMap<ResourceKey, Unit<Manifest>>,
    /// Attributes that manifests disagree about.
    conflicts: Diagnostics,
    handlers: Units<HandlerState>,
    instances: Units<InstanceState>,
    rules: Units<RuleState>,
    dynamic: FxHashMap<ResourceKey, Unit<DynamicResource>>,
    /// Resources of extensions.
    extended: BTreeMap<ResourceKey, Unit<Decoded>>,
    assembly: Assembly,
    unknown: Units<Unknown>,
    known: Known,
    bindings: Bindings,
    /// What the next snapshot is made from, kept up to date.
    parts: Parts,
}

/// Parts of a snapshot.
#[derive(Debug, Default)]
struct Parts {
    handlers: SharedMap<Arc<HandlerConfig>>,
    instances: SharedMap<Arc<InstanceConfig>>,
    rules: Rules,
    rule_errors: u64,
    broken_matches: u64,
    /// Counts and problems of what is out of process and what refers to it, until any of that changes.
    outside: Option<(SnapshotCounts, Diagnostics)>,
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
    Extended(&'static dyn Extension),
    Unknown,
}

/// What is to be looked at in a build.
#[derive(Default)]
struct Work<'c> {
    /// Resources that are new or other ones than before.
    changed: Vec<(&'c Arc<RawResource>, Kind)>,
    gone: Vec<(&'c ResourceKey, Kind)>,
}

impl<'c> Work<'c> {
    /// Whether any resource of a kind is among it.
    fn has(&self, kind: impl Fn(Kind) -> bool) -> bool {
        self.changed.iter().any(|(_, k)| kind(*k)) || self.gone.iter().any(|(_, k)| kind(*k))
    }

    /// Everything of a kind: what changed, or all there is if that is asked for.
    fn of(
        &self,
        all: Option<&'c SharedMap<Arc<RawResource>>>,
        builder: &SnapshotBuilder,
        kind: impl Fn(Kind) -> bool,
    ) -> Vec<(&'c Arc<RawResource>, Kind)> {
        match all {
            None => self.changed.iter().copied().filter(|(_, k)| kind(*k)).collect(),
            Some(all) => {
                all.iter().map(|r| (r, builder.kind(&r.key.kind))).filter(|(_, k)| kind(*k)).collect()
            }
        }
    }

    fn gone(&self, kind: impl Fn(Kind) -> bool) -> impl Iterator<Item = &'c ResourceKey> {
        self.gone.iter().filter(move |(_, k)| kind(*k)).map(|(key, _)| *key)
    }
}

impl SnapshotBuilder {
    /// A builder that has built nothing yet.
    pub fn new(options: SnapshotOptions) -> Self {
        let vocabulary = merge(std::iter::empty(), options.registry, &mut Vec::new());
        let assembly = Assembly::new(options.registry, &BTreeMap::new(), &vocabulary);
        Self {
            options,
            builds: 0,
            programs: Programs::new(Arc::new(vocabulary)),
            names: Names::default(),
            resources: SharedMap::default(),
            manifests: BTreeMap::new(),
            conflicts: Diagnostics::new(),
            handlers: Units::default(),
            instances: Units::default(),
            rules: Units::default(),
            dynamic: FxHashMap::default(),
            extended: BTreeMap::new(),
            assembly,
            unknown: Units::default(),
            known: Known::default(),
            bindings: Bindings::default(),
            parts: Parts::default(),
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
            handlers: SharedMap::default(),
            instances: SharedMap::default(),
            rules: Rules::default(),
            bindings: Arc::default(),
            diagnostics: Vec::new(),
            extensions: self.assembly.configs.clone(),
            registry: self.options.registry,
            counts,
            default_namespace: self.options.default_namespace.clone(),
        })
    }

    /// Builds the snapshot of `contents`. Whatever cannot be built is left out and diagnosed; nothing here fails.
    ///
    /// Cost: proportional to what changed since the last build and what depends on that, and to the number of problems.
    pub fn build(&mut self, contents: &StoreContents) -> Arc<Snapshot> {
        self.builds += 1;
        let before = std::mem::replace(&mut self.resources, contents.resources.clone());
        let mut work = Work::default();
        for (old, new) in before.changes(&contents.resources, Arc::ptr_eq) {
            match (old, new) {
                (_, Some(new)) => work.changed.push((new, self.kind(&new.key.kind))),
                (Some(old), None) => work.gone.push((&old.key, self.kind(&old.key.kind))),
                (None, None) => {}
            }
        }
        let same_vocabulary = self.build_vocabulary(&work);
        let all = (!same_vocabulary).then_some(&contents.resources);
        let mut changes = Changes::default();
        self.build_handlers(&work, &mut changes);
        self.build_instances(&work, all, &mut changes);
        self.build_rules(&work, all, &changes);
        self.build_others(&work);
        self.build_extended(&work, same_vocabulary);
        if all.is_some() || work.has(|kind| !matches!(kind, Kind::Rule)) {
            self.parts.outside = None;
            self.names.sweep();
        }
        self.programs.sweep();
        self.snapshot(contents.diagnostics.clone())
    }

    fn kind(&self, kind: &str) -> Kind {
        match kind {
            "attributemanifest" => Kind::Manifest,
            "handler" => Kind::Handler(None),
            "instance" => Kind::Instance(None),
            "rule" => Kind::Rule,
            "template" | "adapter" => Kind::Dynamic,
            kind => {
                if let Some(extension) = self.options.registry.extension(kind) {
                    return Kind::Extended(extension);
                }
                let adapter =
                    self.options.registry.adapters.find(kind).filter(|_| self.options.adapter_kinds);
                let template = template::find(kind).filter(|_| self.options.template_kinds);
                match (adapter, template) {
                    (Some(adapter), _) => Kind::Handler(Some(adapter)),
                    (None, Some(template)) => Kind::Instance(Some(template)),
                    (None, None) => Kind::Unknown,
                }
            }
        }
    }

    /// Brings manifests and the vocabulary up to date; true if the vocabulary is the one of the last build.
    fn build_vocabulary(&mut self, work: &Work<'_>) -> bool {
        let is_manifest = |kind| matches!(kind, Kind::Manifest);
        if !work.has(is_manifest) {
            return true;
        }
        for key in work.gone(is_manifest) {
            self.manifests.remove(key);
        }
        for (resource, _) in work.of(None, self, is_manifest) {
            let failure = failure(self.builds, &resource.key);
            let old = self.manifests.remove(&resource.key);
            let (unit, _) = Unit::update(old, resource, true, |r| build_manifest(r, &failure));
            self.manifests.insert(resource.key.clone(), unit);
        }
        self.conflicts.clear();
        let units = self.manifests.values();
        let in_force = units.filter_map(|u| Some((u.in_force.as_ref()?, u.state.as_ref()?)));
        let vocabulary = merge(in_force, self.options.registry, &mut self.conflicts);
        if vocabulary.declared().eq(self.programs.vocabulary.declared()) {
            return true;
        }
        self.programs = Programs::new(Arc::new(vocabulary));
        false
    }

    fn build_handlers(&mut self, work: &Work<'_>, changes: &mut Changes) {
        let inventory = self.options.registry.adapters;
        let is_handler = |kind| matches!(kind, Kind::Handler(_));
        for key in work.gone(is_handler) {
            self.handlers.remove(key);
            self.known.handlers.remove(&*key.to_string());
            self.parts.handlers.remove(key);
            changes.note(key, Change::Changed);
        }
        for (resource, kind) in work.of(None, self, is_handler) {
            let Kind::Handler(adapter) = kind else { continue };
            let key = &resource.key;
            let failure = failure(self.builds, key);
            let change = self.handlers.update(resource, true, |r| match adapter {
                Some(adapter) => build_legacy_handler(r, adapter, &failure),
                None => build_handler(r, inventory, &failure),
            });
            changes.note(key, change);
            let state = self.handlers.state(key).cloned();
            match &state {
                Some(HandlerState::Static(config)) => {
                    self.bindings.replace_handler(config);
                    self.parts.handlers.put(config.clone());
                }
                _ => drop(self.parts.handlers.remove(key)),
            }
            match state {
                Some(state) => drop(self.known.handlers.insert(key.to_string().into(), state)),
                None => drop(self.known.handlers.remove(&*key.to_string())),
            }
        }
    }

    fn build_instances(
        &mut self,
        work: &Work<'_>,
        all: Option<&SharedMap<Arc<RawResource>>>,
        changes: &mut Changes,
    ) {
        let is_instance = |kind| matches!(kind, Kind::Instance(_));
        for key in work.gone(is_instance) {
            self.instances.remove(key);
            self.known.instances.remove(&*key.to_string());
            self.parts.instances.remove(key);
            changes.note(key, Change::Changed);
        }
        for (resource, kind) in work.of(all, self, is_instance) {
            let Kind::Instance(template) = kind else { continue };
            let key = &resource.key;
            let failure = failure(self.builds, key);
            let language = self.options.language_of(resource);
            let programs = &mut self.programs;
            let change = self.instances.update(resource, all.is_none(), |r| match template {
                Some(template) => build_legacy_instance(r, template, language, programs, &failure),
                None => build_instance(r, language, programs, &failure),
            });
            changes.note(key, change);
            let state = self.instances.state(key).cloned();
            match &state {
                Some(InstanceState::Static(config)) => drop(self.parts.instances.put(config.clone())),
                _ => drop(self.parts.instances.remove(key)),
            }
            match state {
                Some(state) => drop(self.known.instances.insert(key.to_string().into(), state)),
                None => drop(self.known.instances.remove(&*key.to_string())),
            }
        }
    }

    fn build_rules(&mut self, work: &Work<'_>, all: Option<&SharedMap<Arc<RawResource>>>, changes: &Changes) {
        let is_rule = |kind| matches!(kind, Kind::Rule);
        for key in work.gone(is_rule) {
            self.count_out(key);
            self.rules.remove(key);
            self.parts.rules.set(key, None, &self.options.default_namespace);
        }
        let usable = all.is_none();
        let mut dirty: Vec<(Arc<RawResource>, bool)> =
            work.of(all, self, is_rule).into_iter().map(|(resource, _)| (resource.clone(), usable)).collect();
        if usable && !changes.changed.is_empty() {
            // What changed itself is looked at only once.
            let own: FxHashSet<ResourceKey> =
                dirty.iter().map(|(resource, _)| resource.key.clone()).collect();
            for (resource, usable) in &mut dirty {
                *usable = self.rules.state(&resource.key).is_none_or(|state| !changes.reach(state));
            }
            let others = self.rules.iter().filter(|unit| !own.contains(&unit.latest.key));
            let reached = others.filter(|unit| unit.state.as_ref().is_some_and(|s| changes.reach(s)));
            dirty.extend(reached.map(|unit| (unit.latest.clone(), false)));
        }
        let bulk = dirty.len() > self.parts.rules.len() / 8;
        self.rules.reserve(dirty.len().saturating_sub(self.parts.rules.len()));
        for (resource, usable) in &dirty {
            self.build_rule(resource, *usable, !bulk);
        }
        if bulk {
            let configs = self.rules.iter().filter_map(|unit| unit.state.as_ref()?.config.clone());
            self.parts.rules = Rules::collect(configs.collect(), &self.options.default_namespace);
        }
    }

    /// Brings one rule up to date; puts it into the next snapshot only if that is asked for.
    fn build_rule(&mut self, resource: &Arc<RawResource>, usable: bool, put: bool) {
        let key = &resource.key;
        let failure = failure(self.builds, key);
        let language = self.options.language_of(resource);
        let before = self.rules.state(key).and_then(|state| state.config.clone());
        self.count_errors_out(key);
        let (known, names, programs) = (&self.known, &mut self.names, &mut self.programs);
        self.rules.update(resource, usable, |r| build_rule(r, language, known, names, programs, &failure));
        let state = self.rules.state(key);
        if let Some(state) = state {
            self.parts.rule_errors += state.errors;
            self.parts.broken_matches += u64::from(state.broken_match);
        }
        let after = state.and_then(|state| state.config.as_ref());
        if let (Some(before), Some(after)) = (&before, after)
            && Arc::ptr_eq(before, after)
        {
            return;
        }
        // In this order, so that what both need is never unused.
        after.into_iter().for_each(|rule| self.bindings.add(rule));
        before.iter().for_each(|rule| self.bindings.remove(rule));
        if put {
            self.parts.rules.set(key, after, &self.options.default_namespace);
        }
    }

    fn count_errors_out(&mut self, key: &ResourceKey) {
        if let Some(state) = self.rules.state(key) {
            self.parts.rule_errors -= state.errors;
            self.parts.broken_matches -= u64::from(state.broken_match);
        }
    }

    fn count_out(&mut self, key: &ResourceKey) {
        self.count_errors_out(key);
        if let Some(config) = self.rules.state(key).and_then(|state| state.config.as_ref()) {
            self.bindings.remove(config);
        }
    }

    /// Resources of kinds that are not run here.
    fn build_others(&mut self, work: &Work<'_>) {
        let registry = self.options.registry;
        for (key, kind) in &work.gone {
            match kind {
                Kind::Dynamic => drop(self.dynamic.remove(key)),
                Kind::Unknown => drop(self.unknown.remove(key)),
                _ => {}
            }
        }
        for (resource, kind) in &work.changed {
            match kind {
                Kind::Dynamic => {
                    let failure = failure(self.builds, &resource.key);
                    let before = self.dynamic.remove(&resource.key);
                    let (unit, _) = Unit::update(before, resource, true, |r| dynamic::build(r, &failure));
                    self.dynamic.insert(resource.key.clone(), unit);
                }
                Kind::Unknown => {
                    self.unknown
                        .update(resource, true, |r| Built::Done(Unknown, vec![unknown_kind(r, registry)]));
                }
                _ => {}
            }
        }
    }

    /// Resources of extensions; their configurations are put together again when one of them, or the vocabulary, has changed.
    fn build_extended(&mut self, work: &Work<'_>, same_vocabulary: bool) {
        let is_extended = |kind| matches!(kind, Kind::Extended(_));
        if same_vocabulary && !work.has(is_extended) {
            return;
        }
        for key in work.gone(is_extended) {
            self.extended.remove(key);
        }
        for (resource, kind) in &work.changed {
            let Kind::Extended(extension) = kind else { continue };
            let failure = failure(self.builds, &resource.key);
            let before = self.extended.remove(&resource.key);
            let (unit, _) = Unit::update(before, resource, true, |r| Decoded::build(*extension, r, &failure));
            self.extended.insert(resource.key.clone(), unit);
        }
        self.assembly = Assembly::new(self.options.registry, &self.extended, &self.programs.vocabulary);
    }

    fn snapshot(&mut self, mut diagnostics: Diagnostics) -> Arc<Snapshot> {
        let (mut counts, outside) = match &self.parts.outside {
            Some(outside) => outside.clone(),
            None => self.parts.outside.insert(self.outside()).clone(),
        };
        diagnostics.extend(self.conflicts.iter().cloned());
        diagnostics.extend(outside);
        let mut of_resources: Vec<(&ResourceKey, Diagnostic)> = Vec::new();
        for (key, unit) in &self.manifests {
            of_resources.extend(unit.diagnostics().map(|problem| (key, problem)));
        }
        of_resources.extend(self.handlers.problems());
        of_resources.extend(self.instances.problems());
        of_resources.extend(self.rules.problems());
        for (key, unit) in &self.dynamic {
            of_resources.extend(unit.diagnostics().map(|problem| (key, problem)));
        }
        for (key, unit) in &self.extended {
            of_resources.extend(unit.diagnostics().map(|problem| (key, problem)));
        }
        of_resources.extend(self.unknown.problems());
        of_resources.sort_by_key(|(key, _)| *key);
        diagnostics.extend(of_resources.into_iter().map(|(_, problem)| problem));
        diagnostics.extend(self.assembly.diagnostics.iter().cloned());
        sort(&mut diagnostics);
        counts.rule_configs = self.parts.rules.len() as u64;
        counts.rule_config_errors = self.parts.rule_errors;
        counts.rule_config_match_errors = self.parts.broken_matches;
        Arc::new(Snapshot {
            id: SnapshotId(self.builds),
            vocabulary: self.programs.vocabulary.clone(),
            handlers: self.parts.handlers.clone(),
            instances: self.parts.instances.clone(),
            rules: self.parts.rules.clone(),
            bindings: self.bindings.give(),
            diagnostics,
            extensions: self.assembly.configs.clone(),
            registry: self.options.registry,
            counts,
            default_namespace: self.options.default_namespace.clone(),
        })
    }

    /// Counts everything but rules, and diagnoses references to what is out of process.
    fn outside(&self) -> (SnapshotCounts, Diagnostics) {
        let mut diagnostics = Diagnostics::new();
        let mut counts = SnapshotCounts {
            attributes: self.programs.vocabulary.declared().count() as u64,
            handler_configs: self.parts.handlers.len() as u64,
            instance_configs: self.parts.instances.len() as u64,
            ..SnapshotCounts::default()
        };
        let outside = dynamic::Outside::new(&self.dynamic, self.options.registry.adapters);
        outside.diagnose(&mut counts, &mut diagnostics);
        let mut handlers: Vec<_> = self.handlers.iter().collect();
        handlers.sort_by(|a, b| a.latest.key.cmp(&b.latest.key));
        for unit in handlers {
            if let Some(HandlerState::Dynamic(adapter)) = &unit.state {
                counts.handler_configs += outside.handler(unit, adapter, &mut diagnostics);
            }
        }
        let mut instances: Vec<_> = self.instances.iter().collect();
        instances.sort_by(|a, b| a.latest.key.cmp(&b.latest.key));
        for unit in instances {
            match &unit.state {
                Some(InstanceState::Dynamic(template)) => {
                    let there = outside.instance(unit, template, &mut diagnostics);
                    counts.instance_configs += there;
                    counts.instance_config_errors += 1 - there;
                }
                Some(InstanceState::Uncompilable) => counts.instance_configs += 1,
                Some(InstanceState::Broken) => counts.instance_config_errors += 1,
                Some(InstanceState::Static(_)) | None => {}
            }
        }
        (counts, diagnostics)
    }
}

impl SnapshotOptions {
    fn language_of(&self, resource: &RawResource) -> Language {
        let annotated =
            || resource.annotations.get(LANGUAGE).map_or(Language::Cexl, |name| Language::from_name(name));
        self.language.unwrap_or_else(annotated)
    }
}

/// The text about a resource that does not convert, in a build of this number.
fn failure(build: u64, key: &ResourceKey) -> impl Fn(&str) -> String + use<'_> {
    move |text| format!("Failed to convert {key} {}: {text}", if build > 1 { "an event" } else { "spec" })
}

/// Orders diagnostics by file, place and code.
pub(super) fn sort(diagnostics: &mut Diagnostics) {
    diagnostics.sort_by(|a, b| {
        let place = |d: &Diagnostic| d.span.map(|s| (s.start.line, s.start.column));
        a.file.cmp(&b.file).then_with(|| place(a).cmp(&place(b))).then_with(|| a.code.cmp(b.code))
    });
}

fn unknown_kind(resource: &RawResource, registry: Registry) -> Diagnostic {
    let kind = &*resource.key.kind;
    let modern = ["attributemanifest", "handler", "instance", "rule", "template", "adapter"];
    let modern = modern.into_iter().chain(registry.kinds());
    let adapters = registry.adapters.names();
    let candidates = modern.chain(adapters).chain(TEMPLATES.iter().map(|t| t.name));
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

/// Handlers and instances that are not what they were, by full name. That they only stand elsewhere now is nothing to rules.
#[derive(Default)]
struct Changes {
    changed: FxHashSet<String>,
}

impl Changes {
    fn note(&mut self, key: &ResourceKey, change: Change) {
        if change == Change::Changed {
            self.changed.insert(key.to_string());
        }
    }

    /// Whether a rule depends on any of them.
    fn reach(&self, rule: &RuleState) -> bool {
        rule.advised || rule.references.iter().any(|name| self.changed.contains(&**name))
    }
}
