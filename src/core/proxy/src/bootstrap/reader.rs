//! Reads messages from a document with positions: every field that is not read is a diagnostic.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::time::Duration;

use mixer_base::suggestion::{Case, near};
use mixer_config::{Diagnostic, FieldPath, Location, Node, NodeKind, Severity, Span};

use super::secrets;
use crate::header_changes::is_value_byte;

/// A message of Envoy's API: what this version reads is asked for by name, and these are its other fields.
#[derive(Debug)]
pub(super) struct Message {
    /// Its name without the package.
    pub(super) name: &'static str,
    /// Fields that Envoy has and this version does not support.
    pub(super) unsupported: &'static [&'static str],
}

/// A document that is being read, with the problems found so far.
pub(super) struct Document<'d> {
    text: &'d str,
    problems: RefCell<Vec<Diagnostic>>,
}

impl<'d> Document<'d> {
    pub(super) fn new(text: &'d str) -> Self {
        Self { text, problems: RefCell::default() }
    }

    pub(super) fn into_problems(self) -> Vec<Diagnostic> {
        self.problems.into_inner()
    }

    /// The problems found since the last call.
    pub(super) fn take_problems(&self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.problems.borrow_mut())
    }

    /// The number of problems so far.
    pub(super) fn count(&self) -> usize {
        self.problems.borrow().len()
    }

    /// Makes unknown fields among the problems after the first `before` ones warnings.
    pub(super) fn forgive_unknown_fields(&self, before: usize) {
        for problem in self.problems.borrow_mut().iter_mut().skip(before) {
            if problem.code == "proxy-unknown-field" {
                problem.severity = Severity::Warning;
            }
        }
    }

    pub(super) fn report(&self, problem: Diagnostic) {
        self.problems.borrow_mut().push(secrets::cleaned(problem));
    }

    /// Reports keys that YAML 1.1 reads as something else than is written, such as `no` and `0x10`: Envoy takes them as they are written.
    pub(super) fn report_keys(&self, node: &Node) {
        match &node.kind {
            NodeKind::Sequence(items) => items.iter().for_each(|item| self.report_keys(item)),
            NodeKind::Mapping(entries) => {
                for entry in entries {
                    let key = &*entry.key;
                    let may_be_read = matches!(key, "true" | "false") || key.parse::<f64>().is_ok();
                    let written = may_be_read.then(|| self.source(entry.key_span)).flatten();
                    // Quotes, anchors and the like are not part of the key.
                    let is_plain = |text: &&str| !text.starts_with(['\'', '"', '&', '*', '!', '?', '<']);
                    if let Some(written) = written.filter(is_plain).filter(|written| *written != key) {
                        let message = format!("key `{written}` reads as `{key}`");
                        let mut problem = Diagnostic::error("proxy-invalid", FieldPath::root(), message);
                        problem.span = Some(entry.key_span);
                        self.report(problem.with_hint(format!("write \"{written}\" in quotes")));
                    }
                    self.report_keys(&entry.value);
                }
            }
            _ => {}
        }
    }

    /// The text of a scalar as it is written.
    fn source(&self, span: Span) -> Option<&'d str> {
        let line = self.text.lines().nth(usize::try_from(span.start.line).ok()?.checked_sub(1)?)?;
        let at = |place: Location| {
            let column = usize::try_from(place.column).ok()?.checked_sub(1)?;
            Some(line.char_indices().nth(column).map_or(line.len(), |(at, _)| at))
        };
        (span.start.line == span.end.line).then(|| line.get(at(span.start)?..at(span.end)?))?
    }
}

/// Seconds of the longest duration that Envoy takes: its nanoseconds are a 64-bit number.
const MAX_SECONDS: u64 = 9_223_372_035;

/// A place in a document, for a problem that is found later.
#[derive(Debug, Clone)]
pub(super) struct Place {
    path: FieldPath,
    span: Span,
}

impl Place {
    pub(super) fn new(path: FieldPath, span: Span) -> Self {
        Self { path, span }
    }

    /// An error there.
    pub(super) fn error(&self, message: impl Into<String>) -> Diagnostic {
        let mut problem = Diagnostic::error("proxy-invalid", self.path.clone(), message);
        problem.span = Some(self.span);
        problem
    }
}

/// A value and where it is.
#[derive(Clone)]
pub(super) struct Value<'d> {
    pub(super) document: &'d Document<'d>,
    pub(super) node: &'d Node,
    pub(super) path: FieldPath,
}

