//! The cases of adapters out of process and of the session of `bypass`, with an adapter in Python that reads and answers by descriptors.

use std::path::Path;

use prost::Message as _;
use serde_json::{Value, json};

use super::{attributes, clouds, compare, report};
use crate::support::bag::{self, Words};
use crate::support::cloud::Cloud;
use crate::support::rpc::{self, Client, mixer};
use crate::support::{Server, free_port, programs, put};
use mixer_wire::istio::mixer::adapter::model::v1beta1 as model;

/// The folders of these cases.
pub(super) const ADAPTERS: &[&str] = &["bypass", "oop"];

/// What the adapter answers, by method.
fn script(id: &str, case: &Value) -> Value {
    let check = json!({ "response": { "valid_duration": "10s", "valid_use_count": 7 } });
    let mut script = json!({
        "/listentry.HandleListEntryService/HandleListEntry": check,
        "/checknothing.HandleCheckNothingService/HandleCheckNothing": check,
        "/authorization.HandleAuthorizationService/HandleAuthorization": check,
    });
    let list = "/listentry.HandleListEntryService/HandleListEntry";
    match id {
        "oop/check-denied" => {
            script[list]["response"]["status"] = json!({ "code": 7, "message": "nope" });
        }
        "oop/check-rpc-error" => {
            script[list] = json!({ "error": { "code": "UNAVAILABLE", "message": "boom" } });
        }
        "oop/quota-ok" => {
            script["/quota.HandleQuotaService/HandleQuota"] = json!({ "response": { "quotas": {
                "q.instance.istio-system": { "granted_amount": 2, "valid_duration": "5s" } } } });
        }
        "bypass/session" => {
            let session = model::CreateSessionResponse { session_id: "sess-1".to_owned(), status: None };
            let path = "/istio.mixer.adapter.model.v1beta1.InfrastructureBackend/CreateSession";
            script[path] = json!({ "hex": hex_of(&session.encode_to_vec()) });
            script["/checknothing.HandleCheckNothingService/HandleCheckNothing"] =
                json!({ "response": { "valid_duration": "9s", "valid_use_count": 3 } });
            script["/quota.HandleQuotaService/HandleQuota"] = json!({ "response": { "quotas": {
                "q.instance.istio-system": { "granted_amount": 2, "valid_duration": "4s" } } } });
        }
        _ => {}
    }
    for (name, hex) in case["sinks"]["adapter"]["adapter_response_hex"].as_object().into_iter().flatten() {
        let package = name.trim_start_matches("Handle").to_lowercase();
        script[format!("/{package}.{name}Service/{name}")] = json!({ "hex": hex });
    }
    script
}

/// What this product does instead of what the case recorded from Istio Mixer, as changes of the recorded calls and steps. Returns whether there
/// is a deviation.
fn deviate(id: &str, calls: &mut Vec<Value>, steps: &mut [Value]) -> bool {
    match id {
        // Times are decoded, and numbers with a sign have theirs.
        "oop/attribute-generator" => {
            let values = &mut calls[1]["request"]["instances"][0]["mv"];
            values["g_sf32"] = json!({ "int64_value": "-6" });
            for name in ["g_ts", "g_gt"] {
                values[name] = json!({ "timestamp_value": { "value": "2019-01-02T03:04:05Z" } });
            }
            true
        }
        // A Boolean that is not sent is false.
        "oop/attribute-generator-absent-output" => {
            steps[0] = json!({ "op": "report", "attributes": [{}], "expect": "OK" });
            steps[1] = json!({ "op": "check", "attributes": {}, "expect": {
                "status": { "code": 0, "message": "" }, "valid_duration": "60s", "valid_use_count": 10000 } });
            calls.insert(1, json!({ "method": "/kvlab.HandleKvLabService/HandleKvLab", "metadata": {}, "request": {
                "instances": [{ "s": "x", "name": "k.instance.istio-system" }],
                "adapter_config": { "@type": "type.googleapis.com/labcfg.Params" }, "dedup_id": "$any_nonempty" } }));
            true
        }
        _ => false,
    }
}

