//! The golden cases of the protocol, against a source in this process over a socket. Bodies are JSON: the crate knows no kinds.

#![cfg(test)]

#[path = "../../../../tests/conformance/galley/transcript.rs"]
mod transcript;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mixer_base::metrics::Metrics;
use mixer_config::{Node, NodeKind, yaml};
use mixer_mcp::{
    Cache, Collection, Resource, Server, ServerOptions, Services, Snapshot, Source, SourceOptions,
};
use mixer_net::address::ListenAddress;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use transcript::{Acting, Action};

const GROUP: &str = "default";
const GATEWAYS: &str = "istio/networking/v1alpha3/gateways";
const RULES: &str = "istio/policy/v1beta1/rules";
const SIDECARS: &str = "istio/networking/v1alpha3/sidecars";

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testdata/conformance/galley")
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn to_json(node: &Node) -> Value {
    match &node.kind {
        NodeKind::String(text) => Value::String(text.to_string()),
        NodeKind::Mapping(entries) => {
            entries.iter().map(|entry| (entry.key.to_string(), to_json(&entry.value))).collect()
        }
        other => panic!("the cases have no {other:?}"),
    }
}

/// What the files of a directory hold, by collection.
fn resources(directory: &Path) -> BTreeMap<&'static str, Vec<Arc<Resource>>> {
    let mut found = BTreeMap::from([(GATEWAYS, Vec::new()), (RULES, Vec::new()), (SIDECARS, Vec::new())]);
    for file in std::fs::read_dir(directory).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let document = to_json(&yaml::parse(&text).unwrap().root);
        let member = |path: &str| document.pointer(path).and_then(Value::as_str).unwrap();
        let collection = if member("/kind") == "rule" { RULES } else { GATEWAYS };
        let name = format!("{}/{}", member("/metadata/namespace"), member("/metadata/name"));
        let body = document["spec"].to_string();
        let resource = Resource::new(&name, &body, "json", body.clone());
        found.entry(collection).or_default().push(Arc::new(resource));
    }
    found
}

/// The snapshot of a directory; the version of a collection counts its changes.
fn snapshot(before: &Snapshot, directory: &Path) -> Snapshot {
    let mut next = before.clone();
    for (name, resources) in resources(directory) {
        let old = before.get(name);
        let same = old.is_some_and(|old| old.content().iter().eq(resources.iter()));
        if !same {
            let count =
                old.map_or(0, |old| old.version().rsplit('/').next().unwrap().parse::<u32>().unwrap());
            next = next.with(Collection::new(name, format!("{name}/{}", count + 1), resources));
        }
    }
    next
}

/// Plays a case against a source that serves it. Errors: the difference.
async fn play(case: &Path) -> Result<(), String> {
    let settings = json(&case.join("case.json"));
    let metadata = settings["args"]["sinkMeta"].as_array().into_iter().flatten().map(|pair| {
        let (name, value) = pair.as_str().unwrap().split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    });
    let cache = Cache::new(|_, _| GROUP.into());
    let options = SourceOptions {
        incremental: settings["sourceOffersIncremental"].as_bool().unwrap_or(false),
        metadata: metadata.collect(),
        ..SourceOptions::new([GATEWAYS, RULES, SIDECARS].map(Arc::from).to_vec())
    };
    let source = Source::new(Arc::clone(&cache), options, &Arc::new(Metrics::new())).unwrap();
    let address = ListenAddress::parse("127.0.0.1:0").unwrap();
    let services = Services { source: Some(source), sink: None };
    let server = Server::bind(ServerOptions::new(address), services).unwrap();
    let address = server.local_address().unwrap();
    let stop = CancellationToken::new();
    let serving = tokio::spawn(server.serve(stop.clone()));

    let mut current = Snapshot::default();
    let input = case.join("input");
    if input.is_dir() {
        current = snapshot(&current, &input);
        cache.set_snapshot(GROUP, Arc::new(current.clone()));
    }
    let collection = settings["collection"].as_str().unwrap_or_default().to_owned();
    let steps = case.to_owned();
    let mut act = move |action| {
        match action {
            Action::Replace(step) => {
                current = snapshot(&current, &steps.join(step));
                cache.set_snapshot(GROUP, Arc::new(current.clone()));
            }
            Action::SetSnapshot(version, resources) => {
                let resource = |(name, version): (String, String)| {
                    Arc::new(Resource::new(&name, &version, "json", "{}"))
                };
                let only = Collection::new(collection.as_str(), version, resources.into_iter().map(resource));
                cache.set_snapshot(GROUP, Arc::new(Snapshot::of([only])));
            }
            Action::Clear => cache.clear_snapshot(GROUP),
            Action::ClearStatus => {
                let cache = Arc::clone(&cache);
                return Box::pin(async move {
                    // The last request may not have arrived.
                    while cache.status(GROUP).is_none_or(|status| status.watches == 0) {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    cache.clear_status(GROUP);
                    Ok(())
                }) as Acting;
            }
        }
        Box::pin(std::future::ready(Ok(())))
    };
    let expected = json(&case.join("expected.json"));
    let steps = expected["transcript"].as_array().unwrap();
    let bodies = |expected: &Value, body: &mixer_mcp::message::google::protobuf::Any| {
        let found: Value = serde_json::from_slice(&body.value).map_err(|error| error.to_string())?;
        if found == *expected { Ok(()) } else { Err(format!(": expected {expected}, found {found}")) }
    };
    let played = transcript::play(address, steps, &bodies, &mut act).await;
    stop.cancel();
    serving.await.unwrap();
    played
}

#[tokio::test]
async fn the_golden_cases_of_the_protocol_hold() {
    let mut names: Vec<String> = std::fs::read_dir(cases())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| ["proto-", "inc-", "cache-"].iter().any(|kind| name.starts_with(kind)))
        .collect();
    names.sort();
    assert!(names.len() >= 11, "{names:?}");
    let plays = names
        .iter()
        .map(async |name| play(&cases().join(name)).await.map_err(|why| format!("{name}: {why}")));
    let failed: Vec<String> =
        futures_util::future::join_all(plays).await.into_iter().filter_map(Result::err).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
