//! Evaluation. Spec: expressions.md, section 9.
//!
//! Three ways to evaluate a node: [`Expr::value`] (strict: absence is an error), [`Expr::attempt`] (absence is nothing, for
//! the left of `|`) and [`Expr::truth`] (strict, for conditions).

use bumpalo::collections::Vec as ArenaVec;

use super::{Attribute, Comparison, Entry, Expr, Glob, Kind, Literal, Operands, Unary};
use crate::functions::Regex;
use crate::{EvalError, functions};
use mixer_attribute::text::go_text;
use mixer_attribute::{AttributeBag, SignedDuration, StringMap, Value, ValueType};

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

/// Where nodes nest, the functions below are many and small: unoptimised builds give every function room for all of its
/// temporaries, and the deepest program must fit a small stack there as well.
impl Expr {
    /// Evaluates; an absent attribute is an error.
    pub(super) fn value<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
        match &self.kind {
            Kind::Literal(literal) => literal.value(),
            Kind::Attribute(attribute) => attribute.value(bag),
            Kind::AttributeOr { attribute, default } => attribute_or(*attribute, default, bag),
            Kind::Entry(entry) => entry_value(entry, bag),
            Kind::EntryOr { entry, default } => entry_or(entry, default, bag),
            Kind::Index(pair) => index(pair, bag),
            Kind::FirstOf(list) => first_of(list, bag),
            Kind::Conditional(triple) => conditional(triple, bag),
            Kind::ConditionalString(triple) => conditional_string(triple, bag),
            Kind::Concat(list) => concat(list, bag),
            Kind::AddInt64(list) => add_int64(list, bag),
            Kind::AddDouble(list) => add_double(list, bag),
            Kind::Apply { function, argument } => apply(*function, argument, bag),
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
            | Kind::EndsWith(_) => truth_value(self, bag),
        }
    }

    /// Evaluates on the left of `|`: an absent attribute, map or key gives nothing.
    pub(super) fn attempt<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, Option<Value<'a>>> {
        match &self.kind {
            Kind::Attribute(attribute) => attribute.attempt(bag),
            Kind::Entry(entry) => Ok(entry.attempt(bag)?.map(Value::String)),
            Kind::Index(pair) => attempt_index(pair, bag),
            Kind::FirstOf(list) => attempt_first_of(list, bag),
            _ => self.value(bag).map(Some),
        }
    }

    /// Evaluates a condition.
    pub(super) fn truth<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, bool> {
        match &self.kind {
            Kind::All(list) => all(list, bag),
            Kind::Any(list) => any(list, bag),
            Kind::AttributeIs { attribute, constant, expected } => {
                attribute_is(*attribute, constant, *expected, bag)
            }
            Kind::EntryIs { entry, constant, expected } => entry_is(entry, constant, *expected, bag),
            Kind::Compare { comparison, operands, pair } => compare(*comparison, *operands, pair, bag),
            Kind::MatchesGlob { subject, glob } => matches_glob(subject, glob, bag),
            Kind::Match(pair) => test(pair, bag, functions::glob_match),
            Kind::MatchesRegex { regex, subject } => matches_regex(regex, subject, bag),
            Kind::Matches(pair) => matches(pair, bag),
            Kind::StartsWith(pair) => test(pair, bag, |text, prefix| text.starts_with(prefix)),
            Kind::EndsWith(pair) => test(pair, bag, |text, suffix| text.ends_with(suffix)),
            _ => self.value_as_truth(bag),
        }
    }

    fn value_as_truth<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, bool> {
        match self.value(bag)? {
            Value::Bool(truth) => Ok(truth),
            _ => Err(BROKEN),
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

fn truth_value<'a>(expr: &'a Expr, bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    expr.truth(bag).map(Value::Bool)
}

#[inline]
fn attribute_or<'a>(
    attribute: Attribute,
    default: &'a Literal,
    bag: &AttributeBag<'a>,
) -> Evaluated<'a, Value<'a>> {
    match attribute.attempt(bag)? {
        Some(value) => Ok(value),
        None => default.value(),
    }
}

