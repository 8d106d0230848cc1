//! Whether a document is written like a resource of Mixer, whatever kind and API group it says.

use crate::annotation::{PREFIX, letters, named_like};
use crate::{Annotations, Node, NodeKind};
use mixer_attribute::ValueType;

/// What stands behind our prefix in a name, of a field, label or annotation.
fn behind_prefix(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(['/', '.']))
}

/// Whether a name, of a field of the metadata, begins as an annotation of Mixer does.
pub(super) fn has_our_prefix(name: &str) -> bool {
    behind_prefix(name).is_some()
}

/// Whether a name, of a label or an annotation, can only be meant as an annotation of Mixer. Others may use the prefix, too.
pub(super) fn names_us(name: &str) -> bool {
    behind_prefix(name).is_some_and(|rest| named_like(&letters(rest)).is_some())
}

/// Whether an annotation has a meaning for Mixer only.
pub(super) fn has_our_annotation(annotations: &Annotations) -> bool {
    annotations.keys().any(names_us)
}

/// Whether a `spec` has fields that only rules, handlers, instances or manifests have. Cost: proportional to its entries.
pub(super) fn is_our_spec(spec: &Node) -> bool {
    ["compiledAdapter", "compiledTemplate"].into_iter().any(|name| spec.get(name).is_some())
        || spec.get("actions").is_some_and(is_actions)
        || spec.get("attributes").is_some_and(is_attributes)
}

/// The actions of a rule: each names a handler and instances. Those of other programs may have one of the two.
fn is_actions(actions: &Node) -> bool {
    let names = |action: &Node| action.get("handler").is_some() && action.get("instances").is_some();
    match &actions.kind {
        NodeKind::Sequence(items) => items.iter().any(names),
        _ => names(actions),
    }
}

/// The attributes of a manifest: each has a type of ours.
fn is_attributes(attributes: &Node) -> bool {
    let is_ours = |name: &str| ValueType::ALL.iter().any(|known| known.name() == name);
    let types = attributes.entries().iter().filter_map(|entry| entry.value.get("valueType"));
    types.filter_map(Node::as_str).any(is_ours)
}
