//! Which quotas a request is charged to.

use mixer_attribute::{OwnedAttributes, OwnedValue};

use crate::bootstrap::{Clause, QuotaRule};

/// Quotas and charges of all rules that apply.
pub(super) fn required(rules: &[QuotaRule], attributes: &OwnedAttributes) -> Vec<(String, i64)> {
    let applies = |rule: &&QuotaRule| {
        rule.matches.is_empty()
            || rule
                .matches
                .iter()
                .any(|clauses| clauses.iter().all(|(name, clause)| holds(clause, attributes.get(name))))
    };
    rules.iter().filter(applies).flat_map(|rule| rule.quotas.iter().cloned()).collect()
}

fn holds(clause: &Clause, value: Option<&OwnedValue>) -> bool {
    let Some(OwnedValue::String(text)) = value else { return false };
    match clause {
        Clause::Any => true,
        Clause::Exact(wanted) => *text == wanted.as_bytes(),
        Clause::Prefix(prefix) => text.starts_with(prefix.as_bytes()),
        Clause::Regex(regex) => regex.is_match(text),
    }
}
