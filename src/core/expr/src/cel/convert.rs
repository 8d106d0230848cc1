//! Conversions between types, and the text forms they use.

use bumpalo::Bump;

use super::context::EvalContext;
use super::plan::Unary;
use super::time;
use super::value::{Fault, Outcome, Val};
use crate::EvalError;
use mixer_attribute::{SignedDuration, StringMap, Timestamp, Value, ValueType};
use mixer_base::decimal;

/// `int(x)`, `string(x)` and so on.
///
/// Errors: `type conversion error from '<type>' to '<type>'`.
pub(super) fn convert<'a>(context: &mut EvalContext<'_, 'a>, to: Unary, operand: Val<'a>) -> Outcome<'a> {
    if let Some(text) = inconvertible(&operand) {
        return Err(Fault::Static(text));
    }
    if let Val::String(text) | Val::Bytes(text) = operand {
        context.charge_bytes(text.len())?;
    }
    let arena = context.arena();
    let converted = match to {
        Unary::ToType => to_type(operand),
        Unary::ToInt => to_int(operand),
        Unary::ToUint => to_uint(operand),
        Unary::ToDouble => to_double(operand),
        Unary::ToBool => match operand {
            Val::Bool(_) => Some(operand),
            Val::String(text) => parse_bool(text).map(Val::Bool),
            _ => None,
        },
        Unary::ToString => to_text(operand, arena).map(Val::String),
        Unary::ToBytes => match operand {
            Val::Bytes(_) => Some(operand),
            Val::String(text) => Some(Val::Bytes(text)),
            _ => None,
        },
        Unary::ToTimestamp => match operand {
            Val::Timestamp(_) => Some(operand),
            Val::String(text) => {
                Timestamp::from_text(text).filter(|at| time::is_valid(*at)).map(Val::Timestamp)
            }
            _ => None,
        },
        _ => match operand {
            Val::Duration(_) => Some(operand),
            Val::String(text) => SignedDuration::from_text(text).map(Val::Duration),
            _ => None,
        },
    };
    converted.ok_or_else(|| {
        let (from, to) = (operand.type_name(), target_name(to));
        Fault::text(arena, format_args!("type conversion error from '{from}' to '{to}'"))
    })
}

/// The error text of types without any conversion.
fn inconvertible(operand: &Val<'_>) -> Option<&'static str> {
    match operand {
        Val::StringMap(_) => Some("cannot convert stringmap to CEL types"),
        Val::Opaque(..) => Some("cannot convert wrapper value  to CEL types"),
        Val::Object(_) => Some("cannot convert attribute message to CEL types"),
        _ => None,
    }
}

fn target_name(to: Unary) -> &'static str {
    match to {
        Unary::ToInt => "int",
        Unary::ToUint => "uint",
        Unary::ToDouble => "double",
        Unary::ToBool => "bool",
        Unary::ToString => "string",
        Unary::ToBytes => "bytes",
        Unary::ToTimestamp => "google.protobuf.Timestamp",
        Unary::ToDuration => "google.protobuf.Duration",
        _ => "type",
    }
}

fn to_type(operand: Val<'_>) -> Option<Val<'static>> {
    match operand {
        // compat(1.3): `type(null)` fails.
        Val::Null => None,
        // compat(1.3): the type of a type is that type.
        Val::Type(name) => Some(Val::Type(name)),
        other => Some(Val::Type(other.type_name())),
    }
}

fn to_int<'a>(operand: Val<'a>) -> Option<Val<'a>> {
    Some(match operand {
        Val::Int(_) => operand,
        Val::Uint(value) => Val::Int(value.cast_signed()),
        Val::Double(value) => Val::Int(double_to_int(value)),
        Val::String(text) => Val::Int(std::str::from_utf8(text).ok()?.parse().ok()?),
        Val::Timestamp(at) => Val::Int(at.seconds),
        Val::Duration(span) => Val::Int(span.nanos),
        _ => return None,
    })
}

/// Truncates. Out of range gives `i64::MIN`, as Go's conversion does on amd64.
fn double_to_int(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&value) { value as i64 } else { i64::MIN }
}

