//! What a scalar means: YAML 1.1 as Go's yaml.v2 understands it.

use super::YamlError;
use crate::NodeKind;
use crate::number::shortest_f32;

const PREFIX: &str = "tag:yaml.org,2002:";
/// The tag of `<<`.
pub(super) const MERGE_TAG: &str = "tag:yaml.org,2002:merge";

/// The types that a text can turn out to be of, as their short tags.
const STRING: &str = "!!str";

/// Resolves `text` under a full tag, or under none (empty).
pub(super) fn resolve(tag: &str, text: &str) -> Result<NodeKind, YamlError> {
    let wanted = match tag {
        "" => "",
        tag => match tag.strip_prefix(PREFIX) {
            Some("str") => return Ok(NodeKind::String(text.into())),
            Some("binary") => return binary(text),
            Some(short @ ("bool" | "int" | "float" | "null" | "timestamp")) => short,
            // Tags of applications are dropped.
            _ => return Ok(NodeKind::String(text.into())),
        },
    };
    let timestamp = matches!(wanted, "" | "timestamp") && is_timestamp(text);
    let (kind, found) = if timestamp {
        // Timestamps stay text.
        (NodeKind::String(text.into()), "!!timestamp")
    } else {
        implicit(text)
    };
    match (wanted, found.trim_start_matches('!'), kind) {
        ("", _, kind) => Ok(kind),
        (wanted, found, kind) if wanted == found => Ok(kind),
        ("float", "int", NodeKind::Int(number)) => Ok(NodeKind::Float(number as f64)),
        (wanted, _, _) => Err(YamlError::yaml(format!("cannot decode {found} `{text}` as a !!{wanted}"))),
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
            word(text).unwrap_or_else(string)
        }
        _ => string(),
    }
}

fn word(text: &str) -> Option<(NodeKind, &'static str)> {
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

/// A number with or without a sign. Underscores do not count.
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

/// A whole number with Go's prefixes: `0x`, `0b`, `0o`, and a leading 0 for octal. Beyond 64 bits it is none.
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

/// `[-+]?[0-9]*\.?[0-9]+([eE][-+][0-9]+)?`: the exponent needs its sign.
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

/// A number that starts with its point. Here the exponent needs no sign.
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

/// Whether `text` is an instant in one of the forms that yaml.v2 knows.
fn is_timestamp(text: &str) -> bool {
    let Some((year, rest)) = text.split_once('-') else { return false };
    let number = |s: &str, most: u32, longest: usize| {
        !s.is_empty() && s.len() <= longest && s.parse::<u32>().is_ok_and(|n| n <= most)
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

/// `!!binary`: base64, bytes that are not UTF-8 become replacement characters.
fn binary(text: &str) -> Result<NodeKind, YamlError> {
    let wrong = || YamlError::yaml("!!binary value contains invalid base64 data");
    let bytes = decode_base64(text).ok_or_else(wrong)?;
    Ok(NodeKind::String(String::from_utf8_lossy(&bytes).into()))
}

/// Standard base64 with padding; line breaks do not count.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held, mut padding) = (0u32, 0u32, 0usize);
    for byte in text.bytes().filter(|b| !matches!(b, b'\r' | b'\n')) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                continue;
            }
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        bits = (bits << 6) | u32::from(value);
        held += 1;
        if held == 4 {
            out.extend(bits.to_be_bytes().get(1..)?);
            (bits, held) = (0, 0);
        }
    }
    match (held, padding) {
        (0, 0) => {}
        (2, 2) => out.push(u8::try_from((bits >> 4) & 0xff).ok()?),
        (3, 1) => {
            out.extend([u8::try_from((bits >> 10) & 0xff).ok()?, u8::try_from((bits >> 2) & 0xff).ok()?])
        }
        _ => return None,
    }
    Some(out)
}

/// The text of a float that is a key: the shortest that reads back as a 32-bit float.
pub(super) fn float_key(value: f64) -> String {
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() || (value as f32).is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    shortest_f32(value as f32).general()
}
