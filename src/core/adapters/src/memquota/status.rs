//! The state of quotas for ControlZ.

use std::cmp::Reverse;

use super::Memquota;
use super::limit::Limits;
use crate::quotas::{LISTED, Limit, key, nanos};
use mixer_engine::adapter::{HandlerStatus, Instance, QuotaSource, QuotaStatus, QuotaUse};

/// The keys with most of a quota in use, of which the limits are looked up: overrides may have others.
const EXAMINED: usize = 10_000;

/// The limit of a key. That of a key of long values or a map, of which only the digest is known or which is not decoded, is taken for the one of the quota.
fn limit_of(limits: &Limits, name: &str, key: &[u8]) -> Limit {
    let selected = key::values(key).map(|values| {
        limits.select(&Instance { bound: key::bound_of(key).unwrap_or_default(), name, values: &values })
    });
    selected.unwrap_or(limits.default_limit())
}

impl Memquota {
    /// Every quota, with the keys that use most of it. Holds one lock at a time while it copies the amounts in use.
    pub(super) fn describe(&self) -> HandlerStatus {
        let now = nanos(&*self.clock);
        let mut used: Vec<Vec<(Box<[u8]>, i64)>> = vec![Vec::new(); self.limits.len()];
        let (mut keys, mut bytes) = (0, 0);
        for shard in &self.cells {
            let cells = shard.0.lock();
            bytes += cells.bytes();
            for (key, amount) in cells.in_use(now) {
                keys += 1;
                if let Some(list) = key::bound_of(key).and_then(|bound| used.get_mut(bound)) {
                    list.push((key.into(), amount));
                }
            }
        }
        let quotas = self.names.iter().zip(&self.limits).zip(used).map(|((name, limits), mut list)| {
            list.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
            let limit = limits.default_limit();
            let keys = list.len();
            list.truncate(EXAMINED);
            let mut top: Vec<QuotaUse> = list
                .iter()
                .map(|(key, used)| {
                    let of_key = limit_of(limits, name, key);
                    QuotaUse {
                        key: key::describe(key, limits.names()).unwrap_or_default(),
                        used: *used,
                        limit: of_key.max_amount,
                        is_override: of_key != limit,
                        source: QuotaSource::Handler,
                    }
                })
                .collect();
            // Those closest to their limit first: an override that is exhausted may have used little.
            top.sort_by(QuotaUse::by_share);
            top.truncate(LISTED);
            QuotaStatus {
                name: name.to_string(),
                limit: limit.max_amount,
                window: limit.valid_duration,
                keys,
                top,
                overrides: limits.overrides().take(LISTED).collect(),
                override_count: limits.overrides().len(),
                shared: None,
            }
        });
        HandlerStatus {
            quotas: quotas.collect(),
            notes: vec![(
                "keys in use",
                format!("{keys}, {:.1} of {} KiB", bytes as f64 / 1024.0, self.share.limit() / 1024),
            )],
            ..HandlerStatus::default()
        }
    }
}
