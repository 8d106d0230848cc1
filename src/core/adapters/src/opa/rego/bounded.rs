//! Functions of Rego whose work or result can be much larger than their arguments, with bounds: texts of requests are among the arguments.

mod graph;
mod json;
mod texts;

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use regorus::unstable::{BUILTINS, BuiltinFcn, Expr, Ref, Span};
use regorus::{Engine, Source, Value};

use mixer_base::allocation::may_allocate;
use mixer_expr::functions::pattern_cost;

/// Most elements of a range.
const MAX_RANGE: u64 = 100_000;
/// Most bits by which a number is shifted.
const MAX_SHIFT: u64 = 4096;
/// Longest text that a function makes, in bytes.
const MAX_TEXT: usize = 16 << 20;
/// Longest text of a number, and most digits of its exponent: the engine writes out large numbers.
const MAX_NUMBER: usize = 1024;
const MAX_EXPONENT_DIGITS: usize = 4;
/// Most bits of a product.
const MAX_PRODUCT: u64 = 1 << 16;
/// Longest indentation and prefix of a line.
const MAX_PREFIX: usize = 64;

thread_local! {
    /// Whether a call went beyond a bound. The engine keeps the texts of errors only, and not every error of a call.
    static EXCEEDED: Cell<bool> = const { Cell::new(false) };
}

/// The error of a call beyond a bound. Callers choose the length of texts: it is none of the policy.
fn beyond(text: String) -> anyhow::Error {
    EXCEEDED.set(true);
    anyhow::Error::msg(text)
}

/// Whether a call of this thread went beyond a bound since this was asked last.
pub(super) fn was_exceeded() -> bool {
    EXCEEDED.replace(false)
}

/// Calls of a function, or why it is not called.
type Bounded = fn(&Builtin, &[Value]) -> anyhow::Result<Value>;

/// The functions, which replace those of the engine.
const FUNCTIONS: [(&str, Bounded); 35] = [
    ("bits.lsh", |_, arguments| shifted(arguments)),
    ("concat", |builtin, arguments| within(builtin, arguments, concatenated(arguments))),
    ("graph.reachable_paths", graph::reachable_paths),
    ("indexof", texts::index_of),
    ("indexof_n", texts::indices_of),
    ("json.filter", filtered),
    ("json.is_valid", read),
    ("json.marshal", written),
    ("json.marshal_with_options", indented),
    ("json.remove", filtered),
    ("json.unmarshal", read),
    ("net.cidr_expand", |builtin, arguments| expanded(builtin, arguments)),
    ("numbers.range", |_, arguments| ranged(arguments)),
    ("numbers.range_step", |_, arguments| ranged(arguments)),
    ("object.subset", texts::subset),
    ("object.union_n", texts::united),
    ("product", multiplied),
    ("regex.find_n", |builtin, arguments| searched(builtin, arguments, 0)),
    ("regex.is_valid", |builtin, arguments| searched(builtin, arguments, 0)),
    ("regex.match", |builtin, arguments| searched(builtin, arguments, 0)),
    ("regex.replace", |builtin, arguments| {
        compilable(builtin, text(arguments, 1))?;
        within(builtin, arguments, substituted(arguments))
    }),
    ("regex.split", |builtin, arguments| searched(builtin, arguments, 0)),
    ("regex.template_match", searched_by_template),
    ("replace", |builtin, arguments| within(builtin, arguments, replaced(arguments))),
    ("sprintf", written),
    ("strings.any_prefix_match", texts::compared),
    ("strings.any_suffix_match", texts::compared),
    ("strings.replace_n", |builtin, arguments| replaced_by_all(builtin, arguments)),
    ("to_number", read),
    ("trim", |builtin, arguments| texts::trimmed(builtin, arguments, (true, true))),
    ("trim_left", |builtin, arguments| texts::trimmed(builtin, arguments, (true, false))),
    ("trim_right", |builtin, arguments| texts::trimmed(builtin, arguments, (false, true))),
    ("units.parse", |builtin, arguments| parsed(builtin, arguments)),
    ("units.parse_bytes", |builtin, arguments| parsed(builtin, arguments)),
    ("walk", graph::walk),
];

