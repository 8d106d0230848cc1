//! What Redis last said of windows that this server asked it for, for operators.

use parking_lot::Mutex;

use crate::quotas::{SHARDS, Shard, shard_of};
use mixer_base::bounded::{Bounded, BoundedTable, Modified, WhenFull};

/// Most bytes of it in each of [`SHARDS`] tables: about a thousand windows in all, those asked for last.
const MAX_BYTES: usize = 16 << 10;

/// What is known of windows.
pub(super) struct SeenWindows([Shard<BoundedTable<SeenWindow>>; SHARDS]);

/// What is known of a window. Times are nanoseconds of the clock of the handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SeenWindow {
    pub(super) key: Box<[u8]>,
    pub(super) limit: i64,
    /// What was left.
    pub(super) left: i64,
    /// When Redis said so.
    pub(super) at: u64,
    /// When everything is available again.
    ends: u64,
}

impl Bounded for SeenWindow {
    fn heap_bytes(&self) -> usize {
        self.key.len()
    }

    fn is_expired(&self, now: u64) -> bool {
        now >= self.ends
    }

    fn eviction_rank(&self) -> u64 {
        self.at
    }
}

impl SeenWindows {
    /// Nothing is known.
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Shard(Mutex::new(BoundedTable::new(MAX_BYTES, WhenFull::Evict)))))
    }

    /// Redis says that so much is left of a window, which lasts for so many nanoseconds more.
    pub(super) fn note(&self, hash: u64, key: &[u8], limit: i64, left: i64, now: u64, lasts: u64) {
        let Some(shard) = self.0.get(shard_of(hash)) else { return };
        let ends = now.saturating_add(lasts);
        let mut table = shard.0.lock();
        let change = |known: &mut SeenWindow| {
            (known.limit, known.left, known.at, known.ends) = (limit, left, now, ends);
            (Modified::Used, ())
        };
        if table.modify(hash, |known| *known.key == *key, now, change).is_none() {
            table.insert(hash, SeenWindow { key: key.into(), limit, left, at: now, ends }, now);
        }
    }

    /// Looks at each window that is not over. Holds one lock at a time, and none in `look`.
    pub(super) fn each(&self, now: u64, mut look: impl FnMut(SeenWindow)) {
        for shard in &self.0 {
            let known: Vec<SeenWindow> = {
                let table = shard.0.lock();
                table.iter().filter(|known| !known.is_expired(now)).cloned().collect()
            };
            known.into_iter().for_each(&mut look);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_windows_is_bounded_and_ends_with_them() {
        let seen = SeenWindows::new();
        let known = |now| {
            let (mut count, mut last) = (0, None);
            seen.each(now, |window| {
                count += 1;
                last = Some(window);
            });
            (count, last)
        };
        seen.note(1, b"a", 10, 7, 100, 50);
        seen.note(1, b"a", 10, 4, 120, 30);
        let a = SeenWindow { key: (*b"a").into(), limit: 10, left: 4, at: 120, ends: 150 };
        assert_eq!(known(149), (1, Some(a)));
        assert_eq!(known(150), (0, None));
        for number in 0..100_000_u64 {
            let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            seen.note(hash, &number.to_le_bytes(), 10, 4, 200, 1000);
        }
        let (count, _) = known(200);
        assert!((500..2000).contains(&count), "{count}");
    }
}
