//! Cases of the `attributes` and `adapters` suites that need a server.

use std::collections::BTreeMap;
use std::path::Path;

use serde_yaml::Value;

use crate::case::{Case, json_lines, selected};
use crate::support::Server;
use crate::support::bag::{self, Attribute, Attributes, Words};
use crate::support::rpc::{self, Client, mixer};

/// Runs the `rpc` cases of the attribute suite in `dir` whose id contains the filter.
pub(crate) fn run_rpc(dir: &Path, filter: Option<&str>) -> Vec<Case> {
    let cases = match json_lines(&dir.join("cases.jsonl")) {
        Ok(cases) => cases,
        Err(error) => return vec![Case::new("rpc", Err(error))],
    };
    let id = |case: &serde_json::Value| case.get("id").and_then(|id| id.as_str()).unwrap_or("?").to_owned();
    let cases: Vec<serde_json::Value> = cases
        .into_iter()
        .filter(|case| {
            case.get("kind").and_then(|kind| kind.as_str()) == Some("rpc") && selected(&id(case), filter)
        })
        .collect();
    if cases.is_empty() {
        return Vec::new();
    }
    let (_directory, _server, mut client) = match serve("") {
        Ok(serving) => serving,
        Err(error) => return vec![Case::new("rpc", Err(error))],
    };
    cases.iter().map(|case| Case::new(id(case), rpc_case(&mut client, case))).collect()
}

fn serve(config: &str) -> Result<(tempfile::TempDir, Server, Client), String> {
    let directory = tempfile::Builder::new().prefix("mixer-wire").tempdir().map_err(|e| e.to_string())?;
    std::fs::write(directory.path().join("config.yaml"), config).map_err(|e| e.to_string())?;
    let server = Server::on(directory.path()).try_start()?;
    let client = Client::new(&server.address())?;
    Ok((directory, server, client))
}

fn rpc_case(client: &mut Client, case: &serde_json::Value) -> Result<(), String> {
    let text =
        |node: &serde_json::Value, key: &str| node.get(key).and_then(|v| v.as_str()).map(str::to_owned);
    let body = text(case, "hex").as_deref().and_then(bag::hex).ok_or("bad hex")?;
    let path = if text(case, "method").as_deref() == Some("Report") { rpc::REPORT } else { rpc::CHECK };
    let (code, message) = match client.call(path, body, None) {
        Ok(_) => ("OK".to_owned(), String::new()),
        Err(status) => (rpc::camel_code(status.code()), status.message().to_owned()),
    };
    let alternatives = case.get("accept").and_then(|accept| accept.as_array()).into_iter().flatten();
    let holds = case.get("expect").into_iter().chain(alternatives).any(|expect| {
        let exact = text(expect, "message_match").as_deref() == Some("exact");
        text(expect, "grpc_code").as_deref() == Some(code.as_str())
            && (!exact || text(expect, "grpc_message").as_deref() == Some(message.as_str()))
    });
    if holds {
        Ok(())
    } else {
        Err(format!(
            "got {code} {message:?}, want {}",
            case.get("expect").unwrap_or(&serde_json::Value::Null)
        ))
    }
}

/// Runs `wire/cases.yaml` of the adapter suite in `dir` for ids that contain the filter.
///
/// The cases depend on each other, so that all are run; the filter selects the reported ones.
pub(crate) fn run_adapters(dir: &Path, filter: Option<&str>) -> Vec<Case> {
    let path = dir.join("wire/cases.yaml");
    if !path.exists() {
        return Vec::new();
    }
    wire(dir, &path, filter).unwrap_or_else(|error| vec![Case::new("wire", Err(error))])
}

