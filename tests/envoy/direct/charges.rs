//! What is charged, and what a new configuration makes of decisions and limits.

use mixer_wire::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor};
use mixer_wire::envoy::service::auth::v3::CheckResponse;
use mixer_wire::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use prost::Message as _;

use super::{AUTHORIZATION, LIMITS, Setting, check, check_request, limit, with_check, with_quota};
use crate::support::{DEADLINE, http, wait_for};

/// Envoy sends no id with its calls: one that it repeats charges again, and none is taken for the repetition of another.
#[test]
fn a_call_that_is_repeated_charges_again() {
    let setting = Setting::on(&with_quota("calls"), &[]);
    let mut client = setting.client();
    let limits: Vec<bool> = (0..3).map(|_| limit(&mut client, "fails").expect("an answer")).collect();
    assert_eq!(limits, [true, true, false], "descriptors");
    let checked = with_check("{quotaSpec: [{rules: [{quotas: [{quota: calls}]}]}]}");
    let setting = Setting::on(&checked, &[]);
    let mut client = setting.client();
    let codes: Vec<i32> = (0..3).map(|_| check(&mut client, "/", "ann").expect("an answer")).collect();
    assert_eq!(codes, [0, 0, 8], "checks");
}

/// Requests for `/post` match both rules of the quotaSpec.
#[test]
fn charges_of_several_rules_for_one_quota_are_added() {
    for (all, post) in [(1, 5), (5, 1)] {
        let rules = format!(
            "[{{quotas: [{{quota: calls, charge: {all}}}]}}, \
             {{match: [{{clause: {{request.path: {{exact: /post}}}}}}], quotas: [{{quota: calls, charge: {post}}}]}}]"
        );
        let policy = include_str!("../direct.yaml")
            .replace(
                "spec:\n  ratelimit:",
                &format!("spec:\n  check: {{quotaSpec: [{{rules: {rules}}}]}}\n  ratelimit:"),
            )
            .replace("maxAmount: 2,", "maxAmount: 6,");
        let mut setting = Setting::on(&policy, &["--decision-log=$DIRECTORY/log"]);
        let mut client = setting.client();
        assert_eq!(check(&mut client, "/post", "ann").expect("an answer"), 0, "{all}, {post}");
        assert_eq!(check(&mut client, "/", "ann").expect("an answer"), 8, "{all}, {post}: all 6 are taken");
        assert_eq!(setting.server.terminate(), Ok(Some(0)));
        let logged = &setting.lines("log")[0];
        assert_eq!(
            (&logged["quotas"]["calls"]["amount"], &logged["answer"]["quotas"]["calls"]["granted"]),
            (&6.into(), &6.into()),
            "{logged}"
        );
    }
}

/// The expressions of clauses search as much of a long text as those of conditions; beyond it a request is charged.
#[test]
fn a_path_that_is_too_long_to_be_searched_is_charged() {
    let clauses = |count: usize| -> String {
        (0..count).map(|n| format!("{{clause: {{request.path: {{regex: \"/[a-z]*{n}\"}}}}}},")).collect()
    };
    let long = format!("/{}", "a".repeat(500_000));
    // 16 times 500 001 bytes are less than 8 MiB.
    for (count, codes) in [(16, [0, 0, 0, 0, 0]), (17, [0, 0, 0, 0, 8])] {
        let rules = format!("[{{match: [{}], quotas: [{{quota: calls}}]}}]", clauses(count));
        let setting = Setting::on(&with_check(&format!("{{quotaSpec: [{{rules: {rules}}}]}}")), &[]);
        let mut client = setting.client();
        let found =
            ["/", "/a", &long, &long, &long].map(|path| check(&mut client, path, "ann").expect("an answer"));
        assert_eq!(found, codes, "{count} clauses");
    }
}

#[test]
fn decisions_cached_without_metadata_are_not_used_with_it() {
    let policy = |metadata: bool| {
        let message = "status: {code: 7, message: not welcome}";
        with_check(&format!("{{responseMetadata: {metadata}, cache: {{maxAge: 3600s}}}}"))
            .replace(message, &format!("{message}\n    validDuration: 3600s"))
            // A rule in dry run, which would keep the answer out of the cache, no longer matches.
            .replacen("mallory", "eve", 1)
    };
    let setting = Setting::on(&policy(false), &[]);
    let mut client = setting.client();
    let mut metadata = || {
        let answer = client.call(AUTHORIZATION, check_request("/", "eve"), None).expect("an answer");
        CheckResponse::decode(answer).expect("a response").dynamic_metadata
    };
    assert!(metadata().is_none());
    let place = setting.directory.path().join("policy");
    std::fs::write(place.join("new"), policy(true)).expect("it is writable");
    std::fs::rename(place.join("new"), place.join("policy.yaml")).expect("it is writable");
    let first = wait_for(DEADLINE, &mut metadata).expect("the new settings");
    for metadata in [first, metadata().expect("metadata")] {
        let rules = format!("{:?}", metadata.fields.get("mixer_rules"));
        assert!(rules.contains("deny.istio-system"), "{rules}");
    }
}

#[test]
fn limits_that_are_no_longer_configured_are_forgotten() {
    const LIMITS_EACH: usize = 64;
    let setting = Setting::start(&[]);
    let mut client = setting.client();
    let place = setting.directory.path().join("policy");
    for generation in 0..12 {
        let keys = (0..LIMITS_EACH)
            .map(|n| format!("- {{key: k{n}, rate_limit: {{unit: hour, requests_per_unit: 9}}}}\n"));
        let text = format!("domain: d{generation}\ndescriptors:\n{}", keys.collect::<String>());
        std::fs::write(place.join("new"), text).expect("it is writable");
        std::fs::rename(place.join("new"), place.join("limits.yaml")).expect("it is writable");
        let descriptors = (0..LIMITS_EACH).map(|n| {
            let entry = rate_limit_descriptor::Entry { key: format!("k{n}"), value: "v".to_owned() };
            RateLimitDescriptor { entries: vec![entry], ..Default::default() }
        });
        let domain = format!("d{generation}");
        let request = RateLimitRequest { domain, descriptors: descriptors.collect(), hits_addend: 1 };
        let matched = wait_for(DEADLINE, || {
            let answer = client.call(LIMITS, request.encode_to_vec(), None).expect("an answer");
            let answer = RateLimitResponse::decode(answer).expect("a response");
            answer.statuses.iter().all(|status| status.current_limit.is_some()).then_some(())
        });
        assert!(matched.is_some(), "generation {generation} is in force");
    }
    let metrics = http("GET", &setting.server.monitoring_url("/metrics"), "").expect("metrics").body;
    let of = |start: &str| metrics.lines().filter(|line| line.starts_with(start)).count();
    let name = "ratelimit_service_rate_limit_total_hits";
    assert_eq!(of(&format!("{name}{{domain=\"d11\"")), LIMITS_EACH);
    let all = of(&format!("{name}{{"));
    assert!(all < 6 * LIMITS_EACH, "{all} limits of {} are exposed", 12 * LIMITS_EACH);
}
