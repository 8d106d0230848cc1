//! The annotation `mixer.dev/on-error` of handlers and rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use mixer_api::proto::istio::mixer::v1::CheckResponse;
use mixer_api::{CallInfo, MixerService};
use mixer_attribute::OwnedAttributes;
use mixer_attribute::request::{CheckCall, encode_check_request};
use mixer_engine::check_cache::CheckCacheLimits;
use prost::Message as _;

use crate::fixture::{BASE, Served, serve};

/// A list that cannot be fetched, so that its handler fails every check; `ANNOTATION` is replaced.
const FAILING: &str = r#"
kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec: {attributes: {s1: {valueType: STRING}}}
---
kind: instance
metadata: {name: entry, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: 's1 | "x"'}}
---
kind: handler
metadata: {name: list, namespace: istio-system, annotations: {ANNOTATION}}
spec: {compiledAdapter: listchecker, params: {providerUrl: "http://127.0.0.1:9/none"}}
---
kind: rule
metadata: {name: ask, namespace: istio-system}
spec: {actions: [{handler: list, instances: [entry]}]}
"#;

/// Code and message of the answer; code -1 for a failed call.
fn outcome(text: &str, attributes: &OwnedAttributes) -> (i32, String) {
    let (background, runtime, metrics) = serve(text, None);
    let service = MixerService::new(runtime, metrics, Arc::default(), None);
    let call = CheckCall { deduplication_id: "", quotas: BTreeMap::new() };
    let body = encode_check_request(attributes, 0, &call);
    match background.block_on(service.check(body.into(), None)) {
        Err(error) => (-1, error.message),
        Ok(framed) => {
            let answer = CheckResponse::decode(framed.slice(5..)).unwrap();
            let status = answer.precondition.unwrap().status.unwrap();
            (status.code, status.message)
        }
    }
}

#[test]
fn a_failing_handler_follows_its_annotation() {
    for (annotation, code, text) in [
        ("", -1, "performing check operation failed: 1 error occurred:"),
        ("mixer.dev/on-error: allow", 0, ""),
        (
            "mixer.dev/on-error: deny",
            7,
            "list.istio-system:handler `list.istio-system` failed: could not fetch list",
        ),
        (
            "mixer.dev/on-error: lastKnown",
            7,
            "list.istio-system:handler `list.istio-system` failed and has no last answer",
        ),
    ] {
        let (found, message) = outcome(&FAILING.replace("ANNOTATION", annotation), &OwnedAttributes::new());
        assert_eq!(found, code, "{annotation}: {message}");
        assert!(message.starts_with(text), "{annotation}: {message}");
    }
}

#[test]
fn a_failing_condition_follows_the_annotation_of_its_rule() {
    let rules = |annotation: &str| {
        format!(
            "{BASE}---\nkind: handler\nmetadata: {{name: h, namespace: istio-system}}\n\
             spec: {{compiledAdapter: noop}}\n---\nkind: rule\n\
             metadata: {{name: r, namespace: istio-system, annotations: {{{annotation}}}}}\n\
             spec: {{match: s1 == \"a\", actions: [{{handler: h, instances: [nothing]}}]}}\n"
        )
    };
    for (annotation, code, text) in [
        ("", 0, ""),
        ("mixer.dev/on-error: allow", 0, ""),
        (
            "mixer.dev/on-error: deny",
            7,
            "mixer:condition of rule `r.rule.istio-system` failed: lookup failed: 's1'",
        ),
    ] {
        let found = outcome(&rules(annotation), &OwnedAttributes::new());
        assert_eq!(found, (code, text.to_owned()), "{annotation}");
    }
}

