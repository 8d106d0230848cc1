//! Check and Report requests: decoded from the bytes of a call, and encoded for clients.
//!
//! [`CheckRequest::decode`] and [`ReportRequest::decode`] validate the whole message, including the attributes, so that
//! building a bag cannot fail. Strings that are not UTF-8 are accepted, as by Istio Mixer.

use std::collections::BTreeMap;

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;

use super::wire::{
    DefaultWords, Parts, Reader, VARINT, WordList, nested, put_nonempty, put_nonzero, put_tag, put_varint,
};
use super::{CompressedAttributes, DecodeError, GLOBAL_WORDS, OwnedAttributes};

/// Most default words of a report.
const MAX_DEFAULT_WORDS: usize = 64 << 10;
/// Most bytes of the name of a quota, and of a deduplication id. Istio's proxies send a UUID; every quota of a check digests the id anew.
pub const MAX_QUOTA_TEXT: usize = 1 << 10;
/// What decoding a record costs besides its bytes, in bytes.
const RECORD_OVERHEAD: usize = 16;

/// Checks the global word count of a client, which must not exceed the length of the global dictionary.
///
/// Errors: Istio Mixer's text, for gRPC INTERNAL.
pub fn check_global_word_count(count: u32) -> Result<(), String> {
    let known = GLOBAL_WORDS.len();
    if usize::try_from(count).is_ok_and(|count| count <= known) {
        return Ok(());
    }
    Err(format!(
        "inconsistent global dictionary versions used: mixer knows {known} words, caller knows {count}"
    ))
}

/// One requested quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaParams<'a> {
    /// The name of the quota.
    pub name: &'a str,
    /// The requested amount; a negative one releases.
    pub amount: i64,
    /// Whether a part of the amount may be granted.
    pub best_effort: bool,
}

