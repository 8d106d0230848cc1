//! Repairs forms that yaml.v2 accepts and saphyr-parser rejects.
//!
//! These are a tab after the colon of a key, and lines of a flow collection or a quoted scalar with less indentation than their
//! parent. The text is changed for another attempt, and changes of columns are recorded to restore positions.

use rustc_hash::FxHashMap;
use saphyr_parser::ScanError;

use crate::Location;

/// Spaces added to a line with too little indentation: more than any nesting needs.
const INDENT: usize = 256;
/// Maximum number of repairs of one text.
const MAX_REPAIRS: usize = 64;

/// The repairs of a text.
#[derive(Default)]
pub(super) struct Repairs {
    /// Lines that were indented, and by how much.
    indented: FxHashMap<u32, u32>,
    count: usize,
}

impl Repairs {
    /// Repairs the cause of `error`; `None` if there is no repair.
    pub(super) fn repair(&mut self, text: &str, error: &ScanError) -> Option<String> {
        self.count += 1;
        if self.count > MAX_REPAIRS {
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
                if self.indented.insert(line, u32::try_from(INDENT).ok()?).is_some() {
                    return None;
                }
                change_line(text, line_index, |line| format!("{}{line}", " ".repeat(INDENT)))
            }
            _ => None,
        }
    }

    /// The position in the original text.
    pub(super) fn original(&self, location: Location) -> Location {
        match self.indented.get(&location.line) {
            None => location,
            Some(indent) => {
                Location { line: location.line, column: location.column.saturating_sub(*indent).max(1) }
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
