//! Header operations of a check that passed.

use std::borrow::Cow;

use bumpalo::collections::Vec as ArenaVec;

use super::{CheckOutcome, DispatchContext, HeaderChange, RouteDirective};
use crate::routing::{Matched, RuleKind, SelectedRules};
use crate::snapshot::{HeaderOperationConfig, HeaderOperationKind};
use mixer_attribute::{AttributeBag, Value};

/// Evaluates the header operations of all rules that match.
pub(super) fn add_header_changes<'t: 'a, 'a>(
    rules: SelectedRules<'t>,
    bag: &AttributeBag<'a>,
    outcome: &mut CheckOutcome,
    context: &DispatchContext<'_>,
) {
    if rules.sets().all(|set| set.is_empty()) {
        return;
    }
    let mut matched = ArenaVec::new_in(bag.arena());
    for set in rules.sets() {
        set.matches(bag, &mut matched);
    }
    let mut directive = RouteDirective::default();
    for Matched { route, failed } in &matched {
        if failed.is_none() {
            let rule = &route.rule;
            if let Some(trace) = context.trace {
                trace.borrow_mut().rule(rule, RuleKind::Headers);
            }
            evaluate_headers(&rule.request_headers, bag, &mut directive.request_headers, context);
            evaluate_headers(&rule.response_headers, bag, &mut directive.response_headers, context);
        }
    }
    if !directive.request_headers.is_empty() || !directive.response_headers.is_empty() {
        outcome.directive = Some(directive);
    }
}

fn evaluate_headers<'a>(
    operations: &'a [HeaderOperationConfig],
    bag: &AttributeBag<'a>,
    out: &mut Vec<HeaderChange>,
    context: &DispatchContext<'_>,
) {
    for operation in operations {
        let value = match &operation.value {
            None => Cow::Borrowed(""),
            Some(program) => match program.eval(bag) {
                Ok(Value::String(text)) => String::from_utf8_lossy(text),
                Ok(_) => continue,
                Err(error) => {
                    context.metrics.header_value_failed();
                    tracing::debug!("Failed to evaluate header value: {error}");
                    continue;
                }
            },
        };
        if operation.kind != HeaderOperationKind::Remove && value.is_empty() {
            continue;
        }
        out.push(HeaderChange {
            name: operation.name.to_string(),
            value: value.into_owned(),
            kind: operation.kind,
        });
    }
}
