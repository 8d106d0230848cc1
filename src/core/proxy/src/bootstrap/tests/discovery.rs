//! Files of listeners.

use super::*;

fn listener(name: &str, fields: &str) -> String {
    format!(
        "- '@type': type.googleapis.com/envoy.config.listener.v3.Listener\n  name: {name}\n  address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}\n  filter_chains: [{{filters: [{{name: t, typed_config: {{'@type': type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: p, cluster: c}}}}]}}]\n{fields}"
    )
}

fn read_file(text: &str) -> Result<ListenerUpdate, String> {
    read_listeners(text, "lds.yaml", &KnownClusters { names: HashSet::from(["c".to_owned()]) })
}

#[test]
fn a_file_is_named_by_the_bootstrap() {
    let of = |source: &str| format!("dynamic_resources: {{lds_config: {{{source}}}}}\n");
    let (bootstrap, _) =
        read(&of("resource_api_version: V3, path_config_source: {path: /a}"), "b.yaml").unwrap();
    assert_eq!(bootstrap.listener_file.as_deref(), Some(std::path::Path::new("/a")));
    assert!(read("dynamic_resources: {}", "b.yaml").unwrap().0.listener_file.is_none());
    for (text, path, message) in [
        (of("ads: {}"), "lds_config.ads", "is not supported"),
        (
            of("path_config_source: {}"),
            "lds_config.path_config_source",
            "PathConfigSourceValidationError.Path",
        ),
        (of("path_config_source: {path: ''}"), "lds_config.path_config_source.path", "at least 1 characters"),
        (
            of("path_config_source: {path: /a, watched_directory: {path: /b}}"),
            "lds_config.path_config_source.watched_directory",
            "is not supported",
        ),
        ("dynamic_resources: {cds_config: {}}\n".to_owned(), "cds_config", "is not supported"),
    ] {
        let problems = read(&text, "b.yaml").unwrap_err();
        let path = format!("dynamic_resources.{path}");
        assert!(
            problems.iter().any(|p| p.field.to_string() == path && p.message.contains(message)),
            "{text}: {problems:?}"
        );
    }
}

#[test]
fn listeners_that_are_not_valid_are_told_and_others_are_read() {
    let text = format!(
        "version_info: '7'\nresources:\n{}{}{}{}- {{'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster, name: k}}\n",
        listener("a", ""),
        listener("b", "  nope: 1\n"),
        listener("c", "  freebind: true\n"),
        listener("''", ""),
    );
    let update = read_file(&text).unwrap();
    assert_eq!(update.version, "7");
    let shown: Vec<(&str, String)> = update
        .listeners
        .iter()
        .map(|resource| (resource.name.as_str(), resource.config.as_ref().err().cloned().unwrap_or_default()))
        .collect();
    let expected = [
        ("a", ""),
        ("b", "lds.yaml:11:3: resources[1].nope: no such field: 'nope' in Listener"),
        (
            "c",
            "lds.yaml:16:3: resources[2].freebind: field `freebind` of Listener is not supported by this version",
        ),
        ("", ""),
        ("k", "expected `type.googleapis.com/envoy.config.listener.v3.Listener`"),
    ];
    for ((name, why), (expected_name, expected)) in shown.iter().zip(expected) {
        assert_eq!(*name, expected_name);
        assert!(why.contains(expected) && why.is_empty() == expected.is_empty(), "{name}: {why}");
    }
    assert_eq!((shown.len(), update.listeners[1].document["nope"].as_i64()), (5, Some(1)));
    // As JSON.
    let json = read_file(r#"{"versionInfo": "8", "resources": []}"#).unwrap();
    assert_eq!((json.version.as_str(), json.listeners.len()), ("8", 0));
    // Writers of JSON leave out lists without entries.
    let json = read_file(r#"{"versionInfo": "9"}"#).unwrap();
    assert_eq!((json.version.as_str(), json.listeners.len()), ("9", 0));
}

#[test]
fn what_is_no_file_of_listeners_changes_nothing() {
    for (text, message) in [
        ("", "lds.yaml: expected `version_info` and `resources`"),
        ("a: [", "lds.yaml:"),
        ("version_info: '1'\n", "`resources: []` removes all listeners"),
        ("resources: {}\n", "lds.yaml:1:12: resources: expected a list, found a mapping"),
        ("resource: []\n", "no such field: 'resource'"),
        ("type_url: type.googleapis.com/envoy.config.cluster.v3.Cluster\nresources: []\n", "type_url is"),
        ("resources: []\nresources: []\n", "key `resources` occurs twice"),
    ] {
        let why = read_file(text).unwrap_err();
        assert!(why.contains(message), "{text}: {why}");
    }
}
