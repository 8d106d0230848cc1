//! Evaluation.
//!
//! A node is evaluated by [`Expr::value`] (absence is an error), [`Expr::attempt`] (absence is `None`, for the left of `|`) or
//! [`Expr::is_true`] (absence is an error, for conditions).

use bumpalo::collections::Vec as ArenaVec;

use super::{Attribute, Comparison, Expr, ExprKind, Glob, Literal, MapEntry, Operands, Unary};
use crate::functions::Regex;
use crate::{Bound, EvalError, functions};
use mixer_attribute::text::go_text;
use mixer_attribute::{AttributeBag, SignedDuration, StringMap, Value, ValueType};

type Evaluated<'a, T> = Result<T, EvalError<'a>>;

/// The result of `emptyStringMap()`.
static EMPTY_MAP: StringMap<'static> = StringMap { entries: &[], source: None };

/// A value whose type differs from the static type. Unreachable.
const TYPE_MISMATCH: EvalError<'static> = EvalError::Failed("the value has another type than the expression");

impl Literal {
    pub(super) fn value(&self) -> Evaluated<'_, Value<'_>> {
        Ok(match self {
            Literal::Bytes(bytes) => Value::String(bytes),
            Literal::Address(address) => Value::Bytes(address),
            Literal::Int64(number) => Value::Int64(*number),
            Literal::Double(number) => Value::Double(*number),
            Literal::Bool(value) => Value::Bool(*value),
            Literal::Duration(duration) => Value::Duration(*duration),
            Literal::Timestamp(instant) => Value::Timestamp(*instant),
            Literal::EmptyMap => Value::StringMap(&EMPTY_MAP),
            Literal::Failed(text) => return Err(EvalError::Failed(text)),
        })
    }
}

impl Attribute {
    /// The value, converted to the declared type; `None` if absent.
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
        let expected = match self.value_type {
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
            format_args!("error converting value to {expected}: '{}'", go_text(value)),
        )
    }
}

impl MapEntry {
    /// The value of the key; `None` if the map or the key is absent.
    #[inline]
    pub(super) fn attempt<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, Option<&'a [u8]>> {
        match self.map.attempt(bag)? {
            Some(Value::StringMap(map)) => Ok(bag.lookup(map, &self.key)),
            Some(_) => Err(TYPE_MISMATCH),
            None => Ok(None),
        }
    }

    /// The value of the key, empty if it is absent; an absent map is an error.
    #[inline]
    pub(super) fn value<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, &'a [u8]> {
        match self.map.value(bag)? {
            Value::StringMap(map) => Ok(bag.lookup(map, &self.key).unwrap_or(b"")),
            _ => Err(TYPE_MISMATCH),
        }
    }
}

