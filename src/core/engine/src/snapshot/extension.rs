//! Resource kinds defined outside the engine: a snapshot carries their configuration as opaque values.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use mixer_attribute::{ValueType, Vocabulary};
use mixer_base::secrets::SecretNames;
use mixer_config::{Diagnostic, Diagnostics, Origin, RawResource, ResourceKey};
use serde::{Deserialize, Serialize};

use super::annotations;
use super::failure_mode::FailureMode;
use super::kind::GROUP;
use super::problems::ResourceProblems;
use super::unenforced::Unenforced;
use super::unit::{Built, Located, Unit};
use crate::adapter::{AdapterResources, BoundInstance, Inventory};

/// The built-in adapters and extensions. The default is empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Registry {
    /// The built-in adapters.
    pub adapters: Inventory,
    /// Extensions with additional resource kinds. Kinds are unique; the first extension with a kind handles it.
    pub extensions: &'static [&'static dyn SnapshotExtension],
}

impl Registry {
    /// The extension that handles a kind.
    pub(super) fn extension(self, kind: &str) -> Option<&'static dyn SnapshotExtension> {
        self.extensions.iter().copied().find(|extension| extension.kinds().contains(&kind))
    }

    /// The kinds of all extensions.
    pub(super) fn kinds(self) -> impl Iterator<Item = &'static str> {
        self.extensions.iter().flat_map(|extension| extension.kinds().iter().copied())
    }
}

/// A decoded resource, of a type known to its extension.
pub type DecodedResource = Arc<dyn Any + Send + Sync>;

/// Adds resource kinds to snapshots. Pure, like every step of a snapshot build: no files, clock or network.
pub trait SnapshotExtension: Send + Sync + std::fmt::Debug {
    /// The kinds, as written.
    fn kinds(&self) -> &'static [&'static str];

    /// The API group of the kinds.
    fn group(&self) -> &'static str {
        GROUP
    }

    /// The adapter whose handlers receive the configuration, if one does: a change of it rebuilds them.
    fn adapter(&self) -> Option<&'static str> {
        None
    }

    /// The kinds without which handlers of the adapter decide nothing. A store that has to ask for each kind asks for these once there is a
    /// handler that [needs](Self::is_needed_by) them.
    fn needed_kinds(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether a resource is a handler of the adapter that has its configuration from the kinds.
    fn is_needed_by(&self, resource: &RawResource) -> bool {
        let _ = resource;
        false
    }

    /// Attributes that only its requests have, in name order. They are known without a manifest.
    fn attributes(&self) -> &'static [(&'static str, ValueType)];

    /// All attributes that it sets, with the types that it sends them with. They are known without a manifest if
    /// [standard attributes](super::SnapshotOptions::standard_attributes) are.
    fn sent_attributes(&self) -> &'static [(&'static str, ValueType)] {
        &[]
    }

    /// Decodes one resource. The result is cached until the resource changes. `failure` converts the message of a problem into the
    /// text that Istio Mixer logs for a resource that does not convert.
    ///
    /// Errors: every problem of the resource, with spans relative to its document. The last version that converted stays in force.
    fn decode(
        &self,
        resource: &RawResource,
        failure: &dyn Fn(&str) -> String,
    ) -> Result<DecodedResource, Vec<Diagnostic>>;

    /// Combines all resources in force, in the order of kind, namespace and name, into one configuration. Called when one of them or
    /// the vocabulary changes. Every decoded resource is the value that [`decode`](Self::decode) returned for it. `default_namespace` is
    /// that of mesh-wide configuration.
    ///
    /// Returns problems across resources, with positions in files.
    fn assemble(
        &self,
        resources: &[(&RawResource, &(dyn Any + Send + Sync))],
        vocabulary: &Vocabulary,
        default_namespace: &str,
    ) -> (Arc<dyn ExtensionConfig>, Diagnostics);
}

/// The configuration of an extension in one snapshot.
pub trait ExtensionConfig: Any + Send + Sync + std::fmt::Debug {
    /// Its mappings, for display.
    fn outline(&self, vocabulary: &Vocabulary) -> Vec<MappingOutline>;

    /// The quotas that it names.
    fn quotas(&self) -> &[QuotaReference] {
        &[]
    }

