//! What the pages show of the configuration for Envoy.

use crate::stage::get_json;
use crate::support::{Server, http, run_mixer};

const POLICY: &str = "kind: handler
metadata: {name: limits, namespace: istio-system}
spec: {compiledAdapter: memquota, params: {quotas: [{name: calls.instance.istio-system, maxAmount: 5, validDuration: 60s}]}}
---
kind: instance
metadata: {name: calls, namespace: istio-system}
spec: {compiledTemplate: quota, params: {dimensions: {user: source.user | \"nobody\"}}}
---
kind: rule
metadata: {name: limits, namespace: istio-system}
spec: {actions: [{handler: limits, instances: [calls]}]}
---
kind: envoybridge
metadata: {name: default, namespace: istio-system}
spec:
  defaultNamespace: istio-system
  check:
    quotaSpec:
    - rules:
      - quotas: [{quota: calls}]
";
/// As envoyproxy/ratelimit has it.
const LIMITS: &str = "domain: web
descriptors:
- key: user
  rate_limit: {unit: hour, requests_per_unit: 3}
";
/// The same kind in a namespace that exists.
const WRAPPED: &str = "kind: ratelimit
metadata: {name: shop, namespace: ratelimit}
spec: {domain: shop, descriptors: [{key: plan, rate_limit: {unit: minute, requests_per_unit: 7}}]}
";

#[test]
fn limits_and_quotas_of_checks_lead_to_their_source() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("policy.yaml", POLICY), ("limits.yaml", LIMITS), ("shop.yaml", WRAPPED)] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let server = Server::on(directory.path()).native().start();
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.ports.ctrlz);
    let page = |path: &str| http("GET", &url(path), "").unwrap().body;
    let link = |name: &str, file: &str, line: u32| {
        let place = directory.path().join(file).display().to_string();
        format!("href=\"/configz/resource?name={name}\">{place}:{line}</a>")
    };
    let routes = page("/routesz/");
    for wanted in [
        link("web.ratelimit.ratelimit", "limits.yaml", 3),
        link("shop.ratelimit.ratelimit", "shop.yaml", 3),
        link("default.envoybridge.istio-system", "policy.yaml", 20),
    ] {
        assert!(routes.contains(&wanted), "{wanted}: {routes}");
    }
    assert!(page("/quotaz/").contains(&link("web.ratelimit.ratelimit", "limits.yaml", 3)));
    assert_eq!(http("GET", &url("/configz/resource?name=web.ratelimit.ratelimit"), "").unwrap().status, 200);

    let quotas = get_json(&url("/quotaj/"));
    let named = |name: &str| {
        let of = |quota: &&serde_json::Value| quota["name"] == name;
        quotas.as_array().unwrap().iter().find(of).cloned().unwrap_or_else(|| panic!("{name}: {quotas}"))
    };
    assert_eq!(named("calls.instance.istio-system")["limit"], 5, "{quotas}");
    let limit = named("web.user");
    assert_eq!((&limit["rate"], &limit["hits"]), (&"3 per HOUR".into(), &0.into()), "{quotas}");
    assert_eq!(limit["resource"], "web.ratelimit.ratelimit", "{quotas}");

    // Only a file that has a namespace shows one.
    let config = page("/configz/?kind=ratelimit");
    assert_eq!(config.matches("data-label=\"Namespace\">ratelimit</td>").count(), 1, "{config}");
    assert!(config.contains("a file of rate limits has none"), "{config}");

    let shown = run_mixer(&["routes", "show", "--server", &format!("127.0.0.1:{}", server.ports.ctrlz)]);
    let line = shown.stdout.lines().find(|line| line.starts_with("check-quota")).unwrap_or_default();
    assert!(line.contains("1 of calls") && line.contains("policy.yaml:20"), "{}", shown.stdout);
}
