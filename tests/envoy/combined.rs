//! Several rules about one request: a quota of which one rule refuses, and requests that pass although no decision allows them.

use mixer_wire::envoy::service::auth::v3::check_response::HttpResponse;
use serde_json::Value;

use crate::direct::Setting;
use crate::support::http;
use crate::support::rpc::Client;
use crate::unknown::{Asked, DENIED, EXHAUSTED, MANIFEST, QUOTA, SHOP, bridge};

/// Two rules for one quota in the namespace of the mesh. FIRST and SECOND are handlers.
const TWO_RULES: &str = "---
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {}}}
---
kind: handler
metadata: {name: lax, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.istio-system, maxAmount: 1000, validDuration: 3600s}]}}
---
kind: handler
metadata: {name: strict, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.istio-system, maxAmount: 2, validDuration: 3600s}]}}
---
kind: handler
metadata: {name: broken, namespace: istio-system}
spec: {compiledAdapter: drill, params: {outcome: ERROR}}
---
kind: rule
metadata: {name: a, namespace: istio-system}
spec: {actions: [{handler: FIRST, instances: [calls]}]}
---
kind: rule
metadata: {name: b, namespace: istio-system}
spec: {match: request.method == \"GET\", actions: [{handler: SECOND, instances: [calls]}]}
";

fn codes(text: &str, count: usize) -> Vec<i32> {
    let setting = Setting::on(text, &[]);
    let mut client = setting.client();
    (0..count).map(|_| Asked::of("GET", "/").code(&mut client)).collect()
}

#[test]
fn the_least_grant_of_several_rules_counts() {
    let charge = |mode: &str| {
        bridge(&format!(
            "{{check: {{errorMode: {mode}, quotaSpec: [{{rules: [{{quotas: [{{quota: calls}}]}}]}}]}}}}"
        ))
    };
    let of = |first: &str, second: &str| TWO_RULES.replace("FIRST", first).replace("SECOND", second);
    for (first, second) in [("lax", "strict"), ("strict", "lax")] {
        let text = format!("{MANIFEST}{}{}", of(first, second), charge("closed"));
        assert_eq!(codes(&text, 4), [0, 0, EXHAUSTED, EXHAUSTED], "{first}, {second}");
    }
    // A failure besides does not open what is exhausted.
    for (first, second) in [("strict", "broken"), ("broken", "strict")] {
        let text = format!("{MANIFEST}{}{}", of(first, second), charge("open"));
        assert_eq!(codes(&text, 4), [0, 0, EXHAUSTED, EXHAUSTED], "{first}, {second}");
    }
}

#[test]
fn a_quota_in_dry_run_grants_none_that_another_namespace_enforces() {
    let tried = QUOTA.replace("NAMESPACE", "istio-system").replace(
        "name: charge, namespace: istio-system}",
        "name: charge, namespace: istio-system, annotations: {mixer.dev/dry-run: \"true\"}}",
    );
    let enforced = QUOTA.replace("NAMESPACE", "shop");
    let check = bridge("{check: {errorMode: closed, quotaSpec: [{rules: [{quotas: [{quota: calls}]}]}]}}");
    let setting = Setting::on(&format!("{MANIFEST}{enforced}{tried}{check}"), &[]);
    let mut client = setting.client();
    assert_ne!(Asked::of("GET", "/").code(&mut client), 0, "no enforced rule for the request has it");
    assert_eq!(Asked::of("GET", "/").to(SHOP).code(&mut client), 0);
}

/// The headers that an answer sets and removes.
fn changes(asked: Asked, client: &mut Client) -> (Vec<String>, Vec<String>) {
    let Some(HttpResponse::OkResponse(ok)) = asked.answer(client).http_response else {
        panic!("the request is not allowed");
    };
    let set = ok.headers.iter().filter_map(|option| option.header.as_ref()).map(|header| header.key.clone());
    (set.collect(), ok.headers_to_remove)
}

const HEADERS: &str = "---
kind: rule
metadata: {name: roles, namespace: istio-system}
spec:
  requestHeaderOperations:
  - {name: X-Role, values: ['\"guest\"'], operation: REPLACE}
  - {name: x-debug, operation: REMOVE}
  - {name: x-via, values: ['\"mixer\"'], operation: APPEND}
---
kind: handler
metadata: {name: deny, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 7}}}
---
kind: handler
metadata: {name: broken, namespace: istio-system}
spec: {compiledAdapter: drill, params: {outcome: ERROR}}
---
kind: instance
metadata: {name: asked, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
kind: rule
metadata: {name: denied, namespace: istio-system}
spec: {match: request.url_path == \"/denied\", actions: [{handler: deny, instances: [asked]}]}
---
kind: rule
metadata: {name: failing, namespace: istio-system}
spec: {match: request.url_path == \"/failing\", actions: [{handler: broken, instances: [asked]}]}
";

#[test]
fn a_request_that_no_decision_allows_loses_the_headers_that_rules_guard() {
    let guarded = ["x-debug", "x-role"];
    for (spec, overridden, denied) in [
        ("{check: {mode: shadow}}", ["/denied", "/failing"].as_slice(), [].as_slice()),
        ("{check: {errorMode: open}}", &["/failing"], &["/denied"]),
    ] {
        let setting = Setting::on(&format!("{MANIFEST}{HEADERS}{}", bridge(spec)), &[]);
        let mut client = setting.client();
        let (set, removed) = changes(Asked::of("GET", "/"), &mut client);
        assert_eq!(set, ["X-Role", "x-via"], "{spec}");
        assert!(removed.iter().any(|name| name == "x-debug"), "{spec}: {removed:?}");
        // Twice, the second time from the cache.
        for path in overridden.iter().chain(overridden) {
            let (set, removed) = changes(Asked::of("GET", path), &mut client);
            assert!(set.is_empty(), "{spec}: {set:?}");
            assert!(
                guarded.iter().all(|name| removed.iter().any(|other| other == name)),
                "{spec}: {removed:?}"
            );
        }
        for path in denied {
            assert_eq!(Asked::of("GET", path).code(&mut client), DENIED, "{spec}");
        }
    }
}

/// Over days rules are tried in this way: which of them would have refused is told, also of answers of the cache, and what failed counts as failed.
#[test]
fn shadow_mode_tells_what_each_rule_would_have_refused() {
    let setting = Setting::on(&format!("{MANIFEST}{HEADERS}{}", bridge("{check: {mode: shadow}}")), &[]);
    let mut client = setting.client();
    for path in ["/denied", "/denied", "/denied", "/failing", "/"] {
        assert_eq!(Asked::of("GET", path).code(&mut client), 0, "{path}");
    }
    let controlz = setting.server.ports.ctrlz;
    let page =
        |path: &str| http("GET", &format!("http://127.0.0.1:{controlz}{path}"), "").expect("a page").body;
    let rules: Value = serde_json::from_str(&page("/rulej/")).expect("JSON");
    let of = |name: &str| {
        let name = format!("{name}.rule.istio-system");
        rules.as_array().expect("a list").iter().find(|rule| rule["name"] == name).expect("the rule")
    };
    let denied = of("denied");
    assert!(denied["state"] == "shadow" && denied["shadow"]["denied"] == 3, "{denied}");
    assert_eq!(denied["counts"]["denials"], 0, "{denied}");
    assert!(denied["counts"]["hits"].as_u64() < Some(3), "two answers are those of the cache: {denied}");
    let failing = of("failing");
    assert!(failing["state"] == "shadow" && failing["shadow"]["denied"] == 0, "{failing}");
    assert!(of("roles")["state"] == "in effect" && of("roles").get("shadow").is_none(), "{rules}");

    let shown = page("/rulez/");
    for told in ["Decisions are not enforced", "would have denied 3", "2 in shadow mode", ">shadow</span>"] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    let resource = page("/configz/resource?name=denied.rule.istio-system");
    for told in ["Decisions are not enforced", "in shadow mode: would have denied 3"] {
        assert!(resource.contains(told), "{told}: {resource}");
    }
    let other = page("/configz/resource?name=roles.rule.istio-system");
    assert!(!other.contains("shadow mode") && !other.contains("Decisions are not"), "{other}");
    let denials = page("/denialz/");
    for told in ["Decisions are not enforced", "are no denials: ", "No request was denied since the start"] {
        assert!(denials.contains(told), "{told}: {denials}");
    }
    let metrics = http("GET", &setting.server.monitoring_url("/metrics"), "").expect("metrics").body;
    for line in [
        "mixer_rule_shadow_denials_total{rule=\"denied.rule.istio-system\"} 3\n",
        "bridge_check_total{code=\"PERMISSION_DENIED\",result=\"shadow_denied\"} 3\n",
        "bridge_check_total{code=\"INTERNAL\",result=\"shadow_error\"} 1\n",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let calls: Value = serde_json::from_str(&page("/callj/")).expect("JSON");
    assert_eq!((&calls["failed"], &calls["failedAllowed"]), (&1.into(), &1.into()), "{calls}");
}
