//! Grants that this server remembers by deduplication id: Redis does not know which call a grant from a lease was for.

use std::hash::BuildHasher;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::quotas::dedup::{Dedup, Record};
use crate::quotas::{SHARDS, Shard, shard_of};
use mixer_attribute::SignedDuration;
use mixer_base::budget::Account;
use mixer_engine::adapter::QuotaResult;

/// Grants by id, for the window of each call.
pub(super) struct Repeated {
    shards: [Shard<Dedup>; SHARDS],
    hasher: foldhash::quality::RandomState,
}

impl Repeated {
    /// Remembers grants for at least `length` nanoseconds, as far as `account` has room for them.
    pub(super) fn new(now: u64, length: u64, account: &Arc<Account>) -> Self {
        let shard = |_| Shard(Mutex::new(Dedup::new(now, length, Arc::clone(account))));
        Self { shards: std::array::from_fn(shard), hasher: foldhash::quality::RandomState::default() }
    }

    /// The grant of an earlier call with this id for the same window, whose key has the hash `window`, or else that of `call`, which is
    /// remembered. The flag says whether it is repeated. `None`: there is no grant.
    pub(super) fn or_grant(
        &self,
        id: &str,
        window: u64,
        now: u64,
        call: impl FnOnce() -> Option<QuotaResult>,
    ) -> Option<(QuotaResult, bool)> {
        let mut full = Vec::with_capacity(id.len() + size_of::<u64>());
        full.extend_from_slice(id.as_bytes());
        full.extend_from_slice(&window.to_le_bytes());
        let hash = self.hasher.hash_one(&*full);
        let mut grants = self.shards.get(shard_of(hash))?.0.lock();
        grants.advance(now);
        let known = grants.find(hash, &full);
        if let Some(known) = known
            && let Some(left) =
                known.expires.and_then(|expires| expires.checked_sub(now)).filter(|left| *left > 0)
        {
            let valid_duration = SignedDuration::from_nanos(i64::try_from(left).unwrap_or(i64::MAX));
            return Some((QuotaResult { granted: known.granted, valid_duration }, true));
        }
        let result = call()?;
        if result.granted > 0 {
            let expires = now.saturating_add(result.valid_duration.nanos.max(0).cast_unsigned());
            let record = Record { granted: result.granted, expires: Some(expires) };
            match known {
                // Its window is over.
                Some(_) => grants.replace(hash, &full, record),
                None => grants.insert(hash, &full, record),
            }
        }
        Some((result, false))
    }
}
