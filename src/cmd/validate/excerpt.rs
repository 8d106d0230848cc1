//! A diagnostic with its source line.

use std::fmt::Write as _;
use std::path::Path;

use super::location::location;
use crate::cmd::io::{Io, Style};
use crate::cmd::output::escaped;
use mixer_base::regular_file;
use mixer_base::secrets::MASKED;
use mixer_config::store::StoreContents;
use mixer_config::yaml::mask_secrets;
use mixer_config::{Diagnostic, Severity, Span};

/// A larger file with documents that cannot be read is not shown, in bytes.
const MAX_SHOWN: u64 = 1 << 20;
/// Maximum characters of a source line.
const MAX_LINE_CHARS: usize = 160;

/// Maximum number of consequences that are named.
const MAX_FOLLOWERS: usize = 3;

/// Heading, position, source line with a caret, hint, and what follows from it.
pub(super) fn render(
    diagnostic: &Diagnostic,
    followers: &[&Diagnostic],
    contents: &StoreContents,
    io: &Io,
) -> String {
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
    if let Some(location) = location(diagnostic) {
        let mut parts = vec![location];
        parts.extend(
            [diagnostic.resource.clone(), diagnostic.field.to_string()].into_iter().filter(|p| !p.is_empty()),
        );
        let _ = writeln!(text, "{gutter} {} {}", io.paint(Style::Dim, "┌─"), escaped(&parts.join("  ")));
    } else if !diagnostic.resource.is_empty() {
        let _ = writeln!(text, "{gutter} {} {}", io.paint(Style::Dim, "┌─"), escaped(&diagnostic.resource));
    }
    if let (Some(source), Some(span)) = (source, diagnostic.span) {
        let bar = io.paint(Style::Dim, "│");
        let (column, note) = caret(diagnostic, &source, span);
        let shown: String = source.chars().take(MAX_LINE_CHARS).collect();
        // A tab takes one column, as the caret counts.
        let shown = shown.trim_end().replace('\t', " ");
        let _ = writeln!(text, "{} {bar} {}", io.paint(Style::Dim, &number), escaped(&shown));
        // What is masked may have been longer.
        let end = u32::try_from(shown.chars().count()).unwrap_or(u32::MAX).saturating_add(1);
        let column = if shown.contains(MASKED) { column.min(end) } else { column };
        let blanks = " ".repeat(usize::try_from(column.saturating_sub(1)).unwrap_or(0).min(MAX_LINE_CHARS));
        let _ = writeln!(text, "{gutter} {bar} {blanks}{}{note}", io.paint(style, "^"));
    }
    if let Some(hint) = &diagnostic.hint {
        let _ = writeln!(text, "{gutter} {} hint: {}", io.paint(Style::Dim, "="), escaped(hint));
    }
    for follower in followers.iter().take(MAX_FOLLOWERS) {
        let label = format!("{}[{}]", follower.severity.name(), follower.code);
        let _ = writeln!(
            text,
            "{gutter} {} therefore: {} {}",
            io.paint(Style::Dim, "="),
            io.paint(Style::Dim, &label),
            heading(follower)
        );
    }
    if let more @ 1.. = followers.len().saturating_sub(MAX_FOLLOWERS) {
        let _ = writeln!(text, "{gutter} {} and {more} more", io.paint(Style::Dim, "="));
    }
    text
}

/// The message; without the position for an expression error.
fn heading(diagnostic: &Diagnostic) -> String {
    let tail = diagnostic.expression.as_ref().and_then(|e| {
        let marker = format!(" {}:{}: ", e.line, e.column);
        diagnostic.message.rfind(&marker).and_then(|at| diagnostic.message.get(at + marker.len()..))
    });
    escaped(&tail.unwrap_or(&diagnostic.message).replace('\n', " ")).into_owned()
}

/// The column of the caret and the note after it.
fn caret(diagnostic: &Diagnostic, source: &str, span: Span) -> (u32, String) {
    let Some(expression) = &diagnostic.expression else { return (span.start.column, String::new()) };
    let note = format!(" expression column {}", expression.column);
    let first = source.chars().nth(usize::try_from(span.start.column.saturating_sub(1)).unwrap_or(0));
    // Columns match the source only on the first line of a flow scalar.
    if expression.line != 1 || matches!(first, Some('|' | '>')) {
        return (span.start.column, note);
    }
    let quote = u32::from(matches!(first, Some('"' | '\'')));
    (span.start.column + quote + expression.column.saturating_sub(1), note)
}

/// The source line of a diagnostic, with masked secrets: from the resource, else from the file.
fn source_line(diagnostic: &Diagnostic, contents: &StoreContents) -> Option<String> {
    let line = diagnostic.span?.start.line;
    let file = diagnostic.file.as_deref()?;
    let in_resource = contents.resources.iter().find_map(|resource| {
        let origin = &resource.origin;
        let offset = line.checked_sub(origin.first_line)?;
        if &*origin.file != file {
            return None;
        }
        let number = usize::try_from(offset).ok()?;
        // Of another document of the file, nothing is masked.
        origin.text.lines().nth(number)?;
        mask_secrets(&origin.text).lines().nth(number).map(str::to_owned)
    });
    in_resource.or_else(|| {
        // To tell what is secret takes all of it.
        let text = regular_file::read_text(Path::new(file), MAX_SHOWN).ok()?;
        mask_secrets(&text).lines().nth(usize::try_from(line.checked_sub(1)?).ok()?).map(str::to_owned)
    })
}
