//! Functions of Rego whose work or result can be much larger than their arguments, with bounds: texts of requests are among the arguments.

mod graph;
mod harmless;
mod json;
mod patterns;
mod texts;

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use regorus::unstable::{BUILTINS, BuiltinFcn, Expr, Ref, Span};
use regorus::{Engine, Source, Value};

use super::lanes::INLINE;
use harmless::HARMLESS;
use mixer_base::allocation::{may_allocate, timed};

/// Most elements of a range.
const MAX_RANGE: u64 = 100_000;
/// Most bits by which a number is shifted.
const MAX_SHIFT: u64 = 4096;
/// Longest text that a function makes, in bytes.
const MAX_TEXT: usize = 16 << 20;
/// Most bytes that replacements look at, one after the other.
const MAX_REPLACED: usize = 16 << 20;
/// Longest text of a number, and most digits of its exponent: the engine writes out large numbers.
const MAX_NUMBER: usize = 1024;
const MAX_EXPONENT_DIGITS: usize = 4;
/// Most bits of a product.
const MAX_PRODUCT: u64 = 1 << 16;
/// Most steps of a sum or product: one for each number, and for each [`STEP`] bits that the result may have by then.
const MAX_STEPS: u64 = 1 << 20;
/// Bits of a result that take about as long to copy as another step.
const STEP: u64 = 1 << 10;
/// Longest indentation and prefix of a line.
const MAX_PREFIX: usize = 64;

/// What stopped a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beyond {
    /// It went beyond a bound.
    Bound,
    /// It takes more time than the evaluation has.
    Time,
}

/// The evaluation of a thread.
#[derive(Debug, Clone, Copy)]
struct Evaluation {
    until: Instant,
    /// Whether it holds up the thread of its call.
    is_short: bool,
    /// The engine keeps the texts of errors only, and not every error of a call.
    beyond: Option<Beyond>,
}

thread_local! {
    static EVALUATION: Cell<Option<Evaluation>> = const { Cell::new(None) };
}

/// Runs an evaluation that has so much time. Returns what stopped a call, if one was.
pub(super) fn evaluating<T>(limit: Duration, work: impl FnOnce() -> T) -> (T, Option<Beyond>) {
    /// Also if it panics.
    struct Ends;
    impl Drop for Ends {
        fn drop(&mut self) {
            EVALUATION.set(None);
        }
    }
    let _ends = Ends;
    // A time that cannot be written is none to wait for.
    let until = Instant::now().checked_add(limit);
    EVALUATION.set(until.map(|until| Evaluation { until, is_short: limit <= INLINE, beyond: None }));
    let done = work();
    (done, EVALUATION.get().and_then(|evaluation| evaluation.beyond))
}

fn note(beyond: Beyond) {
    let evaluation = EVALUATION.get();
    EVALUATION.set(evaluation.map(|evaluation| Evaluation { beyond: Some(beyond), ..evaluation }));
}

/// The error of a call beyond a bound. Callers choose the length of texts: it is none of the policy.
fn beyond(text: String) -> anyhow::Error {
    note(Beyond::Bound);
    anyhow::Error::msg(text)
}

/// The error of a call for which there is no time.
fn late() -> anyhow::Error {
    note(Beyond::Time);
    anyhow!("the evaluation has no time left")
}

/// Whether a call of the evaluation was stopped.
fn is_beyond() -> bool {
    EVALUATION.get().is_some_and(|evaluation| evaluation.beyond.is_some())
}

/// Whether the evaluation holds up the thread of its call, so that what takes long is not begun: it begins again on another one.
fn is_of_short_evaluation() -> bool {
    EVALUATION.get().is_some_and(|evaluation| evaluation.is_short)
}

/// Calls a function of the engine that asks for each part of its result whether the evaluation has to end, which is told when its time is
/// over.
fn within_time(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let Some(Evaluation { until, .. }) = EVALUATION.get() else { return builtin.call(arguments) };
    let (result, was_late) = timed(until, || builtin.call(arguments));
    if was_late { Err(late()) } else { result }
}

/// Calls of a function, or why it is not called.
type Bounded = fn(&Builtin, &[Value]) -> anyhow::Result<Value>;

