//! Rules that read the name of a caller on a server that verifies none.

use std::collections::BTreeMap;

use super::lint::place::{instance_params_path, placed};
use super::model::{Condition, Rules};
use mixer_attribute::{CALLER_PRINCIPAL, Vocabulary};
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_expr::Program;

/// Warns about conditions and about instances of rules that read [`CALLER_PRINCIPAL`]. Cost: proportional to the rules, if the attribute
/// is declared.
pub(super) fn unverified(rules: &Rules, vocabulary: &Vocabulary) -> Diagnostics {
    let Some(slot) = vocabulary.caller_principal() else { return Diagnostics::new() };
    let reads = |program: &Program| program.attributes().contains(&slot);
    let problem = |what: &str, field| {
        let text = format!(
            "{what} reads {CALLER_PRINCIPAL}, which no caller has: this server requests no client certificates"
        );
        Diagnostic::warning("principal-unverified", field, text).with_hint(
            "start it with --tls-client-ca-file; what a caller says of itself is ignored. The proxy's clients are in source.principal",
        )
    };
    let mut instances = BTreeMap::new();
    let mut problems = Diagnostics::new();
    for rule in rules {
        if let Condition::When(program) = &rule.condition
            && reads(program)
        {
            let field = FieldPath::root().field("spec").field("match");
            problems.push(placed(problem("the condition", field), &rule.key, &rule.origin));
        }
        for instance in rule.actions.iter().flat_map(|action| &action.instances) {
            if instance.programs.iter().flatten().any(|program| reads(program)) {
                instances.insert(&instance.key, instance);
            }
        }
    }
    problems.extend(instances.into_values().map(|instance| {
        let problem = problem("the instance", instance_params_path(instance));
        placed(problem, &instance.key, &instance.origin)
    }));
    problems
}
