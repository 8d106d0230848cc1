//! Texts from nodes and data.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::io::Write as _;

use mixer_attribute::text::go_text;
use mixer_attribute::{SignedDuration, Value};
use mixer_base::decimal;

use super::layout::push_formatted;
use super::{Branch, Command, Function, Literal, Node, Operand, Pipeline, Printing};

/// The data of a template: a value for a key.
type Data<'d, 'v> = &'d dyn Fn(&str) -> Option<Value<'v>>;

/// A value while a template is executed.
#[derive(Debug, Clone)]
enum Item<'t, 'v> {
    /// The data itself.
    Data,
    /// A key that the data do not have, or `nil`.
    Absent,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Cow<'t, [u8]>),
    /// A value of any other type.
    Value(Value<'v>),
}

struct Executor<'d, 'v> {
    data: Data<'d, 'v>,
    printing: Printing,
}

/// Appends the text of all nodes. Errors: a function that does not take its arguments.
pub(super) fn execute<'v>(
    nodes: &[Node],
    data: Data<'_, 'v>,
    printing: Printing,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    Executor { data, printing }.nodes(nodes, &Item::Data, out)
}

impl<'v> Executor<'_, 'v> {
    fn nodes<'t>(&self, nodes: &'t [Node], dot: &Item<'t, 'v>, out: &mut Vec<u8>) -> Result<(), String>
    where
        'v: 't,
    {
        for node in nodes {
            match node {
                Node::Text(text) => self.push_text(out, text),
                Node::Print(pipeline) => self.print(out, &self.pipeline(pipeline, dot)?),
                Node::If(branch) => {
                    let chosen = self.chosen(branch, &self.pipeline(&branch.subject, dot)?);
                    self.nodes(chosen, dot, out)?;
                }
                Node::With(branch) => {
                    let subject = self.pipeline(&branch.subject, dot)?;
                    let is_true = is_true(&subject);
                    let within = if is_true { &subject } else { dot };
                    self.nodes(self.chosen(branch, &subject), within, out)?;
                }
                Node::Range(branch) => self.range(branch, dot, out)?,
            }
        }
        Ok(())
    }

    /// Appends a text of the template.
    fn push_text(&self, out: &mut Vec<u8>, text: &str) {
        let Printing::Html = self.printing else {
            out.extend_from_slice(text.as_bytes());
            return;
        };
        // A `<` that begins no tag is text.
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('<') {
            out.extend_from_slice(before.as_bytes());
            let is_tag = after.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!'));
            out.extend_from_slice(if is_tag { b"<" } else { b"&lt;" });
            rest = after;
        }
        out.extend_from_slice(rest.as_bytes());
    }

    /// Appends a value in the place of an action.
    fn print(&self, out: &mut Vec<u8>, item: &Item<'_, 'v>) {
        let before = out.len();
        match self.printing {
            Printing::Text(escape) => {
                push(out, item);
                escape(out.get_mut(before..).unwrap_or_default());
            }
            Printing::Plain | Printing::Html if matches!(item, Item::Absent) => {}
            Printing::Plain => push(out, item),
            Printing::Html => {
                push(out, item);
                let plain = out.split_off(before);
                push_html(out, &plain);
            }
        }
    }

    fn chosen<'t>(&self, branch: &'t Branch, subject: &Item<'_, 'v>) -> &'t [Node] {
        if is_true(subject) { &branch.then } else { &branch.otherwise }
    }

    fn range<'t>(&self, branch: &'t Branch, dot: &Item<'t, 'v>, out: &mut Vec<u8>) -> Result<(), String>
    where
        'v: 't,
    {
        let subject = self.pipeline(&branch.subject, dot)?;
        match &subject {
            Item::Value(Value::StringMap(map)) if !map.entries.is_empty() => {
                let mut entries = map.entries.to_vec();
                entries.sort_unstable();
                for (_, value) in entries {
                    self.nodes(&branch.then, &Item::Text(Cow::Borrowed(value)), out)?;
                }
                Ok(())
            }
            Item::Value(Value::Bytes(bytes)) if !bytes.is_empty() => {
                bytes.iter().try_for_each(|byte| self.nodes(&branch.then, &Item::Int(i64::from(*byte)), out))
            }
            Item::Value(Value::StringMap(_) | Value::Bytes(_)) | Item::Absent => {
                self.nodes(&branch.otherwise, dot, out)
            }
            other => Err(format!("range can't iterate over {}", described(other))),
        }
    }

    fn pipeline<'t>(&self, pipeline: &'t Pipeline, dot: &Item<'t, 'v>) -> Result<Item<'t, 'v>, String>
    where
        'v: 't,
    {
        let mut last = None;
        for Command { operands } in pipeline {
            let [first, rest @ ..] = operands.as_slice() else { continue };
            let mut arguments = Vec::new();
            if let Operand::Function(function) = first {
                for operand in rest {
                    arguments.push(self.operand(operand, dot)?);
                }
                arguments.extend(last.take());
                last = Some(self.call(*function, arguments)?);
            } else {
                last = Some(self.operand(first, dot)?);
            }
        }
        Ok(last.unwrap_or(Item::Absent))
    }

    fn operand<'t>(&self, operand: &'t Operand, dot: &Item<'t, 'v>) -> Result<Item<'t, 'v>, String>
    where
        'v: 't,
    {
        match operand {
            Operand::Field(path) => self.fields(dot.clone(), path),
            Operand::Root(path) => self.fields(Item::Data, path),
            Operand::Pipeline(inner, path) => self.fields(self.pipeline(inner, dot)?, path),
            Operand::Function(function) => self.call(*function, Vec::new()),
            Operand::Literal(literal) => Ok(match literal {
                Literal::Nil => Item::Absent,
                Literal::Bool(value) => Item::Bool(*value),
                Literal::Int(number) => Item::Int(*number),
                Literal::Float(number) => Item::Float(*number),
                Literal::Text(text) => Item::Text(Cow::Borrowed(text.as_bytes())),
            }),
        }
    }

    fn fields<'t>(&self, mut item: Item<'t, 'v>, path: &[String]) -> Result<Item<'t, 'v>, String>
    where
        'v: 't,
    {
        for name in path {
            item = match item {
                Item::Data => self.look_up(name),
                Item::Value(Value::StringMap(map)) => {
                    entry(map.entries, name.as_bytes()).unwrap_or(Item::Absent)
                }
                Item::Absent => Item::Absent,
                other => return Err(format!("can't evaluate field {name} in {}", described(&other))),
            };
        }
        Ok(item)
    }

    fn look_up<'t>(&self, name: &str) -> Item<'t, 'v>
    where
        'v: 't,
    {
        match (self.data)(name) {
            None => Item::Absent,
            Some(Value::String(text)) => Item::Text(Cow::Borrowed(text)),
            Some(Value::Int64(number)) => Item::Int(number),
            Some(Value::Double(number)) => Item::Float(number),
            Some(Value::Bool(value)) => Item::Bool(value),
            Some(value) => Item::Value(value),
        }
    }

    fn call<'t>(&self, function: Function, arguments: Vec<Item<'t, 'v>>) -> Result<Item<'t, 'v>, String>
    where
        'v: 't,
    {
        let name = function.name();
        let counts = |least: usize, most: usize| match arguments.len() {
            count if (least..=most).contains(&count) => Ok(()),
            count => Err(format!("wrong number of args for {name}: want {least} got {count}")),
        };
        match function {
            Function::And | Function::Or => {
                counts(1, usize::MAX)?;
                let stops = |item: &Item<'_, '_>| is_true(item) == (function == Function::Or);
                let found = arguments.iter().position(stops).unwrap_or(arguments.len() - 1);
                Ok(arguments.into_iter().nth(found).unwrap_or(Item::Absent))
            }
            Function::Not => {
                counts(1, 1)?;
                Ok(Item::Bool(!arguments.first().is_some_and(is_true)))
            }
            Function::Eq => {
                counts(2, usize::MAX)?;
                let [first, others @ ..] = arguments.as_slice() else { return Ok(Item::Bool(false)) };
                for other in others {
                    if is_equal(first, other)? {
                        return Ok(Item::Bool(true));
                    }
                }
                Ok(Item::Bool(false))
            }
            Function::Ne | Function::Lt | Function::Le | Function::Gt | Function::Ge => {
                counts(2, 2)?;
                let [a, b] = arguments.as_slice() else { return Ok(Item::Bool(false)) };
                if function == Function::Ne {
                    return Ok(Item::Bool(!is_equal(a, b)?));
                }
                if matches!(a, Item::Bool(_)) {
                    return Err(format!("error calling {name}: invalid type for comparison"));
                }
                let order = compared(a, b)?;
                Ok(Item::Bool(match function {
                    Function::Lt => order.is_some_and(Ordering::is_lt),
                    Function::Le => order.is_some_and(Ordering::is_le),
                    Function::Gt => order.is_some_and(Ordering::is_gt),
                    _ => order.is_some_and(Ordering::is_ge),
                }))
            }
            Function::Index => {
                counts(1, usize::MAX)?;
                let mut arguments = arguments.into_iter();
                let mut item = arguments.next().unwrap_or(Item::Absent);
                for key in arguments {
                    item = self.indexed(item, &key)?;
                }
                Ok(item)
            }
            Function::Len => {
                counts(1, 1)?;
                let length = match arguments.first() {
                    Some(Item::Text(text)) => text.len(),
                    Some(Item::Value(Value::Bytes(bytes))) => bytes.len(),
                    Some(Item::Value(Value::StringMap(map))) => map.entries.len(),
                    other => {
                        let shown = other.map(described).unwrap_or_default();
                        return Err(format!("error calling len: len of {shown}"));
                    }
                };
                Ok(Item::Int(i64::try_from(length).unwrap_or(i64::MAX)))
            }
            Function::Print | Function::Println => {
                let is_line = function == Function::Println;
                let mut out = Vec::new();
                let mut before: Option<&Item<'_, '_>> = None;
                for item in &arguments {
                    let is_text = |item: &Item<'_, '_>| matches!(item, Item::Text(_));
                    if before.is_some_and(|before| is_line || !is_text(before) && !is_text(item)) {
                        out.push(b' ');
                    }
                    match item {
                        Item::Absent => out.extend_from_slice(b"<nil>"),
                        item => push(&mut out, item),
                    }
                    before = Some(item);
                }
                if is_line {
                    out.push(b'\n');
                }
                Ok(Item::Text(Cow::Owned(out)))
            }
            Function::Printf => {
                counts(1, usize::MAX)?;
                let [Item::Text(format), rest @ ..] = arguments.as_slice() else {
                    return Err("wrong type for value; expected string".to_owned());
                };
                Ok(Item::Text(Cow::Owned(formatted(format, rest))))
            }
            Function::Format => match arguments.as_slice() {
                [Item::Value(Value::Timestamp(time)), Item::Text(layout)] => {
                    let mut text = Vec::new();
                    push_formatted(&mut text, *time, &String::from_utf8_lossy(layout));
                    Ok(Item::Text(Cow::Owned(text)))
                }
                [Item::Value(Value::Timestamp(_)), _] => {
                    Err("wrong type for value; expected string".to_owned())
                }
                _ => Err("Format is a method of times with one argument".to_owned()),
            },
        }
    }

    fn indexed<'t>(&self, item: Item<'t, 'v>, key: &Item<'t, 'v>) -> Result<Item<'t, 'v>, String>
    where
        'v: 't,
    {
        match (item, key) {
            (Item::Data, Item::Text(key)) => Ok(self.look_up(&String::from_utf8_lossy(key))),
            (Item::Value(Value::StringMap(map)), Item::Text(key)) => {
                Ok(entry(map.entries, key).unwrap_or(Item::Text(Cow::Borrowed(b""))))
            }
            (Item::Value(Value::Bytes(bytes)), Item::Int(at)) => {
                let byte = usize::try_from(*at).ok().and_then(|at| bytes.get(at));
                let byte = byte.ok_or_else(|| format!("error calling index: index out of range: {at}"))?;
                Ok(Item::Int(i64::from(*byte)))
            }
            (Item::Absent, _) => Err("error calling index: index of untyped nil".to_owned()),
            (other, _) => Err(format!("error calling index: can't index item of {}", described(&other))),
        }
    }
}

