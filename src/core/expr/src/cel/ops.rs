//! Operators and functions, applied to evaluated operands.

use super::context::EvalContext;
use super::convert;
use super::plan::{Binary, Unary};
use super::time;
use super::value::{Fault, NO_OVERLOAD, Outcome, Val};
use crate::functions;
use mixer_attribute::{SignedDuration, Timestamp, ValueType};

/// Applies a function of one value.
pub(super) fn unary<'a>(context: &mut EvalContext<'_, 'a>, function: Unary, operand: Val<'a>) -> Outcome<'a> {
    match function {
        Unary::Negate => negate(context, operand),
        Unary::NotStrictlyFalse => Ok(match operand {
            Val::Bool(_) => operand,
            _ => Val::Bool(true),
        }),
        Unary::Size => size(context, operand),
        Unary::Time(field) => match operand {
            Val::Timestamp(at) => Ok(Val::Int(time::field_in_utc(field, at))),
            Val::Duration(span) => time::field_of_duration(field, span).map(Val::Int).ok_or(NO_OVERLOAD),
            Val::String(_) => Err(NO_OVERLOAD),
            _ => Err(Fault::Static("no such overload: time function")),
        },
        Unary::Reverse | Unary::ToLower | Unary::Email | Unary::DnsName | Unary::Uri | Unary::Ip => {
            text_function(context, function, operand)
        }
        conversion => convert::convert(context, conversion, operand),
    }
}

/// The text functions that Istio Mixer adds to CEL.
fn text_function<'a>(context: &mut EvalContext<'_, 'a>, function: Unary, operand: Val<'a>) -> Outcome<'a> {
    let arena = context.arena();
    let Val::String(text) = operand else {
        let name = operand.type_name();
        return Err(Fault::text(arena, format_args!("overload cannot be applied to '{name}'")));
    };
    context.charge_bytes(text.len())?;
    let opaque = |value_type, found: Result<&'a [u8], _>| Ok(Val::Opaque(value_type, found?));
    context.count_made(match function {
        // As long, or with three bytes for each that is no UTF-8.
        Unary::Reverse if text.is_ascii() => text.len(),
        Unary::Reverse => text.len().saturating_mul(3),
        Unary::ToLower => functions::made_by_lower(text),
        Unary::Uri => functions::read_as_uri(text),
        Unary::Email => functions::read_as_email(text),
        _ => text.len(),
    })?;
    match function {
        Unary::Reverse => Ok(Val::String(arena.alloc_slice_copy(&convert::reverse(text)))),
        Unary::ToLower => Ok(Val::String(functions::to_lower(text, arena))),
        Unary::Email => opaque(ValueType::EmailAddress, functions::email(text, arena)),
        Unary::DnsName => opaque(ValueType::DnsName, functions::dns_name(text, arena)),
        Unary::Uri => opaque(ValueType::Uri, functions::uri(text, arena)),
        _ => opaque(ValueType::IpAddress, functions::ip(text, arena)),
    }
}

/// `-x` and `!x`: one function, as in CEL's Go implementation.
fn negate<'a>(context: &EvalContext<'_, 'a>, operand: Val<'a>) -> Outcome<'a> {
    Ok(match operand {
        Val::Bool(value) => Val::Bool(!value),
        Val::Int(value) => Val::Int(value.wrapping_neg()),
        Val::Double(value) => Val::Double(-value),
        Val::Duration(span) => Val::Duration(SignedDuration::from_nanos(span.nanos.wrapping_neg())),
        Val::String(_) | Val::Timestamp(_) => return Err(NO_OVERLOAD),
        other => {
            let name = other.type_name();
            return Err(Fault::text(context.arena(), format_args!("no such overload: -_ of {name}")));
        }
    })
}

