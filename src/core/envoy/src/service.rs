//! The calls of Envoy, from the bytes of a request to the bytes of its response.

mod check;
mod decision;
mod http_response;
mod limit;
mod log;
mod nodes;
mod recording;
mod response;

use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use parking_lot::Mutex;

pub(crate) use self::http_response::HttpCheckResponse;

use self::decision::CachedVerdict;
use self::nodes::Nodes;
use super::attributes::{self, AttributePlan, Slots};
use super::metrics::{EnvoyMetrics, LogNames};
use super::rate_limit::{Known, LimitMetrics, Tables, Unlimited, WindowCounters};
use crate::config::config_of;
use crate::config::settings::Cache;
use crate::uncharged::Uncharged;
use mixer_api::call::Operation;
use mixer_api::grpc::{Code, GrpcError};
use mixer_api::load_shedding::{self, Demand};
use mixer_api::observers::{self, Observation};
use mixer_api::worker::{Engine, WorkerContext};
use mixer_api::{CallInfo, IfLeft};
use mixer_attribute::{Timestamp, Vocabulary};
use mixer_base::budget::{Account, MemoryBudget, Purpose};
use mixer_base::metrics::{Collect, Collected, Family, Metrics};
use mixer_engine::adapter::SystemClock;
use mixer_engine::check_cache::{CheckCache, CheckCacheCounters, CheckCacheLimits};
use mixer_engine::decision::Method;
use mixer_engine::dispatch::RouteDirective;
use mixer_engine::runtime::{Published, Runtime};
use mixer_engine::snapshot::SnapshotId;
use mixer_net::registry::ConnectionRegistry;

const AUTHORIZATION_CHECK: Operation =
    Operation { method: Method::Check, path: "/envoy.service.auth.v3.Authorization/Check" };
const SHOULD_RATE_LIMIT: Operation =
    Operation { method: Method::Limit, path: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" };
/// Each message of the stream is an operation.
const STREAM_ACCESS_LOGS: Operation = Operation {
    method: Method::Report,
    path: "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs",
};

/// Bytes of the cache for each entry that the settings allow.
const CACHE_BYTES_PER_ENTRY: u64 = 1024;

/// The state that all workers of a server share.
pub struct EnvoyShared {
    engine: Engine,
    windows: WindowCounters,
    max_cache_bytes: u64,
    cache: Mutex<Option<DecisionCache>>,
    cache_counters: Arc<CheckCacheCounters>,
    streams: AtomicI64,
    connections: AtomicI64,
    /// The memory for byte counts of connections.
    connection_account: Arc<Account>,
    /// Log names in labels of metrics.
    log_names: LogNames,
    /// The nodes of the open streams of access logs, by address.
    nodes: Arc<Nodes>,
    /// The connections of the HTTP endpoint.
    http_connections: Arc<ConnectionRegistry>,
    /// Calls that nothing limits.
    unlimited: Tables,
    /// Quotas that checks are not charged to.
    uncharged: Uncharged,
}

/// The state of the cache of decisions.
#[derive(Debug, Clone, Copy)]
pub struct DecisionCacheStatus<'s> {
    /// Answers in the cache.
    pub entries: usize,
    /// Its bounds.
    pub limits: CheckCacheLimits,
    /// The counters of this cache and of those before it.
    pub counters: &'s CheckCacheCounters,
}

/// The cache of decisions, with the configuration that it is valid for.
struct DecisionCache {
    /// [`Published::decisions`].
    decisions: u64,
    settings: Cache,
    /// Whether its decisions have the names of their rules.
    names_rules: bool,
    cache: Arc<CheckCache<CachedVerdict>>,
}

impl Collect for EnvoyShared {
    fn collect(&self, into: &mut Collected) {
        into.add(Family::MemoryInUse, &[Purpose::CheckCache.name()], self.cache_counters.bytes() as f64);
    }
}

impl EnvoyShared {
    /// The state over an engine, with all counters at zero. `memory` bounds windows and cached decisions.
    pub fn new(engine: Engine, memory: &MemoryBudget) -> Self {
        Self {
            windows: WindowCounters::new(
                memory.share(Purpose::RateLimits),
                Arc::new(SystemClock),
                engine.metrics.counter(Family::BridgeRateLimitEvicted, &[]),
            ),
            // The check cache has the other half of the share.
            max_cache_bytes: memory.share(Purpose::CheckCache).limit() as u64 / 2,
            engine,
            cache: Mutex::default(),
            cache_counters: Arc::default(),
            streams: AtomicI64::new(0),
            connections: AtomicI64::new(0),
            connection_account: Arc::new(memory.share(Purpose::AccessLogs).open()),
            log_names: Mutex::default(),
            nodes: Arc::default(),
            http_connections: Arc::default(),
            unlimited: Tables::default(),
            uncharged: Uncharged::default(),
        }
    }

