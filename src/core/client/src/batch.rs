//! Reports that are sent together.

use std::time::{Duration, Instant};

use mixer_attribute::request::{ReportWords, Semantics, encode_report_request};
use mixer_attribute::{OwnedAttributes, OwnedValue};

/// Most words, values and map entries of the reports of a batch, but for the last one: a server takes 65 536 shared words.
const MAX_ELEMENTS: usize = 32 << 10;

/// Bounds of a batch: the first one that is reached ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Reports.
    pub entries: usize,
    /// Time after the first report.
    pub time: Duration,
    /// Memory of the reports, in bytes.
    pub bytes: usize,
}

/// Reports that wait to be sent in one call. Spec: proxy.md, "Report batching".
#[derive(Debug)]
pub struct ReportBatch {
    limits: BatchLimits,
    reports: Vec<OwnedAttributes>,
    bytes: usize,
    elements: usize,
    /// Of the first report.
    since: Option<Instant>,
}

impl ReportBatch {
    /// An empty batch.
    pub fn new(limits: BatchLimits) -> Self {
        Self { limits, reports: Vec::new(), bytes: 0, elements: 0, since: None }
    }

    /// Adds a report. Returns whether the batch is to be sent now.
    pub fn add(&mut self, report: OwnedAttributes, now: Instant) -> bool {
        self.bytes += size_of_report(&report);
        self.elements += elements_of(&report);
        self.reports.push(report);
        let since = *self.since.get_or_insert(now);
        self.reports.len() >= self.limits.entries
            || self.bytes >= self.limits.bytes
            || self.elements >= MAX_ELEMENTS
            || now.saturating_duration_since(since) >= self.limits.time
    }

    /// When the batch is to be sent; `None` without reports.
    pub fn deadline(&self) -> Option<Instant> {
        self.since.and_then(|since| since.checked_add(self.limits.time))
    }

    /// Number of reports.
    pub fn len(&self) -> usize {
        self.reports.len()
    }

    /// Whether there are no reports.
    pub fn is_empty(&self) -> bool {
        self.reports.is_empty()
    }

    /// Takes all reports as a ReportRequest: every one complete, words shared. `None` without reports.
    pub fn take(&mut self, global_words: u32) -> Option<Vec<u8>> {
        let reports = std::mem::take(&mut self.reports);
        (self.bytes, self.elements, self.since) = (0, 0, None);
        (!reports.is_empty()).then(|| {
            encode_report_request(&reports, global_words, ReportWords::Shared, Semantics::Independent)
        })
    }
}

/// Words, values and map entries of a report, as if no word occurred twice.
fn elements_of(report: &OwnedAttributes) -> usize {
    let of = |value: &OwnedValue| match value {
        OwnedValue::String(_) => 3,
        OwnedValue::StringMap(map) => 2 + 3 * map.len(),
        _ => 2,
    };
    report.iter().map(|(_, value)| of(value)).sum()
}

/// The memory of a report, about: two words of overhead for each allocation.
fn size_of_report(report: &OwnedAttributes) -> usize {
    let text = |text: &[u8]| text.len() + 40;
    report
        .iter()
        .map(|(name, value)| {
            text(name)
                + match value {
                    OwnedValue::String(bytes) | OwnedValue::Bytes(bytes) => text(bytes),
                    OwnedValue::StringMap(map) => {
                        map.iter().map(|(key, value)| text(key) + text(value)).sum()
                    }
                    _ => 16,
                }
        })
        .sum()
}
