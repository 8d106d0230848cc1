//! Answers about keys, within a number and within memory: callers choose the keys.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use mixer_base::bounded::{Bounded, BoundedTable, Modified, WhenFull};
use mixer_base::budget::Account;

use crate::quotas::{SHARDS, Shard, shard_of};

/// Caches of fewer answers have one lock, so that they have room for as many as they say.
const SMALL: usize = 64 * SHARDS;

/// Identifies a key and an operation.
pub(super) type Digest = [u8; 32];

/// What Google says about a key and an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) code: i32,
    pub(super) message: Box<str>,
    /// The number of the project whose key it is; empty if it is not known.
    pub(super) project: Box<str>,
    /// Monotonic time.
    pub(super) expires: Duration,
}

/// An answer.
#[derive(Debug)]
struct Kept {
    digest: Digest,
    checked: Arc<Checked>,
}

impl Bounded for Kept {
    fn heap_bytes(&self) -> usize {
        let Checked { message, project, .. } = &*self.checked;
        size_of::<Checked>() + 2 * size_of::<usize>() + message.len() + project.len()
    }

    fn is_expired(&self, now: u64) -> bool {
        now >= nanos(self.checked.expires)
    }
}

/// The answers. Those used least recently make room for others.
#[derive(Debug)]
pub(super) struct AnswerCache {
    shards: Box<[Shard<BoundedTable<Kept>>]>,
    /// Most of each shard.
    most: usize,
}

impl AnswerCache {
    /// No answers; at most `size`, whose bytes are taken from `account`.
    pub(super) fn new(size: usize, account: &Arc<Account>) -> Self {
        let shards = if size < SMALL { 1 } else { SHARDS };
        let table = |_| Shard(Mutex::new(BoundedTable::within(Arc::clone(account), WhenFull::Evict)));
        Self { shards: (0..shards).map(table).collect(), most: size.div_ceil(shards) }
    }

    fn shard(&self, hash: u64) -> Option<&Mutex<BoundedTable<Kept>>> {
        Some(&self.shards.get(shard_of(hash) % self.shards.len().max(1))?.0)
    }

    /// The answer about a key that has not expired.
    pub(super) fn get(&self, digest: &Digest, now: Duration) -> Option<Arc<Checked>> {
        let (hash, now) = (hash(digest), nanos(now));
        let mut answers = self.shard(hash)?.lock();
        let look =
            |kept: &mut Kept| (Modified::Used, (!kept.is_expired(now)).then(|| Arc::clone(&kept.checked)));
        answers.modify(hash, |kept| kept.digest == *digest, now, look)?
    }

    /// Keeps an answer, in the place of one before it.
    pub(super) fn insert(&self, digest: Digest, checked: Arc<Checked>, now: Duration) {
        let (hash, now) = (hash(&digest), nanos(now));
        let Some(shard) = self.shard(hash) else { return };
        let mut answers = shard.lock();
        answers.remove(hash, |kept| kept.digest == digest);
        while answers.len() >= self.most && answers.evict_one(now) {}
        answers.insert(hash, Kept { digest, checked }, now);
    }
}

/// As tables count time.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Of a digest all bits are as good.
fn hash(digest: &Digest) -> u64 {
    digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use mixer_base::bounded::key_digest;
    use mixer_base::budget::Share;

    use super::*;

    /// An answer that expires after 100 ns.
    fn checked(message: String) -> Arc<Checked> {
        let expires = Duration::from_nanos(100);
        Arc::new(Checked { code: 0, message: message.into(), project: "".into(), expires })
    }

    fn digest(number: usize) -> Digest {
        key_digest(&number.to_le_bytes())
    }

    fn cache(size: usize, bytes: usize) -> (AnswerCache, Arc<Share>) {
        let share = Arc::new(Share::new(bytes));
        (AnswerCache::new(size, &Arc::new(share.open())), share)
    }

    fn count(cache: &AnswerCache, of: std::ops::Range<usize>) -> usize {
        of.filter(|number| cache.get(&digest(*number), Duration::ZERO).is_some()).count()
    }

    #[test]
    fn answers_about_keys_that_callers_choose_take_bounded_memory() {
        let (cache, share) = cache(100_000, 1 << 20);
        for number in 0..100_000 {
            cache.insert(digest(number), checked("x".repeat(256)), Duration::ZERO);
        }
        assert!((900_000..=1 << 20).contains(&share.used()), "{}", share.used());
        let kept = count(&cache, 0..100_000);
        assert!((1000..3000).contains(&kept), "{kept}");
        assert!(count(&cache, 99_500..100_000) == 500, "the newest ones");
        drop(cache);
        assert_eq!(share.used(), 0);
    }

    #[test]
    fn as_many_are_kept_as_are_configured_and_until_they_expire() {
        for (size, least) in [(1, 1), (10, 10), (2000, 1700)] {
            let (cache, _share) = cache(size, 16 << 20);
            for number in 0..2 * size {
                (0..2).for_each(|_| cache.insert(digest(number), checked(String::new()), Duration::ZERO));
            }
            let kept = count(&cache, 0..2 * size);
            assert!((least..=size + SHARDS).contains(&kept), "{size}: {kept}");
        }
        let (cache, _share) = cache(10, 1 << 20);
        cache.insert(digest(1), checked(String::new()), Duration::ZERO);
        let at = |nanos| cache.get(&digest(1), Duration::from_nanos(nanos));
        assert!(at(99).is_some() && at(100).is_none());
    }
}
