//! The text of an expression, and errors with positions in it.

use crate::{CompileError, Phase};

/// A text and the offsets of its lines. Offsets are in characters from 0.
#[derive(Debug)]
pub(super) struct Source<'t> {
    text: &'t str,
    /// For each line, the offset after its line feed; one more for the last line.
    line_ends: Vec<u32>,
}

/// One problem, at an offset in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) at: u32,
    pub(super) message: String,
    pub(super) unknown: Option<String>,
    pub(super) hint: Option<String>,
}

impl Problem {
    /// A problem without a hint.
    pub(super) fn new(at: u32, message: impl Into<String>) -> Problem {
        Problem { at, message: message.into(), unknown: None, hint: None }
    }

    /// Sets the hint.
    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the undeclared attribute.
    pub(super) fn with_unknown(mut self, name: impl Into<String>) -> Problem {
        self.unknown = Some(name.into());
        self
    }
}

impl<'t> Source<'t> {
    pub(super) fn new(text: &'t str) -> Source<'t> {
        let mut end = 0u32;
        let line_ends = text
            .split('\n')
            .map(|line| {
                end = end
                    .saturating_add(u32::try_from(line.chars().count()).unwrap_or(u32::MAX))
                    .saturating_add(1);
                end
            })
            .collect();
        Source { text, line_ends }
    }

    /// Line and column of an offset, both from 1.
    pub(super) fn position(&self, at: u32) -> (u32, u32) {
        let line =
            self.line_ends.partition_point(|end| *end <= at).min(self.line_ends.len().saturating_sub(1));
        let start = line.checked_sub(1).and_then(|before| self.line_ends.get(before)).copied().unwrap_or(0);
        (
            u32::try_from(line).unwrap_or(u32::MAX).saturating_add(1),
            at.saturating_sub(start).saturating_add(1),
        )
    }

    /// `ERROR: <input>:L:C: message`, the line, and a pointer to the column.
    fn render(&self, problem: &Problem) -> String {
        let (line, column) = self.position(problem.at);
        let excerpt = self.text.split('\n').nth(line as usize - 1).unwrap_or("").replace('\t', " ");
        let before = (column - 1) as usize;
        // Non-ASCII characters get a full-width pointer, which aligns in most fonts.
        let mut pointer: String =
            excerpt.chars().take(before).map(|c| if c.is_ascii() { '.' } else { '\u{ff0e}' }).collect();
        pointer.push(if excerpt.chars().nth(before).is_none_or(|c| c.is_ascii()) { '^' } else { '\u{ff3e}' });
        format!("ERROR: <input>:{line}:{column}: {}\n | {excerpt}\n | {pointer}", problem.message)
    }

    /// The error that lists all `problems`, with the position of the first.
    pub(super) fn reject(&self, problems: Vec<Problem>) -> CompileError {
        let texts: Vec<String> = problems.iter().map(|problem| self.render(problem)).collect();
        let mut error = CompileError::new(Phase::Static, texts.join("\n"));
        if let Some(first) = problems.into_iter().next() {
            error.position = Some(self.position(first.at));
            error.unknown_attribute = first.unknown;
            error.hint = first.hint;
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_shown_below_its_line() {
        let source = Source::new("b1 &&\n\tübel && s1");
        let error = source.reject(vec![Problem::new(15, "no")]);
        assert_eq!(error.position, Some((2, 10)));
        assert_eq!(error.message, "ERROR: <input>:2:10: no\n |  übel && s1\n | .\u{ff0e}.......^");
    }

    #[test]
    fn the_end_of_the_text_has_a_position() {
        let source = Source::new("a ==");
        assert_eq!(source.position(4), (1, 5));
        assert_eq!(Source::new("").position(0), (1, 1));
        assert_eq!(Source::new("a\n").position(2), (2, 1));
    }
}
