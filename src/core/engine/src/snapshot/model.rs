//! What a snapshot is made of.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::extension::{ExtensionConfig, MappingOutline, Registry};
use crate::adapter::{BoundInstance, ErasedAdapter, ErasedParams};
use crate::template::TemplateInfo;
use mixer_attribute::{SlotId, Vocabulary};
use mixer_base::shared_map::{Changed, Iter, Keyed, SharedMap};
use mixer_config::{Diagnostics, Origin, ResourceKey};
use mixer_expr::{Language, Program};

/// The number of a snapshot: 0 is the empty one at start, 1 the first real one, then one more a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SnapshotId(pub u64);

impl std::fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// All configuration, resolved. Handlers are described here, not built. Two snapshots share what they have in common.
#[derive(Debug)]
pub struct Snapshot {
    /// Its number.
    pub id: SnapshotId,
    /// All attributes.
    pub vocabulary: Arc<Vocabulary>,
    /// Every configured handler that decoded, by key, used or not.
    pub handlers: SharedMap<Arc<HandlerConfig>>,
    /// Every instance that passed its checks, by key, used or not.
    pub instances: SharedMap<Arc<InstanceConfig>>,
    /// Every rule with something left to do.
    pub rules: Rules,
    /// What rules give to handlers, by the key of the handler; handlers that no rule uses are not among them.
    pub bindings: Arc<BTreeMap<ResourceKey, Arc<HandlerBinding>>>,
    /// Everything found wrong, by file and place.
    pub diagnostics: Diagnostics,
    /// The configurations of extensions.
    pub extensions: Arc<[Arc<dyn ExtensionConfig>]>,
    /// What its resources could refer to.
    pub registry: Registry,
    /// What was counted, for the metrics.
    pub counts: SnapshotCounts,
    /// Namespace of mesh-wide rules.
    pub default_namespace: Arc<str>,
}

impl Snapshot {
    /// The configuration of an extension. Cost: a comparison an extension.
    pub fn extension<T: ExtensionConfig>(&self) -> Option<&T> {
        self.extensions.iter().find_map(|config| (&**config as &dyn Any).downcast_ref::<T>())
    }

    /// Where what callers send leads to, by all extensions.
    pub fn mappings(&self) -> Vec<MappingOutline> {
        self.extensions.iter().flat_map(|config| config.outline(&self.vocabulary)).collect()
    }
}

/// The rules of a snapshot in the order in which they apply: those of the default namespace first, then by namespace and name.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    mesh: SharedMap<Arc<RuleConfig>>,
    own: SharedMap<Arc<RuleConfig>>,
}

impl Rules {
    /// All of them, in order.
    pub fn iter(&self) -> std::iter::Chain<Iter<'_, Arc<RuleConfig>>, Iter<'_, Arc<RuleConfig>>> {
        self.mesh.iter().chain(self.own.iter())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.mesh.len() + self.own.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rule number `index`, from 0.
    pub fn nth(&self, index: usize) -> Option<&Arc<RuleConfig>> {
        self.mesh.nth(index).or_else(|| self.own.nth(index.checked_sub(self.mesh.len())?))
    }

    /// The rule with this key.
    pub fn get(&self, key: &ResourceKey) -> Option<&Arc<RuleConfig>> {
        self.mesh.get(key).or_else(|| self.own.get(key))
    }

    /// The rules that are others in `newer`, each as it was and as it is. Cost: see [`SharedMap::changes`].
    pub fn changes<'r>(&'r self, newer: &'r Rules) -> Vec<Changed<'r, Arc<RuleConfig>>> {
        let mut changes = self.mesh.changes(&newer.mesh, Arc::ptr_eq);
        changes.extend(self.own.changes(&newer.own, Arc::ptr_eq));
        changes
    }

    /// How much memory is shared with `other`: chunks that both have, and chunks of `self`.
    pub fn shared_chunks(&self, other: &Rules) -> (usize, usize) {
        let (mesh, own) = (self.mesh.shared_chunks(&other.mesh), self.own.shared_chunks(&other.own));
        (mesh.0 + own.0, mesh.1 + own.1)
    }

    /// Replaces the rule with this key, or takes it out.
    pub(super) fn set(&mut self, key: &ResourceKey, rule: Option<&Arc<RuleConfig>>, default_namespace: &str) {
        let rules = if *key.namespace == *default_namespace { &mut self.mesh } else { &mut self.own };
        match rule {
            Some(rule) => drop(rules.put(rule.clone())),
            None => drop(rules.remove(key)),
        }
    }

    /// Rules from a list in any order.
    pub(super) fn collect(rules: Vec<Arc<RuleConfig>>, default_namespace: &str) -> Self {
        let (mesh, own): (Vec<_>, Vec<_>) =
            rules.into_iter().partition(|rule| *rule.key.namespace == *default_namespace);
        Self { mesh: mesh.into_iter().collect(), own: own.into_iter().collect() }
    }
}

impl<'r> IntoIterator for &'r Rules {
    type Item = &'r Arc<RuleConfig>;
    type IntoIter = std::iter::Chain<Iter<'r, Arc<RuleConfig>>, Iter<'r, Arc<RuleConfig>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Keyed for RuleConfig {
    type Key = ResourceKey;

    fn key(&self) -> &ResourceKey {
        &self.key
    }
}

impl Keyed for HandlerConfig {
    type Key = ResourceKey;

    fn key(&self) -> &ResourceKey {
        &self.key
    }
}

impl Keyed for InstanceConfig {
    type Key = ResourceKey;

