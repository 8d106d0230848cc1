//! The records of a report as attribute bags, slice by slice.

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;

use super::request::{EncodedRecords, ReportRequest, Semantics, SliceLimits};
use super::{AttributeBag, CompressedAttributes, StrictError, Vocabulary, Words};

/// Why a record of a report is skipped; later records are still processed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("request could not be processed due to invalid attributes: {0}")]
pub struct RecordError(#[from] pub StrictError);

/// Bytes of texts in a record that cost little besides what its evaluations cost.
const FEW_TEXT: usize = 32 << 10;

/// Iterates over the decoded records of a report, or of one slice of it.
///
/// One bag is filled with each record in turn; values read from it are valid as long as the arena. Overrides set for one
/// record are removed before the next.
pub struct ReportRecords<'a> {
    semantics: Semantics,
    records: &'a [CompressedAttributes<'a>],
    /// The same records, encoded, from the next one.
    encoded: EncodedRecords<'a>,
    last_len: usize,
    /// The length of the longest default word.
    longest_word: usize,
    /// An upper estimate of the bytes of the texts in the bag.
    most_text: usize,
    default_words: Words<'a>,
    bag: AttributeBag<'a>,
    next: usize,
    /// Whether the bag holds the records of earlier slices.
    is_continued: bool,
    /// By record of a delta report: the number of delta values up to it.
    ends: ArenaVec<'a, usize>,
}

impl<'a> ReportRecords<'a> {
    /// Starts before the first record of a request whose records are decoded.
    pub fn new(request: &ReportRequest<'a>, vocabulary: &'a Vocabulary, arena: &'a Bump) -> Self {
        Self {
            semantics: request.semantics,
            records: request.decoded,
            encoded: request.encoded,
            last_len: 0,
            longest_word: request.longest_word,
            most_text: 0,
            default_words: Words::new(request.default_words, vocabulary, arena),
            bag: AttributeBag::empty(vocabulary, arena),
            next: 0,
            is_continued: false,
            ends: ArenaVec::new_in(arena),
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
        self.last_len = self.encoded.next().map_or(0, <[u8]>::len);
        let mut result = Ok(());
        if self.next == 1 && !self.is_continued || self.semantics == Semantics::Independent {
            self.bag.replace(record, Some(self.default_words));
        } else {
            self.bag.rewind(0);
            result = self.bag.apply_delta(record, Some(self.default_words));
        }
        if self.semantics == Semantics::Delta && (self.records.len() > 1 || self.is_continued) {
            self.ends.push(self.bag.delta_len());
        }
        Some(result.map(|()| &mut self.bag).map_err(RecordError))
    }

    /// Whether every record was taken.
    pub fn is_empty(&self) -> bool {
        self.next >= self.records.len() || matches!(self.semantics, Semantics::Unknown(_))
    }

    /// The length in bytes of the last record that was taken.
    pub fn last_len(&self) -> usize {
        self.last_len
    }

    /// The bytes of the texts of the last record that was taken, with those that it has from earlier records; 0 if they are few. A word
    /// counts for each attribute that is this word.
    ///
    /// Cost: one look at each word of the record, unless they may be many.
    pub fn last_text(&mut self) -> usize {
        let last = self.next.checked_sub(1).and_then(|last| self.records.get(last));
        let earlier = if self.semantics == Semantics::Delta { self.most_text } else { 0 };
        let most =
            |record: &CompressedAttributes<'_>| record.most_text(self.last_len, self.longest_word, FEW_TEXT);
        self.most_text = last.map_or(0, most).saturating_add(earlier);
        if self.most_text <= FEW_TEXT {
            return 0;
        }
        // Of a delta report, later records add to what is in the bag, not to the estimate.
        self.most_text = self.bag.text_len();
        if self.most_text > FEW_TEXT { self.most_text } else { 0 }
    }
}

/// The records of a report that is taken slice by slice.
///
/// A slice of a delta report starts from the first record and those later records that were the last to set an attribute of the
/// vocabulary, at most one for each. They are decoded again, so that nothing but their encoded form outlives the arena of a slice.
pub struct RecordSlices<'a> {
    semantics: Semantics,
    default_words: Words<'a>,
    /// The length of the longest default word.
    longest_word: usize,
    /// An upper estimate of the bytes of the texts that the slices so far leave in the bag.
    most_text: usize,
    rest: EncodedRecords<'a>,
    /// Of a delta report: what earlier slices leave, then the records of the current slice.
    encoded: Vec<&'a [u8]>,
    /// How many of `encoded` earlier slices leave.
    carried: usize,
}

