//! The metrics of limits.

use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::config::Limit;
use mixer_base::metrics::{Counter, Family, Metrics};

/// The metrics of one limit.
struct LimitCounters {
    total: Counter,
    over: Counter,
    near: Counter,
    within: Counter,
    shadow: Counter,
}

/// The metrics of the limits that a worker has applied, at most those of one configuration.
pub(crate) struct LimitMetrics {
    metrics: Arc<Metrics>,
    /// By the address of the limit.
    known: RefCell<FxHashMap<usize, KnownLimit>>,
}

struct KnownLimit {
    /// Held so that its address identifies it.
    _limit: Arc<Limit>,
    counters: LimitCounters,
}

/// The hits of a call on one limit.
pub(super) struct Counted {
    pub(super) hits: i64,
    /// The counter before the call.
    pub(super) before: i64,
    /// The counter after the call; the same if it was not charged.
    pub(super) after: i64,
    pub(super) limit: i64,
    /// From where on hits are close to the limit.
    pub(super) near: i64,
    pub(super) over: bool,
    /// Whether the limit is in shadow mode.
    pub(super) shadow: bool,
}

impl LimitMetrics {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, known: RefCell::default() }
    }

    /// Releases the metrics of all limits: those of a configuration that is no longer in force.
    pub(crate) fn release(&self) {
        self.known.borrow_mut().clear();
    }

    /// Counts the hits of a call. Cost: takes the lock of the metrics for the first call of a worker on a limit.
    pub(super) fn count(&self, limit: &Arc<Limit>, counted: &Counted) {
        let mut known = self.known.borrow_mut();
        let known = known.entry(Arc::as_ptr(limit).addr()).or_insert_with(|| KnownLimit {
            _limit: Arc::clone(limit),
            counters: LimitCounters::new(&self.metrics, limit),
        });
        known.counters.count(counted);
    }
}

impl LimitCounters {
    fn new(metrics: &Metrics, limit: &Limit) -> Self {
        let labels = limit.labels.each_ref().map(|label| &**label);
        let counter = |family| metrics.counter(family, &labels);
        Self {
            total: counter(Family::RatelimitTotalHits),
            over: counter(Family::RatelimitOverLimit),
            near: counter(Family::RatelimitNearLimit),
            within: counter(Family::RatelimitWithinLimit),
            shadow: counter(Family::RatelimitShadowMode),
        }
    }

    fn count(&self, counted: &Counted) {
        let &Counted { hits, before, after, limit, near, over, shadow } = counted;
        let add = |counter: &Counter, count: i64| counter.add(count.max(0).cast_unsigned());
        add(&self.total, hits);
        if over {
            if before >= limit {
                add(&self.over, hits);
            } else {
                add(&self.over, after - limit);
                add(&self.near, limit - near.max(before));
            }
            if shadow {
                add(&self.shadow, hits);
            }
            return;
        }
        add(&self.within, hits);
        if after > near {
            add(&self.near, if before >= near { hits } else { after - near });
        }
    }
}
