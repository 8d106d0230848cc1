//! Rules in dry run: counted, without effect on answers, caches and quotas.

use std::collections::BTreeMap;
use std::sync::Arc;

use mixer_api::MixerService;
use mixer_api::proto::istio::mixer::v1::CheckResponse;
use mixer_attribute::OwnedAttributes;
use mixer_attribute::request::{
    CheckCall, ReportWords, Semantics, encode_check_request, encode_report_request,
};
use mixer_config::Severity;
use mixer_engine::check_cache::CheckCacheLimits;
use mixer_engine::runtime::OnConfigError;
use prost::Message as _;

use crate::fixture::{check, serve};
use crate::refusal::{HANDLER, INSTANCE, deny, good};
use crate::stage::{Answer, Stage};

/// A denier, a quota, header operations and a report, each in a rule of its own; `ANNOTATION` is replaced.
const RULES: &str = r#"
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec: {attributes: {s1: {valueType: STRING}, s2: {valueType: STRING}}}
---
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {who: 's1 | "x"'}}}
---
kind: instance
metadata: {name: lines, namespace: istio-system}
spec: {compiledTemplate: reportnothing}
---
kind: handler
metadata: {name: refuse, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 7, message: closed}, validDuration: 1s, validUseCount: 3}}
---
kind: handler
metadata: {name: few, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.istio-system, maxAmount: 2, validDuration: 60s}]}}
---
kind: handler
metadata: {name: nowhere, namespace: istio-system}
spec: {compiledAdapter: noop}
---
kind: rule
metadata: {name: deny, namespace: istio-system, annotations: {ANNOTATION}}
spec: {match: 's2 == "a"', actions: [{handler: refuse, instances: [nothing]}]}
---
kind: rule
metadata: {name: limit, namespace: istio-system, annotations: {ANNOTATION}}
spec: {actions: [{handler: few, instances: [calls]}]}
---
kind: rule
metadata: {name: mark, namespace: istio-system, annotations: {ANNOTATION}}
spec: {requestHeaderOperations: [{name: x-mark, values: ['"yes"']}]}
---
kind: rule
metadata: {name: tell, namespace: istio-system, annotations: {ANNOTATION}}
spec: {actions: [{handler: nowhere, instances: [lines]}]}
"#;

/// The answer to a check with a quota of 5, and the samples of the dry-run metric.
fn answer_and_samples(text: &str, s2: &str) -> (CheckResponse, Vec<String>) {
    let (background, runtime, metrics) = serve(text, None);
    let service = MixerService::new(runtime, Arc::clone(&metrics), Arc::default(), None);
    let attributes: OwnedAttributes = [("s1", "me"), ("s2", s2)].into_iter().collect();
    let quotas = BTreeMap::from([("calls".to_owned(), (5, true))]);
    let body = encode_check_request(&attributes, 0, &CheckCall { deduplication_id: "1", quotas });
    let framed = background.block_on(service.check(body.into(), None)).unwrap();
    let report = encode_report_request([&attributes], 0, ReportWords::Own, Semantics::Delta);
    background.block_on(service.report(report.into(), None)).unwrap();
    let mut exposition = Vec::new();
    metrics.write(&mut exposition);
    let exposition = String::from_utf8(exposition).unwrap();
    let lines = exposition
        .lines()
        .filter(|line| line.starts_with("mixer_dry_run_outcomes_total{") && !line.ends_with(" 0"));
    (CheckResponse::decode(framed.slice(5..)).unwrap(), lines.map(str::to_owned).collect())
}

