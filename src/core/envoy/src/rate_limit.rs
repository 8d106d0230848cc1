//! Rate limits of descriptors: which limits apply, and what remains of them. See docs/envoy.md.

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
pub(super) use windows::WindowCounters;

use windows::Charge;

/// Most limits whose metrics a worker caches.
const MAX_LIMITS: usize = 10_000;

/// The code of one descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum LimitCode {
    #[default]
    Ok,
    OverLimit,
}

/// The status of one descriptor.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct LimitStatus {
    pub(super) code: LimitCode,
    /// The limit, if it is known.
    pub(super) limit: Option<LimitInfo>,
    pub(super) remaining: u32,
    /// Time until the window ends.
    pub(super) reset: Option<SignedDuration>,
    /// Whether a limit or quota applied.
    pub(super) matched: bool,
}

/// A limit as the proxy receives it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LimitInfo {
    pub(super) requests_per_unit: u32,
    pub(super) unit: Unit,
    pub(super) multiplier: u32,
    pub(super) name: Arc<str>,
}

impl LimitInfo {
    /// A limit over any window, in the largest unit that divides it. `None` unless the window is a whole number of seconds.
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

/// The metrics of one limit.
struct LimitCounters {
    total: Counter,
    over: Counter,
    near: Counter,
    within: Counter,
    shadow: Counter,
}

/// The metrics of the limits that a worker has applied.
pub(super) struct LimitMetrics {
    metrics: Arc<Metrics>,
    counters: RefCell<FxHashMap<Arc<str>, Arc<LimitCounters>>>,
}

impl LimitMetrics {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, counters: RefCell::default() }
    }

    fn of(&self, limit: &Limit) -> Arc<LimitCounters> {
        if let Some(counters) = self.counters.borrow().get(&limit.full_key) {
            return Arc::clone(counters);
        }
        let mut parts = limit.full_key.splitn(3, '.');
        let mut part = || parts.next().unwrap_or_default();
        let labels = [part(), part(), part()];
        let counter = |family| self.metrics.counter(family, &labels);
        let created = Arc::new(LimitCounters {
            total: counter(Family::RatelimitTotalHits),
            over: counter(Family::RatelimitOverLimit),
            near: counter(Family::RatelimitNearLimit),
            within: counter(Family::RatelimitWithinLimit),
            shadow: counter(Family::RatelimitShadowMode),
        });
        let mut counters = self.counters.borrow_mut();
        if counters.len() < MAX_LIMITS {
            counters.insert(Arc::clone(&limit.full_key), Arc::clone(&created));
        }
        created
    }
}

/// A limit that applies to a descriptor.
struct ApplicableLimit<'c> {
    /// The configured limit; `None` for an override without one.
    limit: Option<&'c Arc<Limit>>,
    requests_per_unit: u32,
    unit: Option<Unit>,
    multiplier: u32,
    /// The key of its counter: domain, names and values of the entries.
    key: Vec<u8>,
    shadow: bool,
    quota_mode: bool,
}

/// Applies the limits of the domain to every descriptor, in order. `now` is in seconds since 1970.
pub(super) fn decide(
    request: &RateLimitRequest<'_>,
    config: &EnvoyConfig,
    windows: &WindowCounters,
    metrics: &LimitMetrics,
    now: u64,
) -> Vec<LimitStatus> {
    let Some(domain) = config.domains.get(request.domain) else {
        return vec![LimitStatus::default(); request.descriptors.len()];
    };
    let applied: Vec<Option<ApplicableLimit<'_>>> =
        request.descriptors.iter().map(|descriptor| apply(domain, descriptor)).collect();
    let replaced: Vec<&Arc<str>> =
        applied.iter().flatten().filter_map(|a| a.limit).flat_map(|limit| &limit.replaces).collect();
    let is_replaced = |applied: &ApplicableLimit<'_>| {
        applied.limit.is_some_and(|l| !l.name.is_empty() && replaced.iter().any(|name| ***name == *l.name))
    };
    let stop = config.settings.ratelimit.stop_increment_when_over;
    let already_over = stop
        && applied.iter().flatten().filter(|a| !is_replaced(a) && !a.shadow).any(|a| {
            a.unit.is_some_and(|unit| {
                let length = window_length(unit, a.multiplier);
                let limit = i64::from(a.requests_per_unit);
                windows.add(&a.key, length, now, Charge { amount: 0, limit }) >= limit
            })
        });
    let ratio = config.settings.ratelimit.near_limit_ratio;
    let mut statuses: Vec<LimitStatus> = applied
        .iter()
        .zip(request.descriptors)
        .map(|(applied, descriptor)| match applied {
            Some(applied) if !is_replaced(applied) => {
                let charge = if already_over { 0 } else { descriptor.charge };
                charge_limit(applied, charge, already_over, windows, metrics, ratio, now)
            }
            _ => LimitStatus::default(),
        })
        .collect();
    // Limits in quota mode deny only if all of them are over.
    let in_quota_mode = |status: &LimitStatus, a: &Option<ApplicableLimit<'_>>| {
        status.matched && a.as_ref().is_some_and(|a| a.quota_mode)
    };
    let any_within =
        statuses.iter().zip(&applied).any(|(s, a)| in_quota_mode(s, a) && s.code == LimitCode::Ok);
    if any_within {
        for (status, applied) in statuses.iter_mut().zip(&applied) {
            if in_quota_mode(status, applied) {
                status.code = LimitCode::Ok;
            }
        }
    }
    statuses
}

