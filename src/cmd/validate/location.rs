//! Source positions of diagnostics.

use mixer_config::Diagnostic;

/// `file:line:column`, as far as known.
pub(super) fn location(diagnostic: &Diagnostic) -> Option<String> {
    let file = diagnostic.file.as_deref()?;
    let Some(span) = diagnostic.span.filter(|s| s.start.line > 0) else { return Some(file.to_owned()) };
    Some(format!("{file}:{}:{}", span.start.line, span.start.column))
}
