//! The `adapters-remote` suite: adapters that send over the network, through the binary; its README.md states the schema.
//!
//! Each case has a server and sinks of its own. Where a case has a `recommended_deviation`, [`deviation`] is what is expected.

#[cfg(test)]
#[path = "adapters_remote/clouds.rs"]
mod clouds;
#[path = "adapters_remote/compare.rs"]
mod compare;
#[cfg(test)]
#[path = "adapters_remote/processes.rs"]
mod processes;
#[path = "adapters_remote/quotas.rs"]
mod quotas;
#[path = "adapters_remote/sinks.rs"]
mod sinks;
#[path = "adapters_remote/vendors.rs"]
mod vendors;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::case::{Case, in_parallel, jobs, selected};
use crate::support::bag::{self, Attributes, Words};
use crate::support::rpc::{self, Client, mixer};
use crate::support::{DEADLINE, Server, programs, wait_for};
use sinks::Sink;

/// What this product does instead of what the case recorded from Istio Mixer, as the sinks' expectations.
fn deviation(id: &str) -> Option<Value> {
    let hits = json!([{ "head": "istio.hits:1|c", "tags": [] }]);
    match id {
        "dogstatsd/default-sample-rate" => Some(json!({ "sink": { "datagrams": vec![hits; 5] } })),
        // The handler is there, and connects later.
        "fluentd/server-absent-at-start" => Some(json!({})),
        "fluentd/string-map-unsupported" => {
            let record = json!({ "mm": { "a": "1" }, "severity": "info" });
            let message = json!(["l.instance.istio-system", 1_546_300_800, record, null]);
            Some(json!({ "sink": { "connections": [[message]] } }))
        }
        "solarwinds/papertrail-default-template" => Some(json!({ "papertrail": { "datagrams": [
            vendors::syslog("0.0.0.0 - - [$now] \"- - -\" - -"),
            vendors::syslog("10.0.0.1 - bob & \"al\" [$now] \"- /a?x=<1> -\" 200 -"),
        ] } })),
        "solarwinds/papertrail-newline" => {
            Some(json!({ "papertrail": { "datagrams": [vendors::syslog("one\\ntwo end")] } }))
        }
        // It goes on.
        "signalfx/metrics-stop-after-failed-post" => Some(json!({ "ingest": { "least_requests": 3 } })),
        "signalfx/only-first-span-of-a-report" => Some(vendors::all_spans()),
        "zipkin/negative-duration-blocks-export" => {
            let annotation = |timestamp: u64, value: &str| json!({ "timestamp": timestamp, "value": value });
            let span = json!({ "timestamp": 1_551_434_400_000_000_u64, "duration": 1_234_568,
                "traceId": "463ac35c9f6413ad48485a3953bb6124", "id": "00000000000000cc", "name": "/", "kind": "SERVER",
                "localEndpoint": { "serviceName": "default", "ipv4": "0.0.0.0" },
                "annotations": [annotation(1_551_434_400_000_000, "Received 0 bytes"), annotation(1_551_434_401_234_568, "Sent 0 bytes")] });
            let request = json!({ "method": "POST", "path": "/api/v2/spans", "headers": { "content-type": "application/json" }, "json": [span] });
            Some(json!({ "zipkin": { "requests": [request] } }))
        }
        _ => None,
    }
}

/// Runs the cases in `dir` whose id contains the filter.
pub(crate) fn run(dir: &Path, filter: Option<&str>) -> Vec<Case> {
    let paths = match cases(dir) {
        Ok(paths) => paths,
        Err(error) => return vec![Case::new("cases", Err(error))],
    };
    let waiting: Vec<(String, String, PathBuf)> = paths
        .into_iter()
        .filter_map(|path| {
            let adapter = path.parent()?.file_name()?.to_str()?.to_owned();
            let name = path.file_name()?.to_str()?.strip_suffix(".case.json")?.to_owned();
            Some((adapter.clone(), format!("{adapter}/{name}"), path))
        })
        .filter(|(_, id, _)| selected(id, filter))
        .collect();
    in_parallel(jobs(), waiting, |(adapter, id, path)| match adapter.as_str() {
        of_clouds if clouds::ADAPTERS.contains(&of_clouds) => Case::new(&id, clouds::play(&id, &path)),
        of_processes if processes::ADAPTERS.contains(&of_processes) => {
            Case::new(&id, processes::play(&id, &path))
        }
        "redisquota" => Case::new(&id, quotas::play(&path)),
        _ => Case::new(&id, play(&id, &path)),
    })
}

fn cases(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let list = |path: &Path| -> Result<Vec<PathBuf>, String> {
        let entries = std::fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
    };
    let mut found = Vec::new();
    for adapter in list(dir)?.into_iter().filter(|path| path.is_dir()) {
        found.extend(
            list(&adapter)?.into_iter().filter(|path| path.to_string_lossy().ends_with(".case.json")),
        );
    }
    found.sort();
    Ok(found)
}

/// How much longer a pause may take until a report arrives, of which some do not. The client answers no pings meanwhile.
const PAUSE: Duration = Duration::from_secs(20);

