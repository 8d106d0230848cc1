//! The handler: what a call asks Redis or a lease for, and what the answer means.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::super::{Algorithm, Quota, lease_of};
use super::answers::{Failure, Redis};
use super::exchanges::Exchanges;
use super::keys::{KeyStyle, WindowNames, override_digest};
use super::lease::MAX_LIMIT;
use super::leases::{Called, Leases, Woken};
use super::repeated::Repeated;
use super::scripts::{Allocated, Allocation, LeasedWindow, Window, allocated_of};
use super::seen::SeenWindows;
use super::without_redis::{Unanswered, WithoutRedis};
use crate::dimensions::Dimensions;
use crate::quotas::key;
use mixer_attribute::SignedDuration;
use mixer_base::metrics::{Collect, Collected, Counter, Family, Metrics};
use mixer_engine::adapter::{
    BoundInstance, HandleQuota, Handler, HandlerError, HandlerStatus, Instance, QuotaCall, QuotaOverride,
    QuotaResult, Reply,
};

/// Largest limit and amount: the scripts count in doubles.
const MAX_AMOUNT: i64 = 1 << 53;

/// The limit of a bound instance.
pub(super) struct Bound {
    name: Arc<str>,
    names: WindowNames,
    /// Of its dimensions, in the order of the values of an instance.
    pub(super) dimensions: Vec<String>,
    window: Window,
    /// In nanoseconds.
    length: i64,
    max_amount: i64,
    /// How long a share lasts, in nanoseconds; 0: Redis is asked for each call.
    lease: u64,
    overrides: Vec<Selected>,
}

/// An override.
struct Selected {
    dimensions: Dimensions,
    max_amount: i64,
    digest: u32,
}

impl Bound {
    /// Resolves a quota against the dimensions of an instance.
    pub(super) fn new(quota: &Quota, instance: &BoundInstance, style: KeyStyle) -> Self {
        let overrides = quota.overrides.iter().map(|over| Selected {
            dimensions: Dimensions::new(&over.dimensions, instance),
            max_amount: over.max_amount,
            digest: override_digest(
                over.dimensions.iter().map(|(key, value)| (key, value.as_deref().unwrap_or_default())),
            ),
        });
        let length = quota.valid_duration.nanos;
        let window = match quota.rate_limit_algorithm {
            Algorithm::FixedWindow => Window::Fixed,
            Algorithm::RollingWindow => Window::rolling(length, quota.bucket_duration.nanos),
        };
        Self {
            name: Arc::clone(&instance.name),
            names: WindowNames::new(instance, style),
            dimensions: key::names_of(instance),
            window,
            length,
            max_amount: quota.max_amount,
            lease: lease_of(quota).nanos.max(0).cast_unsigned(),
            overrides: overrides.collect(),
        }
    }

    /// How long a grant can be valid, in nanoseconds.
    pub(super) fn length(&self) -> i64 {
        self.length
    }

    /// How long a share lasts, in nanoseconds; 0: there are none.
    pub(super) fn lease(&self) -> u64 {
        self.lease
    }

    /// Full name of the instance.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The limit of keys without an override.
    pub(super) fn default_limit(&self) -> i64 {
        self.limit(None)
    }

    /// The limit of a key of [`key::encode`], and whether it is that of an override; `None` if only a digest of its values is known.
    pub(super) fn limit_of(&self, key: &[u8]) -> Option<(i64, bool)> {
        let (bound, values) = (key::bound_of(key)?, key::values(key)?);
        let selected = self.selected(&Instance { bound, name: &self.name, values: &values });
        Some((self.limit(selected), selected.is_some()))
    }

    /// The overrides, in the order in which they apply.
    pub(super) fn overrides(&self) -> impl ExactSizeIterator<Item = QuotaOverride> {
        self.overrides.iter().map(|over| QuotaOverride {
            dimensions: over.dimensions.describe(&self.dimensions),
            limit: self.limit(Some(over)),
        })
    }

