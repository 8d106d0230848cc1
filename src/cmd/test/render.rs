//! Test results as text, JSON and YAML.

use std::io::Write as _;

use serde_json::{Value, json};

use super::session::{FinishedTest, TestRun};
use crate::cmd::exit::Stop;
use crate::cmd::io::{Io, Style};
use crate::cmd::output::{self, OutputFormat};
use mixer_policy::FailedExpectation;

/// Prints results as tests complete, or as one document at the end.
pub(super) struct TestRenderer {
    format: OutputFormat,
    /// The file of the last printed result.
    file: String,
}

impl TestRenderer {
    pub(super) fn new(format: Option<OutputFormat>, io: &Io) -> Self {
        let default = if io.out_is_terminal { OutputFormat::Table } else { OutputFormat::Plain };
        Self { format: format.unwrap_or(default), file: String::new() }
    }

    /// Prints a result.
    pub(super) fn finished(&mut self, ran: &FinishedTest, io: &mut Io) -> Result<(), Stop> {
        match self.format {
            OutputFormat::Json | OutputFormat::Yaml => return Ok(()),
            OutputFormat::Table => {
                if self.file != ran.file {
                    writeln!(io.out, "{}", io.paint(Style::Bold, &ran.file))?;
                    self.file.clone_from(&ran.file);
                }
                let status = match ran.result.passed() {
                    true => io.paint(Style::Good, "ok  "),
                    false => io.paint(Style::Error, "FAIL"),
                };
                let took = format!("{:.1}ms", ran.result.took.as_secs_f64() * 1e3);
                writeln!(io.out, "  {status}  {}  {}", ran.name, io.paint(Style::Dim, &took))?;
            }
            OutputFormat::Plain => {
                let status = if ran.result.passed() { "ok" } else { "FAIL" };
                writeln!(io.out, "{status} {}: {}", ran.file, ran.name)?;
            }
        }
        for failure in &ran.result.failures {
            write_failure(&ran.file, failure, io)?;
        }
        Ok(())
    }

    /// Prints the summary or the document.
    pub(super) fn end(&self, session: &TestRun, io: &mut Io) -> Result<(), Stop> {
        match self.format {
            OutputFormat::Json => writeln!(io.out, "{}", output::json(&document(session)))?,
            OutputFormat::Yaml => write!(io.out, "{}", output::yaml(&document(session)))?,
            OutputFormat::Table | OutputFormat::Plain => {
                let failed = session.failed();
                let text = format!(
                    "{}: {} passed, {failed} failed, {} filtered out, in {:.1}ms",
                    output::counted(session.ran.len(), "test"),
                    session.ran.len() - failed,
                    session.filtered,
                    session.took.as_secs_f64() * 1e3
                );
                let style = if failed > 0 { Style::Error } else { Style::Good };
                let text = if self.format == OutputFormat::Table { io.paint(style, &text) } else { text };
                writeln!(io.out, "{text}")?;
            }
        }
        Ok(())
    }
}

fn write_failure(file: &str, failure: &FailedExpectation, io: &mut Io) -> Result<(), Stop> {
    let place = format!("{file}:{}:{}", failure.location.line, failure.location.column);
    writeln!(io.out, "      {}: {}", io.paint(Style::Dim, &place), failure.field)?;
    writeln!(io.out, "        expected  {}", failure.expected)?;
    writeln!(io.out, "        found     {}", failure.found)?;
    if failure.field != "rules" {
        let rules = if failure.rules.is_empty() { "none".to_owned() } else { failure.rules.join(", ") };
        writeln!(io.out, "        rules     {rules}")?;
    }
    Ok(())
}

fn document(session: &TestRun) -> Value {
    let failed = session.failed();
    json!({
        "apiVersion": "mixer/v1",
        "kind": "PolicyTestResult",
        "summary": {
            "tests": session.ran.len(),
            "passed": session.ran.len() - failed,
            "failed": failed,
            "filtered": session.filtered,
            "durationSeconds": session.took.as_secs_f64(),
        },
        "tests": session.ran.iter().map(test).collect::<Vec<_>>(),
    })
}

fn test(ran: &FinishedTest) -> Value {
    json!({
        "file": ran.file,
        "line": ran.line,
        "name": ran.name,
        "passed": ran.result.passed(),
        "durationSeconds": ran.result.took.as_secs_f64(),
        "failures": ran.result.failures.iter().map(|failure| json!({
            "file": ran.file,
            "line": failure.location.line,
            "column": failure.location.column,
            "what": failure.field,
            "expected": failure.expected,
            "found": failure.found,
            "rules": failure.rules,
        })).collect::<Vec<_>>(),
    })
}