fn size<'a>(context: &mut EvalContext<'_, 'a>, operand: Val<'a>) -> Outcome<'a> {
    let count = match operand {
        Val::String(text) => {
            context.charge_bytes(text.len())?;
            convert::code_points(text)
        }
        Val::Bytes(bytes) => bytes.len(),
        Val::List(items) | Val::Joined(items) => items.len(),
        Val::Map(entries) => entries.len(),
        Val::StringMap(_) => return Err(Fault::Static("size not implemented on stringmaps")),
        Val::Timestamp(_) | Val::Duration(_) => return Err(NO_OVERLOAD),
        _ => return Err(Fault::Static("no such overload: size")),
    };
    Ok(Val::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// Applies a function of two values.
pub(super) fn binary<'a>(
    context: &mut EvalContext<'_, 'a>,
    function: Binary,
    left: Val<'a>,
    right: Val<'a>,
) -> Outcome<'a> {
    match function {
        Binary::Less => order(context, left, right).map(|order| Val::Bool(order.is_lt())),
        Binary::LessOrEqual => order(context, left, right).map(|order| Val::Bool(order.is_le())),
        Binary::Greater => order(context, left, right).map(|order| Val::Bool(order.is_gt())),
        Binary::GreaterOrEqual => order(context, left, right).map(|order| Val::Bool(order.is_ge())),
        Binary::Add => add(context, left, right),
        Binary::Subtract => subtract(left, right),
        Binary::Multiply => multiply(left, right),
        Binary::Divide => divide(left, right),
        Binary::Modulo => modulo(left, right),
        Binary::Index => index(context, left, right),
        Binary::In => contains(context, right, left).map(Val::Bool),
        Binary::Match | Binary::Matches | Binary::Contains | Binary::StartsWith | Binary::EndsWith => {
            text_test(context, function, left, right)
        }
        Binary::Time(field) => match (left, right) {
            (Val::Timestamp(at), Val::String(zone)) => {
                time::field_in_zone(field, at, zone, context.arena()).map(Val::Int)
            }
            _ => Err(NO_OVERLOAD),
        },
    }
}

fn text_test<'a>(
    context: &mut EvalContext<'_, 'a>,
    function: Binary,
    left: Val<'a>,
    right: Val<'a>,
) -> Outcome<'a> {
    let (Val::String(subject), Val::String(argument)) = (left, right) else {
        return Err(match function {
            Binary::Match => Fault::Static("overload cannot be applied to argument types"),
            _ => NO_OVERLOAD,
        });
    };
    context.charge_bytes(subject.len() + argument.len())?;
    Ok(Val::Bool(match function {
        Binary::Match => functions::glob_match(subject, argument),
        Binary::StartsWith => subject.starts_with(argument),
        Binary::EndsWith => subject.ends_with(argument),
        Binary::Contains => memchr::memmem::find(subject, argument).is_some(),
        _ => return context.searched(functions::matches(argument, subject, context.bag())).map(Val::Bool),
    }))
}

fn order<'a>(
    context: &mut EvalContext<'_, 'a>,
    left: Val<'a>,
    right: Val<'a>,
) -> Result<std::cmp::Ordering, Fault<'a>> {
    Ok(match (left, right) {
        (Val::Bool(a), Val::Bool(b)) => a.cmp(&b),
        (Val::Int(a), Val::Int(b)) => a.cmp(&b),
        (Val::Uint(a), Val::Uint(b)) => a.cmp(&b),
        // compat(1.3): NaN compares as equal to everything.
        (Val::Double(a), Val::Double(b)) => a.partial_cmp(&b).unwrap_or(std::cmp::Ordering::Equal),
        (Val::String(a), Val::String(b)) | (Val::Bytes(a), Val::Bytes(b)) => {
            context.charge_bytes(a.len().min(b.len()))?;
            a.cmp(b)
        }
        (Val::Timestamp(a), Val::Timestamp(b)) => a.cmp(&b),
        // compat(1.3): compared by the sign of the wrapping difference.
        (Val::Duration(a), Val::Duration(b)) => a.nanos.wrapping_sub(b.nanos).cmp(&0),
        _ => return Err(NO_OVERLOAD),
    })
}

