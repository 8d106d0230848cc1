//! Finds the conditions that can hold without evaluating all of them.

use super::rule_set::SharedCondition;
use crate::core::attribute::{AttributeBag, Value};
use crate::core::expr::EvalError;

/// Groups conditions by what they test first.
#[derive(Debug, Default)]
pub(super) struct PredicateIndex {
    others: Vec<u32>,
}

impl PredicateIndex {
    /// Prepares an index over `conditions`.
    pub(super) fn build(conditions: &[SharedCondition]) -> PredicateIndex {
        PredicateIndex { others: (0u32..).take(conditions.len()).collect() }
    }

    /// Calls `hit` for every condition that holds, and for every one that failed and wants to hear of it. Returns the number of
    /// conditions that failed. References are recorded as if every condition were evaluated.
    pub(super) fn evaluate<'t: 'a, 'a>(
        &'t self,
        conditions: &'t [SharedCondition],
        bag: &AttributeBag<'a>,
        hit: &mut dyn FnMut(&'t SharedCondition, Option<EvalError<'a>>),
    ) -> usize {
        let mut failures = 0;
        for condition in self.others.iter().filter_map(|i| conditions.get(*i as usize)) {
            match condition.program.eval(bag) {
                Ok(Value::Bool(true)) => hit(condition, None),
                Ok(_) => {}
                Err(error) => {
                    failures += 1;
                    if condition.wants_errors {
                        hit(condition, Some(error));
                    }
                }
            }
        }
        failures
    }
}