/// The recursive functions below are small on purpose: unoptimised builds reserve stack for all temporaries of a function, and
/// the deepest program must fit into 2 MB there, too.
impl Expr {
    /// Evaluates; an absent attribute is an error.
    pub(super) fn value<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
        match &self.kind {
            ExprKind::Literal(literal) => literal.value(),
            ExprKind::Attribute(attribute) => attribute.value(bag),
            ExprKind::AttributeOr { attribute, default } => attribute_or(*attribute, default, bag),
            ExprKind::Entry(entry) => entry_value(entry, bag),
            ExprKind::EntryOr { entry, default } => entry_or(entry, default, bag),
            ExprKind::Index(pair) => index(pair, bag),
            ExprKind::FirstOf(list) => first_of(list, bag),
            ExprKind::Conditional(triple) => conditional(triple, bag),
            ExprKind::ConditionalString(triple) => conditional_string(triple, bag),
            ExprKind::Concat(list) => concat(list, bag),
            ExprKind::AddInt64(list) => add_int64(list, bag),
            ExprKind::AddDouble(list) => add_double(list, bag),
            ExprKind::Apply { function, argument } => apply(*function, argument, bag),
            ExprKind::All(_)
            | ExprKind::Any(_)
            | ExprKind::AttributeIs { .. }
            | ExprKind::EntryIs { .. }
            | ExprKind::Compare { .. }
            | ExprKind::MatchesGlob { .. }
            | ExprKind::Match(_)
            | ExprKind::MatchesRegex { .. }
            | ExprKind::Matches(_)
            | ExprKind::StartsWith(_)
            | ExprKind::EndsWith(_) => bool_value(self, bag),
        }
    }

    /// Evaluates on the left of `|`: an absent attribute, map or key is `None`.
    pub(super) fn attempt<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, Option<Value<'a>>> {
        match &self.kind {
            ExprKind::Attribute(attribute) => attribute.attempt(bag),
            ExprKind::Entry(entry) => Ok(entry.attempt(bag)?.map(Value::String)),
            ExprKind::Index(pair) => attempt_index(pair, bag),
            ExprKind::FirstOf(list) => attempt_first_of(list, bag),
            _ => self.value(bag).map(Some),
        }
    }

    /// Evaluates a condition.
    pub(super) fn is_true<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, bool> {
        match &self.kind {
            ExprKind::All(list) => all(list, bag),
            ExprKind::Any(list) => any(list, bag),
            ExprKind::AttributeIs { attribute, constant, expected } => {
                attribute_is(*attribute, constant, *expected, bag)
            }
            ExprKind::EntryIs { entry, constant, expected } => entry_is(entry, constant, *expected, bag),
            ExprKind::Compare { comparison, operands, pair } => compare(*comparison, *operands, pair, bag),
            ExprKind::MatchesGlob { subject, glob } => matches_glob(subject, glob, bag),
            ExprKind::Match(pair) => test(pair, bag, functions::glob_match),
            ExprKind::MatchesRegex { regex, subject } => matches_regex(regex, subject, bag),
            ExprKind::Matches(pair) => matches(pair, bag),
            ExprKind::StartsWith(pair) => test(pair, bag, |text, prefix| text.starts_with(prefix)),
            ExprKind::EndsWith(pair) => test(pair, bag, |text, suffix| text.ends_with(suffix)),
            _ => self.value_as_bool(bag),
        }
    }

    fn value_as_bool<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, bool> {
        match self.value(bag)? {
            Value::Bool(value) => Ok(value),
            _ => Err(TYPE_MISMATCH),
        }
    }

    fn bytes<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, &'a [u8]> {
        match self.value(bag)? {
            Value::String(bytes) | Value::Bytes(bytes) => Ok(bytes),
            _ => Err(TYPE_MISMATCH),
        }
    }

    fn int64<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, i64> {
        match self.value(bag)? {
            Value::Int64(number) => Ok(number),
            _ => Err(TYPE_MISMATCH),
        }
    }

    fn double<'a>(&'a self, bag: &AttributeBag<'a>) -> Evaluated<'a, f64> {
        match self.value(bag)? {
            Value::Double(number) => Ok(number),
            _ => Err(TYPE_MISMATCH),
        }
    }
}

fn bool_value<'a>(expr: &'a Expr, bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    expr.is_true(bag).map(Value::Bool)
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
fn entry_value<'a>(entry: &'a MapEntry, bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    entry.value(bag).map(Value::String)
}

#[inline]
fn entry_or<'a>(
    entry: &'a MapEntry,
    default: &'a Literal,
    bag: &AttributeBag<'a>,
) -> Evaluated<'a, Value<'a>> {
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
        _ => Err(TYPE_MISMATCH),
    }
}

#[inline]
fn entry_is<'a>(
    entry: &'a MapEntry,
    constant: &[u8],
    expected: bool,
    bag: &AttributeBag<'a>,
) -> Evaluated<'a, bool> {
    Ok((entry.value(bag)? == constant) == expected)
}