    fn selected(&self, instance: &Instance<'_>) -> Option<&Selected> {
        self.overrides.iter().find(|over| over.dimensions.match_all(instance))
    }

    fn limit(&self, selected: Option<&Selected>) -> i64 {
        selected.map_or(self.max_amount, |over| over.max_amount).clamp(0, MAX_AMOUNT)
    }

    fn allocation(&self, instance: &Instance<'_>, call: QuotaCall<'_>) -> Allocation {
        let selected = self.selected(instance);
        Allocation {
            keys: self.names.keys(instance, selected.map(|over| over.digest), call.deduplication_id),
            window: self.window,
            length: self.length,
            max_amount: self.limit(selected),
            amount: call.amount.clamp(-MAX_AMOUNT, MAX_AMOUNT),
            best_effort: call.best_effort,
        }
    }

    fn leased(&self, instance: &Instance<'_>) -> Arc<LeasedWindow> {
        let selected = self.selected(instance);
        let keys = self.names.leased_keys(instance, selected.map(|over| over.digest));
        Arc::new(LeasedWindow {
            meta: keys.meta,
            data: keys.data,
            leases: keys.leases,
            window: self.window,
            length: self.length,
            max_amount: self.limit(selected).min(MAX_LIMIT),
            lease: self.lease,
        })
    }
}

/// What all calls of a handler share.
pub(super) struct Shared {
    pub(super) redis: Arc<Redis>,
    pub(super) exchanges: Exchanges,
    pub(super) repeated: Repeated,
    pub(super) seen: SeenWindows,
    pub(super) without_redis: WithoutRedis,
    pub(super) handler_name: Arc<str>,
    pub(super) answers: Answers,
}

/// Counts what answered calls.
pub(super) struct Answers {
    redis: Counter,
    lease: Counter,
    refused: Counter,
    repeated: Counter,
}

impl Answers {
    pub(super) fn new(metrics: &Metrics, handler_name: &str) -> Self {
        let counter = |answer: &str| metrics.counter(Family::RedisquotaCalls, &[answer, handler_name]);
        Self {
            redis: counter("redis"),
            lease: counter("lease"),
            refused: counter("refused"),
            repeated: counter("repeated"),
        }
    }
}

/// A call of a window with leases, which may wait.
struct LeaseCall<'c> {
    key: &'c [u8],
    amount: i64,
    best_effort: bool,
    id: &'c str,
    is_new: bool,
}

/// What became of it.
enum LeaseResult {
    Answered(QuotaResult),
    Waits(oneshot::Receiver<Woken>, Arc<LeasedWindow>),
    NoRoom,
}

impl Shared {
    pub(super) fn leases(&self) -> &Leases {
        &self.exchanges.leases
    }

    /// Asks Redis. `id`: that of the deduplication of the call, if it is needed without Redis.
    async fn allocate(
        self: Arc<Self>,
        allocation: Allocation,
        key: Box<[u8]>,
        id: Option<String>,
    ) -> Result<QuotaResult, HandlerError> {
        // Nothing remembers what was released.
        let may_repeat = allocation.amount >= 0;
        let answer =
            self.redis.ask::<Vec<i64>>(&allocation.invocation(), &allocation.keys.meta, may_repeat).await;
        let unknown = || Failure::Error("the answer is that to no allocation".into());
        let answer = answer.and_then(|numbers| allocated_of(&numbers).ok_or_else(unknown));
        let answer = answer.map(|answer| allocation.bounded(answer));
        let hash = self.leases().hash(&key);
        match answer {
            Ok(Allocated { granted, valid, left }) => {
                self.answers.redis.increment();
                if let Some((left, lasts)) = left {
                    self.seen.note(hash, &key, allocation.max_amount, left, self.exchanges.now(), lasts);
                }
                Ok(QuotaResult { granted, valid_duration: SignedDuration::from_nanos(valid) })
            }
            Err(failure) => {
                let call = Unanswered {
                    key: &key,
                    hash,
                    limit: allocation.max_amount,
                    length: allocation.length,
                    amount: allocation.amount,
                    best_effort: allocation.best_effort,
                };
                self.unanswered(&failure, &call, id.as_deref())
            }
        }
    }