impl<'d> Value<'d> {
    pub(super) fn root(document: &'d Document<'d>, node: &'d Node) -> Self {
        Self { document, node, path: FieldPath::root() }
    }

    /// Where it is.
    pub(super) fn place(&self) -> Place {
        Place::new(self.path.clone(), self.node.span)
    }

    fn problem(&self, code: &'static str, message: impl Into<String>) -> Diagnostic {
        let mut problem = Diagnostic::error(code, self.path.clone(), message);
        problem.span = Some(self.node.span);
        problem
    }

    /// Reports that the value is not valid.
    pub(super) fn invalid(&self, message: impl Into<String>) {
        self.document.report(self.problem("proxy-invalid", message));
    }

    /// Reports a value that Envoy takes and this version does not.
    pub(super) fn unsupported(&self, what: &str) {
        let text = format!("{what} is not supported by this version");
        self.document.report(self.problem("proxy-unsupported", text));
    }

    /// Warns.
    pub(super) fn warn(&self, message: impl Into<String>) {
        let problem = self.problem("proxy-invalid", message);
        self.document.report(problem.with_severity(Severity::Warning));
    }

    fn wrong_type(&self, expected: &str) {
        let found = match &self.node.kind {
            NodeKind::Null => "null",
            NodeKind::Bool(_) => "a Boolean",
            NodeKind::Int(_) | NodeKind::Float(_) => "a number",
            NodeKind::String(_) => "a string",
            NodeKind::Sequence(_) => "a list",
            NodeKind::Mapping(_) => "a mapping",
        };
        self.invalid(format!("expected {expected}, found {found}"));
    }

