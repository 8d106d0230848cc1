//! What the metrics have of a list.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use mixer_base::metrics::{Collect, Collected, Counter, Family, Metrics};

/// What a fetch ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FetchResult {
    /// Another list serves.
    Updated,
    /// The list is that which serves.
    Unchanged,
    /// It is no list, or one that is not used.
    Refused,
    /// Its patterns have no room beside those of others.
    NoRoom,
    /// It was not read.
    Failed,
}

/// The names of [`FetchResult`], in its order.
const NAMES: [&str; 5] = ["updated", "unchanged", "refused", "no-room", "failed"];

/// The metrics of a list.
#[derive(Debug)]
pub(super) struct ListMetrics {
    fetches: [Counter; NAMES.len()],
    held: Arc<Held>,
}

/// What a list takes, as long as it is there.
#[derive(Debug)]
struct Held {
    handler_name: String,
    bytes: AtomicUsize,
}

impl Collect for Held {
    fn collect(&self, into: &mut Collected) {
        into.add(Family::ListBytes, &[&self.handler_name], self.bytes.load(Ordering::Relaxed) as f64);
    }
}

impl Default for ListMetrics {
    /// Of no server.
    fn default() -> Self {
        Self::new(&Metrics::default(), "")
    }
}

impl ListMetrics {
    /// Those of a handler.
    pub(super) fn new(metrics: &Metrics, handler_name: &str) -> Self {
        let fetches = NAMES.map(|name| metrics.counter(Family::ListFetches, &[handler_name, name]));
        let held = Arc::new(Held { handler_name: handler_name.to_owned(), bytes: AtomicUsize::new(0) });
        let source: Weak<dyn Collect> = Arc::<Held>::downgrade(&held);
        metrics.collect_from(source);
        Self { fetches, held }
    }

    /// Counts a fetch.
    pub(super) fn count(&self, result: FetchResult) {
        if let Some(fetches) = self.fetches.get(result as usize) {
            fetches.increment();
        }
    }

    /// The list takes so many bytes now.
    pub(super) fn holds(&self, bytes: usize) {
        self.held.bytes.store(bytes, Ordering::Relaxed);
    }
}
