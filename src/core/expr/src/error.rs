//! Errors of compiling and of evaluating an expression.

use std::fmt::Write as _;

use std::borrow::Cow;

/// Steps that one evaluation of CEL may take. Iterating over, copying or comparing an element costs one.
pub(super) const MAX_STEPS: u32 = 200_000;
/// Longest text of an error, in bytes.
const MAX_TEXT: usize = 4 << 10;

/// The step of compilation that rejected an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Syntax, or a construct or literal that the language lacks.
    Parse,
    /// Type check.
    Type,
    /// Type-correct, but not implemented.
    Compile,
    /// CEL and COMPAT: parse and check together.
    Static,
}

/// Why an expression was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CompileError {
    /// The step that rejected it.
    pub phase: Phase,
    /// Istio Mixer's text where the specification requires it.
    pub message: String,
    /// Line and column in the expression, both from 1, columns in characters.
    pub position: Option<(u32, u32)>,
    /// The undeclared attribute, if that is the problem.
    pub unknown_attribute: Option<String>,
    /// The message as users are told it, where Istio Mixer's has its own notation; see [`plain`](Self::plain).
    pub(super) in_words: Option<String>,
    /// How to fix it, if known.
    pub hint: Option<String>,
    /// Whether it is valid, and its patterns exceed what other expressions leave of a budget: it may compile later.
    pub over_budget: bool,
}

impl CompileError {
    /// An error without a known position.
    pub(super) fn new(phase: Phase, message: String) -> CompileError {
        CompileError {
            phase,
            message,
            position: None,
            unknown_attribute: None,
            in_words: None,
            hint: None,
            over_budget: false,
        }
    }

    /// The message without the notation of Istio Mixer's type checker, and without what it calls an internal error of its compiler: an
    /// operator that a type does not have.
    pub fn plain(&self) -> Cow<'_, str> {
        if let Some(text) = &self.in_words {
            return Cow::Borrowed(text);
        }
        let Some((before, what)) = self.message.split_once(INTERNAL) else {
            return Cow::Borrowed(&self.message);
        };
        let found = what.split_once(NOT_IMPLEMENTED).map(|(operation, of)| match operation {
            "Add" => ("sum", of),
            _ => (operation, of),
        });
        match found {
            Some((operation, "duration")) => format!("{before}durations have no {operation}").into(),
            Some((operation, "bool")) => format!("{before}Booleans have no {operation}").into(),
            Some((operation, _)) => format!("{before}values of this type have no {operation}").into(),
            None => format!("{before}{what}").into(),
        }
    }
}

/// How Istio Mixer's text of an operator that a type does not have begins.
pub(super) const INTERNAL: &str = "internal compiler error -- ";
/// What stands between the operator and the type in that text.
pub(super) const NOT_IMPLEMENTED: &str = " for type not yet implemented: ";

/// What bounds an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Steps of one evaluation of CEL.
    Steps,
    /// Bytes of long texts that the patterns of one request search.
    SearchedText(u32),
    /// Bytes of long texts and lists that the expressions of one request make.
    MadeText(u32),
}

/// Why an evaluation failed. Cheap to create: failed look-ups are common in match conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvalError<'a> {
    /// A required attribute is absent.
    Absent {
        /// The name of the attribute.
        name: &'a str,
    },
    /// An entry of a map is absent that CEL requires.
    NoSuchKey {
        /// The key.
        key: &'a [u8],
    },
    /// The evaluation took more than it may. Callers choose the lengths of texts, so that this says nothing about whether a
    /// condition holds.
    Exhausted(Bound),
    /// Any other problem; the text is in the program or in the arena of the bag.
    Failed(&'a str),
}

impl<'a> EvalError<'a> {
    /// Whether an attribute, or an entry of a map, is absent, so that the request may have nothing to do with what is tested.
    pub fn is_absence(self) -> bool {
        matches!(self, EvalError::Absent { .. } | EvalError::NoSuchKey { .. })
    }

    /// An error whose text is formatted into `arena`, cut if it is long: it may have what the caller sent.
    pub(super) fn failed(arena: &'a bumpalo::Bump, text: std::fmt::Arguments<'_>) -> EvalError<'a> {
        let mut short = Short(String::new());
        // Nothing is formatted beyond what is kept.
        if short.write_fmt(text).is_err() {
            short.0.push('…');
        }
        EvalError::Failed(arena.alloc_str(&short.0))
    }
}

/// A text of at most [`MAX_TEXT`] bytes: what is written beyond them is an error.
struct Short(String);

impl std::fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = MAX_TEXT - self.0.len().min(MAX_TEXT);
        let fits = text.get(..text.floor_char_boundary(room)).unwrap_or_default();
        self.0.push_str(fits);
        if fits.len() < text.len() { Err(std::fmt::Error) } else { Ok(()) }
    }
}

impl std::fmt::Display for EvalError<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EvalError::Absent { name } => write!(f, "lookup failed: '{name}'"),
            EvalError::NoSuchKey { key } => write!(f, "no such key: '{}'", String::from_utf8_lossy(key)),
            EvalError::Exhausted(Bound::Steps) => write!(f, "expression takes more than {MAX_STEPS} steps"),
            EvalError::Exhausted(Bound::SearchedText(bytes)) => {
                write!(f, "patterns search more than {} MiB of long texts in this request", bytes >> 20)
            }
            EvalError::Exhausted(Bound::MadeText(bytes)) => {
                write!(f, "expressions make more than {} MiB of long texts in this request", bytes >> 20)
            }
            EvalError::Failed(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_errors_are_cut_where_they_are_long() {
        let arena = bumpalo::Bump::new();
        let text = |text: std::fmt::Arguments<'_>| EvalError::failed(&arena, text).to_string();
        let long = "é".repeat(MAX_TEXT);
        assert_eq!(text(format_args!("a {long} b")), format!("a {}…", &long[..MAX_TEXT - 2]));
        assert_eq!(text(format_args!("{}!", "x".repeat(MAX_TEXT - 1))).len(), MAX_TEXT);
        assert_eq!(text(format_args!("short {}", 7)), "short 7");
        /// Counts how much of it is formatted.
        struct Counted<'c>(&'c std::cell::Cell<usize>);
        impl std::fmt::Display for Counted<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                (0..1 << 20).try_for_each(|_| {
                    self.0.set(self.0.get() + 1);
                    f.write_str("x")
                })
            }
        }
        let count = std::cell::Cell::new(0);
        assert_eq!(text(format_args!("{}", Counted(&count))), format!("{}…", "x".repeat(MAX_TEXT)));
        assert_eq!(count.get(), MAX_TEXT + 1);
    }
}
