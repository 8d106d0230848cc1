//! Settings of the decision log and of recordings.

use std::path::PathBuf;

use super::mask::{DEFAULT_MASKS, MaskSet};
use mixer_base::log::OptionsError;
use mixer_base::regular_file;

/// Which decisions are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Select {
    /// All sampled ones.
    #[default]
    All,
    /// Sampled refusals, partial grants and failed calls, enforced or in dry run.
    Denied,
}

/// The decision log.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionLogOptions {
    /// The file; empty means none.
    pub path: PathBuf,
    /// Share of the calls that are sampled, from 0 to 1.
    pub sampling: f64,
    /// Which sampled calls are written.
    pub select: Select,
    /// Size of the file in bytes before it is rotated.
    pub max_bytes: u64,
    /// Number of rotated files to keep; 0 means all.
    pub max_backups: usize,
}

/// A recording of calls, which ends when it is full.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordingOptions {
    /// The file; empty means none. Its previous content counts towards the limits.
    pub path: PathBuf,
    /// Most calls in the file.
    pub max_calls: u64,
    /// Most bytes in the file.
    pub max_bytes: u64,
}

/// Settings of decision log and recording.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionOptions {
    /// The log.
    pub log: DecisionLogOptions,
    /// The recording.
    pub recording: RecordingOptions,
    /// Attributes and map keys whose values are masked: `name` or `name[key]`, each with an optional `*` at the end.
    pub masks: Vec<String>,
    /// Most calls in the queue.
    pub queue: usize,
}

impl Default for DecisionOptions {
    fn default() -> Self {
        Self {
            log: DecisionLogOptions {
                path: PathBuf::new(),
                sampling: 1.0,
                select: Select::All,
                max_bytes: 100 << 20,
                max_backups: 10,
            },
            recording: RecordingOptions { path: PathBuf::new(), max_calls: 10_000, max_bytes: 64 << 20 },
            masks: DEFAULT_MASKS.iter().map(|mask| (*mask).to_owned()).collect(),
            queue: 4096,
        }
    }
}

impl DecisionOptions {
    /// Whether any file is configured.
    pub fn is_enabled(&self) -> bool {
        !self.log.path.as_os_str().is_empty() || !self.recording.path.as_os_str().is_empty()
    }

    /// Validates the settings, also while no file is configured. Errors: the first invalid setting.
    pub fn check(&self) -> Result<(), OptionsError> {
        if !(0.0..=1.0).contains(&self.log.sampling) {
            let text = format!("share of decisions to log must be from 0 to 1, got {}", self.log.sampling);
            return Err(OptionsError(text));
        }
        if self.queue == 0 {
            return Err(OptionsError("queue of the decision log must be > 0, got 0".to_owned()));
        }
        if self.is_enabled() && self.log.path == self.recording.path {
            let text = "decision log and recording cannot share one file".to_owned();
            return Err(OptionsError(text));
        }
        MaskSet::parse(&self.masks).map(drop).map_err(OptionsError)
    }

    /// Whether the directories of the files exist. Errors: the first that does not, with the cure.
    pub fn check_directories(&self) -> Result<(), OptionsError> {
        for (what, path) in [("decision log", &self.log.path), ("recording", &self.recording.path)] {
            regular_file::check_directory(path)
                .map_err(|error| OptionsError(format!("cannot open {what} `{}`: {error}", path.display())))?;
        }
        Ok(())
    }
}
