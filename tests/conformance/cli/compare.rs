//! Compares the output of a command, or an HTTP response, with the expectation of a step.

use regex::Regex;
use serde_yaml::Value;

use crate::scenarios::is_record;
use crate::support::{Finished, HttpAnswer, programs};

/// Compares the result of a command.
pub(super) fn finished(mut finished: Finished, step: &Value, follow: Option<&str>) -> Result<(), String> {
    finished.stdout = without_lines(&finished.stdout, is_record);
    if let Some(pattern) = step.get("drop_lines").and_then(Value::as_str) {
        let pattern = Regex::new(pattern).map_err(|error| error.to_string())?;
        finished.stdout = without_lines(&finished.stdout, |line| pattern.is_match(line));
    }
    let mut masks = masks(step)?;
    let mut expect = expected(step, follow).clone();
    if follow == Some("1.0") && programs().foreign_server {
        masks.push((always_read_by_1_0()?, String::new()));
    } else if follow == Some("1.0")
        && let Some(Value::String(stdout)) = expect.get_mut("stdout")
    {
        // docs/compatibility.md, Answers: our answer has the other lines, and no more.
        *stdout = always_read_by_1_0()?.replace(stdout, "").into_owned();
    }
    let expect = &expect;
    let found = |member: &str| match member {
        "exit" => finished.status.to_string(),
        "stdout" => finished.stdout.clone(),
        _ => finished.stderr.clone(),
    };
    members(expect, step, &masks, &["exit", "stdout", "stderr"], &found).or_else(|difference| {
        let Some(wanted) = step.get("lenient").and_then(|l| l.get("stderr_contains")).and_then(Value::as_str)
        else {
            return Err(difference);
        };
        members(expect, step, &masks, &["exit", "stdout"], &found)?;
        if finished.stderr.contains(wanted) { Ok(()) } else { Err(difference) }
    })
}

/// Only release 1.0 reads this attribute in every call.
fn always_read_by_1_0() -> Result<Regex, String> {
    Regex::new("    destination\\.service ABSENCE\n").map_err(|error| error.to_string())
}

/// Compares an HTTP answer.
pub(super) fn answer(answer: &HttpAnswer, step: &Value, follow: Option<&str>) -> Result<(), String> {
    let masks = masks(step)?;
    let header = |name: &str| {
        answer
            .headers
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.clone())
            .unwrap_or_default()
    };
    let found = |member: &str| match member {
        "status" => answer.status.to_string(),
        "content_type" => header("content-type"),
        "location" => header("location"),
        _ => answer.body.clone(),
    };
    members(expected(step, follow), step, &masks, &["status", "content_type", "location", "body"], &found)
}

/// The expectation for the product, or for the foreign program under test.
fn expected<'a>(step: &'a Value, follow: Option<&str>) -> &'a Value {
    let foreign = programs().foreign_server || programs().foreign_client;
    if let Some(product) = step.get("expect_product").filter(|_| !foreign) {
        return product;
    }
    if let Some(expect) = step.get("expect") {
        return expect;
    }
    let Some(generations) = step.get("expect_by_generation") else { return &Value::Null };
    let followed = generations.get(follow.unwrap_or("1.3"));
    followed.or_else(|| generations.as_mapping()?.values().next()).unwrap_or(&Value::Null)
}

fn masks(step: &Value) -> Result<Vec<(Regex, String)>, String> {
    let masks = step.get("mask").and_then(Value::as_sequence).into_iter().flatten();
    masks
        .map(|mask| {
            let part = |key: &str| mask.get(key).and_then(Value::as_str).unwrap_or_default();
            Ok((Regex::new(part("pattern")).map_err(|error| error.to_string())?, part("with").to_owned()))
        })
        .collect()
}

