//! Access logs.

use super::log_stream::{self, LogStreamConfig};
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

/// Where access logs go.
#[derive(Debug, Clone)]
pub enum AccessLogConfig {
    /// To a file.
    File {
        /// The file; created if it does not exist.
        path: String,
        /// The form of a line.
        format: Format,
    },
    /// To a server.
    Stream(LogStreamConfig),
}

const HTTP_STREAM: &str = "envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig";
const TCP_STREAM: &str = "envoy.extensions.access_loggers.grpc.v3.TcpGrpcAccessLogConfig";

/// Reads the field `access_log` of a filter that logs requests, or connections.
pub(super) fn read(holder: &Fields<'_>, is_http: bool) -> Vec<AccessLogConfig> {
    let mut logs = Vec::new();
    for item in holder.items("access_log") {
        let Some(log) = item.message(&ACCESS_LOG) else { continue };
        let name = log.text("name").unwrap_or_default().to_owned();
        match type_of(&log, &name) {
            Some(("envoy.extensions.access_loggers.file.v3.FileAccessLog", config)) => {
                logs.extend(config.message(&FILE).and_then(read_file));
            }
            Some((HTTP_STREAM, config)) if is_http => {
                logs.extend(log_stream::read(&config, true).map(AccessLogConfig::Stream));
            }
            Some((TCP_STREAM, config)) if !is_http => {
                logs.extend(log_stream::read(&config, false).map(AccessLogConfig::Stream));
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
            if format.is_empty() {
                format.required(
                    "SubstitutionFormatStringValidationError: field: \"format\", reason: is required",
                );
            }
            let compiled = format.message("text_format_source", &SOURCE).and_then(|source| {
                if source.is_empty() {
                    source.required("DataSourceValidationError: field: \"specifier\", reason: is required");
                }
                let compiled = source.get("inline_string").and_then(|text| compiled(&text, text.text()?));
                source.finish();
                compiled
            });
            format.finish();
            compiled
        }),
    };
    file.finish();
    Some(AccessLogConfig::File { path: path?, format: format? })
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
