//! Rate limits of descriptors: which limits apply, and what remains of them. See docs/envoy.md.

mod metrics;
mod response;
mod unlimited;
mod windows;

use std::sync::Arc;

use super::descriptor::{Descriptor, RateLimitRequest};
use crate::config::{Domain, EnvoyConfig, Exhausted, Limit, QuotaSelector, Search, Unit};
use mixer_attribute::SignedDuration;

pub(super) use metrics::LimitMetrics;
pub(super) use response::{encode, limit_headers};
pub use unlimited::{CURE, Unlimited, UnlimitedCalls};
pub(super) use unlimited::{Known, Tables};
pub(super) use windows::WindowCounters;

use metrics::Counted;
use windows::Charge;

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
    /// The quota that refuses the descriptor; `None` for a limit.
    pub(super) refused_by: Option<RefusingQuota>,
    /// The configured limit that the descriptor is over.
    pub(super) exceeds: Option<Arc<Limit>>,
}

/// A quota that refuses a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RefusingQuota {
    pub(super) name: Box<str>,
    /// It could not be allocated; otherwise it is exhausted.
    pub(super) failed: bool,
}

impl RefusingQuota {
    /// The message of the refusal; the words of checks.
    pub(super) fn message(&self) -> String {
        let Self { name, failed } = self;
        if *failed { format!("Quota failed: {name}") } else { format!("Quota is exhausted for: {name}") }
    }
}

/// A limit as the proxy receives it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LimitInfo {
    pub(super) requests_per_unit: u32,
    pub(super) unit: Unit,
    pub(super) multiplier: u32,
    pub(super) name: Arc<str>,
}

/// For example `5 per minute`, `5 per 10 minutes`.
impl std::fmt::Display for LimitInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { requests_per_unit, unit, multiplier, .. } = self;
        match multiplier {
            0 | 1 => write!(f, "{requests_per_unit} per {}", unit.name()),
            many => write!(f, "{requests_per_unit} per {many} {}s", unit.name()),
        }
    }
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
    search: &Search,
) -> Vec<LimitStatus> {
    let Some(domain) = config.domains.get(request.domain) else {
        return vec![LimitStatus::default(); request.descriptors.len()];
    };
    // A value that is too long to tell which limit is for it is over every limit: its caller chose the length.
    let mut exhausted = vec![false; request.descriptors.len()];
    let found = request.descriptors.iter().zip(&mut exhausted).map(|(descriptor, exhausted)| {
        let applied = apply(domain, descriptor, search);
        *exhausted = applied.is_err();
        applied.unwrap_or_default()
    });
    let mut applied: Vec<Option<ApplicableLimit<'_>>> = found.collect();
    let replaced: Vec<&Arc<str>> =
        applied.iter().flatten().filter_map(|a| a.limit).flat_map(|limit| &limit.replaces).collect();
    let is_replaced = |applied: &mut ApplicableLimit<'_>| {
        applied.limit.is_some_and(|l| !l.name.is_empty() && replaced.iter().any(|name| ***name == *l.name))
    };
    for limit in &mut applied {
        limit.take_if(is_replaced);
    }
    let settings = &config.settings.ratelimit;
    let hits = request.descriptors.iter().map(|descriptor| descriptor.charge);
    let is_refused = settings.stop_increment_when_over && {
        let is_over =
            |applied: &ApplicableLimit<'_>, hits| !applied.shadow && applied.is_over(hits, windows, now);
        let judged = applied.iter().zip(hits.clone());
        exhausted.contains(&true)
            || refuses(judged.filter_map(|(a, hits)| a.as_ref().map(|a| (a.quota_mode, is_over(a, hits)))))
    };
    let context =
        ChargeContext { windows, metrics, near_limit_ratio: settings.near_limit_ratio, now, is_refused };
    let mut statuses: Vec<LimitStatus> = applied
        .iter()
        .zip(hits)
        .map(|(applied, hits)| match applied {
            Some(applied) => charge_limit(applied, hits, &context),
            None => LimitStatus::default(),
        })
        .collect();
    let mut in_quota_mode: Vec<&mut LimitStatus> = statuses
        .iter_mut()
        .zip(&applied)
        .filter_map(|(status, a)| a.as_ref().is_some_and(|a| a.quota_mode).then_some(status))
        .collect();
    if !refuses(in_quota_mode.iter().map(|status| (true, status.code == LimitCode::OverLimit))) {
        in_quota_mode.iter_mut().for_each(|status| status.code = LimitCode::Ok);
    }
    for (status, _) in statuses.iter_mut().zip(exhausted).filter(|(_, exhausted)| *exhausted) {
        status.exceed();
    }
    statuses
}

impl LimitStatus {
    /// Refuses the descriptor for another reason than a limit.
    pub(super) fn exceed(&mut self) {
        (self.code, self.remaining, self.matched) = (LimitCode::OverLimit, 0, true);
    }
}

/// Whether limits refuse a call. Each is in quota mode or not, and over or not: those in quota mode refuse only if all of them are over.
fn refuses(limits: impl Iterator<Item = (bool, bool)>) -> bool {
    let (mut any, mut any_quota, mut all_quota) = (false, false, true);
    for (in_quota_mode, is_over) in limits {
        if in_quota_mode {
            (any_quota, all_quota) = (true, all_quota && is_over);
        } else {
            any |= is_over;
        }
    }
    any || (any_quota && all_quota)
}

