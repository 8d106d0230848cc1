//! The data model of a snapshot.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::extension::{ExtensionConfig, MappingOutline, Registry};
use super::external::{ExternalHandler, ExternalOutline};
use crate::adapter::{AdapterResources, BoundInstance, CheckPower, ErasedAdapter, ErasedParams};
use crate::template::{TemplateInfo, Variety};
use mixer_attribute::{SlotId, ValueType, Vocabulary};
use mixer_base::secrets::{SecretNames, is_secret};
use mixer_base::shared_map::{Changed, Iter, Keyed, SharedMap};
use mixer_config::{Diagnostics, Origin, RawResource, ResourceKey};
use mixer_expr::{Language, Program};

/// The id of a snapshot: 0 for the empty one at start, incremented by every build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SnapshotId(pub u64);

impl std::fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// All configuration, resolved. Contains handler configurations, not handlers. Snapshots share unchanged parts.
#[derive(Debug)]
pub struct Snapshot {
    /// Its id.
    pub id: SnapshotId,
    /// All declared attributes.
    pub vocabulary: Arc<Vocabulary>,
    /// Every handler that decoded, by key, used or not.
    pub handlers: SharedMap<Arc<HandlerConfig>>,
    /// Every valid instance, by key, used or not.
    pub instances: SharedMap<Arc<InstanceConfig>>,
    /// Every rule with a valid action or header operation.
    pub rules: Rules,
    /// The templates and adapters out of process.
    pub external: Arc<ExternalOutline>,
    /// The used handlers with their instances, by the key of the handler.
    pub(crate) bindings: Arc<BTreeMap<ResourceKey, Arc<HandlerBinding>>>,
    /// Problems, by file and position.
    pub diagnostics: Diagnostics,
    /// The configurations of extensions.
    pub extensions: Arc<[Arc<dyn ExtensionConfig>]>,
    /// The resources of extensions in force, by key.
    pub extension_resources: Arc<[Arc<RawResource>]>,
    /// The registry it was built with.
    pub registry: Registry,
    /// Counts for the metrics.
    pub counts: SnapshotCounts,
    /// Namespace of mesh-wide rules.
    pub default_namespace: Arc<str>,
    /// What must not be shown: secrets by name, and the attributes that extensions declare to be secret.
    pub secrets: Arc<SecretNames>,
}

impl Snapshot {
    /// The configuration of an extension. Cost: one comparison per extension.
    pub fn extension<T: ExtensionConfig>(&self) -> Option<&T> {
        self.extensions.iter().find_map(|config| (&**config as &dyn Any).downcast_ref::<T>())
    }

    /// The mappings of all extensions.
    pub fn mappings(&self) -> Vec<MappingOutline> {
        self.extensions.iter().flat_map(|config| config.outline(&self.vocabulary)).collect()
    }
}

/// The rules of a snapshot in evaluation order: those of the default namespace first, then by namespace and name.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    mesh: SharedMap<Arc<RuleConfig>>,
    own: SharedMap<Arc<RuleConfig>>,
}

impl Rules {
    /// All rules, in order.
    pub fn iter(&self) -> std::iter::Chain<Iter<'_, Arc<RuleConfig>>, Iter<'_, Arc<RuleConfig>>> {
        self.mesh.iter().chain(self.own.iter())
    }

