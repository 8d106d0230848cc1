//! What operators see of the traffic of Envoy: ControlZ, metrics and the dashboard.

use std::time::{Duration, Instant};

use crate::fixture::{Fixture, Http};
use crate::support::browser::Browser;
use crate::support::http;
use crate::support::prometheus::{Prometheus, empty_panels};

/// Panels that must show the traffic of Envoy.
const OF_ENVOY: &[&str] = &[
    "Checks a second",
    "Refused a second",
    "Check, 99 %",
    "Calls by method and status",
    "Latency of checks",
    "Refused checks by code",
    "Check cache, share of hits",
    "Calls by handler",
    "Hits by rule",
    "Denials by rule",
    "Checks by result",
    "Rate limits",
    "Access logs",
];

/// One request of each kind: allowed and cached, denied, over a rate limit, over HTTP.
async fn traffic(fixture: &Fixture) {
    for _ in 0..3 {
        let ann = [("x-user", "ann")];
        assert_eq!(fixture.get(Http::One, "/a", &ann).await.status, 200);
        assert_eq!(fixture.get(Http::Two, "/a", &[("x-user", "mallory")]).await.status, 403);
        let limited = [("x-user", "ann"), ("x-plan", "free")];
        let status = fixture.get(Http::One, "/limited", &limited).await.status;
        assert!(matches!(status, 200 | 429), "{status}");
        assert_eq!(fixture.get_at(fixture.over_http, Http::One, "/a", &ann).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_traffic_of_envoy_counts_everywhere() {
    let fixture = Fixture::start().await;
    traffic(&fixture).await;
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", fixture.controlz());
    let json = |path: &str| -> serde_json::Value {
        serde_json::from_str(&http("GET", &url(path), "").unwrap().body).unwrap()
    };
    let page = |path: &str| http("GET", &url(path), "").unwrap().body;

    let latency = json("/latencyj/");
    let calls = |method: &str| {
        let of = |call: &&serde_json::Value| call["labels"][0][1] == method;
        latency["calls"].as_array().unwrap().iter().find(of).map(|call| call["count"].as_u64().unwrap())
    };
    assert!(calls("envoy.service.auth.v3.Authorization/Check") >= Some(9), "{latency}");
    assert!(calls("envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit") >= Some(3), "{latency}");
    assert_eq!(calls("ext_authz.http/Check"), Some(3), "{latency}");

    let cache = json("/cachej/");
    assert_eq!((&cache["enabled"], &cache["envoy"]["enabled"]), (&false.into(), &true.into()), "{cache}");
    let number = |name: &str| cache["envoy"][name].as_u64().unwrap();
    assert!(number("hits") > 0, "{cache}");
    assert_eq!(number("writes"), number("entries") + number("evictions") + number("ended"), "{cache}");
    assert!(page("/cachez/").contains("Checks of Envoy"));

    let groups = json("/denialgroupj/");
    let has = |kind: &str, by: &str| {
        let is = |group: &&serde_json::Value| {
            group["kind"] == kind && group["by"].as_str().unwrap().starts_with(by)
        };
        groups["groups"].as_array().unwrap().iter().find(is).cloned()
    };
    let denied = has("rule", "deny-mallory.rule.").unwrap_or_else(|| panic!("{groups}"));
    assert_eq!(denied["count"], 3, "{groups}");
    let limited = has("limit", "shop.plan_free").unwrap_or_else(|| panic!("{groups}"));
    assert_eq!((&limited["count"], &limited["service"]), (&1.into(), &"shop".into()), "{groups}");
    assert_eq!(limited["caller"], "plan=free", "the values of the descriptor: {groups}");
    let denials = page("/denialz/");
    assert!(
        denials.contains("deny-mallory.rule.istio-system") && denials.contains("shop.plan_free"),
        "{denials}"
    );

    let rules = json("/rulej/");
    let rule = rules.as_array().unwrap().iter().find(|rule| rule["name"] == "deny-mallory.rule.istio-system");
    let counts = &rule.unwrap()["counts"];
    assert!(counts["hits"].as_u64() >= Some(1) && counts["denials"] == 3, "{counts}");

    let node = || {
        let callers = json("/callerj/");
        callers.as_array().unwrap().iter().any(|caller| caller["node"] == "tests").then_some(())
    };
    assert!(crate::support::wait_for(crate::support::DEADLINE, node).is_some(), "{}", json("/callerj/"));
    assert!(page("/callerz/").contains("<code>tests</code>"));

    let routes = page("/routesz/");
    assert!(routes.contains("id=\"envoy\"") && routes.contains("tests.organization"), "{routes}");
    // The next sample has them.
    let counted = || {
        let overview = page("/");
        // None has failed; all others are counted.
        let empty = overview.matches("<small>0 total").count();
        (empty <= 1 && overview.contains("Rate limits")).then_some(())
    };
    assert!(crate::support::wait_for(crate::support::DEADLINE, counted).is_some(), "{}", page("/"));
    if Browser::writes_pictures() {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(40) {
            traffic(&fixture).await;
        }
        let browser = Browser::start();
        browser.open(&url("/"));
        browser.keep_both("envoy");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_panel_of_the_dashboard_has_data_of_a_server_for_envoy() {
    let fixture = Fixture::start().await;
    let prometheus = Prometheus::start(&[("mixer", fixture.monitoring_port())]);
    let looking = tokio::task::spawn_blocking(move || empty_panels(&prometheus, OF_ENVOY));
    while !looking.is_finished() {
        traffic(&fixture).await;
    }
    assert_eq!(looking.await.unwrap(), Vec::<String>::new());
}
