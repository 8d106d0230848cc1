//! The quotas that rules configure, and those that extensions name.

mod unchargeable;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use foldhash::{HashMap, HashSet};

use super::extension::{ExtensionConfig, QuotaNamespaces, QuotaReference};
use super::lint::place::{name_field, placed};
use super::model::{HandlerBinding, InstanceConfig, RuleConfig, Rules, Snapshot};
use crate::template::Variety;
use mixer_base::shared_map::SharedMap;
use mixer_config::message::suggestion;
use mixer_config::{Diagnostic, Diagnostics, Node, RawResource, ResourceKey, Severity};

pub(super) use unchargeable::Unchargeable;

/// The instances that rules bind to each handler.
pub(super) type Bindings = BTreeMap<ResourceKey, Arc<HandlerBinding>>;

impl Snapshot {
    /// The names of the quotas that rules charge which are no dry runs. Cost: a pass over all rules.
    pub fn enforced_quotas(&self) -> BTreeSet<&str> {
        enforced_quotas(&self.rules).map(|instance| &*instance.key.name).collect()
    }

    /// The quotas that a resource of an extension names, and that no rule configures or none for its requests, in lower case. Cost: a pass
    /// over all rules.
    pub(crate) fn unconfigured_quotas_of(&self, resource: &ResourceKey) -> HashSet<String> {
        let resource = resource.to_string();
        let Snapshot { bindings, rules, extensions, vocabulary, instances, default_namespace, .. } = self;
        let configured = Configured::new(bindings, rules, extensions, default_namespace);
        let unchargeable = Unchargeable::new(&configured, vocabulary, instances);
        let mut found = HashSet::default();
        for extension in extensions.iter() {
            let mut of = unchargeable.of(&**extension);
            for quota in extension.quotas().iter().filter(|q| q.problem.resource == resource) {
                let mut problem = || of.problem(quota);
                if !configured.has(quota) || problem().is_some_and(|p| p.severity == Severity::Error) {
                    found.insert(folded(&quota.name));
                }
            }
        }
        found
    }
}

/// The quotas that extensions name, with the rules that configure them.
pub(super) struct Configured<'s> {
    default_namespace: &'s str,
    /// The names of instances that rules give to handlers, as [`folded`].
    bound: HashSet<String>,
    /// The rules that configure each quota, in their order, by its name as [`folded`].
    rules: HashMap<String, Vec<&'s Arc<RuleConfig>>>,
}

impl<'s> Configured<'s> {
    /// Cost: a pass over the bindings and rules, if any quota is named.
    pub(super) fn new(
        bindings: &Bindings,
        rules: &'s Rules,
        extensions: &[Arc<dyn ExtensionConfig>],
        default_namespace: &'s str,
    ) -> Self {
        let named = extensions.iter().flat_map(|extension| extension.quotas());
        let mut by_name: HashMap<String, Vec<_>> =
            named.map(|quota| (folded(&quota.name), Vec::new())).collect();
        if by_name.is_empty() {
            return Self { default_namespace, bound: HashSet::default(), rules: by_name };
        }
        for rule in rules.iter() {
            let instances = rule.actions.iter().flat_map(|action| &action.instances);
            for quota in instances.filter(|instance| is_quota(instance)) {
                let Some(of_quota) = by_name.get_mut(&folded(&quota.key.name)) else { continue };
                if of_quota.last().is_none_or(|last| !Arc::ptr_eq(last, rule)) {
                    of_quota.push(rule);
                }
            }
        }
        let bound = bindings.values().flat_map(|binding| &binding.instances);
        let bound = bound.filter(|instance| is_quota(instance)).map(|instance| folded(&instance.key.name));
        Self { default_namespace, bound: bound.collect(), rules: by_name }
    }

    /// Whether a rule for the requests of this reference configures its quota.
    fn has(&self, quota: &QuotaReference) -> bool {
        match &quota.namespaces {
            QuotaNamespaces::Any => self.bound.contains(&folded(&quota.name)),
            QuotaNamespaces::Only(_) => self.rules_of(quota).next().is_some(),
        }
    }

    /// The rules for the requests of this reference that configure its quota.
    fn rules_of<'q>(&'q self, quota: &'q QuotaReference) -> impl Iterator<Item = &'s Arc<RuleConfig>> + 'q {
        self.naming(&quota.name).iter().copied().filter(move |rule| {
            let namespace = &*rule.key.namespace;
            let is_for =
                |other: Option<&str>| namespace == self.default_namespace || Some(namespace) == other;
            match &quota.namespaces {
                QuotaNamespaces::Any => true,
                QuotaNamespaces::Only(other) => is_for(other.as_deref()),
            }
        })
    }

    /// The rules that configure the quota with this name.
    fn naming(&self, name: &str) -> &[&'s Arc<RuleConfig>] {
        self.rules.get(&folded(name)).map_or(&[], Vec::as_slice)
    }
}