    /// The rules of all namespaces but the default one, in order.
    pub(super) fn own(&self) -> impl Iterator<Item = &Arc<RuleConfig>> {
        self.own.iter()
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.mesh.len() + self.own.len()
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rule at `index`, from 0.
    pub fn nth(&self, index: usize) -> Option<&Arc<RuleConfig>> {
        self.mesh.nth(index).or_else(|| self.own.nth(index.checked_sub(self.mesh.len())?))
    }

    /// The rule with this key.
    pub fn get(&self, key: &ResourceKey) -> Option<&Arc<RuleConfig>> {
        self.mesh.get(key).or_else(|| self.own.get(key))
    }

    /// The rules that differ in `newer`, old and new version. Cost: see [`SharedMap::changes`].
    pub fn changes<'r>(&'r self, newer: &'r Rules) -> Vec<Changed<'r, Arc<RuleConfig>>> {
        let mut changes = self.mesh.changes(&newer.mesh, Arc::ptr_eq);
        changes.extend(self.own.changes(&newer.own, Arc::ptr_eq));
        changes
    }

    /// Replaces or removes the rule with this key.
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

/// A handler and the instances that rules send to it.
#[derive(Debug)]
pub(crate) struct HandlerBinding {
    /// The handler.
    pub(crate) handler: Arc<HandlerConfig>,
    /// In name order. The position of an instance may be that of an earlier version of the file if the text is unchanged.
    pub(crate) instances: Vec<Arc<InstanceConfig>>,
    /// The resources of its adapter.
    pub(crate) resources: Option<AdapterResources>,
}

/// Counts of one build, with the names of the `mixer_config_*` metrics.
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
    /// Adapter resources (out-of-process).
    pub adapter_info_configs: u64,
    /// Messages about them.
    pub adapter_info_config_errors: u64,
    /// Template resources (out-of-process).
    pub template_configs: u64,
    /// Messages about them.
    pub template_config_errors: u64,
}

/// The failure policy. Without one, a rule or handler behaves like Istio Mixer: an error in a condition is "no match", an error in
/// an instance or adapter fails the call. An error in the condition of a default selects the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnError {
    /// Deny with PERMISSION_DENIED and a message that names the failure.
    Deny,
    /// Ignore the action.
    Allow,
    /// Reuse the last successful result of the same handler and instance values, of bounded age; otherwise deny.
    LastKnown,
}

impl OnError {
    /// The value of the annotation.
    pub fn name(self) -> &'static str {
        match self {
            OnError::Deny => "deny",
            OnError::Allow => "allow",
            OnError::LastKnown => "lastKnown",
        }
    }

    /// Whether a failure without a last result denies.
    fn denies(self) -> bool {
        matches!(self, OnError::Deny | OnError::LastKnown)
    }
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
    /// What its adapter needs to call it, if that is out of process.
    pub external: Option<Arc<ExternalHandler>>,
    /// Its failure policy.
    pub on_error: Option<OnError>,
    /// Its source.
    pub origin: Origin,
}

impl HandlerConfig {
    /// Whether OK to a check may allow a request that a default refuses.
    pub(crate) fn may_allow(&self) -> bool {
        self.adapter.check_power(&self.params) != CheckPower::Refuses
    }
}

/// An attribute set from the output of a generator.
#[derive(Debug, Clone)]
pub(crate) struct AttributeBinding {
    /// The attribute to set.
    pub(crate) target: SlotId,
    /// Its expression over outputs and request attributes.
    pub(crate) value: Arc<Program>,
}

/// A checked and compiled instance.
#[derive(Debug, Clone)]
pub struct InstanceConfig {
    /// Identity.
    pub key: ResourceKey,
    /// The static part that handlers receive.
    pub bound: BoundInstance,
    /// One program per leaf of `bound`, in the same order; `None` without an expression.
    pub programs: Vec<Option<Arc<Program>>>,
    /// The name of each leaf in error texts, in the same order: `Value`, `Dimensions[user]`, `Subject.User`.
    pub leaf_names: Vec<Box<str>>,
    /// For attribute generators: the slot of every output of the template, in its order.
    pub outputs: Vec<Option<SlotId>>,
    /// For attribute generators: attributes set from the outputs.
    pub(crate) bindings: Vec<AttributeBinding>,
    /// For attribute generators: whether the bound attributes replace received ones.
    pub(crate) ignores_received_values: bool,
    /// Dialect of its expressions.
    pub language: Language,
    /// The parameters as configured, for dumps.
    pub params: serde_json::Value,
    /// The resource of its template, if that is out of process.
    pub external: Option<ResourceKey>,
    /// Its source.
    pub origin: Origin,
}

impl InstanceConfig {
    /// Full name, for example `requestcount.instance.istio-system`.
    pub fn name(&self) -> &Arc<str> {
        &self.bound.name
    }

    /// Its template.
    pub fn template(&self) -> &Arc<TemplateInfo> {
        &self.bound.template
    }

