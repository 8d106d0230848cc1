//! YAML errors, with the texts of Go's yaml.v2.

use saphyr_parser::ScanError;

use super::repair::Repairs;
use crate::{Location, Node, NodeKind};

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

    /// Sets the line, from 1. yaml.v2 omits the first line from the text.
    pub(super) fn on_line(self, line: usize) -> Self {
        let text = self.message.strip_prefix("yaml: ").unwrap_or(&self.message);
        let number = u32::try_from(line).unwrap_or(u32::MAX);
        let location = Some(Location { line: number, column: 1 });
        let message = if line <= 1 { text.to_owned() } else { format!("line {line}: {text}") };
        Self { location, ..Self::yaml(message) }
    }

    /// Translates an error of saphyr-parser to the text and line number of yaml.v2, as far as known.
    pub(super) fn from_scan(error: &ScanError, text: &str, repairs: &Repairs) -> Self {
        let mark = *error.marker();
        let location = repairs.original(super::location(mark));
        let info = error.info();
        let at = |error: Self| Self { location: Some(location), ..error };
        if info == "while parsing node, found unknown anchor" {
            let name = text.chars().skip(mark.index()).skip_while(|c| *c == '*');
            let name = name.take_while(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect::<String>();
            return at(Self::yaml(format!("unknown anchor '{name}' referenced")));
        }
        if info.starts_with("unexpected character") {
            let hint = Some("put text that starts with `@`, `%` or a backquote in quotes");
            let error = Self::yaml("found character that cannot start any token").on_line(mark.line());
            return at(Self { hint, ..error });
        }
        let known = TRANSLATIONS.iter().find(|t| info == t.ours);
        let bare =
            info.rsplit_once(", ").filter(|_| info.starts_with("while ")).map_or(info, |(_, tail)| tail);
        let text_of_go = known.map_or(bare, |t| t.theirs);
        let hint = known.and_then(|t| t.hint);
        if text_of_go == "found unexpected end of stream" {
            return at(Self { hint, ..Self::yaml(text_of_go).on_line(text.matches('\n').count() + 1) });
        }
        // yaml.v2 counts the lines of parser errors from 0 and of scanner errors from 1, and omits the first of each.
        let line = if known.is_some_and(|t| t.grammar) { mark.line().saturating_sub(1) } else { mark.line() };
        let message = match line {
            1 if known.is_some_and(|t| t.grammar) => format!("line 1: {text_of_go}"),
            0 | 1 => text_of_go.to_owned(),
            line => format!("line {line}: {text_of_go}"),
        };
        at(Self { hint, ..Self::yaml(message) })
    }
}

struct Translation {
    /// Of saphyr-parser.
    ours: &'static str,
    /// Of yaml.v2.
    theirs: &'static str,
    /// Reported by yaml.v2's parser, not by its scanner.
    grammar: bool,
    hint: Option<&'static str>,
}