impl<'a> RecordSlices<'a> {
    /// All records. `arena` lives as long as the call.
    pub fn new(request: &ReportRequest<'a>, vocabulary: &'a Vocabulary, arena: &'a Bump) -> Self {
        Self {
            semantics: request.semantics,
            default_words: Words::new(request.default_words, vocabulary, arena),
            longest_word: request.longest_word,
            most_text: 0,
            rest: request.encoded,
            encoded: Vec::new(),
            carried: 0,
        }
    }

    /// The records after those that `first` has taken.
    pub fn after(request: &ReportRequest<'a>, first: &ReportRecords<'a>) -> Self {
        let mut slices = Self {
            semantics: request.semantics,
            default_words: first.default_words,
            longest_word: request.longest_word,
            most_text: 0,
            rest: request.encoded,
            encoded: request.encoded.take(first.next).collect(),
            carried: 0,
        };
        slices.finish(first);
        slices
    }

    /// Whether every record was taken.
    pub fn is_empty(&self) -> bool {
        let mut rest = self.rest;
        matches!(self.semantics, Semantics::Unknown(_)) || rest.next().is_none()
    }

    /// Begins to decode the next slice, which has at least one record. What earlier slices leave is decoded again; so that this does not
    /// cost more than the records themselves, it extends the limits.
    pub fn slice<'s>(
        &mut self,
        limits: SliceLimits,
        vocabulary: &'s Vocabulary,
        arena: &'s Bump,
    ) -> SliceDecoder<'_, 'a, 's>
    where
        'a: 's,
    {
        let carried: usize = self.encoded.iter().map(|record| record.len()).sum();
        SliceDecoder {
            limits: SliceLimits {
                records: limits.records.max(carried / CARRIED_PER_RECORD),
                bytes: limits.bytes.max(carried),
            },
            next: self.rest,
            count: 0,
            bytes: 0,
            applied: 0,
            ends: ArenaVec::new_in(arena),
            records: ArenaVec::new_in(arena),
            bag: AttributeBag::empty(vocabulary, arena),
            slices: self,
        }
    }

    /// Notes which records of a slice were taken, and what they leave to the next ones.
    pub fn finish(&mut self, slice: &ReportRecords<'_>) {
        for _ in 0..slice.next {
            self.rest.next();
        }
        self.most_text = slice.most_text;
        if self.semantics != Semantics::Delta {
            self.encoded.clear();
            return;
        }
        self.encoded.truncate(self.carried + slice.next);
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
        self.carried = self.encoded.len();
    }
}

/// Bytes that earlier slices leave for which a slice may have one more record.
const CARRIED_PER_RECORD: usize = 64;

/// Decodes a slice in steps, between which other calls can be served.
pub struct SliceDecoder<'l, 'a, 's> {
    slices: &'l mut RecordSlices<'a>,
    limits: SliceLimits,
    /// The records that are not decoded yet.
    next: EncodedRecords<'a>,
    count: usize,
    bytes: usize,
    /// How many of the records that earlier slices leave are applied.
    applied: usize,
    ends: ArenaVec<'s, usize>,
    records: ArenaVec<'s, CompressedAttributes<'s>>,
    bag: AttributeBag<'s>,
}

impl<'a: 's, 's> SliceDecoder<'_, 'a, 's> {
    /// Decodes one record. Returns its length in bytes; `None` at the end of the slice.
    pub fn step(&mut self) -> Option<usize> {
        let arena = self.bag.arena();
        if self.applied < self.slices.carried {
            let record = *self.slices.encoded.get(self.applied)?;
            // The record was validated with the request, and applied before.
            if let Ok(decoded) = CompressedAttributes::decode(record, arena) {
                match self.applied {
                    0 => self.bag.replace(&decoded, Some(self.slices.default_words)),
                    _ => drop(self.bag.apply_delta(&decoded, Some(self.slices.default_words))),
                }
            }
            self.applied += 1;
            self.ends.push(self.bag.delta_len());
            return Some(record.len());
        }
        let mut next = self.next;
        let record = next.next()?;
        if !self.limits.admits(&mut self.count, &mut self.bytes, record.len()) {
            return None;
        }
        self.next = next;
        self.records.push(CompressedAttributes::decode(record, arena).unwrap_or_default());
        if self.slices.semantics == Semantics::Delta {
            self.slices.encoded.push(record);
        }
        Some(record.len())
    }

    /// The records of the slice. When they were taken, or some of them, pass them to [`finish`](RecordSlices::finish).
    pub fn records(self) -> ReportRecords<'s> {
        ReportRecords {
            semantics: self.slices.semantics,
            default_words: self.slices.default_words,
            is_continued: self.slices.carried > 0,
            encoded: self.slices.rest,
            last_len: 0,
            longest_word: self.slices.longest_word,
            most_text: self.slices.most_text,
            records: self.records.into_bump_slice(),
            bag: self.bag,
            next: 0,
            ends: self.ends,
        }
    }
}
