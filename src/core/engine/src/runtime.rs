//! Publication of configuration to requests.
//!
//! [`Runtime`] holds an atomic pointer to the current [`Published`] table. [`Configurator`] watches a store, builds snapshot, handlers
//! and routes in the background, publishes them atomically, and retires replaced handlers. A request uses one table from start to
//! end. The server and the commands share this module.

mod absences;
mod config_cache;
mod configurator;
mod corrections;
mod decisions;
mod differences;
mod effects;
mod examination;
mod extension_changes;
mod faults;
mod forecast;
mod found;
mod history;
mod kept;
mod last_good;
mod loosened;
mod made_attributes;
mod problem_log;
mod read_attributes;
mod refilling;
mod removals;
mod requests;
mod resolution;
mod rule_changes;
mod together;
mod told;
mod type_changes;
mod unenforced;
mod withheld;

pub use config_cache::{
    CacheDirectory, CacheError, CacheIdentity, CacheMedium, CacheOfUser, CachedConfiguration, ConfigCache,
    MAX_CACHE_BYTES, ProcessUser, Served, effective_user, read_cache,
};
pub use configurator::{ConfigPolicy, Configurator, ConfiguratorOptions, close_handlers};
pub use differences::ResourceChange;
pub use faults::is_consequence;
pub use forecast::{Forecast, forecast};
pub use history::MAX_ENTRIES as MAX_HISTORY;
pub use history::{History, HistoryEntry, Tally};
pub use kept::KeptResource;
pub use last_good::OnConfigError;
pub use told::place_of;
pub use unenforced::UnenforcedSince;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::check_cache::{AnswerEpoch, CheckAnswer, CheckCache, CheckCacheCounters, CheckCacheLimits};
use crate::denials::Denials;
use crate::handler::HandlerTable;
use crate::routing::RoutingTable;
use crate::snapshot::{Rules, Snapshot, SnapshotId};
use mixer_attribute::Timestamp;
use mixer_base::metrics::Metrics;
use mixer_config::{Diagnostic, Diagnostics, Severity};

/// A published routing table with its check cache.
pub struct Published {
    /// The routes, with their snapshot and handlers.
    pub routes: RoutingTable,
    /// Cached answers of this table and of earlier equivalent ones; `None` if the cache is disabled.
    pub cache: Option<Arc<CheckCache<CheckAnswer>>>,
    /// Generation of check results: incremented when a new table may answer checks differently. Cached answers are valid for one.
    pub decisions: u64,
    /// Why no call may be answered: there is no configuration that serves. `None` while there is one.
    pub withheld: Option<Arc<str>>,
    /// The same as callers are told: without the texts of errors in resources and files.
    pub told: Option<Arc<str>>,
    /// Problems of the configuration: documents, snapshot, handlers and routes; and what serves instead.
    pub diagnostics: Diagnostics,
    /// Resources that serve in their previous version, because the store has none that is valid; by key.
    pub kept: Vec<KeptResource>,
    /// When the configuration was written that serves from the cache, while the store could not be read since the start.
    pub cached: Option<Timestamp>,
    /// Why the cache of the last good configuration is not what it should be.
    pub cache_trouble: Option<Arc<str>>,
    /// Recent denials, shared by all tables.
    pub denials: Arc<Denials>,
    /// Since when something is not enforced.
    unenforced: unenforced::Since,
    /// What the examination after the publication found.
    suggestions: OnceLock<Arc<Diagnostics>>,
    /// The same of the table before.
    earlier: Arc<Diagnostics>,
}

impl Published {
    /// Whether it serves no resource at all, so that every call is allowed.
    pub fn is_void(&self) -> bool {
        let snapshot = self.routes.snapshot();
        self.withheld.is_none() && snapshot.rules.is_empty() && snapshot.handlers.is_empty()
    }

    /// What is probably not meant in the configuration as it is written, as `validate` finds it, beyond [`diagnostics`](Self::diagnostics). It decides
    /// nothing of what serves. Until a new configuration is examined, what was found in the one before.
    pub fn suggestions(&self) -> &[Diagnostic] {
        self.suggestions.get().unwrap_or(&self.earlier)
    }

