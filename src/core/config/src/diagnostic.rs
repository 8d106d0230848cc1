//! Problems in the user's configuration.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::{FieldPath, Span};
use mixer_base::secrets::mask_text;

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// A part of the configuration is not applied.
    Error,
    /// The configuration is applied, but probably not as intended.
    Warning,
    /// For information.
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

/// A position in an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionPlace {
    /// The whole expression.
    pub text: String,
    /// From 1, in characters of the expression (of its line, if it has several).
    pub column: u32,
    /// From 1.
    pub line: u32,
}

/// A problem found anywhere between a file and the published routing table. The same list feeds `validate`, the server log,
/// introspection, the metrics and admission.
///
/// Copies share everything but the place: a configuration may have many problems, and they are in many lists.
#[derive(Debug, Clone)]
pub struct Diagnostic {
    /// The file as given by the user, or another origin.
    pub file: Option<Arc<str>>,
    /// The position in the file.
    pub span: Option<Span>,
    /// Everything else, which the diagnostic dereferences to. A copy that is changed has its own from then on.
    pub details: Arc<DiagnosticDetails>,
}

/// What a [`Diagnostic`] has beside its place.
#[derive(Debug, Clone, PartialEq)]
pub struct DiagnosticDetails {
    /// The severity.
    pub severity: Severity,
    /// Stable kebab-case code, for example `handler-unknown`; docs/diagnostics.md lists them all.
    pub code: &'static str,
    /// One line, lower case except for Istio Mixer's texts.
    pub message: String,
    /// Istio Mixer's text for the same problem, if it has one.
    pub legacy: Option<String>,
    /// `name.kind.namespace` of the resource; empty if there is none.
    pub resource: String,
    /// The position in the resource, for example `spec.actions[0].handler`.
    pub field: FieldPath,
    /// The position in the expression.
    pub expression: Option<ExpressionPlace>,
    /// How to fix it.
    pub hint: Option<String>,
    /// `name.kind.namespace` of another resource that is missing. If it has an error of its own, that is the cause of this one.
    pub cause: Option<Box<str>>,
    /// The chunk, for problems of documents that are not resources.
    pub chunk: Option<Chunk>,
    /// Whether Istio Mixer has no such problem and logs nothing.
    pub accepted_by_istio: bool,
    /// The number of further problems of the resource, of this severity, that no diagnostic of their own tells.
    pub more: usize,
}

impl Deref for Diagnostic {
    type Target = DiagnosticDetails;

    fn deref(&self) -> &DiagnosticDetails {
        &self.details
    }
}

impl DerefMut for Diagnostic {
    fn deref_mut(&mut self) -> &mut DiagnosticDetails {
        Arc::make_mut(&mut self.details)
    }
}

impl PartialEq for Diagnostic {
    fn eq(&self, other: &Self) -> bool {
        let is_same = || Arc::ptr_eq(&self.details, &other.details) || self.details == other.details;
        self.span == other.span && self.file == other.file && is_same()
    }
}

/// The position of a document in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// From 0, counting empty chunks.
    pub index: usize,
    /// The line on which it starts.
    pub line: u32,
}

impl Diagnostic {
    /// An error without file and span.
    pub fn error(code: &'static str, field: FieldPath, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, field, message)
    }

    /// A warning without file and span.
    pub fn warning(code: &'static str, field: FieldPath, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, field, message)
    }

    /// A diagnostic without file and span.
    pub fn new(severity: Severity, code: &'static str, field: FieldPath, message: impl Into<String>) -> Self {
        let details = DiagnosticDetails {
            severity,
            code,
            message: shortened(message.into()),
            legacy: None,
            resource: String::new(),
            field,
            expression: None,
            hint: None,
            cause: None,
            chunk: None,
            accepted_by_istio: false,
            more: 0,
        };
        Self { file: None, span: None, details: Arc::new(details) }
    }

    /// The number of problems that it stands for.
    pub fn count(&self) -> usize {
        self.more.saturating_add(1)
    }

