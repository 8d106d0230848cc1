//! Problems in the user's configuration.

use std::borrow::Cow;
use std::sync::Arc;

use super::{FieldPath, Span};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Something was left out.
    Error,
    /// It serves, but probably not as meant.
    Warning,
    /// Worth knowing.
    Info,
}

impl Severity {
    /// `error`, `warning` or `info`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        }
    }
}

/// A place inside an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionPlace {
    /// The whole expression.
    pub text: String,
    /// From 1, in characters of the expression (of its line, if it has several).
    pub column: u32,
    /// From 1.
    pub line: u32,
}

/// One problem found anywhere between a file and the published routing table. The same list feeds `validate`, the server log,
/// the introspection pages, the metrics and admission.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Stable kebab-case code, for example `handler-unknown`; docs/diagnostics.md lists them all.
    pub code: &'static str,
    /// One line, lower case unless the originals' text is kept.
    pub message: String,
    /// The text of the originals' error list, where one exists.
    pub legacy: Option<String>,
    /// `name.kind.namespace` of the resource, empty when there is none.
    pub resource: String,
    /// The file as given by the user, or another origin.
    pub file: Option<Arc<str>>,
    /// Where in the file.
    pub span: Option<Span>,
    /// Where in the resource, for example `spec.actions[0].handler`.
    pub field: FieldPath,
    /// Where in the expression.
    pub expression: Option<ExpressionPlace>,
    /// What to do about it.
    pub hint: Option<String>,
    /// For problems of documents that are no resources.
    pub chunk: Option<Chunk>,
}

/// A document by its place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// From 0, empty ones counted.
    pub index: usize,
    /// The line on which it starts.
    pub line: u32,
}

impl Diagnostic {
    /// An error without a place yet.
    pub fn error(code: &'static str, field: FieldPath, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, field, message)
    }

    /// A warning without a place yet.
    pub fn warning(code: &'static str, field: FieldPath, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, field, message)
    }

    /// Any severity, without a place yet.
    pub fn new(severity: Severity, code: &'static str, field: FieldPath, message: impl Into<String>) -> Self {
        Self {
            severity,
            code,
            message: message.into(),
            legacy: None,
            resource: String::new(),
            file: None,
            span: None,
            field,
            expression: None,
            hint: None,
            chunk: None,
        }
    }

    /// What the originals write to their log about it: an entry of their error list, or what their store says of a document.
    pub fn log_text(&self) -> Cow<'_, str> {
        match (&self.legacy, self.chunk, &self.file) {
            (Some(text), Some(chunk), Some(file)) => {
                format!("Error processing {file}[{}]: {text}", chunk.index).into()
            }
            (Some(text), ..) => text.into(),
            (None, ..) => (&self.message).into(),
        }
    }

    /// With the text of the originals.
    #[must_use]
    pub fn with_legacy(mut self, legacy: impl Into<String>) -> Self {
        self.legacy = Some(legacy.into());
        self
    }

    /// With advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With the resource it is about.
    #[must_use]
    pub fn with_resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = resource.into();
        self
    }
}

/// A list of problems that grows while work goes on.
pub type Diagnostics = Vec<Diagnostic>;
