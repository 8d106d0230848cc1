//! Compares the behaviour of a server with the expectation of a step.

use serde_yaml::Value;
use tonic::Status;

use super::play::failure;
use crate::support::bag;
use crate::support::rpc::{self, mixer};

/// Compares the answer to a Check.
pub(super) fn check(
    answer: &Result<mixer::CheckResponse, Status>,
    expect: &Value,
    normalize: &[&str],
) -> Result<(), String> {
    let response = match answer {
        Ok(response) => response,
        Err(status) => return error(status, expect, normalize),
    };
    same("grpc", "OK", word(expect, "grpc").unwrap_or("OK"))?;
    if let Some(expected) = expect.get("precondition") {
        let found = response.precondition.clone().unwrap_or_default();
        precondition(&found, expected, normalize)?;
        quotas(response, expect)?;
    }
    Ok(())
}

/// Compares the answer to a Report.
pub(super) fn report(answer: &Result<(), Status>, expect: &Value, normalize: &[&str]) -> Result<(), String> {
    match answer {
        Ok(()) => same("grpc", "OK", word(expect, "grpc").unwrap_or("OK")),
        Err(status) => error(status, expect, normalize),
    }
}

fn error(status: &Status, expect: &Value, normalize: &[&str]) -> Result<(), String> {
    let (code, message) = failure(status);
    same("grpc", &format!("{code} ({message})"), word(expect, "grpc").unwrap_or("OK")).or_else(
        |difference| {
            if word(expect, "grpc") == Some(code.as_str()) { Ok(()) } else { Err(difference) }
        },
    )?;
    let required = expect.get("message_required").and_then(Value::as_bool).unwrap_or(true);
    match word(expect, "message") {
        Some(expected) if required => {
            let collapse = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            same_text("message", &collapse(&message), &collapse(expected), normalize)
        }
        _ => Ok(()),
    }
}

fn precondition(
    found: &mixer::check_response::PreconditionResult,
    expect: &Value,
    normalize: &[&str],
) -> Result<(), String> {
    let status = found.status.clone().unwrap_or_default();
    if let Some(expected) = expect.get("status") {
        let code = expected.get("code").and_then(Value::as_i64).unwrap_or(0);
        let message = word(expected, "message").unwrap_or_default();
        if i64::from(status.code) != code {
            return Err(differs(
                "status",
                &format!("{} {}", status.code, status.message),
                &format!("{code} {message}"),
            ));
        }
        same_text("status.message", &status.message, message, normalize)?;
    }
    if let Some(expected) = word(expect, "valid_duration") {
        duration("valid_duration", bag::nanos_of(found.valid_duration.as_ref()), expected)?;
    }
    if let Some(expected) = expect.get("valid_use_count").and_then(Value::as_i64) {
        same("valid_use_count", &found.valid_use_count.to_string(), &expected.to_string())?;
    }
    if let Some(expected) = expect.get("referenced") {
        referenced(found.referenced_attributes.as_ref(), expected)?;
    }
    directive(found.route_directive.as_ref(), expect.get("route_directive"), normalize)
}

fn quotas(response: &mixer::CheckResponse, expect: &Value) -> Result<(), String> {
    let expected = expect.get("quotas").and_then(Value::as_mapping).cloned().unwrap_or_default();
    let mut names: Vec<String> = expected.keys().filter_map(Value::as_str).map(str::to_owned).collect();
    names.sort();
    let found: Vec<String> = response.quotas.keys().cloned().collect();
    same("quotas", &found.join(" "), &names.join(" "))?;
    for (name, found) in &response.quotas {
        let Some(expected) = expected.get(name.as_str()) else { continue };
        if let Some(granted) = expected.get("granted").and_then(Value::as_i64) {
            same(&format!("quota {name}: granted"), &found.granted_amount.to_string(), &granted.to_string())?;
        }
        if let Some(expected) = word(expected, "valid_duration") {
            let nanos = bag::nanos_of(found.valid_duration.as_ref());
            duration(&format!("quota {name}: valid_duration"), nanos, expected)?;
        }
        if let Some(expected) = expected.get("referenced") {
            referenced(found.referenced_attributes.as_ref(), expected)
                .map_err(|difference| format!("quota {name}: {difference}"))?;
        }
    }
    Ok(())
}

