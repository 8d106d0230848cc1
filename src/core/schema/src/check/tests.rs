use mixer_config::yaml;

use super::*;
use crate::kinds::{MESH_CONFIG, by_api, by_collection};

fn texts(kind: &'static Kind, name: &str, namespace: &str, text: &str) -> Vec<String> {
    let body = yaml::parse(text).unwrap().root;
    let findings = check(&Subject { kind, name, namespace, body: &body });
    findings
        .into_diagnostics()
        .into_iter()
        .map(|problem| format!("{}: {}", problem.code, problem.message))
        .collect()
}

fn security(kind: &str, text: &str) -> Vec<String> {
    texts(by_api("security.istio.io/v1beta1", kind).unwrap(), "p", "ns", text)
}

const MESH: &str = "
connectTimeout: 1s
proxyListenPort: 15001
defaultConfig: {binaryPath: /b, configPath: /c, connectTimeout: 1s, discoveryAddress: 'pilot:15010', drainDuration: 45s,
  parentShutdownDuration: 60s, proxyAdminPort: 15000, serviceCluster: s}
";

#[test]
fn the_configuration_of_a_mesh_is_checked() {
    let mesh = by_collection(MESH_CONFIG).unwrap();
    assert_eq!(texts(mesh, "", "", MESH), [""; 0]);
    let broken = MESH.replace("pilot:15010", "pilot").replace("45s", "2h").replace("15001", "0");
    assert_eq!(
        texts(mesh, "", "", &broken),
        [
            "value-invalid: invalid proxy listen port: port number 0 must be in the range 1..65535",
            "value-invalid: invalid parent and drain time combination parent shutdown time 1m0s must be greater than drain time 2h0m0s",
            "value-invalid: invalid parent and drain time combination drain time 2h0m0s must be <1h0m0s",
            "value-invalid: invalid discovery address: unable to split \"pilot\": address pilot: missing port in address",
        ]
    );
    let missing = texts(mesh, "", "", "{}");
    assert!(missing.contains(&"field-missing: missing default config".to_owned()), "{missing:?}");
}

#[test]
fn policies_of_workloads_are_checked() {
    assert_eq!(security("AuthorizationPolicy", "{rules: [{to: [{operation: {ports: ['80']}}]}]}"), [""; 0]);
    assert_eq!(
        security("AuthorizationPolicy", "{action: DENY}"),
        ["field-missing: a deny policy without `rules` is meaningless and has no effect, found in p.ns"]
    );
    assert_eq!(
        security(
            "AuthorizationPolicy",
            "{rules: [{from: [{source: {ipBlocks: [a]}}, {}], when: [{key: a}]}]}"
        )
        .len(),
        3
    );
    assert_eq!(
        security("PeerAuthentication", "{portLevelMtls: {80: {mode: STRICT}}}"),
        ["field-conflict: mesh/namespace peer authentication cannot have port level mTLS"]
    );
    assert_eq!(security("RequestAuthentication", "{jwtRules: [{}]}"), ["field-missing: issuer must be set"]);
}

#[test]
fn patches_of_envoy_are_decoded() {
    let filter = by_api("networking.istio.io/v1alpha3", "EnvoyFilter").unwrap();
    let patched = |apply_to: &str, value: &str| {
        let text = format!(
            "{{configPatches: [{{applyTo: {apply_to}, patch: {{operation: MERGE, value: {value}}}}}]}}"
        );
        texts(filter, "f", "ns", &text)
    };
    assert_eq!(patched("CLUSTER", "{connect_timeout: 1s, lb_policy: RANDOM}"), [""; 0]);
    assert_eq!(
        patched("LISTENER", "{connect_timeout: 1s}"),
        ["value-invalid: envoy filter: unknown field \"connect_timeout\" in v2.Listener"]
    );
    assert_eq!(
        patched(
            "HTTP_FILTER",
            "{name: envoy.lua, typed_config: {'@type': type.googleapis.com/envoy.Lua, x: 1}}"
        ),
        [""; 0]
    );
}