    /// The cache of decisions; `None` if the settings disable it. Before the first check of a configuration it is empty.
    pub fn cache_status(&self) -> Option<DecisionCacheStatus<'_>> {
        let published = self.engine.runtime.load();
        let settings = &config_of(published.routes.snapshot()).settings.check;
        if !settings.enabled || settings.cache.entries == 0 {
            return None;
        }
        let limits = self.cache_limits(&settings.cache);
        let current = self.cache.lock().as_ref().map(|current| Arc::clone(&current.cache));
        let entries = current.map_or(0, |cache| cache.len());
        Some(DecisionCacheStatus { entries, limits, counters: &self.cache_counters })
    }

    /// The nodes that log, with the addresses of their connections: `host:port` or `unix`.
    pub fn nodes(&self) -> Vec<(String, Arc<str>)> {
        self.nodes.list()
    }

    /// The connections of the HTTP endpoint.
    pub fn http_connections(&self) -> &Arc<ConnectionRegistry> {
        &self.http_connections
    }

    /// The calls for rate limits that nothing in the published configuration is for.
    pub fn unlimited(&self) -> Unlimited {
        self.unlimited.list(self.engine.runtime.load().id())
    }

    /// The quotas of the published configuration that no check of Envoy is charged to, if Envoy has asked since.
    pub fn uncharged(&self) -> Vec<String> {
        self.uncharged.list(self.engine.runtime.load().id())
    }

    /// The metrics of the server.
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.engine.metrics
    }

    fn cache_limits(&self, settings: &Cache) -> CheckCacheLimits {
        CheckCacheLimits {
            entries: settings.entries as usize,
            bytes: u64::from(settings.entries)
                .saturating_mul(CACHE_BYTES_PER_ENTRY)
                .min(self.max_cache_bytes),
        }
    }

    /// The runtime with the published configuration.
    pub(crate) fn runtime(&self) -> &Arc<Runtime> {
        &self.engine.runtime
    }

    /// The cache for this configuration; `None` if the settings disable it. Kept across configurations that give the same check
    /// results.
    fn cache_for(&self, published: &Published) -> Option<Arc<CheckCache<CachedVerdict>>> {
        let check = &config_of(published.routes.snapshot()).settings.check;
        let (settings, names_rules) = (&check.cache, check.response_metadata);
        if settings.entries == 0 {
            return None;
        }
        let mut current = self.cache.lock();
        if let Some(current) = current.as_ref()
            && current.decisions == published.decisions
            && current.settings == *settings
            && current.names_rules == names_rules
        {
            return Some(Arc::clone(&current.cache));
        }
        let limits = self.cache_limits(settings);
        let epoch = Arc::clone(self.engine.runtime.answer_epoch());
        let cache = Arc::new(CheckCache::new(limits, Arc::clone(&self.cache_counters), epoch));
        // A call that began on an older configuration must not replace the current cache.
        if current.as_ref().is_none_or(|current| current.decisions <= published.decisions) {
            let decisions = published.decisions;
            let (settings, cache) = (settings.clone(), Arc::clone(&cache));
            *current = Some(DecisionCache { decisions, settings, names_rules, cache });
        }
        Some(cache)
    }
}

/// Answers the calls of Envoy. Each worker has its own, so that it reuses memory without locks.
pub(crate) struct EnvoyService {
    shared: Arc<EnvoyShared>,
    worker: WorkerContext,
    metrics: EnvoyMetrics,
    limit_metrics: LimitMetrics,
    /// Calls that nothing limits under the configuration of the last one.
    unlimited: RefCell<Option<Known>>,
    /// Derived from the snapshot of the last call.
    snapshot_state: RefCell<Option<Arc<SnapshotState>>>,
    /// State of the generator of decision ids.
    random: Cell<u64>,
}

/// What a worker derives from a snapshot.
struct SnapshotState {
    id: SnapshotId,
    slots: Slots,
    cache: Option<Arc<CheckCache<CachedVerdict>>>,
    /// What a request loses that passes although no decision allows it.
    stripped: OnceLock<Arc<RouteDirective>>,
}

