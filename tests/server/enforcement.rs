//! What is decided and not enforced is told by the log, `/readyz?verbose`, ControlZ and `doctor`: shadow mode, and rules in dry run.

use std::path::Path;

use serde_json::Value;

use crate::on_config_error::verbose;
use crate::support::{DEADLINE, Server, http, put, run_mixer as mixer, wait_for};

const RULES: &str = r#"apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: refuse, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 7, message: refused}}}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: nothing, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata:
  name: tried
  namespace: istio-system
  annotations: {mixer.dev/dry-run: "true"}
spec: {actions: [{handler: refuse, instances: [nothing]}]}
"#;

const BRIDGE: &str = "apiVersion: config.istio.io/v1alpha2\nkind: envoybridge\nmetadata: {name: default, namespace: istio-system}\n\
                      spec:\n  check:\n    mode: shadow\n  ratelimit: {shadow: true}\n";

const LIMITS: &str = "domain: shop\ndescriptors:\n- key: path\n  shadow_mode: true\n  rate_limit: {unit: hour, requests_per_unit: 3}\n";

fn overview(server: &Server) -> String {
    http("GET", &format!("http://127.0.0.1:{}/", server.ports.ctrlz), "").expect("an answer").body
}

/// The findings of `doctor` beside a server, with these names.
fn diagnosed(server: &Server, directory: &Path, check: &str) -> Vec<String> {
    let config = format!("fs://{}", directory.display());
    let ports =
        [server.ports.monitoring, server.ports.ctrlz, server.ports.metrics].map(|port| port.to_string());
    let address = server.address();
    let flags = ["doctor", "-o", "json", "--config-store-url", &config, "--address", &address];
    let more = ["--monitoring-port", &ports[0], "--ctrlz-port", &ports[1], "--metrics-port", &ports[2]];
    let finished = mixer(&[&flags[..], &more].concat());
    let document: Value =
        serde_json::from_str(&finished.stdout).unwrap_or_else(|e| panic!("{e}: {finished:?}"));
    let all = document["findings"].as_array().cloned().unwrap_or_default();
    let of = all.iter().filter(|finding| finding["check"] == check);
    of.map(|finding| {
        assert_eq!(finding["verdict"], "warn", "{finding}");
        format!("{} {}", finding["detail"], finding["hint"])
    })
    .collect()
}