/// The functions, which replace those of the engine.
const FUNCTIONS: [(&str, Bounded); 44] = [
    ("bits.lsh", |_, arguments| shifted(arguments)),
    ("concat", |builtin, arguments| within(builtin, arguments, concatenated(arguments))),
    ("glob.match", patterns::matched_by_glob),
    ("glob.quote_meta", patterns::quoted_glob),
    // Nodes may share a list of neighbours.
    ("graph.reachable", within_time),
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
    ("regex.find_all_string_submatch_n", patterns::captured),
    ("regex.find_n", patterns::searched),
    ("regex.is_valid", patterns::validated),
    ("regex.match", patterns::searched),
    ("regex.replace", patterns::replaced),
    ("regex.split", patterns::searched),
    ("regex.template_match", patterns::matched_by_template),
    ("replace", |builtin, arguments| within(builtin, arguments, replaced(arguments))),
    ("sprintf", printed),
    ("strings.any_prefix_match", texts::compared),
    ("strings.any_suffix_match", texts::compared),
    ("strings.count", texts::counted),
    ("strings.replace_n", |builtin, arguments| replaced_by_all(builtin, arguments)),
    ("sum", added),
    ("time.format", patterns::laid_out),
    ("time.parse_ns", patterns::laid_out),
    ("to_number", read),
    ("trim", |builtin, arguments| texts::trimmed(builtin, arguments, (true, true))),
    ("trim_left", |builtin, arguments| texts::trimmed(builtin, arguments, (true, false))),
    ("trim_right", |builtin, arguments| texts::trimmed(builtin, arguments, (false, true))),
    ("union", texts::united_sets),
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

/// Whether policies may call a function of the engine: one of which nothing is known is none.
pub(super) fn is_available(name: &str) -> bool {
    let mut bounded = FUNCTIONS.iter().map(|(known, _)| known);
    let mut harmless = HARMLESS.iter().map(|(known, _)| known);
    BUILTINS.contains_key(name)
        && (bounded.any(|known| *known == name) || harmless.any(|known| *known == name))
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
    written_out(builtin, arguments, (1, 0))
}

/// `sprintf(format, values)`, which copies what is in a value at each level once more.
fn printed(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    written_out(builtin, arguments, (1, 1))
}

/// `copies`: how often the text of a value is copied, and how much more often that of its parts.
fn written_out(builtin: &Builtin, arguments: &[Value], copies: (usize, usize)) -> anyhow::Result<Value> {
    let mut left = MAX_TEXT;
    if !arguments.iter().all(|argument| has_room(argument, &mut left, copies)) {
        return Err(beyond(format!("{}: a text has at most {MAX_TEXT} bytes", builtin.name)));
    }
    allocate(MAX_TEXT - left)?;
    builtin.call(arguments)
}

/// Takes about the length of a value that is written out from what is left; whether it suffices.
fn has_room(value: &Value, left: &mut usize, (copies, more): (usize, usize)) -> bool {
    const SEPARATOR: usize = 2;
    let of_itself = match value {
        Value::String(text) => text.len(),
        // A number of this many digits is written out in as many bytes.
        Value::Number(number) => number.as_big().map_or(SEPARATOR, |big| big.bits() as usize / 3),
        _ => 0,
    };
    let length = of_itself.saturating_add(SEPARATOR).saturating_mul(copies);
    let Some(rest) = left.checked_sub(length) else { return false };
    *left = rest;
    let mut has_room = |value: &Value| has_room(value, left, (copies + more, more));
    match value {
        Value::Array(values) => values.iter().all(has_room),
        Value::Set(values) => values.iter().all(has_room),
        Value::Object(members) => members.iter_sorted().all(|(key, value)| has_room(key) && has_room(value)),
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

/// `strings.replace_n(replacements, text)`, one after the other.
fn replaced_by_all(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let (Some(Value::Object(replacements)), Some(text)) = (arguments.first(), text(arguments, 1)) else {
        return builtin.call(arguments);
    };
    let mut text = text.to_owned();
    let mut left = MAX_REPLACED;
    for replacement in replacements.iter_sorted() {
        let (Value::String(old), Value::String(new)) = replacement else { return builtin.call(arguments) };
        let Some(rest) = left.checked_sub(text.len().saturating_add(old.len())) else {
            return Err(beyond(format!(
                "{}: the length of a text times the number of its replacements is at most {MAX_REPLACED}",
                builtin.name
            )));
        };
        left = rest;
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
        // The engine takes addresses that the standard library does not, such as `010.0.0.0`.
        let all: u32 = if address.contains(':') { 128 } else { 32 };
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
    let (count, bits, _) = numbers(arguments);
    if bits > MAX_PRODUCT {
        return Err(beyond(format!("product: a product has at most {MAX_PRODUCT} bits")));
    }
    calculated(builtin, arguments, count, bits)
}

/// `sum(numbers)`.
fn added(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let (count, _, longest) = numbers(arguments);
    calculated(builtin, arguments, count, longest)
}

/// Calls a function that makes numbers of at most so many bits, for each argument another.
fn calculated(builtin: &Builtin, arguments: &[Value], count: u64, bits: u64) -> anyhow::Result<Value> {
    if count.saturating_mul(bits / STEP + 1) > MAX_STEPS {
        return Err(beyond(format!(
            "{}: the count of numbers times the length of the result in units of {STEP} bits is at most {MAX_STEPS}",
            builtin.name
        )));
    }
    builtin.call(arguments)
}

/// How many numbers there are, their bits, and those of the longest.
fn numbers(arguments: &[Value]) -> (u64, u64, u64) {
    let bits = |number: &Value| match number {
        Value::Number(number) => number.as_big().map_or(1, |number| number.bits()),
        _ => 1,
    };
    let add = |(count, sum, longest): (u64, u64, u64), bits: u64| {
        (count + 1, sum.saturating_add(bits), longest.max(bits))
    };
    match arguments.first() {
        Some(Value::Array(numbers)) => numbers.iter().map(bits).fold((0, 0, 0), add),
        Some(Value::Set(numbers)) => numbers.iter().map(bits).fold((0, 0, 0), add),
        _ => (0, 0, 0),
    }
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

#[cfg(test)]
mod tests;
