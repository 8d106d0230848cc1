//! The check cache: cached answers equal fresh ones, and only changes that affect checks clear it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mixer_api::MixerService;
use mixer_api::proto::istio::mixer::v1::CheckResponse;
use mixer_attribute::OwnedAttributes;
use mixer_attribute::request::{CheckCall, encode_check_request};
use mixer_engine::check_cache::CheckCacheLimits;
use mixer_engine::runtime::Runtime;
use proptest::prelude::*;
use prost::Message as _;

use crate::fixture::{BASE, Served, attributes, check, condition, configuration, serve};

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn cached_answers_equal_fresh_answers(
        conditions in prop::collection::vec(condition(), 1..12),
        requests in prop::collection::vec(attributes(), 1..60),
    ) {
        let text = configuration(&conditions);
        let limits = CheckCacheLimits { entries: 1000, bytes: 1 << 20 };
        let (background, cached, metrics) = serve(&text, Some(limits));
        let (_other, plain, _) = serve(&text, None);
        let service = |runtime: &Arc<Runtime>| {
            MixerService::new(Arc::clone(runtime), Arc::clone(&metrics), Arc::default(), None)
        };
        let (cached, plain) = (service(&cached), service(&plain));
        // Twice: the second round is answered from the cache.
        for request in requests.iter().chain(&requests) {
            let (mut a, mut b) = (check(&background, &cached, request), check(&background, &plain, request));
            for answer in [&mut a, &mut b] {
                if let Some(precondition) = &mut answer.precondition {
                    precondition.valid_duration = None;
                }
            }
            prop_assert_eq!(a, b);
        }
    }

    #[test]
    fn cached_answers_equal_fresh_answers_across_reloads(
        turns in prop::collection::vec(
            (prop::collection::vec(condition(), 1..6), any::<bool>(), prop::collection::vec(attributes(), 1..8)),
            1..6,
        ),
    ) {
        let limits = CheckCacheLimits { entries: 1000, bytes: 1 << 20 };
        let mut cached = Served::start(&configuration(&[]), Some(limits));
        let mut plain = Served::start(&configuration(&[]), None);
        let (with, without) = (cached.service(), plain.service());
        let mut requests = Vec::new();
        let mut rules: Vec<String> = Vec::new();
        for (conditions, keeps, more) in turns {
            // Sometimes only what takes no part in checks changes, or nothing.
            if !keeps {
                rules = conditions;
            }
            let text = configuration(&rules) + &bystander(requests.len());
            cached.change(&text);
            plain.change(&text);
            requests.extend(more);
            // Every request so far, so that an answer of an earlier configuration is detected.
            for request in requests.iter().chain(&requests) {
                prop_assert_eq!(cached.check(&with, request), plain.check(&without, request));
            }
        }
    }
}

/// A rule for reports, which takes no part in checks.
fn bystander(number: usize) -> String {
    format!(
        "---\nkind: handler\nmetadata: {{name: bystander, namespace: istio-system}}\nspec: {{compiledAdapter: noop}}\n\
         ---\nkind: instance\nmetadata: {{name: report, namespace: istio-system}}\n\
         spec: {{compiledTemplate: reportnothing}}\n\
         ---\nkind: rule\nmetadata: {{name: bystander, namespace: istio-system}}\n\
         spec: {{match: num == {number}, actions: [{{handler: bystander, instances: [report]}}]}}\n"
    )
}

