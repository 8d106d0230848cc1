//! The flags of the decision log and of recordings.

use std::path::PathBuf;

use crate::cmd::value;
use mixer_engine::decision::{DEFAULT_MASKS, DecisionLogOptions, DecisionOptions, RecordingOptions, Select};

/// Which decisions are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Selection {
    /// All.
    All,
    /// Denials, failures, quotas not granted in full, and denials of dry-run rules.
    Denied,
}

/// Flags of the decision log.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Decisions")]
pub(crate) struct DecisionFlags {
    /// Decision log: a JSON line per check with attributes, result, rules, handlers and duration.
    ///
    /// Written asynchronously; requests never wait for it. `mixer diff` reads it. Example: /var/log/mixer/decisions.json
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    decision_log: PathBuf,
    /// Fraction of checks that are logged, from 0 to 1.
    #[arg(long, default_value = "1", value_parser = value::float, value_name = "FRACTION")]
    decision_log_sampling: f64,
    /// Which decisions are logged.
    #[arg(long, value_enum, default_value = "all", value_name = "WHICH")]
    decision_log_select: Selection,
    /// Size at which the decision log is rotated. Example: 100MiB.
    #[arg(long, default_value = "100MiB", value_parser = value::size, value_name = "BYTES")]
    decision_log_max_size: u64,
    /// Rotated decision logs to keep; 0 means all.
    #[arg(long, default_value = "10", value_parser = value::uint, value_name = "FILES")]
    decision_log_max_backups: u64,
    /// Length of the decision queue; further decisions are dropped and counted.
    #[arg(long, default_value = "4096", value_parser = value::uint, value_name = "DECISIONS")]
    decision_queue: u64,
    /// Attributes whose values are masked as `***` in log and recording: `NAME` or `NAME[KEY]`, separated by commas.
    ///
    /// A trailing `*` matches any text. Everything secret by its name or form is masked too; an empty list masks nothing.
    #[arg(long, default_value_t = DEFAULT_MASKS.join(","), value_name = "LIST")]
    decision_mask: String,
    /// Recording of the first calls, with attributes and results, for `mixer diff`.
    ///
    /// Existing content counts towards the limits. Example: /var/tmp/calls.jsonl
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    record_requests: PathBuf,
    /// Maximum calls in the recording.
    #[arg(long, default_value = "10000", value_parser = value::uint, value_name = "CALLS")]
    record_max_requests: u64,
    /// Maximum size of the recording. Example: 64MiB.
    #[arg(long, default_value = "64MiB", value_parser = value::size, value_name = "BYTES")]
    record_max_size: u64,
}

impl DecisionFlags {
    /// The settings.
    pub(crate) fn options(&self) -> DecisionOptions {
        DecisionOptions {
            log: DecisionLogOptions {
                path: self.decision_log.clone(),
                sampling: self.decision_log_sampling,
                select: match self.decision_log_select {
                    Selection::All => Select::All,
                    Selection::Denied => Select::Denied,
                },
                max_bytes: self.decision_log_max_size,
                max_backups: usize::try_from(self.decision_log_max_backups).unwrap_or(usize::MAX),
            },
            recording: RecordingOptions {
                path: self.record_requests.clone(),
                max_calls: self.record_max_requests,
                max_bytes: self.record_max_size,
            },
            masks: self.decision_mask.split(',').map(str::to_owned).collect(),
            queue: usize::try_from(self.decision_queue).unwrap_or(usize::MAX),
        }
    }
}
