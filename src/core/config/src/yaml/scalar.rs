//! Scalar resolution: YAML 1.1 as Go's yaml.v2 implements it.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

use super::YamlError;
use crate::NodeKind;
use mixer_base::decimal;

const PREFIX: &str = "tag:yaml.org,2002:";
/// The tag of `<<`.
pub(super) const MERGE_TAG: &str = "tag:yaml.org,2002:merge";

/// The short tag of text.
const STRING: &str = "!!str";

/// Resolves `text` under a full tag, or under none (empty).
pub(super) fn resolve(tag: &str, text: &str) -> Result<NodeKind, YamlError> {
    let expected = match tag {
        "" => "",
        tag => match tag.strip_prefix(PREFIX) {
            Some("str") => return Ok(NodeKind::String(text.into())),
            Some("binary") => return binary(text),
            Some(short @ ("bool" | "int" | "float" | "null" | "timestamp")) => short,
            // Application tags are ignored.
            _ => return Ok(NodeKind::String(text.into())),
        },
    };
    let timestamp = matches!(expected, "" | "timestamp") && is_timestamp(text);
    let (kind, found) = if timestamp {
        // Timestamps stay text.
        (NodeKind::String(text.into()), "!!timestamp")
    } else {
        implicit(text)
    };
    match (expected, found.trim_start_matches('!'), kind) {
        ("", _, kind) => Ok(kind),
        (expected, found, kind) if expected == found => Ok(kind),
        ("float", "int", NodeKind::Int(number)) => Ok(NodeKind::Float(number as f64)),
        (expected, _, _) => Err(YamlError::yaml(format!("cannot decode {found} `{text}` as a !!{expected}"))),
    }
}

fn implicit(text: &str) -> (NodeKind, &'static str) {
    let string = || (NodeKind::String(text.into()), STRING);
    let Some(first) = text.bytes().next() else { return (NodeKind::Null, "!!null") };
    match first {
        b'+' | b'-' | b'0'..=b'9' => special_float(text).or_else(|| number(text)).unwrap_or_else(string),
        b'.' => special_float(text)
            .or_else(|| dotted(text).map(|v| (NodeKind::Float(v), "!!float")))
            .unwrap_or_else(string),
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => {
            bool_or_null(text).unwrap_or_else(string)
        }
        _ => string(),
    }
}

fn bool_or_null(text: &str) -> Option<(NodeKind, &'static str)> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            (NodeKind::Bool(true), "!!bool")
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            (NodeKind::Bool(false), "!!bool")
        }
        "~" | "null" | "Null" | "NULL" => (NodeKind::Null, "!!null"),
        _ => return None,
    })
}

fn special_float(text: &str) -> Option<(NodeKind, &'static str)> {
    let value = match text {
        ".nan" | ".NaN" | ".NAN" => f64::NAN,
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => f64::INFINITY,
        "-.inf" | "-.Inf" | "-.INF" => f64::NEG_INFINITY,
        _ => return None,
    };
    Some((NodeKind::Float(value), "!!float"))
}

/// A number with or without a sign. Underscores are ignored.
fn number(text: &str) -> Option<(NodeKind, &'static str)> {
    let buffer;
    let plain = if text.contains('_') {
        buffer = text.replace('_', "");
        buffer.as_str()
    } else {
        text
    };
    if let Some(value) = integer(plain) {
        return Some((value, "!!int"));
    }
    if is_decimal_float(plain) {
        let value = plain.parse::<f64>().ok().filter(|v| v.is_finite())?;
        return Some((NodeKind::Float(value), "!!float"));
    }
    None
}

