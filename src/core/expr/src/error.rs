//! Errors of compiling and of evaluating an expression.

use mixer_attribute::ValueType;

/// Where in compilation an expression was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Syntax, or a construct or literal that the language does not have.
    Parse,
    /// Type check.
    Type,
    /// Type-correct, but without an implementation.
    Compile,
    /// CEL and COMPAT: parse and check together.
    Static,
}

/// Why an expression was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CompileError {
    /// Where it was found.
    pub phase: Phase,
    /// The text of the reference where the specification fixes one.
    pub message: String,
    /// Line and column in the expression, both from 1, columns in characters.
    pub position: Option<(u32, u32)>,
    /// The attribute that nobody declared, if that is the problem.
    pub unknown_attribute: Option<String>,
    /// What to do about it, when we know.
    pub hint: Option<String>,
}

impl CompileError {
    /// An error without a known position.
    pub(super) fn new(phase: Phase, message: String) -> CompileError {
        CompileError { phase, message, position: None, unknown_attribute: None, hint: None }
    }
}

/// Why evaluation gave no value. Cheap to make: a failed look-up is an everyday event in match conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvalError<'a> {
    /// A required attribute is absent.
    Absent {
        /// The name of the attribute.
        name: &'a str,
    },
    /// Any other problem; the text lies in the arena of the bag.
    Failed(&'a str),
}

impl<'a> EvalError<'a> {
    /// An error whose text is written into `arena`.
    pub(super) fn failed(arena: &'a bumpalo::Bump, text: std::fmt::Arguments<'_>) -> EvalError<'a> {
        EvalError::Failed(arena.alloc_str(&text.to_string()))
    }
}

impl std::fmt::Display for EvalError<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EvalError::Absent { name } => write!(f, "lookup failed: '{name}'"),
            EvalError::Failed(text) => f.write_str(text),
        }
    }
}

/// A condition that does not give a truth value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expression '{expression}' evaluated to type {value_type}, expected type BOOL")]
pub struct NotBoolean {
    /// The text of the condition.
    pub expression: String,
    /// What it gives instead.
    pub value_type: ValueType,
}

impl NotBoolean {
    /// The text of the routing layer; the [`Display`](std::fmt::Display) form is that of validation.
    pub fn routing_text(&self) -> String {
        format!("expression does not return a boolean: '{}'", self.expression)
    }
}