    /// Whether its requests name the namespace whose rules apply to them.
    fn request_namespace(&self) -> RequestNamespace<'_> {
        RequestNamespace::Named
    }

    /// The namespaces that it gives requests.
    fn namespaces(&self) -> &[NamespaceReference] {
        &[]
    }

    /// The settings by which a service decides and enforces nothing.
    fn unenforced(&self) -> &[Unenforced] {
        &[]
    }

    /// What its checks get whose evaluation fails; `None` if nothing is configured for them.
    fn failure_mode(&self) -> Option<&FailureMode> {
        None
    }

    /// The types of the attributes that it sets. A manifest must not contradict them.
    fn attribute_types(&self) -> &[(&'static str, ValueType)] {
        &[]
    }

    /// The attributes that it sets from what is secret, such as a cookie: they are masked wherever attributes are shown.
    fn secret_attributes(&self) -> Vec<Box<str>> {
        Vec::new()
    }

    /// Whether there are resources of the extension, so that its requests are expected.
    fn is_configured(&self) -> bool {
        false
    }

    /// What requests that are charged by a reference of [`quotas`](Self::quotas) have of an attribute.
    fn charged_attribute(&self, quota: &QuotaReference, attribute: &str) -> ChargedAttribute<'_> {
        let _ = (quota, attribute);
        ChargedAttribute::Any
    }

    /// Why the requests that it has checked lack an attribute, or have less of it than rules expect, if so.
    fn incomplete(&self, attribute: &str) -> Option<IncompleteAttribute> {
        let _ = attribute;
        None
    }

    /// Why the requests that it has checked lack an attribute that only a manifest knows, if so: nothing of its configuration sets it.
    fn unmapped(&self, attribute: &str, value_type: ValueType) -> Option<IncompleteAttribute> {
        let _ = (attribute, value_type);
        None
    }

    /// The adapter whose handlers decide by the configuration, if one does.
    fn deciding_adapter(&self) -> Option<&'static str> {
        None
    }

    /// Warnings about what it names and no instance sets, with positions in files. `instances`: what rules give handlers of the
    /// [`deciding_adapter`](Self::deciding_adapter); at least one.
    fn unset(&self, instances: &[&BoundInstance]) -> Diagnostics {
        let _ = instances;
        Diagnostics::new()
    }

    /// Why a dimension of a quota that depends on these attributes only is the same for every request that the extension charges to
    /// the quota, if so. `quota` is the name of the instance.
    fn constant_dimension(&self, quota: &str, attributes: &[&str]) -> Option<ConstantDimension> {
        let _ = (quota, attributes);
        None
    }
}

/// What the configuration of an extension tells about the namespace of its requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RequestNamespace<'c> {
    /// They name one, or nothing of the extension is configured.
    Named,
    /// They may name none. The problem if a rule of a namespace may decide about them; the snapshot adds a hint.
    Missing(&'c Diagnostic),
    /// Those that name none get this one.
    Default(&'c str),
}

/// A namespace that an extension gives its requests, so that the rules of no other one apply to them.
#[derive(Debug, Clone, PartialEq)]
pub struct NamespaceReference {
    /// Its name, not empty.
    pub name: String,
    /// The error if no rule is in the namespace and one of another may refuse, with its position in the file; the snapshot adds a
    /// hint.
    pub problem: Diagnostic,
}

/// A quota that an extension names.
#[derive(Debug, Clone)]
pub struct QuotaReference {
    /// The short name of an instance, case-insensitive.
    pub name: String,
    /// The namespaces of the requests that are charged.
    pub namespaces: QuotaNamespaces,
    /// The problem if no rule configures the quota, with its position in the file; the snapshot adds a hint.
    pub problem: Diagnostic,
    /// The number of the list entry that names it, if the requests that it charges have few attributes
    /// ([`ExtensionConfig::charged_attribute`]).
    pub selector: Option<usize>,
}

/// What the requests that are charged to a quota have of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChargedAttribute<'c> {
    /// Any value, or none.
    Any,
    /// This text, all of them.
    Text(&'c str),
    /// None of them has it.
    Absent,
    /// Those have it that say it by its name, which the reference does not require.
    Unnamed,
}

/// Why rules over an attribute do not decide as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncompleteAttribute {
    /// The code of the warning.
    pub code: &'static str,
    /// What the requests lack.
    pub why: &'static str,
    /// What to do.
    pub hint: &'static str,
}

/// The namespaces, beside the default one, whose rules apply to the requests that an extension charges to a quota.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum QuotaNamespaces {
    /// The request says which.
    Any,
    /// This one, for requests that never name another.
    Only(Option<Box<str>>),
}

/// Why a dimension of a quota is the same for every request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConstantDimension {
    /// The requests, for example `calls of the rate limit service of Envoy`.
    pub requests: &'static str,
    /// What to write instead.
    pub hint: String,
}

