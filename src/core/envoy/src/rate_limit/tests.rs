use std::sync::Arc;

use super::*;
use crate::config::{EnvoyConfig, config_of};
use mixer_attribute::{SignedDuration, Vocabulary};
use mixer_base::metrics::Metrics;
use mixer_config::store;
use mixer_engine::adapter::Inventory;
use mixer_engine::snapshot::{ExtensionConfig as _, Registry, SnapshotBuilder, SnapshotOptions};

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
    registry: Arc<Metrics>,
    metrics: LimitMetrics,
}

fn fixture(text: &str) -> Fixture {
    fixture_of(&[text], false)
}

/// The limits of several files. `stops`: whether limits that refuse a call are not charged.
fn fixture_of(files: &[&str], stops: bool) -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    for (number, text) in files.iter().enumerate() {
        std::fs::write(directory.path().join(format!("limits{number}.yaml")), text).unwrap();
    }
    let store = store::open(&format!("fs://{}", directory.path().display())).unwrap();
    let snapshot = SnapshotBuilder::new(SnapshotOptions::new(Registry {
        adapters: Inventory::default(),
        extensions: &[&crate::EnvoyKinds],
    }))
    .build(&store.load());
    assert!(snapshot.diagnostics.is_empty(), "{:?}", snapshot.diagnostics);
    let mut config = config_of(&snapshot).clone();
    config.settings.ratelimit.stop_increment_when_over = stops;
    let registry = Arc::new(Metrics::new());
    Fixture {
        config: config.into(),
        windows: WindowCounters::default(),
        metrics: LimitMetrics::new(Arc::clone(&registry)),
        registry,
    }
}

impl Fixture {
    fn ask(&self, descriptors: &[&[(&str, &str)]], charge: i64, now: u64) -> Vec<LimitStatus> {
        self.ask_in("shop", descriptors, charge, now)
    }

    fn ask_in(
        &self,
        domain: &str,
        descriptors: &[&[(&str, &str)]],
        charge: i64,
        now: u64,
    ) -> Vec<LimitStatus> {
        let owned: Vec<Vec<(&[u8], &[u8])>> = descriptors
            .iter()
            .map(|entries| entries.iter().map(|(k, v)| (k.as_bytes(), v.as_bytes())).collect())
            .collect();
        let descriptors: Vec<Descriptor<'_>> =
            owned.iter().map(|entries| Descriptor { entries, limit: None, charge }).collect();
        let request = RateLimitRequest { domain: domain.as_bytes(), descriptors: &descriptors };
        decide(&request, &self.config, &self.windows, &self.metrics, now, &Search::default())
    }

    /// The metrics of limits that are not 0, without the common part of their names.
    fn counts(&self) -> Vec<String> {
        let mut text = Vec::new();
        self.registry.write(&mut text);
        let text = String::from_utf8(text).unwrap();
        let of_limits = text.lines().filter_map(|line| line.strip_prefix("ratelimit_service_rate_limit_"));
        of_limits.filter(|line| !line.ends_with(" 0")).map(str::to_owned).collect()
    }

    fn codes(&self, entries: &[(&str, &str)], times: usize) -> Vec<LimitCode> {
        (0..times).map(|_| self.ask(&[entries], 1, 0).remove(0).code).collect()
    }
}

use LimitCode::{Ok as Within, OverLimit as Over};

