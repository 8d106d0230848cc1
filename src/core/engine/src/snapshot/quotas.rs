//! The quotas that rules configure, and those that extensions name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::extension::{ExtensionConfig, QuotaNamespaces, QuotaReference};
use super::lint::place::{name_field, placed};
use super::model::{HandlerBinding, InstanceConfig, RuleConfig, Rules, Snapshot};
use mixer_base::shared_map::SharedMap;
use mixer_config::message::suggestion;
use mixer_config::{Diagnostic, Diagnostics, Node, RawResource, ResourceKey};

/// The template of quotas.
const QUOTA: &str = "quota";

type Bindings = BTreeMap<ResourceKey, Arc<HandlerBinding>>;

impl Snapshot {
    /// Whether a rule configures the quota with this short name, in any namespace. Cost: linear in the instances that rules bind.
    pub fn configures_quota(&self, name: &str) -> bool {
        is_bound(&self.bindings, name)
    }

    /// The quotas that a resource of an extension names and no rule configures.
    pub(crate) fn unconfigured_quotas_of(&self, resource: &ResourceKey) -> Vec<&str> {
        let resource = resource.to_string();
        let named = self.extensions.iter().flat_map(|extension| extension.quotas());
        let own = named.filter(|quota| quota.problem.resource == resource);
        let configured = self.configured_quotas();
        own.filter(|quota| !configured.has(quota)).map(|quota| quota.name.as_str()).collect()
    }

    fn configured_quotas(&self) -> Configured<'_> {
        let Snapshot { bindings, rules, default_namespace, .. } = self;
        Configured { bindings, rules, default_namespace }
    }
}

/// The quotas that rules configure.
#[derive(Clone, Copy)]
pub(super) struct Configured<'s> {
    pub(super) bindings: &'s Bindings,
    pub(super) rules: &'s Rules,
    pub(super) default_namespace: &'s str,
}

impl Configured<'_> {
    /// Whether a rule for the requests of this reference configures its quota.
    fn has(&self, quota: &QuotaReference) -> bool {
        match &quota.namespaces {
            QuotaNamespaces::Any => is_bound(self.bindings, &quota.name),
            QuotaNamespaces::Only(other) => self
                .namespaces_of(&quota.name)
                .any(|namespace| namespace == self.default_namespace || Some(namespace) == other.as_deref()),
        }
    }

    /// The namespaces of the rules that configure the quota with this name.
    fn namespaces_of<'n>(&'n self, name: &'n str) -> impl Iterator<Item = &'n str> {
        let names = move |rule: &&Arc<RuleConfig>| {
            let mut instances = rule.actions.iter().flat_map(|action| &action.instances);
            instances.any(|instance| is_quota(instance) && is_same(&instance.key.name, name))
        };
        self.rules.iter().filter(names).map(|rule| &*rule.key.namespace)
    }
}

/// Whether an action of a rule names an instance with the short name of one of these quotas. Reads the document.
pub(crate) fn names_quota(rule: &RawResource, quotas: &[&str]) -> bool {
    let document = rule.document();
    let actions = document.get("spec").and_then(|spec| spec.get("actions"));
    let instances = actions.map_or(&[][..], Node::items).iter().filter_map(|action| action.get("instances"));
    instances.flat_map(Node::items).filter_map(Node::as_str).any(|name| {
        // `NAME`, or `NAME.` and what qualifies it; each part may have dots.
        let ends = name.match_indices('.').map(|(at, _)| at).chain([name.len()]);
        ends.filter_map(|end| name.get(..end)).any(|name| quotas.iter().any(|quota| is_same(name, quota)))
    })
}

/// The problems of quotas that extensions name and no rule configures. `instances` are all instances, used or not.
pub(super) fn unconfigured(
    extensions: &[Arc<dyn ExtensionConfig>],
    configured: &Configured<'_>,
    instances: &SharedMap<Arc<InstanceConfig>>,
) -> Diagnostics {
    let named = extensions.iter().flat_map(|extension| extension.quotas());
    let unconfigured = named.filter(|quota| !configured.has(quota));
    unconfigured.map(|quota| quota.problem.clone().with_hint(hint(quota, configured, instances))).collect()
}

/// Warns about quotas that rules configure and no extension with resources names: requests of the extension are not limited by them.
pub(super) fn uncharged(extensions: &[Arc<dyn ExtensionConfig>], rules: &Rules) -> Diagnostics {
    let configured: Vec<_> = extensions.iter().filter(|extension| extension.is_configured()).collect();
    if configured.is_empty() {
        return Diagnostics::new();
    }
    let named: Vec<&str> =
        configured.iter().flat_map(|extension| extension.quotas()).map(|quota| quota.name.as_str()).collect();
    let enforced = rules.iter().filter(|rule| !rule.dry_run).flat_map(|rule| &rule.actions);
    let quotas = enforced.flat_map(|action| &action.instances).filter(|instance| is_quota(instance));
    let uncharged = quotas.filter(|instance| !named.iter().any(|name| is_same(name, &instance.key.name)));
    let uncharged: BTreeMap<_, _> = uncharged.map(|instance| (&instance.key, instance)).collect();
    let warning = |instance: &Arc<InstanceConfig>| {
        let name = &instance.key.name;
        let text = format!(
            "no request of Envoy is charged to quota `{name}`: neither check.quotaSpec nor ratelimit.quotas of the envoybridge names it"
        );
        let problem = Diagnostic::warning("quota-uncharged", name_field(), text).with_hint(format!(
            "write `check: {{quotaSpec: [{{rules: [{{quotas: [{{quota: {name}}}]}}]}}]}}`, if it is not for clients of Mixer's API only"
        ));
        placed(problem, &instance.key, &instance.origin)
    };
    uncharged.into_values().map(warning).collect()
}

fn hint(
    quota: &QuotaReference,
    configured: &Configured<'_>,
    instances: &SharedMap<Arc<InstanceConfig>>,
) -> String {
    if let Some(elsewhere) = configured.namespaces_of(&quota.name).next() {
        return format!(
            "its rule is for requests of namespace `{elsewhere}`, which these do not name: write `defaultNamespace: {elsewhere}`, or \
             move the rule to namespace `{}`",
            configured.default_namespace
        );
    }
    let quotas = instances.iter().filter(|instance| is_quota(instance));
    let names: BTreeSet<&str> = quotas.map(|instance| &*instance.key.name).collect();
    if names.iter().any(|name| is_same(name, &quota.name)) {
        return format!("add a rule with an action on the instance `{}`", quota.name);
    }
    suggestion(&quota.name, names)
        .unwrap_or_else(|| "name an instance of template `quota` that a rule gives to a handler".to_owned())
}

fn is_bound(bindings: &Bindings, name: &str) -> bool {
    let bound = bindings.values().flat_map(|binding| &binding.instances);
    bound.filter(|instance| is_quota(instance)).any(|instance| is_same(&instance.key.name, name))
}

fn is_quota(instance: &InstanceConfig) -> bool {
    instance.template().name == QUOTA
}

/// As the dispatch of quotas compares names.
pub(super) fn is_same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || a.to_lowercase() == b.to_lowercase()
}
