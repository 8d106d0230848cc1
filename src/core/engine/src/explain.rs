//! Explanations of check results: the rules considered, the evaluation of each condition, near misses, handler results, and the
//! referenced attributes.
//!
//! Works on a copy of the request and a published table. Slow and allocating: for debugging only. An explanation contains request
//! values, so only loopback clients may receive it; values that are secret are masked wherever they occur.

mod failures;
mod quotas;
mod unnamed;

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::dispatch::DispatchTrace;
use crate::routing::{RoutingTable, RuleKind};
use crate::runtime::{KeptResource, Published};
use crate::secret_values::SecretValues;
use crate::snapshot::{Allowance, Condition, MappingOutline, OnError, RuleConfig};
use crate::template::Variety;
use mixer_attribute::{AttributeBag, Condition as Presence};
use mixer_base::secrets::{MASKED, SecretNames};
use mixer_expr::{Explanation as Part, Outcome};

pub use failures::{FailureCause, OnErrorExplanation, envoy_call_that_fails};
pub use quotas::{MAX_QUOTAS, QuotaExplanation, QuotaExplanations, explain_quotas};
pub use unnamed::WithoutNamespace;

/// The explanation of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Id of the snapshot that was evaluated.
    pub snapshot: u64,
    /// The request's namespace, whose rules apply after those of the default namespace; `None` when the request has none.
    pub namespace: Option<String>,
    /// The answer of the check.
    pub decision: Decision,
    /// What a call of Envoy gets where that is another answer: a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub for_envoy: Vec<String>,
    /// The rules with a check action, a header operation or a default, in evaluation order: all that matched, nearly matched or could not be
    /// evaluated, and the first of those that did not match or belong to other namespaces; within [`MAX_RULES_BYTES`].
    pub rules: Vec<RuleExplanation>,
    /// How many rules are left out.
    #[serde(default, skip_serializing_if = "Omitted::is_none")]
    pub omitted: Omitted,
    /// The page of rules that is listed, from 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub page: usize,
    /// The number of pages.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub pages: usize,
    /// Handler results, in rule order.
    pub dispatches: Vec<DispatchExplanation>,
    /// Referenced attributes, as `name[::key] CONDITION`, sorted.
    pub referenced: Vec<String>,
    /// The mappings of extensions that set referenced attributes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mapped: Vec<MappingOutline>,
    /// Who allocates the quotas of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaExplanation>,
}

fn one() -> usize {
    1
}

fn is_one(count: &usize) -> bool {
    *count == 1
}

/// Rules that are explained of those that did not match, and of those of other namespaces.
pub const MAX_UNMATCHED: usize = 50;
/// Bytes of the rules of an explanation, approximately: the messages of gRPC clients have 4 MiB.
pub const MAX_RULES_BYTES: usize = 2 << 20;

/// Rules that an explanation leaves out, by verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Omitted {
    /// Rules that matched, nearly matched, or could not be evaluated.
    pub relevant: usize,
    /// Rules that did not match.
    pub not_matched: usize,
    /// Rules of other namespaces.
    pub other_namespace: usize,
}

impl Omitted {
    /// Whether nothing is left out.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// For example `99950 rules that did not match and 3 of other namespaces are not listed`.
impl std::fmt::Display for Omitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            (self.relevant, "that matched, nearly matched or failed"),
            (self.not_matched, "that did not match"),
            (self.other_namespace, "of other namespaces"),
        ];
        let mut parts = parts.into_iter().filter(|(count, _)| *count > 0);
        if let Some((count, what)) = parts.next() {
            write!(f, "{count} rules {what}")?;
        }
        for (count, what) in parts {
            write!(f, ", {count} {what}")?;
        }
        f.write_str(" are not listed")
    }
}

/// Chooses the rules of one page of an explanation.
///
/// Each page has [`MAX_UNMATCHED`] further rules that did not match, as many of other namespaces, and [`MAX_RULES_BYTES`] of those that
/// matched, nearly matched or failed.
#[derive(Default)]
struct Selection {
    /// The page, from 0.
    page: usize,
    rules: Vec<RuleExplanation>,
    omitted: Omitted,
    /// Of the rules that are listed and did not match, or are of other namespaces.
    plain_bytes: usize,
    /// Of all rules that matched, nearly matched or failed.
    relevant_bytes: usize,
    not_matched: usize,
    other_namespace: usize,
}

