//! Refusals of what no rule allows.

use std::sync::Arc;

use bumpalo::collections::Vec as ArenaVec;

use super::DispatchContext;
use super::combine::Combiner;
use crate::routing::{Matched, RuleKind, SelectedRules};
use mixer_attribute::AttributeBag;

/// Refuses a request that no handler refused, if it has a default that no OK satisfies: the first rule that selects it is named. A condition
/// that fails selects the request, unless the rule has `on-error: allow`.
pub(super) fn deny_by_default<'t: 'a, 'a>(
    rules: SelectedRules<'t>,
    bag: &AttributeBag<'a>,
    combiner: &mut Combiner,
    context: &DispatchContext<'_>,
) {
    let mut matched = ArenaVec::new_in(bag.arena());
    let rules = rules.unsatisfied_by(combiner.allowance());
    let failures = rules.map(|set| set.matches(bag, &mut matched).failures).sum();
    context.metrics.conditions_failed(failures);
    let Some(Matched { route, .. }) = matched.first() else { return };
    if let Some(trace) = context.trace {
        trace.borrow_mut().rule(&route.rule, RuleKind::Default);
    }
    if let Some(fired) = context.fired {
        fired.borrow_mut().push(Arc::clone(&route.rule));
    }
    context.hit(route);
    combiner.deny_by_default(&route.rule.key.to_string());
    combiner.note_refuser(route);
}