fn members(
    expect: &Value,
    step: &Value,
    masks: &[(Regex, String)],
    names: &[&str],
    found: &dyn Fn(&str) -> String,
) -> Result<(), String> {
    let masked = |text: &str| {
        masks.iter().fold(text.to_owned(), |text, (pattern, with)| {
            pattern.replace_all(&text, regex::NoExpand(with)).into_owned()
        })
    };
    for name in names {
        let found = masked(&found(name));
        for (suffix, fixed_mode) in [("", None), ("_contains", Some("contains")), ("_prefix", Some("prefix"))]
        {
            let Some(wanted) = expect.get(format!("{name}{suffix}")) else { continue };
            let mode = step.get("match").and_then(|m| m.get(*name)).and_then(Value::as_str);
            let mode = fixed_mode.or(mode).unwrap_or("equal");
            member(mode, &found, wanted, &masked).map_err(|difference| {
                let difference =
                    difference.unwrap_or_else(|| format!("got {found:?}, want {}", shown(wanted)));
                format!("{name}: {difference}")
            })?;
        }
    }
    Ok(())
}

/// Whether the texts are equal apart from the name of the language runtime.
fn same_but_runtime(found: &str, wanted: &str) -> bool {
    let pattern = regex::escape(wanted).replace("<RUNTIME>", "[^\"\n]+");
    wanted.contains("<RUNTIME>") && Regex::new(&format!("\\A{pattern}\\z")).is_ok_and(|p| p.is_match(found))
}

fn shown(wanted: &Value) -> String {
    wanted
        .as_str()
        .map_or_else(|| serde_json::to_string(wanted).unwrap_or_default(), |text| format!("{text:?}"))
}

/// Compares in one mode; the error is the difference.
fn member(
    mode: &str,
    found: &str,
    wanted: &Value,
    masked: &dyn Fn(&str) -> String,
) -> Result<(), Option<String>> {
    let text = masked(&match wanted {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => serde_json::to_string(other).unwrap_or_default(),
    });
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let last = |text: &str| text.lines().last().unwrap_or_default().to_owned();
    let holds = match mode {
        "any" => true,
        "first_line" => first(found) == first(&text),
        "last_line" => last(found) == last(&text),
        "prefix" => found.starts_with(&text),
        "contains" => found.contains(&text),
        "sorted_lines" => sorted(found) == sorted(&text),
        "json" | "json_keys" | "json_subset" => {
            let found: serde_json::Value =
                serde_json::from_str(found).map_err(|error| Some(format!("no JSON ({error}): {found:?}")))?;
            let wanted = match wanted {
                Value::String(text) => serde_json::from_str(text).map_err(|error| Some(error.to_string()))?,
                other => serde_json::to_value(other).map_err(|error| Some(error.to_string()))?,
            };
            return json(mode, &found, &wanted, "$").map_err(Some);
        }
        _ => found == text || same_but_runtime(found, &text),
    };
    if holds { Ok(()) } else { Err(None) }
}

/// Compares documents; `json_subset` allows further members everywhere, `json_keys` only at the top.
fn json(mode: &str, found: &serde_json::Value, wanted: &serde_json::Value, at: &str) -> Result<(), String> {
    use serde_json::Value as Json;
    match (found, wanted) {
        (Json::Object(found), Json::Object(wanted)) => {
            for (name, wanted) in wanted {
                let place = format!("{at}.{name}");
                let found = found.get(name).ok_or_else(|| format!("{place} is missing"))?;
                json(if mode == "json_keys" { "json" } else { mode }, found, wanted, &place)?;
            }
            let further = found.keys().find(|name| !wanted.contains_key(*name));
            match further {
                Some(name) if mode == "json" => Err(format!("{at}.{name} is not expected")),
                _ => Ok(()),
            }
        }
        (Json::Array(found), Json::Array(wanted)) if found.len() == wanted.len() => {
            for (index, (found, wanted)) in found.iter().zip(wanted).enumerate() {
                json(mode, found, wanted, &format!("{at}[{index}]"))?;
            }
            Ok(())
        }
        (Json::Number(a), Json::Number(b)) if a.as_f64() == b.as_f64() => Ok(()),
        _ if found == wanted => Ok(()),
        _ => Err(format!("{at}: got {found}, want {wanted}")),
    }
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// The text without some of its lines; line ends are preserved.
fn without_lines(text: &str, unwanted: impl Fn(&str) -> bool) -> String {
    text.split_inclusive('\n').filter(|line| !unwanted(line.trim_end_matches('\n'))).collect()
}