    /// Which leaves of `bound` have a secret: those with the name of one, and those whose expressions read one.
    pub fn secret_leaves(&self, snapshot: &Snapshot) -> Vec<bool> {
        let reads_secret = |program: &Program| {
            let is_map = program.value_type() == ValueType::StringMap;
            program.reads().into_iter().chain(program.entries()).any(|read| {
                let is_secret_key = |key: &[u8]| is_secret(&String::from_utf8_lossy(key));
                // A key that is computed may be any; of a whole map each entry tells by itself.
                let is_any_entry =
                    || !is_map && snapshot.vocabulary.value_type(read.slot) == Some(ValueType::StringMap);
                snapshot.secrets.is_secret(snapshot.vocabulary.name(read.slot))
                    || read.key.map_or_else(is_any_entry, is_secret_key)
            })
        };
        let leaves = self.bound.leaves.iter().zip(&self.programs);
        let is_of_secret = leaves.map(|(leaf, program)| {
            is_secret(leaf.key.as_deref().unwrap_or(&leaf.field))
                || program.as_deref().is_some_and(reads_secret)
        });
        is_of_secret.collect()
    }
}

/// The condition of a rule.
#[derive(Debug, Clone)]
pub enum Condition {
    /// Blank or the literal `true`.
    Always,
    /// A program of type BOOL.
    When(Arc<Program>),
    /// It does not compile or is not BOOL: the rule never applies, but a default selects every request. Holds the cause.
    Broken(Arc<str>),
}

/// An action of a rule, resolved.
#[derive(Debug, Clone)]
pub struct ActionConfig {
    /// Its name, often empty.
    pub name: Arc<str>,
    /// The handler. Its position, and that of the instances, may be from an earlier version of the file if the text is unchanged.
    pub handler: Arc<HandlerConfig>,
    /// The instances, at least one.
    pub instances: Vec<Arc<InstanceConfig>>,
    /// Its index among the configured actions of the rule.
    pub index: usize,
}

impl ActionConfig {
    /// Whether its handler is asked for checks and may refuse them, or leave the refusal to a missing OK.
    pub(super) fn can_refuse(&self) -> bool {
        self.check_power().is_some_and(|power| power != CheckPower::Allows)
    }

    /// Whether its handler is asked for checks, and OK may allow a request that a default refuses.
    pub(super) fn can_allow(&self) -> bool {
        self.check_power().is_some_and(|power| power != CheckPower::Refuses)
    }

    /// Whether its handler is asked for checks, and only ever allows.
    pub(super) fn only_allows(&self) -> bool {
        self.check_power() == Some(CheckPower::Allows)
    }

    /// What the answers to its checks can mean; `None` without checks.
    fn check_power(&self) -> Option<CheckPower> {
        let is_check = |instance: &Arc<InstanceConfig>| {
            matches!(instance.template().variety, Variety::Check | Variety::CheckWithOutput)
        };
        let handler = &self.handler;
        self.instances.iter().any(is_check).then(|| handler.adapter.check_power(&handler.params))
    }
}

/// An output of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutputSource {
    /// The action, by its index among the configured ones.
    pub(crate) action: usize,
    /// The position of its instance among those of the action.
    pub(crate) instance: usize,
    /// The position among the outputs of the template.
    pub(crate) output: usize,
}

/// The kind of a header operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeaderOperationKind {
    /// Sets the header.
    Replace,
    /// Removes the header.
    Remove,
    /// Appends a value.
    Append,
}

/// A compiled header operation, with one value.
#[derive(Debug, Clone)]
pub struct HeaderOperationConfig {
    /// The position in its list of the operation that it is of.
    pub index: usize,
    /// Header name.
    pub name: Arc<str>,
    /// Its kind.
    pub kind: HeaderOperationKind,
    /// The text of the value; empty for REMOVE.
    pub text: Arc<str>,
    /// The compiled value; `None` for REMOVE.
    pub value: Option<Arc<Program>>,
}

/// Which defaults the OKs of a check satisfy. Of several OKs the greatest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Allowance {
    /// None: no handler that can allow answered OK.
    #[default]
    Nothing,
    /// Those of the default namespace. A rule for the mesh restricts what the rules of a namespace allow, and opens no closed namespace.
    Mesh,
    /// All.
    Everywhere,
}

