//! Responses as JSON and YAML documents.

use serde_json::Value;

use super::flags::CallFormat;
use super::summary::summary_document;
use crate::cmd::exit::Stop;
use crate::cmd::io::Io;
use crate::cmd::output;

/// Streams responses, so that memory does not grow with their number.
#[derive(Debug)]
pub(crate) struct DocumentWriter {
    format: CallFormat,
    kind: &'static str,
    list: bool,
    written: u64,
    is_served: bool,
}

impl DocumentWriter {
    /// `kind` is the kind of the list; `list` is false for a single response.
    pub(crate) fn new(format: CallFormat, kind: &'static str, list: bool) -> Self {
        Self { format, kind, list, written: 0, is_served: true }
    }

    /// Whether the format is JSON or YAML.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.format, CallFormat::Json | CallFormat::JsonLines | CallFormat::Yaml)
    }

    /// Every response says from now on that no server answers so.
    pub(crate) fn mark_unserved(&mut self) {
        self.is_served = false;
    }

    /// Opens a list.
    pub(crate) fn begin(&mut self, io: &mut Io) -> Result<(), Stop> {
        if self.format == CallFormat::Json && self.list {
            let kind = self.kind;
            write!(io.out, "{{\"apiVersion\":\"mixer/v1\",\"kind\":\"{kind}\",\"items\":[")?;
        }
        Ok(())
    }

    /// Writes a response.
    pub(crate) fn add(&mut self, io: &mut Io, document: &Value) -> Result<(), Stop> {
        if self.is_served {
            return self.write(io, document);
        }
        let mut marked = document.clone();
        if let Some(members) = marked.as_object_mut() {
            members.insert("served".to_owned(), Value::Bool(false));
        }
        self.write(io, &marked)
    }

    fn write(&mut self, io: &mut Io, document: &Value) -> Result<(), Stop> {
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

    /// Closes a list; writes the summary.
    pub(crate) fn end(&mut self, io: &mut Io, summary: Option<Value>) -> Result<(), Stop> {
        match (self.format, summary) {
            (CallFormat::Json, summary) if self.list => {
                let summary = summary.map(|s| format!(",\"summary\":{s}")).unwrap_or_default();
                writeln!(io.out, "\n]{summary}}}")?;
            }
            (CallFormat::JsonLines | CallFormat::Yaml, Some(summary)) => {
                self.write(io, &summary_document(&summary))?
            }
            _ => {}
        }
        Ok(())
    }
}
