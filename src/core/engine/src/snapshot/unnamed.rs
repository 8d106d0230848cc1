//! Requests of extensions that name no namespace, and rules of namespaces that may decide about them.

use std::sync::Arc;

use super::extension::{ExtensionConfig, QuotaNamespaces, RequestNamespace};
use super::model::{RuleConfig, Rules};
use super::quotas::is_same;
use crate::template::Variety;
use mixer_config::Diagnostics;
use mixer_config::message::suggestion;

/// The problems of extensions whose requests may name no namespace although a rule of a namespace may decide about them, or get a
/// namespace without rules. Cost: proportional to the rules of namespaces, if an extension has such requests.
pub(super) fn unknown(
    extensions: &[Arc<dyn ExtensionConfig>],
    rules: &Rules,
    default_namespace: &str,
) -> Diagnostics {
    let problem = |extension: &Arc<dyn ExtensionConfig>| match extension.request_namespace() {
        RequestNamespace::Named => None,
        RequestNamespace::Missing(problem) => {
            let rule = rules.own().find(|rule| may_decide(rule, &**extension))?;
            let namespace = &rule.key.namespace;
            Some(problem.clone().with_hint(format!(
                "{} is for namespace `{namespace}`: write `defaultNamespace: {namespace}` in the envoybridge, or set the attribute \
                 by an attributemapping, a context extension or staticAttributes",
                rule.key
            )))
        }
        RequestNamespace::Default(name, problem) => {
            let names = || rules.own().map(|rule| &*rule.key.namespace);
            let is_unknown = name != default_namespace && names().all(|known| known != name);
            (is_unknown && names().next().is_some()).then(|| {
                let hint = suggestion(name, names());
                let hint = hint.unwrap_or_else(|| "name the namespace whose rules apply to them".to_owned());
                problem.clone().with_hint(hint)
            })
        }
    };
    extensions.iter().filter_map(problem).collect()
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