    /// Answers a call without Redis. `id`: that of its deduplication, if grants are remembered here.
    fn unanswered(
        &self,
        failure: &Failure,
        call: &Unanswered<'_>,
        id: Option<&str>,
    ) -> Result<QuotaResult, HandlerError> {
        let now = self.exchanges.now();
        let answer = || self.without_redis.answer(&self.redis, failure, call, now);
        let Some(id) = id.filter(|_| call.amount > 0 && self.without_redis.needs_key()) else {
            return answer();
        };
        let mut error = None;
        let grant = || answer().map_err(|why| error = Some(why)).ok();
        let granted = self.repeated.or_grant(id, call.hash, now, grant);
        match (granted, error) {
            (_, Some(error)) => Err(error),
            (granted, None) => Ok(granted.map_or_else(QuotaResult::default, |(result, _)| result)),
        }
    }

    /// A call for an amount above 0 of a window with leases.
    fn call(&self, call: &LeaseCall<'_>, window: impl FnOnce() -> Arc<LeasedWindow>) -> LeaseResult {
        let now = self.exchanges.now();
        let leases = self.leases();
        let mut called = None;
        let granted = self.repeated.or_grant(call.id, leases.hash(call.key), now, || {
            let LeaseCall { key, amount, best_effort, is_new, .. } = *call;
            match leases.call(key, amount, best_effort, is_new, now, window) {
                Called::Granted(granted, valid) => {
                    let valid = SignedDuration::from_nanos(i64::try_from(valid).unwrap_or(i64::MAX));
                    Some(QuotaResult { granted, valid_duration: valid })
                }
                other => {
                    called = Some(other);
                    None
                }
            }
        });
        if let Some((result, is_repeated)) = granted {
            let counter = if is_repeated { &self.answers.repeated } else { &self.answers.lease };
            counter.increment();
            return LeaseResult::Answered(result);
        }
        match called {
            Some(Called::Waits(receiver, window)) => LeaseResult::Waits(receiver, window),
            Some(Called::NoRoom) => LeaseResult::NoRoom,
            _ => {
                self.answers.refused.increment();
                LeaseResult::Answered(QuotaResult::default())
            }
        }
    }

    /// Waits for an answer to a request of the lease, and repeats the call.
    async fn wait(
        self: Arc<Self>,
        mut woken: oneshot::Receiver<Woken>,
        window: Arc<LeasedWindow>,
        allocation: Allocation,
        key: Box<[u8]>,
        id: String,
    ) -> Result<QuotaResult, HandlerError> {
        let due = Instant::now() + self.redis.timeout();
        let (amount, best_effort) = (allocation.amount, allocation.best_effort);
        let failure = loop {
            match timeout_at(due, woken).await {
                Err(_) => break Failure::Timeout,
                Ok(Ok(Err(failure))) => break failure,
                // The lease made room for another one, or was answered.
                Ok(Err(_) | Ok(Ok(()))) => {}
            }
            let call = LeaseCall { key: &key, amount, best_effort, id: &id, is_new: false };
            match self.call(&call, || Arc::clone(&window)) {
                LeaseResult::Answered(result) => return Ok(result),
                LeaseResult::Waits(receiver, _) => woken = receiver,
                LeaseResult::NoRoom => return self.allocate(allocation, key, Some(id)).await,
            }
        };
        let call = Unanswered {
            key: &key,
            hash: self.leases().hash(&key),
            limit: window.max_amount,
            length: window.length,
            amount,
            best_effort,
        };
        self.unanswered(&failure, &call, Some(&id))
    }
}