fn wire(dir: &Path, path: &Path, filter: Option<&str>) -> Result<Vec<Case>, String> {
    let read = |path: &Path| -> Result<Value, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_yaml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    };
    let document = read(path)?;
    let cases = document.get("cases").and_then(Value::as_sequence).cloned().unwrap_or_default();
    let id = |case: &Value| case.get("id").and_then(Value::as_str).unwrap_or("?").to_owned();
    if !cases.iter().any(|case| selected(&id(case), filter)) {
        return Ok(Vec::new());
    }
    let mut types: BTreeMap<String, String> = BTreeMap::new();
    let manifest = read(&dir.join("attributes.yaml"))?;
    declare(&manifest, &mut types);
    declare(document.get("attributes").unwrap_or(&Value::Null), &mut types);
    let (_directory, _server, mut client) = serve(&configuration(&document, &types)?)?;
    let mut results = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let id = id(case);
        let outcome = play(&mut client, case, &types, index);
        if selected(&id, filter) {
            results.push(Case::new(id, outcome));
        }
    }
    Ok(results)
}

/// Reads a map from names to types, directly or below `attributes`, with or without `valueType`.
fn declare(node: &Value, types: &mut BTreeMap<String, String>) {
    let node = node.get("attributes").filter(|inner| inner.is_mapping()).unwrap_or(node);
    for (name, kind) in node.as_mapping().into_iter().flatten() {
        let kind = kind.as_str().or_else(|| kind.get("valueType")?.as_str());
        if let (Some(name), Some(kind)) = (name.as_str(), kind) {
            types.insert(name.to_owned(), kind.to_owned());
        }
    }
}

/// The configuration as one file.
fn configuration(document: &Value, types: &BTreeMap<String, String>) -> Result<String, String> {
    let attributes: serde_json::Map<String, serde_json::Value> =
        types.iter().map(|(name, kind)| (name.clone(), serde_json::json!({"valueType": kind}))).collect();
    let resource = |kind: &serde_json::Value, name: &serde_json::Value, spec: serde_json::Value| {
        let metadata = serde_json::json!({"name": name, "namespace": "istio-system"});
        let resource = serde_json::json!({
            "apiVersion": "config.istio.io/v1alpha2", "kind": kind, "metadata": metadata, "spec": spec});
        format!("\n---\n{resource}\n")
    };
    let mut text =
        resource(&"attributemanifest".into(), &"all".into(), serde_json::json!({"attributes": attributes}));
    for entry in document.get("config").and_then(Value::as_sequence).into_iter().flatten() {
        let json = serde_json::to_value(entry).map_err(|error| error.to_string())?;
        let part = |key: &str| json.get(key).cloned().unwrap_or_default();
        let spec = json.get("spec").cloned().unwrap_or_else(|| serde_json::json!({}));
        text.push_str(&resource(&part("kind"), &part("name"), spec));
    }
    Ok(text)
}

/// Attributes with their declared types.
fn declared(node: &Value, types: &BTreeMap<String, String>) -> Result<Attributes, String> {
    let mut attributes = Attributes::new();
    for (name, value) in node.as_mapping().into_iter().flatten() {
        let name = name.as_str().ok_or("a name is not text")?;
        let kind = types.get(name).map_or("STRING", String::as_str);
        let value = value_of(kind, value).ok_or_else(|| format!("{name}: bad value {value:?}"))?;
        attributes.insert(name.to_owned(), value);
    }
    Ok(attributes)
}

fn value_of(kind: &str, value: &Value) -> Option<Attribute> {
    match kind {
        "INT64" => bag::typed("int64", value),
        "DOUBLE" => bag::typed("double", value),
        "BOOL" => bag::typed("bool", value),
        "TIMESTAMP" => bag::typed("timestamp", value),
        "DURATION" => bag::typed("duration", value),
        "STRING_MAP" => bag::typed("stringmap", value),
        "IP_ADDRESS" => {
            let address: std::net::IpAddr = value.as_str()?.parse().ok()?;
            Some(Attribute::Bytes(match address {
                std::net::IpAddr::V4(four) => four.octets().to_vec(),
                std::net::IpAddr::V6(sixteen) => sixteen.octets().to_vec(),
            }))
        }
        _ => bag::typed("string", value),
    }
}