    /// The text for the server log: Istio Mixer's if it has one.
    pub fn log_text(&self) -> Cow<'_, str> {
        match (&self.legacy, self.chunk, &self.file) {
            (Some(text), Some(chunk), Some(file)) => {
                format!("Error processing {file}[{}]: {text}", chunk.index).into()
            }
            (Some(text), ..) => text.into(),
            (None, ..) => (&self.message).into(),
        }
    }

    /// The message in one line.
    pub fn one_line(&self) -> String {
        self.message.replace('\n', " ")
    }

    /// Position, resource, message and hint in one line.
    pub fn brief(&self) -> String {
        let mut text = String::new();
        let line = self.span.map(|span| span.start.line).filter(|line| *line > 0);
        match (&self.file, line) {
            (Some(file), Some(line)) => text.push_str(&format!("{file}:{line}: ")),
            (Some(file), None) if !self.message.contains(&**file) => text.push_str(&format!("{file}: ")),
            _ => {}
        }
        if !self.resource.is_empty() {
            text.push_str(&format!("{}: ", self.resource));
        }
        // An object of a server has no lines: its field says where the problem is.
        let is_at_no_line = self.span.is_some_and(|span| span.start.line == 0);
        if is_at_no_line && !self.field.is_root() {
            text.push_str(&format!("{}: ", self.field));
        }
        text.push_str(&self.one_line());
        if let Some(hint) = &self.hint {
            text.push_str(&format!(" ({})", hint.replace('\n', " ")));
        }
        text
    }

    /// Sets Istio Mixer's text.
    #[must_use]
    pub fn with_legacy(mut self, legacy: impl Into<String>) -> Self {
        self.legacy = Some(shortened(legacy.into()));
        self
    }

    /// Says that Istio Mixer has no such problem.
    #[must_use]
    pub fn accepted_by_istio(mut self) -> Self {
        self.accepted_by_istio = true;
        self
    }

    /// Sets the hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(shortened(hint.into()));
        self
    }

    /// Sets the severity.
    #[must_use]
    pub fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Sets the resource.
    #[must_use]
    pub fn with_resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = resource.into();
        self
    }
}

/// Maximum length of a text of a diagnostic, in bytes.
const MAX_TEXT: usize = 16 << 10;

/// The text without what is secret in any text, cut off at [`MAX_TEXT`]: names and documents are quoted, however long.
fn shortened(text: String) -> String {
    let mut text = match mask_text(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(masked) => masked,
    };
    if text.len() > MAX_TEXT {
        let length = text.len();
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        text.push_str(&format!("… ({length} bytes)"));
    }
    text
}

/// A list of diagnostics.
pub type Diagnostics = Vec<Diagnostic>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brief_form_has_position_and_cure() {
        let mut problem = Diagnostic::error("x", FieldPath::root(), "Handler not found: handler='a'")
            .with_resource("r.rule.ns")
            .with_hint("did you mean `b`?");
        assert_eq!(problem.brief(), "r.rule.ns: Handler not found: handler='a' (did you mean `b`?)");
        problem.file = Some("/conf/a.yaml".into());
        problem.span = Some(Span::default());
        let text = "r.rule.ns: Handler not found: handler='a' (did you mean `b`?)";
        assert_eq!(problem.brief(), format!("/conf/a.yaml: {text}"), "the line is unknown");
        problem.span.iter_mut().for_each(|span| span.start.line = 7);
        assert_eq!(problem.brief(), format!("/conf/a.yaml:7: {text}"));
        let mut lost = Diagnostic::error("x", FieldPath::root(), "lstat /conf: no such file or directory");
        lost.file = Some("/conf".into());
        assert_eq!(lost.brief(), "lstat /conf: no such file or directory", "named once");
    }

    #[test]
    fn long_texts_are_cut_off() {
        let quoted = format!("unknown field `{}`", "é".repeat(20_000));
        let diagnostic = Diagnostic::error("x", FieldPath::root(), quoted.clone()).with_hint(quoted);
        assert!(diagnostic.message.ends_with("é… (40016 bytes)"), "{}", &diagnostic.message[16_000..]);
        assert!(
            diagnostic.message.len() < MAX_TEXT + 32
                && diagnostic.hint.as_ref().unwrap().len() < MAX_TEXT + 32
        );
    }
}