/// Callers choose the length of what a condition reads: padding must not switch a rule off.
#[test]
fn a_condition_that_takes_too_many_steps_refuses_unless_its_rule_allows() {
    let tests: Vec<String> = (0..14).map(|n| format!("s1.contains(\"evil{n:02}\")")).collect();
    let rules = |annotation: &str| {
        format!(
            "{BASE}---\nkind: handler\nmetadata: {{name: h, namespace: istio-system}}\n\
             spec: {{compiledAdapter: denier}}\n---\nkind: rule\n\
             metadata: {{name: r, namespace: istio-system, annotations: {{policy.istio.io/lang: CEL{annotation}}}}}\n\
             spec: {{match: '{}', actions: [{{handler: h, instances: [nothing]}}]}}\n",
            tests.join(" || ")
        )
    };
    let with = |text: String| {
        let mut attributes = OwnedAttributes::new();
        attributes.insert("s1", text.as_str());
        attributes
    };
    let failed = "condition of rule `r.rule.istio-system` failed: expression takes more than 200000 steps";
    for (annotation, code, text) in
        [("", 7, failed), (", mixer.dev/on-error: allow", 0, ""), (", mixer.dev/on-error: deny", 7, failed)]
    {
        assert_eq!(outcome(&rules(annotation), &with("evil13".to_owned())).0, 9, "{annotation}");
        assert_eq!(outcome(&rules(annotation), &with("good".to_owned())).0, 0, "{annotation}");
        let (found, message) = outcome(&rules(annotation), &with(format!("evil13{}", "a".repeat(1_000_000))));
        assert_eq!(found, code, "{annotation}: {message}");
        assert!(message.contains(text), "{annotation}: {message}");
    }
}

/// The patterns of a request search a bounded length of long texts: beyond it nobody knows whether a rule refuses.
#[test]
fn a_request_whose_patterns_search_too_much_is_refused_unless_its_rules_allow() {
    let rules = |annotation: &str| {
        let rule = |n: usize| {
            format!(
                "---\nkind: rule\nmetadata: {{name: r{n:02}, namespace: istio-system{annotation}}}\n\
                 spec: {{match: '\"evil{n:02}$\".matches(s1)', actions: [{{handler: h, instances: [nothing]}}]}}\n"
            )
        };
        let handler = "---\nkind: handler\nmetadata: {name: h, namespace: istio-system}\nspec: {compiledAdapter: denier}\n";
        format!("{BASE}{handler}{}", (0..10).map(rule).collect::<String>())
    };
    let with = |text: String| {
        let mut attributes = OwnedAttributes::new();
        attributes.insert("s1", text.as_str());
        attributes
    };
    let failed = "patterns search more than 8 MiB of long texts in this request";
    for (annotation, code, text) in [
        ("", 7, failed),
        (", annotations: {mixer.dev/on-error: allow}", 0, ""),
        (", annotations: {mixer.dev/on-error: deny}", 7, failed),
    ] {
        assert_eq!(outcome(&rules(annotation), &with("evil09".to_owned())).0, 9, "{annotation}");
        assert_eq!(outcome(&rules(annotation), &with("x".repeat(800_000))).0, 0, "{annotation}");
        let (found, message) = outcome(&rules(annotation), &with("x".repeat(1_000_000)));
        assert_eq!(found, code, "{annotation}: {message}");
        assert!(message.contains(text), "{annotation}: {message}");
    }
}

