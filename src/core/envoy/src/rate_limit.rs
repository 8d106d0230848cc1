//! Limits of descriptors: which apply, and what is left of them. Spec: envoy-bridge.md 4.3 and 4.4.

mod response;
mod windows;

use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::descriptor::{Descriptor, RateLimitRequest};
use crate::config::{Domain, EnvoyConfig, Limit, QuotaSelector, Unit, glob};
use mixer_attribute::SignedDuration;
use mixer_base::metrics::{Counter, Family, Metrics};

pub(super) use response::{encode, limit_headers};
pub use windows::Windows;

/// Limits whose counters one worker keeps at hand.
const MAX_LIMITS: usize = 10_000;

/// The answer to one descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Code {
    #[default]
    Ok,
    OverLimit,
}

/// The status of one descriptor.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Status {
    pub(super) code: Code,
    /// What is known of the limit.
    pub(super) limit: Option<StatedLimit>,
    pub(super) remaining: u32,
    /// When something is free again.
    pub(super) reset: Option<SignedDuration>,
    /// Whether anything applied at all.
    pub(super) matched: bool,
}

/// A limit as it is told to the proxy.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StatedLimit {
    pub(super) requests_per_unit: u32,
    pub(super) unit: Unit,
    pub(super) multiplier: u32,
    pub(super) name: Arc<str>,
}

impl StatedLimit {
    /// A limit with a window of any length: the largest unit that divides it. `None` for a window that is no whole seconds.
    pub(super) fn of_window(requests_per_unit: u32, window: SignedDuration, name: &str) -> Option<Self> {
        let seconds = u64::try_from(window.nanos / 1_000_000_000).ok().filter(|seconds| *seconds > 0)?;
        if window.nanos % 1_000_000_000 != 0 {
            return None;
        }
        let unit = Unit::ALL.into_iter().find(|unit| seconds.is_multiple_of(unit.seconds()))?;
        let multiplier = u32::try_from(seconds / unit.seconds()).ok()?;
        Some(Self { requests_per_unit, unit, multiplier, name: name.into() })
    }
}

/// The counters that a limit has in the metrics.
struct LimitCounters {
    total: Counter,
    over: Counter,
    near: Counter,
    within: Counter,
    shadow: Counter,
}

/// The counters of the limits that a worker has met.
pub(super) struct LimitMetrics {
    metrics: Arc<Metrics>,
    known: RefCell<FxHashMap<Arc<str>, Arc<LimitCounters>>>,
}

impl LimitMetrics {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, known: RefCell::default() }
    }

    fn of(&self, limit: &Limit) -> Arc<LimitCounters> {
        if let Some(known) = self.known.borrow().get(&limit.full_key) {
            return Arc::clone(known);
        }
        let mut parts = limit.full_key.splitn(3, '.');
        let mut part = || parts.next().unwrap_or_default();
        let labels = [part(), part(), part()];
        let counter = |family| self.metrics.counter(family, &labels);
        let made = Arc::new(LimitCounters {
            total: counter(Family::RatelimitTotalHits),
            over: counter(Family::RatelimitOverLimit),
            near: counter(Family::RatelimitNearLimit),
            within: counter(Family::RatelimitWithinLimit),
            shadow: counter(Family::RatelimitShadowMode),
        });
        let mut known = self.known.borrow_mut();
        if known.len() < MAX_LIMITS {
            known.insert(Arc::clone(&limit.full_key), Arc::clone(&made));
        }
        made
    }
}

/// A limit that applies to a descriptor.
struct Applied<'c> {
    /// The configured limit; none for one that came with the request alone.
    limit: Option<&'c Arc<Limit>>,
    requests_per_unit: u32,
    unit: Option<Unit>,
    multiplier: u32,
    /// Whether the key in the arena has the values of the request for it.
    key: Vec<u8>,
    shadow: bool,
    quota_mode: bool,
}

/// What the limits of the domain say of every descriptor, in order.
pub(super) fn decide(
    request: &RateLimitRequest<'_>,
    config: &EnvoyConfig,
    windows: &Windows,
    metrics: &LimitMetrics,
    now: u64,
) -> Vec<Status> {
    let Some(domain) = config.domains.get(request.domain) else {
        return vec![Status::default(); request.descriptors.len()];
    };
    let applied: Vec<Option<Applied<'_>>> =
        request.descriptors.iter().map(|descriptor| apply(domain, descriptor)).collect();
    let replaced: Vec<&Arc<str>> =
        applied.iter().flatten().filter_map(|a| a.limit).flat_map(|limit| &limit.replaces).collect();
    let is_replaced = |applied: &Applied<'_>| {
        applied.limit.is_some_and(|l| !l.name.is_empty() && replaced.iter().any(|name| ***name == *l.name))
    };
    let stop = config.settings.ratelimit.stop_increment_when_over;
    let already_over = stop
        && applied.iter().flatten().filter(|a| !is_replaced(a) && !a.shadow).any(|a| {
            a.unit.is_some_and(|unit| {
                let length = window_length(unit, a.multiplier);
                windows.add(&a.key, length, now, 0) >= i64::from(a.requests_per_unit)
            })
        });
    let ratio = config.settings.ratelimit.near_limit_ratio;
    let mut statuses: Vec<Status> = applied
        .iter()
        .zip(request.descriptors)
        .map(|(applied, descriptor)| match applied {
            Some(applied) if !is_replaced(applied) => {
                let charge = if already_over { 0 } else { descriptor.charge };
                take(applied, charge, already_over, windows, metrics, ratio, now)
            }
            _ => Status::default(),
        })
        .collect();
    // Limits of the quota kind refuse only together.
    let of_kind =
        |status: &Status, a: &Option<Applied<'_>>| status.matched && a.as_ref().is_some_and(|a| a.quota_mode);
    let some_left = statuses.iter().zip(&applied).any(|(s, a)| of_kind(s, a) && s.code == Code::Ok);
    if some_left {
        for (status, applied) in statuses.iter_mut().zip(&applied) {
            if of_kind(status, applied) {
                status.code = Code::Ok;
            }
        }
    }
    statuses
}

