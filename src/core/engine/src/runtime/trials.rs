//! Rules in dry run that would take a handler from the rules that are enforced.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::adapter::BoundInstance;
use crate::handler::rejects;
use crate::snapshot::{InstanceConfig, RuleConfig, Snapshot};
use mixer_config::{Diagnostic, FieldPath, Location, ResourceKey, Span};

/// The rules in dry run with which a handler rejects its instances, if it takes those of the enforced rules; none if no enforced
/// rule uses it.
///
/// Cost: a pass over all rules, and a validation by the adapter for each rule in dry run that uses the handler.
pub(super) fn at_fault(snapshot: &Snapshot, handler: &ResourceKey) -> Vec<Arc<RuleConfig>> {
    let Some(binding) = snapshot.bindings.get(handler) else { return Vec::new() };
    let mut enforced = BTreeSet::new();
    let mut tried: Vec<(&Arc<RuleConfig>, BTreeSet<&ResourceKey>)> = Vec::new();
    for rule in snapshot.rules.iter() {
        let actions = rule.actions.iter().filter(|action| action.handler.key == *handler);
        let instances: BTreeSet<&ResourceKey> =
            actions.flat_map(|action| &action.instances).map(|instance| &instance.key).collect();
        match (instances.is_empty(), rule.dry_run) {
            (true, _) => {}
            (false, true) => tried.push((rule, instances)),
            (false, false) => enforced.extend(instances),
        }
    }
    let rejects_with = |more: &BTreeSet<&ResourceKey>| {
        let is_bound = |i: &&Arc<InstanceConfig>| enforced.contains(&i.key) || more.contains(&i.key);
        let bound = binding.instances.iter().filter(is_bound).map(|instance| instance.bound.clone());
        rejects(&binding.handler, &bound.collect::<Vec<BoundInstance>>())
    };
    if enforced.is_empty() || tried.is_empty() || rejects_with(&BTreeSet::new()) {
        return Vec::new();
    }
    let at_fault = tried.into_iter().filter(|(_, instances)| rejects_with(instances));
    at_fault.map(|(rule, _)| Arc::clone(rule)).collect()
}

/// The error of such a rule. `problem`: why the handler does not build with it.
pub(super) fn diagnose(rule: &RuleConfig, handler: &ResourceKey, problem: &Diagnostic) -> Diagnostic {
    let message = format!(
        "{handler} does not build with what this rule in dry run gives it, and is built without: {}",
        problem.message
    );
    let mut problem = Diagnostic::error("handler-build", FieldPath::parse("spec.actions"), message)
        .with_resource(rule.key.to_string())
        .with_hint("the rule is not counted until the handler takes its instances");
    let start = Location { line: rule.origin.document_line(), column: 1 };
    problem.file = Some(Arc::clone(&rule.origin.file));
    problem.span = Some(Span { start, end: start });
    problem
}