/// A list that cannot be fetched answers no quota: the handler of the first rule fails, that of the second grants.
#[test]
fn a_grant_does_not_overrule_the_refusal_of_a_rule_that_failed() {
    let rules = |annotation: &str| {
        format!(
            "{BASE}---\nkind: instance\nmetadata: {{name: rq, namespace: istio-system}}\n\
             spec: {{compiledTemplate: quota, params: {{dimensions: {{}}}}}}\n---\nkind: handler\n\
             metadata: {{name: h, namespace: istio-system}}\n\
             spec: {{compiledAdapter: memquota, params: {{quotas: [{{name: rq.instance.istio-system, maxAmount: 5}}]}}}}\n\
             ---\nkind: rule\nmetadata: {{name: a, namespace: istio-system, annotations: {{{annotation}}}}}\n\
             spec: {{match: s1 == \"a\", actions: [{{handler: h, instances: [rq]}}]}}\n\
             ---\nkind: rule\nmetadata: {{name: b, namespace: istio-system}}\n\
             spec: {{actions: [{{handler: h, instances: [rq]}}]}}\n"
        )
    };
    for (annotation, granted) in [("", 1), ("mixer.dev/on-error: allow", 1), ("mixer.dev/on-error: deny", 0)]
    {
        let (background, runtime, metrics) = serve(&rules(annotation), None);
        let service = MixerService::new(runtime, metrics, Arc::default(), None);
        let quotas = BTreeMap::from([("rq".to_owned(), (1, false))]);
        let call = CheckCall { deduplication_id: "", quotas };
        let body = encode_check_request(&OwnedAttributes::new(), 0, &call);
        let framed = background.block_on(service.check(body.into(), None)).unwrap();
        let answer = CheckResponse::decode(framed.slice(5..)).unwrap();
        assert_eq!(answer.quotas["rq"].granted_amount, granted, "{annotation}");
    }
}

/// The grants to calls that take one of a quota each. Of its two rules one has a handler that fails; the last call matches that rule alone.
fn grants(annotation: &str, amount: i64, calls: usize) -> Vec<i64> {
    let text = format!(
        "{BASE}---\nkind: instance\nmetadata: {{name: rq, namespace: istio-system}}\n\
         spec: {{compiledTemplate: quota, params: {{dimensions: {{}}}}}}\n---\nkind: handler\n\
         metadata: {{name: remote, namespace: istio-system, annotations: {{{annotation}}}}}\n\
         spec: {{compiledAdapter: drill, params: {{outcome: ERROR}}}}\n---\nkind: handler\n\
         metadata: {{name: local, namespace: istio-system}}\n\
         spec: {{compiledAdapter: memquota, params: {{quotas: [{{name: rq.instance.istio-system, maxAmount: {amount}}}]}}}}\n\
         ---\nkind: rule\nmetadata: {{name: a, namespace: istio-system}}\n\
         spec: {{actions: [{{handler: remote, instances: [rq]}}]}}\n\
         ---\nkind: rule\nmetadata: {{name: b, namespace: istio-system}}\n\
         spec: {{match: (s1 | \"\") == \"\", actions: [{{handler: local, instances: [rq]}}]}}\n"
    );
    let (background, runtime, metrics) = serve(&text, None);
    let service = MixerService::new(runtime, metrics, Arc::default(), None);
    let granted = |attributes: &OwnedAttributes, id: &str| {
        let quotas = BTreeMap::from([("rq".to_owned(), (1, false))]);
        let body = encode_check_request(attributes, 0, &CheckCall { deduplication_id: id, quotas });
        let framed = background.block_on(service.check(body.into(), None)).unwrap();
        CheckResponse::decode(framed.slice(5..)).unwrap().quotas["rq"].granted_amount
    };
    let mut grants: Vec<i64> =
        (0..calls).map(|call| granted(&OwnedAttributes::new(), &call.to_string())).collect();
    let mut other = OwnedAttributes::new();
    other.insert("s1", "other");
    grants.push(granted(&other, "other"));
    grants
}

#[test]
fn an_ignored_failure_of_a_quota_rule_overrules_no_other_rule() {
    assert_eq!(grants("mixer.dev/on-error: allow", 2, 4), [1, 1, 0, 0, 1]);
    assert_eq!(grants("mixer.dev/on-error: allow", 0, 2), [0, 0, 1]);
    assert_eq!(grants("mixer.dev/on-error: deny", 2, 2), [0, 0, 0]);
}

