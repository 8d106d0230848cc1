//! Compares the result of a step with its expectation.

use mixer_attribute::SignedDuration;
use serde_json::Value as Json;

/// Compares by the rules of the README.
///
/// Errors: where and how the two differ.
pub(super) fn compare(want: &Json, got: &Json) -> Result<(), String> {
    for kind in ["error", "instanceError"] {
        if let Some(fragments) = want.get(kind) {
            let Some(text) = got.get(kind).and_then(Json::as_str) else {
                return Err(format!("wanted {kind} {fragments}, got {got}"));
            };
            return contains_all(fragments, text);
        }
    }
    differ("", want, got)
}

fn contains_all(fragments: &Json, text: &str) -> Result<(), String> {
    let missing =
        fragments.as_array().into_iter().flatten().filter_map(Json::as_str).find(|f| !text.contains(f));
    missing.map_or(Ok(()), |missing| Err(format!("wanted a text with `{missing}`, got `{text}`")))
}

fn differ(at: &str, want: &Json, got: &Json) -> Result<(), String> {
    let error = || Err(format!("{at}: wanted {want}, got {got}"));
    match (want, got) {
        (Json::Object(want), Json::Object(found)) => {
            if want.len() != found.len() {
                return error();
            }
            for (key, value) in want {
                let Some(got) = found.get(key) else { return error() };
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                if key == "validDuration" {
                    same_duration(&at, value, got)?;
                } else {
                    differ(&at, value, got)?;
                }
            }
            Ok(())
        }
        (Json::Array(want), Json::Array(found)) => {
            if want.len() != found.len() {
                return error();
            }
            let mut pairs = want.iter().zip(found).enumerate();
            pairs.try_for_each(|(i, (want, got))| differ(&format!("{at}[{i}]"), want, got))
        }
        (Json::String(want), Json::String(got)) if want.starts_with('~') => {
            let pattern = format!("^(?:{})$", want.trim_start_matches('~'));
            let pattern = regex::Regex::new(&pattern).map_err(|e| format!("{at}: {e}"))?;
            if pattern.is_match(got) { Ok(()) } else { Err(format!("{at}: wanted {want}, got {got}")) }
        }
        (Json::Number(a), Json::Number(b)) if a.as_f64() == b.as_f64() => Ok(()),
        _ if want == got => Ok(()),
        _ => error(),
    }
}

fn same_duration(at: &str, want: &Json, got: &Json) -> Result<(), String> {
    let nanos = |value: &Json| value.as_str().and_then(|text| SignedDuration::parse(text).ok());
    match (nanos(want), nanos(got)) {
        (Some(want), Some(got)) if want == got => Ok(()),
        _ => Err(format!("{at}: wanted {want}, got {got}")),
    }
}
