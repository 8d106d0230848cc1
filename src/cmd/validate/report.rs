//! The formats of the problems of a configuration.

use serde_json::{Value, json};

use super::location::location;
use crate::cmd::output::escaped;
use mixer_base::build_info::BuildInfo;
use mixer_config::{Diagnostic, Severity};

/// The output formats of `validate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ReportFormat {
    /// Source excerpts of the first 50 problems, errors first; what follows from a problem below it.
    Table,
    /// One line per problem, with its hint.
    #[value(alias = "text")]
    Plain,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// Commands of GitHub Actions, which annotate the lines of a change.
    Github,
    /// One SARIF 2.1.0 document, for code scanning.
    Sarif,
}

/// A problem in a line of its own: `file:line:column: severity[code]: resource: message (hint)`, a format that programs read. Its order and texts
/// are those of the golden cases.
///
/// Without the hint of a problem that follows from another one, which has a line with its own hint, and without one that repeats the message.
pub(super) fn line(diagnostic: &Diagnostic, follows_from_another: bool) -> String {
    let has_hint = !follows_from_another && !repeats_message(diagnostic);
    line_of(diagnostic, &if has_hint { text(diagnostic) } else { diagnostic.one_line() })
}

/// Whether the hint names nothing but what the message says was expected: `compare with ==` beside `expected '==', found '='`.
fn repeats_message(diagnostic: &Diagnostic) -> bool {
    let (_, expected) = diagnostic.message.rsplit_once("expected '").unwrap_or_default();
    let expected = expected.split('\'').next().unwrap_or_default();
    let named = diagnostic.hint.as_deref().and_then(|hint| hint.strip_prefix("compare with "));
    named.is_some_and(|named| named == expected)
}

fn line_of(diagnostic: &Diagnostic, message: &str) -> String {
    let mut line = String::new();
    if let Some(location) = location(diagnostic) {
        line.push_str(&location);
        line.push_str(": ");
    }
    line.push_str(&format!("{}[{}]: ", diagnostic.severity.name(), diagnostic.code));
    if !diagnostic.resource.is_empty() {
        line.push_str(&diagnostic.resource);
        line.push_str(": ");
    }
    line.push_str(message);
    escaped(&line).into_owned()
}

/// Message and hint in one line.
fn text(diagnostic: &Diagnostic) -> String {
    match &diagnostic.hint {
        Some(hint) => format!("{} ({})", diagnostic.one_line(), hint.replace('\n', " ")),
        None => diagnostic.one_line(),
    }
}

/// A workflow command of GitHub: `::error file=…,line=…,col=…,title=…::message`.
pub(super) fn github(diagnostic: &Diagnostic) -> String {
    let command = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "notice",
    };
    let mut properties = Vec::new();
    if let Some(file) = &diagnostic.file {
        properties.push(format!("file={}", property(file)));
    }
    if let Some(span) = diagnostic.span.filter(|span| span.start.line > 0) {
        properties.push(format!("line={},col={}", span.start.line, span.start.column));
    }
    properties.push(format!("title={}", property(diagnostic.code)));
    let resource = if diagnostic.resource.is_empty() { "" } else { ": " };
    let message = data(&format!("{}{resource}{}", diagnostic.resource, text(diagnostic)));
    escaped(&format!("::{command} {}::{message}", properties.join(","))).into_owned()
}

/// Escapes the text of a command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes the value of a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// A SARIF log with one run. Spec: SARIF 2.1.0 sections 3.13, 3.14 and 3.27.
pub(super) fn sarif(diagnostics: &[Diagnostic]) -> Value {
    let mut codes: Vec<&str> = diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    codes.sort_unstable();
    codes.dedup();
    let rules: Vec<Value> = codes.iter().map(|code| json!({ "id": code })).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "mixer", "version": BuildInfo::of_this_program().version, "rules": rules } },
            "columnKind": "unicodeCodePoints",
            "results": diagnostics.iter().map(result).collect::<Vec<_>>(),
        }],
    })
}

