//! `validate`: everything wrong with a configuration, with places and advice.

mod excerpt;

use std::io::Write as _;

use serde_json::{Value, json};

use super::output::{self, Format};
use super::source::{self, NamespaceFlags};
use super::{Exit, Failure, Io, Outcome, Stop, Style};
use mixer_config::store::StoreContents;
use mixer_config::{Diagnostic, Diagnostics, Severity};
use mixer_engine::snapshot::{check_params, lint, pitfalls};

/// Flags of `validate`.
#[derive(Debug, Clone, clap::Args)]
pub struct ValidateArgs {
    /// Files, directories (read recursively), store URLs, or `-` for standard input.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    #[command(flatten)]
    namespace: NamespaceFlags,
    /// Count warnings as errors.
    #[arg(long)]
    strict: bool,
    /// Look for what works but is hardly meant: unused handlers and instances, constant conditions, rules that never differ.
    #[arg(long)]
    lint: bool,
    /// Show what would change in a running server: host and port of its ControlZ endpoint. Example: localhost:9876.
    #[arg(long, value_name = "ADDRESS")]
    live: Option<String>,
    /// How findings are written; a table on a terminal, else plain.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

/// Counts for the last line and the documents.
struct Totals {
    files: usize,
    resources: usize,
    errors: usize,
    warnings: usize,
}

/// Reads, checks, prints and judges. Spec: cli-operations.md 9.4.
pub(crate) fn run(args: &ValidateArgs, io: &mut Io) -> Outcome {
    if args.live.is_some() && matches!(args.output, Some(Format::Json | Format::Yaml)) {
        let failure = Failure::usage("--live prints a comparison for people, which is no document");
        return Err(failure.hint("leave --output out, or use `mixer snapshot dump --diff`").into());
    }
    let contents = source::read(&args.paths, io)?;
    let diagnostics = examine(&contents, args);
    let count = |severity| diagnostics.iter().filter(|d| d.severity == severity).count();
    let totals = Totals {
        files: contents.files,
        resources: contents.documents,
        errors: count(Severity::Error),
        warnings: count(Severity::Warning),
    };
    let valid = totals.errors == 0 && (!args.strict || totals.warnings == 0);
    let default = if io.out_is_terminal { Format::Table } else { Format::Plain };
    match args.output.unwrap_or(default) {
        Format::Json => writeln!(io.out, "{}", output::json(&document(&diagnostics, &totals, valid)))?,
        Format::Yaml => write!(io.out, "{}", output::yaml(&document(&diagnostics, &totals, valid)))?,
        Format::Plain => {
            for diagnostic in &diagnostics {
                writeln!(io.out, "{}", line(diagnostic))?;
            }
            summary(io, &totals)?;
        }
        Format::Table => {
            for diagnostic in &diagnostics {
                let text = excerpt::render(diagnostic, &contents, io);
                writeln!(io.out, "{text}")?;
            }
            summary(io, &totals)?;
        }
    }
    if let Some(address) = &args.live
        && !super::snapshot::compare_with(address, &source::build(&contents, &args.namespace), io)?
    {
        writeln!(io.err, "the server at {address} runs on the same configuration")?;
    }
    Ok(if valid { Exit::Success } else { Exit::Negative })
}

/// All findings, by place.
fn examine(contents: &StoreContents, args: &ValidateArgs) -> Diagnostics {
    let snapshot = source::build(contents, &args.namespace);
    let mut diagnostics = snapshot.diagnostics.clone();
    diagnostics.extend(check_params(&snapshot));
    diagnostics.extend(pitfalls(&snapshot));
    if args.lint {
        diagnostics.extend(lint(&snapshot));
    }
    let place = |d: &Diagnostic| {
        let start = d.span.map(|s| s.start).unwrap_or_default();
        (d.file.clone(), start.line, start.column, d.code)
    };
    diagnostics.sort_by_key(place);
    diagnostics
}

/// `file:line:column: severity[code]: resource: message`.
fn line(diagnostic: &Diagnostic) -> String {
    let mut line = String::new();
    if let Some(place) = place(diagnostic) {
        line.push_str(&place);
        line.push_str(": ");
    }
    line.push_str(&format!("{}[{}]: ", diagnostic.severity.name(), diagnostic.code));
    if !diagnostic.resource.is_empty() {
        line.push_str(&diagnostic.resource);
        line.push_str(": ");
    }
    line.push_str(&diagnostic.message.replace('\n', " "));
    line
}

/// `file:line:column`, as far as it is known.
fn place(diagnostic: &Diagnostic) -> Option<String> {
    let file = diagnostic.file.as_deref()?;
    let Some(span) = diagnostic.span.filter(|s| s.start.line > 0) else { return Some(file.to_owned()) };
    Some(format!("{file}:{}:{}", span.start.line, span.start.column))
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn summary(io: &mut Io, totals: &Totals) -> Result<(), Stop> {
    let text = format!(
        "{}, {}: {}, {}",
        counted(totals.files, "file"),
        counted(totals.resources, "resource"),
        counted(totals.errors, "error"),
        counted(totals.warnings, "warning")
    );
    let style = if totals.errors > 0 { Style::Error } else { Style::Good };
    let text = if io.err_is_terminal { io.paint(style, &text) } else { text };
    io.out.flush()?;
    Ok(writeln!(io.err, "{text}")?)
}

fn document(diagnostics: &[Diagnostic], totals: &Totals, valid: bool) -> Value {
    json!({
        "apiVersion": "mixer/v1",
        "kind": "ValidationResult",
        "valid": valid,
        "summary": {
            "files": totals.files,
            "resources": totals.resources,
            "errors": totals.errors,
            "warnings": totals.warnings,
        },
        "diagnostics": diagnostics.iter().map(member).collect::<Vec<_>>(),
    })
}

fn member(diagnostic: &Diagnostic) -> Value {
    let span = diagnostic.span.filter(|s| s.start.line > 0);
    json!({
        "severity": diagnostic.severity.name(),
        "code": diagnostic.code,
        "resource": diagnostic.resource,
        "file": diagnostic.file.as_deref(),
        "line": span.map(|s| s.start.line),
        "column": span.map(|s| s.start.column),
        "endLine": span.map(|s| s.end.line),
        "endColumn": span.map(|s| s.end.column),
        "expression": diagnostic.expression.as_ref().map(|e| json!({"text": e.text, "column": e.column})),
        "field": diagnostic.field.to_string(),
        "message": diagnostic.message,
        "legacy": diagnostic.legacy,
        "hint": diagnostic.hint,
    })
}
