//! The flags of the decision log and of recordings.

use std::path::PathBuf;

use super::super::value;
use mixer_engine::decision::{DEFAULT_MASKS, DecisionLogOptions, DecisionOptions, RecordingOptions, Select};

/// Which decisions are logged, as the flag spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Selection {
    /// All.
    All,
    /// Refusals, failures, quotas not granted in full, and what a rule in dry run would have refused.
    Denied,
}

/// Flags of the decision log.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Decisions")]
pub(super) struct DecisionFlags {
    /// File that gets a JSON line for every check that is decided: attributes, answer, rules, handlers, time taken.
    ///
    /// Written beside the requests, which never wait for it. `mixer diff` reads it. Example: /var/log/mixer/decisions.json
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    decision_log: PathBuf,
    /// Share of the checks that are logged, from 0 to 1.
    #[arg(long, default_value = "1", value_parser = value::float, value_name = "SHARE")]
    decision_log_sampling: f64,
    /// Which of them are written.
    #[arg(long, value_enum, default_value = "all", value_name = "WHICH")]
    decision_log_select: Selection,
    /// Size of the file before it is rotated. Example: 100MiB.
    #[arg(long, default_value = "100MiB", value_parser = value::size, value_name = "BYTES")]
    decision_log_max_size: u64,
    /// Rotated files that are kept; 0 means all.
    #[arg(long, default_value = "10", value_parser = value::uint, value_name = "FILES")]
    decision_log_max_backups: u64,
    /// Decisions that may wait to be written; more are counted as lost.
    #[arg(long, default_value = "4096", value_parser = value::uint, value_name = "DECISIONS")]
    decision_queue: u64,
    /// Attributes and keys of maps whose values are written as `***`, in log and recording: a name, or a name with a key in square brackets; comma-separated.
    ///
    /// A `*` at the end stands for any text. The list replaces the default one; an empty list masks nothing.
    #[arg(long, default_value_t = DEFAULT_MASKS.join(","), value_name = "LIST")]
    decision_mask: String,
    /// File that gets the first calls, with attributes and answers, for `mixer diff`.
    ///
    /// What the file holds already counts. Example: /var/tmp/calls.jsonl
    #[arg(long, value_parser = value::path, default_value = "", hide_default_value = true, value_name = "FILE")]
    record_requests: PathBuf,
    /// Most calls in that file.
    #[arg(long, default_value = "10000", value_parser = value::uint, value_name = "CALLS")]
    record_max_requests: u64,
    /// Most bytes in that file. Example: 64MiB.
    #[arg(long, default_value = "64MiB", value_parser = value::size, value_name = "BYTES")]
    record_max_size: u64,
}

impl DecisionFlags {
    /// The settings.
    pub(super) fn options(&self) -> DecisionOptions {
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