/// Plays a case.
pub(super) fn play(id: &str, path: &Path) -> Result<(), String> {
    let read =
        |path: &Path| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let case: Value = serde_json::from_str(&read(path)?).map_err(|error| error.to_string())?;
    let text = |error: std::io::Error| error.to_string();
    let directory = tempfile::Builder::new().prefix("mixer-remote").tempdir().map_err(text)?;
    let scripts = tempfile::tempdir().map_err(text)?;
    let script_file = scripts.path().join("script.json");
    put(&script_file, &script(id, &case).to_string());
    let suite = path.ancestors().nth(2).ok_or("no suite")?;
    let descriptors = suite.join("descriptors");
    let security = match case["sinks"]["adapter"]["tls"].as_str() {
        None => "plain",
        Some(text) if text.contains("client certificate") => "mutual",
        Some(_) => "tls",
    };
    let token_port = free_port();
    let oauth = format!("oauth={token_port}");
    let (script_path, descriptors_path) =
        (script_file.display().to_string(), descriptors.display().to_string());
    let adapter = Cloud::start("process", &[&script_path, &descriptors_path, security, &oauth])?;
    let mut config = read(&path.with_file_name(case["config"].as_str().ok_or("no configuration is named")?))?;
    config = config.replace("@@adapter@@", &format!("127.0.0.1:{}", adapter.port));
    config = config.replace("@@oauth@@", &format!("127.0.0.1:{token_port}"));
    for name in ["ca.crt", "token", "oauth-secret", "mixer.key", "mixer.crt"] {
        config = config.replace(&format!("@@file:{name}@@"), &adapter.file(name));
    }
    for entry in std::fs::read_dir(&descriptors).map_err(text)? {
        let path = entry.map_err(text)?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        config = config.replace(&format!("@@descriptor:{name}@@"), read(&path)?.trim());
    }
    std::fs::write(directory.path().join("config.yaml"), config).map_err(text)?;
    let mut expected = case["expect"]["adapter"]["calls"].as_array().cloned().unwrap_or_default();
    let mut steps = case["steps"].as_array().cloned().unwrap_or_default();
    let deviates = !programs().foreign_server && deviate(id, &mut expected, &mut steps);
    if deviates != case.get("recommended_deviation").is_some() && !programs().foreign_server {
        return Err("the deviation of the case is not stated here".to_owned());
    }
    let builder = Server::on(directory.path());
    // compat(1.3): called as `mixs`, what is not sent is absent.
    let builder = if deviates { builder.native() } else { builder };
    let server = builder.try_start()?;
    let mut client = Client::new(&server.address())?;
    for (index, step) in steps.iter().enumerate() {
        let failed = |difference: String| format!("step {}: {difference}\n{}", index + 1, server.log());
        match step["op"].as_str() {
            Some("report") => report(&mut client, step).map_err(failed)?,
            Some("check") => check(&mut client, step).map_err(failed)?,
            other => return Err(failed(format!("unknown operation {other:?}"))),
        }
    }
    if let Some(text) = case["expect"]["config_error_text"].as_str() {
        configuration_errors(&server, text)?;
    }
    received(&adapter, &expected)?;
    tokens(&adapter, &case)
}

/// Compares the calls that the adapter received.
fn received(adapter: &Cloud, expected: &[Value]) -> Result<(), String> {
    let mut found = adapter.taken(expected.len())?;
    if found.len() != expected.len() {
        return Err(format!("{} calls instead of {}: {found:?}", found.len(), expected.len()));
    }
    // Calls of different methods may interleave.
    let mut expected = expected.to_vec();
    for calls in [&mut found, &mut expected] {
        calls.sort_by_key(|call| call["method"].to_string());
    }
    for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let (mut found, mut expected) = (found.clone(), expected.clone());
        if let Some(members) = expected.as_object_mut() {
            members.remove("captured_hex");
            members.entry("metadata").or_insert_with(|| json!({}));
        }
        if found["request"].is_null() {
            found["request"] = decoded(&found)?;
            in_key_order(&mut expected["request"])?;
        }
        // Other metadata, such as `user-agent`, is not compared.
        let metadata = expected["metadata"].clone();
        for (name, value) in metadata.as_object().into_iter().flatten() {
            if found["metadata"][name] != *value {
                return Err(format!(
                    "call {}: {name}: {} instead of {value}",
                    number + 1,
                    found["metadata"][name]
                ));
            }
        }
        expected["metadata"] = found["metadata"].clone();
        clouds::matches(&found, &expected)
            .map_err(|difference| format!("call {}: {difference}", number + 1))?;
    }
    Ok(())
}