#[test]
fn rules_in_dry_run_are_counted_and_do_not_change_the_answer() {
    let dry = RULES.replace("ANNOTATION", r#"mixer.dev/dry-run: "true""#);
    let enforced = RULES.replace("ANNOTATION", r#"mixer.dev/dry-run: "false""#);
    let none = RULES.split("---\nkind: rule").next().unwrap();
    let line = |outcome: &str, rule: &str, variety: &str| {
        format!(
            "mixer_dry_run_outcomes_total{{outcome=\"{outcome}\",rule=\"{rule}.rule.istio-system\",variety=\"{variety}\"}} 1"
        )
    };

    let (answer, counted) = answer_and_samples(&dry, "a");
    assert_eq!(answer, answer_and_samples(none, "a").0, "as without the rules");
    assert_eq!(
        counted,
        [
            line("denied", "deny", "check"),
            line("matched", "mark", "headers"),
            line("matched", "tell", "report"),
            line("refused", "limit", "quota"),
        ]
    );
    let (answer, counted) = answer_and_samples(&dry, "b");
    assert_eq!(answer, answer_and_samples(none, "b").0);
    assert!(!counted.iter().any(|line| line.contains("deny")), "{counted:?}");

    let (refused, counted) = answer_and_samples(&enforced, "a");
    assert_eq!(refused.precondition.unwrap().status.unwrap().code, 7);
    assert_eq!(counted, [""; 0]);
    let (passed, _) = answer_and_samples(&enforced, "b");
    assert_eq!(passed.quotas.get("calls").unwrap().granted_amount, 2);
    assert!(passed.precondition.unwrap().route_directive.is_some());
}

/// The check cache hides no request from a rule in dry run, and answers requests that no such rule matches.
#[test]
fn rules_in_dry_run_count_requests_that_the_cache_could_answer() {
    let text = RULES.split("---\nkind: rule").next().unwrap().to_owned()
        + "---\nkind: rule\nmetadata: {name: enforced, namespace: istio-system}\n\
           spec: {match: 's1 == \"bad\"', actions: [{handler: refuse, instances: [nothing]}]}\n\
           ---\nkind: rule\nmetadata: {name: tried, namespace: istio-system, annotations: {mixer.dev/dry-run: \"true\"}}\n\
           spec: {match: 's2 == \"a\"', actions: [{handler: refuse, instances: [nothing]}]}\n";
    let (background, runtime, metrics) =
        serve(&text, Some(CheckCacheLimits { entries: 1000, bytes: 1 << 20 }));
    let service = MixerService::new(Arc::clone(&runtime), Arc::clone(&metrics), Arc::default(), None);
    let ask = |s1: &str, s2: &str| {
        let attributes: OwnedAttributes = [("s1", s1), ("s2", s2)].into_iter().collect();
        let answer = check(&background, &service, &attributes).precondition.unwrap();
        let referenced = answer.referenced_attributes.unwrap().attribute_matches.len();
        (answer.status.map_or(0, |status| status.code), referenced)
    };
    let hits = || runtime.cache_counters().hits();
    // Cached: no rule in dry run matches, and its evaluation is not among the referenced attributes.
    let (code, referenced) = ask("good", "b");
    assert_eq!((code, hits()), (0, 0));
    assert_eq!(ask("good", "b"), (0, referenced));
    assert_eq!(hits(), 1);
    // Equal in the referenced attributes, and matched by the rule in dry run.
    for _ in 0..3 {
        assert_eq!(ask("good", "a"), (0, referenced));
        assert_eq!(ask("bad", "a").0, 7);
    }
    assert_eq!(hits(), 1);
    assert_eq!(ask("good", "b").0, 0);
    assert_eq!(hits(), 2);
    let mut exposition = Vec::new();
    metrics.write(&mut exposition);
    let exposition = String::from_utf8(exposition).unwrap();
    let expected = "mixer_dry_run_outcomes_total{outcome=\"denied\",rule=\"tried.rule.istio-system\",variety=\"check\"} 6";
    assert!(exposition.lines().any(|line| line == expected), "{exposition}");
}

#[test]
fn a_rule_in_dry_run_charges_no_quota() {
    let second = "---\nkind: rule\nmetadata: {name: again, namespace: istio-system, annotations: {mixer.dev/dry-run: \"true\"}}\n\
                  spec: {actions: [{handler: few, instances: [calls]}]}\n";
    let text = RULES.replace("ANNOTATION", "") + second;
    let (answer, counted) = answer_and_samples(&text, "b");
    assert_eq!(answer, answer_and_samples(&RULES.replace("ANNOTATION", ""), "b").0);
    let expected = "mixer_dry_run_outcomes_total{outcome=\"matched\",rule=\"again.rule.istio-system\",variety=\"quota\"} 1";
    assert_eq!(counted, [expected], "the handler is not called: its cells belong to enforced requests");
}

#[test]
fn attributes_read_by_a_quota_are_not_part_of_the_cache_key() {
    let text = RULES.replace("ANNOTATION", "");
    let (background, runtime, metrics) =
        serve(&text, Some(CheckCacheLimits { entries: 1000, bytes: 1 << 20 }));
    let service = MixerService::new(Arc::clone(&runtime), metrics, Arc::default(), None);
    let attributes = |s1: &str| [("s1", s1), ("s2", "b")].into_iter().collect::<OwnedAttributes>();
    let quotas = BTreeMap::from([("calls".to_owned(), (1, false))]);
    let body = encode_check_request(&attributes("me"), 0, &CheckCall { deduplication_id: "1", quotas });
    let framed = background.block_on(service.check(body.into(), None)).unwrap();
    assert_eq!(CheckResponse::decode(framed.slice(5..)).unwrap().quotas["calls"].granted_amount, 1);
    assert_eq!(runtime.cache_counters().writes(), 1);
    // The quota reads `s1`, the check does not.
    let response = check(&background, &service, &attributes("other"));
    assert_eq!(response.precondition.unwrap().status.map_or(0, |status| status.code), 0);
    assert_eq!(runtime.cache_counters().hits(), 1);
}

/// A handler is not bound to what a rule in dry run adds, if it does not take that: the rule cannot refuse anything, and must not take
/// the handler from those that do.
#[test]
fn a_rule_in_dry_run_takes_no_handler_from_others() {
    const QUOTAS: &str = "kind: handler
metadata: {name: counter, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.istio-system, maxAmount: 2, validDuration: 60s}]}}
---
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: quota, params: {}}
---
kind: rule
metadata: {name: counted, namespace: istio-system}
spec: {actions: [{handler: counter, instances: [calls]}]}
";
    const TRIED: &str = "kind: instance
