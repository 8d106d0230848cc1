//! Values that a handler looks up in a list of strings.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::{Comparison, MAX_FINDINGS, Notation, Operand, WITHOUT_QUERY};
use crate::adapter::CheckPower;
use crate::snapshot::problems::ResourceProblems;
use crate::snapshot::{ActionConfig, HandlerConfig, InstanceConfig};
use mixer_attribute::Vocabulary;
use mixer_config::{Diagnostic, FieldPath};
use mixer_expr::{Form, Program, TextTestKind};

/// Most entries of a list that are examined for each value that is looked up in it.
pub(super) const MAX_ENTRIES: usize = 1_000;

/// The adapter with lists.
pub(super) const ADAPTER: &str = "listchecker";

/// A list of strings in the parameters of a handler.
struct List<'h> {
    handler: &'h str,
    overrides: &'h [Json],
    /// Whether case counts.
    has_case: bool,
    /// Whether what is in it is refused.
    refuses: bool,
}

impl<'h> List<'h> {
    fn of(handler: &'h HandlerConfig) -> Option<Self> {
        if handler.adapter.info().name != ADAPTER {
            return None;
        }
        let params = handler.params.json();
        let has_case = match params.get("entryType").and_then(Json::as_str) {
            None | Some("STRINGS") => true,
            Some("CASE_INSENSITIVE_STRINGS") => false,
            // A path with a query may match a pattern.
            Some(_) => return None,
        };
        Some(Self {
            handler: &handler.name,
            overrides: params.get("overrides").and_then(Json::as_array).map_or(&[], Vec::as_slice),
            has_case,
            refuses: handler.adapter.check_power(&handler.params) == CheckPower::Refuses,
        })
    }
}

/// Warns about the values that an action looks up in a list, and about entries that no value equals.
pub(in crate::snapshot) fn check(
    action: &ActionConfig,
    vocabulary: &Vocabulary,
    problems: &mut ResourceProblems<'_>,
) {
    let Some(list) = List::of(&action.handler) else { return };
    let field = || FieldPath::root().field("spec").field("actions").index(action.index).field("instances");
    for instance in &action.instances {
        let Some(program) = value(instance) else { continue };
        let operands = program.value_operands();
        let operands: Vec<_> = operands.iter().map(|operand| Operand::of(operand, vocabulary)).collect();
        if list.refuses && operands.iter().any(Operand::is_path_with_query) {
            let message = format!(
                "a request with a query passes: the value of {} contains it, as in `/admin?a=1`, which is not in the list of {}",
                instance.key.name, list.handler
            );
            problems.push(Diagnostic::warning("path-query", field(), message).with_hint(WITHOUT_QUERY));
        }
        let findings = list.overrides.iter().take(MAX_ENTRIES).filter_map(|entry| {
            let found = list.comparison(entry.as_str()?, &operands).examine(None)?;
            let message = format!("entry of {}: {}", list.handler, found.message);
            Some(Diagnostic::warning(found.code, field(), message).with_hint(found.hint))
        });
        findings.take(MAX_FINDINGS).for_each(|problem| problems.push(problem));
    }
}

/// The expression with the value that is looked up.
pub(super) fn value(instance: &InstanceConfig) -> Option<&Program> {
    let mut leaves = instance.bound.leaves.iter().zip(&instance.programs);
    leaves.find(|(leaf, _)| leaf.field == "value").and_then(|(_, program)| program.as_deref())
}

impl List<'_> {
    /// The comparison of a value with an entry.
    fn comparison<'c>(&self, entry: &'c str, operands: &[Operand<'c>]) -> Comparison<'c> {
        let mut operands = operands.to_vec();
        for operand in operands.iter_mut().filter(|operand| !self.has_case && operand.form == Form::Whole) {
            operand.form = Form::Lower;
        }
        let is_lower = self.has_case && operands.iter().any(|operand| operand.form == Form::Lower);
        Comparison {
            notation: Notation::Entry,
            subject: Cow::Borrowed("value"),
            operands,
            is_lower,
            kind: TextTestKind::Equal,
            constant: Cow::Borrowed(entry),
            pattern: None,
            is_negated: false,
        }
    }
}
