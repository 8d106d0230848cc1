//! What is at fault goes on in its previous version, and nothing else.

use mixer_engine::runtime::OnConfigError;

use crate::stage::{Answer, Files, Stage};

/// Denies one user.
fn rule(user: &str) -> String {
    format!(
        "---\nkind: rule\nmetadata: {{name: no-{user}, namespace: istio-system}}\n\
         spec: {{match: '(source.user | \"\") == \"{user}\"', actions: [{{handler: turn-away, instances: [nothing]}}]}}\n"
    )
}

const BASE: &str = "kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec: {attributes: {source.user: {valueType: STRING}}}
---
kind: handler
metadata: {name: turn-away, namespace: istio-system}
spec: {compiledAdapter: denier}
---
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
";

fn bridge(name: &str) -> String {
    format!(
        "kind: envoybridge\nmetadata: {{name: {name}, namespace: istio-system}}\nspec: {{check: {{mode: shadow}}}}\n"
    )
}

fn limits(name: &str) -> String {
    format!(
        "kind: ratelimit\nmetadata: {{name: {name}, namespace: istio-system}}\n\
         spec: {{domain: shop, descriptors: [{{key: user, rate_limit: {{unit: hour, requests_per_unit: 3}}}}]}}\n"
    )
}

/// Adds a second resource to one that serves, beside a valid change: the new one is left out, everything else applies.
fn second(resource: fn(&str) -> String, known: &str, new: &str) {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut files = Files::default();
    files.put("/conf/base.yaml", format!("{BASE}{}", rule("bob")));
    files.put("/conf/known.yaml", resource(known));
    stage.start(&files);
    assert_eq!((stage.check("bob"), stage.published().diagnostics.len()), (Answer::Denied, 0), "{new}");
    files.put("/conf/new.yaml", resource(new));
    files.put("/conf/beside.yaml", rule("carol").trim_start_matches("---\n"));
    stage.change(&files);
    assert_eq!((stage.check("bob"), stage.check("carol")), (Answer::Denied, Answer::Denied), "{new}");
    assert_eq!(stage.kept(), Vec::<String>::new(), "{new}");
    let published = stage.published();
    let named = published.diagnostics.iter().filter(|d| d.resource.starts_with(&format!("{new}.")));
    assert_eq!(named.count(), 1, "{new}: {:?}", published.diagnostics);
    drop(published);
    // Without the one that served, the new one serves.
    files.remove("/conf/known.yaml");
    stage.change(&files);
    assert_eq!((stage.published().diagnostics.len(), stage.check("bob")), (0, Answer::Denied), "{new}");
}

#[test]
fn a_second_envoybridge_is_left_out_alone() {
    for new in ["a", "z"] {
        second(bridge, "m", new);
    }
}

#[test]
fn a_second_domain_of_rate_limits_is_left_out_alone() {
    for new in ["a", "z"] {
        second(limits, "m", new);
    }
}

#[test]
fn a_start_with_two_envoybridges_serves_nothing() {
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut files = Files::default();
    files.put("/conf/base.yaml", format!("{BASE}{}", rule("bob")));
    files.put("/conf/bridges.yaml", [bridge("a"), bridge("z")].join("---\n"));
    stage.start(&files);
    assert_eq!(stage.check("bob"), Answer::Unavailable);
}

#[test]
fn a_rule_stays_while_an_envoybridge_names_its_quota() {
    const QUOTA: &str = "---
kind: handler
metadata: {name: limit, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.istio-system, maxAmount: 9, validDuration: 9s}]}}
---
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {of: '\"all\"'}}}
";
    const REQUESTS: &str = "kind: attributemanifest
metadata: {name: requests, namespace: istio-system}
spec: {attributes: {request.headers: {valueType: STRING_MAP}}}
";
    const COUNT: &str = "kind: rule
metadata: {name: count, namespace: istio-system}
spec: {actions: [{handler: limit, instances: [calls.instance.istio-system]}]}
";
    const BRIDGE: &str = "kind: envoybridge
metadata: {name: default, namespace: istio-system}
spec: {ratelimit: {quotas: [{domain: shop, quota: calls}]}}
";
    let mut stage = Stage::new(OnConfigError::KeepLast, false);
    let mut files = Files::default();
    files.put("/conf/base.yaml", format!("{BASE}{}{QUOTA}", rule("bob")));
    files.put("/conf/count.yaml", COUNT);
    files.put("/conf/bridge.yaml", BRIDGE);
    files.put("/conf/requests.yaml", REQUESTS);
    stage.start(&files);
    assert_eq!(stage.published().diagnostics, []);
    let why = "count.rule.istio-system: default.envoybridge.istio-system names its quota";
    // No descriptor has headers: nothing would be charged.
    files.put(
        "/conf/count.yaml",
        COUNT.replace("spec: {", "spec: {match: 'request.headers[\"x-plan\"] == \"free\"', "),
    );
    stage.change(&files);
    assert_eq!(stage.kept(), [why]);
    files.put("/conf/count.yaml", COUNT);
    stage.change(&files);
    assert_eq!((stage.kept(), stage.published().diagnostics.len()), (Vec::new(), 0));
    files.remove("/conf/count.yaml");
    files.put("/conf/beside.yaml", rule("carol").trim_start_matches("---\n"));
    stage.change(&files);
    assert_eq!((stage.check("bob"), stage.check("carol")), (Answer::Denied, Answer::Denied));
    assert_eq!(stage.kept(), [why]);
    let published = stage.published();
    let mut rules = published.routes.snapshot().rules.iter();
    assert!(rules.any(|rule| &*rule.key.name == "count"));
    drop(published);
    files.remove("/conf/bridge.yaml");
    stage.change(&files);
    assert_eq!((stage.kept(), stage.published().diagnostics.len()), (Vec::new(), 0));
}