/// A rule with a valid action or header operation, or with a default.
#[derive(Debug, Clone)]
pub struct RuleConfig {
    /// Identity.
    pub key: ResourceKey,
    /// The text of the condition.
    pub match_text: Arc<str>,
    /// The condition, compiled.
    pub condition: Condition,
    /// Dialect of its expressions.
    pub language: Language,
    /// Its actions, in order.
    pub actions: Vec<ActionConfig>,
    /// Whether it has header operations, all of which compile. They may have no values; the condition is evaluated anyway.
    pub has_header_operations: bool,
    /// Operations on request headers, one for each value; empty if any operation of the rule does not compile.
    pub request_headers: Vec<HeaderOperationConfig>,
    /// Operations on response headers; likewise.
    pub response_headers: Vec<HeaderOperationConfig>,
    /// The outputs of checks that the values of its operations may read, by the position of their slots.
    pub(crate) outputs: Box<[OutputSource]>,
    /// Whether it is in dry run: evaluated and counted, not enforced.
    pub dry_run: bool,
    /// Whether the requests that it selects are refused unless a rule allows them.
    pub denies_by_default: bool,
    /// Whether it is for the mesh: of the default namespace.
    pub of_mesh: bool,
    /// Whether OK allows what the default of any namespace refuses, although the rule is for the mesh.
    pub allows_everywhere: bool,
    /// Its failure policy.
    pub on_error: Option<OnError>,
    /// Which requests that it may be meant to charge can make its condition fail; nobody if it charges no quota.
    pub(crate) evasion: Evasion,
    /// Its source.
    pub origin: Origin,
}

/// Which requests may make a condition fail that is meant for them, by what they leave out or by a malformed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evasion {
    /// None: a request without an attribute of the condition is one that the condition does not select.
    Nobody,
    /// Those that lack what every HTTP request has.
    PartialRequests,
    /// Any, as the warnings `match-absent` and `match-malformed` tell; also if the condition is too large to be examined.
    AnyRequest,
}

impl RuleConfig {
    /// Whether a request is refused if the condition fails: by the policy of the rule, or if it has none by that of a handler that
    /// the rule sends instances of such varieties.
    pub fn denies_failed_condition(&self, is_sent: impl Fn(Variety) -> bool) -> bool {
        denies_failed_condition(self.on_error, &self.actions, is_sent)
    }

    /// Which defaults OK of a handler that can allow satisfies.
    pub fn allowance(&self) -> Allowance {
        if self.of_mesh && !self.allows_everywhere { Allowance::Mesh } else { Allowance::Everywhere }
    }

    /// Whether OKs satisfy the default of this rule.
    pub fn is_satisfied_by(&self, allowance: Allowance) -> bool {
        allowance >= if self.of_mesh { Allowance::Mesh } else { Allowance::Everywhere }
    }

    /// Whether it decides about checks, by its handlers or as a default.
    pub fn decides_checks(&self) -> bool {
        self.denies_by_default || self.actions.iter().any(|action| action.check_power().is_some())
    }

    /// Whether it does more than report: it may refuse, allow, charge quotas or change requests.
    pub(super) fn decides(&self) -> bool {
        let reports = |instance: &Arc<InstanceConfig>| instance.template().variety == Variety::Report;
        let only_reports = self.actions.iter().flat_map(|action| &action.instances).all(reports);
        self.denies_by_default || self.has_header_operations || !only_reports
    }
}

/// As [`RuleConfig::denies_failed_condition`].
pub(super) fn denies_failed_condition(
    on_error: Option<OnError>,
    actions: &[ActionConfig],
    is_sent: impl Fn(Variety) -> bool,
) -> bool {
    let is_sent = |instance: &Arc<InstanceConfig>| is_sent(instance.template().variety);
    let denies = |action: &ActionConfig| {
        action.handler.on_error.is_some_and(OnError::denies) && action.instances.iter().any(is_sent)
    };
    match on_error {
        Some(on_error) => on_error.denies(),
        None => actions.iter().any(denies),
    }
}
