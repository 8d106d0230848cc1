//! `explain-code`: what the code of a diagnostic means, from docs/diagnostics.md.

use std::io::Write as _;

use super::exit::{Exit, Failure, Outcome};
use super::io::Io;
use mixer_config::message::suggestion;

/// The reference of all codes.
const REFERENCE: &str = include_str!("../../docs/diagnostics.md");

/// The heading of the table of examples.
const EXAMPLES: &str = "\n## Examples\n";

/// Flags of `explain-code`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ExplainCodeArgs {
    /// The code, alone or as `error[handler-unknown]`; default: a list of all codes.
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

/// A row of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry<'r> {
    code: &'r str,
    severity: &'r str,
    means: &'r str,
    todo: &'r str,
}

/// What a code is told for, from the table of examples.
fn example<'r>(reference: &'r str, code: &str) -> Option<&'r str> {
    let (_, examples) = reference.split_once(EXAMPLES)?;
    let row = format!("| `{code}` | ");
    let text = examples.lines().find_map(|line| line.strip_prefix(&row))?;
    text.trim_end().strip_suffix('|').map(str::trim)
}

/// The rows of the tables of codes, in their order.
fn entries(reference: &str) -> impl Iterator<Item = Entry<'_>> {
    reference.lines().flat_map(|line| {
        let cells: Vec<&str> = line.trim().trim_matches('|').split(" | ").map(str::trim).collect();
        let [codes, severity, means, todo] = cells[..] else { return Vec::new() };
        let quoted = codes.split('`').skip(1).step_by(2).filter(|_| codes.starts_with('`'));
        quoted.map(|code| Entry { code, severity, means, todo }).collect()
    })
}

/// Text without the markup of links and emphasis.
fn plain(markdown: &str) -> String {
    let mut text = String::with_capacity(markdown.len());
    let mut rest = markdown;
    while let Some(at) = rest.find("](") {
        let (before, after) = rest.split_at(at);
        let begin = before.rfind('[').unwrap_or(before.len());
        text.push_str(before.get(..begin).unwrap_or_default());
        text.push_str(before.get(begin + 1..).unwrap_or_default());
        rest = after.find(')').and_then(|end| after.get(end + 1..)).unwrap_or_default();
    }
    text.push_str(rest);
    text.replace("\\|", "|").replace("**", "")
}

/// All codes, sorted.
pub(crate) fn names() -> Vec<&'static str> {
    let mut codes: Vec<&str> = entries(REFERENCE).map(|entry| entry.code).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// The code in what was copied from a diagnostic: `error[CODE]:`, `[CODE]`, or the code alone.
fn code_in(text: &str) -> &str {
    let text = text.trim().trim_end_matches(':');
    let inner = text.strip_suffix(']').and_then(|text| text.rsplit_once('['));
    inner.map_or(text, |(_, code)| code)
}

/// Prints what a code means, or all codes.
pub(crate) fn run(args: &ExplainCodeArgs, io: &mut Io) -> Outcome {
    let Some(code) = &args.code else {
        for code in names() {
            writeln!(io.out, "{code}")?;
        }
        return Ok(Exit::Success);
    };
    let code = code_in(code);
    let found: Vec<Entry<'_>> = entries(REFERENCE).filter(|entry| entry.code == code).collect();
    if found.is_empty() {
        let near = suggestion(code, entries(REFERENCE).map(|entry| entry.code));
        let hint = near.unwrap_or_else(|| "`mixer explain-code` lists all codes".to_owned());
        return Err(Failure::usage(format!("no diagnostic has the code `{code}`")).hint(hint).into());
    }
    for (at, Entry { severity, means, todo, .. }) in found.into_iter().enumerate() {
        if at > 0 {
            writeln!(io.out)?;
        }
        writeln!(io.out, "{code} ({severity})\n  {}\n  what to do: {}", plain(means), plain(todo))?;
    }
    if let Some(example) = example(REFERENCE, code) {
        writeln!(io.out, "  example: {}", plain(example))?;
    }
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each code of an analyzer.
    #[test]
    fn messages_of_analyzers_are_explained() {
        let mut codes = 0;
        for (name, about) in mixer_schema::analysis::analyzers() {
            let of = about.split(':').next().unwrap_or_default().split(", ");
            for code in of {
                assert!(code.starts_with("IST"), "{name}: {about}");
                assert!(entries(REFERENCE).any(|entry| entry.code == code), "{code}");
                codes += 1;
            }
        }
        assert!(codes > 20, "{codes}");
    }

    /// Cause, cure and example: none is empty, and none refers to another row.
    #[test]
    fn every_code_has_a_cause_a_cure_and_an_example() {
        let mut lacking = Vec::new();
        for Entry { code, severity, means, todo } in entries(REFERENCE) {
            let example = example(REFERENCE, code).unwrap_or_default();
            for (what, text) in
                [("severity", severity), ("cause", means), ("cure", todo), ("example", example)]
            {
                if text.len() < 4 || text == "likewise" {
                    lacking.push(format!("{code} has no {what}: {text:?}"));
                }
            }
        }
        // Rows with other than four cells are not read.
        let (tables, examples) = REFERENCE.split_once(EXAMPLES).unwrap();
        let codes = names();
        let read = |line: &&str| !line.starts_with("| `") || entries(line).next().is_some();
        lacking.extend(tables.lines().filter(|line| !read(line)).map(|line| format!("not read: {line}")));
        let known = |line: &&str| codes.iter().any(|code| line.starts_with(&format!("| `{code}` | ")));
        let rows = examples.lines().filter(|line| line.starts_with("| `"));
        lacking.extend(rows.filter(|line| !known(line)).map(|line| format!("an example of no code: {line}")));
        assert!(lacking.is_empty(), "{}", lacking.join("\n"));
        assert!(codes.len() > 180, "{}", codes.len());
    }

    #[test]
    fn rows_become_text() {
        let row = "| code | severity | a | b |\n| `x-y` | error | see [files](a.md#b) and **that** | write `a \\| b` |\n";
        let found: Vec<_> = entries(row).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        let entry = found.first().unwrap();
        assert_eq!((entry.code, entry.severity), ("x-y", "error"));
        assert_eq!(plain(entry.means), "see files and that");
        assert_eq!(plain(entry.todo), "write `a | b`");
        assert!(entries(REFERENCE).count() > 120, "{}", entries(REFERENCE).count());
    }
}