impl Selection {
    /// Whether a rule of another namespace is left out without being explained. If so, it is counted.
    fn omits_other_namespace(&mut self) -> bool {
        let is_listed =
            self.other_namespace / MAX_UNMATCHED == self.page && self.plain_bytes < MAX_RULES_BYTES / 2;
        if !is_listed {
            self.other_namespace += 1;
            self.omitted.other_namespace += 1;
        }
        !is_listed
    }

    fn push(&mut self, rule: RuleExplanation) {
        let is_plain = rule.verdict == Verdict::NotMatched && rule.near_miss.is_none();
        let is_other = rule.verdict == Verdict::OtherNamespace;
        let bytes = rule.bytes();
        let has_room = |plain_bytes: usize| plain_bytes + bytes <= MAX_RULES_BYTES / 2;
        let (is_listed, omitted) = if is_plain {
            self.not_matched += 1;
            let is_of_page = (self.not_matched - 1) / MAX_UNMATCHED == self.page;
            (is_of_page && has_room(self.plain_bytes), &mut self.omitted.not_matched)
        } else if is_other {
            self.other_namespace += 1;
            (has_room(self.plain_bytes), &mut self.omitted.other_namespace)
        } else {
            self.relevant_bytes += bytes;
            let is_of_page = self.relevant_bytes / MAX_RULES_BYTES == self.page;
            (is_of_page && bytes <= MAX_RULES_BYTES, &mut self.omitted.relevant)
        };
        if !is_listed {
            *omitted += 1;
            return;
        }
        if is_plain || is_other {
            self.plain_bytes += bytes;
        }
        self.rules.push(rule);
    }

    /// How many pages there are, at least one.
    fn pages(&self) -> usize {
        let plain = self.not_matched.max(self.other_namespace).div_ceil(MAX_UNMATCHED);
        plain.max(self.relevant_bytes / MAX_RULES_BYTES + 1)
    }
}

/// The answer of a check, without quotas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The gRPC code; 0: allowed.
    pub code: i32,
    /// The message of the answer.
    pub message: String,
    /// Whether the check failed, so that its call ends with the code; else the answer has it.
    pub failed: bool,
    /// What made it fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<FailureCause>,
    /// Full name of the rule that refused the request; `None` also for a refusal that no rule made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<String>,
}

/// The evaluation of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleExplanation {
    /// Full name.
    pub rule: String,
    /// Its file.
    pub file: String,
    /// First line of the rule in the file; `None` if the previous version of the rule serves, which the file no longer has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Why the previous version of the rule serves, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptExplanation>,
    /// Its condition; an empty one is always true.
    #[serde(rename = "match")]
    pub match_text: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// The condition as a tree of subexpressions.
    pub condition: Option<PartExplanation>,
    /// The single operand that was not true, for a rule that nearly matched.
    pub near_miss: Option<String>,
    /// Handlers of its actions.
    pub handlers: Vec<String>,
    /// Whether the rule is in dry run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Whether the rule refuses what no rule allows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub denies_by_default: bool,
}

/// Why the previous version of a rule serves instead of what its file has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptExplanation {
    /// Since when, in RFC 3339.
    pub since: String,
    /// One line.
    pub why: String,
}

impl RuleExplanation {
    /// Its bytes as JSON, approximately.
    fn bytes(&self) -> usize {
        let texts = [&self.rule, &self.file, &self.match_text];
        let handlers: usize = self.handlers.iter().map(|handler| handler.len() + 8).sum();
        let optional = self.near_miss.as_ref().map_or(0, String::len)
            + self.kept.as_ref().map_or(0, |kept| kept.since.len() + kept.why.len());
        let condition = self.condition.as_ref().map_or(0, PartExplanation::bytes);
        200 + texts.iter().map(|text| text.len()).sum::<usize>() + handlers + optional + condition
    }