fn play(id: &str, path: &Path) -> Result<(), String> {
    let read =
        |path: &Path| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let case: Value = serde_json::from_str(&read(path)?).map_err(|error| error.to_string())?;
    let recorded = || case.get("expect").cloned().unwrap_or_default();
    let expect = match (case.get("recommended_deviation"), deviation(id)) {
        _ if programs().foreign_server => recorded(),
        (Some(_), Some(deviation)) => deviation,
        (None, None) => recorded(),
        (Some(_), None) => return Err("the case has a deviation, which is not stated here".to_owned()),
        (None, Some(_)) => return Err("the case has no deviation".to_owned()),
    };
    let mut sinks = BTreeMap::new();
    for (name, settings) in case.get("sinks").and_then(Value::as_object).into_iter().flatten() {
        sinks.insert(name.clone(), Sink::open(settings, vendors::answers(id, settings))?);
    }
    let config = case.get("config").and_then(Value::as_str).ok_or("no configuration is named")?;
    let mut text = read(&path.with_file_name(config))?;
    for (name, sink) in &sinks {
        text = text.replace(&format!("@@{name}@@"), &format!("127.0.0.1:{}", sink.port));
        text = text.replace(&format!("@@{name}.port@@"), &sink.port.to_string());
    }
    let directory = tempfile::Builder::new().prefix("mixer-remote").tempdir().map_err(|e| e.to_string())?;
    let files = tempfile::tempdir().map_err(|e| e.to_string())?;
    if !programs().foreign_server {
        text = vendors::redirected(text, &sinks, files.path())?;
    }
    std::fs::write(directory.path().join("config.yaml"), text).map_err(|e| e.to_string())?;
    let server = Server::on(directory.path()).try_start()?;
    let mut client = Client::new(&server.address())?;
    // What each sink had received when the last report was sent.
    let mut before: BTreeMap<String, usize> = BTreeMap::new();
    for (index, step) in case.get("steps").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let failed = |difference: String| format!("step {}: {difference}", index + 1);
        match step.get("op").and_then(Value::as_str) {
            Some("report") => {
                before = sinks.iter().map(|(name, sink)| (name.clone(), sink.received())).collect();
                report(&mut client, step).map_err(failed)?;
            }
            Some("sleep") => {
                let millis = step.get("ms").and_then(Value::as_u64).unwrap_or(0);
                // The step itself: datagrams of reports with time between them are apart.
                std::thread::sleep(Duration::from_millis(millis));
                for (name, sink) in &sinks {
                    let all = compare::expected(&expect, name);
                    let least = before.get(name).map_or(0, |before| before + 1).min(all);
                    wait_for(PAUSE, || (sink.received() >= least).then_some(()));
                }
            }
            Some("start_sink") => {
                let name = step.get("sink").and_then(Value::as_str).unwrap_or_default();
                sinks.get(name).ok_or_else(|| failed(format!("no sink {name:?}")))?.listen()?;
            }
            other => return Err(failed(format!("unknown operation {other:?}"))),
        }
    }
    if let Some(text) = expect.get("config_error_text").and_then(Value::as_str) {
        compare::configuration_error(&server, text)?;
    } else if server.log().contains("Unable to initialize adapter") {
        return Err(format!("a handler is absent: {}", server.log()));
    }
    for (name, sink) in &sinks {
        let all = compare::expected(&expect, name);
        wait_for(DEADLINE, || (sink.received() >= all).then_some(()));
        if let Some(expected) = expect.get(name) {
            compare::received(sink, expected).map_err(|difference| format!("{name}: {difference}"))?;
        }
    }
    Ok(())
}

/// Sends a report, and compares its result.
fn report(client: &mut Client, step: &Value) -> Result<(), String> {
    let mut request = mixer::ReportRequest {
        // Each message has all of its attributes.
        repeated_attributes_semantics: 1,
        global_word_count: 222,
        ..Default::default()
    };
    for message in step.get("attributes").and_then(Value::as_array).into_iter().flatten() {
        request.attributes.push(bag::encode_alone(&attributes(message)?, Words::of_message()));
    }
    let result = client.report(&request, None);
    let expected = step.get("expect_error");
    match (result, expected) {
        (Ok(()), None) => Ok(()),
        (Ok(()), Some(expected)) => Err(format!("got OK, want {expected}")),
        (Err(status), None) => Err(format!("got {status}, want OK")),
        (Err(status), Some(expected)) => {
            let text = |key: &str| expected.get(key).and_then(Value::as_str).unwrap_or_default();
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let (code, message) = (rpc::upper_code(status.code()), status.message());
            if code == text("code") && words(message) == words(text("message")) {
                return Ok(());
            }
            Err(format!("got {code} {message:?}, want {expected}"))
        }
    }
}

/// Attributes of a step: `{NAME: {TYPE: VALUE}}`.
fn attributes(message: &Value) -> Result<Attributes, String> {
    let mut attributes = Attributes::new();
    for (name, typed) in message.as_object().into_iter().flatten() {
        let bad = || format!("attribute {name}: bad value {typed}");
        let (kind, value) = typed.as_object().and_then(|typed| typed.iter().next()).ok_or_else(bad)?;
        let kind = if kind == "bytes_hex" { "bytes" } else { kind.as_str() };
        let value = serde_yaml::to_value(value).map_err(|error| error.to_string())?;
        attributes.insert(name.clone(), bag::typed(kind, &value).ok_or_else(bad)?);
    }
    Ok(attributes)
}
