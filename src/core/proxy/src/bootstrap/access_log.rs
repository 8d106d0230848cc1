//! Access logs.

use super::reader::{Fields, Message, type_of, unknown_type};
use crate::access_log::Format;

static ACCESS_LOG: Message = Message { name: "AccessLog", unsupported: &["filter"] };
static FILE: Message = Message { name: "FileAccessLog", unsupported: &["json_format", "typed_json_format"] };
static FORMAT: Message = Message {
    name: "SubstitutionFormatString",
    unsupported: &[
        "json_format",
        "omit_empty_values",
        "content_type",
        "formatters",
        "json_format_options",
        "text_format",
    ],
};
static SOURCE: Message = Message {
    name: "DataSource",
    unsupported: &["filename", "inline_bytes", "environment_variable", "watched_directory"],
};

/// A file and the form of its lines.
#[derive(Debug, Clone)]
pub struct AccessLogConfig {
    /// The file; created if it does not exist.
    pub path: String,
    /// The form of a line.
    pub format: Format,
}

/// Reads the field `access_log`.
pub(super) fn read(holder: &Fields<'_>) -> Vec<AccessLogConfig> {
    let mut logs = Vec::new();
    for item in holder.items("access_log") {
        let Some(log) = item.message(&ACCESS_LOG) else { continue };
        let name = log.text("name").unwrap_or_default().to_owned();
        match type_of(&log, &name) {
            Some(("envoy.extensions.access_loggers.file.v3.FileAccessLog", config)) => {
                logs.extend(config.message(&FILE).and_then(read_file));
            }
            Some((other, config)) => unknown_type(&config, "access log", other),
            None => {}
        }
        log.finish();
    }
    logs
}

fn read_file(file: Fields<'_>) -> Option<AccessLogConfig> {
    let path = match file.get("path") {
        Some(path) => path.nonempty("FileAccessLog", "Path").map(str::to_owned),
        None => {
            file.required("FileAccessLogValidationError.Path: value length must be at least 1 characters");
            None
        }
    };
    let format = match file.one_of(&["log_format", "format"]) {
        None => Some(Format::default_http()),
        Some(("format", text)) => text.text().and_then(|written| {
            // The deprecated field; empty means the default.
            if written.is_empty() {
                return Some(Format::default_http());
            }
            compiled(&text, written)
        }),
        Some((_, value)) => value.message(&FORMAT).and_then(|format| {
            let compiled = format.message("text_format_source", &SOURCE).and_then(|source| {
                let compiled = source.get("inline_string").and_then(|text| compiled(&text, text.text()?));
                source.finish();
                compiled
            });
            format.finish();
            compiled
        }),
    };
    file.finish();
    Some(AccessLogConfig { path: path?, format: format? })
}

fn compiled(value: &super::reader::Value<'_>, text: &str) -> Option<Format> {
    match Format::compile(text) {
        Ok(format) => Some(format),
        Err(problem) => {
            match problem.unsupported {
                true => value.unsupported(&problem.text),
                false => value.invalid(problem.text),
            }
            None
        }
    }
}
