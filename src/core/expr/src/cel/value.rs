//! Dynamic values of a running CEL program.

use bumpalo::Bump;

use crate::EvalError;
use mixer_attribute::{SignedDuration, StringMap, Timestamp, ValueType};

/// A value of any type. It is `Copy`: texts and elements live in the request, the program or the arena of the bag.
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
    /// The result of `+` on lists. It compares differently: elements that cannot be compared are unequal.
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

/// Why an evaluation has no value. Most texts are formatted only when the fault is the final result.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault<'a> {
    /// A name that cannot be resolved at run time.
    Unknown,
    Static(&'static str),
    NoSuchKey(&'a [u8]),
    Other(EvalError<'a>),
}

/// The result of evaluating a node.
pub(super) type Outcome<'a> = Result<Val<'a>, Fault<'a>>;

/// The fault of an operand of the wrong type.
pub(super) const NO_OVERLOAD: Fault<'static> = Fault::Static("no such overload");

impl<'a> Fault<'a> {
    /// A fault whose text is formatted into `arena`.
    pub(super) fn text(arena: &'a Bump, text: std::fmt::Arguments<'_>) -> Fault<'a> {
        Fault::Other(EvalError::failed(arena, text))
    }

    /// The error that callers see.
    pub(super) fn into_error(self) -> EvalError<'a> {
        match self {
            Fault::Unknown => EvalError::Failed("failed to recover of type unknown"),
            Fault::Static(text) => EvalError::Failed(text),
            Fault::NoSuchKey(key) => EvalError::NoSuchKey { key },
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
    /// The empty map, which is also the default of a STRING_MAP attribute.
    pub(super) const EMPTY_MAP: Val<'static> = Val::StringMap(&StringMap { entries: &[], source: None });

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
}
