//! Configurations of many rules.

use std::fmt::Write as _;

/// Rules per file.
pub(crate) const RULES_PER_FILE: usize = 100;

/// The service that a rule matches.
pub(crate) fn service(rule: usize) -> String {
    format!("service-{rule}.ns.svc.cluster.local")
}

/// The client that a rule denies.
pub(crate) fn tenant(rule: usize) -> String {
    format!("tenant-{}", rule % 97)
}

/// Files of `rules` rules for all namespaces, each for a service and a client: `FILE -> TEXT`, without the vocabulary. Rule `exempt`, if
/// any, allows its client.
pub(crate) fn files(rules: usize, exempt: Option<usize>) -> Vec<(String, String)> {
    let mut files = vec![(
        "handler.yaml".to_owned(),
        "apiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {name: refuse, namespace: istio-system}\nspec:\n  \
         compiledAdapter: denier\n  params:\n    status: {code: 7, message: not you}\n---\n\
         apiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {name: caller, namespace: istio-system}\nspec:\n  \
         compiledTemplate: checknothing\n"
            .to_owned(),
    )];
    for first in (0..rules).step_by(RULES_PER_FILE) {
        files.push(file(first, rules, exempt));
    }
    files
}

/// The file of the rules from `first` on, of a configuration of `rules`.
pub(crate) fn file(first: usize, rules: usize, exempt: Option<usize>) -> (String, String) {
    let mut text = String::new();
    for rule in first..(first + RULES_PER_FILE).min(rules) {
        let caller = if exempt == Some(rule) { "nobody".to_owned() } else { tenant(rule) };
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata:\n  name: rule-{rule}\n  namespace: istio-system\n\
             spec:\n  match: destination.service == \"{}\" && source.namespace == \"{caller}\"\n  actions:\n  \
             - handler: refuse\n    instances: [caller]\n",
            service(rule)
        );
    }
    (format!("rules-{first:06}.yaml"), text)
}
