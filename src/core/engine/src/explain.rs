//! Why a check was answered the way it was: which rules were considered, how far each condition went and on which values, near
//! misses, what every handler said, and which attributes decided.
//!
//! Works on a copy of the request and a published table; slow and allocating, for people and tools only. It shows values of the
//! request, so it is given to callers on the same machine alone.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::dispatch::DispatchTrace;
use crate::routing::{RoutingTable, RuleKind};
use crate::snapshot::{Condition, MappingOutline, RuleConfig};
use crate::template::Variety;
use mixer_attribute::{AttributeBag, Condition as Presence};
use mixer_expr::{Explanation as Part, Outcome};

/// Everything that is known about one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Number of the snapshot that decided.
    pub snapshot: u64,
    /// The namespace whose own rules apply beside those of the default namespace; `None` when the request names none.
    pub namespace: Option<String>,
    /// Every rule with something to do in a check, in order of consideration.
    pub rules: Vec<RuleExplanation>,
    /// What handlers said, in rule order.
    pub dispatches: Vec<DispatchExplanation>,
    /// Attributes that decided, as `name[::key] CONDITION`, sorted.
    pub referenced: Vec<String>,
    /// Where those of them come from in calls of Envoy that are mapped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mapped: Vec<MappingOutline>,
}

/// What became of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleExplanation {
    /// Full name.
    pub rule: String,
    /// Where it is written.
    pub file: String,
    /// Line of the file on which it begins.
    pub line: u32,
    /// Its condition; empty is always.
    #[serde(rename = "match")]
    pub match_text: String,
    /// What became of it.
    pub verdict: Verdict,
    /// The condition, part by part.
    pub condition: Option<PartExplanation>,
    /// Why it nearly matched: the one test that failed.
    pub near_miss: Option<String>,
    /// Handlers that it calls.
    pub handlers: Vec<String>,
    /// It is tried and not enforced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// What became of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It applied.
    Matched,
    /// Its condition is false.
    NotMatched,
    /// Its condition could not be evaluated, which counts as false.
    Failed,
    /// Its condition does not compile; it never applies.
    Broken,
    /// It belongs to another namespace than the request.
    OtherNamespace,
}

/// A part of a condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartExplanation {
    /// As written.
    pub text: String,
    /// Its value, `absent`, `not evaluated`, or an error.
    pub outcome: String,
    /// Its parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartExplanation>,
}

/// What a handler said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DispatchExplanation {
    /// Full name of the rule.
    pub rule: String,
    /// Name of the handler.
    pub handler: String,
    /// Its adapter.
    pub adapter: String,
    /// Full name of the instance.
    pub instance: String,
    /// Values of the instance: field and text.
    pub values: Vec<(String, String)>,
    /// The answer, in words.
    pub said: String,
    /// It does not count: the rule is in dry run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// What the references of a bag say, for people. Take it before rules in dry run are tried: they decide nothing.
pub fn referenced(bag: &AttributeBag<'_>) -> Vec<String> {
    let mut referenced: Vec<String> = bag.references().iter().map(reference_text).collect();
    referenced.sort();
    referenced
}

/// Explains a check over a preprocessed bag. `trace` is what its dispatch recorded, `referenced` what decided.
pub fn explain<'t: 'a, 'a>(
    table: &'t RoutingTable,
    bag: &AttributeBag<'a>,
    trace: &DispatchTrace,
    referenced: Vec<String>,
) -> Explanation {
    let snapshot = table.snapshot();
    let namespace = namespace(table, bag);
    let relevant = snapshot.rules.iter().filter(|rule| concerns_check(rule));
    let rules = relevant
        .map(|rule| {
            let own = namespace.as_deref() == Some(&*rule.key.namespace);
            let applies = own || rule.key.namespace == snapshot.default_namespace;
            explain_rule(rule, applies, bag)
        })
        .collect();
    let dispatches =
        trace.dispatches.iter().filter(|d| d.kind == RuleKind::Check).map(explain_dispatch).collect();
    let decides = |name: &str| referenced.iter().any(|text| text.split([' ', ':']).next() == Some(name));
    let mut mapped = snapshot.mappings();
    mapped.retain(|route| route.what == "mapping" && decides(&route.to));
    Explanation { snapshot: snapshot.id.0, namespace, rules, dispatches, referenced, mapped }
}

/// A reference as the command line prints it.
pub fn reference_text(reference: &mixer_attribute::Reference<'_>) -> String {
    let condition = match reference.condition {
        Presence::Absence => "ABSENCE",
        Presence::Exact => "EXACT",
    };
    match reference.key {
        None => format!("{} {condition}", reference.name),
        Some(key) => format!("{}::{} {condition}", reference.name, String::from_utf8_lossy(key)),
    }
}

