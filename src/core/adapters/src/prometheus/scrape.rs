//! Renderings of the metrics page, and how many scrapes may run.
//!
//! A [`Rendering`] holds the values of all series at one instant, not their text: each scrape writes the text in chunks while its client
//! reads. A scrape that starts while others run gets a rendering of its own as long as there is memory; otherwise it shares the newest
//! one.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::metric::{Metric, Row, SeriesValue};
use mixer_base::budget::{Reservation, Share};
use mixer_base::exposition::Writer;

/// Most scrapes at a time.
pub(super) const MAX_SCRAPES: usize = 16;
/// Bytes of a scrape besides its rendering: chunks, and the state of the compression.
const SCRAPE_BYTES: usize = 512 << 10;
/// Length of a chunk of text.
const CHUNK: usize = 64 << 10;

/// The values of all metrics at one instant.
#[derive(Debug)]
pub(super) struct Rendering {
    families: Vec<(Arc<Metric>, Vec<Row>)>,
    /// Its bytes, unless the series have paid for it.
    _paid: Option<Reservation>,
}

impl Rendering {
    /// Collects the values of `metrics`.
    pub(super) fn new(mut metrics: Vec<Arc<Metric>>, paid: Option<Reservation>) -> Self {
        metrics.sort_by(|a, b| a.definition.name.cmp(&b.definition.name));
        let families = metrics.into_iter().map(|metric| {
            let rows = metric.rows();
            (metric, rows)
        });
        Self { families: families.filter(|(_, rows)| !rows.is_empty()).collect(), _paid: paid }
    }

    /// The text, in chunks of about [`CHUNK`] bytes.
    pub(super) fn chunks(rendering: Arc<Self>) -> impl Iterator<Item = Vec<u8>> + Send {
        let mut at = Position::default();
        std::iter::from_fn(move || {
            let mut chunk = Vec::new();
            rendering.write(&mut at, &mut chunk);
            (!chunk.is_empty()).then_some(chunk)
        })
    }

    /// Writes from `at` on, until there is a chunk.
    fn write(&self, at: &mut Position, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        while let Some((metric, rows)) = self.families.get(at.family) {
            let (name, bounds) = (&metric.definition.name, &metric.definition.bounds);
            if at.row == 0 && at.bucket == 0 {
                writer.family(name, &metric.definition.help, metric.family_kind());
            }
            while let Some(Row { series, value }) = rows.get(at.row) {
                if writer.len() >= CHUNK {
                    return;
                }
                let labels = &series.labels;
                let unfinished = match value {
                    SeriesValue::Number { value, .. } => {
                        writer.sample(name, labels, *value);
                        None
                    }
                    SeriesValue::Distribution { counts, sum } => {
                        writer.histogram_part(name, labels, bounds, counts, *sum, at.bucket, CHUNK)
                    }
                };
                if let Some(bucket) = unfinished {
                    at.bucket = bucket;
                    return;
                }
                (at.row, at.bucket) = (at.row + 1, 0);
            }
            *at = Position { family: at.family + 1, ..Position::default() };
        }
    }
}

/// A place in the text of a rendering.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    family: usize,
    row: usize,
    bucket: usize,
}

/// The scrapes that run.
#[derive(Debug, Default)]
pub(super) struct Scrapes {
    running: Arc<Mutex<usize>>,
    newest: Mutex<Weak<Rendering>>,
}

/// Counts as a scrape until it is dropped.
#[derive(Debug)]
pub(super) struct ScrapePermit {
    running: Arc<Mutex<usize>>,
    _memory: Reservation,
}

impl ScrapePermit {
    /// Whether it counts.
    pub(super) fn is_held(&self) -> bool {
        *self.running.lock() > 0
    }
}

impl Drop for ScrapePermit {
    fn drop(&mut self) {
        *self.running.lock() -= 1;
    }
}

impl Scrapes {
    /// Begins a scrape; `None` if too many run, or too little memory is left for it.
    pub(super) fn enter(&self, share: &Arc<Share>) -> Option<ScrapePermit> {
        let mut running = self.running.lock();
        if *running >= MAX_SCRAPES {
            return None;
        }
        let memory = share.reserve(SCRAPE_BYTES)?;
        *running += 1;
        Some(ScrapePermit { running: Arc::clone(&self.running), _memory: memory })
    }

    /// A rendering of now, or the newest one if others run and there is no memory for one more.
    pub(super) fn rendering(
        &self,
        share: &Arc<Share>,
        render: impl FnOnce(Option<Reservation>) -> Rendering,
    ) -> Arc<Rendering> {
        let mut newest = self.newest.lock();
        let paid = match newest.upgrade() {
            // The series have paid for one rendering.
            None => None,
            Some(shared) => {
                // Leaves room for the scrapes that may still come.
                let spare = (MAX_SCRAPES - (*self.running.lock()).min(MAX_SCRAPES)) * SCRAPE_BYTES;
                let has_room = share.used() + shared.bytes() + spare <= share.limit();
                match has_room.then(|| share.reserve(shared.bytes())).flatten() {
                    Some(paid) => Some(paid),
                    None => return shared,
                }
            }
        };
        let rendering = Arc::new(render(paid));
        *newest = Arc::downgrade(&rendering);
        rendering
    }
}

impl Rendering {
    /// Its bytes, without the series.
    fn bytes(&self) -> usize {
        let bytes = |(metric, rows): &(Arc<Metric>, Vec<Row>)| rows.capacity() * metric.row_bytes();
        self.families.iter().map(bytes).sum()
    }
}