metadata: {name: tried, namespace: istio-system}
spec: {compiledTemplate: quota, params: {}}
---
kind: rule
metadata: {name: trial, namespace: istio-system, annotations: {mixer.dev/dry-run: 'true'}}
spec: {actions: [{handler: counter, instances: [tried]}]}
";
    for policy in OnConfigError::ALL {
        let mut files = good();
        files.put("/conf/quotas.yaml", QUOTAS);
        let mut complete = files.clone();
        complete.put("/conf/tried.yaml", TRIED);
        for at_start in [true, false] {
            let mut stage = Stage::new(policy, false);
            stage.start(if at_start { &complete } else { &files });
            // An edit of the handler takes effect all the same.
            complete.put("/conf/quotas.yaml", QUOTAS.replace("maxAmount: 2", "maxAmount: 3"));
            stage.change(&complete);
            assert_eq!(
                (stage.check("bob"), stage.check("ann"), stage.kept()),
                (Answer::Denied, Answer::Allowed, Vec::new()),
                "{policy:?} {at_start}: {:?}",
                stage.published().withheld
            );
            let published = stage.published();
            let counter =
                published.routes.handlers().iter().find(|handler| handler.name() == "counter.istio-system");
            let params = counter.expect("it is built").config.params.json().to_string();
            assert!(params.contains("\"maxAmount\":\"3\"") || params.contains("\"maxAmount\":3"), "{params}");
            let told = published.diagnostics.iter().map(|p| (p.severity, p.code, p.resource.as_str()));
            let warning = (Severity::Warning, "dry-run-rejected", "trial.rule.istio-system");
            assert_eq!(told.collect::<Vec<_>>(), [warning], "{policy:?} {at_start}");
        }
        // Where it enforces, the handler is at fault as ever.
        let enforced = TRIED.replace("'true'", "'false'");
        let mut stage = Stage::new(policy, false);
        files.put("/conf/tried.yaml", enforced);
        stage.start(&files);
        let expected = match policy {
            OnConfigError::ServeValid => Answer::Allowed,
            _ => Answer::Unavailable,
        };
        assert_eq!(stage.check("ann"), expected, "{policy:?}");
    }
}

/// Nor does it withhold a configuration if nobody else uses the handler.
#[test]
fn a_rule_in_dry_run_takes_nothing_from_a_start() {
    const TRIED: &str = "kind: handler
metadata: {name: counter, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.istio-system, maxAmount: 2, validDuration: 60s}]}}
---
kind: instance
metadata: {name: tried, namespace: istio-system}
spec: {compiledTemplate: quota, params: {}}
---
kind: rule
metadata: {name: trial, namespace: istio-system, annotations: {mixer.dev/dry-run: 'true'}}
spec: {actions: [{handler: counter, instances: [tried]}]}
";
    for policy in OnConfigError::ALL {
        let mut stage = Stage::new(policy, false);
        let mut files = good();
        files.put("/conf/tried.yaml", TRIED);
        stage.start(&files);
        assert_eq!((stage.check("bob"), stage.check("ann")), (Answer::Denied, Answer::Allowed), "{policy:?}");
    }
}

/// What was enforced and is tried now goes back to what was enforced, if the whole last good configuration does.
#[test]
fn a_rule_that_is_put_in_dry_run_is_enforced_again_with_the_last_good_configuration() {
    // The rule is put in dry run and given to a handler that does not take its instance; another handler does not build.
    let tried = "---
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: quota, params: {}}
---
kind: handler
metadata: {name: counter, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: other.instance.istio-system, maxAmount: 2, validDuration: 60s}]}}
---
kind: rule
metadata: {name: no-bob, namespace: istio-system, annotations: {mixer.dev/dry-run: 'true'}}
spec: {actions: [{handler: counter, instances: [calls]}]}
---
kind: handler
metadata: {name: broken, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {cachingUseCount: -1, overrides: [ann]}}
---
kind: rule
metadata: {name: only-ann, namespace: istio-system}
spec: {actions: [{handler: broken, instances: [user]}]}
";
    let mut stage = Stage::new(OnConfigError::Refuse, false);
    let mut files = good();
    stage.start(&files);
    assert_eq!(stage.check("bob"), Answer::Denied);
    files.put("/conf/deny.yaml", deny([HANDLER, INSTANCE, tried]));
    stage.change(&files);
    assert_eq!((stage.check("bob"), stage.check("ann")), (Answer::Denied, Answer::Allowed));
    let told = stage.published();
    assert!(
        told.diagnostics.iter().all(|problem| problem.code != "dry-run-rejected"),
        "{:?}",
        told.diagnostics
    );
}
