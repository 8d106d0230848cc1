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

/// A table without borders whose lines fit `width`: the last column wraps between words; if that does not suffice, the widest columns wrap,
/// behind the `/` and `.` of a name too, and elsewhere within it only if nothing else helps.
pub(crate) fn table(headers: &[&str], rows: &[Vec<String>], width: usize) -> String {
    // A cell is one line, whatever it names.
    let escape = |row: &Vec<String>| row.iter().map(|cell| escaped(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(escape).collect();
    let last = headers.len().saturating_sub(1);
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(headers.get(column).map(|h| h.len())).max().unwrap_or(0)
    };
    let natural: Vec<usize> = (0..headers.len()).map(widest).collect();
    let widths = column_widths(headers, &natural, &longest_parts(headers.len(), &rows), width);
    let mut builder = tabled::builder::Builder::new();
    builder.push_record(headers.iter().copied());
    for row in &rows {
        let cells = row.iter().enumerate();
        builder.push_record(cells.map(|(i, cell)| match widths.get(i) {
            Some(width) if i == last || natural.get(i) > Some(width) => wrap(cell, *width),
            _ => cell.clone(),
        }));
    }
    let mut table = builder.build();
    table.with(Style::empty()).with(Padding::new(0, GAP, 0, 0));
    table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A [`table`] if no part of a name has to be split in it. Otherwise each row is lines of their own, one for each column.
pub(crate) fn table_or_lines(headers: &[&str], rows: &[Vec<String>], width: usize) -> String {
    let parts = longest_parts(headers.len(), rows);
    let columns = headers.iter().zip(&parts).map(|(header, part)| header.len().max(*part));
    if columns.sum::<usize>() + GAP * headers.len().saturating_sub(1) <= width {
        return table(headers, rows, width);
    }
    let label = headers.iter().map(|header| header.len()).max().unwrap_or(0) + GAP;
    let mut text = String::new();
    for row in rows {
        let filled = headers.iter().zip(row).filter(|(_, cell)| !cell.is_empty());
        for (header, cell) in filled {
            let wrapped = wrap(&escaped(cell), width.saturating_sub(label).max(1));
            for (number, line) in wrapped.lines().enumerate() {
                let header = if number == 0 { header } else { "" };
                text.push_str(format!("{header:label$}{line}").trim_end());
                text.push('\n');
            }
        }
        text.push('\n');
    }
    text
}

/// The longest part of the words of each column.
fn longest_parts(columns: usize, rows: &[Vec<String>]) -> Vec<usize> {
    let longest = |column: usize| {
        let words = rows.iter().filter_map(|row| row.get(column)).flat_map(|cell| cell.split(' '));
        words.flat_map(parts).map(|part| part.chars().count()).max().unwrap_or(0)
    };
    (0..columns).map(longest).collect()
}

/// Spaces between columns.
const GAP: usize = 2;
/// Least width of a last column that other columns do not give way to.
const LAST: usize = 16;

/// The width of each column, without gaps. The last one has what the others leave, which take less than their text only if that is less
/// than [`LAST`] and the longest of its parts: then the widest ones give way, down to the longest of theirs. If that does not suffice, parts
/// are split, and the widest give way down to their headers.
fn column_widths(headers: &[&str], natural: &[usize], longest: &[usize], width: usize) -> Vec<usize> {
    let mut widths = natural.to_vec();
    let Some((last, others)) = widths.split_last_mut() else { return widths };
    let gaps = GAP * others.len();
    let least = LAST.min(*last);
    let whole = least.max(longest.last().copied().unwrap_or(0));
    for (needed, splits) in [(whole, false), (least, true)] {
        while others.iter().sum::<usize>() + gaps + needed > width {
            let spare = |(column, width): &(usize, &mut usize)| {
                let header = headers.get(*column).map_or(0, |header| header.len());
                let part = longest.get(*column).copied().filter(|_| !splits).unwrap_or(0);
                **width > header.max(part)
            };
            let Some((_, widest)) = others.iter_mut().enumerate().filter(spare).max_by_key(|(_, w)| **w)
            else {
                break;
            };
            *widest -= 1;
        }
    }
    let left = width.saturating_sub(others.iter().sum::<usize>() + gaps);
    let header = headers.last().map_or(0, |header| header.len());
    *last = left.max(header).max(1);
    widths
}

/// The parts of a word, behind each `/` and `.`.
fn parts(word: &str) -> impl Iterator<Item = &str> {
    word.split_inclusive(['/', '.'])
}

/// Wraps a text at `width` characters, between words; a word that is longer is split, between its parts if they fit.
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
            for part in parts(word) {
                let is_long = word.chars().count() > width;
                if is_long && !line.is_empty() && line.chars().count() + part.chars().count() > width {
                    lines.push(std::mem::take(&mut line));
                }
                let mut rest = part;
                while let Some((at, _)) = rest.char_indices().nth(width) {
                    let (first, after) = rest.split_at(at);
                    lines.push(first.to_owned());
                    rest = after;
                }
                line.push_str(rest);
            }
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
    fn tables_fit_their_width_whatever_their_cells() {
        let long = "averylongnamespace.with.parts".repeat(3);
        let rows = vec![vec![long.clone(); 7], vec!["a".to_owned(); 7]];
        let headers = ["VARIETY", "NAMESPACE", "HANDLER", "ADAPTER", "CONDITION", "INSTANCES", "RULES"];
        for width in [80, 100, 132] {
            let text = table(&headers, &rows, width);
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{width}: {widest:?}\n{text}");
            let letters = |text: &str| text.chars().filter(|c| *c == 'y').count();
            assert_eq!(letters(&text), 7 * letters(&long), "nothing is left out");
        }
        assert_eq!(table(&headers, &rows, usize::MAX).lines().count(), 3);
    }

    /// The routes of an ordinary configuration, in a terminal of the usual width.
    #[test]
    fn names_are_split_between_their_parts() {
        let rows = [
            [
                "CHECK",
                "istio-system",
                "turn-away.istio-system",
                "denier",
                "(always)",
                "caller",
                "unwelcome-client",
            ],
            [
                "CHECK",
                "istio-system",
                "visitors.istio-system",
                "listchecker",
                "(always)",
                "who",
                "list, closed-service",
            ],
        ];
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        let headers = ["VARIETY", "NAMESPACE", "HANDLER", "ADAPTER", "CONDITION", "INSTANCES", "RULES"];
        let expected = "\
VARIETY  NAMESPACE     HANDLER       ADAPTER      CONDITION  INSTANCES  RULES
CHECK    istio-system  turn-away.    denier       (always)   caller     unwelcome-client
                       istio-system
CHECK    istio-system  visitors.     listchecker  (always)   who        list,
                       istio-system                                     closed-service
";
        assert_eq!(table(&headers, &rows, 88), expected);
        assert_eq!(table_or_lines(&headers, &rows, 88), expected);
        let lines = "\
VARIETY    CHECK
NAMESPACE  istio-system
HANDLER    turn-away.istio-system
ADAPTER    denier
CONDITION  (always)
INSTANCES  caller
RULES      unwelcome-client

VARIETY    CHECK
";
        let narrow = table_or_lines(&headers, &rows, 80);
        assert!(
            narrow.starts_with(lines) && narrow.ends_with("RULES      list, closed-service\n\n"),
            "{narrow}"
        );
        assert_eq!(wrap("/a/longer/path and words", 10), "/a/longer/\npath and\nwords");
        assert_eq!(wrap("a.verylongname", 6), "a.\nverylo\nngname");
    }

    #[test]
    fn durations_have_several_units() {
        assert_eq!(long_duration(SignedDuration::from_secs(5400)), "1h 30m");
        assert_eq!(long_duration(SignedDuration::from_nanos(-250_000_000)), "-250ms");
    }
}