/// A decoded CheckRequest.
#[derive(Debug, Clone, Copy, Default)]
pub struct CheckRequest<'a> {
    /// The attributes; empty if the request has none.
    pub attributes: CompressedAttributes<'a>,
    /// How many leading global words the client knows.
    pub global_word_count: u32,
    /// Requests with the same id and quota name are one allocation.
    pub deduplication_id: &'a str,
    /// The requested quotas, sorted by unique name.
    pub quotas: &'a [QuotaParams<'a>],
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Invalid protobuf, for gRPC INTERNAL `grpc: error unmarshalling request: <error>`.
    #[error(transparent)]
    Undecodable(#[from] DecodeError),
    /// A report with too many records, for gRPC INVALID_ARGUMENT.
    #[error("the report has {found} records; at most {limit} are allowed (--max-report-records)")]
    TooManyRecords {
        /// Records of the report.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// A name of a quota or a deduplication id that is too long, for gRPC INVALID_ARGUMENT.
    #[error("the {what} has {found} bytes; at most {limit} are allowed")]
    LongText {
        /// What it is.
        what: &'static str,
        /// Its length in bytes.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// A check with too many quotas, for gRPC INVALID_ARGUMENT.
    #[error("the check asks for more than {limit} quotas (--max-check-quotas)")]
    TooManyQuotas {
        /// The limit.
        limit: usize,
    },
}

impl<'a> CheckRequest<'a> {
    /// Decodes a request. Allocates in `arena` only.
    ///
    /// Errors: invalid protobuf.
    pub fn decode(body: &'a [u8], arena: &'a Bump) -> Result<Self, DecodeError> {
        Ok(Self::read(body, usize::MAX, arena)?.unwrap_or_default())
    }

    /// As [`decode`](Self::decode), for a request of at most `max_quotas` quotas, repeated names included. Nothing is read beyond them.
    ///
    /// Errors: invalid protobuf; more quotas; a name of a quota or a deduplication id of more than [`MAX_QUOTA_TEXT`].
    pub fn decode_bounded(body: &'a [u8], max_quotas: usize, arena: &'a Bump) -> Result<Self, RequestError> {
        let Some(request) = Self::read(body, max_quotas, arena)? else {
            return Err(RequestError::TooManyQuotas { limit: max_quotas });
        };
        check_length("deduplication id", request.deduplication_id)?;
        for quota in request.quotas {
            check_length("name of a quota", quota.name)?;
        }
        Ok(request)
    }

    /// Decodes a request; `None` if it has more quotas than `max_quotas`.
    fn read(body: &'a [u8], max_quotas: usize, arena: &'a Bump) -> Result<Option<Self>, DecodeError> {
        let mut request = Self::default();
        let mut attributes = None;
        let mut quotas = ArenaVec::new_in(arena);
        let mut reader = Reader::new(body);
        while let Some((number, wire_type)) = reader.tag()? {
            match number {
                1 => {
                    let bytes = reader.bytes_of(number, wire_type)?;
                    attributes.get_or_insert_with(|| Parts::new(bytes.len(), arena)).read(bytes)?;
                }
                2 => request.global_word_count = uint32(&mut reader, number, wire_type)?,
                3 => request.deduplication_id = text(reader.bytes_of(number, wire_type)?, arena),
                4 => {
                    let bytes = reader.bytes_of(number, wire_type)?;
                    if quotas.len() == max_quotas {
                        return Ok(None);
                    }
                    quotas.push(quota(bytes, arena)?);
                }
                _ => reader.skip(wire_type)?,
            }
        }
        let attributes = attributes.map(Parts::finish).unwrap_or_default();
        request.attributes = attributes.checked(body.len(), &DefaultWords::default())?;
        // Of equal names the last wins.
        quotas.reverse();
        quotas.sort_by_key(|quota: &QuotaParams<'_>| quota.name);
        quotas.dedup_by_key(|quota| quota.name);
        request.quotas = quotas.into_bump_slice();
        Ok(Some(request))
    }
}

fn check_length(what: &'static str, text: &str) -> Result<(), RequestError> {
    if text.len() > MAX_QUOTA_TEXT {
        return Err(RequestError::LongText { what, found: text.len(), limit: MAX_QUOTA_TEXT });
    }
    Ok(())
}

fn quota<'a>(bytes: &'a [u8], arena: &'a Bump) -> Result<QuotaParams<'a>, DecodeError> {
    let mut quota = QuotaParams { name: "", amount: 0, best_effort: false };
    let mut reader = Reader::new(bytes);
    while let Some((number, wire_type)) = reader.tag()? {
        match number {
            1 => quota.name = text(reader.bytes_of(number, wire_type)?, arena),
            2 => {
                let mut params = Reader::new(reader.bytes_of(number, wire_type)?);
                while let Some((number, wire_type)) = params.tag()? {
                    match number {
                        1 => quota.amount = params.varint_of(number, wire_type)?.cast_signed(),
                        2 => quota.best_effort = params.varint_of(number, wire_type)? != 0,
                        _ => params.skip(wire_type)?,
                    }
                }
            }
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(quota)
}

/// How the records of a report relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Semantics {
    /// Each record is a delta to the records before it.
    #[default]
    Delta,
    /// Each record is complete.
    Independent,
    /// An unknown value: the records are ignored, as by Istio Mixer.
    Unknown(i32),
}

/// A decoded ReportRequest.
///
/// Every record is valid. Either all records are decoded or, if they are more than one slice, none: they stay encoded, so that memory does
/// not depend on their number.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReportRequest<'a> {
    /// Number of records.
    pub record_count: usize,
    /// The words of records without words of their own.
    pub default_words: &'a [&'a [u8]],
    /// How many leading global words the client knows.
    pub global_word_count: u32,
    /// How the records relate.
    pub semantics: Semantics,
    /// The records, if they are decoded.
    pub(crate) decoded: &'a [CompressedAttributes<'a>],
    /// The length of the longest default word.
    pub(crate) longest_word: usize,
    /// All records.
    pub(crate) encoded: EncodedRecords<'a>,
}

/// Bounds of the records of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordLimits {
    /// Records of a report.
    pub records: usize,
    /// Bounds of the records that are decoded at once. A report beyond them is only validated.
    pub slice: SliceLimits,
}

/// Bounds of the records that are decoded at once; a slice has at least one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceLimits {
    /// Records.
    pub records: usize,
    /// Their encoded size in bytes.
    pub bytes: usize,
}

impl SliceLimits {
    /// No bounds.
    pub const NONE: Self = Self { records: usize::MAX, bytes: usize::MAX };

    /// Counts a message of `len` bytes against the bounds of a slice. Returns whether it fits, which the first one always does.
    pub fn admits(self, records: &mut usize, bytes: &mut usize, len: usize) -> bool {
        let all = bytes.saturating_add(len);
        if *records > 0 && (*records >= self.records || all > self.bytes) {
            return false;
        }
        (*records, *bytes) = (*records + 1, all);
        true
    }
}

/// The encoded records of a valid ReportRequest, in order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EncodedRecords<'a>(Reader<'a>);

impl Default for EncodedRecords<'_> {
    fn default() -> Self {
        Self(Reader::new(&[]))
    }
}

