//! Comparison of two routing tables by their check results.

use std::sync::Arc;

use crate::routing::{RoutingTable, RuleKind};
use crate::snapshot::RuleConfig;

/// Whether both tables give the same check results: they share the vocabulary, and the rules, instances and live handlers for
/// checks, defaults, generated attributes and headers. Cached answers of `old` are then valid for `new`.
///
/// Cost: one pointer comparison per rule.
pub(super) fn are_equivalent(old: &RoutingTable, new: &RoutingTable) -> bool {
    let (before, now) = (old.snapshot(), new.snapshot());
    let mut rules = before.rules.iter().filter(|rule| affects_checks(rule));
    Arc::ptr_eq(&before.vocabulary, &now.vocabulary)
        && before.default_namespace == now.default_namespace
        && now.rules.iter().filter(|rule| affects_checks(rule)).all(|rule| {
            rules.next().is_some_and(|same| Arc::ptr_eq(rule, same)) && handlers_are_same(rule, old, new)
        })
        && rules.next().is_none()
}

/// Whether a rule can affect check results.
fn affects_checks(rule: &RuleConfig) -> bool {
    let for_checks = |kind| matches!(kind, RuleKind::Check | RuleKind::Generate);
    rule.denies_by_default
        || rule.has_header_operations
        || rule.actions.iter().any(|action| {
            action.instances.iter().any(|instance| for_checks(RuleKind::of(instance.template().variety)))
        })
}

fn handlers_are_same(rule: &RuleConfig, old: &RoutingTable, new: &RoutingTable) -> bool {
    rule.actions.iter().all(|action| {
        let key = &action.handler.key;
        match (old.handlers().get(key), new.handlers().get(key)) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (before, now) => before.is_none() && now.is_none(),
        }
    })
}