fn to_uint<'a>(operand: Val<'a>) -> Option<Val<'a>> {
    Some(match operand {
        Val::Uint(_) => operand,
        Val::Int(value) => Val::Uint(value.cast_unsigned()),
        Val::Double(value) if value >= 9_223_372_036_854_775_808.0 => Val::Uint(value as u64),
        Val::Double(value) => Val::Uint(double_to_int(value).cast_unsigned()),
        // `parse` accepts a plus sign, CEL does not.
        Val::String(text @ [b'0'..=b'9', ..]) => Val::Uint(std::str::from_utf8(text).ok()?.parse().ok()?),
        _ => return None,
    })
}

fn to_double<'a>(operand: Val<'a>) -> Option<Val<'a>> {
    Some(match operand {
        Val::Double(_) => operand,
        Val::Int(value) => Val::Double(value as f64),
        Val::Uint(value) => Val::Double(value as f64),
        Val::String(text) => Val::Double(parse_double(text)?),
        _ => return None,
    })
}

/// Decimal numbers, infinities and NaN. A number that overflows is an error.
fn parse_double(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let value: f64 = text.parse().ok()?;
    let is_named = !text.bytes().any(|b| b.is_ascii_digit());
    (value.is_finite() || is_named).then_some(value)
}

fn parse_bool(text: &[u8]) -> Option<bool> {
    match text {
        b"1" | b"t" | b"T" | b"TRUE" | b"true" | b"True" => Some(true),
        b"0" | b"f" | b"F" | b"FALSE" | b"false" | b"False" => Some(false),
        _ => None,
    }
}

/// The result of `string(x)`.
pub(super) fn to_text<'a>(operand: Val<'a>, arena: &'a Bump) -> Option<&'a [u8]> {
    let text = match operand {
        Val::String(text) | Val::Bytes(text) => return Some(text),
        Val::Type(name) => return Some(name.as_bytes()),
        Val::Null => return Some(b"null"),
        Val::Bool(true) => return Some(b"true"),
        Val::Bool(false) => return Some(b"false"),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => decimal::general(value).to_string(),
        Val::Timestamp(at) if time::is_valid(at) => at.rfc3339().to_string(),
        Val::Duration(span) => span.to_string(),
        _ => return None,
    };
    Some(arena.alloc_str(&text).as_bytes())
}

/// The number of code points; every byte that is not valid UTF-8 counts as one.
pub(super) fn code_points(text: &[u8]) -> usize {
    text.utf8_chunks().map(|chunk| chunk.valid().chars().count() + chunk.invalid().len()).sum()
}

/// The code points in reverse order; every byte that is not valid UTF-8 becomes U+FFFD.
pub(super) fn reverse(text: &[u8]) -> Vec<u8> {
    let mut characters = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        characters.extend(chunk.valid().chars());
        characters.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    characters.into_iter().rev().collect::<String>().into_bytes()
}

/// The attribute value that templates and adapters receive.
///
/// Errors: a type that attributes do not have.
pub(super) fn into_value<'a>(value: Val<'a>, arena: &'a Bump) -> Result<Value<'a>, EvalError<'a>> {
    Ok(match value {
        Val::Bool(value) => Value::Bool(value),
        Val::Int(value) => Value::Int64(value),
        Val::Double(value) => Value::Double(value),
        Val::String(text) => Value::String(text),
        Val::Timestamp(at) => Value::Timestamp(at),
        Val::Duration(span) => Value::Duration(span),
        Val::StringMap(map) => Value::StringMap(map),
        Val::Opaque(ValueType::IpAddress, bytes) => Value::Bytes(bytes),
        Val::Opaque(_, text) => Value::String(text),
        Val::Map(entries) if let Some(map) = string_map(entries, arena) => Value::StringMap(map),
        Val::Object(path) => {
            return Err(EvalError::failed(arena, format_args!("failed to recover of type .{path}")));
        }
        other => {
            let name = other.type_name();
            return Err(EvalError::failed(arena, format_args!("failed to recover of type {name}")));
        }
    })
}

/// A map literal as a string map. Numbers, Booleans and times are converted to text.
fn string_map<'a>(entries: &[(Val<'a>, Val<'a>)], arena: &'a Bump) -> Option<&'a StringMap<'a>> {
    let mut texts = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        texts.push((to_text(*key, arena)?, to_text(*value, arena)?));
    }
    Some(arena.alloc(StringMap { entries: arena.alloc_slice_copy(&texts), source: None }))
}