impl SnapshotState {
    /// Removes the headers of a request that rules would replace or remove, under whatever condition: nobody has decided which of them
    /// the caller may send.
    fn stripped(&self, published: &Published) -> Arc<RouteDirective> {
        let of = || {
            let unset_request_headers = published.routes.guarded_request_headers();
            Arc::new(RouteDirective { unset_request_headers, ..RouteDirective::default() })
        };
        Arc::clone(self.stripped.get_or_init(of))
    }

    /// Sets the attributes that the vocabulary declares, or all of them if payload is recorded.
    fn plan<'v>(
        &self,
        vocabulary: &'v Vocabulary,
        observation: Option<&Observation<'_>>,
    ) -> AttributePlan<'v> {
        let everything = observation.is_some_and(Observation::records_payload);
        AttributePlan::new(vocabulary, self.slots.clone(), everything)
    }
}

impl EnvoyService {
    /// A service of one worker.
    pub(crate) fn new(shared: Arc<EnvoyShared>) -> Self {
        use std::hash::{BuildHasher as _, Hasher as _};
        let seed = std::hash::RandomState::new().build_hasher().finish();
        let metrics = &shared.engine.metrics;
        Self {
            worker: WorkerContext::new(shared.engine.clone()),
            metrics: EnvoyMetrics::new(Arc::clone(metrics)),
            limit_metrics: LimitMetrics::new(Arc::clone(metrics)),
            shared,
            unlimited: RefCell::default(),
            snapshot_state: RefCell::default(),
            random: Cell::new(seed | 1),
        }
    }

    /// Runs a call, with its observation if an observer selects it.
    async fn observed<T>(
        &self,
        operation: Operation,
        info: &CallInfo<'_>,
        call: impl AsyncFnOnce(Option<&Observation<'_>>) -> Result<T, GrpcError>,
    ) -> Result<T, GrpcError> {
        let observers = self.worker.engine.observers.as_deref();
        let Some(observation) = observers::observe(observers, operation, info) else {
            return call(None).await;
        };
        let left = IfLeft::new(|error| {
            observation.note_left(&error);
            observation.finish(Err(&error));
        });
        let result = Box::pin(call(Some(&observation))).await;
        left.end();
        observation.finish(result.as_ref().map(drop));
        result
    }

    /// Errors: RESOURCE_EXHAUSTED under overload; the failure mode of the proxy decides then.
    fn admit(&self, demand: Demand) -> Result<(), GrpcError> {
        load_shedding::admit(self.worker.engine.shedder.as_deref(), demand)
            .map_err(|message| GrpcError::refused(Code::ResourceExhausted, message))
    }

    fn set_gauge(&self, family: Family, value: i64) {
        self.worker.engine.metrics.gauge(family, &[]).set(value.max(0) as f64);
    }

    /// The state of the published snapshot; rebuilt when it is not that of the last call.
    fn snapshot_state(&self, published: &Published) -> Arc<SnapshotState> {
        let id = published.id();
        if let Some(state) = self.snapshot_state.borrow().as_ref().filter(|state| state.id == id) {
            return Arc::clone(state);
        }
        let snapshot = published.routes.snapshot();
        self.limit_metrics.release();
        self.metrics.release_domains();
        if let Some(conflicts) = attributes::dropped(&snapshot.vocabulary) {
            mixer_base::warn_limited!(1, "requests of Envoy lack attributes: {conflicts}");
        }
        let state = Arc::new(SnapshotState {
            id,
            slots: Slots::of(&snapshot.vocabulary),
            cache: self.shared.cache_for(published),
            stripped: OnceLock::new(),
        });
        *self.snapshot_state.borrow_mut() = Some(Arc::clone(&state));
        state
    }

    /// A random UUID of version 4.
    fn decision_id(&self) -> String {
        use std::fmt::Write as _;
        let next = || {
            // SplitMix64: the seed is random, and ids need only be unique.
            let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.random.set(state);
            let mut mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        };
        let (high, low) = (next(), next());
        let (high, low) = (high & !0xf000 | 0x4000, low & !(3 << 62) | 1 << 63);
        let mut id = String::with_capacity(36);
        // Writing to a String cannot fail.
        let _ = write!(
            id,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        );
        id
    }
}

/// Errors: UNIMPLEMENTED for a disabled service.
fn require_enabled(enabled: bool, what: &str) -> Result<(), GrpcError> {
    if enabled {
        return Ok(());
    }
    Err(GrpcError::invalid(Code::Unimplemented, format!("{what} are disabled by the envoybridge resource")))
}

fn now() -> Timestamp {
    Timestamp::from_system_time(SystemTime::now())
}
