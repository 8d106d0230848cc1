//! Evaluation. Spec: expressions.md, section 9.
//!
//! Three ways to evaluate a node: [`Expr::value`] (strict: absence is an error), [`Expr::attempt`] (absence is nothing, for
//! the left of `|`) and [`Expr::truth`] (strict, for conditions).

use super::{Attribute, Comparison, Entry, Expr, Kind, Literal, Operands};
use crate::core::attribute::text::go_text;
use crate::core::attribute::{AttributeBag, SignedDuration, StringMap, Value, ValueType};
use crate::core::expr::{EvalError, functions};

type Evaluated<'a, T> = Result<T, EvalError<'a>>;

/// What `emptyStringMap()` returns.
static EMPTY_MAP: StringMap<'static> = StringMap { entries: &[], source: None };

/// A node that gave a value of another type than the type check promised. Cannot happen.
const BROKEN: EvalError<'static> = EvalError::Failed("the value has another type than the expression");

impl Literal {
    pub(super) fn value(&self) -> Evaluated<'_, Value<'_>> {
        Ok(match self {
            Literal::Bytes(bytes) => Value::String(bytes),
            Literal::Address(address) => Value::Bytes(address),
            Literal::Int64(number) => Value::Int64(*number),
            Literal::Double(number) => Value::Double(*number),
            Literal::Bool(truth) => Value::Bool(*truth),
            Literal::Duration(duration) => Value::Duration(*duration),
            Literal::Timestamp(instant) => Value::Timestamp(*instant),
            Literal::EmptyMap => Value::StringMap(&EMPTY_MAP),
            Literal::Failed(text) => return Err(EvalError::Failed(text)),
        })
    }
}

impl Attribute {
    /// The value, converted to the declared type; nothing if absent.
    #[inline]
    pub(super) fn attempt<'a>(self, bag: &AttributeBag<'a>) -> Evaluated<'a, Option<Value<'a>>> {
        let Some(value) = bag.get(self.slot) else { return Ok(None) };
        match (value, self.value_type) {
            (
                Value::String(_),
                ValueType::String | ValueType::DnsName | ValueType::EmailAddress | ValueType::Uri,
            )
            | (Value::Int64(_), ValueType::Int64)
            | (Value::Double(_), ValueType::Double)
            | (Value::Bool(_), ValueType::Bool)
            | (Value::Timestamp(_), ValueType::Timestamp)
            | (Value::Duration(_), ValueType::Duration)
            | (Value::Bytes(_), ValueType::IpAddress)
            | (Value::StringMap(_), ValueType::StringMap) => Ok(Some(value)),
            (Value::Duration(duration), ValueType::Int64) => Ok(Some(Value::Int64(duration.nanos))),
            (Value::Int64(nanos), ValueType::Duration) => {
                Ok(Some(Value::Duration(SignedDuration::from_nanos(nanos))))
            }
            _ => Err(self.unconvertible(value, bag)),
        }
    }

    #[inline]
    fn value<'a>(self, bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
        match self.attempt(bag)? {
            Some(value) => Ok(value),
            None => Err(self.absent(bag)),
        }
    }

    fn absent<'a>(self, bag: &AttributeBag<'a>) -> EvalError<'a> {
        EvalError::Absent { name: bag.vocabulary().name(self.slot) }
    }

    #[cold]
    fn unconvertible<'a>(self, value: Value<'a>, bag: &AttributeBag<'a>) -> EvalError<'a> {
        let wanted = match self.value_type {
            ValueType::Int64 | ValueType::Duration => "integer or duration",
            ValueType::Double => "double",
            ValueType::Bool => "bool",
            ValueType::Timestamp => "timestamp",
            ValueType::IpAddress => "IP address",
            ValueType::StringMap => "string map",
            _ => "string",
        };
        EvalError::failed(
            bag.arena(),
            format_args!("error converting value to {wanted}: '{}'", go_text(value)),
        )
    }
}

impl Entry {
    /// The value under the key; nothing if the map or the key is absent.
    #[inline]
    pub(super) fn attempt<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, Option<&'a [u8]>> {
        match self.map.attempt(bag)? {
            Some(Value::StringMap(map)) => Ok(bag.lookup(map, &self.key)),
            Some(_) => Err(BROKEN),
            None => Ok(None),
        }
    }

    /// The value under the key, empty if there is none; an absent map is an error.
    #[inline]
    pub(super) fn value<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, &'a [u8]> {
        match self.map.value(bag)? {
            Value::StringMap(map) => Ok(bag.lookup(map, &self.key).unwrap_or(b"")),
            _ => Err(BROKEN),
        }
    }
}

