//! Rules that refuse by attributes that nothing of the configuration sets.

use std::collections::BTreeSet;

use super::place::placed;
use crate::snapshot::standard::ISTIO;
use crate::snapshot::{ActionConfig, Condition, IncompleteAttribute, RuleConfig, Snapshot};
use crate::template::TEMPLATES;
use mixer_attribute::{CALLER_PRINCIPAL, ValueType};
use mixer_config::{Diagnostic, Diagnostics, FieldPath};

/// Reports attributes that manifests declare, that conditions of rules that refuse read, and that the requests of an extension lack because
/// nothing sets them, no generator either: such a rule refuses fewer than it seems, or nobody. Each once, at the first of the rules. It `ends` before
/// a rule. Cost: a pass over the rules.
pub(super) fn unmapped(snapshot: &Snapshot, ends: &dyn Fn() -> bool, out: &mut Diagnostics) {
    let vocabulary = &snapshot.vocabulary;
    let bindings = snapshot.instances.iter().flat_map(|instance| &instance.bindings);
    let mut done: BTreeSet<_> = bindings.map(|binding| binding.target).collect();
    for rule in snapshot.rules.iter().filter(|rule| refuses(rule)).take_while(|_| !ends()) {
        let Condition::When(program) = &rule.condition else { continue };
        for slot in program.attributes().into_iter().filter(|slot| done.insert(*slot)) {
            let name = vocabulary.name(slot);
            let own_type = vocabulary.value_type(slot).filter(|_| is_own(name, snapshot));
            let found = own_type.and_then(|value_type| lacking(name, value_type, snapshot));
            let Some(IncompleteAttribute { code, why, hint }) = found else { continue };
            let field = FieldPath::root().field("spec").field("match");
            let problem = Diagnostic::warning(code, field, format!("the condition reads `{name}`: {why}"));
            out.push(placed(problem.with_hint(hint), &rule.key, &rule.origin));
        }
    }
}

/// Whether a rule refuses requests that it selects, or leaves them refused.
fn refuses(rule: &RuleConfig) -> bool {
    !rule.dry_run && (rule.denies_by_default || rule.actions.iter().any(ActionConfig::can_refuse))
}

fn lacking(name: &str, value_type: ValueType, snapshot: &Snapshot) -> Option<IncompleteAttribute> {
    snapshot.extensions.iter().find_map(|extension| extension.unmapped(name, value_type))
}

/// Whether nothing but a manifest knows an attribute: neither a template, nor a proxy of Istio, nor an extension, nor the server itself.
fn is_own(name: &str, snapshot: &Snapshot) -> bool {
    let extensions = snapshot.registry.extensions.iter();
    let mut sent = extensions.flat_map(|extension| [extension.attributes(), extension.sent_attributes()]);
    let is_in = |known: &[(&str, ValueType)]| known.iter().any(|(known, _)| *known == name);
    let is_output = TEMPLATES.iter().any(|t| !t.output.is_empty() && name.starts_with(&t.output_prefix()));
    name != CALLER_PRINCIPAL && !is_output && !is_in(ISTIO) && !sent.any(is_in)
}