fn result(diagnostic: &Diagnostic) -> Value {
    let level = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    };
    let mut result = json!({
        "ruleId": diagnostic.code,
        "level": level,
        "message": { "text": text(diagnostic) },
    });
    let Some(members) = result.as_object_mut() else { return result };
    let mut location = serde_json::Map::new();
    if let Some(file) = &diagnostic.file {
        let mut physical = json!({ "artifactLocation": { "uri": uri(file) } });
        if let (Some(span), Some(physical)) =
            (diagnostic.span.filter(|span| span.start.line > 0), physical.as_object_mut())
        {
            let (line, column) = (span.start.line, span.start.column.max(1));
            physical.insert("region".to_owned(), json!({ "startLine": line, "startColumn": column }));
        }
        location.insert("physicalLocation".to_owned(), physical);
    }
    if !diagnostic.resource.is_empty() {
        location.insert(
            "logicalLocations".to_owned(),
            json!([{ "fullyQualifiedName": diagnostic.resource, "kind": "resource" }]),
        );
    }
    if !location.is_empty() {
        members.insert("locations".to_owned(), json!([location]));
    }
    result
}

/// A path as a reference: what has a meaning in one is percent-encoded. Spec: RFC 3986 section 2.1.
fn uri(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_config::{FieldPath, Location, Span};

    fn problem() -> Diagnostic {
        let start = Location { line: 3, column: 7 };
        let mut problem = Diagnostic::error("x-y", FieldPath::root(), "100 %\nwrong".to_owned());
        problem.file = Some("a b,c.yaml".into());
        problem.resource = "r.rule.ns".to_owned();
        problem.span = Some(Span { start, end: start });
        problem.with_hint("write this")
    }

    #[test]
    fn a_problem_in_every_format_of_a_line() {
        let whole = "a b,c.yaml:3:7: error[x-y]: r.rule.ns: 100 % wrong (write this)";
        assert_eq!(line(&problem(), false), whole);
        assert_eq!(
            line(&problem(), true),
            whole.trim_end_matches(" (write this)"),
            "it follows from another"
        );
        assert_eq!(
            github(&problem()),
            "::error file=a b%2Cc.yaml,line=3,col=7,title=x-y::r.rule.ns: 100 %25 wrong (write this)"
        );
    }

    #[test]
    fn a_hint_that_repeats_its_message_is_not_in_the_line() {
        let with = |message: &str, hint: &str| {
            let problem = Diagnostic::error("x-y", FieldPath::root(), message).with_hint(hint);
            line(&problem, false)
        };
        let (needed, given) = ("1:3: expected '==', found '='", "1:3: expected 'EOF', found =");
        assert_eq!(with(needed, "compare with =="), format!("error[x-y]: {needed}"));
        assert_eq!(with(given, "compare with =="), format!("error[x-y]: {given} (compare with ==)"));
        assert_eq!(with(needed, "write a == b"), format!("error[x-y]: {needed} (write a == b)"));
    }

    #[test]
    fn sarif_has_rule_level_text_and_place() {
        let mut nowhere = problem().with_severity(Severity::Info);
        (nowhere.file, nowhere.resource, nowhere.hint) = (None, String::new(), None);
        let log = sarif(&[problem(), nowhere]);
        let run = &log["runs"][0];
        assert_eq!(
            (&log["version"], &run["tool"]["driver"]["rules"]),
            (&json!("2.1.0"), &json!([{ "id": "x-y" }]))
        );
        let location = json!([{
            "physicalLocation": {
                "artifactLocation": { "uri": "a%20b%2Cc.yaml" },
                "region": { "startLine": 3, "startColumn": 7 },
            },
            "logicalLocations": [{ "fullyQualifiedName": "r.rule.ns", "kind": "resource" }],
        }]);
        let first = json!({
            "ruleId": "x-y", "level": "error", "message": { "text": "100 % wrong (write this)" }, "locations": location,
        });
        assert_eq!(run["results"][0], first);
        assert_eq!(
            run["results"][1],
            json!({ "ruleId": "x-y", "level": "note", "message": { "text": "100 % wrong" } })
        );
    }
}
