//! The `expressions` suite; its README.md states the schema.

use std::collections::BTreeSet;
use std::path::Path;

use bumpalo::Bump;
use mixer_attribute::{
    AttributeBag, Condition, OwnedAttributes, OwnedValue, SignedDuration, Timestamp, Value, ValueType,
    Vocabulary,
};
use mixer_expr::{Language, Phase, compile};
use serde_json::Value as Json;

use crate::case::{Case, json_lines, selected};

/// Runs the cases in `dir` whose id contains the filter.
pub(crate) fn run(dir: &Path, filter: Option<&str>) -> Vec<Case> {
    let vocabulary = match vocabulary(&dir.join("vocabulary.yaml")) {
        Ok(vocabulary) => vocabulary,
        Err(error) => return vec![Case::new("vocabulary.yaml", Err(error))],
    };
    let cases = match json_lines(&dir.join("cases.jsonl")) {
        Ok(cases) => cases,
        Err(error) => return vec![Case::new("cases.jsonl", Err(error))],
    };
    cases
        .iter()
        .filter_map(|case| Some((case, case.get("id")?.as_str()?)))
        .filter(|(_, id)| selected(id, filter))
        .map(|(case, id)| Case::new(id, run_case(case, &vocabulary)))
        .collect()
}

fn vocabulary(path: &Path) -> Result<Vocabulary, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let document: serde_yaml::Value =
        serde_yaml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let attributes =
        document.get("attributes").and_then(serde_yaml::Value::as_mapping).ok_or("no attributes")?;
    let mut builder = Vocabulary::builder();
    for (name, declaration) in attributes {
        let name = name.as_str().ok_or("an attribute name is not a string")?;
        let value_type = declaration.get("valueType").and_then(serde_yaml::Value::as_str).unwrap_or_default();
        let value_type =
            ValueType::from_name(value_type).ok_or_else(|| format!("{name}: no type `{value_type}`"))?;
        builder.declare(name, value_type);
    }
    Ok(builder.build())
}

/// The result of a case in the format of the schema.
#[derive(Debug)]
struct Actual {
    phase: &'static str,
    value_type: Option<ValueType>,
    value: Option<Json>,
    error: String,
    references: References,
}