#[inline]
fn entry_value<'a>(entry: &'a Entry, bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    entry.value(bag).map(Value::String)
}

#[inline]
fn entry_or<'a>(entry: &'a Entry, default: &'a Literal, bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    match entry.attempt(bag)? {
        Some(value) => Ok(Value::String(value)),
        None => default.value(),
    }
}

#[inline]
fn attribute_is<'a>(
    attribute: Attribute,
    constant: &[u8],
    expected: bool,
    bag: &AttributeBag<'a>,
) -> Evaluated<'a, bool> {
    match attribute.value(bag)? {
        Value::String(text) => Ok((text == constant) == expected),
        _ => Err(BROKEN),
    }
}

#[inline]
fn entry_is<'a>(
    entry: &'a Entry,
    constant: &[u8],
    expected: bool,
    bag: &AttributeBag<'a>,
) -> Evaluated<'a, bool> {
    Ok((entry.value(bag)? == constant) == expected)
}

fn all<'a>(list: &'a [Expr], bag: &AttributeBag<'a>) -> Evaluated<'a, bool> {
    for conjunct in list {
        if !conjunct.truth(bag)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn any<'a>(list: &'a [Expr], bag: &AttributeBag<'a>) -> Evaluated<'a, bool> {
    for disjunct in list {
        if disjunct.truth(bag)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Evaluates two texts from left to right and tests them.
fn test<'a>(
    pair: &'a [Expr; 2],
    bag: &AttributeBag<'a>,
    holds: impl FnOnce(&[u8], &[u8]) -> bool,
) -> Evaluated<'a, bool> {
    let (left, right) = both(pair, bag)?;
    Ok(holds(left, right))
}

fn matches_glob<'a>(subject: &'a Expr, glob: &Glob, bag: &AttributeBag<'a>) -> Evaluated<'a, bool> {
    Ok(glob.matches(subject.bytes(bag)?))
}

fn matches_regex<'a>(
    regex: &'a Result<Regex, String>,
    subject: &'a Expr,
    bag: &AttributeBag<'a>,
) -> Evaluated<'a, bool> {
    let subject = subject.bytes(bag)?;
    match regex {
        Ok(regex) => Ok(regex.is_match(subject)),
        Err(text) => Err(EvalError::Failed(text)),
    }
}

fn matches<'a>(pair: &'a [Expr; 2], bag: &AttributeBag<'a>) -> Evaluated<'a, bool> {
    let (pattern, subject) = both(pair, bag)?;
    functions::matches(pattern, subject, bag.arena())
}

fn apply<'a>(function: Unary, argument: &'a Expr, bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    function.apply(argument.bytes(bag)?, bag.arena())
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

fn attempt_index<'a>(pair: &'a [Expr; 2], bag: &AttributeBag<'a>) -> Evaluated<'a, Option<Value<'a>>> {
    let [map, key] = pair;
    let Some(map) = map.attempt(bag)? else { return Ok(None) };
    let Some(key) = key.attempt(bag)? else { return Ok(None) };
    match (map, key) {
        (Value::StringMap(map), Value::String(key)) => Ok(bag.lookup(map, key).map(Value::String)),
        _ => Err(BROKEN),
    }
}

fn first_of<'a>(list: &'a [Expr], bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    let Some((last, options)) = list.split_last() else { return Err(BROKEN) };
    match attempt_first_of(options, bag)? {
        Some(value) => Ok(value),
        None => last.value(bag),
    }
}

fn attempt_first_of<'a>(list: &'a [Expr], bag: &AttributeBag<'a>) -> Evaluated<'a, Option<Value<'a>>> {
    for option in list {
        if let Some(value) = option.attempt(bag)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn conditional<'a>(triple: &'a [Expr; 3], bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    let [test, then, otherwise] = triple;
    let chosen = if test.truth(bag)? { then } else { otherwise };
    chosen.value(bag)
}

fn conditional_string<'a>(triple: &'a [Expr; 3], bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    let [test, then, otherwise] = triple;
    let test = test.truth(bag)?;
    let then = then.value(bag)?;
    let otherwise = otherwise.value(bag)?;
    Ok(if test { then } else { otherwise })
}

