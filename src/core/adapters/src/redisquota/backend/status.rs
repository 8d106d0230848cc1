//! The state of quotas for ControlZ: what this server knows, without asking Redis.

use std::time::Duration;

use super::handler::{Bound, RedisHandler};
use super::lease::LeaseStatus;
use crate::quotas::{LISTED, key};
use mixer_attribute::SignedDuration;
use mixer_engine::adapter::{QuotaMode, QuotaSource, QuotaStatus, QuotaUse, SharedQuota};

/// Uses that are kept while there are more to come.
const KEPT: usize = 1000;

/// The uses of a quota, of which those that use most of their limit are kept.
#[derive(Default)]
struct Uses {
    keys: usize,
    kept: Vec<KeyUse>,
}

struct KeyUse {
    key: Box<[u8]>,
    used: i64,
    limit: i64,
    source: QuotaSource,
}

impl Uses {
    fn push(&mut self, found: KeyUse) {
        self.keys += 1;
        self.kept.push(found);
        if self.kept.len() >= 2 * KEPT {
            self.sort();
            self.kept.truncate(KEPT);
        }
    }

    fn sort(&mut self) {
        let share = |a: &KeyUse, b: &KeyUse| i128::from(a.used) * i128::from(b.limit.max(1));
        self.kept.sort_by(|a, b| {
            share(b, a).cmp(&share(a, b)).then_with(|| b.used.cmp(&a.used)).then_with(|| a.key.cmp(&b.key))
        });
    }
}

/// For how long something lasts, or how long ago it was.
fn between(from: u64, to: u64) -> Duration {
    Duration::from_nanos(to.saturating_sub(from))
}

impl RedisHandler {
    /// Every quota, with the keys that use most of it. Holds one lock at a time while it copies what is known.
    pub(super) fn quotas(&self) -> Vec<QuotaStatus> {
        let shared = &self.shared;
        let now = shared.exchanges.now();
        let mut uses: Vec<Uses> = self.bound.iter().map(|_| Uses::default()).collect();
        let mut push = |key: Box<[u8]>, used, limit: &dyn Fn(&Bound, &[u8]) -> i64, source| {
            let is_shown = used > 0 || matches!(source, QuotaSource::Lease { share: 1.., .. });
            let at = key::bound_of(&key).filter(|_| is_shown);
            if let Some((bound, uses)) = at.and_then(|at| Some((self.bound.get(at)?, uses.get_mut(at)?))) {
                uses.push(KeyUse { limit: limit(bound, &key), key, used, source });
            }
        };
        shared.leases().each(now, |key, status| {
            let LeaseStatus { limit, used, known_at, share, granted, ends } = status;
            let (ago, lasts) = (between(known_at, now), between(now, ends));
            push(key, used, &|_, _| limit, QuotaSource::Lease { ago, share, used: granted, lasts });
        });
        shared.seen.each(now, |window| {
            if !shared.leases().knows(&window.key, now) {
                let used = window.limit.saturating_sub(window.left);
                let source = QuotaSource::Backend { ago: between(window.at, now) };
                push(window.key, used, &|_, _| window.limit, source);
            }
        });
        let without = &shared.without_redis;
        without.each(now, |key, used| {
            let limit = |bound: &Bound, key: &[u8]| {
                let limit = bound.limit_of(key).map_or(bound.default_limit(), |(limit, _)| limit);
                without.part_of(limit)
            };
            push(key, used, &limit, QuotaSource::LocalShare);
        });
        let outage = shared.redis.outage();
        let status = |(bound, mut uses): (&Bound, Uses)| {
            uses.sort();
            uses.kept.truncate(LISTED);
            let mode = match (outage.as_ref().and_then(|_| without.local_share()), bound.lease()) {
                (Some(percent), _) => QuotaMode::LocalShare(percent),
                (None, 0) => QuotaMode::Exact,
                (None, length) => QuotaMode::Leases(Duration::from_nanos(length)),
            };
            let shared = SharedQuota {
                backend: shared.redis.link.shown().to_owned(),
                mode,
                outage: outage.clone(),
                without: without.describe(),
            };
            QuotaStatus {
                name: bound.name().to_string(),
                limit: bound.default_limit(),
                window: SignedDuration::from_nanos(bound.length()),
                keys: uses.keys,
                top: uses.kept.iter().map(|found| quota_use(bound, found)).collect(),
                overrides: bound.overrides().take(LISTED).collect(),
                override_count: bound.overrides().len(),
                shared: Some(shared),
            }
        };
        self.bound.iter().zip(uses).map(status).collect()
    }
}

fn quota_use(bound: &Bound, found: &KeyUse) -> QuotaUse {
    let is_other = found.source != QuotaSource::LocalShare && found.limit != bound.default_limit();
    QuotaUse {
        key: key::describe(&found.key, &bound.dimensions).unwrap_or_default(),
        used: found.used,
        limit: found.limit,
        is_override: bound.limit_of(&found.key).map_or(is_other, |(_, is_override)| is_override),
        source: found.source,
    }
}
