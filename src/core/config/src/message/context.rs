//! The state of one decoding: the position in the message and the problems found so far.

use super::names::lower_camel;
use crate::{FieldPath, Node, Span};

/// One value that did not decode.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodeError {
    /// The text of the originals, for example `unknown field "x" in pkg.Message`.
    pub message: String,
    /// Where in the message.
    pub field: FieldPath,
    /// Where in the file.
    pub span: Span,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Collects the problems of one decoding and knows where it is.
#[derive(Debug, Default)]
pub struct DecodeContext {
    base: FieldPath,
    steps: Vec<Step>,
    /// What went wrong, in the order in which it was met; the first is the one that the originals report.
    pub errors: Vec<DecodeError>,
}

/// One step below the base; becomes part of a path only if there is something to report.
#[derive(Debug)]
pub(super) enum Step {
    Field(&'static str),
    Index(usize),
    Key(String),
}

impl DecodeContext {
    /// A context for a message that stands at `path` in its resource.
    pub fn at(path: FieldPath) -> Self {
        Self { base: path, ..Self::default() }
    }

    /// Where decoding is.
    pub fn path(&self) -> FieldPath {
        self.steps.iter().fold(self.base.clone(), |path, step| match step {
            Step::Field(name) => path.field(&lower_camel(name)),
            Step::Index(index) => path.index(*index),
            Step::Key(key) => path.key(key),
        })
    }

    /// Whether anything went wrong yet.
    pub fn failed(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Notes a problem at the present place.
    pub fn error(&mut self, node: &Node, message: impl Into<String>) {
        self.error_with_hint(node, message, None);
    }

    /// Notes a problem at the present place, with advice.
    pub fn error_with_hint(&mut self, node: &Node, message: impl Into<String>, hint: Option<String>) {
        self.errors.push(DecodeError { message: message.into(), field: self.path(), span: node.span, hint });
    }

    /// Runs `step` at another place.
    pub fn within<T>(&mut self, path: FieldPath, step: impl FnOnce(&mut Self) -> T) -> T {
        let base = std::mem::replace(&mut self.base, path);
        let steps = std::mem::take(&mut self.steps);
        let result = step(self);
        (self.base, self.steps) = (base, steps);
        result
    }

    /// Runs `step` in a field, given by its proto name. Costs nothing when all goes well.
    pub fn in_field<T>(&mut self, name: &'static str, step: impl FnOnce(&mut Self) -> T) -> T {
        self.at_step(Step::Field(name), step)
    }

    pub(super) fn at_step<T>(&mut self, to: Step, step: impl FnOnce(&mut Self) -> T) -> T {
        self.steps.push(to);
        let result = step(self);
        self.steps.pop();
        result
    }
}
