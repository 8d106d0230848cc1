//! Record formats.

use std::cell::RefCell;
use std::fmt::{Debug, Write as _};
use std::io::Write as _;
use std::time::SystemTime;

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata};

use super::LogLevel;
use super::cut::{Cut, MAX_MESSAGE, MAX_VALUE, with_cut};
use super::escape::{push_escaped, push_quoted};
use crate::time::Timestamp;

/// The metadata of a record: everything but message and fields.
pub(super) struct RecordContext {
    pub(super) level: LogLevel,
    pub(super) scope: &'static str,
    pub(super) caller: bool,
    pub(super) stack_trace: bool,
    /// Records of the same call site that were left out before this one.
    pub(super) suppressed: u64,
}

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Formats a record with its line feed into a buffer of the thread and passes it to `write`, with the number of records that it
/// counts as left out.
pub(super) fn with_line(
    json: bool,
    context: &RecordContext,
    event: &Event<'_>,
    write: impl FnOnce(&[u8], u64),
) {
    BUFFER.with(|buffer| {
        // A `Display` that logs while it is formatted gets its own buffer.
        let mut own = Vec::new();
        let mut shared = buffer.try_borrow_mut();
        let line = shared.as_deref_mut().unwrap_or(&mut own);
        line.clear();
        let suppressed = if json { push_json(line, context, event) } else { push_text(line, context, event) };
        write(line, suppressed);
        line.shrink_to(64 << 10);
    });
}

/// A record of the log itself, with its line feed.
pub(super) fn note(json: bool, level: LogLevel, text: &str) -> Vec<u8> {
    if json {
        return json_record(level, text, &[]);
    }
    let mut line = Vec::new();
    push_time(&mut line);
    let _ = write!(line, "\t{}\t", level.name());
    push_escaped(&mut line, text.as_bytes());
    line.push(b'\n');
    line
}

/// A JSON record as the log writes it, with its line feed, for output outside of the log.
pub fn json_record(level: LogLevel, message: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut line = Vec::new();
    let _ = write!(line, "{{\"level\":\"{}\",\"time\":\"", level.name());
    push_time(&mut line);
    line.push(b'"');
    for (name, value) in std::iter::once(&("msg", message)).chain(fields) {
        line.push(b',');
        push_quoted(&mut line, name.as_bytes());
        line.push(b':');
        push_quoted(&mut line, value.as_bytes());
    }
    line.extend_from_slice(b"}\n");
    line
}

fn push_time(line: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let _ = write!(line, "{}", Timestamp::from_system_time(SystemTime::now()).rfc3339_micros());
}

/// Returns the number of records left out.
fn push_text(line: &mut Vec<u8>, context: &RecordContext, event: &Event<'_>) -> u64 {
    push_time(line);
    let _ = write!(line, "\t{}\t", context.level.name());
    if context.scope != "default" {
        let _ = write!(line, "{}\t", context.scope);
    }
    if context.caller {
        push_place(line, event.metadata());
        line.push(b'\t');
    }
    let fields = Fields::of(context, event, true);
    push_escaped(line, fields.message.finish().as_bytes());
    if !fields.members.is_empty() {
        line.extend_from_slice(b"\t{");
        line.extend_from_slice(&fields.members);
        line.push(b'}');
    }
    line.push(b'\n');
    if context.stack_trace {
        line.extend_from_slice(stack_trace().as_bytes());
        line.push(b'\n');
    }
    fields.suppressed
}