/// Name, map key or nothing, condition.
type References = BTreeSet<(String, Option<String>, &'static str)>;

fn run_case(case: &Json, vocabulary: &Vocabulary) -> Result<(), String> {
    let expect = case.get("expect").ok_or("no `expect`")?;
    let actual = actual(case, vocabulary)?;
    let Err(difference) = agrees(expect, &actual) else { return Ok(()) };
    let alternatives = case.get("accept").and_then(Json::as_array);
    if alternatives.into_iter().flatten().any(|alternative| agrees(alternative, &actual).is_ok()) {
        return Ok(());
    }
    Err(format!("{}: {difference}", text(case, "expr")?))
}

fn actual(case: &Json, vocabulary: &Vocabulary) -> Result<Actual, String> {
    let language = Language::from_name(text(case, "lang")?);
    let program = match compile(language, text(case, "expr")?, vocabulary) {
        Ok(program) => program,
        Err(error) => {
            let phase = match error.phase {
                Phase::Parse => "parse",
                Phase::Type => "type",
                Phase::Compile => "compile",
                Phase::Static => "static",
            };
            let error = error.message;
            return Ok(Actual { phase, value_type: None, value: None, error, references: References::new() });
        }
    };
    let mut attributes = OwnedAttributes::new();
    for (name, value) in case.get("attributes").and_then(Json::as_object).into_iter().flatten() {
        attributes.insert(name.as_str(), value_of(value)?);
    }
    let arena = Bump::new();
    let body = arena.alloc_slice_copy(&attributes.to_bytes(0));
    let bag = AttributeBag::decode(body, None, vocabulary, &arena).map_err(|error| error.to_string())?;
    let value_type = Some(program.value_type());
    let (phase, value, error) = match program.eval(&bag) {
        Ok(value) => ("ok", Some(json_of(value)), String::new()),
        Err(error) => ("eval", None, error.to_string()),
    };
    Ok(Actual { phase, value_type, value, error, references: references(&bag) })
}

fn references(bag: &AttributeBag<'_>) -> References {
    bag.references()
        .iter()
        .map(|reference| {
            let condition = match reference.condition {
                Condition::Absence => "ABSENCE",
                Condition::Exact => "EXACT",
            };
            // The schema, like the wire format, does not distinguish an empty key from none.
            let key = reference.key.filter(|key| !key.is_empty());
            let key = key.map(|key| String::from_utf8_lossy(key).into_owned());
            (reference.name.to_owned(), key, condition)
        })
        .collect()
}

fn agrees(expect: &Json, actual: &Actual) -> Result<(), String> {
    let differs = |what: &str, wanted: &str, got: &str| Err(format!("{what}: wanted {wanted}, got {got}"));
    let phase = text(expect, "phase")?;
    if phase != actual.phase {
        return differs("phase", &expect.to_string(), &format!("{actual:?}"));
    }
    if let (Some(wanted), Some(got)) = (expect.get("type").and_then(Json::as_str), actual.value_type)
        && wanted != got.name()
    {
        return differs("type", wanted, got.name());
    }
    if let Some(wanted) = expect.get("refs").and_then(Json::as_array)
        && !same_references(wanted, &actual.references)
    {
        return differs("references", &format!("{wanted:?}"), &format!("{:?}", actual.references));
    }
    if phase == "ok" {
        let any = expect.get("value_match").and_then(Json::as_str) == Some("any");
        let (wanted, got) = (expect.get("value").unwrap_or(&Json::Null), actual.value.as_ref());
        if !any && !got.is_some_and(|got| same_value(wanted, got)) {
            return differs("value", &wanted.to_string(), &format!("{got:?}"));
        }
        return Ok(());
    }
    let wanted = expect.get("error").and_then(Json::as_str).unwrap_or_default();
    let good = match expect.get("error_match").and_then(Json::as_str) {
        Some("exact") => actual.error == wanted,
        Some("prefix") => actual.error.starts_with(wanted),
        _ => true,
    };
    if good { Ok(()) } else { differs("error", wanted, &actual.error) }
}

fn same_references(wanted: &[Json], got: &References) -> bool {
    let wanted: BTreeSet<(Option<&str>, Option<&str>, Option<&str>)> = wanted
        .iter()
        .map(|reference| {
            let field = |name: &str| reference.get(name).and_then(Json::as_str);
            (field("name"), field("map_key"), field("condition"))
        })
        .collect();
    let got =
        got.iter().map(|(name, key, condition)| (Some(&**name), key.as_deref(), Some(*condition))).collect();
    wanted == got
}

/// Whether two values in the format of the schema are equal.
fn same_value(wanted: &Json, got: &Json) -> bool {
    if wanted.get("type") != got.get("type") {
        return false;
    }
    match wanted.get("type").and_then(Json::as_str) {
        Some("DOUBLE") => {
            let bits = |json: &Json| {
                let bits = u64::from_str_radix(json.get("bits")?.as_str()?, 16).ok()?;
                Some(f64::from_bits(bits))
            };
            match (bits(wanted), bits(got)) {
                (Some(a), Some(b)) => a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
                _ => false,
            }
        }
        _ => wanted.get("value") == got.get("value") && wanted.get("hex") == got.get("hex"),
    }
}

/// Converts a value of the schema to a value of a request.
fn value_of(json: &Json) -> Result<OwnedValue, String> {
    let number = || {
        let digits = text(json, "value")?;
        digits.parse::<i64>().map_err(|error| format!("{digits}: {error}"))
    };
    Ok(match text(json, "type")? {
        "STRING" if json.get("hex").is_some() => OwnedValue::String(bytes_of(json)?),
        "STRING" => OwnedValue::from(text(json, "value")?),
        "INT64" => OwnedValue::Int64(number()?),
        "DOUBLE" => {
            let bits = text(json, "bits")?;
            OwnedValue::Double(f64::from_bits(u64::from_str_radix(bits, 16).map_err(|e| e.to_string())?))
        }
        "BOOL" => OwnedValue::Bool(json.get("value").and_then(Json::as_bool).ok_or("no truth value")?),
        "TIMESTAMP" => OwnedValue::Timestamp(Timestamp::parse_rfc3339(text(json, "value")?)?),
        "DURATION" => OwnedValue::Duration(SignedDuration::from_nanos(number()?)),
        "BYTES" => OwnedValue::Bytes(bytes_of(json)?),
        "STRING_MAP" => {
            let entries = json.get("value").and_then(Json::as_object).ok_or("no entries")?;
            let bytes = |text: &str| text.as_bytes().to_vec();
            let entry =
                |(key, value): (&String, &Json)| (bytes(key), bytes(value.as_str().unwrap_or_default()));
            OwnedValue::StringMap(entries.iter().map(entry).collect())
        }
        other => return Err(format!("no type `{other}`")),
    })
}

fn json_of(value: Value<'_>) -> Json {
    match value {
        Value::String(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => serde_json::json!({"type": "STRING", "value": text}),
            Err(_) => serde_json::json!({"type": "STRING", "hex": hex(bytes)}),
        },
        Value::Int64(number) => serde_json::json!({"type": "INT64", "value": number.to_string()}),
        Value::Double(number) => {
            serde_json::json!({"type": "DOUBLE", "bits": format!("{:016x}", number.to_bits())})
        }
        Value::Bool(truth) => serde_json::json!({"type": "BOOL", "value": truth}),
        Value::Timestamp(instant) => {
            serde_json::json!({"type": "TIMESTAMP", "value": instant.rfc3339().to_string()})
        }
        Value::Duration(duration) => {
            serde_json::json!({"type": "DURATION", "value": duration.nanos.to_string()})
        }
        Value::Bytes(bytes) => serde_json::json!({"type": "BYTES", "hex": hex(bytes)}),
        Value::StringMap(map) => {
            let entries: serde_json::Map<String, Json> = map
                .entries
                .iter()
                .map(|(k, v)| {
                    (
                        String::from_utf8_lossy(k).into_owned(),
                        Json::String(String::from_utf8_lossy(v).into_owned()),
                    )
                })
                .collect();
            serde_json::json!({"type": "STRING_MAP", "value": entries})
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(json: &Json) -> Result<Vec<u8>, String> {
    let digits = text(json, "hex")?;
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).map_err(|error| error.to_string())?;
            u8::from_str_radix(pair, 16).map_err(|error| format!("{digits}: {error}"))
        })
        .collect()
}

fn text<'j>(json: &'j Json, field: &str) -> Result<&'j str, String> {
    json.get(field).and_then(Json::as_str).ok_or_else(|| format!("no text `{field}`"))
}