fn entry<'t, 'v: 't>(entries: &[(&'v [u8], &'v [u8])], key: &[u8]) -> Option<Item<'t, 'v>> {
    let found = entries.iter().find(|(name, _)| *name == key);
    found.map(|(_, value)| Item::Text(Cow::Borrowed(*value)))
}

/// Whether it is not the zero of its type. Instants are never.
fn is_true(item: &Item<'_, '_>) -> bool {
    match item {
        Item::Data => true,
        Item::Absent => false,
        Item::Bool(value) => *value,
        Item::Int(number) => *number != 0,
        Item::Float(number) => *number != 0.0,
        Item::Text(text) => !text.is_empty(),
        Item::Value(Value::Duration(duration)) => *duration != SignedDuration::ZERO,
        Item::Value(Value::Bytes(bytes)) => !bytes.is_empty(),
        Item::Value(Value::StringMap(map)) => !map.entries.is_empty(),
        Item::Value(_) => true,
    }
}

/// Whether two values are equal. What is absent equals only what is absent too. Errors: as [`compared`].
fn is_equal(a: &Item<'_, '_>, b: &Item<'_, '_>) -> Result<bool, String> {
    match (a, b) {
        (Item::Absent, Item::Absent) => Ok(true),
        (Item::Absent, _) | (_, Item::Absent) => Ok(false),
        _ => Ok(compared(a, b)? == Some(Ordering::Equal)),
    }
}

