//! Requests of extensions that name no namespace, or get one without rules, and rules of namespaces that may decide about them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::extension::{ExtensionConfig, NamespaceReference, QuotaNamespaces, RequestNamespace};
use super::model::{RuleConfig, Rules, Snapshot};
use super::quotas::is_same;
use crate::template::Variety;
use mixer_config::message::suggestion;
use mixer_config::{Diagnostic, Diagnostics, ResourceKey, Severity};

/// The problems of extensions whose requests may name no namespace although a rule of a namespace may decide about them. Cost:
/// proportional to the rules of namespaces, if an extension has such requests.
pub(super) fn unknown(extensions: &[Arc<dyn ExtensionConfig>], rules: &Rules) -> Diagnostics {
    let problem = |extension: &Arc<dyn ExtensionConfig>| match extension.request_namespace() {
        RequestNamespace::Named | RequestNamespace::Default(_) => None,
        RequestNamespace::Missing(problem) => {
            let rule = rules.own().find(|rule| may_decide(rule, &**extension))?;
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
/// error if a rule of another namespace may refuse, a warning if those only report. Cost: proportional to the rules of namespaces for
/// each such namespace.
pub(super) fn without_rules(
    extensions: &[Arc<dyn ExtensionConfig>],
    rules: &Rules,
    default_namespace: &str,
) -> Diagnostics {
    let names: BTreeSet<&str> = rules.own().map(|rule| &*rule.key.namespace).collect();
    if names.is_empty() {
        return Diagnostics::new();
    }
    let problems = |extension: &Arc<dyn ExtensionConfig>| {
        let may_refuse = rules.own().any(|rule| may_decide(rule, &**extension));
        let unknown =
            extension.namespaces().iter().filter(|named| is_unknown(named, rules, default_namespace));
        let problem = |named: &NamespaceReference| {
            let hint = suggestion(&named.name, names.iter().copied()).unwrap_or_else(|| {
                format!("name the namespace whose rules apply, or `{default_namespace}` if only those of the mesh do")
            });
            let severity = if may_refuse { named.problem.severity } else { Severity::Warning };
            Diagnostic { severity, ..named.problem.clone() }.with_hint(hint)
        };
        unknown.map(problem).collect::<Diagnostics>()
    };
    extensions.iter().flat_map(problems).collect()
}

impl Snapshot {
    /// The namespaces without rules that a resource of an extension gives requests.
    pub(crate) fn unused_namespaces_of(&self, resource: &ResourceKey) -> Vec<&str> {
        let resource = resource.to_string();
        let named = self.extensions.iter().flat_map(|extension| extension.namespaces());
        let own = named.filter(|named| named.problem.resource == resource);
        let unknown = own.filter(|named| is_unknown(named, &self.rules, &self.default_namespace));
        unknown.map(|named| named.name.as_str()).collect()
    }
}

/// Whether a namespace is neither the default one nor has rules.
fn is_unknown(named: &NamespaceReference, rules: &Rules, default_namespace: &str) -> bool {
    named.name != default_namespace && rules.own().all(|rule| *rule.key.namespace != *named.name)
}

/// Whether a rule may refuse a request, change its headers, or is charged by the extension.
fn may_decide(rule: &RuleConfig, extension: &dyn ExtensionConfig) -> bool {
    let is_charged = |name: &str| {
        let mut quotas = extension.quotas().iter();
        quotas.any(|quota| quota.namespaces == QuotaNamespaces::Any && is_same(name, &quota.name))
    };
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