fn add<'a>(context: &mut EvalContext<'_, 'a>, left: Val<'a>, right: Val<'a>) -> Outcome<'a> {
    Ok(match (left, right) {
        (Val::Int(a), Val::Int(b)) => Val::Int(a.wrapping_add(b)),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a.wrapping_add(b)),
        (Val::Double(a), Val::Double(b)) => Val::Double(a + b),
        (Val::String(a), Val::String(b)) => Val::String(concatenate(context, a, b)?),
        (Val::Bytes(a), Val::Bytes(b)) => Val::Bytes(concatenate(context, a, b)?),
        (Val::List(_) | Val::Joined(_), Val::List(_) | Val::Joined(_)) => {
            return add_lists(context, left, right);
        }
        (Val::Duration(a), Val::Duration(b)) => {
            Val::Duration(SignedDuration::from_nanos(a.nanos.wrapping_add(b.nanos)))
        }
        (Val::Timestamp(at), Val::Duration(span)) | (Val::Duration(span), Val::Timestamp(at)) => {
            shift(at, i128::from(span.nanos))?
        }
        _ => return Err(NO_OVERLOAD),
    })
}

fn add_lists<'a>(context: &mut EvalContext<'_, 'a>, left: Val<'a>, right: Val<'a>) -> Outcome<'a> {
    let (a, b) = (left.items().unwrap_or(&[]), right.items().unwrap_or(&[]));
    if a.is_empty() {
        return Ok(right);
    }
    if b.is_empty() {
        return Ok(left);
    }
    context.charge(a.len() + b.len())?;
    context.count_made((a.len() + b.len()).saturating_mul(size_of::<Val<'a>>()))?;
    Ok(Val::Joined(context.arena().alloc_slice_fill_iter(Chain { first: a.iter(), second: b.iter() })))
}

/// Chains two slices. Unlike `Iterator::chain`, it has an exact size, which the arena needs.
struct Chain<'s, T> {
    first: std::slice::Iter<'s, T>,
    second: std::slice::Iter<'s, T>,
}

impl<T: Copy> Iterator for Chain<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.first.next().or_else(|| self.second.next()).copied()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.first.len() + self.second.len();
        (left, Some(left))
    }
}

impl<T: Copy> ExactSizeIterator for Chain<'_, T> {}

fn concatenate<'a>(context: &mut EvalContext<'_, 'a>, a: &[u8], b: &[u8]) -> Result<&'a [u8], Fault<'a>> {
    context.charge_bytes(a.len() + b.len())?;
    context.count_made(a.len() + b.len())?;
    Ok(context.arena().alloc_slice_fill_iter(Chain { first: a.iter(), second: b.iter() }))
}

/// Adds nanoseconds to a timestamp. Errors: the result is outside the years 1 to 9999.
fn shift<'a>(at: Timestamp, nanos: i128) -> Outcome<'a> {
    const BILLION: i128 = 1_000_000_000;
    let total = i128::from(at.seconds) * BILLION + i128::from(at.nanos) + nanos;
    let moved = i64::try_from(total.div_euclid(BILLION)).ok().and_then(|seconds| {
        let nanos = u32::try_from(total.rem_euclid(BILLION)).ok()?;
        Some(Timestamp { seconds, nanos })
    });
    match moved {
        Some(moved) if time::is_valid(moved) => Ok(Val::Timestamp(moved)),
        _ => Err(Fault::Static("timestamp is outside of the years 1 to 9999")),
    }
}

fn subtract<'a>(left: Val<'a>, right: Val<'a>) -> Outcome<'a> {
    Ok(match (left, right) {
        (Val::Int(a), Val::Int(b)) => Val::Int(a.wrapping_sub(b)),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a.wrapping_sub(b)),
        (Val::Double(a), Val::Double(b)) => Val::Double(a - b),
        (Val::Duration(a), Val::Duration(b)) => {
            Val::Duration(SignedDuration::from_nanos(a.nanos.wrapping_sub(b.nanos)))
        }
        (Val::Timestamp(at), Val::Duration(span)) => shift(at, -i128::from(span.nanos))?,
        (Val::Timestamp(a), Val::Timestamp(b)) => {
            let nanos = |at: Timestamp| i128::from(at.seconds) * 1_000_000_000 + i128::from(at.nanos);
            let between = nanos(a) - nanos(b);
            let clamped = between.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
            Val::Duration(SignedDuration::from_nanos(i64::try_from(clamped).unwrap_or(0)))
        }
        _ => return Err(NO_OVERLOAD),
    })
}

fn multiply<'a>(left: Val<'a>, right: Val<'a>) -> Outcome<'a> {
    Ok(match (left, right) {
        (Val::Int(a), Val::Int(b)) => Val::Int(a.wrapping_mul(b)),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a.wrapping_mul(b)),
        (Val::Double(a), Val::Double(b)) => Val::Double(a * b),
        _ => return Err(NO_OVERLOAD),
    })
}

