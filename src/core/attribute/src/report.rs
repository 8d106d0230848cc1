//! The records of a report as attribute bags, slice by slice.

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;

use super::request::{EncodedRecords, ReportRequest, Semantics, SliceLimits};
use super::{AttributeBag, CompressedAttributes, StrictError, Vocabulary, Words};

/// Why a record of a report is skipped; later records are still processed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("request could not be processed due to invalid attributes: {0}")]
pub struct RecordError(#[from] pub StrictError);

/// Iterates over the records of one slice of a report.
///
/// One bag is filled with each record in turn; values read from it are valid as long as the arena. Overrides set for one
/// record are removed before the next.
pub struct ReportRecords<'a> {
    semantics: Semantics,
    records: &'a [CompressedAttributes<'a>],
    default_words: Words<'a>,
    bag: AttributeBag<'a>,
    next: usize,
    /// Whether the bag holds the records of earlier slices.
    is_continued: bool,
    /// By record: the number of delta values up to it. Empty in a report of one slice.
    ends: ArenaVec<'a, usize>,
    notes_ends: bool,
}

impl<'a> ReportRecords<'a> {
    /// Starts before the first record of the first slice: of all records, unless the request was decoded within bounds.
    pub fn new(request: &ReportRequest<'a>, vocabulary: &'a Vocabulary, arena: &'a Bump) -> Self {
        let is_delta = request.semantics == Semantics::Delta;
        Self {
            semantics: request.semantics,
            records: request.first,
            default_words: Words::new(request.default_words, vocabulary, arena),
            bag: AttributeBag::empty(vocabulary, arena),
            next: 0,
            is_continued: false,
            ends: ArenaVec::new_in(arena),
            notes_ends: is_delta && request.first.len() < request.record_count,
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
        if matches!(self.semantics, Semantics::Unknown(_)) {
            return None;
        }
        let record = self.records.get(self.next)?;
        self.next += 1;
        let mut result = Ok(());
        if self.next == 1 && !self.is_continued || self.semantics == Semantics::Independent {
            self.bag.replace(record, Some(self.default_words));
        } else {
            self.bag.rewind(0);
            result = self.bag.apply_delta(record, Some(self.default_words));
        }
        if self.notes_ends {
            self.ends.push(self.bag.delta_len());
        }
        Some(result.map(|()| &mut self.bag).map_err(RecordError))
    }
}

/// The records of a report after its first slice.
///
/// A slice of a delta report starts from the first record and those later records that were the last to set an attribute of the
/// vocabulary, at most one for each. They are decoded again, so that nothing but their encoded form outlives the arena of a slice.
pub struct LaterRecords<'a> {
    request: ReportRequest<'a>,
    rest: EncodedRecords<'a>,
    /// Of a delta report: what earlier slices leave, then the records of the current slice.
    encoded: Vec<&'a [u8]>,
}

impl<'a> LaterRecords<'a> {
    /// The records after those of `first`, all of which were taken; `None` if there are none.
    pub fn after(request: &ReportRequest<'a>, first: &ReportRecords<'a>) -> Option<Self> {
        let taken = request.first.len();
        if taken >= request.record_count || matches!(request.semantics, Semantics::Unknown(_)) {
            return None;
        }
        let mut rest = request.encoded;
        let mut encoded: Vec<&'a [u8]> = rest.by_ref().take(taken).collect();
        if request.semantics != Semantics::Delta {
            encoded.clear();
        }
        let mut later = Self { request: *request, rest, encoded };
        later.finish(first);
        Some(later)
    }

    /// Whether every record was in a slice.
    pub fn is_empty(&self) -> bool {
        let mut rest = self.rest;
        rest.next().is_none()
    }

    /// Decodes the next slice; `None` after the last. When all of its records were taken, pass it to [`finish`](Self::finish).
    pub fn slice<'s>(
        &mut self,
        limits: SliceLimits,
        vocabulary: &'s Vocabulary,
        arena: &'s Bump,
    ) -> Option<ReportRecords<'s>>
    where
        'a: 's,
    {
        let is_delta = self.request.semantics == Semantics::Delta;
        let mut bag = AttributeBag::empty(vocabulary, arena);
        let default_words = Words::new(self.request.default_words, vocabulary, arena);
        let mut ends = ArenaVec::new_in(arena);
        for (number, record) in self.encoded.iter().enumerate() {
            // The record was decoded and applied before.
            let Ok(record) = CompressedAttributes::decode(record, arena) else { continue };
            if number == 0 {
                bag.replace(&record, Some(default_words));
            } else {
                let _ = bag.apply_delta(&record, Some(default_words));
            }
            ends.push(bag.delta_len());
        }
        let (mut count, mut bytes) = (0, 0);
        let mut records = ArenaVec::new_in(arena);
        loop {
            let mut rest = self.rest;
            let Some(record) = rest.next().filter(|r| limits.admits(&mut count, &mut bytes, r.len())) else {
                break;
            };
            self.rest = rest;
            // The record was validated with the request.
            let Ok(decoded) = CompressedAttributes::decode(record, arena) else { continue };
            records.push(decoded);
            if is_delta {
                self.encoded.push(record);
            }
        }
        (!records.is_empty()).then(|| ReportRecords {
            semantics: self.request.semantics,
            records: records.into_bump_slice(),
            default_words,
            bag,
            next: 0,
            is_continued: is_delta,
            ends,
            notes_ends: is_delta,
        })
    }

    /// Notes what a slice whose records were all taken leaves to the next ones.
    pub fn finish(&mut self, slice: &ReportRecords<'_>) {
        if self.request.semantics != Semantics::Delta {
            return;
        }
        let mut needed = vec![false; self.encoded.len()];
        if let Some(first) = needed.first_mut() {
            *first = true;
        }
        for index in slice.bag.delta_indexes() {
            let record = slice.ends.partition_point(|end| *end <= index);
            if let Some(flag) = needed.get_mut(record) {
                *flag = true;
            }
        }
        let mut flags = needed.into_iter();
        self.encoded.retain(|_| flags.next().unwrap_or(false));
    }
}
