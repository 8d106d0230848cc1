//! Compares an answer with its expectations.

use super::expect::{Expectation, InstancePattern, ReferencePattern, RuleName};
use mixer_attribute::SignedDuration;
use mixer_engine::decision::{Answer, Decision, DirectiveText, HeaderText, InstanceText, status_name};

/// The expected and the actual text, if they differ.
pub(super) type Mismatch = Option<(String, String)>;

/// Compares one expectation with an answer.
pub(super) fn compare(expectation: &Expectation, found: &Decision) -> Mismatch {
    match expectation {
        Expectation::Error(wanted) => {
            let text = found.error.as_ref().map(|error| error.message.as_str());
            let fits = text.is_some_and(|text| wanted.fits(text));
            differ(
                fits,
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
                wanted.iter().filter(|rule| !found.rules.iter().any(|name| rule.means(name))).collect();
            differ(missing.is_empty(), || rule_list(missing.iter().copied()), || list(&found.rules))
        }
        Expectation::RulesExclude(wanted) => {
            let there: Vec<&RuleName> =
                wanted.iter().filter(|rule| found.rules.iter().any(|name| rule.means(name))).collect();
            let text = || format!("not {}", rule_list(there.iter().copied()));
            differ(there.is_empty(), text, || list(&found.rules))
        }
        Expectation::DryRun(rule, outcome) => {
            let said: Vec<&str> = found
                .dry_run
                .iter()
                .filter(|tried| rule.means(&tried.rule))
                .map(|tried| tried.outcome.as_str())
                .collect();
            let none = outcome == "none" && said.is_empty();
            let fits = none || said.contains(&outcome.as_str());
            differ(
                fits,
                || outcome.clone(),
                || if said.is_empty() { "none".to_owned() } else { said.join(", ") },
            )
        }
        Expectation::Reported(wanted) => same_instances(wanted, &found.reported),
        Expectation::ReportedInclude(wanted) => {
            let missing: Vec<String> = wanted
                .iter()
                .filter(|pattern| !found.reported.iter().any(|instance| fits(pattern, instance)))
                .map(ToString::to_string)
                .collect();
            differ(missing.is_empty(), || list(&missing), || instance_list(&found.reported))
        }
        of_answer => match &found.answer {
            Some(answer) => compare_answer(of_answer, answer),
            // Reported once, by the step.
            None => None,
        },
    }
}

fn compare_answer(expectation: &Expectation, answer: &Answer) -> Mismatch {
    let directive = answer.directive.clone().unwrap_or_default();
    match expectation {
        Expectation::Status(code) => {
            differ(answer.status.code == *code, || status_name(*code), || status(answer))
        }
        Expectation::Message(wanted) => {
            let text = &answer.status.message;
            differ(wanted.fits(text), || wanted.to_string(), || format!("{text:?}"))
        }
        Expectation::ValidDuration(wanted) => duration(*wanted, &answer.valid_duration),
        Expectation::ValidUseCount(wanted) => {
            let found = i64::from(answer.valid_use_count);
            differ(*wanted == found, || wanted.to_string(), || found.to_string())
        }
        Expectation::Referenced(wanted) => {
            let found = referenced(answer);
            let exact = found.len() == wanted.len() && missing(wanted, &found).is_empty();
            differ(exact, || reference_list(wanted.iter()), || list(&found))
        }
        Expectation::ReferencedInclude(wanted) => {
            let found = referenced(answer);
            let missing = missing(wanted, &found);
            differ(missing.is_empty(), || reference_list(missing.iter().copied()), || list(&found))
        }
        Expectation::ReferencedExclude(wanted) => {
            let found = referenced(answer);
            let there: Vec<_> = wanted.iter().filter(|p| found.iter().any(|f| p.means(f))).collect();
            let text = || format!("not {}", reference_list(there.iter().copied()));
            differ(there.is_empty(), text, || list(&found))
        }
        Expectation::QuotaGranted(name, wanted) => match answer.quotas.get(name) {
            Some(quota) => {
                differ(quota.granted == *wanted, || wanted.to_string(), || quota.granted.to_string())
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
            differ(*wanted == found, || wanted.to_string(), || direct(&directive))
        }
        Expectation::DirectResponseBody(wanted) => {
            let body = &directive.direct_response_body;
            differ(wanted.fits(body), || wanted.to_string(), || format!("{body:?}"))
        }
        _ => None,
    }
}

fn differ(
    same: bool,
    expected: impl FnOnce() -> String,
    found: impl FnOnce() -> String,
) -> Option<(String, String)> {
    (!same).then(|| (expected(), found()))
}

fn status(answer: &Answer) -> String {
    match answer.status.message.as_str() {
        "" => answer.status.name.clone(),
        message => format!("{} ({message})", answer.status.name),
    }
}

fn no_quota(expected: String, answer: &Answer) -> Mismatch {
    let why = if answer.status.code == 0 { "it was not asked for" } else { "the check is refused" };
    Some((expected, format!("no grant: {why}")))
}

/// Durations are compared by value, not as text.
fn duration(wanted: SignedDuration, found: &str) -> Mismatch {
    differ(SignedDuration::parse(found) == Ok(wanted), || wanted.to_string(), || found.to_owned())
}

fn direct(directive: &DirectiveText) -> String {
    match directive.direct_response_code {
        0 => "no direct response".to_owned(),
        code => code.to_string(),
    }
}

fn same_rules(wanted: &[RuleName], found: &[String]) -> Mismatch {
    let all = wanted.iter().all(|rule| found.iter().any(|name| rule.means(name)));
    let only = found.iter().all(|name| wanted.iter().any(|rule| rule.means(name)));
    differ(all && only, || rule_list(wanted.iter()), || list(found))
}

fn headers(wanted: &[HeaderText], found: &[HeaderText]) -> Mismatch {
    let same = wanted.len() == found.len()
        && wanted.iter().zip(found).all(|(a, b)| {
            a.name.eq_ignore_ascii_case(&b.name) && a.value == b.value && a.operation == b.operation
        });
    let texts = |list: &[HeaderText]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    differ(same, || list(&texts(wanted)), || list(&texts(found)))
}

fn referenced(answer: &Answer) -> Vec<String> {
    answer.referenced.iter().map(ToString::to_string).collect()
}

fn missing<'p>(wanted: &'p [ReferencePattern], found: &[String]) -> Vec<&'p ReferencePattern> {
    wanted.iter().filter(|pattern| !found.iter().any(|found| pattern.means(found))).collect()
}

fn fits(pattern: &InstancePattern, found: &InstanceText) -> bool {
    let named = pattern.instance == found.instance
        || found.instance.split('.').next() == Some(pattern.instance.as_str());
    found.error.is_none()
        && named
        && pattern.handler.as_ref().is_none_or(|handler| *handler == found.handler)
        && pattern.values.iter().all(|(name, value)| found.values.get(name) == Some(value))
}

/// Every pattern matches a distinct instance, and no instance remains.
fn same_instances(wanted: &[InstancePattern], found: &[InstanceText]) -> Mismatch {
    let mut left: Vec<&InstanceText> = found.iter().collect();
    let all = wanted.iter().all(|pattern| {
        let at = left.iter().position(|instance| fits(pattern, instance));
        at.map(|at| left.swap_remove(at)).is_some()
    });
    let patterns = || wanted.iter().map(ToString::to_string).collect::<Vec<_>>();
    differ(all && left.is_empty(), || list(&patterns()), || instance_list(found))
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