    /// Text. `y`, `no`, `on` and the like are text here, however YAML 1.1 reads them.
    pub(super) fn text(&self) -> Option<&'d str> {
        match &self.node.kind {
            NodeKind::String(text) => Some(text),
            NodeKind::Bool(_) => {
                let written = self.document.source(self.node.span);
                let written =
                    written.filter(|text| !matches!(text.to_ascii_lowercase().as_str(), "true" | "false"));
                if written.is_none() {
                    self.wrong_type("a string");
                }
                written
            }
            _ => {
                self.wrong_type("a string");
                None
            }
        }
    }

    /// Text of one byte or more.
    pub(super) fn nonempty(&self, message: &str, field: &str) -> Option<&'d str> {
        let text = self.text()?;
        if text.is_empty() {
            self.invalid(format!(
                "{message}ValidationError.{field}: value length must be at least 1 characters"
            ));
            return None;
        }
        Some(text)
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        match &self.node.kind {
            NodeKind::Bool(value) => Some(*value),
            _ => {
                self.wrong_type("a Boolean");
                None
            }
        }
    }

    /// An unsigned number up to `max`; as a string, too.
    pub(super) fn number(&self, max: u64) -> Option<u64> {
        let number = match &self.node.kind {
            NodeKind::Int(number) => u64::try_from(*number).ok(),
            NodeKind::Float(number) if number.fract() == 0.0 && (0.0..=9e15).contains(number) => {
                Some(*number as u64)
            }
            NodeKind::String(text) => text.parse().ok(),
            _ => {
                self.wrong_type("a number");
                return None;
            }
        };
        let fits = number.filter(|number| *number <= max);
        if fits.is_none() {
            self.invalid(format!("expected a whole number from 0 to {max}"));
        }
        fits
    }

    /// A 32-bit number.
    pub(super) fn u32(&self) -> Option<u32> {
        self.number(u64::from(u32::MAX)).and_then(|number| u32::try_from(number).ok())
    }

    /// A duration, `0.25s`; not negative.
    pub(super) fn duration(&self) -> Option<Duration> {
        let NodeKind::String(text) = &self.node.kind else {
            self.wrong_type("a duration, such as 0.25s");
            return None;
        };
        let Some(number) = text.strip_suffix('s') else {
            self.invalid("duration must end with a single 's'");
            return None;
        };
        if number.starts_with('-') {
            self.invalid(format!("Invalid duration: Expected positive duration: {text}"));
            return None;
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let parsed = (digits(whole) && digits(fraction) && fraction.len() <= 9)
            .then(|| {
                let seconds: u64 = whole.parse().ok()?;
                let nanos: u32 = format!("{fraction:0<9}").parse().ok()?;
                Some(Duration::new(seconds, nanos))
            })
            .flatten();
        if parsed.is_none() {
            self.invalid(format!("`{text}` is not a duration; expected seconds, such as 0.25s"));
        }
        if parsed.is_some_and(|duration| duration.as_secs() > MAX_SECONDS) {
            let problem = self.problem("proxy-invalid", "Invalid duration: Duration out-of-range");
            self.document.report(problem.with_hint(format!("at most {MAX_SECONDS}s")));
            return None;
        }
        parsed
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Vec<Value<'d>> {
        let NodeKind::Sequence(items) = &self.node.kind else {
            self.wrong_type("a list");
            return Vec::new();
        };
        let item = |(index, node)| Value { document: self.document, node, path: self.path.index(index) };
        items.iter().enumerate().map(item).collect()
    }

    /// The entries of a map.
    pub(super) fn entries(&self) -> Vec<(String, Value<'d>)> {
        let NodeKind::Mapping(entries) = &self.node.kind else {
            self.wrong_type("a mapping");
            return Vec::new();
        };
        let entry = |entry: &'d mixer_config::MappingEntry| {
            let path = self.path.field(&entry.key);
            (entry.key.to_string(), Value { document: self.document, node: &entry.value, path })
        };
        entries.iter().map(entry).collect()
    }

    /// Text that is written to heads. Reports control characters, with which it could be more than one line.
    pub(super) fn line(&self) -> Option<&'d str> {
        let text = self.text()?;
        if text.bytes().all(is_value_byte) {
            return Some(text);
        }
        self.invalid("must not contain control characters other than tabs");
        None
    }

    /// The texts of a list.
    pub(super) fn texts(&self) -> Vec<&'d str> {
        self.items().iter().filter_map(Value::text).collect()
    }

    /// The number of a value of an enumeration, by name or number.
    pub(super) fn choice(&self, names: &[(&str, u32)]) -> Option<u32> {
        let found = match &self.node.kind {
            NodeKind::Int(number) => {
                names.iter().find(|(_, value)| i64::from(*value) == *number).map(|(_, value)| *value)
            }
            // As in Envoy's JSON: names in any case, and numbers as text.
            NodeKind::String(text) => {
                let number = text.parse::<u32>().ok();
                let is_it =
                    |(name, value): &&(&str, u32)| name.eq_ignore_ascii_case(text) || Some(*value) == number;
                names.iter().find(is_it).map(|(_, value)| *value)
            }
            _ => {
                self.wrong_type("the name of an enumeration value");
                return None;
            }
        };
        if found.is_none() {
            let written = match &self.node.kind {
                NodeKind::String(text) => text.to_string(),
                NodeKind::Int(number) => number.to_string(),
                _ => String::new(),
            };
            let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            let problem = self.problem("proxy-invalid", format!("unknown enum value: '{written}'"));
            self.document.report(problem.with_hint(format!("one of {}", known.join(", "))));
        }
        found
    }

    /// A message.
    pub(super) fn message(&self, message: &'static Message) -> Option<Fields<'d>> {
        match &self.node.kind {
            NodeKind::Mapping(entries) => {
                let taken = entries.iter().map(|_| Cell::new(false)).collect();
                Some(Fields { value: self.clone(), message, taken })
            }
            _ => {
                self.wrong_type("a mapping");
                None
            }
        }
    }
}

/// The fields of a message. Those that are not asked for until [`finish`](Self::finish) are reported.
pub(super) struct Fields<'d> {
    pub(super) value: Value<'d>,
    message: &'static Message,
    taken: Vec<Cell<bool>>,
}

