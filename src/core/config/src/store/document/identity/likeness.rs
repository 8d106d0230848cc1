//! Whether a document is written like a resource of Mixer, whatever kind and API group it says.

use std::collections::BTreeMap;

use crate::{Node, NodeKind};

/// The prefix of annotations of Mixer, before the slash.
const PREFIX: &str = "mixer.dev";

/// Whether a name, of a field or a label, can only be meant as an annotation of Mixer.
pub(super) fn names_us(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|rest| rest.starts_with(['/', '.']))
}

/// Whether an annotation has a meaning for Mixer only.
pub(super) fn has_our_annotation(annotations: &BTreeMap<String, String>) -> bool {
    annotations.keys().any(|name| names_us(name))
}

/// Whether a `spec` has fields that only rules, handlers, instances or manifests have. Cost: proportional to its entries.
pub(super) fn is_our_spec(spec: &Node) -> bool {
    ["compiledAdapter", "compiledTemplate"].into_iter().any(|name| spec.get(name).is_some())
        || spec.get("actions").is_some_and(is_actions)
        || spec.get("attributes").is_some_and(is_attributes)
}

/// The actions of a rule: each names a handler and instances.
fn is_actions(actions: &Node) -> bool {
    let names = |action: &Node| action.get("handler").is_some() || action.get("instances").is_some();
    match &actions.kind {
        NodeKind::Sequence(items) => items.iter().any(names),
        _ => names(actions),
    }
}

/// The attributes of a manifest: each has a type.
fn is_attributes(attributes: &Node) -> bool {
    attributes.entries().iter().any(|entry| entry.value.get("valueType").is_some())
}