    /// Whether the examination has ended.
    pub fn is_examined(&self) -> bool {
        self.suggestions.get().is_some()
    }

    /// Everything that is wrong with the configuration.
    pub fn all_diagnostics(&self) -> impl Iterator<Item = &Diagnostic> + Clone {
        self.diagnostics.iter().chain(self.suggestions())
    }

    /// The number of problems of the configuration and its cache; the first as `validate` counts them. That nothing serves is one if no error tells why.
    pub fn problems(&self, severity: Severity) -> usize {
        let serving = [kept::KEPT, withheld::WITHHELD];
        let counted =
            |problem: &&Diagnostic| problem.severity == severity && !serving.contains(&problem.code);
        match self.all_diagnostics().filter(counted).map(Diagnostic::count).sum::<usize>() {
            0 if severity == Severity::Error => usize::from(self.withheld.is_some()),
            count => count,
        }
    }

    /// Id of the snapshot.
    pub fn id(&self) -> SnapshotId {
        self.routes.snapshot().id
    }
}

/// Whether a code is about what serves instead of the current configuration.
pub fn is_about_serving(code: &str) -> bool {
    [kept::KEPT, withheld::WITHHELD, config_cache::PROBLEM].contains(&code)
}

/// The published table, held for one request.
pub type PublishedGuard = Guard<Arc<Published>>;

/// The current routing table.
pub struct Runtime {
    empty: Arc<Snapshot>,
    published: ArcSwap<Published>,
    cache_limits: Option<CheckCacheLimits>,
    cache_counters: Arc<CheckCacheCounters>,
    answer_epoch: Arc<AnswerEpoch>,
    denials: Arc<Denials>,
    history: History,
    /// What serves when the configuration has errors; set by the configurator.
    on_error: OnceLock<OnConfigError>,
    /// The number of publications.
    publications: watch::Sender<u64>,
    /// Handlers that were replaced and are being closed.
    retiring: TaskTracker,
    /// How long handlers have for closing once the server stops.
    stopping: watch::Sender<Option<Duration>>,
}

/// What is published besides the routes.
pub(crate) struct Publication {
    pub(crate) routes: RoutingTable,
    pub(crate) withheld: Option<Arc<str>>,
    pub(crate) diagnostics: Diagnostics,
    pub(crate) kept: Vec<KeptResource>,
    pub(crate) cached: Option<Timestamp>,
    pub(crate) cache_trouble: Option<Arc<str>>,
}

impl Publication {
    /// Routes that serve, without problems.
    pub(crate) fn of(routes: RoutingTable) -> Self {
        let (diagnostics, kept) = (Diagnostics::new(), Vec::new());
        Self { routes, withheld: None, diagnostics, kept, cached: None, cache_trouble: None }
    }
}

impl Runtime {
    /// A runtime that starts with `empty`, a snapshot without configuration. Nothing serves until the first publication.
    pub fn new(empty: Arc<Snapshot>, cache_limits: Option<CheckCacheLimits>) -> Self {
        let routes = RoutingTable::build(Arc::clone(&empty), HandlerTable::default(), &Metrics::new());
        let cache_counters = Arc::new(CheckCacheCounters::default());
        let answer_epoch = Arc::new(AnswerEpoch::default());
        let cache = |limits| CheckCache::new(limits, Arc::clone(&cache_counters), Arc::clone(&answer_epoch));
        let cache = cache_limits.map(|limits| Arc::new(cache(limits)));
        let withheld = Some("no configuration has been read yet".into());
        Self { cache_limits, cache_counters, answer_epoch, ..Self::over(empty, routes, cache, withheld) }
    }

