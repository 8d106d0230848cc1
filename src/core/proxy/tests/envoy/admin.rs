//! The admin interface: paths, parameters, and masks of dumps.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::pair::Pair;
use crate::proxy::ask_admin;

/// Both, by the port of a side: the status, and the body.
fn asked(pair: &Pair, path: &str) -> [(u16, String); 2] {
    pair.ports("$ADMIN").map(|port| ask_admin(port, "GET", path).unwrap())
}

#[test]
fn pages_are_found_as_with_envoy() {
    let pair = Pair::start();
    for (path, status) in [
        ("//ready", 200),
        ("///ready", 200),
        ("/./ready", 200),
        ("/a/../ready", 200),
        ("/%72eady", 200),
        ("/ready?a=b", 200),
        ("//", 404),
        ("/ready/", 404),
        ("/READY", 404),
        ("/%2fready", 404),
        ("/ready%00", 400),
    ] {
        let answers = asked(&pair, path);
        assert_eq!(answers.each_ref().map(|(status, _)| *status), [status; 2], "{path}");
        if status != 404 {
            assert_eq!(answers[0], answers[1], "{path}");
        }
    }
}

#[test]
fn parameters_are_those_of_envoy() {
    let pair = Pair::start();
    for path in [
        "/stats?filter=^cluster.dead.upstream_cx_overflow$&filter=^cluster.empty.",
        "/stats?filter=^cluster.empty.upstream_cx_none_healthy$&filter=nothing",
        "/stats?filter=^cluster.dead.upstream_cx_ov.+flow$",
        "/stats?filter=^cluster.dead.upstream_cx_ov.%2Bflow$",
        "/stats?filter=^cluster.dead.upstream_cx_over%66low$&usedonly",
        "/stats?filter=^cluster.dead.upstream_cx_overflow$&type=Counters&type=Gauges",
        "/stats?filter=^cluster.dead.upstream_cx_overflow$&type=Gauges&type=Counters",
        "/stats?filter=^cluster.dead.upstream_cx_overflow$&&format=text&format=json",
        "/stats?type=x&type=Counters",
    ] {
        let [ours, envoys] = asked(&pair, path);
        assert_eq!(ours, envoys, "{path}");
    }
    let [(ours, _), (envoys, _)] = asked(&pair, "/stats?filter=(&filter=a");
    assert_eq!((ours, envoys), (400, 400), "not the second");
}

/// The paths of all fields of a dump that have a value, without those that only Envoy has.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields_of) => {
            for (name, value) in
                fields_of.iter().filter(|(name, _)| *name != "@type" && *name != "last_updated")
            {
                let path = format!("{path}.{name}");
                if !value.is_object() && !value.is_array() && !value.as_str().is_some_and(str::is_empty) {
                    found.insert(path.clone());
                }
                fields(value, &path, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, path, found)),
        _ => {}
    }
}

/// The types and the fields of what a dump has.
fn dumped(body: &str) -> Vec<(String, BTreeSet<String>)> {
    let dump: Value = serde_json::from_str(body).unwrap();
    let configs = dump["configs"].as_array().cloned().unwrap_or_default();
    let mut all: Vec<_> = configs
        .iter()
        .map(|config| {
            let mut found = BTreeSet::new();
            fields(config, "", &mut found);
            (config["@type"].as_str().unwrap_or_default().to_owned(), found)
        })
        .collect();
    all.sort();
    all
}

#[test]
fn masks_of_dumps_are_those_of_envoy() {
    let pair = Pair::start();
    for query in [
        "mask=bootstrap.admin",
        "mask=bootstrap.admin.address.socket_address.address",
        "mask=version_info",
        "mask=static_clusters&mask=nope",
        "resource=static_clusters&mask=cluster.name",
        "resource=static_clusters&mask=cluster.name,cluster.type",
        "resource=static_listeners&mask=listener.address.socket_address.address,listener.name",
        "resource=static_clusters&mask=last_updated",
    ] {
        let answers = asked(&pair, &format!("/config_dump?{query}"));
        assert_eq!(answers.each_ref().map(|(status, _)| *status), [200; 2], "{query}");
        let [mut ours, envoys] = answers.map(|(_, body)| dumped(&body));
        // Envoy shows no defaults that were not written either; what was written is shown as it was.
        ours.iter_mut().for_each(|(_, fields)| fields.retain(|field| !field.ends_with(".validate_clusters")));
        if query.starts_with("mask=static_clusters") {
            assert_eq!(ours.len(), envoys.len(), "{query}");
            continue;
        }
        assert_eq!(ours, envoys, "{query}");
    }
    for query in [
        "mask=nope",
        "mask=bootstrap,nope",
        "mask=staticClusters",
        "mask=static_clusters.cluster",
        "mask=static_clusters,static_listeners",
        "resource=bootstrap",
        "resource=version_info&mask=x",
        "resource=nope&mask=x",
    ] {
        let [ours, envoys] = asked(&pair, &format!("/config_dump?{query}"));
        assert_eq!(ours, envoys, "{query}");
        assert!(ours.0 >= 400, "{query}");
    }
    for query in ["mask=cluster", "mask=nope", "mask=cluster.name,nope", "mask=cluster.name,version_info"] {
        let statuses =
            asked(&pair, &format!("/config_dump?resource=static_clusters&{query}")).map(|(status, _)| status);
        assert_eq!(statuses, [400; 2], "{query}");
    }
}
