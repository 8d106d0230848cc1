//! The engine at work: configuration in, one published routing table out.
//!
//! [`Runtime`] is what requests see: an atomic pointer to the present [`Published`] table. [`Configurator`] is what changes it: it
//! follows a store, builds snapshot, handlers and routes in the background, publishes them in one step, and retires what was
//! replaced. A request that began on one table ends on it. Commands share this with the server.
//! Spec: runtime.md sections 3.4, 7, 9 and 17.

mod configurator;
mod decisions;
mod history;

pub use configurator::{Configurator, ConfiguratorOptions};
pub use history::MAX_ENTRIES as MAX_HISTORY;
pub use history::{History, HistoryEntry, ResourceChange, Tally};

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use crate::check_cache::{CheckAnswer, CheckCache, CheckCacheCounters, CheckCacheLimits};
use crate::denials::Denials;
use crate::handler::HandlerTable;
use crate::routing::RoutingTable;
use crate::snapshot::{Snapshot, SnapshotId};
use mixer_base::metrics::Metrics;
use mixer_config::Diagnostics;

/// What requests run on: routes, and the answers that they gave.
pub struct Published {
    /// The routes, with their snapshot and handlers.
    pub routes: RoutingTable,
    /// Answers of these routes and of earlier ones that decided alike; none unless a cache was asked for.
    pub cache: Option<Arc<CheckCache<CheckAnswer>>>,
    /// A number that stays as long as configurations decide alike, and grows otherwise: answers that were kept hold for it.
    pub decisions: u64,
    /// Everything wrong with the configuration: documents, snapshot, handlers and routes.
    pub diagnostics: Diagnostics,
    /// Where refusals are noted; those of all tables.
    pub denials: Arc<Denials>,
}

impl Published {
    /// The number of the snapshot.
    pub fn id(&self) -> SnapshotId {
        self.routes.snapshot().id
    }
}

/// The published table, held for one request.
pub type PublishedGuard = Guard<Arc<Published>>;

/// The present routing table.
pub struct Runtime {
    empty: Arc<Snapshot>,
    published: ArcSwap<Published>,
    cache_limits: Option<CheckCacheLimits>,
    cache_counters: Arc<CheckCacheCounters>,
    denials: Arc<Denials>,
    history: History,
}

impl Runtime {
    /// A runtime on `empty`, a snapshot without any configuration: every check passes, every report is accepted.
    pub fn new(empty: Arc<Snapshot>, cache_limits: Option<CheckCacheLimits>) -> Self {
        let routes = RoutingTable::build(Arc::clone(&empty), HandlerTable::default(), &Metrics::new());
        let cache_counters = Arc::new(CheckCacheCounters::default());
        let cache = cache_limits.map(|limits| Arc::new(CheckCache::new(limits, Arc::clone(&cache_counters))));
        Self { cache_limits, cache_counters, ..Self::over(empty, routes, cache) }
    }

    fn over(empty: Arc<Snapshot>, routes: RoutingTable, cache: Option<Arc<CheckCache<CheckAnswer>>>) -> Self {
        let denials = Arc::new(Denials::default());
        let diagnostics = Diagnostics::new();
        let published = Published { routes, cache, decisions: 0, diagnostics, denials: Arc::clone(&denials) };
        Self {
            empty,
            published: ArcSwap::from_pointee(published),
            cache_limits: None,
            cache_counters: Arc::default(),
            denials,
            history: History::default(),
        }
    }

    /// A runtime on these routes, which stay: for tools.
    pub fn on(routes: RoutingTable) -> Self {
        let empty = Arc::clone(routes.snapshot());
        Self::over(empty, routes, None)
    }

    /// The present table. Load it once a request and keep it until the request ends. Cost: no shared write.
    pub fn load(&self) -> PublishedGuard {
        self.published.load()
    }

    /// The present table, to keep for longer.
    pub fn load_full(&self) -> Arc<Published> {
        self.published.load_full()
    }

    /// Checks that were refused, whatever table they met.
    pub fn denials(&self) -> &Arc<Denials> {
        &self.denials
    }

    /// What was published so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Bounds of the check cache; none if there is no cache.
    pub fn cache_limits(&self) -> Option<CheckCacheLimits> {
        self.cache_limits
    }

    /// What happened in the check caches of all tables.
    pub fn cache_counters(&self) -> &Arc<CheckCacheCounters> {
        &self.cache_counters
    }

    /// Replaces the table. Answers that were kept stay if the new one decides alike; otherwise the cache is empty. Returns the table
    /// before, which requests may still hold.
    pub(crate) fn publish(&self, routes: RoutingTable, diagnostics: Diagnostics) -> Arc<Published> {
        let before = self.published.load();
        let alike = decisions::are_same(&before.routes, &routes);
        let decisions = if alike { before.decisions } else { before.decisions + 1 };
        let cache = self.cache_limits.map(|limits| match &before.cache {
            Some(cache) if alike => Arc::clone(cache),
            _ => Arc::new(CheckCache::new(limits, Arc::clone(&self.cache_counters))),
        });
        let denials = Arc::clone(&self.denials);
        self.published.swap(Arc::new(Published { routes, cache, decisions, diagnostics, denials }))
    }
}
