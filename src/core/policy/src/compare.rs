//! Compares answers with expectations.

use super::expectation::{Expectation, InstancePattern, ReferencePattern, RuleName};
use mixer_attribute::SignedDuration;
use mixer_engine::decision::{Answer, Decision, DirectiveText, HeaderText, InstanceText, status_name};

/// Expected and found value if they differ.
pub(super) type Mismatch = Option<(String, String)>;

/// Compares a decision with an expectation.
pub(super) fn compare(expectation: &Expectation, found: &Decision) -> Mismatch {
    match expectation {
        Expectation::Error(wanted) => {
            let text = found.error.as_ref().map(|error| error.message.as_str());
            let matches = text.is_some_and(|text| wanted.matches(text));
            mismatch_unless(
                matches,
                || format!("the call to fail with {wanted}"),
                || match text {
                    Some(text) => format!("{text:?}"),
                    None => "an answer".to_owned(),
                },
            )
        }
        Expectation::Rules(wanted) => same_rules(wanted, &found.rules),
        Expectation::RulesInclude(wanted) => {
            let missing: Vec<&RuleName> =
                wanted.iter().filter(|rule| !found.rules.iter().any(|name| rule.matches(name))).collect();
            mismatch_unless(missing.is_empty(), || rule_list(missing.iter().copied()), || list(&found.rules))
        }
        Expectation::RulesExclude(wanted) => {
            let unexpected: Vec<&RuleName> =
                wanted.iter().filter(|rule| found.rules.iter().any(|name| rule.matches(name))).collect();
            let text = || format!("not {}", rule_list(unexpected.iter().copied()));
            mismatch_unless(unexpected.is_empty(), text, || list(&found.rules))
        }
        Expectation::DryRun(rule, outcome) => {
            let outcomes: Vec<&str> = found
                .dry_run
                .iter()
                .filter(|trial| rule.matches(&trial.rule))
                .map(|trial| trial.outcome.as_str())
                .collect();
            let none = outcome == "none" && outcomes.is_empty();
            let matches = none || outcomes.contains(&outcome.as_str());
            mismatch_unless(
                matches,
                || outcome.clone(),
                || if outcomes.is_empty() { "none".to_owned() } else { outcomes.join(", ") },
            )
        }
        Expectation::Reported(wanted) => same_instances(wanted, &found.reported),
        Expectation::ReportedInclude(wanted) => {
            let missing: Vec<String> = wanted
                .iter()
                .filter(|pattern| !found.reported.iter().any(|instance| instance_matches(pattern, instance)))
                .map(ToString::to_string)
                .collect();
            mismatch_unless(missing.is_empty(), || list(&missing), || instance_list(&found.reported))
        }
        of_answer => match &found.answer {
            Some(answer) => compare_answer(of_answer, answer),
            // The step has reported the failed call.
            None => None,
        },
    }
}

fn compare_answer(expectation: &Expectation, answer: &Answer) -> Mismatch {
    let directive = answer.directive.clone().unwrap_or_default();
    match expectation {
        Expectation::Status(code) => {
            mismatch_unless(answer.status.code == *code, || status_name(*code), || status(answer))
        }
        Expectation::Message(wanted) => {
            let text = &answer.status.message;
            mismatch_unless(wanted.matches(text), || wanted.to_string(), || format!("{text:?}"))
        }
        Expectation::ValidDuration(wanted) => duration(*wanted, &answer.valid_duration),
        Expectation::ValidUseCount(wanted) => {
            let found = i64::from(answer.valid_use_count);
            mismatch_unless(*wanted == found, || wanted.to_string(), || found.to_string())
        }
        Expectation::Referenced(wanted) => {
            let found = referenced(answer);
            let exact = found.len() == wanted.len() && missing(wanted, &found).is_empty();
            mismatch_unless(exact, || reference_list(wanted.iter()), || list(&found))
        }
        Expectation::ReferencedInclude(wanted) => {
            let found = referenced(answer);
            let missing = missing(wanted, &found);
            mismatch_unless(missing.is_empty(), || reference_list(missing.iter().copied()), || list(&found))
        }
        Expectation::ReferencedExclude(wanted) => {
            let found = referenced(answer);
            let unexpected: Vec<_> = wanted.iter().filter(|p| found.iter().any(|f| p.matches(f))).collect();
            let text = || format!("not {}", reference_list(unexpected.iter().copied()));
            mismatch_unless(unexpected.is_empty(), text, || list(&found))
        }
        Expectation::QuotaGranted(name, wanted) => match answer.quotas.get(name) {
            Some(quota) => {
                mismatch_unless(quota.granted == *wanted, || wanted.to_string(), || quota.granted.to_string())
            }
            None => no_quota(wanted.to_string(), answer),
        },
        Expectation::QuotaValid(name, wanted) => match answer.quotas.get(name) {
            Some(quota) => duration(*wanted, &quota.valid_duration),
            None => no_quota(wanted.to_string(), answer),
        },
        Expectation::RequestHeaders(wanted) => headers(wanted, &directive.request_headers),
        Expectation::ResponseHeaders(wanted) => headers(wanted, &directive.response_headers),
        Expectation::DirectResponseCode(wanted) => {
            let found = i64::from(directive.direct_response_code);
            mismatch_unless(*wanted == found, || wanted.to_string(), || direct_response(&directive))
        }
        Expectation::DirectResponseBody(wanted) => {
            let body = &directive.direct_response_body;
            mismatch_unless(wanted.matches(body), || wanted.to_string(), || format!("{body:?}"))
        }
        _ => None,
    }
}

