//! YAML errors, with the texts of Go's yaml.v2.

use super::cursor::Mark;
use super::scanner::SyntaxError;
use crate::{Location, Node, NodeKind};
use mixer_base::decimal;
use mixer_base::quote::quoted;

/// Why a text is not valid YAML, or not representable in JSON. Displays Istio Mixer's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error converting YAML to JSON: {message}")]
pub struct YamlError {
    message: String,
    /// The position at which the parser found it.
    pub location: Option<Location>,
    /// How to fix it, if known.
    pub hint: Option<&'static str>,
    kind: YamlErrorKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum YamlErrorKind {
    Yaml,
    NotJson,
    Conversion,
}

impl YamlError {
    pub(super) fn yaml(message: impl std::fmt::Display) -> Self {
        Self { message: format!("yaml: {message}"), location: None, hint: None, kind: YamlErrorKind::Yaml }
    }

    pub(super) fn with_hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    pub(super) fn not_json(value: f64) -> Self {
        let text = match value {
            v if v.is_nan() => "NaN",
            v if v > 0.0 => "+Inf",
            _ => "-Inf",
        };
        let message = format!("json: unsupported value: {text}");
        Self { message, location: None, hint: None, kind: YamlErrorKind::NotJson }
    }

    pub(super) fn conversion(message: String) -> Self {
        Self { message, location: None, hint: None, kind: YamlErrorKind::Conversion }
    }

    pub(super) fn is_not_json(&self) -> bool {
        self.kind == YamlErrorKind::NotJson
    }

    /// The error for bytes that are not UTF-8.
    pub(crate) fn not_utf8(error: std::str::Utf8Error) -> Self {
        // An error without a length is a sequence truncated by the end of the text.
        let text = match error.error_len() {
            None => "incomplete UTF-8 octet sequence",
            Some(1) => "invalid leading UTF-8 octet",
            Some(_) => "invalid trailing UTF-8 octet",
        };
        Self::yaml(text)
    }

    /// The message without `error converting YAML to JSON: `.
    pub fn cause(&self) -> &str {
        &self.message
    }

    /// [`cause`](Self::cause) for those who tell the [location](Self::location): without the line, which yaml.v2 counts in the document, not in
    /// the file, and which may be that of the mapping around it.
    pub fn without_line(&self) -> String {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match self.message.strip_prefix("yaml: line ").and_then(|rest| rest.split_once(": ")) {
            Some((line, problem)) if is_number(line) && self.location.is_some() => format!("yaml: {problem}"),
            _ => self.message.clone(),
        }
    }

    /// Sets the line, from 1. yaml.v2 omits the first line from the text.
    pub(super) fn on_line(self, line: usize) -> Self {
        let text = self.message.strip_prefix("yaml: ").unwrap_or(&self.message);
        let number = u32::try_from(line).unwrap_or(u32::MAX);
        let location = Some(Location { line: number, column: 1 });
        let message = if line <= 1 { text.to_owned() } else { format!("line {line}: {text}") };
        Self { location, ..Self::yaml(message) }
    }

    /// The same error, found at a place.
    pub(super) fn located(self, at: Mark) -> Self {
        Self { location: Some(super::location(at)), ..self }
    }

    /// The error for a text that is not YAML.
    pub(super) fn from_syntax(error: &SyntaxError, text: &str) -> Self {
        let (before, after) = text.split_at_checked(error.at.at).unwrap_or((text, ""));
        let hint = match error.problem {
            "did not find expected key" if before.trim_end_matches([' ', '\t']).ends_with(['"', '\'']) => {
                Some(
                    "text that starts with a quote ends with it: put the whole value in quotes of the other kind",
                )
            }
            "found character that cannot start any token" if !after.starts_with('\t') => {
                Some("put text that starts with `@`, `%` or a backquote in quotes")
            }
            // What is at the place ends a text without quotes, and begins no entry: `{value: request.headers["x"]}`, `{name: ${NAME}}`.
            "did not find expected ',' or '}'" | "did not find expected ',' or ']'"
                if after.starts_with(['[', '{'])
                    && before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '$' | ')' | '_')) =>
            {
                Some(
                    "inside of `{}` and `[]` a value with a bracket or a comma is in quotes: `{value: 'request.headers[\"x\"]'}`",
                )
            }
            "did not find expected whitespace or line break" if begins_with_exclamation(before) => Some(
                "`!` begins a tag of YAML: put the whole value in quotes; in the classic language of conditions write (…) == false for it",
            ),
            problem => HINTS.iter().find(|(known, _)| *known == problem).map(|(_, hint)| *hint),
        };
        let message = match error.line {
            0 => error.problem.to_owned(),
            line => format!("line {line}: {}", error.problem),
        };
        Self { hint, ..Self::yaml(message).located(error.at) }
    }
}

/// Whether the text before a place has, on its last line, a value that begins with `!`.
fn begins_with_exclamation(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.split_once(": ")
        .map_or(line, |(_, value)| value)
        .trim_start()
        .trim_start_matches("- ")
        .starts_with('!')
}

/// How to mend what yaml.v2 complains about.
const HINTS: &[(&str, &str)] = &[
    ("did not find expected key", "keys of one mapping start in the same column"),
    ("did not find expected '-' indicator", "items of one list start in the same column"),
    ("did not find expected ',' or '}'", "a `{` is not closed, or an entry does not end with a comma"),
    ("did not find expected ',' or ']'", "a `[` is not closed, or an item does not end with a comma"),
    (
        "could not find expected ':'",
        "an entry of a mapping is written `key: value`, with a space after the colon",
    ),
    ("mapping values are not allowed in this context", "put text that contains `: ` in quotes"),
    ("found character that cannot start any token", "indent with spaces, not with tabs"),
    ("found unexpected end of stream", "a quote is not closed"),
    ("found a tab character that violates indentation", "indent with spaces, not with tabs"),
    ("found a tab character where an indentation space is expected", "indent with spaces, not with tabs"),
];

/// A value in Go's `%#v` form, as far as error texts contain it.
pub(super) fn go_syntax(node: &Node) -> String {
    let join = |parts: Vec<String>| parts.join(", ");
    match &node.kind {
        NodeKind::Null => "interface {}(nil)".to_owned(),
        NodeKind::Bool(value) => value.to_string(),
        NodeKind::Int(value) => value.to_string(),
        NodeKind::Float(value) => decimal::general(*value).to_string(),
        NodeKind::String(text) => quoted(&**text).to_string(),
        NodeKind::Sequence(items) => {
            format!("[]interface {{}}{{{}}}", join(items.iter().map(go_syntax).collect()))
        }
        NodeKind::Mapping(entries) => {
            let entries =
                entries.iter().map(|e| format!("{}:{}", quoted(&*e.key), go_syntax(&e.value))).collect();
            format!("map[interface {{}}]interface {{}}{{{}}}", join(entries))
        }
    }
}

/// The error text for a null key with this value.
pub(super) fn unsupported_key(value: &Node) -> String {
    let value = match value.kind {
        NodeKind::Null => "<nil>".to_owned(),
        _ => go_syntax(value),
    };
    format!("Unsupported map key of type: %!s(<nil>), key: <nil>, value: {value}")
}