fn window_length(unit: Unit, multiplier: u32) -> u64 {
    unit.seconds().saturating_mul(u64::from(multiplier.max(1)))
}

/// The limit for a descriptor: entries are followed level by level, and the limit counts at the last of them alone.
fn apply<'c>(domain: &'c Domain, descriptor: &Descriptor<'_>) -> Option<Applied<'c>> {
    let mut tree = &domain.descriptors;
    let mut found = None;
    let mut key = Vec::with_capacity(64);
    key.extend_from_slice(domain.name.as_bytes());
    key.push(b'_');
    let mut matched = true;
    for (index, (name, value)) in descriptor.entries.iter().enumerate() {
        let node = if matched { tree.find(name, value) } else { None };
        let counted = match node {
            Some(node) if node.share_threshold => node.pattern.as_deref().unwrap_or("*").as_bytes(),
            _ => value,
        };
        for part in [name, counted] {
            key.extend_from_slice(part);
            key.push(b'_');
        }
        match node {
            Some(node) => {
                found = (index + 1 == descriptor.entries.len()).then_some(node.limit.as_ref()).flatten();
                tree = &node.children;
            }
            None => {
                matched = false;
                found = None;
            }
        }
    }
    if let Some(own) = descriptor.limit {
        return Some(Applied {
            limit: found,
            requests_per_unit: own.requests_per_unit,
            unit: Some(own.unit),
            multiplier: own.multiplier,
            key,
            shadow: false,
            quota_mode: false,
        });
    }
    let limit = found?;
    Some(Applied {
        limit: Some(limit),
        requests_per_unit: limit.requests_per_unit,
        unit: limit.unit,
        multiplier: 1,
        key,
        shadow: limit.shadow_mode,
        quota_mode: limit.quota_mode,
    })
}

/// Takes from a limit and says what is left.
fn take(
    applied: &Applied<'_>,
    charge: i64,
    already_over: bool,
    windows: &Windows,
    metrics: &LimitMetrics,
    near_limit_ratio: f64,
    now: u64,
) -> Status {
    let Some(unit) = applied.unit else {
        return Status { remaining: u32::MAX, matched: true, ..Status::default() };
    };
    let length = window_length(unit, applied.multiplier);
    let after = windows.add(&applied.key, length, now, charge);
    let limit = i64::from(applied.requests_per_unit);
    let counters = applied.limit.map(|limit| metrics.of(limit));
    let hits = charge.max(0);
    let before = after - hits;
    let over = if already_over { after >= limit } else { after > limit };
    if let Some(counters) = &counters {
        let near = (limit as f64 * near_limit_ratio).floor() as i64;
        counters.count(hits, before, after, limit, near, over);
    }
    let mut code = if over { Code::OverLimit } else { Code::Ok };
    if over && applied.shadow {
        code = Code::Ok;
        if let Some(counters) = &counters {
            counters.shadow.add(hits.cast_unsigned());
        }
    }
    let left = u32::try_from((limit - after).max(0)).unwrap_or(u32::MAX);
    Status {
        code,
        limit: Some(StatedLimit {
            requests_per_unit: applied.requests_per_unit,
            unit,
            multiplier: applied.multiplier,
            name: applied.limit.map_or_else(|| "".into(), |limit| Arc::clone(&limit.name)),
        }),
        remaining: if over { 0 } else { left },
        reset: Some(SignedDuration::from_secs(i64::try_from(length - now % length).unwrap_or(i64::MAX))),
        matched: true,
    }
}

impl LimitCounters {
    fn count(&self, hits: i64, before: i64, after: i64, limit: i64, near: i64, over: bool) {
        let add = |counter: &Counter, count: i64| counter.add(count.max(0).cast_unsigned());
        add(&self.total, hits);
        if over {
            if before >= limit {
                add(&self.over, hits);
            } else {
                add(&self.over, after - limit);
                add(&self.near, limit - near.max(before));
            }
            return;
        }
        add(&self.within, hits);
        if after > near {
            add(&self.near, if before >= near { hits } else { after - near });
        }
    }
}

/// The quota of Mixer for a descriptor.
pub(super) fn quota_for<'c>(
    selectors: &'c [QuotaSelector],
    domain: &[u8],
    descriptor: &Descriptor<'_>,
) -> Option<&'c QuotaSelector> {
    selectors.iter().find(|selector| {
        let domain_fits = selector.domain == "*" || selector.domain.as_bytes() == domain;
        domain_fits
            && selector.entries.iter().all(|(key, pattern)| {
                let mut entries = descriptor.entries.iter();
                entries.any(|(name, value)| *name == key.as_bytes() && glob(pattern.as_bytes(), value))
            })
    })
}

/// Of two statuses of one descriptor the stricter one.
pub(super) fn stricter(a: Status, b: Status) -> Status {
    match (a.matched, b.matched) {
        (_, false) => a,
        (false, true) => b,
        _ if a.code != b.code => {
            if a.code == Code::OverLimit {
                a
            } else {
                b
            }
        }
        _ if b.limit.is_some() && (a.limit.is_none() || b.remaining < a.remaining) => b,
        _ => a,
    }
}

#[cfg(test)]
mod tests;
