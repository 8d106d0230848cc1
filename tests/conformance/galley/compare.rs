//! What a golden case of Galley expects of collections. `testdata/conformance/galley/README.md` has the rules.

use std::collections::BTreeMap;

use serde_json::Value;

/// A resource as a sink sees it.
#[derive(Debug, Clone)]
pub(crate) struct SeenResource {
    pub(crate) name: String,
    pub(crate) version: String,
    /// RFC 3339; empty without one.
    pub(crate) create_time: String,
    pub(crate) type_url: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) body: Value,
}

/// A collection as a sink sees it.
#[derive(Debug, Clone)]
pub(crate) struct SeenCollection {
    pub(crate) version: String,
    /// In any order.
    pub(crate) resources: Vec<SeenResource>,
}

/// What is compared less strictly, because the expectation was recorded of the other processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Like {
    /// Everything is compared.
    Own,
    /// Versions are not compared.
    Other,
}

/// No creation time.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// Annotations whose values are versions.
const VERSIONS: [&str; 2] =
    ["networking.alpha.istio.io/serviceVersion", "networking.alpha.istio.io/endpointsVersion"];

/// The value, or a regular expression that it matches.
fn text(expected: &Value, found: &str) -> Result<(), String> {
    let holds = match (expected, expected.get("pattern").and_then(Value::as_str)) {
        (Value::String(text), _) => text == found,
        (_, Some(pattern)) => regex::Regex::new(pattern).map_err(|e| e.to_string())?.is_match(found),
        _ => false,
    };
    if holds { Ok(()) } else { Err(format!("expected {expected}, found `{found}`")) }
}

/// Compares a collection with what is expected of it.
pub(crate) fn collection(expected: &Value, found: &SeenCollection, like: Like) -> Result<(), String> {
    if let (Like::Own, Some(version)) = (like, expected.get("version")) {
        text(version, &found.version).map_err(|why| format!("version: {why}"))?;
    }
    let none = Vec::new();
    let resources = expected.get("resources").and_then(Value::as_array).unwrap_or(&none);
    let mut known: BTreeMap<String, &SeenResource> = BTreeMap::new();
    for resource in &found.resources {
        if known.insert(normal(&resource.name, like), resource).is_some() {
            return Err(format!("`{}` is there twice", resource.name));
        }
    }
    for expected in resources {
        let name = expected.get("name").and_then(Value::as_str).unwrap_or_default();
        let found = known.remove(&normal(name, like)).ok_or_else(|| format!("`{name}` is missing"))?;
        resource(expected, found, like).map_err(|why| format!("`{name}`: {why}"))?;
    }
    match known.keys().next() {
        Some(name) => Err(format!("`{name}` is not expected")),
        None => Ok(()),
    }
}

/// The name of a virtual service for all hosts differs between the processors: `-NAME` and `*-NAME`.
fn normal(name: &str, like: Like) -> String {
    match like {
        Like::Own => name.to_owned(),
        Like::Other => name.replace("/*-", "/-"),
    }
}

fn resource(expected: &Value, found: &SeenResource, like: Like) -> Result<(), String> {
    let field = |name: &str, found: &str| match expected.get(name) {
        Some(expected) => text(expected, found).map_err(|why| format!("{name}: {why}")),
        None => Ok(()),
    };
    if like == Like::Own {
        field("version", &found.version)?;
    }
    field("typeUrl", &found.type_url)?;
    field("createTime", if found.create_time.is_empty() { NEVER } else { &found.create_time })?;
    map(expected.get("labels"), &found.labels, like).map_err(|why| format!("labels: {why}"))?;
    map(expected.get("annotations"), &found.annotations, like)
        .map_err(|why| format!("annotations: {why}"))?;
    body(expected.get("body").unwrap_or(&Value::Null), &found.body).map_err(|why| format!("body{why}"))
}

fn map(expected: Option<&Value>, found: &BTreeMap<String, String>, like: Like) -> Result<(), String> {
    let empty = serde_json::Map::new();
    let expected = expected.and_then(Value::as_object).unwrap_or(&empty);
    if expected.len() != found.len() {
        return Err(format!("expected {expected:?}, found {found:?}"));
    }
    for (name, value) in expected {
        let found = found.get(name).ok_or_else(|| format!("`{name}` is missing"))?;
        if !(like == Like::Other && VERSIONS.contains(&name.as_str())) {
            text(value, found).map_err(|why| format!("`{name}`: {why}"))?;
        }
    }
    Ok(())
}

/// Compares bodies as JSON: the order of members is free, and null is an empty message.
pub(crate) fn body(expected: &Value, found: &Value) -> Result<(), String> {
    let is_empty =
        |value: &Value| value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) => {
            for (name, value) in a {
                let found = b.get(name).unwrap_or(&Value::Null);
                body(value, found).map_err(|why| format!(".{name}{why}"))?;
            }
            match b.keys().find(|name| !a.contains_key(*name)) {
                Some(name) => Err(format!(".{name}: not expected")),
                None => Ok(()),
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                body(a, b).map_err(|why| format!("[{index}]{why}"))?;
            }
            Ok(())
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => Ok(()),
        (a, b) if a == b || (is_empty(a) && is_empty(b)) => Ok(()),
        (a, b) => Err(format!(": expected {a}, found {b}")),
    }
}

/// What is expected of a processor, and how it is compared.
pub(crate) fn processor<'e>(expected: &'e Value, processor: &str) -> Option<(&'e Value, Like)> {
    let all = expected.get("processors")?;
    let own = all.get(processor)?;
    match own.get("sameAs").and_then(Value::as_str) {
        Some(other) => Some((all.get(other)?, Like::Other)),
        None => Some((own, Like::Own)),
    }
}
