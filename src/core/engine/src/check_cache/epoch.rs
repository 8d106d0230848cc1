//! When the answers of handlers changed, so that caches of answers end.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of times that the answers of handlers changed without a change of configuration, for example because a list was fetched.
///
/// A handler advances the one of its server (`env.commons.get::<AnswerEpoch>()`) after its new answers are in effect. Every cache of
/// answers reads it once a look-up and finds nothing that was decided before it last changed.
#[derive(Debug, Default)]
pub struct AnswerEpoch(AtomicU64);

impl AnswerEpoch {
    /// Ends all cached answers.
    pub fn advance(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    /// Whoever reads an epoch gets the answers that it stands for, or later ones. Cost: a load of a value that is hardly ever written.
    pub(super) fn current(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
