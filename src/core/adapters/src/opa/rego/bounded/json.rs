//! JSON in texts of requests. The engine writes out the numbers that it reads: `1e30000000` takes seconds, and 12 MiB.

use regorus::Value;

use super::{MAX_EXPONENT_DIGITS, MAX_NUMBER, is_immense};

/// Most zeros that the exponents of a text stand for, all together.
const MAX_ZEROS: u32 = 1 << 20;
/// Most parts of a path in `json.filter` and `json.remove`: each is a level of an object, which is dropped by recursion.
const MAX_PATH: usize = 128;
/// An object with this key alone is a number for the deserializer of the engine.
const PRIVATE: &str = "$serde_json::private::";

/// Errors: the engine would take long to read a text as JSON, or read something else.
pub(super) fn readable(text: &str) -> Result<(), String> {
    let mut zeros = 0_u32;
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '"' || c.is_ascii_digit()) {
        let token = rest.get(at..).unwrap_or_default();
        rest = match token.strip_prefix('"') {
            Some(string) => {
                let end = end_of_string(string);
                if is_private(string) {
                    return Err(format!("a text with {PRIVATE} is not read as JSON"));
                }
                string.get(end..).unwrap_or_default()
            }
            None => {
                let is_number = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
                let (number, rest) = token.split_at(token.find(|c| !is_number(c)).unwrap_or(token.len()));
                if is_immense(number) {
                    return Err(format!(
                        "a number has at most {MAX_NUMBER} characters, and {MAX_EXPONENT_DIGITS} digits of an exponent"
                    ));
                }
                zeros = zeros.saturating_add(exponent(number));
                if zeros > MAX_ZEROS {
                    return Err(format!("the exponents of a text stand for at most {MAX_ZEROS} digits"));
                }
                rest
            }
        };
    }
    Ok(())
}

/// Errors: the engine would take long to follow the paths of `json.filter` or `json.remove`.
pub(super) fn readable_paths(paths: Option<&Value>) -> Result<(), String> {
    let each = |path: &Value| match path {
        Value::String(path) => parts(path.split('/')),
        Value::Array(path) => parts(path.iter().map(|part| match part {
            Value::String(part) => &**part,
            _ => "",
        })),
        _ => Ok(()),
    };
    match paths {
        Some(Value::Array(paths)) => paths.iter().try_for_each(each),
        Some(Value::Set(paths)) => paths.iter().try_for_each(each),
        _ => Ok(()),
    }
}

fn parts<'p>(mut parts: impl Iterator<Item = &'p str>) -> Result<(), String> {
    // An index of an array is read as JSON.
    parts.by_ref().take(MAX_PATH).try_for_each(readable)?;
    match parts.next() {
        None => Ok(()),
        Some(_) => Err(format!("a path has at most {MAX_PATH} parts")),
    }
}

/// The bytes behind a quotation mark up to the end of the string.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 1)
}

/// Whether a string begins with [`PRIVATE`], which may be written with escapes.
fn is_private(string: &str) -> bool {
    let mut chars = string.chars();
    PRIVATE.chars().all(|wanted| {
        let next = chars.next().and_then(|next| match next {
            '\\' => unescaped(&mut chars),
            next => Some(next),
        });
        next == Some(wanted)
    })
}

/// The character of an escape with a number; the short escapes stand for none of [`PRIVATE`].
fn unescaped(chars: &mut std::str::Chars<'_>) -> Option<char> {
    chars.next().filter(|kind| *kind == 'u')?;
    let (digits, rest) = chars.as_str().split_at_checked(4)?;
    *chars = rest.chars();
    char::from_u32(u32::from_str_radix(digits, 16).ok()?)
}

/// The exponent of a number that is not immense.
fn exponent(number: &str) -> u32 {
    let exponent = number.split(['e', 'E']).nth(1);
    exponent.map_or(0, |exponent| exponent.trim_start_matches('+').parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn immense_numbers_are_refused() {
        let rows = [
            "1e10000".to_owned(),
            "-1.5E+99999".to_owned(),
            "1".repeat(1025),
            format!("[{}]", ["1e9999"; 105].join(",")),
            r#"{"a": "\"", "b": [1, 1e30000000]}"#.to_owned(),
            r#"{"$serde_json::private::Number": "1e30000000"}"#.to_owned(),
            r#"[{"\u0024serde_\u006Ason::private::Number": "1e30000000"}]"#.to_owned(),
        ];
        for text in rows {
            assert!(readable(&text).is_err(), "{text}");
        }
        let rows = [
            "",
            "[1, 2.5e3, -7, 1e9999]",
            r#"{"1e99999": "1e99999", "a\\": "\"1e99999", "\u00e4": "$serde"}"#,
            r#"{"unfinished": "1e99999"#,
            "\"\\u00",
            "\"\\u00\u{e4}\u{e4}\"",
        ];
        for text in rows {
            assert_eq!(readable(text), Ok(()), "{text}");
        }
    }
}
