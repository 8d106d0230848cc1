//! Answers as documents: one, a list, one a line.

use serde_json::{Value, json};

use super::CallFormat;
use crate::cmd::output;
use crate::cmd::{Io, Stop};

/// Writes answers as they come, so that a million of them need no memory.
#[derive(Debug)]
pub(crate) struct Documents {
    format: CallFormat,
    kind: &'static str,
    list: bool,
    written: u64,
}

impl Documents {
    /// A list of `kind`, unless there is exactly one answer.
    pub(crate) fn new(format: CallFormat, kind: &'static str, list: bool) -> Self {
        Self { format, kind, list, written: 0 }
    }

    /// Whether the format is one of documents at all.
    pub(crate) fn are_used(&self) -> bool {
        matches!(self.format, CallFormat::Json | CallFormat::JsonLines | CallFormat::Yaml)
    }

    /// Opens a list.
    pub(crate) fn begin(&mut self, io: &mut Io) -> Result<(), Stop> {
        if self.format == CallFormat::Json && self.list {
            let kind = self.kind;
            write!(io.out, "{{\"apiVersion\":\"mixer/v1\",\"kind\":\"{kind}\",\"items\":[")?;
        }
        Ok(())
    }

    /// One answer.
    pub(crate) fn add(&mut self, io: &mut Io, document: &Value) -> Result<(), Stop> {
        match self.format {
            CallFormat::Json if self.list => {
                let separator = if self.written == 0 { "\n" } else { ",\n" };
                write!(io.out, "{separator}{document}")?;
            }
            CallFormat::Json => writeln!(io.out, "{}", output::json(document))?,
            CallFormat::JsonLines => writeln!(io.out, "{document}")?,
            CallFormat::Yaml => {
                let separator = if self.written == 0 { "" } else { "---\n" };
                write!(io.out, "{separator}{}", output::yaml(document))?;
            }
            CallFormat::Table | CallFormat::Plain => {}
        }
        self.written += 1;
        Ok(())
    }

    /// Closes a list, with a summary if there is one.
    pub(crate) fn end(&mut self, io: &mut Io, summary: Option<Value>) -> Result<(), Stop> {
        let of_its_own =
            |summary: Value| json!({"apiVersion": "mixer/v1", "kind": "CallSummary", "summary": summary});
        match (self.format, summary) {
            (CallFormat::Json, summary) if self.list => {
                let summary = summary.map(|s| format!(",\"summary\":{s}")).unwrap_or_default();
                writeln!(io.out, "\n]{summary}}}")?;
            }
            (CallFormat::JsonLines | CallFormat::Yaml, Some(summary)) => {
                self.add(io, &of_its_own(summary))?
            }
            _ => {}
        }
        Ok(())
    }
}
