//! Galley: what sinks see of a directory, of its changes, and of the protocol. The binary serves, the test is the sink.

#[path = "galley/compare.rs"]
pub(crate) mod compare;
#[path = "galley/serving.rs"]
mod serving;
#[path = "galley/sink.rs"]
mod sink;
#[path = "galley/transcript.rs"]
mod transcript;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use mixer_mcp::message::google::protobuf::Any;
use serde_json::Value;

use super::case::{Case, in_parallel, jobs, selected};
use compare::{Like, SeenCollection};
use serving::Serving;
use sink::{Heard, Sink};
use transcript::{Acting, Action};

/// How long a sink waits for an answer that must come.
const ANSWER: Duration = Duration::from_secs(30);
/// How long nothing must come, where nothing is expected.
const SILENCE: Duration = Duration::from_secs(2);
/// How long the pushes of a step are collected.
const WINDOW: Duration = Duration::from_millis(1700);

/// A case and the processor of Galley that it is run as.
struct Work<'d> {
    directory: &'d Path,
    name: String,
    about: Value,
    processor: String,
}

/// Runs the cases that are about a serving Galley.
pub(crate) fn run(directory: &Path, filter: Option<&str>) -> Vec<Case> {
    let mut work = Vec::new();
    let mut failed = Vec::new();
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .map(|entries| {
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        })
        .unwrap_or_default();
    names.sort();
    for name in names.into_iter().filter(|name| selected(name, filter) && directory.join(name).is_dir()) {
        let about = match read(&directory.join(&name).join("case.json")) {
            Ok(about) => about,
            Err(why) => {
                failed.push(Case::new(name, Err(why)));
                continue;
            }
        };
        let kind = about["kind"].as_str().unwrap_or_default();
        if !["snapshot", "reload", "protocol"].contains(&kind) {
            continue;
        }
        for processor in about["processors"].as_array().into_iter().flatten() {
            work.push(Work {
                directory,
                name: name.clone(),
                about: about.clone(),
                processor: processor.to_string(),
            });
        }
    }
    failed
        .into_iter()
        .chain(in_parallel(jobs(), work, |work| {
            let id = format!("{}/{}", work.name, work.processor);
            Case::new(id, work.run())
        }))
        .collect()
}

fn read(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

impl Work<'_> {
    fn run(&self) -> Result<(), String> {
        let case = self.directory.join(&self.name);
        let expected = read(&case.join("expected.json"))?;
        let mut serving = Serving::start(&case, &self.about, &self.processor)?;
        let ran = match self.about["kind"].as_str() {
            Some("snapshot") => self.snapshot(&expected, &serving),
            Some("reload") => self.reload(&case, &expected, &serving),
            _ => protocol(&case, &expected, &serving),
        };
        ran.map_err(|why| format!("{why}{}", serving.log()))
    }

    fn snapshot(&self, expected: &Value, serving: &Serving) -> Result<(), String> {
        let (expected, like) =
            compare::processor(expected, &self.processor).ok_or("nothing is expected of this processor")?;
        let none = serde_json::Map::new();
        let all = expected["collections"].as_object().unwrap_or(&none);
        let is_answered =
            |expected: &Value| expected.get("refused").is_none() && expected.get("unanswered").is_none();
        let empty: Vec<&str> = strings(&expected["emptyCollections"]);
        let answered =
            all.iter().filter(|(_, expected)| is_answered(expected)).map(|(name, _)| name.as_str());
        let wanted: Vec<&str> = answered.chain(empty.iter().copied()).collect();
        let sink = Sink::connect(serving.port())?;
        let found = first_answers(&sink, &wanted)?;
        for (name, expected) in all {
            let is_other_mesh = like == Like::Other && name == "istio/mesh/v1alpha1/MeshConfig";
            if let Some(refused) = expected.get("refused") {
                let sink = Sink::connect(serving.port())?;
                sink.request(name);
                is_refused(&sink, refused).map_err(|why| format!("{name}: {why}"))?;
            } else if expected.get("unanswered").is_some() {
                let sink = Sink::connect(serving.port())?;
                sink.request(name);
                if let Some(heard) = sink.hear(SILENCE) {
                    return Err(format!("{name}: expected no answer, found {heard:?}"));
                }
            } else if !is_other_mesh {
                let found = found.get(name).ok_or("no answer")?;
                compare::collection(expected, found, like).map_err(|why| format!("{name}: {why}"))?;
            }
        }
        for name in empty {
            let found = found.get(name).ok_or("no answer")?;
            if !found.resources.is_empty()
                || (self.processor == "1" && like == Like::Own && found.version != "0")
            {
                return Err(format!("{name}: not empty, or not version 0: {found:?}"));
            }
        }
        Ok(())
    }

    fn reload(&self, case: &Path, expected: &Value, serving: &Serving) -> Result<(), String> {
        let (expected, like) =
            compare::processor(expected, &self.processor).ok_or("nothing is expected of this processor")?;
        let collections = strings(&self.about["collections"]);
        let sink = Sink::connect(serving.port())?;
        let found = first_answers(&sink, &collections)?;
        for name in &collections {
            let found = found.get(*name).ok_or("no answer")?;
            compare::collection(expected["initial"].get(name).unwrap_or(&Value::Null), found, like)
                .map_err(|why| format!("{name}: {why}"))?;
        }
        let steps = self.about["steps"].as_array().into_iter().flatten();
        for (step, expected) in steps.zip(expected["steps"].as_array().into_iter().flatten()) {
            let what = step["about"].as_str().unwrap_or_default();
            serving.replace(&case.join(step["directory"].as_str().unwrap_or_default()))?;
            pushes(&sink, &expected["pushes"], like).map_err(|why| format!("{what}: {why}"))?;
        }
        Ok(())
    }
}

