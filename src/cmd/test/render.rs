//! Test results as text, JSON and YAML.

use std::io::Write as _;

use serde_json::{Value, json};

use super::session::{FinishedTest, TestRun};
use crate::cmd::exit::Stop;
use crate::cmd::io::{Io, Style};
use crate::cmd::output::{self, OutputFormat};
use mixer_policy::Miss;

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
        for miss in &ran.result.misses {
            write_miss(&ran.file, miss, io)?;
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
                    "{} tests: {} passed, {failed} failed, {} filtered out, in {:.1}ms",
                    session.ran.len(),
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

fn write_miss(file: &str, miss: &Miss, io: &mut Io) -> Result<(), Stop> {
    let place = format!("{file}:{}:{}", miss.location.line, miss.location.column);
    writeln!(io.out, "      {}: {}", io.paint(Style::Dim, &place), miss.what)?;
    writeln!(io.out, "        expected  {}", miss.expected)?;
    writeln!(io.out, "        found     {}", miss.found)?;
    if miss.what != "rules" {
        let rules = if miss.rules.is_empty() { "none".to_owned() } else { miss.rules.join(", ") };
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
        "failures": ran.result.misses.iter().map(|miss| json!({
            "file": ran.file,
            "line": miss.location.line,
            "column": miss.location.column,
            "what": miss.what,
            "expected": miss.expected,
            "found": miss.found,
            "rules": miss.rules,
        })).collect::<Vec<_>>(),
    })
}
