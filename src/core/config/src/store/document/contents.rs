//! The contents of a file, with a bounded number of problems.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Broken;
use crate::{Diagnostic, Diagnostics, FieldPath, RawResource, Severity, Span};

/// Maximum number of documents of a file.
pub(super) const MAX_DOCUMENTS: usize = 200_000;
/// Maximum number of errors in the documents of a file, and of its warnings that are listed.
pub(super) const MAX_PROBLEMS: usize = 1_000;

/// The code of a file that has more documents than a file may have.
const FILE_TOO_LARGE: &str = "file-too-large";
/// The code of a file that is not read because of the number of its errors.
const FILE_ERRORS: &str = "file-errors";
/// The code of problems that are not listed.
const PROBLEMS_UNLISTED: &str = "problems-unlisted";

/// The contents of a file.
#[derive(Debug, Default)]
pub(crate) struct FileContents {
    /// The resources, in file order.
    pub(in crate::store) resources: Vec<Arc<RawResource>>,
    /// Errors and warnings about its chunks.
    pub(in crate::store) diagnostics: Diagnostics,
    /// The chunks that cannot be read; or one that is the whole file, of which nothing was read.
    pub(in crate::store) broken: Vec<Broken>,
    /// Whether there are problems of its chunks that are not in the list.
    pub(super) lacks_problems: bool,
}

impl FileContents {
    /// Whether it certainly defines nothing.
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.broken.is_empty()
    }

    /// Whether something of it cannot be read, or is wrong.
    pub(in crate::store) fn has_problems(&self) -> bool {
        !(self.diagnostics.is_empty() && self.broken.is_empty())
    }

    /// Takes the resources of the last version if nothing of this one was read.
    pub(in crate::store) fn or_last(mut self, last: &FileContents) -> Self {
        if let [whole] = &mut *self.broken
            && whole.document.is_none()
        {
            whole.keeps_last = true;
            self.resources.clone_from(&last.resources);
        }
        self
    }

    /// The contents of consecutive parts.
    pub(super) fn joined(parts: Vec<FileContents>) -> Self {
        let mut joined = FileContents::default();
        joined.resources.reserve(parts.iter().map(|part| part.resources.len()).sum());
        for part in parts {
            joined.resources.extend(part.resources);
            joined.diagnostics.extend(part.diagnostics);
            joined.broken.extend(part.broken);
        }
        joined
    }

    /// Lists the first problems that are no errors, of all that there are, in place of any.
    pub(super) fn list_others(&mut self, file: &Arc<str>, first: FileContents, all: usize) {
        self.diagnostics.retain(|problem| problem.severity == Severity::Error);
        let others = first.diagnostics.into_iter().filter(|problem| problem.severity != Severity::Error);
        self.diagnostics.extend(others.take(MAX_PROBLEMS));
        self.diagnostics.sort_by_key(|problem| problem.chunk.map(|chunk| chunk.index));
        let more = all.saturating_sub(MAX_PROBLEMS);
        let text = format!("{more} more warnings about documents of this file are not listed");
        let mut unlisted = Diagnostic::warning(PROBLEMS_UNLISTED, FieldPath::root(), text)
            .with_hint("mend those that are listed; then the next ones are")
            .accepted_by_istio();
        unlisted.file = Some(Arc::clone(file));
        self.diagnostics.push(unlisted);
        self.lacks_problems = true;
    }

    /// A file of which nothing is read because it has too many documents.
    pub(super) fn too_many_documents(file: &Arc<str>, documents: usize) -> Self {
        let text =
            format!("nothing of the file is read: it has {documents} documents, more than {MAX_DOCUMENTS}");
        Self::refused(file, FILE_TOO_LARGE, &text, None, "divide it into several files")
    }

    /// A file of which nothing is read because it has too many errors. `read` has the first one.
    pub(super) fn too_many_errors(file: &Arc<str>, errors: usize, read: &FileContents) -> Self {
        let first = read.diagnostics.iter().find(|problem| problem.severity == Severity::Error);
        let why = first.map_or_else(String::new, |first| format!("; the first: {}", first.one_line()));
        let text = format!(
            "nothing of the file is read: its documents have {errors} errors, more than {MAX_PROBLEMS}{why}"
        );
        let hint =
            "mend it; move what is no configuration of this server out of its directory, or comment it out";
        Self::refused(file, FILE_ERRORS, &text, first.and_then(|first| first.span), hint)
    }

    fn refused(file: &Arc<str>, code: &'static str, text: &str, span: Option<Span>, hint: &str) -> Self {
        let mut problem = Diagnostic::error(code, FieldPath::root(), text).with_hint(hint);
        (problem.file, problem.span) = (Some(Arc::clone(file)), span);
        let whole = Broken {
            file: Arc::clone(file),
            document: None,
            text: "".into(),
            problem: problem.clone(),
            keeps_last: false,
        };
        Self { diagnostics: vec![problem], broken: vec![whole], lacks_problems: true, ..Self::default() }
    }
}

/// The numbers of problems of a file, which several threads read.
#[derive(Debug, Default)]
pub(super) struct Tally {
    errors: AtomicUsize,
    others: AtomicUsize,
}

impl Tally {
    /// Number of errors.
    pub(super) fn errors(&self) -> usize {
        self.errors.load(Ordering::Relaxed)
    }

    /// Number of other problems.
    pub(super) fn others(&self) -> usize {
        self.others.load(Ordering::Relaxed)
    }

    /// Counts a problem; returns the number of those before it.
    fn count(&self, severity: Severity) -> usize {
        let counter = if severity == Severity::Error { &self.errors } else { &self.others };
        counter.fetch_add(1, Ordering::Relaxed)
    }
}

/// A part of a file that is being read.
pub(super) struct Part<'t> {
    pub(super) contents: FileContents,
    tally: &'t Tally,
    has_errors: bool,
}

impl<'t> Part<'t> {
    /// Nothing is read yet.
    pub(super) fn of(tally: &'t Tally) -> Self {
        Self { contents: FileContents::default(), tally, has_errors: false }
    }

    /// Counts a problem. Returns whether it is kept: one beyond the bound is not, unless it is the first error of the part, which may be
    /// that of the file.
    fn keeps(&mut self, problem: &Diagnostic) -> bool {
        let is_within = self.tally.count(problem.severity) < MAX_PROBLEMS;
        let is_error = problem.severity == Severity::Error;
        is_within || (is_error && !std::mem::replace(&mut self.has_errors, true))
    }

    /// Adds the diagnostic of a chunk.
    pub(super) fn push(&mut self, problem: Diagnostic) {
        if self.keeps(&problem) {
            self.contents.diagnostics.push(problem);
        }
    }

    /// Adds the diagnostic of a chunk that cannot be read.
    pub(super) fn push_broken(&mut self, file: &Arc<str>, text: &str, problem: Diagnostic) {
        if self.keeps(&problem) {
            self.contents.broken.push(Broken {
                file: Arc::clone(file),
                document: problem.chunk,
                text: text.into(),
                problem: problem.clone(),
                keeps_last: false,
            });
            self.contents.diagnostics.push(problem);
        }
    }
}