/// Plays the transcript of a case.
fn protocol(case: &Path, expected: &Value, serving: &Serving) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let steps = expected["transcript"].as_array().ok_or("no transcript")?;
    let mut act = |action| -> Acting {
        let acted = match action {
            Action::Replace(step) => serving.replace(&case.join(step)),
            other => Err(format!("{other:?}: only a source in the process can do that")),
        };
        Box::pin(std::future::ready(acted))
    };
    let bodies = |expected: &Value, found: &Any| {
        let found =
            mixer_schema::to_json(&found.type_url, &found.value).map_err(|error| error.to_string())?;
        compare::body(expected, &found)
    };
    let address = SocketAddr::from(([127, 0, 0, 1], serving.port()));
    runtime.block_on(transcript::play(address, steps, &bodies, &mut act))
}

/// The stream of a request ends with this status.
fn is_refused(sink: &Sink, expected: &Value) -> Result<(), String> {
    let Some(Heard::Closed(Some(status))) = sink.hear(ANSWER) else {
        return Err("the stream does not end with a status".to_owned());
    };
    let code = crate::support::rpc::camel_code(status.code());
    if expected["code"] == *code.as_str() && expected["message"] == *status.message() {
        return Ok(());
    }
    Err(format!("expected the end {expected}, found {code}: {}", status.message()))
}

/// Collects the pushes of a step: those that are expected, and no others, each once but for service entries.
fn pushes(sink: &Sink, expected: &Value, like: Like) -> Result<(), String> {
    let none = serde_json::Map::new();
    let expected = expected.as_object().unwrap_or(&none);
    let (started, mut last) = (Instant::now(), BTreeMap::<String, SeenCollection>::new());
    loop {
        let is_complete = expected.iter().all(|(name, expected)| {
            last.get(name).is_some_and(|found| compare::collection(expected, found, like).is_ok())
        });
        // A machine that is busy may take longer than Galley waits; what comes on top comes soon.
        let wait = match is_complete {
            true => WINDOW.saturating_sub(started.elapsed()),
            false => ANSWER.saturating_sub(started.elapsed()),
        };
        let Some(heard) = sink.hear(wait) else { break };
        let (name, found) = answered(sink, heard)?;
        let is_several = name.contains("/synthetic/");
        if last.insert(name.clone(), found).is_some() && !is_several {
            return Err(format!("{name}: pushed twice"));
        }
    }
    if let Some(name) = last.keys().find(|name| !expected.contains_key(*name)) {
        return Err(format!("{name}: pushed although it did not change"));
    }
    for (name, expected) in expected {
        let found = last.get(name).ok_or_else(|| format!("{name}: not pushed"))?;
        compare::collection(expected, found, like).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

/// A message, which is acknowledged.
fn answered(sink: &Sink, heard: Heard) -> Result<(String, SeenCollection), String> {
    match heard {
        Heard::Message(message) => {
            sink.acknowledge(&message);
            Ok((message.collection.clone(), sink::seen(&message)?))
        }
        Heard::Closed(status) => Err(format!("the stream ended: {status:?}")),
    }
}

/// Asks for collections; all of them are answered.
fn first_answers(sink: &Sink, collections: &[&str]) -> Result<BTreeMap<String, SeenCollection>, String> {
    collections.iter().for_each(|name| sink.request(name));
    let mut found = BTreeMap::new();
    while found.len() < collections.len() {
        let missing =
            || collections.iter().find(|name| !found.contains_key(**name)).copied().unwrap_or_default();
        let heard = sink.hear(ANSWER).ok_or_else(|| format!("{}: no answer", missing()))?;
        let (name, seen) = answered(sink, heard)?;
        found.insert(name, seen);
    }
    Ok(found)
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}
