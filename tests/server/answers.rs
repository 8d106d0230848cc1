//! Policies whose data changes without a change of configuration: answers that the server keeps end with it.

use std::path::Path;

use crate::support::{DEADLINE, Server, free_port, http, run_mixer as mixer, wait_for};

const INSTANCE: &str = "kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec: {attributes: {request.path: {valueType: STRING}}}
---
kind: instance
metadata: {name: who, namespace: istio-system}
spec:
  compiledTemplate: authorization
  params:
    subject: {user: '\"ann\"'}
    action: {namespace: '\"lib\"', service: '\"shelf\"', method: '\"GET\"', path: request.path}
---
kind: rule
metadata: {name: closed, namespace: istio-system}
spec: {actions: [{handler: gate, instances: [who]}]}
---
";

/// Allows the paths in a file.
const OPA: &str = "kind: handler
metadata: {name: gate, namespace: istio-system}
spec:
  compiledAdapter: opa
  params:
    dataFiles: [FOLLOWED/data.json]
    checkMethod: data.gate.open
    policy:
    - |
      package gate
      default open = false
      open { data.paths[_] == input.action.path }
";

/// Allows what roles in a directory permit.
const RBAC: &str = "kind: handler
metadata: {name: gate, namespace: istio-system}
spec: {compiledAdapter: rbac, params: {configStoreUrl: 'fs://FOLLOWED', cacheDuration: 300s}}
";

const ROLES: &str = "kind: ServiceRole
metadata: {name: reader, namespace: lib}
spec: {rules: [{services: [shelf], methods: [GET], paths: [PATH]}]}
---
kind: ServiceRoleBinding
metadata: {name: readers, namespace: lib}
spec: {subjects: [{user: ann}], roleRef: {kind: ServiceRole, name: reader}}
";

/// `handler` follows `file`, whose contents for a path are `contents`; `installed`: what is logged.
fn ends_with_a_change(handler: &str, file: &str, contents: &dyn Fn(&str) -> String, installed: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let (root, followed) = (directory.path().join("conf"), directory.path().join("followed"));
    for made in [&root, &followed] {
        std::fs::create_dir(made).expect("writable");
    }
    let handler = handler.replace("FOLLOWED", &followed.display().to_string());
    std::fs::write(root.join("gate.yaml"), INSTANCE.to_owned() + &handler).expect("writable");
    std::fs::write(followed.join(file), contents("/before")).expect("writable");
    let address = format!("127.0.0.1:{}", free_port());
    let flags = ["--envoy-http-address", &address, "--num-check-cache-entries", "1000"];
    let server = Server::on(&root).native().with(&flags).start();
    let of_envoy =
        |path: &str| http("GET", &format!("http://{address}/check{path}"), "").ok().map(|a| a.status);
    let of_mixer = |path: &str| {
        let finished = mixer(&["check", "-m", &server.address(), "-s", &format!("request.path={path}")]);
        finished.stdout.contains("PERMISSION_DENIED")
    };
    let listens = wait_for(DEADLINE, || of_envoy("/before").filter(|status| *status == 200));
    assert!(listens.is_some(), "{}", server.log());
    // Twice, so that the second answer is cached.
    for _ in 0..2 {
        assert_eq!((of_envoy("/before"), of_mixer("/before")), (Some(200), false), "{}", server.log());
        assert_eq!((of_envoy("/after"), of_mixer("/after")), (Some(403), true), "{}", server.log());
    }
    let installations = || server.log().matches(installed).count();
    let before = installations();
    replace(directory.path(), &followed.join(file), &contents("/after"));
    assert!(wait_for(DEADLINE, || (installations() > before).then_some(())).is_some(), "{}", server.log());
    // The line is logged before the answers end.
    let ends = wait_for(DEADLINE, || of_envoy("/before").filter(|status| *status == 403));
    assert!(ends.is_some(), "{}", server.log());
    assert_eq!((of_envoy("/after"), of_mixer("/before")), (Some(200), true), "{}", server.log());
}

fn replace(directory: &Path, file: &Path, text: &str) {
    let beside = directory.join("new");
    std::fs::write(&beside, text).expect("writable");
    std::fs::rename(&beside, file).expect("writable");
}

#[test]
fn data_of_a_policy_that_changes_ends_cached_answers() {
    let contents = |path: &str| format!("{{\"paths\": [\"{path}\"]}}");
    ends_with_a_change(OPA, "data.json", &contents, "Installing updated data");
}

#[test]
fn roles_in_a_directory_that_change_end_cached_answers() {
    let contents = |path: &str| ROLES.replace("PATH", path);
    ends_with_a_change(RBAC, "roles.yaml", &contents, "Installing updated roles");
}
