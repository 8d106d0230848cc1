//! Rules that another rule makes superfluous.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::HashMap;

use super::place::{name_field, placed};
use crate::snapshot::{Condition, OnError, RuleConfig, Snapshot};
use crate::template::Variety;
use mixer_config::{Diagnostic, Diagnostics, ResourceKey};

/// Most rules with the same condition and effect that are compared with another.
const MAX_ALIKE: usize = 8;
/// Most operands of a condition that are left out one by one.
const MAX_OPERANDS: usize = 16;

/// A handler and an instance that it receives.
type Effect<'s> = (&'s ResourceKey, &'s ResourceKey);

/// Where rules are alike: namespace, language, failure policies of rule and condition, whether they allow everywhere, operands of the condition, and
/// one effect.
type Likeness<'s> = (&'s str, &'static str, (Option<OnError>, bool, bool), BTreeSet<&'s str>, Effect<'s>);

/// Reports rules whose effects are a subset of those of another rule of the same namespace that applies whenever they do: with the same
/// condition, with one operand of the top-level `&&` less, or with none or one of their operands. A rule that denies where its condition fails applies
/// whenever another one does only on the same operands in the same order: each of them may fail. Cost: linear in the rules.
pub(super) fn shadowed(snapshot: &Snapshot, out: &mut Diagnostics) {
    let rules: Vec<_> = snapshot.rules.iter().filter(|rule| is_comparable(rule)).collect();
    let mut known: HashMap<Likeness<'_>, Vec<usize>> = HashMap::default();
    for (at, rule) in rules.iter().enumerate() {
        for effect in effects(rule) {
            let alike = known.entry(likeness(rule, operands(rule), effect)).or_default();
            if alike.len() < MAX_ALIKE {
                alike.push(at);
            }
        }
    }
    for (at, rule) in rules.iter().enumerate() {
        let own = operands(rule);
        let effects: BTreeSet<_> = effects(rule).collect();
        let Some(first) = effects.first() else { continue };
        let denies = rule.denies_failed_condition(is_enforced);
        let is_as_often = |other: &RuleConfig| !denies || texts(other) == texts(rule);
        let covers = |&other: &usize| {
            rules
                .get(other)
                .is_some_and(|other| is_as_often(other) && effects.is_subset(&self::effects(other).collect()))
        };
        let find = |operands: BTreeSet<&str>, earlier: bool| {
            let alike = known.get(&likeness(rule, operands, *first))?;
            alike.iter().filter(|other| !earlier || **other < at).find(|other| covers(other)).copied()
        };
        let wider = || {
            std::iter::once(BTreeSet::new())
                .chain(own.iter().map(|operand| BTreeSet::from([*operand])))
                .chain(own.iter().map(|operand| own.iter().filter(|o| *o != operand).copied().collect()))
                .filter(|operands| operands.len() < own.len())
                .find_map(|operands| find(operands, false))
        };
        let problem = match find(own.clone(), true) {
            Some(first) => rules
                .get(first)
                .map(|first| format!("the rule only repeats what {} does on the same condition", first.key)),
            None if own.len() <= MAX_OPERANDS && !denies => wider()
                .and_then(|other| rules.get(other))
                .map(|other| format!("the rule only repeats what {} does on a weaker condition", other.key)),
            None => None,
        };
        if let Some(message) = problem {
            let problem = Diagnostic::warning("rule-shadowed", name_field(), message)
                .with_hint("its instances are sent twice: remove one of the rules");
            out.push(placed(problem, &rule.key, &rule.origin));
        }
    }
}

/// Rules in dry run may repeat others intentionally; header operations and defaults are not compared.
fn is_comparable(rule: &RuleConfig) -> bool {
    !rule.dry_run
        && !rule.denies_by_default
        && !rule.has_header_operations
        && !matches!(rule.condition, Condition::Broken(_))
}

fn effects(rule: &RuleConfig) -> impl Iterator<Item = Effect<'_>> {
    rule.actions.iter().flat_map(|a| a.instances.iter().map(|i| (&a.handler.key, &i.key)))
}

/// The operands of the condition; none if it is always true.
fn operands(rule: &RuleConfig) -> BTreeSet<&str> {
    texts(rule).into_iter().collect()
}

/// The same in their order.
fn texts(rule: &RuleConfig) -> Vec<&str> {
    match &rule.condition {
        Condition::When(program) => program.conjunct_texts(),
        _ => Vec::new(),
    }
}

fn is_enforced(variety: Variety) -> bool {
    variety != Variety::Report
}

fn likeness<'s>(rule: &'s Arc<RuleConfig>, operands: BTreeSet<&'s str>, effect: Effect<'s>) -> Likeness<'s> {
    let policies = (rule.on_error, rule.denies_failed_condition(is_enforced), rule.allows_everywhere);
    (&rule.key.namespace, rule.language.name(), policies, operands, effect)
}
