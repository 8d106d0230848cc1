//! Lists whose contents change: answers that the server keeps end with them.

use crate::support::{DEADLINE, Server, free_port, http, run_mixer as mixer, wait_for};

/// Denies the values of an attribute that are on a list with these parameters.
pub(crate) fn denylist(attribute: &str, params: &str) -> String {
    format!(
        "kind: attributemanifest
metadata: {{name: words, namespace: istio-system}}
spec: {{attributes: {{{attribute}: {{valueType: STRING}}}}}}
---
kind: handler
metadata: {{name: banned, namespace: istio-system}}
spec: {{compiledAdapter: listchecker, params: {{{params}, blacklist: true}}}}
---
kind: instance
metadata: {{name: value, namespace: istio-system}}
spec: {{compiledTemplate: listentry, params: {{value: {attribute}}}}}
---
kind: rule
metadata: {{name: closed, namespace: istio-system}}
spec: {{actions: [{{handler: banned, instances: [value]}}]}}
"
    )
}

#[test]
fn a_list_that_changes_ends_cached_answers() {
    let directory = tempfile::tempdir().expect("a directory");
    let (root, list) = (directory.path().join("conf"), directory.path().join("banned"));
    std::fs::create_dir(&root).expect("writable");
    // Answers may be reused for minutes.
    let provider = format!("providerFile: {}, cachingInterval: 300s", list.display());
    let configuration = denylist("request.path", &provider);
    std::fs::write(root.join("closed.yaml"), configuration).expect("writable");
    std::fs::write(&list, "/mallory\n").expect("writable");
    let address = format!("127.0.0.1:{}", free_port());
    let flags = ["--envoy-http-address", &address, "--num-check-cache-entries", "1000"];
    let server = Server::on(&root).native().with(&flags).start();
    let of_envoy =
        |path: &str| http("GET", &format!("http://{address}/check{path}"), "").ok().map(|a| a.status);
    let of_mixer = |path: &str| {
        let finished = mixer(&["check", "-m", &server.address(), "-s", &format!("request.path={path}")]);
        finished.stdout.contains("PERMISSION_DENIED")
    };
    let listens = wait_for(DEADLINE, || of_envoy("/mallory").filter(|status| *status == 403));
    assert!(listens.is_some(), "{}", server.log());
    // Twice, so that the second answer is cached.
    for _ in 0..2 {
        assert_eq!((of_envoy("/eve"), of_mixer("/eve")), (Some(200), false), "{}", server.log());
    }
    let replace = |text: &str| {
        let beside = directory.path().join("new");
        std::fs::write(&beside, text).expect("writable");
        std::fs::rename(&beside, &list).expect("writable");
    };
    replace("/mallory\n/eve\n");
    server.wait_for_log("Installing updated list with 2 entries");
    assert_eq!((of_envoy("/eve"), of_mixer("/eve")), (Some(403), true), "{}", server.log());
    replace("/eve\n");
    let is_open = || (of_envoy("/mallory") == Some(200) && !of_mixer("/mallory")).then_some(());
    assert!(wait_for(DEADLINE, is_open).is_some(), "{}", server.log());
}