#[test]
fn a_failing_condition_follows_the_annotation_of_its_handlers() {
    let rules = |of_handler: &str, of_other: &str, of_rule: &str| {
        format!(
            "{BASE}---\nkind: handler\nmetadata: {{name: h, namespace: istio-system, annotations: {{{of_handler}}}}}\n\
             spec: {{compiledAdapter: denier}}\n---\nkind: handler\n\
             metadata: {{name: other, namespace: istio-system, annotations: {{{of_other}}}}}\n\
             spec: {{compiledAdapter: noop}}\n---\nkind: instance\nmetadata: {{name: said, namespace: istio-system}}\n\
             spec: {{compiledTemplate: reportnothing}}\n---\nkind: rule\n\
             metadata: {{name: r, namespace: istio-system, annotations: {{{of_rule}}}}}\n\
             spec: {{match: s1 != \"ann\", actions: [{{handler: h, instances: [nothing]}}, {{handler: other, instances: [said]}}]}}\n"
        )
    };
    let [deny, last, allow] =
        ["deny", "lastKnown", "allow"].map(|value| format!("mixer.dev/on-error: {value}"));
    let ann = {
        let mut ann = OwnedAttributes::new();
        ann.insert("s1", "ann");
        ann
    };
    for (of_handler, of_other, of_rule, code) in [
        ("", "", "", 0),
        (&*deny, "", "", 7),
        (&last, "", "", 7),
        (&allow, "", "", 0),
        (&deny, "", &*allow, 0),
        (&allow, "", &deny, 7),
        ("", &*deny, "", 0),
    ] {
        let text = rules(of_handler, of_other, of_rule);
        let (found, message) = outcome(&text, &OwnedAttributes::new());
        assert_eq!(found, code, "{of_handler}, {of_other}, {of_rule}: {message}");
        if code != 0 {
            assert!(
                message.starts_with("mixer:condition of rule `r.rule.istio-system` failed: "),
                "{message}"
            );
        }
        assert_eq!(outcome(&text, &ann).0, 0, "the condition does not hold");
    }
    // An edit of the handler changes what cached answers say.
    let cache = CheckCacheLimits { entries: 100, bytes: 1 << 20 };
    let mut served = Served::start(&rules("", "", ""), Some(cache));
    let service = served.service();
    for (of_handler, code) in [("", 0), (&*deny, 7), (&allow, 0), (&last, 7), ("", 0)] {
        served.change(&rules(of_handler, "", ""));
        for _ in 0..2 {
            let answer = served.check(&service, &OwnedAttributes::new()).precondition.unwrap();
            assert_eq!(answer.status.unwrap().code, code, "{of_handler}");
        }
        assert_eq!(served.check(&service, &ann).precondition.unwrap().status.unwrap().code, 0);
    }
}

#[test]
fn an_explanation_shows_a_condition_that_refuses_by_its_handler() {
    for (annotation, verdict) in [
        ("", "failed"),
        ("mixer.dev/on-error: deny", "failedRefuses"),
        ("mixer.dev/on-error: allow", "failed"),
    ] {
        let text = format!(
            "{BASE}---\nkind: handler\nmetadata: {{name: h, namespace: istio-system, annotations: {{{annotation}}}}}\n\
             spec: {{compiledAdapter: denier}}\n---\nkind: rule\nmetadata: {{name: r, namespace: istio-system}}\n\
             spec: {{match: s1 != \"ann\", actions: [{{handler: h, instances: [nothing]}}]}}\n"
        );
        let (background, runtime, metrics) = serve(&text, None);
        let service = MixerService::new(runtime, metrics, Arc::default(), None);
        let call = CheckCall { deduplication_id: "", quotas: BTreeMap::new() };
        let body = encode_check_request(&OwnedAttributes::new(), 0, &call);
        let framed = background.block_on(service.explain(body.into(), CallInfo::default())).unwrap();
        let explained = String::from_utf8_lossy(&framed).into_owned();
        assert!(explained.contains(&format!("\"verdict\":\"{verdict}\"")), "{annotation}: {explained}");
    }
}

