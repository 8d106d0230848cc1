//! Quotas in memory: counters that hold amounts until they are released, and rolling windows.
//!
//! The overrides of a quota select the limit; the state is kept by instance and dimension values. It is lost with the handler
//! and bounded in bytes by the shares `quota-cells` and `deduplication` of the memory budget.

mod limit;
mod status;
mod windows;

use std::cell::RefCell;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::Mutex;

use mixer_attribute::SignedDuration;
use mixer_base::budget::{MemoryBudget, Purpose, Share};
use mixer_base::metrics::{Counter, Family};
use mixer_config::message::Entries;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BoundInstance, BuildError, Clock, Env, HandleQuota, Handler, HandlerError,
    HandlerStatus, Instance, NOT_BUILT, QuotaCall, QuotaLevel, QuotaResult, Reply,
};

use crate::AdapterOptions;
use crate::overrides::{self, Configured};
use crate::quotas::cells::Cells;
use crate::quotas::dedup::{Dedup, Record};
use crate::quotas::{LIMIT_NAMES, Limit, SHARDS, Shard, key, nanos, shard_of};
use limit::Limits;

mixer_config::message! {
    /// A limit for certain dimension values.
    pub struct Override: "adapter.memquota.config.Params.Override" {
        /// Dimension values, as text, to which it applies; all must match. Istio Mixer reads null as an empty text.
        1 dimensions: Entries<Option<String>> = Entries::default();
        /// Amount that may be in use.
        2 max_amount: i64 = 0;
        /// Length of the rolling window; 0 holds amounts until they are released.
        3 valid_duration: SignedDuration = SignedDuration::ZERO;
    } elsewhere LIMIT_NAMES
}

mixer_config::message! {
    /// The limit of one quota instance.
    pub struct Quota: "adapter.memquota.config.Params.Quota" {
        /// The full name of the instance, for example `q.instance.istio-system`.
        1 name: String = String::new();
        /// Amount that may be in use.
        2 max_amount: i64 = 0;
        /// Length of the rolling window; 0 holds amounts until they are released.
        3 valid_duration: SignedDuration = SignedDuration::ZERO;
        /// Limits for certain dimension values; the first match applies.
        4 overrides: Vec<Override> = Vec::new();
    } elsewhere LIMIT_NAMES
}

mixer_config::message! {
    /// Parameters of memquota.
    pub struct Params: "adapter.memquota.config.Params" {
        /// One entry per quota instance.
        1 quotas: Vec<Quota> = Vec::new();
        /// Shortest time for which the answer to a deduplication id is remembered.
        2 min_deduplication_duration: SignedDuration = SignedDuration::from_secs(1);
    }
}

/// The adapter, which is also its handler.
pub(crate) struct Memquota {
    handler_name: Arc<str>,
    clock: Arc<dyn Clock>,
    /// By index of the bound instance.
    limits: Vec<Limits>,
    /// Names of the bound instances.
    names: Vec<Arc<str>>,
    /// Random per handler, so that clients cannot choose colliding keys.
    hasher: foldhash::quality::RandomState,
    // INVARIANT: a thread that holds a lock of `dedup` may take one of `cells`, never the other way round.
    dedup: [Shard<Dedup>; SHARDS],
    cells: [Shard<Cells>; SHARDS],
    /// Bounds the cells of all handlers.
    share: Arc<Share>,
    cells_lost: Counter,
}

impl Adapter for Memquota {
    const INFO: AdapterInfo = AdapterInfo {
        name: "memquota",
        about: "Volatile memory-based quota tracking",
        templates: &["quota"],
    };
    type Params = Params;

    fn validate(params: &Params, instances: &[BoundInstance], problems: &mut Diagnostics) {
        if params.min_deduplication_duration <= SignedDuration::ZERO {
            let text = format!(
                "minDeduplicationDuration: deduplication window of {} is invalid, must be > 0",
                params.min_deduplication_duration
            );
            let path = FieldPath::root().field("minDeduplicationDuration");
            problems.push(Diagnostic::error("adapter-config", path, text));
        }
        let limits = limits(params);
        for instance in instances.iter().filter(|i| !limits.contains_key(&*i.name)) {
            let text = format!(
                "the handler will not be built: did not find limit defined for quota {}",
                instance.name
            );
            let hint = format!("add an entry with `name: {}`", instance.name);
            let path = FieldPath::root().field("quotas");
            problems.push(Diagnostic::error(NOT_BUILT, path, text).with_hint(hint));
        }
        overrides::check(&configured(params), instances, problems);
        windows::check(params, problems);
    }

    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        let by_name = limits(&params);
        let limits = instances
            .iter()
            .map(|instance| {
                by_name.get(&*instance.name).map(|q| Limits::new(q, instance)).ok_or_else(|| {
                    BuildError::Refused(format!("did not find limit defined for quota {}", instance.name))
                })
            })
            .collect::<Result<_, _>>()?;
        if !env.commons.get::<AdapterOptions>().as_istio_mixer {
            if let Some(flaw) = overrides::flaws(&configured(&params), &instances).next() {
                return Err(BuildError::Refused(flaw.text));
            }
            if let Some((_, text)) = windows::negative(&params).next() {
                return Err(BuildError::Refused(text));
            }
        }
        let start = nanos(&*env.clock);
        let period = params.min_deduplication_duration.nanos.max(1).cast_unsigned();
        let memory = env.commons.get::<MemoryBudget>();
        let account = |purpose| Arc::new(memory.share(purpose).open());
        let (of_cells, of_ids) = (account(Purpose::QuotaCells), account(Purpose::Deduplication));
        Ok(Box::new(Memquota {
            handler_name: env.handler_name.clone(),
            clock: env.clock,
            limits,
            names: instances.iter().map(|i| i.name.clone()).collect(),
            hasher: foldhash::quality::RandomState::default(),
            dedup: std::array::from_fn(|_| Shard(Mutex::new(Dedup::new(start, period, of_ids.clone())))),
            cells: std::array::from_fn(|_| Shard(Mutex::new(Cells::new(of_cells.clone())))),
            share: Arc::clone(memory.share(Purpose::QuotaCells)),
            cells_lost: env.metrics.counter(Family::MemquotaCellsForgotten, &[&env.handler_name]),
        }))
    }
}

