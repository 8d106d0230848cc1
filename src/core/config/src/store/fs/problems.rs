//! What a walk of the tree cannot read.

use std::path::{Path, PathBuf};

use super::file::{ReadError, broken_file, system_text, unreadable};
use crate::Diagnostic;
use crate::store::Broken;

/// What is wrong with the tree.
#[derive(Default)]
pub(super) struct Problems {
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) broken: Vec<Broken>,
    /// Directories and links that cannot be read, and directories of which not all can.
    pub(super) lost: Vec<PathBuf>,
    /// What cannot be read, and has no contents that stay in effect.
    pub(super) unread: Vec<PathBuf>,
    pub(super) unavailable: Option<String>,
}

impl Problems {
    /// A directory or link; what was read below `directory` is lost with it. `known`: that stays in effect.
    pub(super) fn lost(&mut self, path: &Path, directory: &Path, error: &std::io::Error, known: bool) {
        self.push(path, unreadable(path, error, known), known);
        self.unavailable.get_or_insert_with(|| system_text(path, error));
        self.lost.push(directory.to_owned());
    }

    /// A directory in place of a file; likewise.
    pub(super) fn replaced(&mut self, path: PathBuf, known: bool) {
        self.failed(&path, &ReadError::directory(), known);
        self.lost.push(path);
    }

    /// A file; likewise.
    pub(super) fn failed(&mut self, path: &Path, error: &ReadError, known: bool) {
        self.push(path, error.problem(path, known), known);
        if error.is_outage() {
            self.unavailable.get_or_insert_with(|| error.text(path));
        }
    }

    fn push(&mut self, path: &Path, problem: Diagnostic, known: bool) {
        self.broken.push(broken_file(path, problem.clone(), known));
        if !known {
            self.unread.push(path.to_owned());
        }
        self.diagnostics.push(problem);
    }
}