/// The order of two values of one type; `None` if there is none. Errors: their types differ, or have no order.
fn compared(a: &Item<'_, '_>, b: &Item<'_, '_>) -> Result<Option<Ordering>, String> {
    match (a, b) {
        (Item::Bool(a), Item::Bool(b)) => Ok(Some(a.cmp(b))),
        (Item::Int(a), Item::Int(b)) => Ok(Some(a.cmp(b))),
        (Item::Float(a), Item::Float(b)) => Ok(a.partial_cmp(b)),
        (Item::Text(a), Item::Text(b)) => Ok(Some(a.cmp(b))),
        (Item::Value(Value::Duration(a)), Item::Value(Value::Duration(b))) => Ok(Some(a.cmp(b))),
        // Nanoseconds.
        (Item::Value(Value::Duration(a)), Item::Int(b)) => Ok(Some(a.nanos.cmp(b))),
        (Item::Int(a), Item::Value(Value::Duration(b))) => Ok(Some(a.cmp(&b.nanos))),
        (Item::Absent, _) | (_, Item::Absent) => Err("invalid type for comparison".to_owned()),
        _ => Err("incompatible types for comparison".to_owned()),
    }
}

/// Appends text as Go escapes it in the text of an element.
fn push_html(out: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&#34;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            b'+' => out.extend_from_slice(b"&#43;"),
            0 => out.extend_from_slice("\u{fffd}".as_bytes()),
            other => out.push(*other),
        }
    }
}