fn mismatch_unless(
    holds: bool,
    expected: impl FnOnce() -> String,
    found: impl FnOnce() -> String,
) -> Option<(String, String)> {
    (!holds).then(|| (expected(), found()))
}

fn status(answer: &Answer) -> String {
    match answer.status.message.as_str() {
        "" => answer.status.name.clone(),
        message => format!("{} ({message})", answer.status.name),
    }
}

fn no_quota(expected: String, answer: &Answer) -> Mismatch {
    let reason = if answer.status.code == 0 { "it was not requested" } else { "the check is denied" };
    Some((expected, format!("no grant: {reason}")))
}

/// Compares values, not spellings.
fn duration(wanted: SignedDuration, found: &str) -> Mismatch {
    mismatch_unless(SignedDuration::parse(found) == Ok(wanted), || wanted.to_string(), || found.to_owned())
}

fn direct_response(directive: &DirectiveText) -> String {
    match directive.direct_response_code {
        0 => "no direct response".to_owned(),
        code => code.to_string(),
    }
}

fn same_rules(wanted: &[RuleName], found: &[String]) -> Mismatch {
    let all = wanted.iter().all(|rule| found.iter().any(|name| rule.matches(name)));
    let only = found.iter().all(|name| wanted.iter().any(|rule| rule.matches(name)));
    mismatch_unless(all && only, || rule_list(wanted.iter()), || list(found))
}

fn headers(wanted: &[HeaderText], found: &[HeaderText]) -> Mismatch {
    let same = wanted.len() == found.len()
        && wanted.iter().zip(found).all(|(a, b)| {
            a.name.eq_ignore_ascii_case(&b.name) && a.value == b.value && a.operation == b.operation
        });
    let texts = |list: &[HeaderText]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    mismatch_unless(same, || list(&texts(wanted)), || list(&texts(found)))
}

fn referenced(answer: &Answer) -> Vec<String> {
    answer.referenced.iter().map(ToString::to_string).collect()
}

fn missing<'p>(wanted: &'p [ReferencePattern], found: &[String]) -> Vec<&'p ReferencePattern> {
    wanted.iter().filter(|pattern| !found.iter().any(|found| pattern.matches(found))).collect()
}

fn instance_matches(pattern: &InstancePattern, found: &InstanceText) -> bool {
    let named = pattern.instance == found.instance
        || found.instance.split('.').next() == Some(pattern.instance.as_str());
    found.error.is_none()
        && named
        && pattern.handler.as_ref().is_none_or(|handler| *handler == found.handler)
        && pattern.values.iter().all(|(name, value)| found.values.get(name) == Some(value))
}

/// Each pattern matches a different instance, and no instance remains.
fn same_instances(wanted: &[InstancePattern], found: &[InstanceText]) -> Mismatch {
    let mut remaining: Vec<&InstanceText> = found.iter().collect();
    let all = wanted.iter().all(|pattern| {
        let at = remaining.iter().position(|instance| instance_matches(pattern, instance));
        at.map(|at| remaining.swap_remove(at)).is_some()
    });
    let patterns = || wanted.iter().map(ToString::to_string).collect::<Vec<_>>();
    mismatch_unless(all && remaining.is_empty(), || list(&patterns()), || instance_list(found))
}

fn instance_list(found: &[InstanceText]) -> String {
    let text = |instance: &InstanceText| match &instance.error {
        Some(error) => format!("{} failed: {error}", instance.instance),
        None => {
            let values: Vec<String> =
                instance.values.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
            format!("{} at {} with {}", instance.instance, instance.handler, values.join(", "))
        }
    };
    list(&found.iter().map(text).collect::<Vec<_>>())
}

fn rule_list<'r>(rules: impl Iterator<Item = &'r RuleName>) -> String {
    list(&rules.map(|rule| rule.0.clone()).collect::<Vec<_>>())
}

fn reference_list<'r>(references: impl Iterator<Item = &'r ReferencePattern>) -> String {
    list(&references.map(ToString::to_string).collect::<Vec<_>>())
}

fn list(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}