impl Collect for Shared {
    fn collect(&self, into: &mut Collected) {
        let summary = self.leases().summary(self.exchanges.now());
        let handler = &*self.handler_name;
        into.add(Family::RedisquotaLeases, &[handler], summary.leases as f64);
        into.add(Family::RedisquotaLeased, &[handler], summary.held as f64);
        let is_out = self.redis.trouble().is_some();
        into.add(
            Family::RedisquotaOutage,
            &[handler, self.without_redis.name()],
            f64::from(u8::from(is_out)),
        );
    }
}

/// The handler.
pub(super) struct RedisHandler {
    pub(super) shared: Arc<Shared>,
    /// By index of the bound instance.
    pub(super) bound: Vec<Bound>,
}

impl RedisHandler {
    pub(super) fn new(shared: Arc<Shared>, bound: Vec<Bound>) -> Self {
        Self { shared, bound }
    }

    /// Whether and for how long shares are leased.
    fn mode(&self) -> String {
        let lengths = self.bound.iter().map(Bound::lease).filter(|length| *length > 0);
        match lengths.clone().max() {
            None => "exact: a round trip a call".to_owned(),
            Some(longest) => {
                let of = if lengths.count() == self.bound.len() { "" } else { ", others exact" };
                format!("leases of up to {:?}{of}", Duration::from_nanos(longest))
            }
        }
    }
}

impl Handler for RedisHandler {
    fn as_quota(&self) -> Option<&dyn HandleQuota> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let link = &self.shared.redis.link;
        let mut notes = vec![
            ("server", link.shown().to_owned()),
            ("mode", self.mode()),
            ("without Redis", self.shared.without_redis.describe()),
        ];
        if self.bound.iter().any(|bound| bound.lease > 0) {
            let summary = self.shared.leases().summary(self.shared.exchanges.now());
            let live = format!("{}, of {} in all; {} bytes", summary.leases, summary.held, summary.bytes);
            notes.push(("live leases", live));
            notes.push(("given back", summary.returned.to_string()));
            notes.push(("lost", summary.lost.to_string()));
        }
        HandlerStatus {
            trouble: self.degradation(),
            notes,
            quotas: self.quotas(),
            ..HandlerStatus::default()
        }
    }

    fn degradation(&self) -> Option<String> {
        self.shared.redis.trouble().or_else(|| self.shared.redis.weakness())
    }

    fn close(
        &self,
        deadline: Duration,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        Box::pin(async move {
            // What is not given back in time is lost, as that of a server that died.
            let _ = tokio::time::timeout(deadline, self.shared.exchanges.end()).await;
            Ok(())
        })
    }
}

impl HandleQuota for RedisHandler {
    fn quota(&self, instance: &Instance<'_>, call: QuotaCall<'_>) -> Reply<QuotaResult> {
        thread_local! {
            static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        let Some(bound) = self.bound.get(instance.bound) else {
            let text = format!("did not find limit defined for quota {}", instance.name);
            return Reply::Ready(Err(HandlerError::new(text)));
        };
        let shared = &self.shared;
        let is_leased = bound.lease > 0 && call.amount > 0;
        KEY.with(|scratch| {
            let mut key = scratch.borrow_mut();
            key::encode(instance, &mut key);
            let (amount, best_effort) = (call.amount.min(MAX_AMOUNT), call.best_effort);
            let id = call.deduplication_id;
            let later = || (bound.allocation(instance, call), Box::from(&**key));
            if is_leased {
                let lease_call = LeaseCall { key: &key, amount, best_effort, id, is_new: true };
                match shared.call(&lease_call, || bound.leased(instance)) {
                    LeaseResult::Answered(result) => return Reply::Ready(Ok(result)),
                    LeaseResult::Waits(woken, window) => {
                        let (allocation, key) = later();
                        let waits = Arc::clone(shared).wait(woken, window, allocation, key, id.to_owned());
                        return Reply::Later(Box::pin(waits));
                    }
                    LeaseResult::NoRoom => {}
                }
            }
            let (allocation, key) = later();
            let id = shared.without_redis.needs_key().then(|| id.to_owned());
            Reply::Later(Box::pin(Arc::clone(shared).allocate(allocation, key, id)))
        })
    }
}