/// A quota whose rule cannot be selected is refused, not granted.
#[test]
fn a_failing_condition_of_a_quota_follows_its_handler() {
    for (annotation, granted) in [("", 1), ("mixer.dev/on-error: deny", 0), ("mixer.dev/on-error: allow", 1)]
    {
        let text = format!(
            "{BASE}---\nkind: instance\nmetadata: {{name: rq, namespace: istio-system}}\n\
             spec: {{compiledTemplate: quota, params: {{dimensions: {{}}}}}}\n---\nkind: handler\n\
             metadata: {{name: h, namespace: istio-system, annotations: {{{annotation}}}}}\n\
             spec: {{compiledAdapter: memquota, params: {{quotas: [{{name: rq.instance.istio-system, maxAmount: 5}}]}}}}\n\
             ---\nkind: handler\nmetadata: {{name: plain, namespace: istio-system}}\nspec: {{compiledAdapter: drill}}\n\
             ---\nkind: rule\nmetadata: {{name: a, namespace: istio-system}}\n\
             spec: {{match: s1 == \"a\", actions: [{{handler: h, instances: [rq]}}, {{handler: plain, instances: [rq]}}]}}\n"
        );
        let (background, runtime, metrics) = serve(&text, None);
        let service = MixerService::new(runtime, metrics, Arc::default(), None);
        let quotas = BTreeMap::from([("rq".to_owned(), (1, false))]);
        let body =
            encode_check_request(&OwnedAttributes::new(), 0, &CheckCall { deduplication_id: "", quotas });
        let framed = background.block_on(service.check(body.into(), None)).unwrap();
        let answer = CheckResponse::decode(framed.slice(5..)).unwrap();
        assert_eq!(answer.quotas["rq"].granted_amount, granted, "{annotation}");
    }
}

/// Every second call of the handler fails.
#[test]
fn a_last_answer_is_valid_for_its_request_only() {
    let text = format!(
        "{BASE}---\nkind: handler\nmetadata: {{name: h, namespace: istio-system, annotations: {{mixer.dev/on-error: lastKnown}}}}\n\
         spec: {{compiledAdapter: drill, params: {{outcome: ERROR, every: 2}}}}\n---\nkind: rule\n\
         metadata: {{name: r, namespace: istio-system}}\n\
         spec: {{actions: [{{handler: h, instances: [nothing]}}]}}\n"
    );
    let served = Served::start(&text, None);
    let service = served.service();
    let answers: Vec<(i32, i32)> = (0..4)
        .map(|_| {
            let answer = served.check(&service, &OwnedAttributes::new()).precondition.unwrap();
            (answer.status.unwrap().code, answer.valid_use_count)
        })
        .collect();
    assert_eq!(answers, [(0, 10_000), (0, 0), (0, 10_000), (0, 0)]);
}

#[test]
fn an_edit_of_the_annotation_takes_effect_without_a_restart() {
    let with = |policy: &str| FAILING.replace("ANNOTATION", &format!("mixer.dev/on-error: {policy}"));
    let mut served = Served::start(&with("allow"), None);
    let service = served.service();
    let code = |served: &Served| {
        let status = served.check(&service, &OwnedAttributes::new()).precondition.unwrap().status.unwrap();
        status.code
    };
    assert_eq!(code(&served), 0);
    served.change(&with("deny"));
    assert_eq!(code(&served), 7, "the new policy applies");
    served.change(&with("allow"));
    assert_eq!(code(&served), 0);
}

/// The handler may answer the next request, but what a field of an instance reads is the same for every request with those attributes.
#[test]
fn an_ignored_failure_of_a_handler_is_not_valid_for_later_requests_and_one_of_an_instance_is() {
    let handler = FAILING.replace("ANNOTATION", "mixer.dev/on-error: allow");
    let instance = handler.replace("s1 | \"x\"", "s1");
    for (text, uses, hits) in [(&handler, 0, 0), (&instance, 10_000, 1)] {
        let served = Served::start(text, Some(CheckCacheLimits { entries: 100, bytes: 1 << 20 }));
        let service = served.service();
        for _ in 0..2 {
            let precondition = served.check(&service, &OwnedAttributes::new()).precondition.unwrap();
            assert_eq!(precondition.status.unwrap().code, 0);
            assert_eq!(precondition.valid_use_count.min(9_999), uses.min(9_999), "{text}");
        }
        assert_eq!(served.runtime.cache_counters().hits(), hits, "{text}");
    }
}