impl<'d> Fields<'d> {
    /// A field by its snake_case name; null counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<Value<'d>> {
        let entries = self.value.node.entries();
        let found = entries.iter().zip(&self.taken).find(|(entry, _)| is_named(&entry.key, name));
        let (entry, taken) = found?;
        taken.set(true);
        if matches!(entry.value.kind, NodeKind::Null) {
            return None;
        }
        Some(Value { document: self.value.document, node: &entry.value, path: self.value.path.field(name) })
    }

    /// Which of a `oneof` is set. Several are a problem.
    pub(super) fn one_of(&self, names: &[&'static str]) -> Option<(&'static str, Value<'d>)> {
        let mut set = names.iter().filter_map(|name| Some((*name, self.get(name)?)));
        let first = set.next()?;
        if let Some((name, value)) = set.next() {
            value.invalid(format!("`{name}` excludes `{}`: only one of them may be set", first.0));
        }
        Some(first)
    }

    /// A message in a field.
    pub(super) fn message(&self, name: &str, message: &'static Message) -> Option<Fields<'d>> {
        self.get(name)?.message(message)
    }

    /// The items of a repeated field.
    pub(super) fn items(&self, name: &str) -> Vec<Value<'d>> {
        self.get(name).map(|value| value.items()).unwrap_or_default()
    }

    pub(super) fn text(&self, name: &str) -> Option<&'d str> {
        self.get(name)?.text()
    }

    pub(super) fn line(&self, name: &str) -> Option<&'d str> {
        self.get(name)?.line()
    }

    pub(super) fn boolean(&self, name: &str) -> bool {
        self.get(name).and_then(|value| value.boolean()).unwrap_or(false)
    }

    pub(super) fn duration(&self, name: &str) -> Option<Duration> {
        self.get(name)?.duration()
    }

    /// Reports what is missing.
    pub(super) fn required(&self, message: impl Into<String>) {
        self.value.document.report(self.value.problem("proxy-invalid", message));
    }

    /// Whether no field is set.
    pub(super) fn is_empty(&self) -> bool {
        self.value.node.entries().iter().all(|entry| matches!(entry.value.kind, NodeKind::Null))
    }

    /// Ignores a field, which docs/proxy.md says has no effect.
    pub(super) fn ignore(&self, names: &[&str]) {
        for name in names {
            let _ = self.get(name);
        }
    }

    /// Reports the fields that were not asked for.
    pub(super) fn finish(self) {
        for (entry, taken) in self.value.node.entries().iter().zip(&self.taken) {
            if taken.get() || &*entry.key == "@type" {
                continue;
            }
            let unsupported = self.message.unsupported.iter().find(|name| is_named(&entry.key, name));
            let path = self.value.path.field(unsupported.map_or(&*entry.key, |name| *name));
            let mut problem = match unsupported {
                Some(name) => Diagnostic::error(
                    "proxy-unsupported",
                    path,
                    format!("field `{name}` of {} is not supported by this version", self.message.name),
                ),
                None => {
                    let text = format!("no such field: '{}' in {}", entry.key, self.message.name);
                    let problem = Diagnostic::error("proxy-unknown-field", path, text);
                    let known = self.message.unsupported.iter();
                    match near(&entry.key, known, Case::Ignored, |length| length / 4).into_iter().min() {
                        Some((_, name)) => problem.with_hint(format!("did you mean `{name}`?")),
                        None => problem,
                    }
                }
            };
            problem.span = Some(entry.key_span);
            self.value.document.report(problem);
        }
    }
}

/// Whether a key is this field, in snake_case or lowerCamelCase.
pub(super) fn is_named(key: &str, name: &str) -> bool {
    if key == name {
        return true;
    }
    let mut key = key.bytes();
    let mut name = name.bytes();
    while let Some(mut wanted) = name.next() {
        if wanted == b'_' {
            wanted = match name.next() {
                Some(letter) => letter.to_ascii_uppercase(),
                None => return false,
            };
        }
        if key.next() != Some(wanted) {
            return false;
        }
    }
    key.next().is_none()
}

/// The `@type` of a typed configuration, without the part before its last slash. Reports that it is missing.
pub(super) fn type_of<'d>(holder: &Fields<'d>, name: &str) -> Option<(&'d str, Value<'d>)> {
    let Some(config) = holder.get("typed_config") else {
        let text = format!("Didn't find a registered implementation for '{name}' with type URL: ''");
        holder.required(text);
        return None;
    };
    let url = config.node.get("@type").and_then(Node::as_str);
    let Some(url) = url else {
        config.invalid(format!("Didn't find a registered implementation for '{name}' with type URL: ''"));
        return None;
    };
    Some((name_of_type(url), config))
}

/// The name of the type of a URL. Of a key in base64, which may have slashes, nothing is told: what is behind a slash does not look like one.
pub(super) fn name_of_type(url: &str) -> &str {
    match secrets::clean(url) {
        Cow::Borrowed(url) => url.rsplit('/').next().unwrap_or(url),
        Cow::Owned(_) => secrets::REDACTED,
    }
}

/// Reports a type that this version does not have: by name if it is one of Envoy's.
pub(super) fn unknown_type(config: &Value<'_>, kind: &str, name: &str) {
    if name.starts_with("envoy.") || name.starts_with("istio.") || name.starts_with("google.protobuf.") {
        config.unsupported(&format!("{kind} {name}"));
    } else {
        config.invalid(format!("could not find @type 'type.googleapis.com/{name}'"));
    }
}