/// Also where two are written alike, and of several files.
#[test]
fn a_refusal_has_the_limit_with_its_place() {
    let first = "# Limits.\ndomain: shop\ndescriptors:\n- key: a.b\n  rate_limit: {unit: day, requests_per_unit: 1}\n\
                 - key: a\n  descriptors:\n  - key: b\n    value: c\n    rate_limit: {unit: day, requests_per_unit: 1}\n";
    let second = "domain: cart\ndescriptors:\n\n- {key: x, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}\n";
    let fixture = fixture_of(&[first, second], false);
    let exceeds = |domain: &str, entries: &[(&str, &str)]| {
        let limit = fixture.ask_in(domain, &[entries], 2, 0).remove(0).exceeds?;
        let place = fixture.config.domains[domain.as_bytes()].written(&limit).place;
        Some((limit.full_key.to_string(), place.rsplit('/').next().unwrap_or_default().to_owned()))
    };
    let named = |name: &str, place: &str| Some((name.to_owned(), place.to_owned()));
    assert_eq!(exceeds("shop", &[("a.b", "1")]), named("shop.a.b", "limits0.yaml:4"));
    assert_eq!(exceeds("shop", &[("a", "1"), ("b", "c")]), named("shop.a.b_c", "limits0.yaml:8"));
    assert_eq!(exceeds("cart", &[("x", "1")]), None, "it refuses nothing");
    let all = fixture.config.outline(&Vocabulary::builder().build());
    let shown: Vec<_> =
        all.iter().map(|limit| (&*limit.from, limit.labels.clone().unwrap().join("|"))).collect();
    assert_eq!(
        shown,
        [
            ("cart.x", "cart|x|".to_owned()),
            ("shop.a.b", "shop|a.b|".to_owned()),
            ("shop.a.b_c", "shop|a|b_c".to_owned())
        ]
    );
}

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
        decide(&request, &fixture.config, &fixture.windows, &fixture.metrics, now, &Search::default())
            .remove(0)
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
    let labels = r#"{domain="shop",key1="plan_gold*",key2=""}"#;
    let expected = [("near_limit", 1), ("over_limit", 2), ("total_hits", 7), ("within_limit", 5)];
    assert_eq!(fixture.counts(), expected.map(|(name, count)| format!("{name}{labels} {count}")));
}

/// A call is refused by what is over; what only looks over charges all the same.
#[test]
fn only_a_call_that_is_refused_charges_nothing() {
    use LimitCode::{Ok as Within, OverLimit as Over};
    let limits = LIMITS.to_owned()
        + "- key: once\n  rate_limit: {unit: minute, requests_per_unit: 1}\n\
           - key: q3\n  quota_mode: true\n  shadow_mode: true\n  rate_limit: {unit: minute, requests_per_unit: 1}\n";
    type Entries = &'static [(&'static str, &'static str)];
    let [q1, q2, q3]: [Entries; 3] = [&[("q1", "x")], &[("q2", "x")], &[("q3", "x")]];
    let [once, free, quiet]: [Entries; 3] = [&[("once", "x")], &[("plan", "free")], &[("quiet", "x")]];
    for stops in [false, true] {
        let ask = |fixture: &Fixture, descriptors: &[Entries], charge| {
            let statuses = fixture.ask(descriptors, charge, 0);
            statuses.iter().map(|status| status.code).collect::<Vec<_>>()
        };
        // In quota mode only all together refuse.
        let fixture = fixture_of(&[&limits], stops);
        assert_eq!(ask(&fixture, &[q1, q2], 1), [Within, Within]);
        assert_eq!(ask(&fixture, &[q1, q2], 1), [Within, Within], "q1 is over, q2 is not");
        assert_eq!(ask(&fixture, &[q1, q2], 1), [Over, Over], "{stops}");
        assert_eq!(ask(&fixture, &[q1, q2, free], 2), [Over, Over, Within]);
        let left = fixture.ask(&[free], 0, 0)[0].remaining;
        assert_eq!(left, if stops { 2 } else { 0 }, "a refused call takes nothing from other limits");
        // One in shadow mode is never over, so that others in quota mode with it never refuse.
        let fixture = fixture_of(&[&limits], stops);
        for _ in 0..3 {
            assert_eq!(ask(&fixture, &[q1, q3], 1), [Within, Within]);
            assert_eq!(ask(&fixture, &[quiet], 1), [Within]);
        }
        assert_eq!(fixture.ask(&[quiet, free], 2, 0)[1].code, Within);
        assert_eq!(fixture.ask(&[free], 0, 0)[0].remaining, 0, "shadow mode refuses no call");
        // Another limit refuses for all.
        let fixture = fixture_of(&[&limits], stops);
        assert_eq!(ask(&fixture, &[once, q1, q2], 1), [Within, Within, Within]);
        assert_eq!(ask(&fixture, &[once, q1, q2], 1), [Over, Within, Within]);
        assert_eq!(ask(&fixture, &[q1, q2], 1), if stops { [Within, Within] } else { [Over, Over] });
        // A refund is never lost, and a read of an exhausted limit refuses nothing.
        let fixture = fixture_of(&[&limits], stops);
        assert_eq!(ask(&fixture, &[once], 1), [Within]);
        assert_eq!(ask(&fixture, &[once], 0), [Within], "nothing is left, nothing is taken");
        assert_eq!(ask(&fixture, &[once], -1), [Within]);
        assert_eq!(ask(&fixture, &[once], 1), [Within], "{stops}");
    }
}