/// An integer with Go's prefixes: `0x`, `0b`, `0o`, and a leading 0 for octal. `None` beyond 64 bits.
fn integer(text: &str) -> Option<NodeKind> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let signed = text.starts_with(['-', '+']);
    let lower = digits.get(..2).map(str::to_ascii_lowercase);
    let (radix, digits) = match lower.as_deref() {
        Some("0x") => (16, digits.get(2..)?),
        Some("0b") => (2, digits.get(2..)?),
        Some("0o") => (8, digits.get(2..)?),
        Some(two) if two.starts_with('0') => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    if radix == 2 && !signed && digits.starts_with(['-', '+']) {
        return i64::from_str_radix(digits, 2).ok().map(NodeKind::Int);
    }
    if digits.is_empty() || !digits.bytes().all(|b| (b as char).is_digit(radix)) {
        return None;
    }
    match u64::from_str_radix(digits, radix) {
        Ok(value) if negative => {
            0i128.checked_sub(value.into()).and_then(|v| i64::try_from(v).ok()).map(NodeKind::Int)
        }
        Ok(value) => match i64::try_from(value) {
            Ok(value) => Some(NodeKind::Int(value)),
            Err(_) if signed => None,
            Err(_) => Some(NodeKind::Float(value as f64)),
        },
        Err(_) => None,
    }
}

/// `[-+]?[0-9]*\.?[0-9]+([eE][-+][0-9]+)?`: the sign of the exponent is required.
fn is_decimal_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (text.get(..at).unwrap_or(""), text.get(at + 1..)),
        None => (text, None),
    };
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let exponent_fits = exponent.is_none_or(|e| e.strip_prefix(['-', '+']).is_some_and(digits));
    let mantissa_fits = match mantissa.split_once('.') {
        Some((whole, fraction)) => whole.bytes().all(|b| b.is_ascii_digit()) && digits(fraction),
        None => digits(mantissa),
    };
    mantissa_fits && exponent_fits
}

/// A number that starts with a point. The sign of the exponent is optional here.
fn dotted(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let fits = bytes.iter().enumerate().all(|(at, b)| match b {
        b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-' => true,
        b'_' => at > 0 && digit(at - 1) && digit(at + 1),
        _ => false,
    });
    let value = if fits { text.replace('_', "").parse::<f64>().ok()? } else { return None };
    value.is_finite().then_some(value)
}

/// Whether `text` is a timestamp in one of the forms that yaml.v2 accepts.
fn is_timestamp(text: &str) -> bool {
    let Some((year, rest)) = text.split_once('-') else { return false };
    let number = |s: &str, max: u32, max_len: usize| {
        !s.is_empty() && s.len() <= max_len && s.parse::<u32>().is_ok_and(|n| n <= max)
    };
    if year.len() != 4 || !year.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let Some((month, rest)) = rest.split_once('-') else { return false };
    let (day, time) = match rest.find(['T', 't', ' ']) {
        Some(at) => (rest.get(..at).unwrap_or(""), rest.get(at..)),
        None => (rest, None),
    };
    if !number(month, 12, 2) || !number(day, 31, 2) {
        return false;
    }
    let Some(time) = time else { return true };
    let (zoned, clock) = (!time.starts_with(' '), time.get(1..).unwrap_or(""));
    let clock = match (zoned, clock.find(['Z', '+', '-'])) {
        (true, Some(at)) => clock.get(..at).unwrap_or(""),
        (false, None) => clock,
        _ => return false,
    };
    let parts = clock.split(':').collect::<Vec<_>>();
    matches!(parts.as_slice(), [h, m, s] if number(h, 23, 2) && number(m, 59, 2)
        && number(s.split('.').next().unwrap_or(""), 59, 2))
}

/// `!!binary`: base64; bytes that are not UTF-8 become U+FFFD.
fn binary(text: &str) -> Result<NodeKind, YamlError> {
    let invalid = || YamlError::yaml("!!binary value contains invalid base64 data");
    let bytes = decode_base64(text).ok_or_else(invalid)?;
    Ok(NodeKind::String(String::from_utf8_lossy(&bytes).into()))
}

/// Go's standard base64: padding is required, line breaks and the unused bits of the last character are ignored.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const ENGINE: GeneralPurpose =
        GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));
    ENGINE.decode(text.replace(['\r', '\n'], "")).ok()
}

/// The text of a float used as a key: the shortest that reads back as the same 32-bit float.
pub(super) fn float_key(value: f64) -> String {
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() || (value as f32).is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    decimal::general_single(value as f32).to_string()
}