/// Replaces the functions in an engine. Errors: the engine has no such function.
pub(super) fn replace(engine: &mut Engine) -> anyhow::Result<()> {
    for (name, bounded) in FUNCTIONS {
        let builtin = Arc::new(Builtin::find(name)?);
        let arity = builtin.arity;
        let call = move |arguments: Vec<Value>| bounded(&builtin, &arguments);
        engine.add_extension(name.to_owned(), arity, Box::new(call))?;
    }
    Ok(())
}

/// Whether the text of a number stands for one that is much longer.
pub(super) fn is_immense(number: &str) -> bool {
    let exponents = number.split(['e', 'E']).skip(1);
    let digits = exponents.map(|rest| {
        let rest = rest.trim_start_matches(['+', '-']);
        rest.bytes().take_while(u8::is_ascii_digit).count()
    });
    number.len() > MAX_NUMBER || digits.max().is_some_and(|digits| digits > MAX_EXPONENT_DIGITS)
}

/// A function of the engine.
struct Builtin {
    name: &'static str,
    arity: u8,
    function: BuiltinFcn,
    /// What the function names in its errors; the engine adds the place of the call.
    span: Span,
    parameters: Vec<Ref<Expr>>,
}

impl Builtin {
    fn find(name: &'static str) -> anyhow::Result<Self> {
        let function = *BUILTINS.get(name).ok_or_else(|| anyhow!("the engine has no function {name}"))?;
        let source = Source::from_contents(name.to_owned(), " ".to_owned())?;
        let span = Span { source, line: 1, col: 1, start: 0, end: 1 };
        let parameter = || Ref::new(Expr::Null { span: span.clone(), value: Value::Null, eidx: 0 });
        let parameters = (0..function.1).map(|_| parameter()).collect();
        Ok(Self { name, arity: function.1, function, span, parameters })
    }

    fn call(&self, arguments: &[Value]) -> anyhow::Result<Value> {
        (self.function.0)(&self.span, &self.parameters, arguments, true)
    }
}

/// Calls a function whose result has at most `length` bytes; `None`: its arguments have other types, which it reports.
fn within(builtin: &Builtin, arguments: &[Value], length: Option<usize>) -> anyhow::Result<Value> {
    if length.is_some_and(|length| length > MAX_TEXT) {
        return Err(beyond(format!("{}: a text has at most {MAX_TEXT} bytes", builtin.name)));
    }
    allocate(length.unwrap_or_default())?;
    builtin.call(arguments)
}

/// Asks for the memory of a text, which the engine makes and then copies. Errors: the evaluation has to end.
fn allocate(length: usize) -> anyhow::Result<()> {
    match may_allocate(length.saturating_mul(2)) {
        true => Ok(()),
        false => bail!("a text has no room in the memory of the evaluation"),
    }
}

/// A function that writes out its arguments. One value can stand in another many times, and takes memory once.
fn written(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let mut left = MAX_TEXT;
    if !arguments.iter().all(|argument| has_room(argument, &mut left)) {
        return Err(beyond(format!("{}: a text has at most {MAX_TEXT} bytes", builtin.name)));
    }
    allocate(MAX_TEXT - left)?;
    builtin.call(arguments)
}

/// Takes about the length of a value that is written out from what is left; whether it suffices.
fn has_room(value: &Value, left: &mut usize) -> bool {
    const SEPARATOR: usize = 2;
    let of_itself = match value {
        Value::String(text) => text.len(),
        // A number of this many digits is written out in as many bytes.
        Value::Number(number) => number.as_big().map_or(SEPARATOR, |big| big.bits() as usize / 3),
        _ => 0,
    };
    let Some(rest) = left.checked_sub(of_itself.saturating_add(SEPARATOR)) else { return false };
    *left = rest;
    match value {
        Value::Array(values) => values.iter().all(|value| has_room(value, left)),
        Value::Set(values) => values.iter().all(|value| has_room(value, left)),
        Value::Object(members) => {
            members.iter_sorted().all(|(key, value)| has_room(key, left) && has_room(value, left))
        }
        _ => true,
    }
}

