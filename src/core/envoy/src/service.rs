//! The calls of Envoy, from bytes to bytes. One [`BridgeService`] a worker.

mod check;
mod limit;
mod log;
mod verdict;
mod words;

use crate::config::config_of;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::SystemTime;

use parking_lot::Mutex;

pub use self::log::LogStream;
pub use self::verdict::HttpVerdict;

use self::check::KeptAnswer;
use super::access_log::ConnectionCounters;
use super::attributes::{AttributePlan, Slots};
use super::metrics::BridgeMetrics;
use super::rate_limit::{LimitMetrics, Windows};
use crate::config::settings::Cache;
use mixer_api::CallInfo;
use mixer_api::call::Operation;
use mixer_api::grpc::{Code, GrpcError};
use mixer_api::load_shedding::Demand;
use mixer_api::observe::Watch;
use mixer_api::worker::{Engine, WorkerContext};
use mixer_attribute::{Timestamp, Vocabulary};
use mixer_base::metrics::Family;
use mixer_engine::check_cache::{CheckCache, CheckCacheCounters, CheckCacheLimits};
use mixer_engine::decision::Method;
use mixer_engine::runtime::{Published, Runtime};
use mixer_engine::snapshot::SnapshotId;

/// The methods that Envoy calls.
const AUTHORIZATION_CHECK: Operation =
    Operation { method: Method::Check, path: "/envoy.service.auth.v3.Authorization/Check" };
const SHOULD_RATE_LIMIT: Operation =
    Operation { method: Method::Limit, path: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" };
/// One message of the stream.
const STREAM_ACCESS_LOGS: Operation = Operation {
    method: Method::Report,
    path: "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs",
};

/// Memory for kept answers, for each that may be kept.
const CACHE_BYTES_PER_ENTRY: u64 = 1024;

/// What all workers of a server share.
pub struct BridgeShared {
    engine: Engine,
    windows: Windows,
    kept: Mutex<Option<KeptAnswers>>,
    cache_counters: Arc<CheckCacheCounters>,
    streams: AtomicI64,
    connections: AtomicI64,
    next_stream: AtomicI64,
}

/// The decisions that are kept, and what they were made under.
struct KeptAnswers {
    decisions: u64,
    settings: Cache,
    cache: Arc<CheckCache<KeptAnswer>>,
}

impl BridgeShared {
    /// Over an engine, nothing counted yet.
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            windows: Windows::default(),
            kept: Mutex::default(),
            cache_counters: Arc::default(),
            streams: AtomicI64::new(0),
            connections: AtomicI64::new(0),
            next_stream: AtomicI64::new(0),
        }
    }

    /// What requests see.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.engine.runtime
    }

    /// Decisions that hold for this configuration; those of an earlier one that decides alike are among them.
    fn kept(&self, published: &Published) -> Option<Arc<CheckCache<KeptAnswer>>> {
        let settings = &config_of(published.routes.snapshot()).settings.check.cache;
        if settings.entries == 0 {
            return None;
        }
        let mut kept = self.kept.lock();
        if let Some(kept) = kept.as_ref()
            && kept.decisions == published.decisions
            && kept.settings == *settings
        {
            return Some(Arc::clone(&kept.cache));
        }
        let limits = CheckCacheLimits {
            entries: settings.entries as usize,
            bytes: u64::from(settings.entries).saturating_mul(CACHE_BYTES_PER_ENTRY),
        };
        let cache = Arc::new(CheckCache::new(limits, Arc::clone(&self.cache_counters)));
        // A call that began on an older configuration must not take the place of the present one.
        if kept.as_ref().is_none_or(|kept| kept.decisions <= published.decisions) {
            let decisions = published.decisions;
            *kept = Some(KeptAnswers { decisions, settings: settings.clone(), cache: Arc::clone(&cache) });
        }
        Some(cache)
    }
}

/// Answers the calls of Envoy. One a worker: it keeps memory for reuse without locks.
pub struct BridgeService {
    shared: Arc<BridgeShared>,
    worker: WorkerContext,
    metrics: BridgeMetrics,
    limit_metrics: LimitMetrics,
    /// What depends on the configuration in force.
    present: RefCell<Option<Arc<Present>>>,
    counters: RefCell<Option<ConnectionCounters>>,
    connections: Cell<i64>,
    random: Cell<u64>,
}

/// What a worker makes once a configuration.
struct Present {
    id: SnapshotId,
    slots: Slots,
    cache: Option<Arc<CheckCache<KeptAnswer>>>,
}

impl Present {
    /// How attributes are set: those that the configuration knows, or all of them if somebody wants to read them.
    fn plan<'v>(&self, vocabulary: &'v Vocabulary, watch: Option<&Watch<'_>>) -> AttributePlan<'v> {
        let everything = watch.is_some_and(Watch::wants_words);
        AttributePlan::new(vocabulary, self.slots.clone()).with_everything(everything)
    }
}

impl BridgeService {
    /// A service of one worker.
    pub fn new(shared: Arc<BridgeShared>) -> Self {
        use std::hash::{BuildHasher as _, Hasher as _};
        let seed = std::hash::RandomState::new().build_hasher().finish();
        let metrics = &shared.engine.metrics;
        Self {
            worker: WorkerContext::new(shared.engine.clone()),
            metrics: BridgeMetrics::new(Arc::clone(metrics)),
            limit_metrics: LimitMetrics::new(Arc::clone(metrics)),
            shared,
            present: RefCell::default(),
            counters: RefCell::default(),
            connections: Cell::new(0),
            random: Cell::new(seed | 1),
        }
    }

    /// Carries a call out, under observation if somebody wants that.
    async fn watched<T>(
        &self,
        operation: Operation,
        info: &CallInfo<'_>,
        call: impl AsyncFnOnce(Option<&Watch<'_>>) -> Result<T, GrpcError>,
    ) -> Result<T, GrpcError> {
        let Some(watch) = self.worker.watch(operation, info) else { return call(None).await };
        let answer = Box::pin(call(Some(&watch))).await;
        watch.end(answer.as_ref().map(drop));
        answer
    }

    /// Errors: RESOURCE_EXHAUSTED under overload; the failure mode of the proxy decides then.
    fn admit(&self, demand: Demand) -> Result<(), GrpcError> {
        self.worker.admit(demand).map_err(|told| GrpcError::new(Code::ResourceExhausted, told))
    }

    fn show(&self, family: Family, value: i64) {
        self.worker.engine.metrics.gauge(family, &[]).set(value.max(0) as f64);
    }

    /// What belongs to the configuration in force; made when it is another than before.
    fn present(&self, published: &Published) -> Arc<Present> {
        let id = published.id();
        if let Some(present) = self.present.borrow().as_ref().filter(|present| present.id == id) {
            return Arc::clone(present);
        }
        let slots = Slots::of(&published.routes.snapshot().vocabulary);
        let present = Arc::new(Present { id, slots, cache: self.shared.kept(published) });
        *self.present.borrow_mut() = Some(Arc::clone(&present));
        present
    }

    /// A random UUID of version 4.
    fn decision_id(&self) -> String {
        use std::fmt::Write as _;
        let next = || {
            // SplitMix64: the seed is random, and an id need only be unlike others.
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

fn enabled(enabled: bool, what: &str) -> Result<(), GrpcError> {
    if enabled {
        return Ok(());
    }
    Err(GrpcError::new(Code::Unimplemented, format!("{what} of Envoy are turned off by the envoybridge")))
}

fn now() -> Timestamp {
    Timestamp::from_system_time(SystemTime::now())
}
