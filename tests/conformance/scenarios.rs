//! The `scenarios` suite: configuration directories, requests and expected observations, through the binary.
//!
//! Scenarios mostly wait, so several run in parallel: `MIXER_CONFORMANCE_JOBS`, default 4.

#[path = "scenarios/backend.rs"]
mod backend;
#[path = "scenarios/compare.rs"]
mod compare;
#[path = "scenarios/play.rs"]
mod play;
#[path = "scenarios/transcript.rs"]
mod transcript;

use std::path::{Path, PathBuf};

use serde_yaml::Value;

pub(crate) use transcript::is_record;

use crate::case::{Case, in_parallel, jobs, selected};

/// Runs the cases in `dir` whose id contains the filter.
pub(crate) fn run(dir: &Path, filter: Option<&str>) -> Vec<Case> {
    let directories = match scenarios(dir) {
        Ok(directories) => directories,
        Err(error) => return vec![Case::new("scenarios", Err(error))],
    };
    let waiting: Vec<(String, PathBuf)> = directories
        .into_iter()
        .filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path)))
        .filter(|(id, _)| selected(id, filter))
        .collect();
    let mut cases = in_parallel(jobs(), waiting, |(id, path)| one(dir, &id, &path));
    if dir.join("_mixc/transcript.yaml").exists() {
        cases.extend(transcript::run(&dir.join("_mixc"), filter));
    }
    cases
}

fn scenarios(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("scenario.yaml").exists())
        .collect();
    found.sort();
    Ok(found)
}

fn one(suite: &Path, id: &str, path: &Path) -> Case {
    let text = match std::fs::read_to_string(path.join("scenario.yaml")) {
        Ok(text) => text,
        Err(error) => return Case::new(id, Err(error.to_string())),
    };
    let scenario: Value = match serde_yaml::from_str(&text) {
        Ok(scenario) => scenario,
        Err(error) => return Case::new(id, Err(format!("scenario.yaml: {error}"))),
    };
    Case::new(id, play::play(suite, path, &scenario))
}