#[test]
fn hits_of_refused_calls_are_counted() {
    let fixture = fixture_of(&[LIMITS], true);
    for _ in 0..7 {
        fixture.ask(&[&[("plan", "free")], &[("plan", "goldy")]], 1, 0);
    }
    let free = r#"{domain="shop",key1="plan_free",key2=""}"#;
    let gold = r#"{domain="shop",key1="plan_gold*",key2=""}"#;
    let expected = [
        ("near_limit", free, 1),
        ("over_limit", free, 5),
        ("total_hits", free, 7),
        ("total_hits", gold, 7),
        ("within_limit", free, 2),
        ("within_limit", gold, 7),
    ];
    assert_eq!(fixture.counts(), expected.map(|(name, labels, count)| format!("{name}{labels} {count}")));
    assert_eq!(fixture.ask(&[&[("plan", "goldy")]], 0, 0)[0].remaining, 3, "charged with what was allowed");
}

#[test]
fn dots_in_domains_and_values_split_no_labels() {
    let limit = "rate_limit: {unit: hour, requests_per_unit: 9}";
    let files = [
        format!(
            "domain: shop.example\ndescriptors:\n- key: address\n  value: 10.0.0.1\n  {limit}\n  descriptors:\n  \
             - {{key: path, {limit}, descriptors: [{{key: user, {limit}}}]}}\n"
        ),
        format!("domain: a.b\ndescriptors:\n- {{key: c, {limit}}}\n"),
        format!("domain: a\ndescriptors:\n- {{key: b, descriptors: [{{key: c, {limit}}}]}}\n"),
    ];
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let fixture = fixture_of(&files, false);
    let (address, path, user) = (("address", "10.0.0.1"), ("path", "/x.y"), ("user", "u"));
    for (domain, descriptor, hits) in [
        ("shop.example", &[address][..], 1),
        ("shop.example", &[address, path], 2),
        ("shop.example", &[address, path, user], 3),
        ("a.b", &[("c", "x")], 4),
        ("a", &[("b", "x"), ("c", "x")], 5),
    ] {
        assert!(fixture.ask_in(domain, &[descriptor], hits, 0)[0].matched, "{domain} {descriptor:?}");
    }
    let hits: Vec<_> = fixture.counts().into_iter().filter(|line| line.starts_with("total_hits")).collect();
    let expected = [
        r#"{domain="a",key1="b",key2="c"} 5"#,
        r#"{domain="a.b",key1="c",key2=""} 4"#,
        r#"{domain="shop.example",key1="address_10.0.0.1",key2=""} 1"#,
        r#"{domain="shop.example",key1="address_10.0.0.1",key2="path"} 2"#,
        r#"{domain="shop.example",key1="address_10.0.0.1",key2="path.user"} 3"#,
    ];
    assert_eq!(hits, expected.map(|labels| format!("total_hits{labels}")));
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

/// Nobody knows which limit would be for a value that is too long to be searched.
#[test]
fn values_beyond_what_wildcards_search_are_over_the_limit() {
    let wildcard = |n: usize| {
        format!("- {{key: agent, value: \"*bot{n}*x\", rate_limit: {{unit: hour, requests_per_unit: 9}}}}\n")
    };
    let all: String = (0..10).map(wildcard).collect();
    let fixture = fixture(&format!("domain: shop\ndescriptors:\n{all}"));
    let long = "x".repeat((1 << 20) + 1);
    let statuses = fixture.ask(&[&[("agent", &long)], &[("agent", "a bot3 x")], &[("agent", "none")]], 1, 0);
    let found: Vec<_> = statuses.iter().map(|status| (status.code, status.matched)).collect();
    assert_eq!(found, [(Over, true), (Within, true), (Within, false)]);
}
