//! The `expressions` suite; its README.md states the schema.

use std::path::Path;

use crate::case::{Case, json_lines, selected};

/// Runs the cases in `dir` whose id contains the filter.
pub(crate) fn run(dir: &Path, filter: Option<&str>) -> Vec<Case> {
    let cases = match json_lines(&dir.join("cases.jsonl")) {
        Ok(cases) => cases,
        Err(error) => return vec![Case::new("cases.jsonl", Err(error))],
    };
    cases
        .iter()
        .filter_map(|case| case.get("id")?.as_str())
        .filter(|id| selected(id, filter))
        .map(|id| Case::skipped(id, "its runner is not written yet"))
        .collect()
}