impl<'a> Iterator for EncodedRecords<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // The message is valid: nothing below fails.
        while let Some((number, wire_type)) = self.0.tag().ok()? {
            if number == 1 {
                return self.0.bytes_of(number, wire_type).ok();
            }
            self.0.skip(wire_type).ok()?;
        }
        None
    }
}

impl<'a> ReportRequest<'a> {
    /// Decodes a request with all of its records. Allocates in `arena` only.
    ///
    /// Errors: invalid protobuf, in a record as well.
    pub fn decode(body: &'a [u8], arena: &'a Bump) -> Result<Self, DecodeError> {
        let mut decoder = ReportDecoder::new(body, SliceLimits::NONE, arena);
        decoder.scan(usize::MAX)?;
        decoder.read(usize::MAX)?;
        Ok(decoder.finish())
    }

    /// As [`decode`](Self::decode), within bounds.
    ///
    /// Errors: invalid protobuf; too many records.
    pub fn decode_bounded(
        body: &'a [u8],
        limits: RecordLimits,
        arena: &'a Bump,
    ) -> Result<Self, RequestError> {
        let mut decoder = ReportDecoder::new(body, limits.slice, arena);
        while !decoder.step(usize::MAX, limits.records)? {}
        Ok(decoder.finish())
    }

    /// The decoded records: all or none.
    pub fn records(&self) -> &'a [CompressedAttributes<'a>] {
        self.decoded
    }

    /// Whether the records are decoded.
    pub fn is_decoded(&self) -> bool {
        self.decoded.len() == self.record_count
    }
}

/// Decodes a ReportRequest in steps, between which other calls can be served.
pub struct ReportDecoder<'a> {
    request: ReportRequest<'a>,
    default_words: ArenaVec<'a, &'a [u8]>,
    /// The fields that are not scanned yet.
    fields: Reader<'a>,
    is_scanned: bool,
    /// The records that are not read yet.
    records: EncodedRecords<'a>,
    /// The decoded records; `None` if they exceed a slice.
    decoded: Option<ArenaVec<'a, CompressedAttributes<'a>>>,
    slice: SliceLimits,
    /// For records that are validated and not kept.
    scratch: Bump,
    arena: &'a Bump,
}

impl<'a> ReportDecoder<'a> {
    /// Begins with a request. Its records are kept if they are within `slice`.
    pub fn new(body: &'a [u8], slice: SliceLimits, arena: &'a Bump) -> Self {
        let records = EncodedRecords(Reader::new(body));
        Self {
            request: ReportRequest { encoded: records, ..ReportRequest::default() },
            default_words: ArenaVec::new_in(arena),
            fields: Reader::new(body),
            is_scanned: false,
            records,
            decoded: (body.len() <= slice.bytes).then(|| ArenaVec::new_in(arena)),
            slice,
            scratch: Bump::new(),
            arena,
        }
    }

    /// Decodes about `bytes`, at least one record. Returns whether that was the last step.
    ///
    /// Errors: invalid protobuf; more than `max_records`.
    pub fn step(&mut self, bytes: usize, max_records: usize) -> Result<bool, RequestError> {
        if self.is_scanned {
            return Ok(self.read(bytes)?);
        }
        if self.scan(bytes)? && self.request.record_count > max_records {
            return Err(RequestError::TooManyRecords {
                found: self.request.record_count,
                limit: max_records,
            });
        }
        Ok(false)
    }

