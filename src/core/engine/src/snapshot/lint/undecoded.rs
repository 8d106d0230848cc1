//! What follows from a value that cannot be decoded: the parameters beside it are not those of the file.

use std::collections::HashMap;

use crate::snapshot::Snapshot;
use mixer_config::{Diagnostic, Diagnostics};

/// The code of values that cannot be decoded.
const SPEC_DECODE: &str = "spec-decode";
/// Where parameters are: in resources of the kinds of adapters, and in handlers.
const PARAMS: [&str; 2] = ["spec", "spec.params"];

/// The problems without those of an item of parameters of which a value cannot be decoded: the item has its defaults instead, which may lack
/// what the file has.
pub(super) fn without_consequences(snapshot: &Snapshot, mut problems: Diagnostics) -> Diagnostics {
    let mut undecoded: HashMap<&str, Vec<String>> = HashMap::new();
    for problem in snapshot.diagnostics.iter().filter(|problem| problem.code == SPEC_DECODE) {
        undecoded.entry(&problem.resource).or_default().push(problem.field.to_string());
    }
    let follows = |problem: &Diagnostic| {
        let Some(fields) = undecoded.get(&*problem.resource) else { return false };
        let field = problem.field.to_string();
        let item = item_of(&field);
        let is_inside = |other: &String| {
            other.strip_prefix(item).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        item.starts_with("spec.") && !PARAMS.contains(&item) && fields.iter().any(is_inside)
    };
    if !undecoded.is_empty() {
        problems.retain(|problem| !follows(problem));
    }
    problems
}

/// The list item or message that a field belongs to: `spec.params.quotas[0]` of itself and of `spec.params.quotas[0].maxAmount`.
fn item_of(field: &str) -> &str {
    match field.ends_with(']') {
        true => field,
        false => field.rsplit_once('.').map_or("", |(item, _)| item),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_belong_to_items() {
        for (field, item) in [
            ("spec.params.quotas[0]", "spec.params.quotas[0]"),
            ("spec.params.quotas[0].maxAmount", "spec.params.quotas[0]"),
            ("spec.params.address", "spec.params"),
            ("spec", ""),
        ] {
            assert_eq!(item_of(field), item);
        }
    }
}
