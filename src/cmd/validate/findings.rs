//! Findings beyond those of the snapshot: what adapters say of their parameters, and what is hardly meant.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::core::adapter::BoundInstance;
use crate::core::attribute::{SlotId, ValueType};
use crate::core::config::{Diagnostic, Diagnostics, FieldPath, ResourceKey, Severity};
use crate::core::expr::{Scope, compile};
use crate::core::snapshot::{Condition, HandlerConfig, RuleConfig, Snapshot};
use crate::core::store::StoreContents;

/// Gives a finding about a resource its place: file, line and column of its field.
fn located(contents: &StoreContents, key: &ResourceKey, mut diagnostic: Diagnostic) -> Diagnostic {
    diagnostic.resource = key.to_string();
    if let Some(resource) = contents.resources.get(key) {
        let span = resource.document().at(&diagnostic.field).span;
        diagnostic.file = Some(Arc::clone(&resource.origin.file));
        diagnostic.span = Some(resource.origin.in_file(span));
    }
    diagnostic
}

/// What the adapters say of the parameters of their handlers, given the instances that rules bind to them. A handler that no
/// rule uses is never started, so what is wrong with it is only worth a warning.
pub(super) fn of_adapters(snapshot: &Snapshot, contents: &StoreContents) -> Diagnostics {
    let bound = bound_instances(snapshot);
    let mut findings = Diagnostics::new();
    for handler in &snapshot.handlers {
        let instances: Option<Vec<BoundInstance>> =
            bound.get(&handler.key).map(|instances| instances.values().cloned().collect());
        let mut problems = Diagnostics::new();
        handler.adapter.validate(&handler.params, instances.as_deref().unwrap_or_default(), &mut problems);
        for mut problem in problems {
            problem.field = params_path(handler).join(&problem.field);
            if instances.is_none() && problem.severity == Severity::Error {
                problem.severity = Severity::Warning;
            }
            findings.push(located(contents, &handler.key, problem));
        }
    }
    findings
}

/// By handler: the instances that rules give it, by name.
fn bound_instances(snapshot: &Snapshot) -> BTreeMap<&ResourceKey, BTreeMap<&str, BoundInstance>> {
    let mut bound: BTreeMap<&ResourceKey, BTreeMap<&str, BoundInstance>> = BTreeMap::new();
    for action in snapshot.rules.iter().flat_map(|rule| &rule.actions) {
        let instances = bound.entry(&action.handler.key).or_default();
        for instance in &action.instances {
            instances.insert(instance.name(), instance.bound.clone());
        }
    }
    bound
}

/// Where the parameters of a handler stand: legacy kinds hold nothing else.
fn params_path(handler: &HandlerConfig) -> FieldPath {
    let spec = FieldPath::root().field("spec");
    if &*handler.key.kind == "handler" { spec.field("params") } else { spec }
}

/// What works but is hardly meant.
pub(super) fn of_lint(snapshot: &Snapshot, contents: &StoreContents) -> Diagnostics {
    let mut findings = Diagnostics::new();
    let name = || FieldPath::root().field("metadata").field("name");
    let used = |key: &ResourceKey| {
        snapshot.rules.iter().flat_map(|r| &r.actions).any(|action| {
            action.handler.key == *key || action.instances.iter().any(|instance| instance.key == *key)
        })
    };
    for handler in snapshot.handlers.iter().filter(|h| !used(&h.key)) {
        let finding = Diagnostic::warning("handler-unused", name(), "no rule in effect uses this handler")
            .with_hint("remove it, or name it in an action of a rule");
        findings.push(located(contents, &handler.key, finding));
    }
    for instance in snapshot.instances.iter().filter(|i| !used(&i.key)) {
        let finding = Diagnostic::warning("instance-unused", name(), "no rule in effect uses this instance")
            .with_hint("remove it, or name it in an action of a rule");
        findings.push(located(contents, &instance.key, finding));
    }
    for (i, rule) in snapshot.rules.iter().enumerate() {
        if let Some(finding) = constant_match(rule) {
            findings.push(located(contents, &rule.key, finding));
        }
        let before = snapshot.rules.iter().take(i);
        if let Some(other) = before.into_iter().find(|other| covers(other, rule)) {
            let text = format!("everything that this rule does, {} does already", other.key);
            let finding = Diagnostic::warning("rule-shadowed", name(), text)
                .with_hint("remove it, or give it another condition or other actions");
            findings.push(located(contents, &rule.key, finding));
        }
    }
    findings
}

/// A scope without attributes: what compiles in it depends on none.
struct Nothing;

impl Scope for Nothing {
    fn attribute(&self, _: &str) -> Option<(SlotId, ValueType)> {
        None
    }

    fn names(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// A condition that no attribute can change.
fn constant_match(rule: &RuleConfig) -> Option<Diagnostic> {
    let Condition::When(_) = rule.condition else { return None };
    compile(rule.language, &rule.match_text, &Nothing).ok()?;
    let field = FieldPath::root().field("spec").field("match");
    let finding = Diagnostic::warning("match-constant", field, "this condition depends on no attribute");
    Some(finding.with_hint("leave `match` out if the rule is meant to apply always"))
}

/// Whether `first` does everything that `second` does, under the same condition in the same namespace.
fn covers(first: &RuleConfig, second: &RuleConfig) -> bool {
    let plain = |rule: &RuleConfig| rule.request_headers.is_empty() && rule.response_headers.is_empty();
    let dispatches = |rule: &RuleConfig| -> Vec<(ResourceKey, ResourceKey)> {
        let each = rule.actions.iter().flat_map(|action| {
            action.instances.iter().map(|instance| (action.handler.key.clone(), instance.key.clone()))
        });
        each.collect()
    };
    let known = dispatches(first);
    first.key.namespace == second.key.namespace
        && first.match_text == second.match_text
        && first.language == second.language
        && plain(second)
        && !second.actions.is_empty()
        && dispatches(second).iter().all(|dispatch| known.contains(dispatch))
}
