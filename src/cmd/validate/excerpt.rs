//! A finding with the lines of source that it is about.

use std::fmt::Write as _;

use super::super::{Io, Style};
use super::place;
use mixer_config::store::StoreContents;
use mixer_config::{Diagnostic, Severity, Span};

/// Longest source line that is shown whole.
const WIDEST: usize = 160;

/// Heading, place, source line with a caret, advice.
pub(super) fn render(diagnostic: &Diagnostic, contents: &StoreContents, io: &Io) -> String {
    let style = match diagnostic.severity {
        Severity::Error => Style::Error,
        Severity::Warning => Style::Warning,
        Severity::Info => Style::Bold,
    };
    let label = format!("{}[{}]", diagnostic.severity.name(), diagnostic.code);
    let mut text = format!("{} {}\n", io.paint(style, &label), heading(diagnostic));
    let line_number = diagnostic.span.map_or(0, |s| s.start.line);
    let source = source_line(diagnostic, contents);
    let number = if source.is_some() { line_number.to_string() } else { String::new() };
    let gutter = " ".repeat(number.len());
    if let Some(place) = place(diagnostic) {
        let mut parts = vec![place];
        parts.extend(
            [diagnostic.resource.clone(), diagnostic.field.to_string()].into_iter().filter(|p| !p.is_empty()),
        );
        let _ = writeln!(text, "{gutter} {} {}", io.paint(Style::Dim, "┌─"), parts.join("  "));
    } else if !diagnostic.resource.is_empty() {
        let _ = writeln!(text, "{gutter} {} {}", io.paint(Style::Dim, "┌─"), diagnostic.resource);
    }
    if let (Some(source), Some(span)) = (source, diagnostic.span) {
        let bar = io.paint(Style::Dim, "│");
        let shown: String = source.chars().take(WIDEST).collect();
        let _ = writeln!(text, "{} {bar} {}", io.paint(Style::Dim, &number), shown.trim_end());
        let (column, note) = caret(diagnostic, &source, span);
        let blanks = " ".repeat(usize::try_from(column.saturating_sub(1)).unwrap_or(0).min(WIDEST));
        let _ = writeln!(text, "{gutter} {bar} {blanks}{}{note}", io.paint(style, "^"));
    }
    if let Some(hint) = &diagnostic.hint {
        let _ = writeln!(text, "{gutter} {} hint: {hint}", io.paint(Style::Dim, "="));
    }
    text
}

/// The message; of an expression error only what comes after the place in the expression.
fn heading(diagnostic: &Diagnostic) -> String {
    let tail = diagnostic.expression.as_ref().and_then(|e| {
        let marker = format!(" {}:{}: ", e.line, e.column);
        diagnostic.message.rfind(&marker).and_then(|at| diagnostic.message.get(at + marker.len()..))
    });
    tail.unwrap_or(&diagnostic.message).replace('\n', " ")
}

/// Where the caret stands, and what is said beside it.
fn caret(diagnostic: &Diagnostic, source: &str, span: Span) -> (u32, String) {
    let Some(expression) = &diagnostic.expression else { return (span.start.column, String::new()) };
    let note = format!(" expression column {}", expression.column);
    let first = source.chars().nth(usize::try_from(span.start.column.saturating_sub(1)).unwrap_or(0));
    // Only the first line of a scalar that is written in place lines up with the source.
    if expression.line != 1 || matches!(first, Some('|' | '>')) {
        return (span.start.column, note);
    }
    let quote = u32::from(matches!(first, Some('"' | '\'')));
    (span.start.column + quote + expression.column.saturating_sub(1), note)
}

/// The line of source that a finding starts on: from the resource, else from the file.
fn source_line(diagnostic: &Diagnostic, contents: &StoreContents) -> Option<String> {
    let line = diagnostic.span?.start.line;
    let file = diagnostic.file.as_deref()?;
    let in_resource = contents.resources.iter().find_map(|resource| {
        let origin = &resource.origin;
        let offset = line.checked_sub(origin.first_line)?;
        if &*origin.file != file {
            return None;
        }
        origin.text.lines().nth(usize::try_from(offset).ok()?).map(str::to_owned)
    });
    in_resource.or_else(|| {
        let text = std::fs::read_to_string(file).ok()?;
        text.lines().nth(usize::try_from(line.checked_sub(1)?).ok()?).map(str::to_owned)
    })
}