/// A caller who makes another handler fail does not turn a refusal into a failed call.
#[test]
fn a_refusal_stands_whatever_else_fails() {
    let rule = |name: &str, order: &str, condition: &str| {
        format!(
            "---\nkind: rule\nmetadata: {{name: {order}, namespace: istio-system}}\n\
             spec: {{{condition}actions: [{{handler: {name}, instances: [nothing]}}]}}\n"
        )
    };
    let policy = |deny: &str, fail: &str| {
        format!(
            "{BASE}---\nkind: handler\nmetadata: {{name: nay, namespace: istio-system}}\n\
             spec: {{compiledAdapter: denier, params: {{status: {{code: 16, message: not you}}}}}}\n\
             ---\nkind: handler\nmetadata: {{name: broken, namespace: istio-system}}\n\
             spec: {{compiledAdapter: drill, params: {{outcome: ERROR}}}}\n{}{}",
            rule("nay", deny, "match: (s1 | \"\") == \"\", "),
            rule("broken", fail, "")
        )
    };
    let mut other = OwnedAttributes::new();
    other.insert("s1", "other");
    let cache = CheckCacheLimits { entries: 100, bytes: 1 << 20 };
    for (deny, fail) in [("a", "b"), ("b", "a")] {
        let text = policy(deny, fail);
        assert_eq!(outcome(&text, &OwnedAttributes::new()), (16, "nay.istio-system:not you".to_owned()));
        assert_eq!(outcome(&text, &other).0, -1, "nobody refuses it");
        let served = Served::start(&text, Some(cache));
        let service = served.service();
        for failures in 1..3 {
            let answer = served.check(&service, &OwnedAttributes::new()).precondition.unwrap();
            assert_eq!(
                (answer.status.unwrap().code, answer.valid_use_count),
                (16, 0),
                "the next call asks again"
            );
            let counted = format!("mixer_check_overruled_failures_total {failures}");
            assert_eq!(served.samples("mixer_check_overruled_failures_total"), [counted]);
        }
    }
}

/// A condition that fails refuses the request also where the rule has header operations only.
#[test]
fn a_failing_condition_of_header_operations_follows_the_annotation() {
    let policy = |annotation: &str| {
        format!(
            "{BASE}---\nkind: rule\nmetadata: {{name: r, namespace: istio-system, annotations: {{{annotation}}}}}\n\
             spec: {{match: s1 != \"ann\", requestHeaderOperations: [{{name: x-internal, operation: REMOVE}}]}}\n"
        )
    };
    let refused = "mixer:condition of rule `r.rule.istio-system` failed: lookup failed: 's1'";
    for (annotation, code, text) in [
        ("", 0, ""),
        ("mixer.dev/on-error: allow", 0, ""),
        ("mixer.dev/on-error: deny", 7, refused),
        ("mixer.dev/on-error: lastKnown", 7, refused),
    ] {
        let found = outcome(&policy(annotation), &OwnedAttributes::new());
        assert_eq!(found, (code, text.to_owned()), "{annotation}");
        let served = Served::start(&policy(annotation), None);
        let answer = served.check(&served.service(), &OwnedAttributes::new()).precondition.unwrap();
        let is_valid = answer.valid_use_count > 0;
        assert_eq!((is_valid, answer.route_directive.is_some()), (code == 0, false), "{annotation}");
        let mut ann = OwnedAttributes::new();
        ann.insert("s1", "eve");
        let answer = served.check(&served.service(), &ann).precondition.unwrap();
        assert_eq!(
            (answer.status.unwrap().code, answer.route_directive.is_some()),
            (0, true),
            "{annotation}"
        );
    }
}