    fn key(&self) -> &ResourceKey {
        &self.key
    }
}

/// A handler and the instances that rules give it.
#[derive(Debug)]
pub struct HandlerBinding {
    /// The handler.
    pub handler: Arc<HandlerConfig>,
    /// In the order of their names. The place of an instance may be that of an earlier version of the same text.
    pub instances: Vec<Arc<InstanceConfig>>,
}

/// Counters of one build; the names are those of the `mixer_config_*` metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnapshotCounts {
    /// Declared attributes, outputs of built-in templates included.
    pub attributes: u64,
    /// Handlers.
    pub handler_configs: u64,
    /// Instances.
    pub instance_configs: u64,
    /// Messages about instances.
    pub instance_config_errors: u64,
    /// Rules, broken ones included.
    pub rule_configs: u64,
    /// Messages about rules.
    pub rule_config_errors: u64,
    /// Conditions that do not compile.
    pub rule_config_match_errors: u64,
    /// Adapter resources (out of process).
    pub adapter_info_configs: u64,
    /// Messages about them.
    pub adapter_info_config_errors: u64,
    /// Template resources (out of process).
    pub template_configs: u64,
    /// Messages about them.
    pub template_config_errors: u64,
}

/// What to answer when something fails. `None` in a rule or handler means the behaviour of the originals: an error in a
/// condition is "no match", an error in an instance or adapter fails the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnError {
    /// Refuse with PERMISSION_DENIED and a text that says what failed.
    Deny,
    /// Go on as if the action had nothing to say.
    Allow,
    /// Repeat the last good answer of the same handler and instance to the same question, of bounded age; else refuse.
    LastKnown,
}

/// A configured handler.
#[derive(Debug, Clone)]
pub struct HandlerConfig {
    /// Identity.
    pub key: ResourceKey,
    /// As shown to users: `name.namespace`, legacy `name.adapter.namespace`.
    pub name: Arc<str>,
    /// Its adapter.
    pub adapter: &'static dyn ErasedAdapter,
    /// Effective parameters.
    pub params: ErasedParams,
    /// What to answer when it fails.
    pub on_error: Option<OnError>,
    /// Where it comes from.
    pub origin: Origin,
}

/// An attribute set from the output of a generator.
#[derive(Debug, Clone)]
pub struct AttributeBinding {
    /// The attribute to set.
    pub target: SlotId,
    /// Its value, over the outputs and the request.
    pub value: Arc<Program>,
}

/// A checked and compiled instance.
#[derive(Debug, Clone)]
pub struct InstanceConfig {
    /// Identity.
    pub key: ResourceKey,
    /// Name, template and leaves, as handlers know it.
    pub bound: BoundInstance,
    /// One program a leaf of `bound`, in the same order; `None` where no expression is configured.
    pub programs: Vec<Option<Arc<Program>>>,
    /// The name of each leaf in error texts, in the same order: `Value`, `Dimensions[user]`, `Subject.User`.
    pub leaf_names: Vec<Box<str>>,
    /// For attribute generators: output field name and slot of every output, then the bindings.
    pub outputs: Vec<(&'static str, SlotId)>,
    /// For attribute generators.
    pub bindings: Vec<AttributeBinding>,
    /// Dialect of its expressions.
    pub language: Language,
    /// The parameters as configured, for dumps.
    pub params: serde_json::Value,
    /// Where it comes from.
    pub origin: Origin,
}

impl InstanceConfig {
    /// Full name, for example `requestcount.instance.istio-system`.
    pub fn name(&self) -> &Arc<str> {
        &self.bound.name
    }

    /// Its template.
    pub fn template(&self) -> &'static TemplateInfo {
        self.bound.template
    }
}

/// The condition of a rule.
#[derive(Debug, Clone)]
pub enum Condition {
    /// Blank or the literal `true`.
    Always,
    /// A program of type BOOL.
    When(Arc<Program>),
    /// It does not compile or is not BOOL: the rule never applies. The text is the cause.
    Broken(Arc<str>),
}

/// An action of a rule, resolved.
#[derive(Debug, Clone)]
pub struct ActionConfig {
    /// Its name, often empty.
    pub name: Arc<str>,
    /// The handler. Its place may be that of an earlier version of the same text, as may those of the instances.
    pub handler: Arc<HandlerConfig>,
    /// At least one instance.
    pub instances: Vec<Arc<InstanceConfig>>,
    /// Its index in the rule as written.
    pub index: usize,
}

/// What a header operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeaderOperationKind {
    /// Sets the header.
    Replace,
    /// Removes the header.
    Remove,
    /// Adds a value.
    Append,
}

/// A header operation, compiled; one a value.
#[derive(Debug, Clone)]
pub struct HeaderOperationConfig {
    /// Header name.
    pub name: Arc<str>,
    /// What it does.
    pub kind: HeaderOperationKind,
    /// The value as written; empty for REMOVE.
    pub text: Arc<str>,
    /// Its value; `None` for REMOVE.
    pub value: Option<Arc<Program>>,
}

/// A rule with something to do.
#[derive(Debug, Clone)]
pub struct RuleConfig {
    /// Identity.
    pub key: ResourceKey,
    /// The condition as written.
    pub match_text: Arc<str>,
    /// The condition, compiled.
    pub condition: Condition,
    /// Dialect of its expressions.
    pub language: Language,
    /// What to do, in order.
    pub actions: Vec<ActionConfig>,
    /// Changes to the request; empty if any operation of the rule does not compile.
    pub request_headers: Vec<HeaderOperationConfig>,
    /// Changes to the response; likewise.
    pub response_headers: Vec<HeaderOperationConfig>,
    /// It is tried, counted and shown, and not enforced.
    pub dry_run: bool,
    /// What to answer when something of it fails.
    pub on_error: Option<OnError>,
    /// Where it comes from.
    pub origin: Origin,
}