fn window_length(unit: Unit, multiplier: u32) -> u64 {
    unit.seconds().saturating_mul(u64::from(multiplier.max(1)))
}

/// The limit for a descriptor: the tree is descended entry by entry, and only the limit of the last entry counts.
/// Errors: its values are too long.
fn apply<'c>(
    domain: &'c Domain,
    descriptor: &Descriptor<'_>,
    search: &Search,
) -> Result<Option<ApplicableLimit<'c>>, Exhausted> {
    let mut tree = &domain.descriptors;
    let mut found = None;
    let mut key = Vec::with_capacity(64);
    push_part(domain.name.as_bytes(), &mut key);
    let mut matched = true;
    for (index, (name, value)) in descriptor.entries.iter().enumerate() {
        let node = if matched { tree.find(name, value, search)? } else { None };
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
        return Ok(Some(ApplicableLimit {
            limit: found,
            requests_per_unit: own.requests_per_unit,
            unit: Some(own.unit),
            multiplier: own.multiplier,
            key,
            shadow: false,
            quota_mode: false,
        }));
    }
    Ok(found.map(|limit| ApplicableLimit {
        limit: Some(limit),
        requests_per_unit: limit.requests_per_unit,
        unit: limit.unit,
        multiplier: 1,
        key,
        shadow: limit.shadow_mode,
        quota_mode: limit.quota_mode,
    }))
}

/// Appends a part of the key of a counter with its length, so that different parts never make the same key.
fn push_part(part: &[u8], key: &mut Vec<u8>) {
    key.extend_from_slice(&part.len().to_le_bytes());
    key.extend_from_slice(part);
}

impl ApplicableLimit<'_> {
    /// Whether its counter is over the limit before a call with these hits is charged.
    fn is_over(&self, hits: i64, windows: &WindowCounters, now: u64) -> bool {
        let limit = i64::from(self.requests_per_unit);
        self.unit.is_some_and(|unit| {
            let length = window_length(unit, self.multiplier);
            is_over(windows.add(&self.key, length, now, Charge { amount: 0, limit }), hits, limit)
        })
    }
}

/// Whether a counter that is not charged is over its limit for a call with these hits: nothing is left for one that takes, and a read or a
/// refund leaves the counter above it.
fn is_over(count: i64, hits: i64, limit: i64) -> bool {
    if hits > 0 { count >= limit } else { count.saturating_add(hits) > limit }
}

/// The inputs of a charge besides the limit.
struct ChargeContext<'c> {
    windows: &'c WindowCounters,
    metrics: &'c LimitMetrics,
    near_limit_ratio: f64,
    /// In seconds since 1970.
    now: u64,
    /// The call is refused already: its hits are counted in the metrics and not charged; refunds are.
    is_refused: bool,
}

/// Charges a limit with the hits of a call.
fn charge_limit(applied: &ApplicableLimit<'_>, hits: i64, context: &ChargeContext<'_>) -> LimitStatus {
    let Some(unit) = applied.unit else {
        return LimitStatus { remaining: u32::MAX, matched: true, ..LimitStatus::default() };
    };
    let length = window_length(unit, applied.multiplier);
    let limit = i64::from(applied.requests_per_unit);
    let amount = if context.is_refused { hits.min(0) } else { hits };
    let after = context.windows.add(&applied.key, length, context.now, Charge { amount, limit });
    let over = if amount == hits { after > limit } else { is_over(after, hits, limit) };
    if let Some(configured) = applied.limit {
        let near = (limit as f64 * context.near_limit_ratio).floor() as i64;
        let before = after - amount.max(0);
        let counted = Counted { hits: hits.max(0), before, after, limit, near, over, shadow: applied.shadow };
        context.metrics.count(configured, &counted);
    }
    let left = u32::try_from((limit - after).max(0)).unwrap_or(u32::MAX);
    LimitStatus {
        code: if over && !applied.shadow { LimitCode::OverLimit } else { LimitCode::Ok },
        limit: Some(LimitInfo {
            requests_per_unit: applied.requests_per_unit,
            unit,
            multiplier: applied.multiplier,
            name: applied.limit.map_or_else(|| "".into(), |limit| Arc::clone(&limit.name)),
        }),
        remaining: if over { 0 } else { left },
        reset: Some(SignedDuration::from_secs(
            i64::try_from(length - context.now % length).unwrap_or(i64::MAX),
        )),
        matched: true,
        refused_by: None,
        exceeds: applied.limit.filter(|_| over && !applied.shadow).cloned(),
    }
}

/// The quota of Mixer that is configured for a descriptor. Errors: its values are too long.
pub(super) fn quota_for<'c>(
    selectors: &'c [QuotaSelector],
    domain: &[u8],
    descriptor: &Descriptor<'_>,
    search: &Search,
) -> Result<Option<&'c QuotaSelector>, Exhausted> {
    for selector in selectors {
        let domain_fits = selector.domain == "*" || selector.domain.as_bytes() == domain;
        if domain_fits && fits(selector, descriptor, search)? {
            return Ok(Some(selector));
        }
    }
    Ok(None)
}

/// Whether a descriptor has the entries of a selector.
fn fits(selector: &QuotaSelector, descriptor: &Descriptor<'_>, search: &Search) -> Result<bool, Exhausted> {
    for (key, pattern) in &selector.entries {
        let mut found = false;
        for (_, value) in descriptor.entries.iter().filter(|(name, _)| *name == key.as_bytes()) {
            if pattern.fits(value, search)? {
                found = true;
                break;
            }
        }
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
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