    /// `FILE:LINE`, or that the previous version serves, and since when.
    pub fn place(&self) -> String {
        match (self.line, &self.kept) {
            (_, Some(kept)) => format!("previous version, since {}, of {}", kept.since, self.file),
            (Some(line), None) => format!("{}:{line}", self.file),
            (None, None) => self.file.clone(),
        }
    }
}

/// The verdict on a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// The rule applied.
    Matched,
    /// Its condition is false.
    NotMatched,
    /// Its condition failed to evaluate, which counts as false.
    Failed,
    /// Its condition failed to evaluate, so that the rule refuses the request, or the check fails.
    FailedRefuses,
    /// Its condition does not compile; the rule never applies.
    Broken,
    /// The rule belongs to another namespace than the request.
    OtherNamespace,
}

/// A subexpression of a condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartExplanation {
    /// Its text.
    pub text: String,
    /// Its value, `absent`, `not evaluated`, or an error.
    pub outcome: String,
    /// Its operands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartExplanation>,
}

impl PartExplanation {
    fn bytes(&self) -> usize {
        40 + self.text.len() + self.outcome.len() + self.parts.iter().map(Self::bytes).sum::<usize>()
    }
}

/// The result of one handler call.
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
    /// Values of the instance: field and value as text.
    pub values: Vec<(String, String)>,
    /// The result as text.
    pub said: String,
    /// What follows, if the call failed and an annotation says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnErrorExplanation>,
    /// Whether the rule is in dry run: the result is not enforced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// The referenced attributes of a bag, for display. Call it before dry-run rules are evaluated: their references do not count.
pub fn referenced(bag: &AttributeBag<'_>) -> Vec<String> {
    let mut referenced: Vec<String> = bag.references().iter().map(reference_text).collect();
    referenced.sort();
    referenced
}

/// The header of a call that asks for another page of an explanation than the first, from 1.
pub const PAGE_HEADER: &str = "x-mixer-explain-page";

/// Explains a check over a preprocessed bag, from its answer, the trace of its dispatch and the result of [`referenced`]. `page` is a page of
/// rules, from 0; behind the last one there are none. Without quotas: [`explain_quotas`].
pub fn explain<'t: 'a, 'a>(
    published: &'t Published,
    bag: &AttributeBag<'a>,
    decision: Decision,
    trace: &DispatchTrace,
    referenced: Vec<String>,
    page: usize,
) -> Explanation {
    let table = &published.routes;
    let snapshot = table.snapshot();
    let namespace = namespace(table, bag);
    let secrets = Secrets { names: &snapshot.secrets, values: SecretValues::of(bag, &snapshot.secrets) };
    // The conditions are evaluated once more.
    bag.renew_searches();
    let relevant = snapshot.rules.iter().filter(|rule| has_check_effect(rule));
    let mut selection = Selection { page, ..Selection::default() };
    for rule in relevant {
        let own = namespace.as_deref() == Some(&*rule.key.namespace);
        let applies = own || rule.key.namespace == snapshot.default_namespace;
        if !applies && selection.omits_other_namespace() {
            continue;
        }
        let kept = published.kept.iter().find(|kept| kept.key == rule.key);
        selection.push(explain_rule(rule, kept, applies, bag, &secrets));
    }
    let pages = selection.pages();
    let Selection { rules, omitted, .. } = selection;
    let checks = trace.dispatches.iter().filter(|d| d.kind == RuleKind::Check);
    let mut dispatches: Vec<_> = checks.map(|traced| explain_dispatch(traced, &secrets)).collect();
    let defaults = trace.rules.iter().filter(|traced| traced.kind == RuleKind::Default);
    dispatches.extend(defaults.map(|traced| explain_default(traced, trace.allowed)));
    let is_referenced =
        |name: &str| referenced.iter().any(|text| text.split([' ', ':']).next() == Some(name));
    let mut mapped = snapshot.mappings();
    mapped.retain(|route| route.what == "mapping" && is_referenced(&route.to));
    let decision = Decision { message: secrets.mask(&decision.message), ..decision };
    let for_envoy = for_envoy(table, namespace.as_deref(), &decision, trace);
    let snapshot = snapshot.id.0;
    Explanation {
        snapshot,
        namespace,
        decision,
        for_envoy,
        rules,
        omitted,
        page: page + 1,
        pages,
        dispatches,
        referenced,
        mapped,
        quotas: Vec::new(),
    }
}