fn play(
    client: &mut Client,
    case: &Value,
    types: &BTreeMap<String, String>,
    index: usize,
) -> Result<(), String> {
    let want = case.get("want").ok_or("nothing wanted")?;
    if let Some(report) = case.get("report") {
        let message = bag::encode_alone(&declared(report, types)?, Words::of_message());
        let request =
            mixer::ReportRequest { attributes: vec![message], global_word_count: 222, ..Default::default() };
        return match client.report(&request, None) {
            Ok(()) if want.get("ok").is_some() => Ok(()),
            Ok(()) => Err("got OK".to_owned()),
            Err(status) => refused(&status, want),
        };
    }
    let check = case.get("check").ok_or("neither check nor report")?;
    let message = bag::encode_alone(&declared(check, types)?, Words::of_message());
    let mut request = mixer::CheckRequest {
        attributes: Some(message),
        global_word_count: 222,
        deduplication_id: format!("wire-{index}"),
        ..Default::default()
    };
    for (name, amount) in case.get("quotas").and_then(Value::as_mapping).into_iter().flatten() {
        let amount = amount.as_i64().ok_or("an amount is no number")?;
        let parameters = mixer::check_request::QuotaParams { amount, best_effort: true };
        request.quotas.insert(name.as_str().unwrap_or_default().to_owned(), parameters);
    }
    match client.check(&request, None) {
        Ok(response) => answered(&response, want),
        Err(status) => refused(&status, want),
    }
}

fn refused(status: &tonic::Status, want: &Value) -> Result<(), String> {
    let found = format!("got {} {:?}", rpc::camel_code(status.code()), status.message());
    let expected = want.get("rpcError").ok_or_else(|| found.clone())?;
    let fragments = expected.get("contains").and_then(Value::as_sequence).into_iter().flatten();
    let missing = fragments.filter_map(Value::as_str).find(|fragment| !status.message().contains(fragment));
    if expected.get("code").and_then(Value::as_str) != Some(&rpc::camel_code(status.code()))
        || missing.is_some()
    {
        return Err(format!("{found}, want {expected:?}"));
    }
    Ok(())
}

fn answered(response: &mixer::CheckResponse, want: &Value) -> Result<(), String> {
    let found = response.precondition.clone().unwrap_or_default();
    let status = found.status.unwrap_or_default();
    let code = tonic::Code::from_i32(status.code);
    let differs =
        |what: &str, found: String, wanted: &Value| Err(format!("{what}: got {found}, want {wanted:?}"));
    if let Some(wanted) = want.get("status")
        && wanted.as_str() != Some(&rpc::upper_code(code))
    {
        return differs("status", format!("{code:?} {}", status.message), wanted);
    }
    if want.get("rpcError").is_some() {
        return differs("rpc", "OK".to_owned(), want);
    }
    if let Some(wanted) = want.get("message")
        && wanted.as_str() != Some(&status.message)
    {
        return differs("message", status.message, wanted);
    }
    if let Some(wanted) = want.get("validUseCount")
        && wanted.as_i64() != Some(i64::from(found.valid_use_count))
    {
        return differs("validUseCount", found.valid_use_count.to_string(), wanted);
    }
    let same_duration = |what: &str, found: Option<&prost_types::Duration>, wanted: Option<&Value>| {
        let nanos = bag::nanos_of(found);
        match wanted {
            Some(wanted) if wanted.as_str().and_then(bag::go_nanos) != Some(nanos) => {
                differs(what, format!("{nanos}ns"), wanted)
            }
            _ => Ok(()),
        }
    };
    same_duration("validDuration", found.valid_duration.as_ref(), want.get("validDuration"))?;
    for (name, wanted) in want.get("quotas").and_then(Value::as_mapping).into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        let found = response.quotas.get(name).ok_or_else(|| format!("quota {name}: no answer"))?;
        if wanted
            .get("granted")
            .and_then(Value::as_i64)
            .is_some_and(|granted| granted != found.granted_amount)
        {
            return differs(&format!("quota {name}"), found.granted_amount.to_string(), wanted);
        }
        let what = format!("quota {name}: validDuration");
        same_duration(&what, found.valid_duration.as_ref(), wanted.get("validDuration"))?;
    }
    Ok(())
}
