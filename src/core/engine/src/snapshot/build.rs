//! Builds snapshots, each from the previous build and the resources that changed.

mod changed;
mod together;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use changed::{ChangedNames, dependents_of};
use foldhash::HashSet;

use super::bindings::Bindings;
use super::extension::{ExtensionConfigs, ExtensionState};
use super::external::{self, ExternalOutline, ExternalTable};
use super::handlers::{HandlerState, build_handler, build_legacy_handler};
use super::instances::{InstanceState, build_instance, build_legacy_instance};
use super::interrupt::Interrupt;
use super::kind::{ResourceChanges, ResourceKind, misspelt, unknown_kind};
use super::known::{KnownResources, NamePool};
use super::model::{HandlerConfig, InstanceConfig, Rules, Snapshot, SnapshotCounts, SnapshotId};
use super::options::SnapshotOptions;
use super::programs::Programs;
use super::rules::{build_rule, may_enforce};
use super::text_budget;
use super::unit::{KeptUnit, Unit, UnitChange};
use super::units::{UnitTables, UnknownResource};
use super::vocabulary::{build_manifest, built_in, merge};
use mixer_attribute::ValueType;
use mixer_base::load::{self, Load, LoadId};
use mixer_base::shared_map::SharedMap;
use mixer_base::suggestion::SuggestionBudget;
use mixer_config::store::{StoreContents, Unread};
use mixer_config::{Diagnostic, Diagnostics, RawResource, ResourceKey};

/// The resources of a store.
type Resources = SharedMap<Arc<RawResource>>;

/// The steps of a build, in their order: a resource may depend on those of earlier steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BuildStage {
    /// Manifests.
    Vocabulary,
    /// Handlers and instances, built in or out of process.
    Parts,
    /// Rules.
    Rules,
    /// Resources of extensions.
    Extensions,
    /// Resources of unknown kinds, which have no effect.
    Ignored,
}

/// Builds snapshots from the contents of a store, incrementally.
///
/// A unit (manifest, handler, instance, rule) is rebuilt only if it or one of its dependencies changed; all other units are the same
/// `Arc`s as before, in chunks that both snapshots share. A full and an incremental build give equal snapshots, except that a
/// resource whose new version does not convert stays in force in its last good version.
#[derive(Debug)]
pub struct SnapshotBuilder {
    options: SnapshotOptions,
    builds: u64,
    programs: Programs,
    names: NamePool,
    /// The resources of the last build.
    resources: SharedMap<Arc<RawResource>>,
    units: UnitTables,
    known: KnownResources,
    /// Templates and adapters out of process.
    external: ExternalTable,
    outline: Arc<ExternalOutline>,
    bindings: Bindings,
    parts: SnapshotParts,
    interrupt: Interrupt,
    /// Resources that were refused since the last [`build`](Self::build) began, because others use the budget of patterns.
    over_budget: BTreeSet<ResourceKey>,
    /// What is left for suggestions since the last [`build`](Self::build) began.
    suggestions: SuggestionBudget,
    /// How far the build is.
    load: LoadId,
}

/// The parts of the next snapshot, updated unit by unit.
#[derive(Debug, Default)]
struct SnapshotParts {
    handlers: SharedMap<Arc<HandlerConfig>>,
    instances: SharedMap<Arc<InstanceConfig>>,
    rules: Rules,
    rule_errors: u64,
    broken_matches: u64,
    /// Counts of everything but rules, and problems of references out of process; `None` when outdated.
    external: Option<(SnapshotCounts, Diagnostics)>,
}

impl SnapshotBuilder {
    /// A builder whose first build is a full one.
    pub fn new(options: SnapshotOptions) -> Self {
        let vocabulary = merge(std::iter::empty(), &options, &mut Vec::new());
        let extensions = ExtensionConfigs::new(
            options.registry,
            &BTreeMap::new(),
            &vocabulary,
            &options.default_namespace,
        );
        let mut bindings = Bindings::default();
        bindings.replace_resources(&extensions.resources);
        Self {
            options,
            builds: 0,
            programs: Programs::new(Arc::new(vocabulary)),
            names: NamePool::default(),
            resources: SharedMap::default(),
            units: UnitTables::new(extensions),
            known: KnownResources::default(),
            external: ExternalTable::default(),
            outline: Arc::default(),
            bindings,
            parts: SnapshotParts::default(),
            interrupt: Interrupt::default(),
            over_budget: BTreeSet::new(),
            suggestions: SuggestionBudget::default(),
            load: LoadId::default(),
        }
    }

