//! Header operations of a check that passed.

use std::borrow::Cow;

use bumpalo::collections::Vec as ArenaVec;

use super::check::CheckOutput;
use super::context::condition_failure;
use super::generate::copy_value;
use super::{CheckOutcome, DispatchContext, DispatchError, HeaderChange, Protocol, RouteDirective};
use crate::routing::{Matched, RuleKind, SelectedRules};
use crate::secret_values::for_log;
use crate::snapshot::{HeaderOperationConfig, HeaderOperationKind, OutputSource, RuleConfig};
use mixer_attribute::{AttributeBag, Value};
use mixer_base::secrets::SecretNames;

/// Evaluates the header operations of all rules that match. A condition that fails refuses the request if `on_error` says so.
///
/// Errors: a condition failed, and no other one refuses the request.
pub(super) fn add_header_changes<'t: 'a, 'a>(
    rules: SelectedRules<'t>,
    bag: &AttributeBag<'a>,
    outputs: &[CheckOutput<'_>],
    outcome: &mut CheckOutcome,
    protocol: Protocol,
    (secrets, context): (&SecretNames, &DispatchContext<'_>),
) -> Result<(), DispatchError> {
    if rules.sets().all(|set| set.is_empty()) {
        return Ok(());
    }
    let mut matched = ArenaVec::new_in(bag.arena());
    for set in rules.sets() {
        set.matches(bag, &mut matched);
    }
    let mut directive = RouteDirective::default();
    let (mut errors, mut refusals) = (DispatchError::default(), Vec::new());
    for Matched { route, failed } in &matched {
        let rule = &route.rule;
        match failed {
            None => {
                if let Some(trace) = context.trace {
                    trace.borrow_mut().rule(rule, RuleKind::Headers);
                }
                let RouteDirective { request_headers, unset_request_headers, response_headers, .. } =
                    &mut directive;
                let mut unset = |operation: &HeaderOperationConfig| {
                    if operation.kind == HeaderOperationKind::Replace {
                        unset_request_headers.push(operation.name.to_string());
                    }
                };
                let before = bag.set_outputs(outputs_of(rule, outputs, bag));
                let context = (secrets, context);
                evaluate_headers(&rule.request_headers, bag, request_headers, &mut unset, context);
                evaluate_headers(&rule.response_headers, bag, response_headers, &mut |_| {}, context);
                bag.set_outputs(before);
            }
            Some(error) if protocol == Protocol::Mixer && route.refuses_exhausted(*error) => {
                refusals.push(condition_failure(route, *error));
            }
            Some(error) => refusals.extend(errors.condition_failed(route, *error)),
        }
    }
    if !refusals.is_empty() {
        errors.overruled(Some((bag, secrets)), context.metrics);
        outcome.refuse(&refusals);
        return Ok(());
    }
    let RouteDirective { request_headers, unset_request_headers, response_headers, .. } = &directive;
    let is_empty =
        request_headers.is_empty() && unset_request_headers.is_empty() && response_headers.is_empty();
    if !is_empty {
        outcome.directive = Some(directive);
    }
    errors.into_result(())
}

/// The outputs that the header operations of a rule read, by the position of their slots.
fn outputs_of<'a>(
    rule: &RuleConfig,
    outputs: &[CheckOutput<'_>],
    bag: &AttributeBag<'a>,
) -> &'a [Option<Value<'a>>] {
    if rule.outputs.is_empty() {
        return &[];
    }
    let value = |source: &OutputSource| {
        let is_source = |output: &&CheckOutput<'_>| {
            output.rule.key == rule.key
                && output.action == source.action
                && output.instance == source.instance
        };
        let values = &outputs.iter().find(is_source)?.values;
        let (_, value) = values.iter().find(|(position, _)| *position == source.output)?;
        Some(copy_value(value, bag))
    };
    bag.arena().alloc_slice_fill_iter(rule.outputs.iter().map(value))
}

/// Evaluates operations; `without_value` gets those whose value is absent or empty.
fn evaluate_headers<'a>(
    operations: &'a [HeaderOperationConfig],
    bag: &AttributeBag<'a>,
    out: &mut Vec<HeaderChange>,
    without_value: &mut dyn FnMut(&HeaderOperationConfig),
    (secrets, context): (&SecretNames, &DispatchContext<'_>),
) {
    for operation in operations {
        let value = match &operation.value {
            None => Cow::Borrowed(""),
            Some(program) => match program.eval(bag) {
                Ok(Value::String(text)) => String::from_utf8_lossy(text),
                Ok(_) => continue,
                Err(error) => {
                    context.metrics.header_value_failed();
                    tracing::debug!("Failed to evaluate header value: {}", for_log(error, bag, secrets));
                    without_value(operation);
                    continue;
                }
            },
        };
        if operation.kind != HeaderOperationKind::Remove && value.is_empty() {
            without_value(operation);
            continue;
        }
        out.push(HeaderChange {
            name: operation.name.to_string(),
            value: value.into_owned(),
            kind: operation.kind,
        });
    }
}
