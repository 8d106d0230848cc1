//! The flags of logging.

use std::path::PathBuf;

use crate::cmd::value;
use crate::cmd::verbosity::Verbosity;
use mixer_server::LogOptions;

/// Flags of logging.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogFlags {
    /// Log output: a file, stdout or stderr; may be repeated.
    #[arg(long = "log-target", alias = "log_target", default_value = "stdout", action = clap::ArgAction::Append, value_name = "TARGET")]
    log_target: Vec<String>,
    /// Additional rotated log file.
    #[arg(
        long = "log-rotate",
        alias = "log_rotate",
        value_parser = value::path, default_value = "",
        hide_default_value = true,
        value_name = "PATH"
    )]
    log_rotate: PathBuf,
    /// Size at which the log file is rotated, in MiB, or with a unit. Example: 1GiB.
    #[arg(
        long = "log-rotate-max-size", alias = "log_rotate_max_size", default_value = "100", value_parser = value::mebibytes,
        value_name = "MIB"
    )]
    log_rotate_max_size: i64,
    /// Days to keep rotated log files; 0 means no limit.
    #[arg(
        long = "log-rotate-max-age", alias = "log_rotate_max_age", default_value = "30", value_parser = value::int,
        value_name = "DAYS"
    )]
    log_rotate_max_age: i64,
    /// Rotated log files to keep; 0 means all.
    #[arg(
        long = "log-rotate-max-backups", alias = "log_rotate_max_backups", default_value = "1000",
        value_parser = value::int, value_name = "FILES"
    )]
    log_rotate_max_backups: i64,
    /// Write log records as JSON objects.
    #[arg(
        long = "log-as-json", alias = "log_as_json", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", value_parser = value::boolean,
        hide_possible_values = true, value_name = "BOOL"
    )]
    log_as_json: bool,
    /// Log levels: `[scope:]level,…` with the levels none, fatal, error, warn, info, debug.
    ///
    /// Scopes: adapters, all, api, attributes, default, grpcAdapter, kube-converter, loadshedding, mcp, meshconfig.
    #[arg(
        long = "log-output-level",
        alias = "log_output_level",
        default_value = DEFAULT_LEVEL,
        value_name = "LEVELS"
    )]
    log_output_level: String,
    /// Minimum level of records with a stack trace: `[scope:]level,…`.
    #[arg(
        long = "log-stacktrace-level",
        alias = "log_stacktrace_level",
        default_value = "default:none",
        value_name = "LEVELS"
    )]
    log_stacktrace_level: String,
    /// Scopes whose records include the source location.
    #[arg(
        long = "log-caller",
        alias = "log_caller",
        default_value = "",
        hide_default_value = true,
        value_name = "SCOPES"
    )]
    log_caller: String,
}

/// The level without `--log-output-level`.
const DEFAULT_LEVEL: &str = "default:info";

impl LogFlags {
    /// Applies `--verbose` or `--quiet`, unless `--log-output-level` says another level than the default.
    pub(crate) fn apply(&mut self, verbosity: Verbosity) {
        if let (Some(level), true) = (verbosity.log_level(), self.log_output_level == DEFAULT_LEVEL) {
            level.clone_into(&mut self.log_output_level);
        }
    }

    /// The value of `--log-output-level`.
    pub(crate) fn output_level(&self) -> &str {
        &self.log_output_level
    }

    /// The settings.
    pub(crate) fn options(&self) -> LogOptions {
        LogOptions {
            targets: self.log_target.clone(),
            rotate: self.log_rotate.clone(),
            create_rotate_directory: false,
            rotate_max_size: self.log_rotate_max_size,
            rotate_max_age: self.log_rotate_max_age,
            rotate_max_backups: self.log_rotate_max_backups,
            as_json: self.log_as_json,
            output_level: self.log_output_level.clone(),
            stack_trace_level: self.log_stacktrace_level.clone(),
            caller: self.log_caller.clone(),
        }
    }
}