    /// Forgets everything but the number of builds: the next build is a full one. For a build that panicked or was interrupted.
    pub(crate) fn reset(&mut self) {
        let interrupt = self.interrupt.begin_again();
        *self = Self { builds: self.builds, interrupt, ..Self::new(self.options.clone()) };
    }

    /// Builds from now on ask `question` between two units, and end early once it says yes. Their snapshots are incomplete: the builder
    /// has to be [reset](Self::reset) if it [was interrupted](Self::is_interrupted). `None`: they do not end early.
    pub(crate) fn interrupt_if(&mut self, question: Option<Box<dyn Fn() -> bool + Send + Sync>>) {
        self.interrupt.ask(question);
    }

    /// Whether a build ended early since the last reset.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.is_due()
    }

    /// Whether what is done with a build is to end now, which then [was interrupted](Self::is_interrupted).
    pub(crate) fn ends_early(&self) -> bool {
        self.interrupt.check()
    }

    /// A snapshot without resources, with the id of the last build; 0 before the first.
    pub fn empty(&self) -> Arc<Snapshot> {
        let vocabulary = Arc::new(merge(std::iter::empty(), &self.options, &mut Vec::new()));
        let counts =
            SnapshotCounts { attributes: vocabulary.declared().count() as u64, ..SnapshotCounts::default() };
        let SnapshotOptions { registry, default_namespace, .. } = &self.options;
        let extensions = ExtensionConfigs::new(*registry, &BTreeMap::new(), &vocabulary, default_namespace);
        Arc::new(Snapshot {
            id: SnapshotId(self.builds),
            vocabulary,
            handlers: SharedMap::default(),
            instances: SharedMap::default(),
            rules: Rules::default(),
            external: Arc::default(),
            bindings: Arc::default(),
            diagnostics: Vec::new(),
            extensions: extensions.configs,
            extension_resources: extensions.assembled,
            registry: self.options.registry,
            counts,
            default_namespace: self.options.default_namespace.clone(),
            secrets: extensions.secrets,
        })
    }

    /// Builds the snapshot of `contents`. Resources that cannot be built are left out and diagnosed.
    ///
    /// Cost: proportional to the resources that changed since the last build, their dependents, and the number of problems.
    pub fn build(&mut self, contents: &StoreContents) -> Arc<Snapshot> {
        self.builds += 1;
        self.suggestions = SuggestionBudget::default();
        // What uses the budget may be gone.
        let again = std::mem::take(&mut self.over_budget);
        self.build_changes(&contents.resources, &contents.diagnostics, again)
    }

    /// Builds the last snapshot again, of other resources; it has the same id. `read` are the problems of the store. Cost: as
    /// [`build`](Self::build).
    pub(crate) fn rebuild(&mut self, resources: &Resources, read: &Diagnostics) -> Arc<Snapshot> {
        self.build_changes(resources, read, BTreeSet::new())
    }

    /// Builds what changed, and `again` what may have another result now.
    fn build_changes(
        &mut self,
        resources: &Resources,
        read: &Diagnostics,
        again: BTreeSet<ResourceKey>,
    ) -> Arc<Snapshot> {
        let mut suggestions = std::mem::replace(&mut self.suggestions, SuggestionBudget::none());
        let snapshot = suggestions.run(|| text_budget::run(|| self.build_units(resources, read, again)));
        self.suggestions = suggestions;
        snapshot
    }

    fn build_units(
        &mut self,
        resources: &Resources,
        read: &Diagnostics,
        again: BTreeSet<ResourceKey>,
    ) -> Arc<Snapshot> {
        let before = std::mem::replace(&mut self.resources, resources.clone());
        let work = ResourceChanges::between(&before, resources, &self.options, again);
        let load = Load::begin("configuration", "resources", "built", work.changed.len());
        self.load = load.id();
        let same_vocabulary = self.build_vocabulary(&work);
        let all = (!same_vocabulary).then_some(resources);
        let mut changes = ChangedNames::default();
        let external = self.build_external(&work);
        self.build_handlers(&work, &external, &mut changes);
        self.build_instances(&work, all, &external, &mut changes);
        self.build_rules(&work, all, &changes);
        self.build_others(&work);
        self.build_extensions(&work, same_vocabulary);
        if all.is_some() || work.has(|kind| !matches!(kind, ResourceKind::Rule)) {
            self.parts.external = None;
            self.names.sweep();
        }
        self.programs.sweep();
        self.load = LoadId::default();
        drop(load);
        self.units.bound_texts(text_budget::left());
        self.snapshot(read.clone())
    }

    /// Of `due` resources of a kind, those that depend on others are known only now.
    fn count_due(&self, work: &ResourceChanges<'_>, due: usize, kind: impl Fn(ResourceKind) -> bool) {
        let known = work.changed.iter().filter(|(_, of)| kind(*of)).count();
        load::documents_known(self.load, due.saturating_sub(known));
    }

    /// Another resource is built.
    fn count_built(&self) {
        load::documents_done(self.load, 1);
    }

    /// Resources that were refused since the last [`build`](Self::build) began because others use the budget of patterns, perhaps for a
    /// configuration that is being replaced: they may build later.
    pub(crate) fn over_budget(&self) -> &BTreeSet<ResourceKey> {
        &self.over_budget
    }

    /// The settings.
    pub(crate) fn options(&self) -> &SnapshotOptions {
        &self.options
    }

    /// How resources of a kind are built; for the order in which problems are corrected.
    pub(crate) fn stage_of(&self, kind: &str) -> BuildStage {
        match ResourceKind::find(kind, &self.options) {
            ResourceKind::Manifest => BuildStage::Vocabulary,
            ResourceKind::Unknown => BuildStage::Ignored,
            ResourceKind::Rule => BuildStage::Rules,
            ResourceKind::Extended(_) => BuildStage::Extensions,
            ResourceKind::Handler(_) | ResourceKind::Instance(_) | ResourceKind::External => {
                BuildStage::Parts
            }
        }
    }

    /// The type of an attribute that no manifest declares, if it has one.
    pub(crate) fn built_in_type(&self, name: &str) -> Option<ValueType> {
        built_in(&self.options).find(|(known, _)| *known == name).map(|(_, value_type)| *value_type)
    }

    /// The adapter that reads the resources of a kind, if one does.
    pub(crate) fn adapter_reading(&self, kind: &str) -> Option<&'static str> {
        self.options.registry.extension(kind)?.adapter()
    }

    /// The adapters that read resources.
    pub(crate) fn reading_adapters(&self) -> Vec<&'static str> {
        self.options.registry.extensions.iter().filter_map(|extension| extension.adapter()).collect()
    }

    /// The full names that the last build of a resource looked up: of a rule, and of what is out of process.
    pub(crate) fn references_of(&self, key: &ResourceKey) -> Vec<Arc<str>> {
        self.units.references_of(key)
    }

    /// The resources of the last build that go on in the version of an earlier one, because the latest does not convert.
    pub(crate) fn kept(&self) -> Vec<KeptUnit> {
        self.units.kept()
    }

    /// What could not be read of a store, with the resources whose kind is misspelt.
    pub(crate) fn unread(&self, read: &StoreContents) -> Vec<Unread> {
        let mut unread = read.unread();
        unread.extend(misspelt(&read.resources, &self.options).iter().map(|resource| {
            let mut problem = unknown_kind(resource, self.options.registry);
            problem.file = Some(Arc::clone(&resource.origin.file));
            problem.span = problem.span.map(|span| resource.origin.in_file(span));
            Unread::by(&problem, &resource.origin.file).with_text(&resource.origin.text)
        }));
        unread
    }

    /// Whether a rule might decide about requests if it were valid: false only if it is in dry run, or certainly only reports.
    pub fn may_enforce(&self, rule: &RawResource) -> bool {
        may_enforce(rule, &self.known)
    }

    /// Updates manifests and vocabulary. True if the vocabulary did not change.
    fn build_vocabulary(&mut self, work: &ResourceChanges<'_>) -> bool {
        let is_manifest = |kind| matches!(kind, ResourceKind::Manifest);
        if !work.has(is_manifest) {
            return true;
        }
        for key in work.removed(is_manifest) {
            self.units.manifests.remove(key);
        }
        for (resource, _) in work.of(None, &self.options, is_manifest) {
            let failure = failure(self.builds, &resource.key);
            let old = self.units.manifests.remove(&resource.key);
            let (unit, _) = Unit::update(old, resource, true, |r| build_manifest(r, &failure));
            self.count_built();
            self.units.manifests.insert(resource.key.clone(), unit.bounded());
        }
        self.units.conflicts.clear();
        let units = self.units.manifests.values();
        let in_force = units.filter_map(|u| Some((u.in_force.as_ref()?, u.state.as_ref()?)));
        let vocabulary = merge(in_force, &self.options, &mut self.units.conflicts);
        if vocabulary.declared().eq(self.programs.vocabulary.declared()) {
            return true;
        }
        self.programs = Programs::new(Arc::new(vocabulary));
        false
    }

    /// Updates units of templates and adapters out of process. Returns the handlers and instances that depend on such, if any changed.
    fn build_external(&mut self, work: &ResourceChanges<'_>) -> Vec<Arc<RawResource>> {
        let is_external = |kind| matches!(kind, ResourceKind::External);
        if !work.has(is_external) {
            return Vec::new();
        }
        for key in work.removed(is_external) {
            self.units.external.remove(key);
        }
        for (resource, _) in work.of(None, &self.options, is_external) {
            if self.interrupt.check() {
                return Vec::new();
            }
            let failure = failure(self.builds, &resource.key);
            let before = self.units.external.remove(&resource.key);
            let (unit, _) = Unit::update(before, resource, true, |r| external::build(r, &failure));
            self.count_built();
            self.units.external.insert(resource.key.clone(), unit.bounded());
        }
        self.external = ExternalTable::new(&self.units.external);
        self.outline = Arc::new(ExternalOutline::new(&self.units.external, &self.external));
        let handlers = self.units.handlers.iter();
        let handlers = handlers.filter(|unit| matches!(unit.state, Some(HandlerState::External { .. })));
        let instances = self.units.instances.iter();
        let instances = instances.filter(|unit| matches!(unit.state, Some(InstanceState::External { .. })));
        let dependents = handlers.map(|unit| &unit.latest).chain(instances.map(|unit| &unit.latest));
        // What is gone is not built again.
        dependents.filter(|resource| self.resources.get(&resource.key).is_some()).cloned().collect()
    }

    fn build_handlers(
        &mut self,
        work: &ResourceChanges<'_>,
        external: &[Arc<RawResource>],
        changes: &mut ChangedNames,
    ) {
        let inventory = self.options.registry.adapters;
        let is_handler = |kind| matches!(kind, ResourceKind::Handler(_));
        for key in work.removed(is_handler) {
            self.units.handlers.remove(key);
            self.known.handlers.remove(&*key.to_string());
            self.parts.handlers.remove(key);
            changes.note(key, UnitChange::Changed);
        }
        let mut due = work.of(None, &self.options, is_handler);
        let (dependents, is_dependent) = dependents_of(external, &due, "handler");
        due.extend(dependents.into_iter().map(|resource| (resource, ResourceKind::Handler(None))));
        self.count_due(work, due.len(), is_handler);
        for (resource, kind) in due {
            let ResourceKind::Handler(adapter) = kind else { continue };
            if self.interrupt.check() {
                return;
            }
            self.count_built();
            let key = &resource.key;
            let failure = failure(self.builds, key);
            let (table, usable) = (&self.external, !is_dependent.contains(key));
            let change = self.units.handlers.update(resource, usable, |r| match adapter {
                Some(adapter) => build_legacy_handler(r, adapter, &failure),
                None => build_handler(r, inventory, table, &failure),
            });
            changes.note(key, change);
            let state = self.units.handlers.state(key).cloned();
            match state.as_ref().and_then(HandlerState::config) {
                Some(config) => {
                    self.bindings.replace_handler(config);
                    self.parts.handlers.put(config.clone());
                }
                None => drop(self.parts.handlers.remove(key)),
            }
            match state {
                Some(state) => drop(self.known.handlers.insert(key.to_string().into(), state)),
                None => drop(self.known.handlers.remove(&*key.to_string())),
            }
        }
    }

    fn build_instances(
        &mut self,
        work: &ResourceChanges<'_>,
        all: Option<&SharedMap<Arc<RawResource>>>,
        external: &[Arc<RawResource>],
        changes: &mut ChangedNames,
    ) {
        let is_instance = |kind| matches!(kind, ResourceKind::Instance(_));
        for key in work.removed(is_instance) {
            self.programs.shares.release(key);
            self.units.instances.remove(key);
            self.known.instances.remove(&*key.to_string());
            self.parts.instances.remove(key);
            changes.note(key, UnitChange::Changed);
        }
        let mut due = work.of(all, &self.options, is_instance);
        let (dependents, is_dependent) = dependents_of(external, &due, "instance");
        due.extend(dependents.into_iter().map(|resource| (resource, ResourceKind::Instance(None))));
        self.count_due(work, due.len(), is_instance);
        for (resource, kind) in due {
            let ResourceKind::Instance(template) = kind else { continue };
            if self.interrupt.check() {
                return;
            }
            self.count_built();
            let key = &resource.key;
            let failure = failure(self.builds, key);
            let language = self.options.language_of(resource);
            let (table, programs) = (&self.external, &mut self.programs);
            let usable = all.is_none() && !work.is_due_again(key) && !is_dependent.contains(key);
            let change = self.units.instances.update(resource, usable, |r| {
                programs.shares.begin(key);
                match template {
                    Some(template) => build_legacy_instance(r, template, language, programs, &failure),
                    None => build_instance(r, language, table, programs, &failure),
                }
            });
            if self.programs.shares.take_refused() {
                self.over_budget.insert(key.clone());
            }
            changes.note(key, change);
            let state = self.units.instances.state(key).cloned();
            match state.as_ref().and_then(InstanceState::config) {
                Some(config) => drop(self.parts.instances.put(config.clone())),
                None => drop(self.parts.instances.remove(key)),
            }
            match state {
                Some(state) => drop(self.known.instances.insert(key.to_string().into(), state)),
                None => drop(self.known.instances.remove(&*key.to_string())),
            }
        }
    }

    fn build_rules(
        &mut self,
        work: &ResourceChanges<'_>,
        all: Option<&SharedMap<Arc<RawResource>>>,
        changes: &ChangedNames,
    ) {
        let is_rule = |kind| matches!(kind, ResourceKind::Rule);
        for key in work.removed(is_rule) {
            self.uncount(key);
            self.programs.shares.release(key);
            self.units.rules.remove(key);
            self.parts.rules.set(key, None, &self.options.default_namespace);
        }
        let usable = all.is_none();
        let mut dirty: Vec<(Arc<RawResource>, bool)> = work
            .of(all, &self.options, is_rule)
            .into_iter()
            .map(|(resource, _)| (resource.clone(), usable && !work.is_due_again(&resource.key)))
            .collect();
        if usable && !changes.changed.is_empty() {
            // A rule that changed itself is built only once.
            let own: HashSet<ResourceKey> = dirty.iter().map(|(resource, _)| resource.key.clone()).collect();
            for (resource, usable) in &mut dirty {
                *usable &= self.units.rules.state(&resource.key).is_none_or(|state| !changes.reach(state));
            }
            let others = self.units.rules.iter().filter(|unit| !own.contains(&unit.latest.key));
            let reached = others.filter(|unit| unit.state.as_ref().is_some_and(|s| changes.reach(s)));
            dirty.extend(reached.map(|unit| (unit.latest.clone(), false)));
        }
        let bulk = dirty.len() > self.parts.rules.len() / 8;
        self.units.rules.reserve(dirty.len().saturating_sub(self.parts.rules.len()));
        self.count_due(work, dirty.len(), is_rule);
        for (resource, usable) in &dirty {
            if self.interrupt.check() {
                return;
            }
            self.count_built();
            self.build_rule(resource, *usable, !bulk);
        }
        // What was replaced after them may have used the budget.
        for (resource, _) in &dirty {
            if self.over_budget.remove(&resource.key) && !self.interrupt.check() {
                self.build_rule(resource, false, !bulk);
            }
        }
        if bulk {
            let configs = self.units.rules.iter().filter_map(|unit| unit.state.as_ref()?.config.clone());
            self.parts.rules = Rules::collect(configs.collect(), &self.options.default_namespace);
        }
    }

    /// Updates one rule. `put`: also in the parts of the next snapshot.
    fn build_rule(&mut self, resource: &Arc<RawResource>, usable: bool, put: bool) {
        let key = &resource.key;
        let failure = failure(self.builds, key);
        let language = self.options.language_of(resource);
        let before = self.units.rules.state(key).and_then(|state| state.config.clone());
        self.uncount_errors(key);
        let (known, names, programs) = (&self.known, &mut self.names, &mut self.programs);
        let mesh = &*self.options.default_namespace;
        self.units.rules.update(resource, usable, |r| {
            programs.shares.begin(key);
            build_rule(r, language, known, names, programs, mesh, &failure)
        });
        if self.programs.shares.take_refused() {
            self.over_budget.insert(key.clone());
        }
        let state = self.units.rules.state(key);
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
        // Added first, so that a binding that both versions use is never dropped.
        after.into_iter().for_each(|rule| self.bindings.add(rule));
        before.iter().for_each(|rule| self.bindings.remove(rule));
        if put {
            self.parts.rules.set(key, after, &self.options.default_namespace);
        }
    }

    fn uncount_errors(&mut self, key: &ResourceKey) {
        if let Some(state) = self.units.rules.state(key) {
            self.parts.rule_errors -= state.errors;
            self.parts.broken_matches -= u64::from(state.broken_match);
        }
    }

    fn uncount(&mut self, key: &ResourceKey) {
        self.uncount_errors(key);
        if let Some(config) = self.units.rules.state(key).and_then(|state| state.config.as_ref()) {
            self.bindings.remove(config);
        }
    }

    /// Updates units of unknown kinds.
    fn build_others(&mut self, work: &ResourceChanges<'_>) {
        let registry = self.options.registry;
        let is_unknown = |kind| matches!(kind, ResourceKind::Unknown);
        for key in work.removed(is_unknown) {
            self.units.unknown.remove(key);
        }
        for (resource, _) in work.of(None, &self.options, is_unknown) {
            self.units.unknown.update(resource, true, |r| UnknownResource::build(r, registry));
            self.count_built();
        }
    }

    /// Updates units of extensions, and their configurations when a unit or the vocabulary changed.
    fn build_extensions(&mut self, work: &ResourceChanges<'_>, same_vocabulary: bool) {
        let is_extended = |kind| matches!(kind, ResourceKind::Extended(_));
        if same_vocabulary && !work.has(is_extended) {
            return;
        }
        for key in work.removed(is_extended) {
            self.units.extended.remove(key);
        }
        for (resource, kind) in &work.changed {
            let ResourceKind::Extended(extension) = kind else { continue };
            if self.interrupt.check() {
                return;
            }
            let failure = failure(self.builds, &resource.key);
            let before = self.units.extended.remove(&resource.key);
            let (unit, _) =
                Unit::update(before, resource, true, |r| ExtensionState::build(*extension, r, &failure));
            self.count_built();
            self.units.extended.insert(resource.key.clone(), unit.bounded());
        }
        let SnapshotOptions { registry, default_namespace, .. } = &self.options;
        let (extended, vocabulary) = (&self.units.extended, &self.programs.vocabulary);
        self.units.extensions = ExtensionConfigs::new(*registry, extended, vocabulary, default_namespace);
        self.bindings.replace_resources(&self.units.extensions.resources);
    }

    fn snapshot(&mut self, mut diagnostics: Diagnostics) -> Arc<Snapshot> {
        let (mut counts, external) = match &self.parts.external {
            Some(external) => external.clone(),
            None => self.parts.external.insert(self.count_all_but_rules()).clone(),
        };
        diagnostics.extend(self.units.conflicts.iter().cloned());
        diagnostics.extend(external);
        diagnostics.extend(self.units.diagnostics());
        let bindings = self.bindings.publish();
        diagnostics.extend(self.problems_together(&bindings));
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
            external: Arc::clone(&self.outline),
            bindings,
            diagnostics,
            extensions: self.units.extensions.configs.clone(),
            extension_resources: Arc::clone(&self.units.extensions.assembled),
            registry: self.options.registry,
            counts,
            default_namespace: self.options.default_namespace.clone(),
            secrets: Arc::clone(&self.units.extensions.secrets),
        })
    }

    fn count_all_but_rules(&self) -> (SnapshotCounts, Diagnostics) {
        let mut counts = SnapshotCounts {
            attributes: self.programs.vocabulary.declared().count() as u64,
            handler_configs: self.parts.handlers.len() as u64,
            instance_configs: self.parts.instances.len() as u64,
            ..SnapshotCounts::default()
        };
        let diagnostics = self.units.count_external(&self.external, &mut counts);
        (counts, diagnostics)
    }
}

/// Makes the log text for a resource that does not convert, in the build with this number.
fn failure(build: u64, key: &ResourceKey) -> impl Fn(&str) -> String + use<'_> {
    move |text| format!("Failed to convert {key} {}: {text}", if build > 1 { "an event" } else { "spec" })
}

/// Orders diagnostics by file, position and code.
fn sort(diagnostics: &mut Diagnostics) {
    diagnostics.sort_by(|a, b| {
        let position = |d: &Diagnostic| d.span.map(|s| (s.start.line, s.start.column));
        a.file.cmp(&b.file).then_with(|| position(a).cmp(&position(b))).then_with(|| a.code.cmp(b.code))
    });
}