/// The request of a session, which no template describes.
fn decoded(call: &Value) -> Result<Value, String> {
    let bytes = of_hex(call["hex"].as_str().unwrap_or_default())?;
    // The requests of both methods are alike.
    let request = model::CreateSessionRequest::decode(&*bytes).map_err(|error| error.to_string())?;
    let any = |any: &prost_types::Any| json!({ "type_url": any.type_url, "value_hex": hex_of(&any.value) });
    let types: serde_json::Map<String, Value> =
        request.inferred_types.iter().map(|(name, of)| (name.clone(), any(of))).collect();
    let mut decoded =
        json!({ "adapter_config": request.adapter_config.as_ref().map(any), "inferred_types": types });
    in_key_order(&mut decoded)?;
    Ok(decoded)
}

/// Puts the dimensions in inferred types of metrics into the order of their keys; that of a map is not defined.
fn in_key_order(request: &mut Value) -> Result<(), String> {
    for (_, any) in request["inferred_types"].as_object_mut().into_iter().flatten() {
        if any["type_url"] != "metric.Type" {
            continue;
        }
        let bytes = of_hex(any["value_hex"].as_str().unwrap_or_default())?;
        let metric = mixer_wire::metric::Type::decode(&*bytes).map_err(|error| error.to_string())?;
        any["value_hex"] = json!(hex_of(&metric.encode_to_vec()));
    }
    Ok(())
}

fn of_hex(hex: &str) -> Result<Vec<u8>, String> {
    let bytes = (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16));
    bytes.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Looks for the errors of a configuration in the log. Istio Mixer logs them as one list, this product one by one.
fn configuration_errors(server: &Server, text: &str) -> Result<(), String> {
    let bullets: Vec<&str> = text.lines().filter_map(|line| line.trim_start().strip_prefix("* ")).collect();
    if bullets.is_empty() {
        return compare::configuration_error(server, text);
    }
    bullets.into_iter().try_for_each(|bullet| compare::configuration_error(server, bullet))
}

/// Compares the requests for tokens.
fn tokens(adapter: &Cloud, case: &Value) -> Result<(), String> {
    let Some(expected) = case["expect"]["oauth"]["requests"].as_array() else { return Ok(()) };
    let all = adapter.requests()?;
    let found: Vec<&Value> = all.iter().filter(|request| request["outcome"] == "token").collect();
    if found.len() != expected.len() {
        return Err(format!("requests for tokens: {found:?} instead of {expected:?}"));
    }
    for (found, expected) in found.into_iter().zip(expected) {
        clouds::matches(found, expected).map_err(|difference| format!("token: {difference}"))?;
    }
    Ok(())
}

/// Sends a check, and compares its answer, its failure or its header operations.
fn check(client: &mut Client, step: &Value) -> Result<(), String> {
    let request = mixer::CheckRequest {
        attributes: Some(bag::encode_alone(&attributes(&step["attributes"])?, Words::of_message())),
        global_word_count: 222,
        ..Default::default()
    };
    if let Some(expected) = step.get("expect_error") {
        let Err(status) = client.check(&request, None) else {
            return Err(format!("OK instead of {expected}"));
        };
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let message = expected["message"].as_str().unwrap_or_default();
        let is_same = expected["code"].as_str() == Some(&rpc::upper_code(status.code()));
        return match is_same && words(status.message()) == words(message) {
            true => Ok(()),
            false => Err(format!("{status} instead of {expected}")),
        };
    }
    if let Some(expected) = step["expect"].get("route_directive") {
        let answer = client.check(&request, None).map_err(|status| status.to_string())?;
        let directive = answer.precondition.unwrap_or_default().route_directive.unwrap_or_default();
        let shown = |operations: &[mixer::HeaderOperation]| -> Vec<Value> {
            let of = |operation: &mixer::HeaderOperation| {
                let mut shown = json!({ "name": operation.name });
                if !operation.value.is_empty() {
                    shown["value"] = json!(operation.value);
                }
                match operation.operation {
                    1 => shown["operation"] = json!("REMOVE"),
                    2 => shown["operation"] = json!("APPEND"),
                    _ => {}
                }
                shown
            };
            operations.iter().map(of).collect()
        };
        let found = json!({ "request_header_operations": shown(&directive.request_header_operations),
            "response_header_operations": shown(&directive.response_header_operations) });
        return if found == *expected { Ok(()) } else { Err(format!("{found} instead of {expected}")) };
    }
    clouds::check(client, step)
}
