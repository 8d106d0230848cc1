//! Golden cases recorded from Istio's Galley: the answers of its admission webhook, and the bodies that it serves.

#![expect(clippy::unwrap_used, reason = "what a case lacks fails the test")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use mixer_config::{Node, yaml};
use mixer_schema::check::{Subject, check};
use mixer_schema::{Body, by_kind, encode, to_json};
use serde_json::Value as Json;

fn case(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../testdata/conformance/galley")).join(name)
}

fn json(path: PathBuf) -> Json {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn parse(text: &str) -> Option<Node> {
    yaml::parse(text).ok().map(|parsed| parsed.root)
}

/// `metadata.FIELD`, if it is a text.
fn metadata<'n>(object: &'n Node, field: &str) -> &'n str {
    object.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Node::as_str).unwrap_or_default()
}

/// The answer to a request of `/admitpilot`, up to the check of members beside `spec`.
fn answer(object: &Node) -> Option<String> {
    let kind = object.get("kind").and_then(Node::as_str).unwrap_or_default();
    let Some(known) =
        by_kind(kind).filter(|known| known.group != "config.istio.io" || kind.starts_with(['H', 'Q']))
    else {
        return Some(format!("unrecognized type {kind}"));
    };
    let absent = Node::default();
    let body = object.get("spec").unwrap_or(&absent);
    let (name, namespace) = (metadata(object, "name"), metadata(object, "namespace"));
    check(&Subject { kind: known, name, namespace, body }).message()
}

#[test]
fn admission_answers_as_istio() {
    let mut checked = 0;
    for name in ["adm-networking", "adm-security-client"] {
        let (requests, expected) =
            (json(case(name).join("input/requests.json")), json(case(name).join("expected.json")));
        let pairs = requests.as_array().unwrap().iter().zip(expected["responses"].as_array().unwrap());
        for (request, response) in pairs {
            let label = &request["label"];
            let is_known = request["endpoint"] == "/admitpilot" && request["operation"] != "DELETE";
            if !is_known || request["object"].get("extra").is_some() {
                continue;
            }
            let message = answer(&parse(&request["object"].to_string()).unwrap());
            assert_eq!(message.is_none(), response["allowed"] == true, "{label}: {message:?}");
            match response["messageCompare"].as_str() {
                Some("exact") => assert_eq!(message.as_deref(), response["message"].as_str(), "{label}"),
                Some("prefix") => {
                    let prefix = response["messagePrefix"].as_str().unwrap();
                    assert!(message.as_deref().unwrap().starts_with(prefix), "{label}: {message:?}");
                }
                _ => {}
            }
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked}");
}

/// Null and the empty message are the same.
fn normalized(value: &Json) -> Json {
    match value {
        Json::Object(members) => {
            let members = members.iter().map(|(key, value)| (key.clone(), normalized(value)));
            Json::Object(members.filter(|(_, value)| *value != serde_json::json!({})).collect())
        }
        Json::Array(items) => items.iter().map(normalized).collect(),
        value => value.clone(),
    }
}

#[test]
fn bodies_are_those_of_galley() {
    let mut compared = 0;
    let mut cases: Vec<_> = std::fs::read_dir(case("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    for path in cases.iter().filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("snap-")) {
        let mut bodies = BTreeMap::new();
        collect(&path.join("input"), &mut bodies);
        let expected = json(path.join("expected.json"));
        let Some(collections) = expected["processors"]["1"]["collections"].as_object() else { continue };
        for (collection, content) in collections {
            for resource in content["resources"].as_array().into_iter().flatten() {
                let name = resource["name"].as_str().unwrap();
                let Some((url, body)) = bodies.get(&(collection.clone(), name.to_owned())) else { continue };
                assert_eq!(resource["typeUrl"], url.as_str(), "{name}");
                assert_eq!(
                    normalized(body),
                    normalized(&resource["body"]),
                    "{} {collection} {name}",
                    path.display()
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 60, "{compared}");
}

/// Encodes all resources below a directory, by collection and name.
fn collect(directory: &std::path::Path, bodies: &mut BTreeMap<(String, String), (String, Json)>) {
    let mut paths: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, bodies);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for document in text.split("\n---\n").map(str::trim).filter_map(parse) {
            let Some(kind) = document.get("kind").and_then(Node::as_str).and_then(by_kind) else { continue };
            let absent = Node::default();
            let body = match kind.body {
                Body::Spec => document.get("spec").unwrap_or(&absent),
                Body::Object => &document,
            };
            let Ok(encoded) = encode(kind, body) else { continue };
            let (name, namespace) = (metadata(&document, "name"), metadata(&document, "namespace"));
            let name = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
            let body = to_json(&encoded.type_url, &encoded.body).unwrap();
            bodies.insert((kind.collection.to_owned(), name), (encoded.type_url, body));
        }
    }
}