fn text(arguments: &[Value], index: usize) -> Option<&str> {
    match arguments.get(index)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn integer(arguments: &[Value], index: usize) -> anyhow::Result<i64> {
    let value = arguments.get(index).ok_or_else(|| anyhow!("an argument is missing"))?;
    value.as_i64().map_err(|_| anyhow!("an argument is no integer of 64 bits"))
}

/// The length of `concat(delimiter, texts)`.
fn concatenated(arguments: &[Value]) -> Option<usize> {
    let delimiter = text(arguments, 0)?.len();
    let length = |value: &Value| match value {
        Value::String(text) => text.len().saturating_add(delimiter),
        _ => delimiter,
    };
    let add = |sum: usize, length| sum.saturating_add(length);
    match arguments.get(1)? {
        Value::Array(texts) => Some(texts.iter().map(length).fold(0, add)),
        Value::Set(texts) => Some(texts.iter().map(length).fold(0, add)),
        _ => None,
    }
}

/// The most bytes of `text` with each `old` replaced by `new`.
fn after(text: &str, old: &str, new: &str) -> usize {
    let count = if old.is_empty() { text.len() + 1 } else { text.matches(old).count() };
    text.len().saturating_add(count.saturating_mul(new.len()))
}

/// The length of `replace(text, old, new)`.
fn replaced(arguments: &[Value]) -> Option<usize> {
    Some(after(text(arguments, 0)?, text(arguments, 1)?, text(arguments, 2)?))
}

/// Longest pattern, in bytes.
const MAX_PATTERN: usize = 16 << 10;
/// What the classes of a pattern may [cost](pattern_cost): some milliseconds.
const MAX_PATTERN_COST: usize = 200;

/// Why a pattern is refused.
const TOO_COSTLY: &str = "a pattern has too many classes of Unicode characters";

/// Errors: a pattern takes too long to compile, which the timer of the engine does not interrupt.
fn compilable(builtin: &Builtin, pattern: Option<&str>) -> anyhow::Result<()> {
    let Some(pattern) = pattern else { return Ok(()) };
    if pattern.len() > MAX_PATTERN {
        return Err(beyond(format!("{}: a pattern has at most {MAX_PATTERN} bytes", builtin.name)));
    }
    match pattern_cost(pattern) > MAX_PATTERN_COST {
        true => Err(beyond(format!("{}: {TOO_COSTLY}", builtin.name))),
        false => Ok(()),
    }
}

/// A function with a pattern at this place of its arguments.
fn searched(builtin: &Builtin, arguments: &[Value], at: usize) -> anyhow::Result<Value> {
    compilable(builtin, text(arguments, at))?;
    builtin.call(arguments)
}

/// `regex.template_match(template, text, start, end)`: what is between the delimiters is a pattern.
fn searched_by_template(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    if let (Some(template), Some(start), Some(end)) =
        (text(arguments, 0), text(arguments, 2), text(arguments, 3))
    {
        let patterns: Vec<&str> = match start.is_empty() || end.is_empty() {
            true => vec![template],
            false => template.split(start).skip(1).filter_map(|part| part.split(end).next()).collect(),
        };
        patterns.iter().try_for_each(|pattern| compilable(builtin, Some(pattern)))?;
        // Each is compiled.
        let cost: usize = patterns.iter().map(|pattern| pattern_cost(pattern)).sum();
        if cost > MAX_PATTERN_COST {
            return Err(beyond(format!("{}: {TOO_COSTLY}", builtin.name)));
        }
        if template.len() > MAX_PATTERN {
            return Err(beyond(format!("{}: a template has at most {MAX_PATTERN} bytes", builtin.name)));
        }
    }
    builtin.call(arguments)
}

/// The most bytes of `regex.replace(text, pattern, new)`: each match is replaced by `new`, and may stand in it several times.
fn substituted(arguments: &[Value]) -> Option<usize> {
    let (text, new) = (text(arguments, 0)?, text(arguments, 2)?);
    let references = new.matches('$').count();
    let texts = text.len().saturating_mul(references + 1);
    Some(texts.saturating_add((text.len() + 1).saturating_mul(new.len())))
}

/// `strings.replace_n(replacements, text)`, one after the other.
fn replaced_by_all(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let (Some(Value::Object(replacements)), Some(text)) = (arguments.first(), text(arguments, 1)) else {
        return builtin.call(arguments);
    };
    let mut text = text.to_owned();
    for replacement in replacements.iter_sorted() {
        let (Value::String(old), Value::String(new)) = replacement else { return builtin.call(arguments) };
        let length = after(&text, old, new);
        if length > MAX_TEXT {
            return Err(beyond(format!("{}: a text has at most {MAX_TEXT} bytes", builtin.name)));
        }
        allocate(length)?;
        text = text.replace(&**old, new);
    }
    Ok(Value::from(text))
}

/// `net.cidr_expand(range)`.
fn expanded(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let range = text(arguments, 0).and_then(|range| range.split_once('/'));
    let bits = range.and_then(|(address, prefix)| {
        let all: u32 = if address.parse::<IpAddr>().ok()?.is_ipv4() { 32 } else { 128 };
        all.checked_sub(prefix.parse().ok()?)
    });
    if bits.is_some_and(|bits| 1_u64.checked_shl(bits).is_none_or(|count| count > MAX_RANGE)) {
        return Err(beyond(format!("{}: a range has at most {MAX_RANGE} elements", builtin.name)));
    }
    builtin.call(arguments)
}

/// `units.parse(text)`.
fn parsed(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    if text(arguments, 0).is_some_and(is_immense) {
        return Err(beyond(format!(
            "{}: a number has at most {MAX_NUMBER} characters, and {MAX_EXPONENT_DIGITS} digits of an exponent",
            builtin.name
        )));
    }
    builtin.call(arguments)
}

/// `json.unmarshal(text)`, `json.is_valid(text)` and `to_number(text)`.
fn read(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    text(arguments, 0)
        .map_or(Ok(()), json::readable)
        .map_err(|refused| beyond(format!("{}: {refused}", builtin.name)))?;
    builtin.call(arguments)
}

/// `json.filter(object, paths)` and `json.remove(object, paths)`.
fn filtered(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    json::readable_paths(arguments.get(1))
        .map_err(|refused| beyond(format!("{}: {refused}", builtin.name)))?;
    builtin.call(arguments)
}

/// `json.marshal_with_options(value, options)`.
fn indented(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    if let Some(Value::Object(options)) = arguments.get(1) {
        let is_long = |value: &Value| matches!(value, Value::String(text) if text.len() > MAX_PREFIX);
        if options.iter_sorted().any(|(_, value)| is_long(value)) {
            return Err(beyond(format!(
                "{}: an indentation and a prefix have at most {MAX_PREFIX} bytes",
                builtin.name
            )));
        }
    }
    written(builtin, arguments)
}

/// `product(numbers)`.
fn multiplied(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let bits = |number: &Value| match number {
        Value::Number(number) => number.as_big().map_or(1, |number| number.bits()),
        _ => 1,
    };
    let bits: u64 = match arguments.first() {
        Some(Value::Array(numbers)) => numbers.iter().map(bits).sum(),
        Some(Value::Set(numbers)) => numbers.iter().map(bits).sum(),
        _ => 0,
    };
    if bits > MAX_PRODUCT {
        return Err(beyond(format!("product: a product has at most {MAX_PRODUCT} bits")));
    }
    builtin.call(arguments)
}

/// `bits.lsh(x, n)`.
fn shifted(arguments: &[Value]) -> anyhow::Result<Value> {
    let value = arguments.first().ok_or_else(|| anyhow!("an argument is missing"))?;
    let bits = integer(arguments, 1)?;
    let allowed = u64::try_from(bits).is_ok_and(|bits| bits <= MAX_SHIFT);
    if !allowed {
        return Err(beyond(format!("bits.lsh: at most {MAX_SHIFT} bits are shifted, not {bits}")));
    }
    let shift = Value::from(bits);
    Ok(value.as_number()?.lsh(shift.as_number()?).map_or(Value::Undefined, Value::from))
}

/// `numbers.range(a, b)` and `numbers.range_step(a, b, step)`.
fn ranged(arguments: &[Value]) -> anyhow::Result<Value> {
    let (first, last) = (integer(arguments, 0)?, integer(arguments, 1)?);
    let step = if arguments.len() > 2 { integer(arguments, 2)? } else { 1 };
    if step < 1 {
        bail!("step must be a positive integer");
    }
    let distance = first.abs_diff(last);
    let count = distance / step.unsigned_abs() + 1;
    if count > MAX_RANGE {
        return Err(beyond(format!("a range has at most {MAX_RANGE} elements, not {count}")));
    }
    let mut values = Vec::new();
    let mut at = first;
    loop {
        values.push(Value::from(at));
        let next = if last >= first { at.checked_add(step) } else { at.checked_sub(step) };
        match next.filter(|next| if last >= first { *next <= last } else { *next >= last }) {
            Some(next) => at = next,
            None => return Ok(Value::from(values)),
        }
    }
}
