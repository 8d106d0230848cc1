//! The records of a report as attribute bags.

use bumpalo::Bump;

use super::request::{ReportRequest, Semantics};
use super::{AttributeBag, StrictError, Vocabulary, Words};

/// Why a record of a report is skipped; later records are still processed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("request could not be processed due to invalid attributes: {0}")]
pub struct RecordError(#[from] pub StrictError);

/// Iterates over the records of a report.
///
/// One bag is filled with each record in turn; values read from it are valid as long as the arena. Overrides set for one
/// record are removed before the next.
pub struct ReportRecords<'a> {
    request: ReportRequest<'a>,
    default_words: Words<'a>,
    bag: AttributeBag<'a>,
    next: usize,
}

impl<'a> ReportRecords<'a> {
    /// Starts before the first record.
    pub fn new(request: &ReportRequest<'a>, vocabulary: &'a Vocabulary, arena: &'a Bump) -> Self {
        Self {
            request: *request,
            default_words: Words::new(request.default_words, vocabulary, arena),
            bag: AttributeBag::empty(vocabulary, arena),
            next: 0,
        }
    }

    /// The next record; `None` after the last, and always for unknown semantics.
    ///
    /// Errors: a later record of a delta report that fails strict decoding; the bag keeps the attributes before it.
    #[expect(
        clippy::should_implement_trait,
        reason = "an item borrows the walker, which no Iterator can express"
    )]
    pub fn next(&mut self) -> Option<Result<&mut AttributeBag<'a>, RecordError>> {
        if matches!(self.request.semantics, Semantics::Unknown(_)) {
            return None;
        }
        let record = self.request.records.get(self.next)?;
        self.next += 1;
        if self.next == 1 || self.request.semantics == Semantics::Independent {
            self.bag.replace(record, Some(self.default_words));
        } else {
            self.bag.rewind(0);
            if let Err(error) = self.bag.apply_delta(record, Some(self.default_words)) {
                return Some(Err(RecordError(error)));
            }
        }
        Some(Ok(&mut self.bag))
    }
}