#[test]
fn only_changes_that_affect_checks_clear_their_cache() {
    let rule = |text: &str| configuration(&[format!(r#"s1 == "{text}""#)]);
    let limits = CheckCacheLimits { entries: 1000, bytes: 1 << 20 };
    let mut served = Served::start(&rule("a"), Some(limits));
    let service = served.service();
    let mut request = OwnedAttributes::new();
    request.insert("s1", "a");
    let counters = Arc::clone(served.runtime.cache_counters());
    let mut hits = 0;
    // Whether the request is answered from the cache.
    for (text, is_hit) in [
        (rule("a"), false),
        (rule("a"), true),
        (rule("a") + &bystander(1), true),
        (rule("a") + &bystander(2), true),
        (rule("b") + &bystander(2), false),
        (rule("b"), true),
        // Another handler behind the same rule.
        (rule("b").replace("message: m0", "message: other"), false),
        (rule("b").replace("message: m0", "message: other"), true),
        // Another type of an attribute.
        (rule("b").replace("num: {valueType: INT64}", "num: {valueType: STRING}"), false),
        (configuration(&[]), false),
        (rule("b"), false),
    ] {
        served.change(&text);
        served.check(&service, &request);
        hits += u64::from(is_hit);
        assert_eq!(counters.hits(), hits, "{text}");
    }
    assert_eq!(counters.hits() + counters.misses(), 11);
    assert_eq!(counters.writes(), counters.misses());
    assert_eq!(counters.evictions(), 0);
}

/// A check that is allowed for `valid`, and a quota that takes `delay`.
fn slow_quota(valid: &str, delay: &str) -> String {
    format!(
        "{BASE}---\nkind: instance\nmetadata: {{name: calls, namespace: istio-system}}\n\
         spec: {{compiledTemplate: quota}}\n\
         ---\nkind: handler\nmetadata: {{name: allow, namespace: istio-system}}\n\
         spec: {{compiledAdapter: denier, params: {{status: {{code: 0}}, validDuration: {valid}}}}}\n\
         ---\nkind: handler\nmetadata: {{name: slow, namespace: istio-system}}\n\
         spec: {{compiledAdapter: drill, params: {{delay: {delay}}}}}\n\
         ---\nkind: rule\nmetadata: {{name: check, namespace: istio-system}}\n\
         spec: {{actions: [{{handler: allow, instances: [nothing]}}]}}\n\
         ---\nkind: rule\nmetadata: {{name: limit, namespace: istio-system}}\n\
         spec: {{actions: [{{handler: slow, instances: [calls]}}]}}\n"
    )
}

#[test]
fn a_slow_quota_shortens_the_lifetime_of_the_cached_answer() {
    let limits = CheckCacheLimits { entries: 1000, bytes: 1 << 20 };
    let request = OwnedAttributes::new();
    let quotas = BTreeMap::from([("calls".to_owned(), (1, false))]);
    let with_quota = encode_check_request(&request, 0, &CheckCall { deduplication_id: "1", quotas });
    // Lifetime and delay; what is left of the lifetime at most, if anything.
    for (valid, delay, left) in
        [("60s", "200ms", Some(Duration::from_millis(59_800))), ("100ms", "200ms", None)]
    {
        let (background, runtime, metrics) = serve(&slow_quota(valid, delay), Some(limits));
        let service = MixerService::new(Arc::clone(&runtime), metrics, Arc::default(), None);
        let framed = background.block_on(service.check(with_quota.clone().into(), None)).unwrap();
        let answer = CheckResponse::decode(framed.slice(5..)).unwrap();
        assert_eq!(answer.quotas["calls"].granted_amount, 1);
        assert_eq!(runtime.cache_counters().writes(), u64::from(left.is_some()), "{valid} {delay}");
        let Some(left) = left else { continue };
        let answer = check(&background, &service, &request);
        assert_eq!(runtime.cache_counters().hits(), 1);
        let valid = answer.precondition.unwrap().valid_duration.unwrap();
        assert!(Duration::try_from(valid).unwrap() <= left, "{valid:?} {delay}");
    }
}

/// A cached approval does not answer a check with quotas, which are allocated for every request.
#[test]
fn only_answers_from_the_cache_are_counted_as_hits() {
    let text = format!(
        "{BASE}---\nkind: handler\nmetadata: {{name: h, namespace: istio-system}}\nspec: {{compiledAdapter: noop}}\n\
         ---\nkind: rule\nmetadata: {{name: r, namespace: istio-system}}\n\
         spec: {{actions: [{{handler: h, instances: [nothing]}}]}}\n"
    );
    let (background, runtime, metrics) =
        serve(&text, Some(CheckCacheLimits { entries: 100, bytes: 1 << 20 }));
    let service = MixerService::new(Arc::clone(&runtime), metrics, Arc::default(), None);
    let ask = |quotas: &[&str]| {
        let quotas = quotas.iter().map(|name| ((*name).to_owned(), (1, false))).collect();
        let body =
            encode_check_request(&OwnedAttributes::new(), 0, &CheckCall { deduplication_id: "", quotas });
        background.block_on(service.check(body.into(), None)).unwrap();
        let counters = runtime.cache_counters();
        (counters.hits(), counters.misses())
    };
    assert_eq!(ask(&[]), (0, 1));
    assert_eq!(ask(&[]), (1, 1));
    assert_eq!(ask(&["rq"]), (1, 2));
    assert_eq!(ask(&[]), (2, 2));
}