/// Whether an entry is about an output of an adapter, which is not compared.
fn is_output(entry: &str) -> bool {
    let name = entry.split([' ', ':']).next().unwrap_or(entry);
    name.starts_with("output.") || name.contains(".output.")
}

fn referenced(found: Option<&mixer::ReferencedAttributes>, expected: &Value) -> Result<(), String> {
    let expected = expected.as_sequence().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let mut expected: Vec<String> = expected.filter(|entry| !is_output(entry)).collect();
    expected.sort();
    expected.dedup();
    let mut found: Vec<String> =
        rpc::referenced(found).into_iter().filter(|entry| !is_output(entry)).collect();
    found.dedup();
    let missing: Vec<&str> = expected.iter().filter(|e| !found.contains(e)).map(String::as_str).collect();
    let extra: Vec<&str> = found.iter().filter(|e| !expected.contains(e)).map(String::as_str).collect();
    if missing.is_empty() && extra.is_empty() {
        return Ok(());
    }
    Err(format!("referenced: missing [{}], extra [{}]", missing.join(", "), extra.join(", ")))
}

fn directive(
    found: Option<&mixer::RouteDirective>,
    expected: Option<&Value>,
    normalize: &[&str],
) -> Result<(), String> {
    let (found, expected) = match (found, expected) {
        (None, None) => return Ok(()),
        (Some(found), None) => return Err(format!("route_directive: {found:?}, want none")),
        (None, Some(_)) => return Err("route_directive: none".to_owned()),
        (Some(found), Some(expected)) => (found, expected),
    };
    let lists =
        [("request", &found.request_header_operations), ("response", &found.response_header_operations)];
    for (key, operations) in lists {
        let mut found: Vec<String> = operations
            .iter()
            .map(|o| {
                format!(
                    "{} {}={}",
                    ["REPLACE", "REMOVE", "APPEND"].get(o.operation as usize).unwrap_or(&"?"),
                    o.name,
                    o.value
                )
            })
            .collect();
        let expected = expected.get(key).and_then(Value::as_sequence).into_iter().flatten();
        let mut expected: Vec<String> = expected
            .map(|o| {
                let part = |key: &str| word(o, key).unwrap_or_default();
                format!("{} {}={}", part("op"), part("name"), part("value"))
            })
            .collect();
        if normalize.contains(&"unordered_headers") {
            found.sort();
            expected.sort();
        }
        same(&format!("route_directive.{key}"), &found.join("; "), &expected.join("; "))?;
    }
    let code = expected.get("direct_response_code").and_then(Value::as_u64).unwrap_or(0);
    same("direct_response_code", &found.direct_response_code.to_string(), &code.to_string())?;
    let body = word(expected, "direct_response_body").unwrap_or_default();
    same("direct_response_body", &found.direct_response_body, body)
}

/// Compares appended lines, as JSON unless `json: false`.
pub(super) fn output(lines: &[String], expected: &[Value], output: &Value) -> Result<(), String> {
    let is_json = output.get("json").and_then(Value::as_bool).unwrap_or(true);
    let masks: Vec<&str> = output
        .get("mask")
        .and_then(Value::as_sequence)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut found = Vec::new();
    for line in lines {
        found.push(if is_json {
            let mut json: serde_json::Value =
                serde_json::from_str(line).map_err(|error| format!("no JSON ({error}): {line}"))?;
            mask(&mut json, &masks);
            json
        } else {
            serde_json::Value::String(line.clone())
        });
    }
    let mut wanted = Vec::new();
    for value in expected {
        let mut json = serde_json::to_value(value).map_err(|error| error.to_string())?;
        mask(&mut json, &masks);
        wanted.push(json);
    }
    if output.get("unordered").and_then(Value::as_bool).unwrap_or(false) {
        found.sort_by_key(canonical);
        wanted.sort_by_key(canonical);
    }
    for (index, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
        if canonical(found) != canonical(wanted) {
            return Err(differs(&format!("line {}", index + 1), &found.to_string(), &wanted.to_string()));
        }
    }
    same("number of lines", &found.len().to_string(), &wanted.len().to_string())
}