fn all<'a>(list: &'a [Expr], bag: &AttributeBag<'a>) -> Evaluated<'a, bool> {
    for conjunct in list {
        if !conjunct.is_true(bag)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn any<'a>(list: &'a [Expr], bag: &AttributeBag<'a>) -> Evaluated<'a, bool> {
    for disjunct in list {
        if disjunct.is_true(bag)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Evaluates two strings from left to right and tests them.
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
        Ok(regex) => functions::search(regex, subject, bag),
        Err(text) => Err(EvalError::Failed(text)),
    }
}

fn matches<'a>(pair: &'a [Expr; 2], bag: &AttributeBag<'a>) -> Evaluated<'a, bool> {
    let (pattern, subject) = both(pair, bag)?;
    functions::matches(pattern, subject, bag)
}

/// Counts what is about to be made. Errors: the expressions of the request make too much.
fn count_made<'a>(bytes: usize, bag: &AttributeBag<'a>) -> Evaluated<'a, ()> {
    if bag.count_made(bytes) {
        return Ok(());
    }
    Err(EvalError::Exhausted(Bound::MadeText(bag.search_limit())))
}

fn apply<'a>(function: Unary, argument: &'a Expr, bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    let text = argument.bytes(bag)?;
    count_made(
        match function {
            Unary::ToLower => functions::made_by_lower(text),
            Unary::Uri => functions::read_as_uri(text),
            Unary::Email => functions::read_as_email(text),
            Unary::Ip | Unary::Timestamp | Unary::DnsName => text.len(),
            Unary::Size => 0,
        },
        bag,
    )?;
    function.apply(text, bag.arena())
}

/// Evaluates two strings from left to right.
fn both<'a>(pair: &'a [Expr; 2], bag: &AttributeBag<'a>) -> Evaluated<'a, (&'a [u8], &'a [u8])> {
    let [left, right] = pair;
    Ok((left.bytes(bag)?, right.bytes(bag)?))
}

fn index<'a>(pair: &'a [Expr; 2], bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    let [map, key] = pair;
    match (map.value(bag)?, key.value(bag)?) {
        (Value::StringMap(map), Value::String(key)) => Ok(Value::String(bag.lookup(map, key).unwrap_or(b""))),
        _ => Err(TYPE_MISMATCH),
    }
}

fn attempt_index<'a>(pair: &'a [Expr; 2], bag: &AttributeBag<'a>) -> Evaluated<'a, Option<Value<'a>>> {
    let [map, key] = pair;
    let Some(map) = map.attempt(bag)? else { return Ok(None) };
    let Some(key) = key.attempt(bag)? else { return Ok(None) };
    match (map, key) {
        (Value::StringMap(map), Value::String(key)) => Ok(bag.lookup(map, key).map(Value::String)),
        _ => Err(TYPE_MISMATCH),
    }
}

fn first_of<'a>(list: &'a [Expr], bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    let Some((last, options)) = list.split_last() else { return Err(TYPE_MISMATCH) };
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
    let chosen = if test.is_true(bag)? { then } else { otherwise };
    chosen.value(bag)
}

fn conditional_string<'a>(triple: &'a [Expr; 3], bag: &AttributeBag<'a>) -> Evaluated<'a, Value<'a>> {
    let [test, then, otherwise] = triple;
    let test = test.is_true(bag)?;
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
    count_made(length, bag)?;
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
    // Starting from 0.0 would turn -0.0 into 0.0.
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
            Ok(equal(operands, pair, bag)? == (comparison == Comparison::Equal))
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

/// compat(1.3): doubles are equal if their bits are.
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
    Ok(ordered(comparison, &left.is_true(bag)?, &right.is_true(bag)?))
}

fn compare_timestamp<'a>(
    comparison: Comparison,
    [left, right]: &'a [Expr; 2],
    bag: &AttributeBag<'a>,
) -> Evaluated<'a, bool> {
    match (left.value(bag)?, right.value(bag)?) {
        (Value::Timestamp(left), Value::Timestamp(right)) => Ok(ordered(comparison, &left, &right)),
        _ => Err(TYPE_MISMATCH),
    }
}

/// Whether two addresses, names, mailboxes or URIs are equal.
fn equal<'a>(operands: Operands, pair: &'a [Expr; 2], bag: &AttributeBag<'a>) -> Evaluated<'a, bool> {
    let (left, right) = both(pair, bag)?;
    for text in [left, right] {
        count_made(
            match operands {
                Operands::EmailAddress => functions::read_as_email(text),
                Operands::Uri => functions::read_as_uri(text),
                _ => text.len(),
            },
            bag,
        )?;
    }
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