fn concerns_check(rule: &RuleConfig) -> bool {
    let checks = |v: Variety| RuleKind::of(v) == RuleKind::Check;
    rule.actions.iter().flat_map(|a| &a.instances).any(|i| checks(i.template().variety))
        || !rule.request_headers.is_empty()
        || !rule.response_headers.is_empty()
}

fn namespace(table: &RoutingTable, bag: &AttributeBag<'_>) -> Option<String> {
    table.namespace_of(bag).map(|n| String::from_utf8_lossy(n).into_owned())
}

fn explain_rule<'t: 'a, 'a>(rule: &'t RuleConfig, applies: bool, bag: &AttributeBag<'a>) -> RuleExplanation {
    let mut condition = None;
    let mut near_miss = None;
    let verdict = match &rule.condition {
        _ if !applies => Verdict::OtherNamespace,
        Condition::Always => Verdict::Matched,
        Condition::Broken(_) => Verdict::Broken,
        Condition::When(program) => {
            let part = program.explain(bag);
            let verdict = match &part.outcome {
                Outcome::Failed(_) => Verdict::Failed,
                outcome if outcome.is_true_value() => Verdict::Matched,
                _ => Verdict::NotMatched,
            };
            if verdict != Verdict::Matched {
                near_miss = nearly(&program.explain_operands(bag));
            }
            condition = Some(part_of(&part));
            verdict
        }
    };
    RuleExplanation {
        rule: rule.key.to_string(),
        file: rule.origin.file.to_string(),
        line: rule.origin.first_line,
        match_text: rule.match_text.to_string(),
        verdict,
        condition,
        near_miss,
        handlers: rule.actions.iter().map(|a| a.handler.name.to_string()).collect(),
        dry_run: rule.dry_run,
    }
}

fn part_of(part: &Part) -> PartExplanation {
    PartExplanation {
        text: part.text.clone(),
        outcome: part.outcome.to_string(),
        parts: part.children.iter().map(part_of).collect(),
    }
}

/// What is wrong, if exactly one of several operands is not true.
fn nearly(operands: &[Part]) -> Option<String> {
    let mut misses = operands.iter().filter(|operand| !operand.outcome.is_true_value());
    let miss = misses.next()?;
    if misses.next().is_some() || operands.len() < 2 {
        return None;
    }
    let mut text = format!("only `{}` is not true", miss.text);
    if let Outcome::Failed(why) = &miss.outcome {
        let _ = write!(text, ": {why}");
        return Some(text);
    }
    let mut leaves = Vec::new();
    known_leaves(&miss.children, &mut leaves);
    for (i, leaf) in leaves.iter().enumerate() {
        let _ = write!(text, "{} {} is {}", if i == 0 { ":" } else { "," }, leaf.text, leaf.outcome);
    }
    Some(text)
}

/// The attributes and entries that went into an outcome.
fn known_leaves<'p>(parts: &'p [Part], leaves: &mut Vec<&'p Part>) {
    for part in parts {
        match part.outcome {
            Outcome::NotEvaluated => {}
            _ if !part.children.is_empty() => known_leaves(&part.children, leaves),
            _ if part.text == "default" || leaves.contains(&part) => {}
            _ => leaves.push(part),
        }
    }
}

fn explain_dispatch(traced: &crate::dispatch::TracedDispatch) -> DispatchExplanation {
    let mut said = String::new();
    // Writing to a String cannot fail.
    let _ = match (&traced.check, &traced.quota, &traced.error) {
        (_, _, Some(error)) => write!(said, "error: {error}"),
        (Some(check), _, _) => {
            let message = &check.status.message;
            let verdict = match check.status.code {
                0 => "OK".to_owned(),
                code => format!("refused with code {code} ({message})"),
            };
            write!(said, "{verdict}, valid for {} and {} uses", check.valid_duration, check.valid_use_count)
        }
        (_, Some((_, quota)), _) => write!(said, "granted {} for {}", quota.granted, quota.valid_duration),
        _ => write!(said, "nothing"),
    };
    DispatchExplanation {
        rule: traced.rule.key.to_string(),
        handler: traced.handler.name.to_string(),
        adapter: traced.handler.adapter.info().name.to_owned(),
        instance: traced.instance.to_string(),
        values: traced.values.clone(),
        said,
        dry_run: traced.rule.dry_run,
    }
}