fn window_length(unit: Unit, multiplier: u32) -> u64 {
    unit.seconds().saturating_mul(u64::from(multiplier.max(1)))
}

/// The limit for a descriptor: the tree is descended entry by entry, and only the limit of the last entry counts.
fn apply<'c>(domain: &'c Domain, descriptor: &Descriptor<'_>) -> Option<ApplicableLimit<'c>> {
    let mut tree = &domain.descriptors;
    let mut found = None;
    let mut key = Vec::with_capacity(64);
    push_part(domain.name.as_bytes(), &mut key);
    let mut matched = true;
    for (index, (name, value)) in descriptor.entries.iter().enumerate() {
        let node = if matched { tree.find(name, value) } else { None };
        let counted = match node {
            Some(node) if node.share_threshold => node.pattern.as_deref().unwrap_or("*").as_bytes(),
            _ => value,
        };
        for part in [name, counted] {
            push_part(part, &mut key);
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
        return Some(ApplicableLimit {
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
    Some(ApplicableLimit {
        limit: Some(limit),
        requests_per_unit: limit.requests_per_unit,
        unit: limit.unit,
        multiplier: 1,
        key,
        shadow: limit.shadow_mode,
        quota_mode: limit.quota_mode,
    })
}

/// Appends a part of the key of a counter with its length, so that different parts never make the same key.
fn push_part(part: &[u8], key: &mut Vec<u8>) {
    key.extend_from_slice(&part.len().to_le_bytes());
    key.extend_from_slice(part);
}

/// Charges a limit.
fn charge_limit(
    applied: &ApplicableLimit<'_>,
    charge: i64,
    already_over: bool,
    windows: &WindowCounters,
    metrics: &LimitMetrics,
    near_limit_ratio: f64,
    now: u64,
) -> LimitStatus {
    let Some(unit) = applied.unit else {
        return LimitStatus { remaining: u32::MAX, matched: true, ..LimitStatus::default() };
    };
    let length = window_length(unit, applied.multiplier);
    let limit = i64::from(applied.requests_per_unit);
    let after = windows.add(&applied.key, length, now, Charge { amount: charge, limit });
    let counters = applied.limit.map(|limit| metrics.of(limit));
    let hits = charge.max(0);
    let before = after - hits;
    let over = if already_over { after >= limit } else { after > limit };
    if let Some(counters) = &counters {
        let near = (limit as f64 * near_limit_ratio).floor() as i64;
        counters.count(hits, before, after, limit, near, over);
    }
    let mut code = if over { LimitCode::OverLimit } else { LimitCode::Ok };
    if over && applied.shadow {
        code = LimitCode::Ok;
        if let Some(counters) = &counters {
            counters.shadow.add(hits.cast_unsigned());
        }
    }
    let left = u32::try_from((limit - after).max(0)).unwrap_or(u32::MAX);
    LimitStatus {
        code,
        limit: Some(LimitInfo {
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

/// The quota of Mixer that is configured for a descriptor.
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

/// The stricter of two statuses of one descriptor.
pub(super) fn stricter(a: LimitStatus, b: LimitStatus) -> LimitStatus {
    match (a.matched, b.matched) {
        (_, false) => a,
        (false, true) => b,
        _ if a.code != b.code => {
            if a.code == LimitCode::OverLimit {
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
