//! Forms that the originals read and the parser refuses.
//!
//! A tab behind the colon of a key, and lines of a flow collection or a quoted text that start left of their parent. The text
//! is changed just enough for another try, and the change of columns is remembered.

use rustc_hash::FxHashMap;
use saphyr_parser::ScanError;

use crate::Location;

/// Blanks put in front of a line that starts too far left: more than any nesting needs.
const PUSH: usize = 256;
/// Most changes of one text.
const MOST: usize = 64;

/// What was changed in a text.
#[derive(Default)]
pub(super) struct Mended {
    pushed: FxHashMap<u32, u32>,
    changes: usize,
}

impl Mended {
    /// A text without what `error` is about; `None` if that cannot be helped.
    pub(super) fn mend(&mut self, text: &str, error: &ScanError) -> Option<String> {
        self.changes += 1;
        if self.changes > MOST {
            return None;
        }
        let at = *error.marker();
        let line_index = at.line().checked_sub(1)?;
        match error.info() {
            "':' must be followed by a valid YAML whitespace" => change_line(text, line_index, |line| {
                let (head, tail) = split_at_char(line, at.col());
                let kept = head.trim_end_matches('\t');
                format!("{kept}{}{tail}", " ".repeat(head.len() - kept.len()))
            }),
            "invalid indentation"
            | "invalid indentation in flow construct"
            | "invalid indentation in quoted scalar" => {
                let line = u32::try_from(at.line()).ok()?;
                if self.pushed.insert(line, u32::try_from(PUSH).ok()?).is_some() {
                    return None;
                }
                change_line(text, line_index, |line| format!("{}{line}", " ".repeat(PUSH)))
            }
            _ => None,
        }
    }

    /// The place in the text as it was.
    pub(super) fn original(&self, location: Location) -> Location {
        match self.pushed.get(&location.line) {
            None => location,
            Some(pushed) => {
                Location { line: location.line, column: location.column.saturating_sub(*pushed).max(1) }
            }
        }
    }
}

fn split_at_char(line: &str, chars: usize) -> (&str, &str) {
    let at = line.char_indices().nth(chars).map_or(line.len(), |(at, _)| at);
    line.split_at(at)
}

fn change_line(text: &str, index: usize, change: impl FnOnce(&str) -> String) -> Option<String> {
    let start = match index {
        0 => 0,
        n => text.match_indices('\n').nth(n - 1).map(|(at, _)| at + 1)?,
    };
    let (before, rest) = text.split_at_checked(start)?;
    let (line, after) = rest.split_at(rest.find('\n').unwrap_or(rest.len()));
    let changed = change(line);
    (changed != line).then(|| format!("{before}{changed}{after}"))
}