/// Whether an action of a rule names an instance with the short name of one of these quotas, which are in lower case. Reads the document.
pub(crate) fn names_quota(rule: &RawResource, quotas: &HashSet<String>) -> bool {
    let document = rule.document();
    let actions = document.member("spec").and_then(|spec| spec.get("actions"));
    let instances = actions.map_or(&[][..], Node::items).iter().filter_map(|action| action.get("instances"));
    instances.flat_map(Node::items).filter_map(Node::as_str).any(|name| {
        // `NAME`, or `NAME.` and what qualifies it; each part may have dots.
        let ends = name.match_indices('.').map(|(at, _)| at).chain([name.len()]);
        ends.filter_map(|end| name.get(..end)).any(|name| quotas.contains(&folded(name)))
    })
}

/// The problems of quotas that extensions name and no rule configures. `instances` are all instances, used or not.
pub(super) fn unconfigured(
    extensions: &[Arc<dyn ExtensionConfig>],
    configured: &Configured<'_>,
    instances: &SharedMap<Arc<InstanceConfig>>,
) -> Diagnostics {
    let quotas = LazyLock::new(|| {
        let quotas = instances.iter().filter(|instance| is_quota(instance));
        quotas.map(|instance| &*instance.key.name).collect::<BTreeSet<&str>>()
    });
    let known = LazyLock::new(|| quotas.iter().map(|name| folded(name)).collect::<HashSet<String>>());
    let hint = |quota: &QuotaReference| {
        if let Some(rule) = configured.naming(&quota.name).first() {
            let (elsewhere, mesh) = (&rule.key.namespace, configured.default_namespace);
            return format!(
                "its rule is for requests of namespace `{elsewhere}`, which these do not name: write `defaultNamespace: {elsewhere}`, or \
                 move the rule to namespace `{mesh}`"
            );
        }
        if known.contains(&folded(&quota.name)) {
            return format!("add a rule with an action on the instance `{}`", quota.name);
        }
        // `NAME.instance.NAMESPACE`, as handlers name it.
        let short = quota.name.split_once(".instance.").map(|(short, _)| short);
        if let Some(short) = short.filter(|short| known.contains(&folded(short))) {
            return format!("write `{short}`: here the name is the short one");
        }
        suggestion(&quota.name, quotas.iter().copied())
            .unwrap_or_else(|| "name an instance of a quota that a rule gives to a handler".to_owned())
    };
    let named = extensions.iter().flat_map(|extension| extension.quotas());
    let unconfigured = named.filter(|quota| !configured.has(quota));
    unconfigured.map(|quota| quota.problem.clone().with_hint(hint(quota))).collect()
}

/// The problems of quotas that extensions name, and that no rule charges for the requests of the extension, or for some of them.
pub(super) fn unchargeable(
    extensions: &[Arc<dyn ExtensionConfig>],
    unchargeable: &Unchargeable<'_>,
) -> Diagnostics {
    let problems = |extension: &Arc<dyn ExtensionConfig>| {
        let mut of = unchargeable.of(&**extension);
        extension.quotas().iter().filter_map(|quota| of.problem(quota)).collect::<Diagnostics>()
    };
    extensions.iter().flat_map(problems).collect()
}

/// Warns about quotas that rules configure and no extension with resources names: requests of the extension are not limited by them.
pub(super) fn uncharged(extensions: &[Arc<dyn ExtensionConfig>], rules: &Rules) -> Diagnostics {
    let configured: Vec<_> = extensions.iter().filter(|extension| extension.is_configured()).collect();
    if configured.is_empty() {
        return Diagnostics::new();
    }
    let named = configured.iter().flat_map(|extension| extension.quotas());
    let named: HashSet<String> = named.map(|quota| folded(&quota.name)).collect();
    let uncharged = enforced_quotas(rules).filter(|instance| !named.contains(&folded(&instance.key.name)));
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

/// The instances of quotas that rules charge which are no dry runs.
fn enforced_quotas(rules: &Rules) -> impl Iterator<Item = &Arc<InstanceConfig>> {
    let enforced = rules.iter().filter(|rule| !rule.dry_run).flat_map(|rule| &rule.actions);
    enforced.flat_map(|action| &action.instances).filter(|instance| is_quota(instance))
}

/// Whether an instance is one of a quota: also of a template of an adapter out of process.
fn is_quota(instance: &InstanceConfig) -> bool {
    instance.template().variety == Variety::Quota
}

/// A name as the dispatch of quotas compares it.
pub(super) fn folded(name: &str) -> String {
    name.to_lowercase()
}
