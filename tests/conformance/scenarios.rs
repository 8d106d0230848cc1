//! The `scenarios` suite: configuration directories, requests and what must be observed, through the binary.

use std::path::Path;

use crate::case::Case;

/// Runs the cases in `dir` whose id contains the filter.
pub(crate) fn run(_dir: &Path, _filter: Option<&str>) -> Vec<Case> {
    Vec::new()
}