/// Returns the number of records left out.
fn push_json(line: &mut Vec<u8>, context: &RecordContext, event: &Event<'_>) -> u64 {
    let _ = write!(line, "{{\"level\":\"{}\",\"time\":\"", context.level.name());
    push_time(line);
    line.push(b'"');
    let member = |line: &mut Vec<u8>, name: &str, value: &[u8]| {
        let _ = write!(line, ",\"{name}\":");
        push_quoted(line, value);
    };
    if context.scope != "default" {
        member(line, "scope", context.scope.as_bytes());
    }
    if context.caller {
        let mut caller = Vec::new();
        push_place(&mut caller, event.metadata());
        member(line, "caller", &caller);
    }
    let fields = Fields::of(context, event, false);
    member(line, "msg", fields.message.finish().as_bytes());
    if !fields.members.is_empty() {
        line.push(b',');
        line.extend_from_slice(&fields.members);
    }
    if context.stack_trace {
        member(line, "stack", stack_trace().as_bytes());
    }
    line.extend_from_slice(b"}\n");
    fields.suppressed
}

/// Appends the last two components of the path, and the line.
pub(super) fn push_place(line: &mut Vec<u8>, metadata: &Metadata<'_>) {
    let file = metadata.file().unwrap_or("unknown");
    let start = file.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
    let file = file.get(start..).unwrap_or(file);
    let _ = write!(line, "{file}:{}", metadata.line().unwrap_or(0));
}

/// Functions and their locations, a line each, without the frames of logging itself.
fn stack_trace() -> String {
    let trace = std::backtrace::Backtrace::force_capture().to_string();
    let mut lines = trace.lines().peekable();
    let mut text = String::new();
    let mut own = true;
    while let Some(line) = lines.next() {
        let function = line.trim_start().split_once(": ").map_or(line, |(_, function)| function).trim();
        let place = lines.next_if(|l| l.trim_start().starts_with("at ")).map_or("", |l| l.trim_start());
        own = own && ["backtrace", "mixer_base::log", "tracing"].iter().any(|part| function.contains(part));
        if own {
            continue;
        }
        let separator = if text.is_empty() { "" } else { "\n" };
        let _ = write!(text, "{separator}{function}\n\t{}", place.strip_prefix("at ").unwrap_or("unknown"));
    }
    text
}

/// The message, and the other fields as members of a JSON object.
struct Fields {
    message: Cut,
    members: Vec<u8>,
    /// Whether spaces follow `:` and `,`.
    spaced: bool,
    /// The sum of the fields with this name.
    suppressed: u64,
}

/// The field that counts records left out.
const SUPPRESSED: &str = "suppressed";

impl Fields {
    fn of(context: &RecordContext, event: &Event<'_>, spaced: bool) -> Self {
        let mut fields =
            Fields { message: Cut::new(MAX_MESSAGE), members: Vec::new(), spaced, suppressed: 0 };
        event.record(&mut fields);
        if context.suppressed > 0 {
            fields.name(SUPPRESSED);
            let _ = write!(fields.members, "{}", context.suppressed);
            fields.suppressed += context.suppressed;
        }
        fields
    }

    fn name(&mut self, name: &str) {
        if !self.members.is_empty() {
            self.members.extend_from_slice(if self.spaced { b", " } else { b"," });
        }
        push_quoted(&mut self.members, name.as_bytes());
        self.members.extend_from_slice(if self.spaced { b": " } else { b":" });
    }

    fn member(&mut self, field: &Field, value: impl FnOnce(&mut Vec<u8>)) {
        // tracing-log adds the origin of records of the `log` crate as fields.
        if field.name().starts_with("log.") {
            return;
        }
        self.name(field.name());
        value(&mut self.members);
    }

    fn plain(&mut self, field: &Field, value: impl std::fmt::Display) {
        self.member(field, |out| {
            let _ = write!(out, "{value}");
        });
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        } else {
            let mut text = Cut::new(MAX_VALUE);
            let _ = write!(text, "{value:?}");
            self.member(field, |out| push_quoted(out, text.finish().as_bytes()));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            // Writing to a text cannot fail.
            let _ = self.message.write_str(value);
        } else {
            self.member(field, |out| push_quoted(out, with_cut(value, MAX_VALUE).as_bytes()));
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.plain(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.plain(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == SUPPRESSED {
            self.suppressed += value;
        }
        self.plain(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        if value.is_finite() {
            self.plain(field, value);
        } else {
            self.record_debug(field, &value);
        }
    }
}