fn push(out: &mut Vec<u8>, item: &Item<'_, '_>) {
    match item {
        Item::Data => out.extend_from_slice(b"map[]"),
        Item::Absent => out.extend_from_slice(b"<no value>"),
        Item::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        // Writing to a Vec cannot fail.
        Item::Int(number) => drop(write!(out, "{number}")),
        Item::Float(number) => drop(write!(out, "{}", decimal::general(*number))),
        Item::Text(text) => out.extend_from_slice(text),
        Item::Value(value) => drop(write!(out, "{}", go_text(*value))),
    }
}

/// What an error says of an item: not its value, which the log would show.
fn described(item: &Item<'_, '_>) -> String {
    match item {
        Item::Data => "the data".to_owned(),
        Item::Absent => "nil".to_owned(),
        Item::Bool(_) => "a Boolean".to_owned(),
        Item::Int(_) | Item::Float(_) => "a number".to_owned(),
        Item::Text(text) => format!("a text of {} bytes", text.len()),
        Item::Value(Value::StringMap(map)) => format!("a map of {} entries", map.entries.len()),
        Item::Value(Value::Bytes(bytes)) => format!("{} bytes", bytes.len()),
        Item::Value(_) => "a time or duration".to_owned(),
    }
}

fn text_of(item: &Item<'_, '_>) -> String {
    let mut out = Vec::new();
    push(&mut out, item);
    String::from_utf8_lossy(&out).into_owned()
}