impl Expr {
    /// Evaluates; an absent attribute is an error.
    pub(super) fn value<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
        match &self.kind {
            Kind::Literal(literal) => literal.value(),
            Kind::Attribute(attribute) => attribute.value(bag),
            Kind::AttributeOr { attribute, default } => match attribute.attempt(bag)? {
                Some(value) => Ok(value),
                None => default.value(),
            },
            Kind::Entry(entry) => entry.value(bag).map(Value::String),
            Kind::EntryOr { entry, default } => match entry.attempt(bag)? {
                Some(value) => Ok(Value::String(value)),
                None => default.value(),
            },
            Kind::Index(pair) => index(pair, bag),
            Kind::FirstOf(list) => first_of(list, bag),
            Kind::Conditional(triple) => {
                let [test, then, otherwise] = &**triple;
                if test.truth(bag)? { then.value(bag) } else { otherwise.value(bag) }
            }
            Kind::ConditionalString(triple) => conditional_string(triple, bag),
            Kind::Concat(list) => concat(list, bag).map(Value::String),
            Kind::AddInt64(list) => {
                list.iter().try_fold(0i64, |sum, e| Ok(sum.wrapping_add(e.int64(bag)?))).map(Value::Int64)
            }
            Kind::AddDouble(list) => {
                let mut terms = list.iter();
                let first = terms.next().map_or(Ok(0.0), |e| e.double(bag))?;
                terms.try_fold(first, |sum, e| Ok(sum + e.double(bag)?)).map(Value::Double)
            }
            Kind::Apply { function, argument } => function.apply(argument.bytes(bag)?, bag.arena()),
            Kind::All(_)
            | Kind::Any(_)
            | Kind::AttributeIs { .. }
            | Kind::EntryIs { .. }
            | Kind::Compare { .. }
            | Kind::MatchesGlob { .. }
            | Kind::Match(_)
            | Kind::MatchesRegex { .. }
            | Kind::Matches(_)
            | Kind::StartsWith(_)
            | Kind::EndsWith(_) => self.truth(bag).map(Value::Bool),
        }
    }

    /// Evaluates on the left of `|`: an absent attribute, map or key gives nothing.
    pub(super) fn attempt<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, Option<Value<'a>>> {
        match &self.kind {
            Kind::Attribute(attribute) => attribute.attempt(bag),
            Kind::Entry(entry) => Ok(entry.attempt(bag)?.map(Value::String)),
            Kind::Index(pair) => {
                let [map, key] = &**pair;
                let Some(map) = map.attempt(bag)? else { return Ok(None) };
                let Some(key) = key.attempt(bag)? else { return Ok(None) };
                match (map, key) {
                    (Value::StringMap(map), Value::String(key)) => {
                        Ok(bag.lookup(map, key).map(Value::String))
                    }
                    _ => Err(BROKEN),
                }
            }
            Kind::FirstOf(list) => {
                for option in list {
                    if let Some(value) = option.attempt(bag)? {
                        return Ok(Some(value));
                    }
                }
                Ok(None)
            }
            _ => self.value(bag).map(Some),
        }
    }

    /// Evaluates a condition.
    pub(super) fn truth<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, bool> {
        match &self.kind {
            Kind::All(list) => {
                for conjunct in list {
                    if !conjunct.truth(bag)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Kind::Any(list) => {
                for disjunct in list {
                    if disjunct.truth(bag)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Kind::AttributeIs { attribute, constant, expected } => match attribute.value(bag)? {
                Value::String(text) => Ok((text == &**constant) == *expected),
                _ => Err(BROKEN),
            },
            Kind::EntryIs { entry, constant, expected } => {
                Ok((entry.value(bag)? == &**constant) == *expected)
            }
            Kind::Compare { comparison, operands, pair } => compare(*comparison, *operands, pair, bag),
            Kind::MatchesGlob { subject, glob } => Ok(glob.matches(subject.bytes(bag)?)),
            Kind::Match(pair) => {
                both(pair, bag).map(|(subject, pattern)| functions::glob_match(subject, pattern))
            }
            Kind::MatchesRegex { regex, subject } => {
                let subject = subject.bytes(bag)?;
                match &**regex {
                    Ok(regex) => Ok(regex.is_match(subject)),
                    Err(text) => Err(EvalError::Failed(text)),
                }
            }
            Kind::Matches(pair) => {
                let (pattern, subject) = both(pair, bag)?;
                functions::matches(pattern, subject, bag.arena())
            }
            Kind::StartsWith(pair) => both(pair, bag).map(|(text, prefix)| text.starts_with(prefix)),
            Kind::EndsWith(pair) => both(pair, bag).map(|(text, suffix)| text.ends_with(suffix)),
            _ => match self.value(bag)? {
                Value::Bool(truth) => Ok(truth),
                _ => Err(BROKEN),
            },
        }
    }

    fn bytes<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, &'a [u8]> {
        match self.value(bag)? {
            Value::String(bytes) | Value::Bytes(bytes) => Ok(bytes),
            _ => Err(BROKEN),
        }
    }

    fn int64<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, i64> {
        match self.value(bag)? {
            Value::Int64(number) => Ok(number),
            _ => Err(BROKEN),
        }
    }

    fn double<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, f64> {
        match self.value(bag)? {
            Value::Double(number) => Ok(number),
            _ => Err(BROKEN),
        }
    }
}

/// Evaluates two texts from left to right.
fn both<'a>(pair: &'a [Expr; 2], bag: &AttributeBag<'a>) -> Evaluated<'a, (&'a [u8], &'a [u8])> {
    let [left, right] = pair;
    Ok((left.bytes(bag)?, right.bytes(bag)?))
}

fn index<'a>(pair: &'a [Expr; 2], bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    let [map, key] = pair;
    match (map.value(bag)?, key.value(bag)?) {
        (Value::StringMap(map), Value::String(key)) => Ok(Value::String(bag.lookup(map, key).unwrap_or(b""))),
        _ => Err(BROKEN),
    }
}

fn first_of<'a>(list: &'a [Expr], bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    let Some((last, options)) = list.split_last() else { return Err(BROKEN) };
    for option in options {
        if let Some(value) = option.attempt(bag)? {
            return Ok(value);
        }
    }
    last.value(bag)
}

