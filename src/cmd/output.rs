//! Output shared by commands: formats, JSON and YAML documents, tables, durations.

use serde::Serialize;
use tabled::settings::{Padding, Style};

use super::io::Io;
use mixer_attribute::SignedDuration;
pub(crate) use mixer_base::log::escaped;

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OutputFormat {
    /// Tables and source excerpts.
    Table,
    /// One line per result.
    Plain,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

/// Output formats of dumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DumpFormat {
    /// Tables that fit the terminal.
    Table,
    /// Tables of unlimited width.
    Plain,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// The layout of the debug log of Istio Mixer.
    Debug,
}

impl DumpFormat {
    /// The given format; default: tables on a terminal, else plain.
    pub(crate) fn or_default(format: Option<DumpFormat>, io: &Io) -> DumpFormat {
        format.unwrap_or(if io.out_is_terminal { DumpFormat::Table } else { DumpFormat::Plain })
    }
}

/// A document as JSON, indented by two spaces, without a trailing newline.
pub(crate) fn json(document: &impl Serialize) -> String {
    serde_json::to_string_pretty(document).unwrap_or_default()
}

/// A document as YAML, with a trailing newline.
pub(crate) fn yaml(document: &impl Serialize) -> String {
    serde_yaml::to_string(document).unwrap_or_default()
}

/// A number of things: `1 rule`, `2 rules`.
pub(crate) fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

/// A text of several lines in which control characters other than line feeds are escaped.
pub(crate) fn escaped_lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(escaped).collect();
    lines.join("\n")
}

/// A table without borders; the last column wraps so that lines fit `width`.
pub(crate) fn table(headers: &[&str], rows: &[Vec<String>], width: usize) -> String {
    // A cell is one line, whatever it names.
    let escape = |row: &Vec<String>| row.iter().map(|cell| escaped(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(escape).collect();
    let last = headers.len().saturating_sub(1);
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(headers.get(column).map(|h| h.len())).max().unwrap_or(0) + GAP
    };
    let others: usize = (0..last).map(widest).sum();
    let last_width = width.saturating_sub(others).max(16);
    let mut builder = tabled::builder::Builder::new();
    builder.push_record(headers.iter().copied());
    for row in &rows {
        let cells = row.iter().enumerate();
        builder.push_record(
            cells.map(|(i, cell)| if i == last { wrap(cell, last_width) } else { cell.clone() }),
        );
    }
    let mut table = builder.build();
    table.with(Style::empty()).with(Padding::new(0, GAP, 0, 0));
    table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Spaces between columns.
const GAP: usize = 2;

/// Wraps a text between words at `width` characters; longer words are not split.
fn wrap(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut line));
            } else if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// A duration with several units: `1h 30m`, `5s`, `250ms`.
pub(crate) fn long_duration(duration: SignedDuration) -> String {
    let magnitude =
        humantime::format_duration(std::time::Duration::from_nanos(duration.nanos.unsigned_abs()));
    if duration.nanos < 0 { format!("-{magnitude}") } else { magnitude.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align_and_wrap_the_last_column() {
        let rows = vec![
            vec!["a".to_owned(), "short".to_owned()],
            vec!["longer".to_owned(), "several words that do not fit".to_owned()],
        ];
        let text = table(&["NAME", "TEXT"], &rows, 26);
        assert_eq!(text, "NAME    TEXT\na       short\nlonger  several words that\n        do not fit\n");
    }

    #[test]
    fn durations_have_several_units() {
        assert_eq!(long_duration(SignedDuration::from_secs(5400)), "1h 30m");
        assert_eq!(long_duration(SignedDuration::from_nanos(-250_000_000)), "-250ms");
    }
}
