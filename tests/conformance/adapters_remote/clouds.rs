//! The cases of the adapters for cloud services, with stand-ins that verify and decode what they are sent.
//!
//! A stand-in is the proxy of the server under test, so that requests go to the names and with the certificates that they go to in production.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::{attributes, compare, report};
use crate::support::bag::{self, Words};
use crate::support::cloud::Cloud;
use crate::support::rpc::{Client, mixer};
use crate::support::{Server, free_port, programs};

/// The adapters whose cases have a stand-in.
pub(super) const ADAPTERS: &[&str] = &["cloudwatch", "servicecontrol", "stackdriver"];
/// By how much the seconds of an answer may differ.
const TOLERANCE: f64 = 0.3;

/// What this product does instead of what the case recorded from Istio Mixer, as changes of the recorded requests and steps.
fn deviate(id: &str, requests: &mut Vec<Value>, steps: &mut [Value]) -> Result<bool, String> {
    match id {
        // The last value of a gauge.
        "stackdriver/time-series" => {
            requests[0]["request"]["time_series"][3]["points"][0]["value"]["int64_value"] = json!("5000");
            Ok(true)
        }
        // An id of each entry, and no entry that costs others; Istio Mixer has neither.
        "stackdriver/log-entries" => {
            for request in requests.iter_mut() {
                request["request"]["partial_success"] = json!(true);
                for entry in request["request"]["entries"].as_array_mut().into_iter().flatten() {
                    entry["insert_id"] = json!("$uuid");
                }
            }
            Ok(false)
        }
        "stackdriver/double-value-panics" => {
            steps[0] = json!({ "op": "report", "attributes": [{}], "expect": "OK" });
            requests.push(json!({
                "method": "/google.monitoring.v3.MetricService/CreateTimeSeries",
                "metadata": { "authorization": "Bearer GT" },
                "request": { "name": "projects/lab-proj", "time_series": [{
                    "metric": { "type": "custom.googleapis.com/c.instance.istio-system" },
                    "resource": { "type": "global", "labels": { "project_id": "gce-proj" } },
                    "metric_kind": "DELTA", "value_type": "DOUBLE",
                    "points": [{ "interval": { "start_time": "$now", "end_time": "$now" },
                        "value": { "double_value": 1.5 } }],
                }]},
            }));
            Ok(true)
        }
        "cloudwatch/put-metric-data" => {
            requests[0]["form"]["MetricData"][2]["Unit"] = json!("Bytes/Second");
            Ok(true)
        }
        // Entries in order of time, those of one day in a request, and no HTML.
        "cloudwatch/put-log-events" => {
            let second = requests.last().cloned().ok_or("no request")?;
            let [mut earlier, mut later] = [second.clone(), second];
            let events = earlier["json"]["logEvents"].clone();
            earlier["json"]["logEvents"] = json!([events[1]]);
            later["json"]["logEvents"] = json!([events[0]]);
            let message = "10.0.0.1 - - [2019-05-06T07:08:09Z] \"- /a<b> -\" 200 -";
            later["json"]["logEvents"][0]["message"] = json!(message);
            later["json"]["sequenceToken"] = json!("tok8");
            requests.truncate(1);
            requests.extend([earlier, later]);
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// A stand-in, and what the server needs to reach it.
struct Stage {
    cloud: Cloud,
    environment: Vec<(String, String)>,
    /// Placeholders of the configuration.
    replaced: Vec<(&'static str, String)>,
}

fn stage(case: &Value) -> Result<Stage, String> {
    let of_case = |name: &str| case["env"][name].as_str().unwrap_or_default().to_owned();
    let grpc = free_port();
    let cloud = match case["adapter"].as_str() {
        Some("cloudwatch") => {
            Cloud::start("aws", &[&of_case("AWS_ACCESS_KEY_ID"), &of_case("AWS_SECRET_ACCESS_KEY")])?
        }
        _ => Cloud::start("gcp", &[&format!("grpc={grpc}")])?,
    };
    let here = format!("127.0.0.1:{}", cloud.port);
    let replaced = vec![
        ("@@file:sa.json@@", cloud.file("sa.json")),
        ("@@gcp@@", format!("127.0.0.1:{grpc}")),
        ("@@metadata@@", here.clone()),
        // The case waits for 30 seconds.
        ("pushInterval: 1s", "pushInterval: 1s\n    graphInterval: 500ms".to_owned()),
    ];
    let replace =
        |text: &str| replaced.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    let mut environment: Vec<(String, String)> = case["env"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), replace(value.as_str().unwrap_or_default())))
        .collect();
    environment.push(("AWS_CA_BUNDLE".to_owned(), cloud.file("ca.crt")));
    environment.push(("SSL_CERT_FILE".to_owned(), cloud.file("ca.crt")));
    environment.push(("HTTPS_PROXY".to_owned(), format!("http://{here}")));
    environment.push(("NO_PROXY".to_owned(), "127.0.0.1".to_owned()));
    Ok(Stage { cloud, environment, replaced })
}

/// Plays a case.
pub(super) fn play(id: &str, path: &Path) -> Result<(), String> {
    let read =
        |path: &Path| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let case: Value = serde_json::from_str(&read(path)?).map_err(|error| error.to_string())?;
    let Stage { cloud, environment, replaced } = stage(&case)?;
    let config = case["config"].as_str().ok_or("no configuration is named")?;
    let config = read(&path.with_file_name(config))?;
    let config = replaced.iter().fold(config, |text, (from, to)| text.replace(from, to));
    let directory = tempfile::Builder::new().prefix("mixer-remote").tempdir().map_err(|e| e.to_string())?;
    std::fs::write(directory.path().join("config.yaml"), config).map_err(|e| e.to_string())?;
    let mut builder = Server::on(directory.path());
    for (name, value) in &environment {
        builder = builder.env(name, value);
    }
    let mut expected: Vec<Value> = case["expect"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(_, sink)| sink["requests"].as_array().or(sink["calls"].as_array()))
        .flatten()
        .cloned()
        .collect();
    let mut steps = case["steps"].as_array().cloned().unwrap_or_default();
    let deviates = deviate(id, &mut expected, &mut steps)?;
    if deviates != case.get("recommended_deviation").is_some() && !programs().foreign_server {
        return Err("the deviation of the case is not stated here".to_owned());
    }
    let server = builder.try_start()?;
    let mut client = Client::new(&server.address())?;
    for (index, step) in steps.iter().enumerate() {
        let failed = |difference: String| format!("step {}: {difference}", index + 1);
        match step["op"].as_str() {
            Some("report") => report(&mut client, step).map_err(failed)?,
            Some("check") => check(&mut client, step).map_err(failed)?,
            // What is expected is waited for.
            Some("sleep") => {}
            other => return Err(failed(format!("unknown operation {other:?}"))),
        }
    }
    if let Some(text) = case["expect"]["config_error_text"].as_str() {
        return compare::configuration_error(&server, text);
    }
    let mut received = cloud.taken(expected.len()).map_err(|error| format!("{error}\n{}", server.log()))?;
    if received.len() != expected.len() {
        return Err(format!("{} requests instead of {}: {received:?}", received.len(), expected.len()));
    }
    // Series have no order.
    for request in expected.iter_mut().chain(&mut received) {
        if let Some(series) = request["request"]["time_series"].as_array_mut() {
            series.sort_by_key(|of| {
                (of["metric"]["type"].to_string(), of["metric"]["labels"]["svc"].to_string())
            });
        }
    }
    for (number, (found, expected)) in received.iter().zip(&expected).enumerate() {
        matches(found, expected).map_err(|difference| format!("request {}: {difference}", number + 1))?;
    }
    Ok(())
}

/// Sends a check, and compares its answer.
pub(super) fn check(client: &mut Client, step: &Value) -> Result<(), String> {
    let mut request = mixer::CheckRequest {
        attributes: Some(bag::encode_alone(&attributes(&step["attributes"])?, Words::of_message())),
        global_word_count: 222,
        deduplication_id: step["dedup_id"].as_str().unwrap_or_default().to_owned(),
        ..Default::default()
    };
    for (name, quota) in step["quotas"].as_object().into_iter().flatten() {
        let amount = quota["amount"].as_i64().ok_or("no amount")?;
        let best_effort = quota["best_effort"].as_bool().unwrap_or(false);
        request.quotas.insert(name.clone(), mixer::check_request::QuotaParams { amount, best_effort });
    }
    let answer = client.check(&request, None).map_err(|status| status.to_string())?;
    let expect = &step["expect"];
    let precondition = answer.precondition.clone().unwrap_or_default();
    let status = precondition.status.clone().unwrap_or_default();
    let found = json!({ "status": { "code": status.code, "message": status.message },
        "valid_use_count": precondition.valid_use_count });
    for part in ["status", "valid_use_count"] {
        matches(&found[part], &expect[part]).map_err(|difference| format!("{part}: {difference}"))?;
    }
    let seconds = bag::nanos_of(precondition.valid_duration.as_ref()) as f64 / 1e9;
    let wanted = expect["valid_duration"].as_str().unwrap_or_default();
    let (most, is_bound) = match wanted.strip_prefix("$at_most:") {
        Some(most) => (most, true),
        None => (wanted, false),
    };
    let most: f64 = most.trim_end_matches('s').parse().map_err(|_| format!("no duration: {wanted}"))?;
    if seconds > most + TOLERANCE || !is_bound && seconds < most - TOLERANCE {
        return Err(format!("valid for {seconds} s instead of {wanted}"));
    }
    for (name, wanted) in expect["quotas"].as_object().into_iter().flatten() {
        let found = answer.quotas.get(name).ok_or_else(|| format!("no answer for {name}"))?;
        let seconds = bag::nanos_of(found.valid_duration.as_ref()) as f64 / 1e9;
        let is_late = (seconds - wanted["valid_duration_s"].as_f64().unwrap_or(0.0)).abs() > TOLERANCE;
        if wanted["granted_amount"].as_i64() != Some(found.granted_amount) || is_late {
            return Err(format!("{name}: {found:?} instead of {wanted}"));
        }
    }
    Ok(())
}

/// Whether a value is as expected: of headers, those that are expected; texts with `$` of the kind that they name.
pub(super) fn matches(found: &Value, expected: &Value) -> Result<(), String> {
    match expected {
        Value::Object(members) => {
            let found_members: BTreeMap<&String, &Value> = found.as_object().into_iter().flatten().collect();
            for (name, expected) in members {
                let value = found_members.get(name).copied().unwrap_or(&Value::Null);
                matches(value, expected).map_err(|difference| format!("{name}: {difference}"))?;
            }
            // What is not compared at all: other headers, and what the stand-in adds.
            let partial = ["headers", "metadata", "content-type", "authorization"];
            let is_whole = partial.iter().all(|name| !members.contains_key(*name));
            match found_members.keys().find(|name| is_whole && !members.contains_key(**name)) {
                Some(more) => Err(format!("`{more}` is not expected: {found}")),
                None => Ok(()),
            }
        }
        Value::Array(all) => {
            let found = found.as_array().ok_or_else(|| format!("{found} is no list"))?;
            if found.len() != all.len() {
                return Err(format!("{found:?} instead of {all:?}"));
            }
            for (number, (found, expected)) in found.iter().zip(all).enumerate() {
                matches(found, expected).map_err(|difference| format!("{number}: {difference}"))?;
            }
            Ok(())
        }
        Value::String(text) if text == "$agent" && found.is_object() => Ok(()),
        Value::String(text) if text.contains('$') => {
            let found = found.as_str().unwrap_or_default();
            if is_like(found, text) { Ok(()) } else { Err(format!("{found:?} instead of {text:?}")) }
        }
        Value::Number(number) if found.as_f64() == number.as_f64() => Ok(()),
        expected if found == expected => Ok(()),
        expected => Err(format!("{found} instead of {expected}")),
    }
}

/// Whether a text is like another one, in which words stand for texts of a kind.
fn is_like(found: &str, expected: &str) -> bool {
    let mut rest = found;
    let mut pattern = expected;
    while let Some((before, after)) = pattern.split_once('$') {
        let Some(next) = rest.strip_prefix(before) else { return false };
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        let (kind, later) = after.split_at(end);
        let length = match kind {
            "yyyymmdd" => next.find(|c: char| !c.is_ascii_digit()).unwrap_or(next.len()),
            "sigv4" => next.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(next.len()),
            // Up to the end.
            _ => next.len(),
        };
        let value = next.get(..length).unwrap_or_default();
        let holds = match kind {
            "yyyymmdd" => value.len() == 8,
            "sigv4" => value.len() == 64,
            "uuid" => {
                let digits = value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
                value.len() == 36 && digits
            }
            "now" | "now_rfc3339_seconds" => value.starts_with("20") && value.ends_with('Z'),
            _ => !value.is_empty(),
        };
        if !holds {
            return false;
        }
        (rest, pattern) = (next.get(length..).unwrap_or_default(), later);
    }
    rest == pattern
}
