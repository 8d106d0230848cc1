use std::sync::Arc;

use super::*;
use crate::config::{EnvoyConfig, config_of};
use mixer_attribute::SignedDuration;
use mixer_config::store;
use mixer_engine::adapter::Inventory;
use mixer_engine::snapshot::{Registry, SnapshotBuilder, SnapshotOptions};

const LIMITS: &str = r#"
domain: shop
descriptors:
- key: plan
  value: free
  rate_limit: {unit: minute, requests_per_unit: 2, name: free}
- key: plan
  value: gold*
  rate_limit: {unit: MINUTE, requests_per_unit: 5}
- key: plan
  value: gol*
  rate_limit: {unit: minute, requests_per_unit: 9}
- key: shared
  value: "a*"
  share_threshold: true
  rate_limit: {unit: hour, requests_per_unit: 1}
- key: user
  rate_limit: {unit: second, requests_per_unit: 1}
  descriptors:
  - key: path
    value: 404
    rate_limit: {unit: day, requests_per_unit: 3, name: path, replaces: [{name: free}]}
- key: quiet
  shadow_mode: true
  rate_limit: {unit: minute, requests_per_unit: 1}
- key: open
  rate_limit: {unlimited: true}
- key: q1
  quota_mode: true
  rate_limit: {unit: minute, requests_per_unit: 1}
- key: q2
  quota_mode: true
  rate_limit: {unit: minute, requests_per_unit: 2}
"#;

struct Fixture {
    config: Arc<EnvoyConfig>,
    windows: WindowCounters,
    metrics: LimitMetrics,
}

fn fixture(text: &str) -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("limits.yaml"), text).unwrap();
    let store = store::open(&format!("fs://{}", directory.path().display())).unwrap();
    let snapshot = SnapshotBuilder::new(SnapshotOptions::new(Registry {
        adapters: Inventory::default(),
        extensions: &[&crate::EnvoyKinds],
    }))
    .build(&store.load());
    assert!(snapshot.diagnostics.is_empty(), "{:?}", snapshot.diagnostics);
    Fixture {
        config: config_of(&snapshot).clone().into(),
        windows: WindowCounters::default(),
        metrics: LimitMetrics::new(Arc::new(Metrics::new())),
    }
}

impl Fixture {
    fn ask(&self, descriptors: &[&[(&str, &str)]], charge: i64, now: u64) -> Vec<LimitStatus> {
        let owned: Vec<Vec<(&[u8], &[u8])>> = descriptors
            .iter()
            .map(|entries| entries.iter().map(|(k, v)| (k.as_bytes(), v.as_bytes())).collect())
            .collect();
        let descriptors: Vec<Descriptor<'_>> =
            owned.iter().map(|entries| Descriptor { entries, limit: None, charge }).collect();
        let request = RateLimitRequest { domain: b"shop", descriptors: &descriptors };
        decide(&request, &self.config, &self.windows, &self.metrics, now)
    }

    fn codes(&self, entries: &[(&str, &str)], times: usize) -> Vec<LimitCode> {
        (0..times).map(|_| self.ask(&[entries], 1, 0).remove(0).code).collect()
    }
}

use LimitCode::{Ok as Within, OverLimit as Over};

#[test]
fn an_exact_value_precedes_wildcards_and_a_wildcard_precedes_the_key() {
    let fixture = fixture(LIMITS);
    assert_eq!(fixture.codes(&[("plan", "free")], 3), [Within, Within, Over]);
    let gold = &fixture.ask(&[&[("plan", "golden")]], 1, 0)[0];
    assert_eq!(gold.limit.as_ref().map(|l| l.requests_per_unit), Some(5), "the first wildcard of the file");
    let other = &fixture.ask(&[&[("plan", "none")]], 1, 0)[0];
    assert!(!other.matched);
}

#[test]
fn values_of_a_key_have_separate_counters_unless_they_share_one() {
    let fixture = fixture(LIMITS);
    assert_eq!(fixture.codes(&[("user", "ann")], 2), [Within, Over]);
    assert_eq!(fixture.codes(&[("user", "bob")], 1), [Within]);
    assert_eq!(fixture.codes(&[("shared", "a1")], 1), [Within]);
    assert_eq!(fixture.codes(&[("shared", "a2")], 1), [Over]);
}

#[test]
fn different_descriptors_have_different_counters() {
    let fixture = fixture(
        "domain: shop\ndescriptors:\n- key: tenant\n  rate_limit: {unit: hour, requests_per_unit: 1}\n  descriptors:\n  \
         - key: path\n    rate_limit: {unit: hour, requests_per_unit: 1}\n",
    );
    assert_eq!(fixture.codes(&[("tenant", "a_path_b")], 1), [Within]);
    assert_eq!(fixture.codes(&[("tenant", "a"), ("path", "b")], 1), [Within]);
    assert_eq!(fixture.codes(&[("tenant", "a"), ("path", "b")], 1), [Over]);
}