fn mask(json: &mut serde_json::Value, fields: &[&str]) {
    if let serde_json::Value::Object(object) = json {
        for (name, value) in object {
            if fields.contains(&name.as_str()) {
                *value = serde_json::Value::String("<masked>".to_owned());
            }
        }
    }
}

/// The canonical text of a document, independent of the order of members.
fn canonical(json: &serde_json::Value) -> String {
    match json {
        serde_json::Value::Object(object) => {
            let mut members: Vec<String> =
                object.iter().map(|(name, value)| format!("{name:?}:{}", canonical(value))).collect();
            members.sort();
            format!("{{{}}}", members.join(","))
        }
        serde_json::Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        serde_json::Value::Number(number) => {
            number.as_f64().map_or_else(|| number.to_string(), |n| n.to_string())
        }
        other => other.to_string(),
    }
}

/// Compares the lines of an exposition that start with one of the prefixes; help texts are not compared.
pub(super) fn scrape(body: &str, prefixes: &[&str], expected: &[&str]) -> Result<(), String> {
    let chosen = |line: &&str| {
        let name = line.strip_prefix("# TYPE ").unwrap_or(line);
        !line.starts_with("# HELP ") && prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    let found: Vec<&str> = body.lines().filter(chosen).collect();
    let wanted: Vec<&str> = expected.iter().copied().filter(|line| !line.starts_with("# HELP ")).collect();
    let missing: Vec<&str> = wanted.iter().filter(|line| !found.contains(line)).copied().collect();
    let extra: Vec<&str> = found.iter().filter(|line| !wanted.contains(line)).copied().collect();
    if !missing.is_empty() || !extra.is_empty() {
        return Err(format!("missing [{}], extra [{}]", missing.join("; "), extra.join("; ")));
    }
    same("order of lines", &found.join("\n"), &wanted.join("\n"))
}

/// `5s` is exact, `<4s` is between zero and 4 s, `<=1s` includes the bound.
pub(super) fn duration(what: &str, nanos: i128, expected: &str) -> Result<(), String> {
    let limit = |text: &str| bag::go_nanos(text).ok_or_else(|| format!("{what}: bad duration {expected}"));
    let holds = if let Some(text) = expected.strip_prefix("<=") {
        nanos > 0 && nanos <= limit(text)?
    } else if let Some(text) = expected.strip_prefix('<') {
        nanos > 0 && nanos < limit(text)?
    } else {
        nanos == limit(expected)?
    };
    if holds { Ok(()) } else { Err(differs(what, &format!("{nanos}ns"), expected)) }
}

fn word<'a>(node: &'a Value, key: &str) -> Option<&'a str> {
    node.get(key).and_then(Value::as_str)
}

fn same_text(what: &str, found: &str, expected: &str, normalize: &[&str]) -> Result<(), String> {
    if !normalize.contains(&"unordered_message") {
        return same(what, found, expected);
    }
    let sorted = |text: &str| {
        let mut parts: Vec<&str> = text.split(", ").collect();
        parts.sort_unstable();
        parts.join(", ")
    };
    same(what, &sorted(found), &sorted(expected))
}

fn same(what: &str, found: &str, expected: &str) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(differs(what, found, expected)) }
}

fn differs(what: &str, found: &str, expected: &str) -> String {
    format!("{what}: got {found:?}, want {expected:?}")
}
