//! Source excerpts of diagnostics with the position marked, and masked source.

use std::path::Path;

use maud::{Markup, html};

use mixer_base::regular_file;
use mixer_config::store::StoreContents;
use mixer_config::yaml::mask_secrets;
use mixer_config::{Diagnostic, RawResource, ResourceKey};

/// Context lines before the position.
const BEFORE: u32 = 2;
/// Context lines after the position.
const AFTER: u32 = 1;
/// Maximum number of characters of a line.
const WIDEST: usize = 240;
/// Maximum size of a file that is read for an excerpt.
const MAX_FILE: u64 = 1 << 20;

/// The resource with this full name.
pub(super) fn find<'c>(contents: &'c StoreContents, full_name: &str) -> Option<&'c RawResource> {
    let mut parts = full_name.rsplitn(3, '.');
    let (namespace, kind, name) = (parts.next()?, parts.next()?, parts.next()?);
    let key = ResourceKey { kind: kind.into(), namespace: namespace.into(), name: name.into() };
    contents.resources.get(&key).map(|resource| &**resource)
}

/// The text around a position and its first line in the file.
fn source(diagnostic: &Diagnostic, contents: &StoreContents) -> Option<(String, u32)> {
    let line = Some(diagnostic.span?.start.line).filter(|line| *line > 0)?;
    let file = diagnostic.file.as_deref()?;
    if let Some(resource) = find(contents, &diagnostic.resource) {
        let origin = &resource.origin;
        let lines = u32::try_from(origin.text.lines().count()).unwrap_or(u32::MAX);
        if &*origin.file == file
            && line >= origin.first_line
            && line < origin.first_line.saturating_add(lines)
        {
            return Some((origin.text.to_string(), origin.first_line));
        }
    }
    regular_file::read_text(Path::new(file), MAX_FILE).ok().map(|text| (text, 1))
}

/// First and last column of the range, 1-based, end exclusive.
fn columns(diagnostic: &Diagnostic, line: &str) -> (usize, usize) {
    let Some(span) = diagnostic.span else { return (1, 1) };
    let width = line.chars().count() + 1;
    let start = span.start.column as usize;
    let end = if span.end.line == span.start.line { span.end.column as usize } else { width };
    let first = line.chars().nth(start.saturating_sub(1));
    match &diagnostic.expression {
        // Only the first line of an inline scalar aligns with the source.
        Some(place) if place.line == 1 && !matches!(first, Some('|' | '>')) => {
            let quote = usize::from(matches!(first, Some('"' | '\'')));
            let at = start + quote + (place.column as usize).saturating_sub(1);
            (at, at + 1)
        }
        _ => (start, end.max(start + 1)),
    }
}

/// The lines around the position of a diagnostic; empty without source.
pub(super) fn excerpt(diagnostic: &Diagnostic, contents: &StoreContents) -> Markup {
    let Some((text, first_line)) = source(diagnostic, contents) else { return html! {} };
    let wanted = diagnostic.span.map_or(0, |span| span.start.line);
    let text = mask_secrets(&text);
    let shown = text
        .lines()
        .zip(first_line..)
        .filter(|(_, number)| *number + BEFORE >= wanted && *number <= wanted.saturating_add(AFTER));
    html! {
        pre.source { @for (line, number) in shown {
            @if number == wanted {
                @let (start, end) = columns(diagnostic, line);
                @let part = |from: usize, to: usize| line.chars().skip(from).take(to.saturating_sub(from)).collect::<String>();
                span.line.here { span.number { (number) } (part(0, start - 1)) mark { (part(start - 1, end - 1)) @if part(start - 1, end - 1).is_empty() { " " } } (part(end - 1, WIDEST)) "\n" }
            } @else {
                span.line { span.number { (number) } (line.chars().take(WIDEST).collect::<String>()) "\n" }
            }
        } }
    }
}

/// A text with line numbers.
pub(super) fn numbered(text: &str, first_line: u32) -> Markup {
    let text = mask_secrets(text);
    html! {
        pre.source { @for (line, number) in text.lines().zip(first_line..) {
            span.line { span.number { (number) } (line) "\n" }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_config::{ExpressionPlace, FieldPath, Location, Span};

    #[test]
    fn the_position_in_an_expression_is_marked() {
        let span = Span { start: Location { line: 1, column: 8 }, end: Location { line: 1, column: 20 } };
        let mut diagnostic = Diagnostic::error("x", FieldPath::root(), "m");
        diagnostic.span = Some(span);
        let line = "match: \"a = = b\"";
        assert_eq!(columns(&diagnostic, line), (8, 20));
        diagnostic.expression = Some(ExpressionPlace { text: "a = = b".to_owned(), column: 5, line: 1 });
        assert_eq!(columns(&diagnostic, line), (13, 14));
    }
}
