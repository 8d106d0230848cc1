//! Requests of extensions that name no namespace, or get one without rules, and rules of namespaces that may decide about them.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::HashSet;

use super::extension::{ExtensionConfig, NamespaceReference, QuotaNamespaces, RequestNamespace};
use super::model::{RuleConfig, Rules, Snapshot};
use super::quotas::folded;
use crate::template::Variety;
use mixer_config::message::suggestion;
use mixer_config::{Diagnostics, ResourceKey, Severity};

/// The problems of extensions whose requests may name no namespace although a rule of a namespace may decide about them. Cost:
/// proportional to the rules of namespaces, if an extension has such requests.
pub(super) fn unknown(extensions: &[Arc<dyn ExtensionConfig>], rules: &Rules) -> Diagnostics {
    let problem = |extension: &Arc<dyn ExtensionConfig>| match extension.request_namespace() {
        RequestNamespace::Named | RequestNamespace::Default(_) => None,
        RequestNamespace::Missing(problem) => {
            let charged = charged_anywhere(&**extension);
            let rule = rules.own().find(|rule| may_decide(rule, &charged))?;
            let namespace = &rule.key.namespace;
            Some(problem.clone().with_hint(format!(
                "{} is for namespace `{namespace}`: write `defaultNamespace: {namespace}` in the envoybridge, or set the attribute \
                 by an attributemapping, a context extension or staticAttributes",
                rule.key
            )))
        }
    };
    extensions.iter().filter_map(problem).collect()
}

/// The problems of namespaces without rules that extensions give their requests: a misspelt name opens the namespace that is meant. An
/// error if a rule of another namespace may refuse, a warning if those only report. Cost: proportional to the rules of namespaces, the
/// namespaces that extensions give, and the budget of suggestions.
pub(super) fn without_rules(
    extensions: &[Arc<dyn ExtensionConfig>],
    rules: &Rules,
    default_namespace: &str,
) -> Diagnostics {
    let names = namespaces_of(rules);
    if names.is_empty() {
        return Diagnostics::new();
    }
    let problems = |extension: &Arc<dyn ExtensionConfig>| {
        let charged = charged_anywhere(&**extension);
        let may_refuse = rules.own().any(|rule| may_decide(rule, &charged));
        let unknown =
            extension.namespaces().iter().filter(|named| is_unknown(named, &names, default_namespace));
        let problem = |named: &NamespaceReference| {
            let hint = suggestion(&named.name, names.iter().copied()).unwrap_or_else(|| {
                format!("name the namespace whose rules apply, or `{default_namespace}` if only those of the mesh do")
            });
            let severity = if may_refuse { named.problem.severity } else { Severity::Warning };
            named.problem.clone().with_severity(severity).with_hint(hint)
        };
        unknown.map(problem).collect::<Diagnostics>()
    };
    extensions.iter().flat_map(problems).collect()
}

impl Snapshot {
    /// The namespaces without rules that a resource of an extension gives requests.
    pub(crate) fn unused_namespaces_of(&self, resource: &ResourceKey) -> Vec<&str> {
        let (resource, names) = (resource.to_string(), namespaces_of(&self.rules));
        let named = self.extensions.iter().flat_map(|extension| extension.namespaces());
        let own = named.filter(|named| named.problem.resource == resource);
        let unknown = own.filter(|named| is_unknown(named, &names, &self.default_namespace));
        unknown.map(|named| named.name.as_str()).collect()
    }
}

/// The namespaces with rules.
fn namespaces_of(rules: &Rules) -> BTreeSet<&str> {
    rules.own().map(|rule| &*rule.key.namespace).collect()
}

/// Whether a namespace is neither the default one nor has rules.
fn is_unknown(named: &NamespaceReference, with_rules: &BTreeSet<&str>, default_namespace: &str) -> bool {
    named.name != default_namespace && !with_rules.contains(&*named.name)
}

/// The quotas, as [`folded`], that an extension charges to requests that say their namespace.
fn charged_anywhere(extension: &dyn ExtensionConfig) -> HashSet<String> {
    let quotas = extension.quotas().iter().filter(|quota| quota.namespaces == QuotaNamespaces::Any);
    quotas.map(|quota| folded(&quota.name)).collect()
}

/// Whether a rule may refuse a request, change its headers, or has one of the quotas that are charged.
fn may_decide(rule: &RuleConfig, charged: &HashSet<String>) -> bool {
    let is_charged = |name: &str| charged.contains(&folded(name));
    let mut instances = rule.actions.iter().flat_map(|action| &action.instances);
    let decides = |variety, name| match variety {
        Variety::Check | Variety::CheckWithOutput => true,
        Variety::Quota => is_charged(name),
        _ => false,
    };
    !rule.dry_run
        && (rule.denies_by_default
            || rule.has_header_operations
            || instances.any(|instance| decides(instance.template().variety, &instance.key.name)))
}
