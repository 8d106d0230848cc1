//! The state of a decoder: the position in the message and the problems found so far.

use std::sync::Arc;

use crate::field_name::lower_camel;
use crate::{FieldPath, Node, Span};

/// A value that failed to decode.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodeError {
    /// Istio Mixer's text, for example `unknown field "x" in pkg.Message`.
    pub message: String,
    /// The position in the resource.
    pub field: FieldPath,
    /// The position in the document.
    pub span: Span,
    /// How to fix it.
    pub hint: Option<String>,
}

/// Maximum number of errors of a message that are listed: a document has one in three bytes, and an error takes hundreds.
const MAX_ERRORS: usize = 1_000;

/// Tracks the position of a decoder and collects its errors.
#[derive(Debug, Default)]
pub struct DecodeContext {
    base: FieldPath,
    steps: Vec<Step>,
    /// The errors in decoding order; Istio Mixer reports the first. At most 1 000, and one that says that there are more.
    pub errors: Vec<DecodeError>,
}

/// One step below the base; only converted to a path segment to report an error.
#[derive(Debug)]
pub(super) enum Step {
    Field(&'static str),
    Named(Arc<str>),
    Index(usize),
    Key(String),
}

impl DecodeContext {
    /// A context for the message at `path` in its resource.
    pub fn at(path: FieldPath) -> Self {
        Self { base: path, ..Self::default() }
    }

    /// The current position.
    pub fn path(&self) -> FieldPath {
        self.steps.iter().fold(self.base.clone(), |path, step| match step {
            Step::Field(name) => path.field(&lower_camel(name)),
            Step::Named(name) => path.field(&lower_camel(name)),
            Step::Index(index) => path.index(*index),
            Step::Key(key) => path.key(key),
        })
    }

    /// Whether there are errors.
    pub fn failed(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Adds an error at the current position.
    pub fn error(&mut self, node: &Node, message: impl Into<String>) {
        self.error_with_hint(node, message, None);
    }

    /// Adds an error at the current position, with a hint.
    pub fn error_with_hint(&mut self, node: &Node, message: impl Into<String>, hint: Option<String>) {
        let (message, hint) = match self.errors.len() {
            count if count < MAX_ERRORS => (message.into(), hint),
            MAX_ERRORS => ("further errors of the document are not listed".to_owned(), None),
            _ => return,
        };
        self.errors.push(DecodeError { message, field: self.path(), span: node.span, hint });
    }

    /// Whether further errors are left out. Whoever looks for what nobody will read may stop.
    pub fn lists_no_more(&self) -> bool {
        self.errors.len() > MAX_ERRORS
    }

    /// Runs `step` at another position.
    pub fn within<T>(&mut self, path: FieldPath, step: impl FnOnce(&mut Self) -> T) -> T {
        let base = std::mem::replace(&mut self.base, path);
        let steps = std::mem::take(&mut self.steps);
        let result = step(self);
        (self.base, self.steps) = (base, steps);
        result
    }

    /// Runs `step` at a field, given by its proto name. The path is only built for errors.
    pub fn in_field<T>(&mut self, name: &'static str, step: impl FnOnce(&mut Self) -> T) -> T {
        self.at_step(Step::Field(name), step)
    }

    /// As [`in_field`](Self::in_field), for a field whose name is only known at run time.
    pub fn in_named_field<T>(&mut self, name: &Arc<str>, step: impl FnOnce(&mut Self) -> T) -> T {
        self.at_step(Step::Named(Arc::clone(name)), step)
    }

    pub(super) fn at_step<T>(&mut self, to: Step, step: impl FnOnce(&mut Self) -> T) -> T {
        self.steps.push(to);
        let result = step(self);
        self.steps.pop();
        result
    }
}