/// A reference as `name[::key] CONDITION`.
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

fn has_check_effect(rule: &RuleConfig) -> bool {
    let checks = |v: Variety| RuleKind::of(v) == RuleKind::Check;
    rule.actions.iter().flat_map(|a| &a.instances).any(|i| checks(i.template().variety))
        || rule.denies_by_default
        || rule.has_header_operations
}

fn namespace(table: &RoutingTable, bag: &AttributeBag<'_>) -> Option<String> {
    table.namespace_of(bag).map(|n| String::from_utf8_lossy(n).into_owned())
}

/// What a call of Envoy gets where that is not this decision.
fn for_envoy(
    table: &RoutingTable,
    namespace: Option<&str>,
    decision: &Decision,
    trace: &DispatchTrace,
) -> Vec<String> {
    let unnamed = if namespace.is_none() { WithoutNamespace::of(table) } else { None };
    let unnamed = unnamed.map(|envoy| format!("a call of Envoy that names no namespace {envoy}"));
    let services = table.snapshot().unenforced_services();
    let refuses = decision.code != 0;
    let services = services.filter(|unenforced| refuses && unenforced.service == "check");
    let unenforced = services.map(|unenforced| format!("{} ({})", unenforced.what, unenforced.place));
    let failed = decision.cause.and_then(|cause| failures::failed_check(table.snapshot(), cause, trace));
    unnamed.into_iter().chain(unenforced).chain(failed).collect()
}

fn explain_rule<'t: 'a, 'a>(
    rule: &'t RuleConfig,
    kept: Option<&KeptResource>,
    applies: bool,
    bag: &AttributeBag<'a>,
    secrets: &Secrets<'_>,
) -> RuleExplanation {
    let mut condition = None;
    let mut near_miss = None;
    let verdict = match &rule.condition {
        _ if !applies => Verdict::OtherNamespace,
        Condition::Always => Verdict::Matched,
        Condition::Broken(_) => Verdict::Broken,
        Condition::When(program) => {
            let part = masked(program.explain(bag), secrets);
            let verdict = match &part.outcome {
                Outcome::Failed(_) | Outcome::Exhausted(_) if refuses_failure(rule, &part.outcome) => {
                    Verdict::FailedRefuses
                }
                Outcome::Failed(_) | Outcome::Exhausted(_) => Verdict::Failed,
                outcome if outcome.is_true_value() => Verdict::Matched,
                _ => Verdict::NotMatched,
            };
            // One operand is the condition, which is explained.
            if verdict != Verdict::Matched && program.conjunct_texts().len() > 1 {
                let operands = program.explain_operands(bag).into_iter();
                let operands: Vec<Part> = operands.map(|operand| masked(operand, secrets)).collect();
                near_miss = single_miss(&operands);
            }
            condition = Some(part_of(&part));
            verdict
        }
    };
    RuleExplanation {
        rule: rule.key.to_string(),
        file: rule.origin.file.to_string(),
        line: kept.is_none().then_some(rule.origin.first_line).filter(|line| *line > 0),
        kept: kept.map(|kept| KeptExplanation {
            since: kept.since.rfc3339_micros().to_string(),
            why: secrets.mask(&kept.why),
        }),
        match_text: secrets.mask(&rule.match_text),
        verdict,
        condition,
        near_miss,
        handlers: rule.actions.iter().map(|a| a.handler.name.to_string()).collect(),
        dry_run: rule.dry_run,
        denies_by_default: rule.denies_by_default,
    }
}

/// Whether a condition that fails with this outcome refuses the request.
fn refuses_failure(rule: &RuleConfig, outcome: &Outcome) -> bool {
    match rule.on_error {
        Some(OnError::Allow) => false,
        _ if rule.denies_failed_condition(|variety| variety != Variety::Report) => true,
        _ => rule.denies_by_default || matches!(outcome, Outcome::Exhausted(_)),
    }
}

/// What an explanation must not show.
struct Secrets<'s> {
    names: &'s SecretNames,
    values: SecretValues,
}

impl Secrets<'_> {
    fn mask(&self, text: &str) -> String {
        self.values.mask(text)
    }
}