fn conditional_string<'a>(triple: &'a [Expr; 3], bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    let [test, then, otherwise] = triple;
    let test = test.truth(bag)?;
    let then = then.value(bag)?;
    let otherwise = otherwise.value(bag)?;
    Ok(if test { then } else { otherwise })
}

fn concat<'a>(list: &'a [Expr], bag: &AttributeBag<'a>) -> Evaluated<'a, &'a [u8]> {
    let arena = bag.arena();
    let parts = arena.alloc_slice_fill_copy(list.len(), &b""[..]);
    let mut length = 0;
    for (part, expr) in parts.iter_mut().zip(list) {
        *part = expr.bytes(bag)?;
        length += part.len();
    }
    let mut parts = parts.iter().flat_map(|part| part.iter().copied());
    Ok(arena.alloc_slice_fill_with(length, |_| parts.next().unwrap_or_default()))
}

fn compare<'a>(
    comparison: Comparison,
    operands: Operands,
    pair: &'a [Expr; 2],
    bag: &AttributeBag<'a>,
) -> Evaluated<'a, bool> {
    let [left, right] = pair;
    let equal = match operands {
        Operands::Bytes => return Ok(ordered(comparison, &left.bytes(bag)?, &right.bytes(bag)?)),
        Operands::Int64 => return Ok(ordered(comparison, &left.int64(bag)?, &right.int64(bag)?)),
        Operands::Double => return Ok(doubles(comparison, left.double(bag)?, right.double(bag)?)),
        Operands::Bool => return Ok(ordered(comparison, &left.truth(bag)?, &right.truth(bag)?)),
        Operands::Timestamp => {
            return match (left.value(bag)?, right.value(bag)?) {
                (Value::Timestamp(a), Value::Timestamp(b)) => Ok(ordered(comparison, &a, &b)),
                _ => Err(BROKEN),
            };
        }
        Operands::Address => functions::ip_equal(left.bytes(bag)?, right.bytes(bag)?),
        Operands::DnsName => functions::dns_name_equal(left.bytes(bag)?, right.bytes(bag)?, bag.arena())?,
        Operands::EmailAddress => functions::email_equal(left.bytes(bag)?, right.bytes(bag)?, bag.arena())?,
        Operands::Uri => functions::uri_equal(left.bytes(bag)?, right.bytes(bag)?, bag.arena())?,
    };
    Ok(equal == (comparison == Comparison::Equal))
}

fn ordered<T: PartialOrd + ?Sized>(comparison: Comparison, left: &T, right: &T) -> bool {
    match comparison {
        Comparison::Equal => left == right,
        Comparison::NotEqual => left != right,
        Comparison::Less => left < right,
        Comparison::LessOrEqual => left <= right,
        Comparison::Greater => left > right,
        Comparison::GreaterOrEqual => left >= right,
    }
}

/// Equality of doubles is equality of their bits.
fn doubles(comparison: Comparison, left: f64, right: f64) -> bool {
    match comparison {
        Comparison::Equal => left.to_bits() == right.to_bits(),
        Comparison::NotEqual => left.to_bits() != right.to_bits(),
        _ => ordered(comparison, &left, &right),
    }
}
