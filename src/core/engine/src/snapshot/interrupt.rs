//! Ends a build early: a stop, or a newer configuration, makes its result useless.

use std::sync::atomic::{AtomicBool, Ordering};

/// Asked between two units of a build.
type Question = Box<dyn Fn() -> bool + Send + Sync>;

/// Whether a build is to end early. Once it is, it stays so until the builder is reset.
#[derive(Default)]
pub(super) struct Interrupt {
    question: Option<Question>,
    is_due: AtomicBool,
}

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupt").field("is_due", &self.is_due).finish_non_exhaustive()
    }
}

impl Interrupt {
    /// Builds from now on ask `question`; `None` for those that are not to end early.
    pub(super) fn ask(&mut self, question: Option<Question>) {
        self.question = question;
    }

    /// Whether the build is to end now. Cost: that of the question.
    pub(super) fn check(&self) -> bool {
        if !self.is_due() && self.question.as_ref().is_some_and(|question| question()) {
            self.is_due.store(true, Ordering::Relaxed);
        }
        self.is_due()
    }

    /// Whether a build ended early.
    pub(super) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed)
    }

    /// The same questions for a builder that begins again.
    pub(super) fn begin_again(&mut self) -> Self {
        Self { question: self.question.take(), is_due: AtomicBool::default() }
    }
}