#[test]
fn only_the_limit_of_the_last_entry_counts() {
    let fixture = fixture(LIMITS);
    assert!(!fixture.ask(&[&[("user", "ann"), ("path", "x")]], 1, 0)[0].matched, "no such path");
    let deep = &fixture.ask(&[&[("user", "ann"), ("path", "404")]], 1, 0)[0];
    assert_eq!(deep.limit.as_ref().map(|l| (l.requests_per_unit, l.unit)), Some((3, Unit::Day)));
    assert!(!fixture.ask(&[&[("user", "ann"), ("path", "404"), ("more", "")]], 1, 0)[0].matched);
}

#[test]
fn a_replaced_limit_is_not_counted() {
    let fixture = fixture(LIMITS);
    let both: [&[(&str, &str)]; 2] = [&[("plan", "free")], &[("user", "ann"), ("path", "404")]];
    for _ in 0..3 {
        let statuses = fixture.ask(&both, 1, 0);
        assert!(!statuses[0].matched);
        assert_eq!(statuses[1].code, Within);
    }
    assert_eq!(fixture.codes(&[("plan", "free")], 2), [Within, Within], "nothing was taken from it");
}

#[test]
fn shadow_and_unlimited_never_deny() {
    let fixture = fixture(LIMITS);
    assert_eq!(fixture.codes(&[("quiet", "x")], 3), [Within, Within, Within]);
    let open = &fixture.ask(&[&[("open", "x")]], 1000, 0)[0];
    assert_eq!((open.code, open.remaining, open.limit.is_none()), (Within, u32::MAX, true));
}

#[test]
fn quota_mode_denies_only_if_all_limits_are_over() {
    let fixture = fixture(LIMITS);
    let both: [&[(&str, &str)]; 2] = [&[("q1", "x")], &[("q2", "x")]];
    let codes = |statuses: Vec<LimitStatus>| statuses.iter().map(|s| s.code).collect::<Vec<_>>();
    assert_eq!(codes(fixture.ask(&both, 1, 0)), [Within, Within]);
    assert_eq!(codes(fixture.ask(&both, 1, 0)), [Within, Within], "q2 has something left");
    assert_eq!(codes(fixture.ask(&both, 1, 0)), [Over, Over]);
}

#[test]
fn windows_remaining_and_reset_follow_the_clock() {
    let fixture = fixture(LIMITS);
    let at = |now| fixture.ask(&[&[("plan", "free")]], 1, now).remove(0);
    let first = at(59);
    assert_eq!((first.remaining, first.reset), (1, Some(SignedDuration::from_secs(1))));
    assert_eq!(at(59).remaining, 0);
    assert_eq!((at(59).code, at(60).code), (Over, Within), "a new minute");
    assert_eq!(at(61).reset, Some(SignedDuration::from_secs(59)));
}

#[test]
fn a_zero_charge_reads_and_a_negative_one_returns() {
    let fixture = fixture(LIMITS);
    let plan: &[&[(&str, &str)]] = &[&[("plan", "free")]];
    assert_eq!(fixture.ask(plan, 2, 0)[0].code, Within);
    assert_eq!(fixture.ask(plan, 0, 0)[0].code, Within, "looking takes nothing");
    assert_eq!(fixture.ask(plan, 1, 0)[0].code, Over);
    fixture.ask(plan, -2, 0);
    assert_eq!(fixture.ask(plan, 1, 0)[0].code, Within);
}

#[test]
fn a_limit_of_the_request_overrides_the_configured_one() {
    let fixture = fixture(LIMITS);
    let entries: &[(&[u8], &[u8])] = &[(b"anything", b"x")];
    let limit = crate::descriptor::LimitOverride { requests_per_unit: 1, unit: Unit::Second, multiplier: 10 };
    let descriptors = [Descriptor { entries, limit: Some(limit), charge: 1 }];
    let ask = |domain: &[u8], now| {
        let request = RateLimitRequest { domain, descriptors: &descriptors };
        decide(&request, &fixture.config, &fixture.windows, &fixture.metrics, now).remove(0)
    };
    assert_eq!(ask(b"shop", 3).code, Within);
    assert_eq!(ask(b"shop", 9).code, Over, "ten seconds are one window");
    assert_eq!(ask(b"shop", 10).code, Within);
    assert!(!ask(b"unknown", 3).matched, "only in a domain that is configured");
}

#[test]
fn hits_are_counted_by_result() {
    let fixture = fixture(LIMITS);
    fixture.codes(&[("plan", "goldy")], 7);
    let limit = fixture.config.domains[&b"shop"[..]].descriptors.limits();
    let gold = limit.iter().find(|l| &*l.full_key == "shop.plan_gold*").unwrap();
    let counters = fixture.metrics.of(gold);
    let counts = [&counters.total, &counters.over, &counters.near, &counters.within].map(|c| c.get());
    assert_eq!(counts, [7, 2, 1, 5]);
}

#[test]
fn windows_of_quotas_use_the_largest_unit() {
    for (seconds, unit, multiplier) in
        [(10, Unit::Second, 10), (60, Unit::Minute, 1), (7200, Unit::Hour, 2), (604_800, Unit::Week, 1)]
    {
        let limit = LimitInfo::of_window(5, SignedDuration::from_secs(seconds), "q").unwrap();
        assert_eq!((limit.unit, limit.multiplier), (unit, multiplier), "{seconds} s");
    }
    assert_eq!(LimitInfo::of_window(5, SignedDuration::from_millis(1500), "q"), None);
}