#[test]
fn what_is_not_enforced_is_told_with_its_place_until_it_is() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (rules, bridge) = (directory.path().join("rules.yaml"), directory.path().join("bridge.yaml"));
    put(&rules, RULES);
    put(&bridge, BRIDGE);
    let server = Server::on(directory.path()).native().start();
    let places = [format!("{}:6", bridge.display()), format!("{}:7", bridge.display())];
    for text in
        ["`mode: shadow`: every check of Envoy is answered OK", "`shadow: true`: every rate limit call"]
    {
        server.wait_for_log(&format!("not enforced: {text}"));
    }
    server.wait_for_log(&format!(
        "not enforced: a rule is in dry run: tried.rule.istio-system ({}:11)",
        rules.display()
    ));

    let told = verbose(&server);
    assert_eq!(told["notEnforced"]["count"], 3, "{told}");
    let first = told["notEnforced"]["first"].as_array().cloned().unwrap_or_default();
    let of = |member: &str| {
        first.iter().map(|entry| entry[member].as_str().unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(of("scope"), ["service", "service", "rule"]);
    assert_eq!(of("place"), [places[0].as_str(), &places[1], &format!("{}:11", rules.display())]);
    assert!(first.iter().all(|entry| entry["since"].is_string() && entry["ageSeconds"].is_u64()), "{told}");
    let degraded =
        wait_for(DEADLINE, || verbose(&server)["degraded"]["enforcement"]["why"].as_str().map(str::to_owned));
    let degraded = degraded.expect("it is a degradation");
    assert!(degraded.contains(&places[0]) && degraded.contains(&places[1]), "{degraded}");

    let page = overview(&server);
    assert!(
        page.contains("Decisions are not enforced") && page.contains("tried.rule.istio-system"),
        "{page}"
    );
    for check in ["enforcement", "running enforcement"] {
        let found = diagnosed(&server, directory.path(), check);
        assert_eq!(found.len(), 3, "{check}: {found:?}");
        assert!(
            found[0].contains(&places[0]) && found[2].contains("1 rule in dry run"),
            "{check}: {found:?}"
        );
    }
    let since = diagnosed(&server, directory.path(), "running enforcement");
    assert!(since[0].contains("; since 20") && since[2].contains(", since 20"), "{since:?}");
    // A rehearsal tells it as well.
    let config = format!("fs://{}", directory.path().display());
    let tried = mixer(&["server", "--dry-run", "--config-store-url", &config, "--address", "127.0.0.1:0"]);
    assert!(tried.stdout.contains("degraded       enforcement: `mode: shadow`"), "{tried:?}");
    assert!(
        !format!("{tried:?}").contains("enforced again"),
        "the end of a rehearsal enforces nothing: {tried:?}"
    );

    // Of a rule alone nothing is degraded.
    put(&bridge, &BRIDGE.replace("shadow: true", "shadow: false").replace("mode: shadow", "mode: enforce"));
    let is_enforced = wait_for(DEADLINE, || {
        let told = verbose(&server);
        (told["degraded"]["enforcement"].is_null() && told["notEnforced"]["count"] == 1).then_some(())
    });
    assert!(is_enforced.is_some(), "{}", verbose(&server));
    server.wait_for_log("enforced again after ");
    assert!(overview(&server).contains("Rules in dry run decide nothing"));

    put(&rules, &RULES.replace(r#"dry-run: "true""#, r#"dry-run: "false""#));
    let is_enforced = wait_for(DEADLINE, || (verbose(&server)["notEnforced"]["count"] == 0).then_some(()));
    assert!(is_enforced.is_some(), "{}", verbose(&server));
    server.wait_for_log("no longer in dry run: tried.rule.istio-system");
    assert!(!overview(&server).contains("id=\"unenforced\""));
    assert_eq!(diagnosed(&server, directory.path(), "enforcement"), [""; 0]);
    assert_eq!(diagnosed(&server, directory.path(), "running enforcement"), [""; 0]);
}

/// A file of envoyproxy/ratelimit may have limits that are tried.
#[test]
fn limits_in_shadow_mode_are_told_with_their_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let limits = directory.path().join("limits.yaml");
    put(&directory.path().join("rules.yaml"), &RULES.replace(r#"dry-run: "true""#, r#"dry-run: "false""#));
    put(&limits, LIMITS);
    let server = Server::on(directory.path()).native().start();
    server.wait_for_log("not enforced: limits with `shadow_mode: true` are counted");
    let told = verbose(&server);
    assert_eq!(told["notEnforced"]["count"], 1, "{told}");
    assert_eq!(told["notEnforced"]["first"][0]["scope"], "limits", "{told}");
    // It is meant for single limits: nothing is degraded.
    assert!(told["degraded"]["enforcement"].is_null(), "{told}");
    assert!(overview(&server).contains("Some limits are not enforced"));
    for check in ["enforcement", "running enforcement"] {
        let found = diagnosed(&server, directory.path(), check);
        assert!(
            found.len() == 1 && found[0].contains(&format!("{}:1", limits.display())),
            "{check}: {found:?}"
        );
        assert!(found[0].contains("remove `shadow_mode: true`"), "{check}: {found:?}");
    }
    put(&limits, &LIMITS.replace("true", "false"));
    let is_enforced = wait_for(DEADLINE, || (verbose(&server)["notEnforced"]["count"] == 0).then_some(()));
    assert!(is_enforced.is_some(), "{}", verbose(&server));
    assert_eq!(diagnosed(&server, directory.path(), "running enforcement"), [""; 0]);
}
