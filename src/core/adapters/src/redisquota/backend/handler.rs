//! The handler: what a call asks Redis for, and what its answer means.

use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tokio::time::{Instant, timeout_at};

use super::super::{Algorithm, Params, Quota};
use super::keys::{KeyStyle, WindowNames, override_digest};
use super::link::{Link, Unconnected};
use super::scripts::{Allocation, Window};
use crate::dimensions::Dimensions;
use mixer_attribute::SignedDuration;
use mixer_base::metrics::{Counter, Family, Metrics};
use mixer_engine::adapter::{
    BoundInstance, HandleQuota, Handler, HandlerError, HandlerStatus, Instance, QuotaCall, QuotaResult, Reply,
};

/// Largest limit and amount: the scripts count in doubles.
const MAX_AMOUNT: i64 = 1 << 53;

/// The limit of a bound instance.
pub(super) struct Bound {
    names: WindowNames,
    window: Window,
    /// In nanoseconds.
    length: i64,
    max_amount: i64,
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
    pub(super) fn new(quota: &Quota, instance: &BoundInstance, params: &Params) -> Self {
        let overrides = quota.overrides.iter().map(|over| Selected {
            dimensions: Dimensions::new(&over.dimensions, instance),
            max_amount: over.max_amount,
            digest: override_digest(
                over.dimensions.iter().map(|(key, value)| (&**key, value.as_deref().unwrap_or_default())),
            ),
        });
        let length = quota.valid_duration.nanos;
        let window = match quota.rate_limit_algorithm {
            Algorithm::FixedWindow => Window::Fixed,
            Algorithm::RollingWindow => Window::rolling(length, quota.bucket_duration.nanos),
        };
        let style = KeyStyle { cluster: params.cluster, istio: params.istio_keys };
        Self {
            names: WindowNames::new(instance, style),
            window,
            length,
            max_amount: quota.max_amount,
            overrides: overrides.collect(),
        }
    }

    fn allocation(&self, instance: &Instance<'_>, call: QuotaCall<'_>) -> Allocation {
        let selected = self.overrides.iter().find(|over| over.dimensions.match_all(instance));
        let max_amount = selected.map_or(self.max_amount, |over| over.max_amount);
        Allocation {
            keys: self.names.keys(instance, selected.map(|over| over.digest), call.deduplication_id),
            window: self.window,
            length: self.length,
            max_amount: max_amount.clamp(0, MAX_AMOUNT),
            amount: call.amount.clamp(-MAX_AMOUNT, MAX_AMOUNT),
            best_effort: call.best_effort,
        }
    }
}

/// What all calls of a handler share.
pub(super) struct Shared {
    link: Arc<Link>,
    timeout: Duration,
    handler_name: Arc<str>,
    failures: Failures,
}

/// Counts calls without an answer.
struct Failures {
    unavailable: Counter,
    timeout: Counter,
    error: Counter,
}

/// Why a call has no answer.
enum Failure {
    Unavailable(Arc<str>),
    Timeout,
    Error(RedisError),
}

impl Shared {
    pub(super) fn new(link: Arc<Link>, timeout: Duration, metrics: &Metrics, handler_name: Arc<str>) -> Self {
        let counter = |reason: &str| metrics.counter(Family::RedisquotaFailures, &[&handler_name, reason]);
        let failures = Failures {
            unavailable: counter("unavailable"),
            timeout: counter("timeout"),
            error: counter("error"),
        };
        Self { link, timeout, handler_name, failures }
    }

    async fn allocate(self: Arc<Self>, allocation: Allocation) -> Result<QuotaResult, HandlerError> {
        match self.attempt(&allocation).await {
            Ok((granted, nanos)) => {
                Ok(QuotaResult { granted, valid_duration: SignedDuration::from_nanos(nanos.max(0)) })
            }
            Err(failure) => Err(HandlerError::new(self.describe(failure))),
        }
    }

    /// Asks Redis, a second time if the connection is lost meanwhile: an answer that did not arrive is repeated for the same id.
    async fn attempt(&self, allocation: &Allocation) -> Result<(i64, i64), Failure> {
        let due = Instant::now() + self.timeout;
        let invocation = allocation.invocation();
        // Nothing remembers what was released.
        let mut may_repeat = allocation.amount >= 0;
        loop {
            let (mut connection, generation) = match self.link.get(due).await {
                Ok(connected) => connected,
                Err(Unconnected::Down(why)) => return Err(Failure::Unavailable(why)),
                Err(Unconnected::Late) => return Err(Failure::Timeout),
            };
            match timeout_at(due, connection.invoke(&invocation)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) if is_lost(&error) => {
                    self.link.lost(generation);
                    if !std::mem::take(&mut may_repeat) {
                        return Err(Failure::Error(error));
                    }
                }
                Ok(Err(error)) if error.is_timeout() => {
                    self.link.suspect();
                    return Err(Failure::Timeout);
                }
                Ok(Err(error)) => return Err(Failure::Error(error)),
                Err(_) => {
                    self.link.suspect();
                    return Err(Failure::Timeout);
                }
            }
        }
    }

    fn describe(&self, failure: Failure) -> String {
        let (counter, text) = match failure {
            Failure::Unavailable(why) => {
                (&self.failures.unavailable, format!("Redis does not answer: {why}"))
            }
            Failure::Timeout => {
                (&self.failures.timeout, format!("Redis does not answer within {:?}", self.timeout))
            }
            Failure::Error(error) => (&self.failures.error, format!("failed to run quota script: {error}")),
        };
        counter.increment();
        tracing::debug!(target: "adapters", adapter = &*self.handler_name, "{text}");
        text
    }
}

/// Whether the server is not there any more, or is not the master any more.
fn is_lost(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) => true,
        // Before Redis 7, the script fails with the error of its command as text.
        ErrorKind::Server(_) => error.detail().is_some_and(|text| text.contains("READONLY")),
        _ => !error.is_timeout() && (error.is_io_error() || error.is_unrecoverable_error()),
    }
}

/// The handler.
pub(super) struct RedisHandler {
    shared: Arc<Shared>,
    /// By index of the bound instance.
    bound: Vec<Bound>,
}

impl RedisHandler {
    pub(super) fn new(shared: Arc<Shared>, bound: Vec<Bound>) -> Self {
        Self { shared, bound }
    }
}

impl Handler for RedisHandler {
    fn as_quota(&self) -> Option<&dyn HandleQuota> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        HandlerStatus {
            trouble: self.shared.link.trouble(),
            notes: vec![("server", self.shared.link.shown().to_owned())],
            ..HandlerStatus::default()
        }
    }

    fn degradation(&self) -> Option<String> {
        self.shared.link.trouble()
    }
}

impl HandleQuota for RedisHandler {
    fn quota(&self, instance: &Instance<'_>, call: QuotaCall<'_>) -> Reply<QuotaResult> {
        let Some(bound) = self.bound.get(instance.bound) else {
            let text = format!("did not find limit defined for quota {}", instance.name);
            return Reply::Ready(Err(HandlerError::new(text)));
        };
        Reply::Later(Box::pin(Arc::clone(&self.shared).allocate(bound.allocation(instance, call))))
    }
}
