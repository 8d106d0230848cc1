//! Dynamic values while a CEL program runs.

use bumpalo::Bump;

use super::convert::to_text;
use crate::EvalError;
use mixer_attribute::{SignedDuration, StringMap, Timestamp, Value, ValueType};

/// A value of any type. Copy: everything large lies in the request, in the program or in the arena of the bag.
#[derive(Debug, Clone, Copy)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(&'a [u8]),
    Bytes(&'a [u8]),
    Timestamp(Timestamp),
    Duration(SignedDuration),
    List(&'a [Val<'a>]),
    /// A list that `+` made. It compares differently: what cannot be compared is unequal.
    Joined(&'a [Val<'a>]),
    /// A map literal; keys are distinct.
    Map(&'a [(Val<'a>, Val<'a>)]),
    /// An attribute of type STRING_MAP, or the empty map.
    StringMap(&'a StringMap<'a>),
    /// IP_ADDRESS, EMAIL_ADDRESS, URI, DNS_NAME.
    Opaque(ValueType, &'a [u8]),
    /// An inner node of the attribute names, by its dotted path.
    Object(&'a str),
    /// A type, by its name.
    Type(&'static str),
}

/// Why there is no value. Texts are written only when the fault is the final result.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault<'a> {
    /// A name that means nothing at run time.
    Unknown,
    Static(&'static str),
    NoSuchKey(&'a [u8]),
    Other(EvalError<'a>),
}

/// What evaluating a node gives.
pub(super) type Outcome<'a> = Result<Val<'a>, Fault<'a>>;

/// What every operand of the wrong type gives.
pub(super) const NO_OVERLOAD: Fault<'static> = Fault::Static("no such overload");

impl<'a> Fault<'a> {
    /// A fault whose text is written into `arena`.
    pub(super) fn text(arena: &'a Bump, text: std::fmt::Arguments<'_>) -> Fault<'a> {
        Fault::Other(EvalError::failed(arena, text))
    }

    /// The error that callers see.
    pub(super) fn into_error(self, arena: &'a Bump) -> EvalError<'a> {
        match self {
            Fault::Unknown => EvalError::Failed("failed to recover of type unknown"),
            Fault::Static(text) => EvalError::Failed(text),
            Fault::NoSuchKey(key) => {
                EvalError::failed(arena, format_args!("no such key: '{}'", String::from_utf8_lossy(key)))
            }
            Fault::Other(error) => error,
        }
    }

    pub(super) fn is_unknown(&self) -> bool {
        matches!(self, Fault::Unknown)
    }
}

impl<'a> From<EvalError<'a>> for Fault<'a> {
    fn from(error: EvalError<'a>) -> Fault<'a> {
        Fault::Other(error)
    }
}

impl<'a> Val<'a> {
    /// The name of the type, as error texts and `type()` show it.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::String(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::Timestamp(_) => "google.protobuf.Timestamp",
            Val::Duration(_) => "google.protobuf.Duration",
            Val::List(_) | Val::Joined(_) => "list",
            Val::Map(_) | Val::StringMap(_) => "map",
            Val::Opaque(..) => "wrapper",
            Val::Object(_) => "object",
            Val::Type(_) => "type",
        }
    }

    /// The elements of a list.
    pub(super) fn items(&self) -> Option<&'a [Val<'a>]> {
        match self {
            Val::List(items) | Val::Joined(items) => Some(items),
            _ => None,
        }
    }

    /// The value as templates and adapters know it.
    ///
    /// Errors: a type that they do not have.
    pub(super) fn into_value(self, arena: &'a Bump) -> Result<Value<'a>, EvalError<'a>> {
        Ok(match self {
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
}

/// A map literal as a string map; numbers, truth values and times in it are given as their texts.
fn string_map<'a>(entries: &[(Val<'a>, Val<'a>)], arena: &'a Bump) -> Option<&'a StringMap<'a>> {
    let mut texts = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        texts.push((to_text(*key, arena)?, to_text(*value, arena)?));
    }
    Some(arena.alloc(StringMap { entries: arena.alloc_slice_copy(&texts), source: None }))
}
