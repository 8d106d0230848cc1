//! The units of all kinds, with their diagnostics and counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;

use super::extension::{ExtensionConfigs, ExtensionState, Registry};
use super::external::{self, ExternalTable, ExternalUnits};
use super::handlers::HandlerState;
use super::instances::InstanceState;
use super::kind::unknown_kind;
use super::model::SnapshotCounts;
use super::rules::RuleState;
use super::text_budget::{Class, TextCounts};
use super::unit::{Built, KeptUnit, Located, Unit, Units, WithTexts};
use super::vocabulary::Manifest;
use mixer_config::{Diagnostic, Diagnostics, Origin, RawResource, ResourceKey};

/// The state of a resource of unknown kind.
#[derive(Debug)]
pub(super) struct UnknownResource;

impl Located for UnknownResource {
    fn relocate(&mut self, _: &Origin) {}
}

impl UnknownResource {
    pub(super) fn build(resource: &RawResource, registry: Registry) -> Built<Self> {
        Built::Done(Self, vec![unknown_kind(resource, registry)])
    }
}

/// The units of all kinds.
#[derive(Debug)]
pub(super) struct UnitTables {
    pub(super) manifests: BTreeMap<ResourceKey, Unit<Manifest>>,
    /// Attributes with different types in several manifests.
    pub(super) conflicts: Diagnostics,
    pub(super) handlers: Units<HandlerState>,
    pub(super) instances: Units<InstanceState>,
    pub(super) rules: Units<RuleState>,
    pub(super) external: ExternalUnits,
    pub(super) extended: BTreeMap<ResourceKey, Unit<ExtensionState>>,
    pub(super) extensions: ExtensionConfigs,
    pub(super) unknown: Units<UnknownResource>,
}

impl UnitTables {
    /// Tables without units.
    pub(super) fn new(extensions: ExtensionConfigs) -> Self {
        Self {
            manifests: BTreeMap::new(),
            conflicts: Diagnostics::new(),
            handlers: Units::default(),
            instances: Units::default(),
            rules: Units::default(),
            external: HashMap::default(),
            extended: BTreeMap::new(),
            extensions,
            unknown: Units::default(),
        }
    }

    /// The resources that go on in their previous version because the latest does not convert.
    pub(super) fn kept(&self) -> Vec<KeptUnit> {
        let manifests = self.manifests.values().filter_map(Unit::kept);
        let parts = self.handlers.kept().chain(self.instances.kept()).chain(self.rules.kept());
        let external = self.external.values().filter_map(Unit::kept);
        let extended = self.extended.values().filter_map(Unit::kept);
        manifests.chain(parts).chain(external).chain(extended).collect()
    }

    /// Takes the texts of the last problems of resources of those kinds of which there may be very many, as far as they are more than `most`.
    pub(super) fn bound_texts(&mut self, most: TextCounts) {
        let mut tables: [&mut dyn WithTexts; 4] =
            [&mut self.handlers, &mut self.instances, &mut self.rules, &mut self.unknown];
        for class in Class::ALL {
            loop {
                let texts: usize = tables.iter().map(|table| table.texts().counts().get(class)).sum();
                let excess = texts.saturating_sub(most.get(class));
                let last = tables.iter_mut().max_by(|a, b| a.texts().last(class).cmp(&b.texts().last(class)));
                let Some(last) = last.filter(|_| excess > 0) else { break };
                if last.abridge_last(class, excess) == 0 {
                    break;
                }
            }
        }
    }

    /// The problems of all units, by key, then those across extension resources.
    pub(super) fn diagnostics(&self) -> Diagnostics {
        let mut of_resources: Vec<(&ResourceKey, Diagnostic)> = Vec::new();
        for (key, unit) in &self.manifests {
            of_resources.extend(unit.diagnostics().map(|problem| (key, problem)));
        }
        of_resources.extend(self.handlers.problems());
        of_resources.extend(self.instances.problems());
        of_resources.extend(self.rules.problems());
        for (key, unit) in &self.external {
            of_resources.extend(unit.diagnostics().map(|problem| (key, problem)));
        }
        for (key, unit) in &self.extended {
            of_resources.extend(unit.diagnostics().map(|problem| (key, problem)));
        }
        of_resources.extend(self.unknown.problems());
        of_resources.sort_by_key(|(key, _)| *key);
        let mut diagnostics: Diagnostics = of_resources.into_iter().map(|(_, problem)| problem).collect();
        diagnostics.extend(self.extensions.diagnostics.iter().cloned());
        diagnostics
    }

    /// Adds what is not built in, or not valid, to `counts`, and diagnoses references of adapters out of process.
    pub(super) fn count_external(&self, table: &ExternalTable, counts: &mut SnapshotCounts) -> Diagnostics {
        let mut diagnostics = Diagnostics::new();
        external::count(&self.external, table, counts, &mut diagnostics);
        for unit in self.instances.iter() {
            match &unit.state {
                Some(InstanceState::Uncompilable) => counts.instance_configs += 1,
                Some(InstanceState::Broken | InstanceState::External { config: None, .. }) => {
                    counts.instance_config_errors += 1;
                }
                Some(InstanceState::Static(_) | InstanceState::External { .. }) | None => {}
            }
        }
        diagnostics
    }

    /// The full names that the last build of a resource looked up.
    pub(super) fn references_of(&self, key: &ResourceKey) -> Vec<Arc<str>> {
        if let Some(state) = self.rules.state(key) {
            return state.references.to_vec();
        }
        if let Some(HandlerState::External { references, .. }) = self.handlers.state(key) {
            return references.to_vec();
        }
        if let Some(InstanceState::External { references, .. }) = self.instances.state(key) {
            return references.to_vec();
        }
        self.external.get(key).map_or_else(Vec::new, external::references_of)
    }
}
