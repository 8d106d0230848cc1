//! What operators see of quotas.

use std::cmp::Reverse;

use super::{Memquota, cells, key, nanos};
use mixer_engine::adapter::{HandlerStatus, QuotaStatus, QuotaUse};

/// Keys that are listed of one quota.
const LISTED: usize = 20;

impl Memquota {
    /// Every quota, with the keys that use most of it. Takes each lock for as long as it takes to copy what is in use.
    pub(super) fn describe(&self) -> HandlerStatus {
        let now = nanos(&*self.clock);
        let mut used: Vec<Vec<(Box<[u8]>, i64)>> = vec![Vec::new(); self.limits.len()];
        let mut cells_now = 0;
        for shard in &self.cells {
            for (key, amount) in shard.0.lock().in_use(now) {
                cells_now += 1;
                let bound = key::describe(key).map(|(bound, _)| bound);
                if let Some(list) = bound.and_then(|bound| used.get_mut(bound)) {
                    list.push((key.into(), amount));
                }
            }
        }
        let quotas = self.names.iter().zip(&self.limits).zip(used).map(|((name, limits), mut list)| {
            list.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
            let limit = limits.general();
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
            notes: vec![("keys in use", format!("{cells_now} of at most {}", cells::MAX_CELLS))],
            ..HandlerStatus::default()
        }
    }
}