    fn over(
        empty: Arc<Snapshot>,
        routes: RoutingTable,
        cache: Option<Arc<CheckCache<CheckAnswer>>>,
        withheld: Option<Arc<str>>,
    ) -> Self {
        let denials = Arc::new(Denials::default());
        let unenforced = unenforced::Since::default().next(&Rules::default(), routes.snapshot());
        let published = Published {
            routes,
            cache,
            decisions: 0,
            told: withheld.clone(),
            withheld,
            diagnostics: Diagnostics::new(),
            kept: Vec::new(),
            cached: None,
            cache_trouble: None,
            denials: Arc::clone(&denials),
            unenforced,
            suggestions: OnceLock::new(),
            earlier: Arc::default(),
        };
        Self {
            empty,
            published: ArcSwap::from_pointee(published),
            cache_limits: None,
            cache_counters: Arc::default(),
            answer_epoch: Arc::default(),
            denials,
            history: History::default(),
            on_error: OnceLock::new(),
            publications: watch::Sender::new(0),
            retiring: TaskTracker::new(),
            stopping: watch::Sender::new(None),
        }
    }

    /// A runtime with a fixed table, without a configurator or cache.
    pub fn on(routes: RoutingTable) -> Self {
        let empty = Arc::clone(routes.snapshot());
        Self::over(empty, routes, None, None)
    }

    /// The current table. Load it once per request and hold it until the request ends. Cost: no shared write.
    pub fn load(&self) -> PublishedGuard {
        self.published.load()
    }

    /// The current table, for holders that outlive a request.
    pub fn load_full(&self) -> Arc<Published> {
        self.published.load_full()
    }

    /// Notifies of every publication.
    pub fn publications(&self) -> watch::Receiver<u64> {
        self.publications.subscribe()
    }

    /// Recent denials of all tables.
    pub fn denials(&self) -> &Arc<Denials> {
        &self.denials
    }

    /// The most recently published snapshots.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// What serves when the configuration has errors.
    pub fn on_config_error(&self) -> OnConfigError {
        self.on_error.get().copied().unwrap_or_default()
    }

    /// Limits of the check cache; `None` if it is disabled.
    pub fn cache_limits(&self) -> Option<CheckCacheLimits> {
        self.cache_limits
    }

    /// What handlers advance when their answers change; ends the answers in the caches of all tables.
    pub fn answer_epoch(&self) -> &Arc<AnswerEpoch> {
        &self.answer_epoch
    }

    /// Counters of the check caches of all tables.
    pub fn cache_counters(&self) -> &Arc<CheckCacheCounters> {
        &self.cache_counters
    }

    /// Replaces the table. The check cache is kept if the new table gives the same check results, otherwise cleared. Returns the
    /// previous table, which requests may still hold.
    pub(crate) fn publish(&self, publication: Publication) -> Arc<Published> {
        let Publication { routes, withheld, diagnostics, kept, cached, cache_trouble } = publication;
        let before = self.published.load();
        let equivalent = decisions::are_equivalent(&before.routes, &routes);
        let decisions = if equivalent { before.decisions } else { before.decisions + 1 };
        let cache = self.cache_limits.map(|limits| match &before.cache {
            Some(cache) if equivalent => Arc::clone(cache),
            _ => {
                let (counters, epoch) = (Arc::clone(&self.cache_counters), Arc::clone(&self.answer_epoch));
                Arc::new(CheckCache::new(limits, counters, epoch))
            }
        });
        let denials = Arc::clone(&self.denials);
        let unenforced = before.unenforced.next(&before.routes.snapshot().rules, routes.snapshot());
        // Where nothing serves, as at the stop, nothing is enforced again either.
        if withheld.is_none() {
            unenforced.log_since(&before.unenforced, routes.snapshot());
        }
        let published = Published {
            routes,
            cache,
            decisions,
            told: withheld.as_ref().map(|why| told::told(why, &diagnostics)),
            withheld,
            diagnostics,
            kept,
            cached,
            cache_trouble,
            denials,
            unenforced,
            suggestions: OnceLock::new(),
            earlier: Arc::clone(before.suggestions.get().unwrap_or(&before.earlier)),
        };
        let before = self.published.swap(Arc::new(published));
        self.publications.send_modify(|count| *count += 1);
        before
    }
}