const DIVISION_BY_ZERO: Fault<'static> = Fault::Static("divide by zero");

fn divide<'a>(left: Val<'a>, right: Val<'a>) -> Outcome<'a> {
    Ok(match (left, right) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => return Err(DIVISION_BY_ZERO),
        (Val::Double(_), Val::Double(0.0)) => return Err(DIVISION_BY_ZERO),
        (Val::Int(a), Val::Int(b)) => Val::Int(a.wrapping_div(b)),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a / b),
        (Val::Double(a), Val::Double(b)) => Val::Double(a / b),
        _ => return Err(NO_OVERLOAD),
    })
}

fn modulo<'a>(left: Val<'a>, right: Val<'a>) -> Outcome<'a> {
    Ok(match (left, right) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => {
            return Err(Fault::Static("modulus by zero"));
        }
        (Val::Int(a), Val::Int(b)) => Val::Int(a.wrapping_rem(b)),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a % b),
        _ => return Err(NO_OVERLOAD),
    })
}

/// `container[key]`.
pub(super) fn index<'a>(context: &mut EvalContext<'_, 'a>, container: Val<'a>, key: Val<'a>) -> Outcome<'a> {
    match (container, key) {
        (Val::StringMap(map), Val::String(key)) => match context.lookup(map, key) {
            Some(text) => Ok(Val::String(text)),
            None => Err(Fault::NoSuchKey(key)),
        },
        (Val::StringMap(_), _) => Err(Fault::Static("index should be a string")),
        (Val::Map(entries), key) => {
            context.charge(entries.len())?;
            match entries.iter().find(|(known, _)| is_same_key(known, &key)) {
                Some((_, value)) => Ok(*value),
                None => Err(no_such_key(context, key)),
            }
        }
        (Val::List(items) | Val::Joined(items), Val::Int(at)) => {
            match usize::try_from(at).ok().and_then(|at| items.get(at)) {
                Some(item) => Ok(*item),
                None => {
                    let text = format_args!("index '{at}' out of range in list size '{}'", items.len());
                    Err(Fault::text(context.arena(), text))
                }
            }
        }
        (Val::List(_) | Val::Joined(_), key) => {
            let text = format_args!("unsupported index type '{}' in list", key.type_name());
            Err(Fault::text(context.arena(), text))
        }
        (Val::Object(path), Val::String(key)) => match std::str::from_utf8(key) {
            Ok(field) => context.member(path, field),
            Err(_) => Err(Fault::NoSuchKey(key)),
        },
        (Val::String(_) | Val::Timestamp(_) | Val::Duration(_), _) => Err(NO_OVERLOAD),
        _ => Err(Fault::Static("no such overload: _[_]")),
    }
}

fn no_such_key<'a>(context: &EvalContext<'_, 'a>, key: Val<'a>) -> Fault<'a> {
    match key {
        Val::String(key) => Fault::NoSuchKey(key),
        Val::Int(key) => Fault::text(context.arena(), format_args!("no such key: '{key}'")),
        Val::Uint(key) => Fault::text(context.arena(), format_args!("no such key: '{key}'")),
        Val::Bool(key) => Fault::text(context.arena(), format_args!("no such key: '{key}'")),
        _ => Fault::Static("no such key"),
    }
}

/// `x in container`: whether a list has an equal element, or a map has the key.
pub(super) fn contains<'a>(
    context: &mut EvalContext<'_, 'a>,
    container: Val<'a>,
    sought: Val<'a>,
) -> Result<bool, Fault<'a>> {
    match container {
        Val::StringMap(map) => match sought {
            Val::String(key) => Ok(context.lookup(map, key).is_some()),
            _ => Err(Fault::Static("index should be a string")),
        },
        Val::Map(entries) => {
            context.charge(entries.len())?;
            Ok(entries.iter().any(|(known, _)| is_same_key(known, &sought)))
        }
        Val::List(items) | Val::Joined(items) => {
            for item in items {
                context.charge(1)?;
                // Elements that cannot be compared count as unequal.
                if let Ok(true) = equal(context, *item, Ok(sought)) {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Err(NO_OVERLOAD),
    }
}

/// Whether two values are the same map key. Timestamps and durations never are: Istio Mixer compares them by identity.
pub(super) fn is_same_key(a: &Val<'_>, b: &Val<'_>) -> bool {
    match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Int(a), Val::Int(b)) => a == b,
        (Val::Uint(a), Val::Uint(b)) => a == b,
        (Val::Double(a), Val::Double(b)) => a == b,
        (Val::String(a), Val::String(b)) => a == b,
        (Val::Type(a), Val::Type(b)) => a == b,
        _ => false,
    }
}

