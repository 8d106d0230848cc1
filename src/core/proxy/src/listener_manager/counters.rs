//! What the listener manager counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::stats::{Scope, Stats, Value};

/// A counter or gauge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    Added,
    Modified,
    Removed,
    UpdatedInPlace,
    Created,
    NotCreated,
    Stopped,
    Started,
    Active,
    Draining,
    DrainingChains,
}

/// All, with Envoy's names, and whether they only grow.
const NAMES: [(Count, &str, bool); 11] = [
    (Count::Added, "listener_added", true),
    (Count::Modified, "listener_modified", true),
    (Count::Removed, "listener_removed", true),
    (Count::UpdatedInPlace, "listener_in_place_updated", true),
    (Count::Created, "listener_create_success", true),
    (Count::NotCreated, "listener_create_failure", true),
    (Count::Stopped, "listener_stopped", true),
    (Count::Started, "workers_started", false),
    (Count::Active, "total_listeners_active", false),
    (Count::Draining, "total_listeners_draining", false),
    (Count::DrainingChains, "total_filter_chains_draining", false),
];

/// The counters and gauges of the listener manager.
#[derive(Debug, Clone)]
pub(super) struct Counters(Arc<[AtomicU64; NAMES.len()]>);

impl Counters {
    /// Counters that are among the statistics.
    pub(super) fn new(stats: &Stats) -> Self {
        let counters = Self(Arc::new([const { AtomicU64::new(0) }; NAMES.len()]));
        for (count, name, is_counter) in NAMES {
            let read = counters.clone();
            stats.computed(&Scope::ListenerManager, name, move || match is_counter {
                true => Value::Counter(read.get(count)),
                false => Value::Gauge(read.get(count)),
            });
        }
        // A listener replaces the one before it at once.
        stats.computed(&Scope::ListenerManager, "total_listeners_warming", || Value::Gauge(0));
        counters
    }

    fn cell(&self, count: Count) -> Option<&AtomicU64> {
        self.0.get(count as usize)
    }

    /// Adds.
    pub(super) fn add(&self, count: Count, amount: u64) {
        if let Some(cell) = self.cell(count) {
            cell.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Subtracts from a gauge.
    pub(super) fn subtract(&self, count: Count, amount: u64) {
        if let Some(cell) = self.cell(count) {
            cell.fetch_sub(amount, Ordering::Relaxed);
        }
    }

    /// Sets a gauge.
    pub(super) fn set(&self, count: Count, value: u64) {
        if let Some(cell) = self.cell(count) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    fn get(&self, count: Count) -> u64 {
        self.cell(count).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }
}