/// One mapping of an extension: from a part of a request to an attribute, a limit or a quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MappingOutline {
    /// The kind: `mapping`, `limit`, `quota` (of descriptors) or `check-quota`.
    pub what: String,
    /// The part of the request, or the descriptor.
    pub from: String,
    /// The attribute, limit or quota; with `, shadow` if that is not enforced.
    pub to: String,
    /// Whether the limit or quota is computed and counted, and not enforced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shadow: bool,
    /// Its position, as `file:line`; empty if unknown.
    pub place: String,
    /// The full name of its resource; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// Of a limit, the labels of its metrics; documents do not have them.
    #[serde(skip)]
    pub labels: Option<[String; 3]>,
}

/// The state of a unit: a decoded resource.
#[derive(Debug)]
pub(super) struct ExtensionState(DecodedResource);

impl Located for ExtensionState {
    fn relocate(&mut self, _: &Origin) {}
}

impl ExtensionState {
    pub(super) fn build(
        extension: &dyn SnapshotExtension,
        resource: &RawResource,
        failure: &dyn Fn(&str) -> String,
    ) -> Built<Self> {
        match extension.decode(resource, failure) {
            Ok(decoded) => {
                let mut problems = ResourceProblems::more(resource);
                annotations::check(resource, &[], &mut problems);
                Built::Done(Self(decoded), problems.list)
            }
            Err(problems) => Built::Unconvertible(problems),
        }
    }
}

/// The resources that configure handlers beside their parameters, by adapter.
#[derive(Debug, Clone, Default)]
pub(super) struct ResourcesByAdapter(Vec<(&'static str, AdapterResources)>);

impl ResourcesByAdapter {
    /// Those of an adapter, if it has kinds.
    pub(super) fn of(&self, adapter: &str) -> Option<AdapterResources> {
        self.0.iter().find(|(name, _)| *name == adapter).map(|(_, resources)| resources.clone())
    }

    /// The adapters whose resources differ from those `before`.
    pub(super) fn changes(&self, before: &Self) -> Vec<&'static str> {
        let digest = |all: &Self, name| all.of(name).map(|resources| resources.digest());
        let names = self.0.iter().map(|(name, _)| *name);
        names.filter(|name| digest(self, name) != digest(before, name)).collect()
    }
}

/// The configurations of all extensions, with the problems across their resources.
#[derive(Debug)]
pub(super) struct ExtensionConfigs {
    pub(super) configs: Arc<[Arc<dyn ExtensionConfig>]>,
    /// The resources that they are assembled from.
    pub(super) assembled: Arc<[Arc<RawResource>]>,
    /// Those for adapters.
    pub(super) resources: ResourcesByAdapter,
    /// What is secret with the attributes that they declare to be.
    pub(super) secrets: Arc<SecretNames>,
    pub(super) diagnostics: Diagnostics,
}

impl ExtensionConfigs {
    pub(super) fn new(
        registry: Registry,
        units: &BTreeMap<ResourceKey, Unit<ExtensionState>>,
        vocabulary: &Vocabulary,
        default_namespace: &str,
    ) -> Self {
        let mut diagnostics = Diagnostics::new();
        let mut by_adapter = ResourcesByAdapter::default();
        let in_force = units.values().filter(|unit| unit.state.is_some());
        let assembled = in_force.filter_map(|unit| unit.in_force.clone()).collect();
        let configs = registry.extensions.iter().map(|extension| {
            let own = units.iter().filter(|(key, _)| extension.kinds().contains(&&*key.kind));
            let in_force: Vec<_> = own
                .filter_map(|(_, unit)| Some((&**unit.in_force.as_ref()?, &*unit.state.as_ref()?.0)))
                .collect();
            let (config, problems) = extension.assemble(&in_force, vocabulary, default_namespace);
            diagnostics.extend(problems);
            if let Some(adapter) = extension.adapter() {
                let assembled: Arc<dyn Any + Send + Sync> = Arc::clone(&config) as _;
                let resources = AdapterResources::new(assembled, digest(&in_force));
                by_adapter.0.push((adapter, resources));
            }
            config
        });
        let configs: Arc<[Arc<dyn ExtensionConfig>]> = configs.collect();
        let secrets = Arc::new(configs.iter().flat_map(|config| config.secret_attributes()).collect());
        Self { configs, assembled, resources: by_adapter, secrets, diagnostics }
    }
}

/// A digest of the texts of resources, in order.
fn digest(resources: &[(&RawResource, &(dyn Any + Send + Sync))]) -> u128 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(salt);
        for (resource, _) in resources {
            resource.key.hash(&mut hasher);
            hasher.write_u64(resource.revision);
        }
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}