fn concat<'a>(list: &'a [Expr], bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    let arena = bag.arena();
    let parts = arena.alloc_slice_fill_copy(list.len(), &b""[..]);
    let mut length = 0;
    for (part, expr) in parts.iter_mut().zip(list) {
        *part = expr.bytes(bag)?;
        length += part.len();
    }
    let mut text = ArenaVec::with_capacity_in(length, arena);
    for part in parts {
        text.extend_from_slice_copy(part);
    }
    Ok(Value::String(text.into_bump_slice()))
}

fn add_int64<'a>(list: &'a [Expr], bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    let mut sum: i64 = 0;
    for expr in list {
        sum = sum.wrapping_add(expr.int64(bag)?);
    }
    Ok(Value::Int64(sum))
}

fn add_double<'a>(list: &'a [Expr], bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    // Not from zero: that would turn -0.0 into 0.0.
    let mut sum = None;
    for expr in list {
        let number = expr.double(bag)?;
        sum = Some(sum.map_or(number, |sum: f64| sum + number));
    }
    Ok(Value::Double(sum.unwrap_or_default()))
}

fn compare<'a>(
    comparison: Comparison,
    operands: Operands,
    pair: &'a [Expr; 2],
    bag: &AttributeBag<'a>,
) -> Evaluated<'a, bool> {
    match operands {
        Operands::Bytes => test(pair, bag, |a, b| ordered(comparison, a, b)),
        Operands::Int64 => compare_int64(comparison, pair, bag),
        Operands::Double => compare_double(comparison, pair, bag),
        Operands::Bool => compare_bool(comparison, pair, bag),
        Operands::Timestamp => compare_timestamp(comparison, pair, bag),
        Operands::Address | Operands::DnsName | Operands::EmailAddress | Operands::Uri => {
            Ok(same(operands, pair, bag)? == (comparison == Comparison::Equal))
        }
    }
}

fn compare_int64<'a>(
    comparison: Comparison,
    [left, right]: &'a [Expr; 2],
    bag: &AttributeBag<'a>,
) -> Evaluated<'a, bool> {
    Ok(ordered(comparison, &left.int64(bag)?, &right.int64(bag)?))
}

/// Equality of doubles is equality of their bits.
fn compare_double<'a>(
    comparison: Comparison,
    [left, right]: &'a [Expr; 2],
    bag: &AttributeBag<'a>,
) -> Evaluated<'a, bool> {
    let (left, right) = (left.double(bag)?, right.double(bag)?);
    Ok(match comparison {
        Comparison::Equal => left.to_bits() == right.to_bits(),
        Comparison::NotEqual => left.to_bits() != right.to_bits(),
        _ => ordered(comparison, &left, &right),
    })
}

fn compare_bool<'a>(
    comparison: Comparison,
    [left, right]: &'a [Expr; 2],
    bag: &AttributeBag<'a>,
) -> Evaluated<'a, bool> {
    Ok(ordered(comparison, &left.truth(bag)?, &right.truth(bag)?))
}

fn compare_timestamp<'a>(
    comparison: Comparison,
    [left, right]: &'a [Expr; 2],
    bag: &AttributeBag<'a>,
) -> Evaluated<'a, bool> {
    match (left.value(bag)?, right.value(bag)?) {
        (Value::Timestamp(left), Value::Timestamp(right)) => Ok(ordered(comparison, &left, &right)),
        _ => Err(BROKEN),
    }
}

/// Whether two addresses, names, mailboxes or URIs are the same.
fn same<'a>(operands: Operands, pair: &'a [Expr; 2], bag: &AttributeBag<'a>) -> Evaluated<'a, bool> {
    let (left, right) = both(pair, bag)?;
    match operands {
        Operands::DnsName => functions::dns_name_equal(left, right, bag.arena()),
        Operands::EmailAddress => functions::email_equal(left, right, bag.arena()),
        Operands::Uri => functions::uri_equal(left, right, bag.arena()),
        _ => Ok(functions::ip_equal(left, right)),
    }
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
