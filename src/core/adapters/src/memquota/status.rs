//! The state of quotas for ControlZ.

use std::cmp::Reverse;

use super::Memquota;
use crate::quotas::{key, nanos};
use mixer_engine::adapter::{HandlerStatus, QuotaStatus, QuotaUse};

/// Keys listed per quota.
const LISTED: usize = 20;

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
                let bound = key::describe(key).map(|(bound, _)| bound);
                if let Some(list) = bound.and_then(|bound| used.get_mut(bound)) {
                    list.push((key.into(), amount));
                }
            }
        }
        let quotas = self.names.iter().zip(&self.limits).zip(used).map(|((name, limits), mut list)| {
            list.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
            let limit = limits.default_limit();
            let top = list.iter().take(LISTED).map(|(key, amount)| QuotaUse {
                key: key::describe(key).map(|(_, text)| text).unwrap_or_default(),
                used: *amount,
                limit: limit.max_amount,
            });
            QuotaStatus {
                name: name.to_string(),
                limit: limit.max_amount,
                window: limit.valid_duration,
                keys: list.len(),
                top: top.collect(),
            }
        });
        HandlerStatus {
            quotas: quotas.collect(),
            notes: vec![("keys in use", format!("{keys}, {bytes} of at most {} bytes", self.share.limit()))],
            ..HandlerStatus::default()
        }
    }
}
