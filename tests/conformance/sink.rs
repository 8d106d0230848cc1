//! The cases of the `galley` suite with a policy server as the sink; its README.md states the schema.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use mixer_mcp::message::google::protobuf::Any;
use mixer_mcp::message::{Metadata, RequestResources, Resource, Resources};
use serde_json::{Map, Value, json};

use crate::case::{Case, in_parallel, jobs, selected};
use crate::support::mcp_source::McpSource;
use crate::support::{DEADLINE, Server};

/// A start on a busy machine takes its time.
const LIMIT: std::time::Duration = DEADLINE.saturating_mul(6);

/// Runs the cases in `dir` whose id contains the filter.
pub(crate) fn run(dir: &Path, filter: Option<&str>) -> Vec<Case> {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut work: Vec<_> = entries
        .filter(|path| read(&path.join("case.json")).is_ok_and(|case| case["kind"] == "sink"))
        .filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path)))
        .filter(|(id, _)| selected(id, filter))
        .collect();
    work.sort();
    in_parallel(jobs(), work, |(id, path)| {
        let played = read(&path.join("expected.json")).and_then(|expected| play(&expected));
        Case::new(id, played)
    })
}

fn read(path: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn play(expected: &Value) -> Result<(), String> {
    for variant in expected["variants"].as_array().into_iter().flatten() {
        initial_requests(variant)?;
    }
    match expected["transcript"].as_array() {
        Some(transcript) => answers(transcript),
        None => Ok(()),
    }
}

/// A server that asks this source.
fn sink(source: &McpSource, flags: &[String]) -> Result<Server, String> {
    Server::on_store(&source.url()).with(flags).spawn()
}

fn initial_requests(variant: &Value) -> Result<(), String> {
    let texts = |name: &str| -> Vec<String> {
        let values = variant[name].as_array().into_iter().flatten();
        values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
    };
    let (flags, collections) = (texts("flags"), texts("collections"));
    let source = McpSource::start();
    let _sink = sink(&source, &flags)?;
    let requests = source.take_requests(collections.len(), LIMIT);
    let asked: BTreeSet<&str> = requests.iter().map(|request| &*request.collection).collect();
    let wanted: BTreeSet<&str> = collections.iter().map(String::as_str).collect();
    if asked != wanted || requests.len() != collections.len() {
        let (more, less): (Vec<_>, Vec<_>) =
            (asked.difference(&wanted).collect(), wanted.difference(&asked).collect());
        return Err(format!("{flags:?}: asks also for {more:?}, and not for {less:?}"));
    }
    for request in requests {
        let shown = shown(&request);
        let wanted = json!({"collection": request.collection, "sinkNode": variant["sinkNode"]});
        if shown != wanted {
            return Err(format!("{flags:?}: asked {shown}, not {wanted}"));
        }
    }
    Ok(())
}

fn answers(transcript: &[Value]) -> Result<(), String> {
    let source = McpSource::start();
    let _sink = sink(&source, &[])?;
    source.take_requests(36, LIMIT);
    for (index, step) in transcript.iter().enumerate() {
        source.send(message(&step["source"])?);
        let answer = source.take_requests(1, LIMIT);
        let found: Vec<Value> = answer.iter().map(shown).collect();
        if found != [step["sink"].clone()] {
            return Err(format!("step {index}: answered {}, not {}", json!(found), step["sink"]));
        }
    }
    Ok(())
}

/// A request as proto3 JSON.
fn shown(request: &RequestResources) -> Value {
    let mut shown = Map::new();
    let mut put = |name: &str, value: Value| drop(shown.insert(name.to_owned(), value));
    if let Some(node) = &request.sink_node {
        let mut shown = json!({"id": node.id});
        if !node.annotations.is_empty() {
            shown["annotations"] = json!(node.annotations);
        }
        put("sinkNode", shown);
    }
    for (name, text) in [("collection", &request.collection), ("responseNonce", &request.response_nonce)] {
        if !text.is_empty() {
            put(name, json!(text));
        }
    }
    if !request.initial_resource_versions.is_empty() {
        put("initialResourceVersions", json!(request.initial_resource_versions));
    }
    if let Some(error) = &request.error_detail {
        put("errorDetail", json!({"code": error.code, "message": error.message}));
    }
    if request.incremental {
        put("incremental", json!(true));
    }
    Value::Object(shown)
}

/// A message of a source from proto3 JSON.
fn message(written: &Value) -> Result<Resources, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resources = written["resources"].as_array().into_iter().flatten().map(|resource| {
        let metadata = Metadata {
            name: text(&resource["metadata"]["name"]),
            version: text(&resource["metadata"]["version"]),
            ..Metadata::default()
        };
        Ok(Resource { metadata: Some(metadata), body: Some(body(&resource["body"])?) })
    });
    Ok(Resources {
        system_version_info: text(&written["systemVersionInfo"]),
        collection: text(&written["collection"]),
        nonce: text(&written["nonce"]),
        resources: resources.collect::<Result<_, String>>()?,
        ..Resources::default()
    })
}

/// A body from proto3 JSON.
fn body(written: &Value) -> Result<Any, String> {
    let type_url = written["@type"].as_str().unwrap_or_default();
    let kind = type_url.strip_prefix(mixer_schema::TYPE_URL_PREFIX).and_then(mixer_schema::by_message);
    let kind = kind.ok_or_else(|| format!("no kind has bodies of type {type_url}"))?;
    let mut spec = written.clone();
    if let Some(members) = spec.as_object_mut() {
        members.remove("@type");
    }
    let parsed = mixer_config::yaml::parse(&spec.to_string()).map_err(|error| error.to_string())?;
    let encoded = mixer_schema::encode(kind, &parsed.root).map_err(|problems| format!("{problems:?}"))?;
    Ok(Any { type_url: encoded.type_url, value: encoded.body })
}