fn configured(params: &Params) -> Vec<Configured<'_>> {
    let quotas = params.quotas.iter();
    quotas
        .map(|quota| Configured {
            name: &quota.name,
            overrides: quota.overrides.iter().map(|over| &over.dimensions).collect(),
        })
        .collect()
}

/// The limits by the name of their instance. Of two entries with the same name, the last applies.
fn limits(params: &Params) -> HashMap<&str, &Quota> {
    params.quotas.iter().map(|quota| (&*quota.name, quota)).collect()
}

impl Handler for Memquota {
    fn as_quota(&self) -> Option<&dyn HandleQuota> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        self.describe()
    }
}

impl HandleQuota for Memquota {
    fn quota(&self, instance: &Instance<'_>, call: QuotaCall<'_>) -> Reply<QuotaResult> {
        thread_local! {
            static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        if call.amount == 0 {
            return Reply::Ready(Ok(QuotaResult::default()));
        }
        let Some(limits) = self.limits.get(instance.bound) else {
            let text = format!("did not find limit defined for quota {}", instance.name);
            return Reply::Ready(Err(HandlerError::new(text)));
        };
        let limit = limits.select(instance);
        let result = KEY.with(|scratch| {
            let mut key = scratch.borrow_mut();
            key::encode(instance, &mut key);
            self.deduplicated(&key, limit, call)
        });
        Reply::Ready(Ok(result))
    }

    fn level(&self, instance: &Instance<'_>) -> Option<QuotaLevel> {
        let limit = self.limits.get(instance.bound)?.select(instance);
        let mut key = Vec::new();
        key::encode(instance, &mut key);
        let hash = self.hasher.hash_one(&*key);
        let now = nanos(&*self.clock);
        let (in_use, reset) = self.cells.get(shard_of(hash))?.0.lock().level(hash, &key, now);
        Some(QuotaLevel {
            limit: limit.max_amount,
            window: limit.valid_duration,
            remaining: limit.max_amount.saturating_sub(in_use).max(0),
            reset: SignedDuration::from_nanos(i64::try_from(reset).unwrap_or(i64::MAX)),
        })
    }
}

impl Memquota {
    /// Answers from the record of an earlier call with the same id, or else executes and records.
    fn deduplicated(&self, key: &[u8], limit: Limit, call: QuotaCall<'_>) -> QuotaResult {
        let id_hash = self.hasher.hash_one(call.deduplication_id.as_bytes());
        let Some(shard) = self.dedup.get(shard_of(id_hash)) else { return QuotaResult::default() };
        let mut dedup = shard.0.lock();
        let now = nanos(&*self.clock);
        dedup.advance(now);
        if let Some(record) = dedup.find(id_hash, call.deduplication_id.as_bytes()) {
            drop(dedup);
            return self.repeat(record, now, call);
        }
        let result = self.execute(key, limit, call, now);
        let expires = (result.valid_duration.nanos > 0)
            .then(|| now.saturating_add(result.valid_duration.nanos.cast_unsigned()));
        let record = Record { granted: result.granted, expires };
        dedup.insert(id_hash, call.deduplication_id.as_bytes(), record);
        result
    }

    /// The recorded answer, whatever amount this call requests.
    fn repeat(&self, record: Record, now: u64, call: QuotaCall<'_>) -> QuotaResult {
        tracing::info!(
            target: "adapters",
            adapter = &*self.handler_name,
            "Quota operation satisfied through deduplication: dedupID {}, amount {}",
            call.deduplication_id,
            record.granted
        );
        let left = if call.amount > 0 { record.expires.unwrap_or(0).saturating_sub(now) } else { 0 };
        let valid_duration = SignedDuration::from_nanos(i64::try_from(left).unwrap_or(i64::MAX));
        QuotaResult { granted: record.granted, valid_duration }
    }

    #[cold]
    fn report_lost(&self, evicted: u64) {
        self.cells_lost.add(evicted);
        mixer_base::warn_limited!(
            1,
            adapter = &*self.handler_name,
            evicted,
            "quota cells exceeded the memory limit of the handler; the least recently used ones were evicted"
        );
    }

    fn execute(&self, key: &[u8], limit: Limit, call: QuotaCall<'_>, now: u64) -> QuotaResult {
        let hash = self.hasher.hash_one(key);
        let Some(shard) = self.cells.get(shard_of(hash)) else { return QuotaResult::default() };
        let mut cells = shard.0.lock();
        if call.amount > 0 {
            let (granted, valid) = cells.allocate(hash, key, limit, call.amount, call.best_effort, now);
            let lost = cells.take_lost();
            if lost > 0 {
                self.report_lost(lost);
            }
            // compat(1.3): a handler like that of Istio Mixer is built with a negative window, which clients cannot use.
            let window = limit.valid_duration.max(SignedDuration::ZERO);
            let valid_duration = if valid { window } else { SignedDuration::ZERO };
            QuotaResult { granted, valid_duration }
        } else {
            let granted = cells.release(hash, key, call.amount.saturating_neg(), now);
            QuotaResult { granted, valid_duration: SignedDuration::ZERO }
        }
    }
}

#[cfg(test)]
mod tests;
