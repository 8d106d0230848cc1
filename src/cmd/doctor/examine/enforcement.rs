//! What decides about calls without being enforced: shadow mode of the services for Envoy, and rules in dry run.

use std::time::Duration;

use serde::Deserialize;

use super::warn;
use crate::cmd::doctor::finding::Finding;
use crate::cmd::output::counted;
use mixer_engine::snapshot::{Snapshot, Unenforced, UnenforcedScope};

/// Most rules of a finding.
const MAX_RULES: usize = 5;
/// What to do about a service in shadow mode.
const CURE_OF_SERVICES: &str =
    "remove the setting, or set it to `enforce` or `false`, before this server alone decides about requests";
/// What to do about limits in shadow mode.
const CURE_OF_LIMITS: &str = "remove `shadow_mode: true` from limits that are to be enforced";
/// What to do about rules in dry run.
const CURE_OF_RULES: &str = "remove the annotation `mixer.dev/dry-run` from rules that are to be enforced";

/// `notEnforced` in `/readyz?verbose`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct NotEnforced {
    count: usize,
    first: Vec<Entry>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    scope: String,
    what: String,
    resource: String,
    place: String,
    since: String,
    age_seconds: u64,
}

/// What a server with this configuration would not enforce.
pub(super) fn of(snapshot: &Snapshot) -> Vec<Finding> {
    let entry = |unenforced: &Unenforced, text: String| (unenforced.scope, text);
    let place = |unenforced: &Unenforced| format!("{} ({})", unenforced.resource, unenforced.place);
    let settings = snapshot.unenforced_settings();
    let settings =
        settings.map(|unenforced| entry(unenforced, format!("{}: {}", place(unenforced), unenforced.what)));
    let rules: Vec<Unenforced> = snapshot.unenforced_rules().collect();
    let count = rules.len();
    let rules = rules.iter().map(|rule| entry(rule, place(rule)));
    findings("enforcement", settings.chain(rules).collect(), count)
}

/// What the running server does not enforce.
pub(super) fn of_running(found: &NotEnforced) -> Vec<Finding> {
    let entries: Vec<_> = found
        .first
        .iter()
        .map(|Entry { scope, what, resource, place, since, age_seconds }| {
            let since = format!("since {since}, {}", age(*age_seconds));
            match scope.as_str() {
                "rule" => (UnenforcedScope::Rule, format!("{resource} ({place}), {since}")),
                "limits" => (UnenforcedScope::Limits, format!("{resource} ({place}): {what}; {since}")),
                _ => (UnenforcedScope::Service, format!("{resource} ({place}): {what}; {since}")),
            }
        })
        .collect();
    let settings = entries.iter().filter(|(scope, _)| *scope != UnenforcedScope::Rule).count();
    findings("running enforcement", entries, found.count.saturating_sub(settings))
}

/// How long it lasts, as the server counts it.
fn age(seconds: u64) -> String {
    format!("for {:?}", Duration::from_secs(seconds))
}

/// One for each service and each file of limits, and one for all rules, of which there are `rules`.
fn findings(check: &'static str, entries: Vec<(UnenforcedScope, String)>, rules: usize) -> Vec<Finding> {
    let (settings, named): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|(scope, _)| *scope != UnenforcedScope::Rule);
    let cure = |scope| match scope {
        UnenforcedScope::Limits => CURE_OF_LIMITS,
        _ => CURE_OF_SERVICES,
    };
    let mut found: Vec<Finding> =
        settings.into_iter().map(|(scope, text)| warn(check, text, cure(scope))).collect();
    if rules > 0 {
        let named: Vec<String> = named.into_iter().map(|(_, text)| text).take(MAX_RULES).collect();
        let others = rules.saturating_sub(named.len());
        let others = if others > 0 { format!(" and {others} more") } else { String::new() };
        let detail = format!(
            "{} in dry run, evaluated and counted only: {}{others}",
            counted(rules, "rule"),
            named.join(", ")
        );
        found.push(warn(check, detail, CURE_OF_RULES));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::doctor::finding::CheckStatus;

    #[test]
    fn services_and_rules_that_enforce_nothing_are_warnings() {
        let rule = |name: &str| {
            format!(
                r#"{{"scope": "rule", "what": "w", "resource": "{name}.rule.ns", "place": "/p/r.yaml:3",
                    "since": "2026-01-02T03:04:05Z", "ageSeconds": 90}}"#
            )
        };
        let json = format!(
            r#"{{"count": 8, "first": [{{"scope": "service", "what": "`mode: shadow`: all OK", "resource": "default.envoybridge.ns",
                "place": "/p/b.yaml:7", "since": "2026-01-02T03:04:05Z", "ageSeconds": 5}}, {}, {}]}}"#,
            rule("a"),
            rule("b")
        );
        let found = of_running(&serde_json::from_str(&json).unwrap());
        assert!(found.iter().all(|finding| finding.verdict == CheckStatus::Warn && finding.hint.is_some()));
        let details: Vec<&str> = found.iter().map(|finding| finding.detail.as_str()).collect();
        assert_eq!(
            details,
            [
                "default.envoybridge.ns (/p/b.yaml:7): `mode: shadow`: all OK; since 2026-01-02T03:04:05Z, for 5s",
                "7 rules in dry run, evaluated and counted only: a.rule.ns (/p/r.yaml:3), since 2026-01-02T03:04:05Z, for 90s, \
                 b.rule.ns (/p/r.yaml:3), since 2026-01-02T03:04:05Z, for 90s and 5 more"
            ]
        );
        assert!(of_running(&NotEnforced::default()).is_empty());
    }
}