/// A part without secret values: those of the request, and what a part evaluates to that names a secret.
fn masked(part: Part, secrets: &Secrets<'_>) -> Part {
    let outcome = match part.outcome {
        Outcome::Value(value) if value.starts_with('"') && secrets.names.is_secret_in(&part.text) => {
            Outcome::Value(MASKED.to_owned())
        }
        Outcome::Value(value) => Outcome::Value(secrets.mask(&value)),
        Outcome::Failed(why) => Outcome::Failed(secrets.mask(&why)),
        outcome @ (Outcome::Absent | Outcome::NotEvaluated | Outcome::Exhausted(_)) => outcome,
    };
    let children = part.children.into_iter().map(|child| masked(child, secrets)).collect();
    Part { text: secrets.mask(&part.text), outcome, children }
}

fn part_of(part: &Part) -> PartExplanation {
    PartExplanation {
        text: part.text.clone(),
        outcome: part.outcome.to_string(),
        parts: part.children.iter().map(part_of).collect(),
    }
}

/// Describes the only one of several operands that is not true; `None` if there are more.
fn single_miss(operands: &[Part]) -> Option<String> {
    let mut misses = operands.iter().filter(|operand| !operand.outcome.is_true_value());
    let miss = misses.next()?;
    if misses.next().is_some() {
        return None;
    }
    let mut text = format!("only `{}` is not true", miss.text);
    if let Outcome::Failed(why) = &miss.outcome {
        let _ = write!(text, ": {why}");
        return Some(text);
    }
    let mut leaves = Vec::new();
    evaluated_leaves(&miss.children, &mut leaves);
    for (i, leaf) in leaves.iter().enumerate() {
        let _ = write!(text, "{} {} is {}", if i == 0 { ":" } else { "," }, leaf.text, leaf.outcome);
    }
    Some(text)
}

/// Whether a part is `true` or `false`, which says nothing about a request.
fn is_constant(part: &Part) -> bool {
    matches!(&part.outcome, Outcome::Value(value) if *value == part.text)
}

/// The leaves that were evaluated: attributes and map entries.
fn evaluated_leaves<'p>(parts: &'p [Part], leaves: &mut Vec<&'p Part>) {
    for part in parts {
        match part.outcome {
            Outcome::NotEvaluated => {}
            _ if !part.children.is_empty() => evaluated_leaves(&part.children, leaves),
            _ if part.text == "default" || leaves.contains(&part) || is_constant(part) => {}
            _ => leaves.push(part),
        }
    }
}

fn explain_dispatch(traced: &crate::dispatch::TracedDispatch, secrets: &Secrets<'_>) -> DispatchExplanation {
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
    let value = |(field, value): &(String, String)| {
        let shown = if secrets.names.is_secret(field) && !value.is_empty() {
            MASKED.to_owned()
        } else {
            secrets.mask(value)
        };
        (field.clone(), shown)
    };
    let values = traced.values.iter().map(value);
    DispatchExplanation {
        rule: traced.rule.key.to_string(),
        handler: traced.handler.name.to_string(),
        adapter: traced.handler.adapter_name().to_owned(),
        instance: traced.instance.to_string(),
        values: values.collect(),
        said: secrets.mask(&said),
        on_error: OnErrorExplanation::of(traced),
        dry_run: traced.rule.dry_run,
    }
}

/// The effect of a default that selects the request.
fn explain_default(traced: &crate::dispatch::TracedRule, allowed: Allowance) -> DispatchExplanation {
    let said = match allowed {
        _ if traced.rule.is_satisfied_by(allowed) => "nothing: a rule allows the request",
        Allowance::Nothing => "refused: no rule allows the request",
        Allowance::Mesh | Allowance::Everywhere => {
            "refused: no rule of its namespace allows the request. A rule for the mesh does, and opens no other namespace without the \
             annotation `mixer.dev/allows: everywhere`"
        }
    };
    DispatchExplanation {
        rule: traced.rule.key.to_string(),
        handler: "default".to_owned(),
        adapter: "mixer".to_owned(),
        instance: String::new(),
        values: Vec::new(),
        said: said.to_owned(),
        on_error: None,
        dry_run: traced.rule.dry_run,
    }
}
