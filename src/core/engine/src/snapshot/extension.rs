//! Kinds of resources that crates above the engine read: what the engine carries for them, and what it may ask.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use mixer_attribute::{ValueType, Vocabulary};
use mixer_config::{Diagnostic, Diagnostics, Origin, RawResource, ResourceKey};
use serde::{Deserialize, Serialize};

use super::memo::{Built, Located, Unit};
use crate::adapter::Inventory;

/// What configuration may refer to: adapters, and kinds that extensions read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Registry {
    /// The adapters of handlers.
    pub adapters: Inventory,
    /// What reads kinds that the engine does not know.
    pub extensions: &'static [&'static dyn Extension],
}

impl Registry {
    /// The extension that reads a kind.
    pub fn extension(self, kind: &str) -> Option<&'static dyn Extension> {
        self.extensions.iter().copied().find(|extension| extension.kinds().contains(&kind))
    }

    /// The kinds of all extensions.
    pub(super) fn kinds(self) -> impl Iterator<Item = &'static str> {
        self.extensions.iter().flat_map(|extension| extension.kinds().iter().copied())
    }
}

/// A resource as its extension decoded it.
pub type DecodedResource = Arc<dyn Any + Send + Sync>;

/// Reads resources of some kinds. Like all building of snapshots it is pure: no files, clock or network.
pub trait Extension: Send + Sync + std::fmt::Debug {
    /// The kinds that it reads, in lower case.
    fn kinds(&self) -> &'static [&'static str];

    /// Attributes that expressions may use without a manifest, in name order.
    fn attributes(&self) -> &'static [(&'static str, ValueType)];

    /// Decodes one resource; the result is remembered as long as the resource does not change. `failure` makes the text that Istio
    /// Mixer logs of a message.
    ///
    /// Errors: every problem of the resource.
    fn decode(
        &self,
        resource: &RawResource,
        failure: &dyn Fn(&str) -> String,
    ) -> Result<DecodedResource, Vec<Diagnostic>>;

    /// Puts the configuration together from all resources in force, in order of namespace and name.
    fn assemble(
        &self,
        resources: &[(&RawResource, &(dyn Any + Send + Sync))],
        vocabulary: &Vocabulary,
    ) -> (Arc<dyn ExtensionConfig>, Diagnostics);
}

/// The configuration of an extension in one snapshot.
pub trait ExtensionConfig: Any + Send + Sync + std::fmt::Debug {
    /// Where what callers send leads to, as people see it.
    fn outline(&self, vocabulary: &Vocabulary) -> Vec<MappingOutline>;
}

/// Where something that a caller sends leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MappingOutline {
    /// `mapping`, `limit`, `quota` (of descriptors) or `check-quota`.
    pub what: String,
    /// The part of the request, or the descriptor.
    pub from: String,
    /// The attribute, the limit, or the quota.
    pub to: String,
    /// `file:line`; empty where it is not known.
    pub place: String,
}

/// A decoded resource in its unit.
#[derive(Debug)]
pub(super) struct Decoded(DecodedResource);

impl Located for Decoded {
    fn relocate(&mut self, _: &Origin) {}
}

impl Decoded {
    pub(super) fn build(
        extension: &dyn Extension,
        resource: &RawResource,
        failure: &dyn Fn(&str) -> String,
    ) -> Built<Self> {
        match extension.decode(resource, failure) {
            Ok(decoded) => Built::Done(Self(decoded), Vec::new()),
            Err(problems) => Built::Unconvertible(problems),
        }
    }
}

/// The configurations of all extensions, and what was found wrong while they were put together.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) configs: Arc<[Arc<dyn ExtensionConfig>]>,
    pub(super) diagnostics: Diagnostics,
}

impl Assembly {
    pub(super) fn new(
        registry: Registry,
        units: &BTreeMap<ResourceKey, Unit<Decoded>>,
        vocabulary: &Vocabulary,
    ) -> Self {
        let mut diagnostics = Diagnostics::new();
        let configs = registry.extensions.iter().map(|extension| {
            let own = units.iter().filter(|(key, _)| extension.kinds().contains(&&*key.kind));
            let in_force: Vec<_> = own
                .filter_map(|(_, unit)| Some((&**unit.in_force.as_ref()?, &*unit.state.as_ref()?.0)))
                .collect();
            let (config, problems) = extension.assemble(&in_force, vocabulary);
            diagnostics.extend(problems);
            config
        });
        Self { configs: configs.collect(), diagnostics }
    }
}