/// `left == right`. The right side may be a fault: some types on the left ignore it.
pub(super) fn equal<'a>(
    context: &mut EvalContext<'_, 'a>,
    left: Val<'a>,
    right: Outcome<'a>,
) -> Result<bool, Fault<'a>> {
    match left {
        Val::Object(_) => return Err(Fault::Static("attribute message does not support equality")),
        Val::StringMap(_) => return Err(Fault::Static("stringmap does not support equality")),
        Val::Opaque(value_type, text) => return equal_opaque(context, value_type, text, right),
        Val::Joined(items) => {
            let Some(others) = right.ok().and_then(|right| right.items()) else { return Ok(false) };
            return Ok(equal_lists(context, items, others).unwrap_or(false));
        }
        _ => {}
    }
    Ok(match (left, right?) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Int(a), Val::Int(b)) => a == b,
        (Val::Uint(a), Val::Uint(b)) => a == b,
        (Val::Double(a), Val::Double(b)) => a == b,
        (Val::String(a), Val::String(b)) | (Val::Bytes(a), Val::Bytes(b)) => {
            context.charge_bytes(a.len().min(b.len()))?;
            a == b
        }
        (Val::Timestamp(a), Val::Timestamp(b)) => a == b,
        (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::Type(a), Val::Type(b)) => a == b,
        (Val::List(items), Val::List(others) | Val::Joined(others)) => equal_lists(context, items, others)?,
        (Val::Map(entries), Val::Map(others)) => equal_maps(context, entries, others)?,
        _ => return Err(NO_OVERLOAD),
    })
}

fn equal_lists<'a>(
    context: &mut EvalContext<'_, 'a>,
    items: &[Val<'a>],
    others: &[Val<'a>],
) -> Result<bool, Fault<'a>> {
    if items.len() != others.len() {
        return Ok(false);
    }
    for (item, other) in items.iter().zip(others) {
        context.charge(1)?;
        if !equal(context, *item, Ok(*other))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_maps<'a>(
    context: &mut EvalContext<'_, 'a>,
    entries: &[(Val<'a>, Val<'a>)],
    others: &[(Val<'a>, Val<'a>)],
) -> Result<bool, Fault<'a>> {
    if entries.len() != others.len() {
        return Ok(false);
    }
    for (key, value) in entries {
        context.charge(others.len())?;
        let Some((_, other)) = others.iter().find(|(known, _)| is_same_key(known, key)) else {
            return Ok(false);
        };
        if !equal(context, *value, Ok(*other))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_opaque<'a>(
    context: &mut EvalContext<'_, 'a>,
    value_type: ValueType,
    text: &'a [u8],
    right: Outcome<'a>,
) -> Result<bool, Fault<'a>> {
    let arena = context.arena();
    let Ok(Val::Opaque(other_type, other)) = right else { return Err(Fault::Static("cannot compare types")) };
    if value_type != other_type {
        return Err(Fault::text(arena, format_args!("cannot compare {value_type} and {other_type}")));
    }
    context.charge_bytes(text.len() + other.len())?;
    for text in [text, other] {
        context.count_made(match value_type {
            ValueType::EmailAddress => functions::read_as_email(text),
            ValueType::Uri => functions::read_as_uri(text),
            _ => text.len(),
        })?;
    }
    Ok(match value_type {
        ValueType::IpAddress => functions::ip_equal(text, other),
        ValueType::DnsName => functions::dns_name_equal(text, other, arena)?,
        ValueType::EmailAddress => functions::email_equal(text, other, arena)?,
        _ => functions::uri_equal(text, other, arena)?,
    })
}