/// Go's `Sprintf`, of the verbs `%v`, `%s`, `%d`, `%t`, `%q`, `%x` and `%f` with flags `-` and `0`, width and precision.
fn formatted(format: &[u8], arguments: &[Item<'_, '_>]) -> Vec<u8> {
    let format = String::from_utf8_lossy(format);
    let mut out = Vec::new();
    let mut arguments = arguments.iter();
    let mut characters = format.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let (mut is_left, mut is_zero) = (false, false);
        while let Some(flag) = characters.next_if(|c| matches!(c, '-' | '0' | '+' | ' ')) {
            is_left |= flag == '-';
            is_zero |= flag == '0';
        }
        let mut number = || {
            let mut found = None;
            while let Some(digit) = characters.peek().and_then(|c| c.to_digit(10)) {
                characters.next();
                found = Some((found.unwrap_or(0_usize) * 10 + digit as usize).min(MAX_WIDTH));
            }
            found
        };
        let width = number().unwrap_or(0);
        let precision = match characters.next_if_eq(&'.') {
            Some(_) => {
                let mut found = 0;
                while let Some(digit) = characters.peek().and_then(|c| c.to_digit(10)) {
                    characters.next();
                    found = (found * 10 + digit as usize).min(MAX_WIDTH);
                }
                Some(found)
            }
            None => None,
        };
        let Some(verb) = characters.next() else {
            out.extend_from_slice(b"%!(NOVERB)");
            break;
        };
        if verb == '%' {
            out.push(b'%');
            continue;
        }
        let Some(item) = arguments.next() else {
            out.extend_from_slice(format!("%!{verb}(MISSING)").as_bytes());
            continue;
        };
        let text = with_verb(verb, precision, item);
        let missing = width.saturating_sub(text.chars().count());
        let padding = if is_zero && !is_left { "0" } else { " " }.repeat(missing);
        let (before, after) = if is_left { (String::new(), padding) } else { (padding, String::new()) };
        out.extend_from_slice(format!("{before}{text}{after}").as_bytes());
    }
    for rest in arguments {
        out.extend_from_slice(format!("%!(EXTRA {})", text_of(rest)).as_bytes());
    }
    out
}

/// The largest width and precision: a template cannot make a text of any length.
const MAX_WIDTH: usize = 1000;

fn with_verb(verb: char, precision: Option<usize>, item: &Item<'_, '_>) -> String {
    match (verb, item) {
        ('v', Item::Absent) => "<nil>".to_owned(),
        ('v', item) => text_of(item),
        ('s', Item::Text(_) | Item::Value(_)) => match precision {
            Some(most) => text_of(item).chars().take(most).collect(),
            None => text_of(item),
        },
        ('q', Item::Text(text)) => format!("{:?}", String::from_utf8_lossy(text)),
        ('d', Item::Int(number)) => number.to_string(),
        ('x', Item::Int(number)) => format!("{number:x}"),
        ('x', Item::Text(text)) => text.iter().map(|byte| format!("{byte:02x}")).collect(),
        ('t', Item::Bool(value)) => value.to_string(),
        ('f', Item::Float(number)) => format!("{number:.*}", precision.unwrap_or(6)),
        (verb, item) => format!("%!{verb}({})", text_of(item)),
    }
}