    /// The request, after the last step.
    pub fn finish(self) -> ReportRequest<'a> {
        let decoded = self.decoded.map_or(&[][..], ArenaVec::into_bump_slice);
        ReportRequest { default_words: self.default_words.into_bump_slice(), decoded, ..self.request }
    }

    /// Reads everything but the content of the records.
    fn scan(&mut self, bytes: usize) -> Result<bool, DecodeError> {
        let Self { request, fields: reader, .. } = self;
        // A field costs about as much as decoding four bytes.
        for _ in 0..bytes.div_ceil(4) {
            let Some((number, wire_type)) = reader.tag()? else {
                self.is_scanned = true;
                let count = self.request.record_count;
                self.decoded = self.decoded.take().filter(|_| count <= self.slice.records);
                if let Some(decoded) = &mut self.decoded {
                    decoded.reserve_exact(count);
                }
                return Ok(true);
            };
            match number {
                1 => {
                    reader.bytes_of(number, wire_type)?;
                    request.record_count += 1;
                }
                2 => {
                    if self.default_words.len() >= MAX_DEFAULT_WORDS {
                        return Err(DecodeError::TooManyElements { limit: MAX_DEFAULT_WORDS });
                    }
                    let word = reader.bytes_of(number, wire_type)?;
                    request.longest_word = request.longest_word.max(word.len());
                    self.default_words.push(word);
                }
                3 => request.global_word_count = uint32(reader, number, wire_type)?,
                4 => {
                    request.semantics = match uint32(reader, number, wire_type)?.cast_signed() {
                        0 => Semantics::Delta,
                        1 => Semantics::Independent,
                        other => Semantics::Unknown(other),
                    };
                }
                _ => reader.skip(wire_type)?,
            }
        }
        Ok(false)
    }

    /// Decodes the records, or validates them if they exceed a slice.
    fn read(&mut self, bytes: usize) -> Result<bool, DecodeError> {
        let mut left = bytes;
        let words = DefaultWords { words: &self.default_words, longest: self.request.longest_word };
        while left > 0 {
            let Some(record) = self.records.next() else { return Ok(true) };
            match &mut self.decoded {
                Some(decoded) => decoded.push(CompressedAttributes::decode_with(record, &words, self.arena)?),
                None => {
                    CompressedAttributes::decode_with(record, &words, &self.scratch)?;
                    self.scratch.reset();
                }
            }
            left = left.saturating_sub(record.len() + RECORD_OVERHEAD);
        }
        Ok(false)
    }
}

/// A uint32 or enum field: the low 32 bits of its varint.
fn uint32(reader: &mut Reader<'_>, number: u32, wire_type: u8) -> Result<u32, DecodeError> {
    Ok(reader.varint_of(number, wire_type)? as u32)
}

/// The text, or a copy with U+FFFD for invalid UTF-8.
fn text<'a>(bytes: &'a [u8], arena: &'a Bump) -> &'a str {
    // Ten times faster than a walk over the chunks of a text that is valid.
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => arena.alloc_str(&String::from_utf8_lossy(bytes)),
    }
}

/// What a client sends in a Check, apart from attributes.
#[derive(Debug, Clone, Default)]
pub struct CheckCall<'r> {
    /// The deduplication id; empty for none.
    pub deduplication_id: &'r str,
    /// Amount and best effort, by quota name.
    pub quotas: BTreeMap<String, (i64, bool)>,
}

/// The canonical encoding of a CheckRequest. Global words below `global_word_count`, which is sent along, are encoded by
/// their index; with 0 every word is a message word.
pub fn encode_check_request(
    attributes: &OwnedAttributes,
    global_word_count: u32,
    call: &CheckCall<'_>,
) -> Vec<u8> {
    let mut out = Vec::new();
    nested(&mut out, 1, |out| attributes.encode(global_word_count, out));
    put_nonzero(&mut out, 2, u64::from(global_word_count));
    put_nonempty(&mut out, 3, call.deduplication_id.as_bytes());
    for (name, (amount, best_effort)) in &call.quotas {
        nested(&mut out, 4, |out| {
            put_nonempty(out, 1, name.as_bytes());
            nested(out, 2, |out| {
                put_nonzero(out, 1, amount.cast_unsigned());
                put_nonzero(out, 2, u64::from(*best_effort));
            });
        });
    }
    out
}

/// Where a report carries its message words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReportWords {
    /// In every record.
    #[default]
    Own,
    /// Once, as default words.
    Shared,
}

/// The canonical encoding of a ReportRequest. `global_word_count` as in [`encode_check_request`].
pub fn encode_report_request<'r>(
    records: impl IntoIterator<Item = &'r OwnedAttributes>,
    global_word_count: u32,
    words: ReportWords,
    semantics: Semantics,
) -> Vec<u8> {
    let scratch = Bump::new();
    let mut shared = WordList::new_in(global_word_count, &scratch);
    let mut out = Vec::new();
    for record in records {
        nested(&mut out, 1, |out| match words {
            ReportWords::Own => record.encode(global_word_count, out),
            ReportWords::Shared => record.encode_without_words(&mut shared, &scratch, out),
        });
    }
    shared.write(&mut out, 2);
    put_nonzero(&mut out, 3, u64::from(global_word_count));
    let semantics = match semantics {
        Semantics::Delta => 0,
        Semantics::Independent => 1,
        Semantics::Unknown(number) => number,
    };
    if semantics != 0 {
        put_tag(&mut out, 4, VARINT);
        put_varint(&mut out, i64::from(semantics).cast_unsigned());
    }
    out
}

#[cfg(test)]
mod tests;