const TRANSLATIONS: &[Translation] = &[
    Translation {
        ours: "while parsing a block mapping, did not find expected key",
        theirs: "did not find expected key",
        grammar: true,
        hint: Some("keys of one mapping start in the same column"),
    },
    Translation {
        ours: "while parsing a block collection, did not find expected '-' indicator",
        theirs: "did not find expected '-' indicator",
        grammar: true,
        hint: Some("items of one list start in the same column"),
    },
    Translation {
        ours: "while parsing a flow mapping, did not find expected ',' or '}'",
        theirs: "did not find expected ',' or '}'",
        grammar: true,
        hint: Some("a `{` is not closed, or an entry does not end with a comma"),
    },
    Translation {
        ours: "while parsing a flow sequence, expected ',' or ']'",
        theirs: "did not find expected ',' or ']'",
        grammar: true,
        hint: Some("a `[` is not closed, or an item does not end with a comma"),
    },
    Translation {
        ours: "while parsing a node, did not find expected node content",
        theirs: "did not find expected node content",
        grammar: true,
        hint: None,
    },
    Translation {
        ours: "did not find expected <document start>",
        theirs: "did not find expected <document start>",
        grammar: true,
        hint: None,
    },
    Translation {
        ours: "did not find expected <document-start>",
        theirs: "did not find expected <document start>",
        grammar: true,
        hint: None,
    },
    Translation {
        ours: "simple key expected",
        theirs: "could not find expected ':'",
        grammar: false,
        hint: Some("an entry of a mapping is written `key: value`, with a space after the colon"),
    },
    Translation {
        ours: "simple key expect ':'",
        theirs: "could not find expected ':'",
        grammar: false,
        hint: Some("an entry of a mapping is written `key: value`, with a space after the colon"),
    },
    Translation {
        ours: "mapping values are not allowed in this context",
        theirs: "mapping values are not allowed in this context",
        grammar: false,
        hint: Some("put text that contains `: ` in quotes"),
    },
    Translation {
        ours: "tabs disallowed within this context (block indentation)",
        theirs: "found character that cannot start any token",
        grammar: false,
        hint: Some("indent with spaces, not with tabs"),
    },
    Translation {
        ours: "tab cannot be used as indentation",
        theirs: "found character that cannot start any token",
        grammar: false,
        hint: Some("indent with spaces, not with tabs"),
    },
    Translation {
        ours: "tabs disallowed in this context",
        theirs: "found character that cannot start any token",
        grammar: false,
        hint: Some("indent with spaces, not with tabs"),
    },
    Translation {
        ours: "while scanning a quoted scalar, found unexpected end of stream",
        theirs: "found unexpected end of stream",
        grammar: false,
        hint: Some("a quote is not closed"),
    },
    Translation {
        ours: "invalid indentation in quoted scalar",
        theirs: "found unexpected end of stream",
        grammar: false,
        hint: Some("a quote is not closed"),
    },
    Translation {
        ours: "invalid trailing content after double-quoted scalar",
        theirs: "did not find expected key",
        grammar: true,
        hint: Some(
            "text that starts with a quote ends with it: put the whole value in quotes of the other kind",
        ),
    },
    Translation {
        ours: "illegal placement of ':' indicator",
        theirs: "did not find expected ',' or ']'",
        grammar: true,
        hint: None,
    },
    Translation {
        ours: "\"-\" is only valid inside a block",
        theirs: "did not find expected node content",
        grammar: true,
        hint: None,
    },
    Translation {
        ours: "misplaced bracket",
        theirs: "did not find expected node content",
        grammar: true,
        hint: None,
    },
    Translation {
        ours: "while scanning a plain scalar, found a tab",
        theirs: "found a tab character that violates indentation",
        grammar: false,
        hint: Some("indent with spaces, not with tabs"),
    },
    Translation {
        ours: "a block scalar content cannot start with a tab",
        theirs: "found a tab character where an indentation space is expected",
        grammar: false,
        hint: Some("indent with spaces, not with tabs"),
    },
    Translation {
        ours: "wrongly indented line in block scalar",
        theirs: "did not find expected key",
        grammar: true,
        hint: None,
    },
    Translation {
        ours: "while parsing a quoted scalar, did not find expected hexadecimal number",
        theirs: "did not find expected hexdecimal number",
        grammar: false,
        hint: None,
    },
];

/// A value in Go's `%#v` form, as far as error texts contain it.
pub(super) fn go_syntax(node: &Node) -> String {
    let join = |parts: Vec<String>| parts.join(", ");
    match &node.kind {
        NodeKind::Null => "interface {}(nil)".to_owned(),
        NodeKind::Bool(value) => value.to_string(),
        NodeKind::Int(value) => value.to_string(),
        NodeKind::Float(value) => value.to_string(),
        NodeKind::String(text) => format!("{text:?}"),
        NodeKind::Sequence(items) => {
            format!("[]interface {{}}{{{}}}", join(items.iter().map(go_syntax).collect()))
        }
        NodeKind::Mapping(entries) => {
            let entries = entries.iter().map(|e| format!("{:?}:{}", e.key, go_syntax(&e.value))).collect();
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
