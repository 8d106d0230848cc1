//! Answers by deduplication id.

use hashbrown::HashTable;

use super::SHARDS;

/// Most ids of one period of one handler. When there are more, the period ends early: ids are then remembered for less than
/// the configured time.
pub(super) const MAX_IDS: usize = 524_288;
/// Most bytes of ids of one period in one part; as above.
const MAX_ID_BYTES: usize = 1 << 20;
/// Tables larger than this are given back when a period ends.
const KEPT_CAPACITY: usize = 4096;

/// A recorded answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// What was granted or given back.
    pub(super) granted: i64,
    /// Nanoseconds since 1970; `None`: the grant had no duration.
    pub(super) expires: Option<u64>,
}

/// Two generations of records: one that grows and one that waits for its end.
#[derive(Debug)]
pub(super) struct Dedup {
    start: u64,
    length: u64,
    period: u64,
    recent: Generation,
    old: Generation,
}

#[derive(Debug, Default)]
struct Generation {
    table: HashTable<Entry>,
    /// The ids, one after the other.
    ids: Vec<u8>,
}

#[derive(Debug)]
struct Entry {
    hash: u64,
    start: usize,
    len: usize,
    record: Record,
}

impl Dedup {
    /// Periods of `length` nanoseconds, counted from `start`.
    pub(super) fn new(start: u64, length: u64) -> Self {
        Self { start, length, period: 0, recent: Generation::default(), old: Generation::default() }
    }

    /// Ends the periods that are over at `now`.
    pub(super) fn advance(&mut self, now: u64) {
        let period = now.saturating_sub(self.start) / self.length.max(1);
        if period <= self.period {
            return;
        }
        if period > self.period + 1 {
            self.recent.clear();
        }
        self.period = period;
        self.end_period();
    }

    fn end_period(&mut self) {
        std::mem::swap(&mut self.recent, &mut self.old);
        self.recent.clear();
    }

    /// The answer recorded for `id`.
    pub(super) fn find(&self, hash: u64, id: &[u8]) -> Option<Record> {
        self.recent.find(hash, id).or_else(|| self.old.find(hash, id))
    }

    /// Records the answer for an id that has none. An id too long to be kept is not deduplicated.
    pub(super) fn insert(&mut self, hash: u64, id: &[u8], record: Record) {
        if self.recent.table.len() >= MAX_IDS / SHARDS || self.recent.ids.len() + id.len() > MAX_ID_BYTES {
            self.end_period();
        }
        if id.len() <= MAX_ID_BYTES {
            self.recent.insert(hash, id, record);
        }
    }
}

impl Generation {
    fn find(&self, hash: u64, id: &[u8]) -> Option<Record> {
        let same = |e: &Entry| self.ids.get(e.start..e.start + e.len) == Some(id);
        self.table.find(hash, same).map(|e| e.record)
    }

    fn insert(&mut self, hash: u64, id: &[u8], record: Record) {
        let entry = Entry { hash, start: self.ids.len(), len: id.len(), record };
        self.ids.extend_from_slice(id);
        self.table.insert_unique(hash, entry, |e| e.hash);
    }

    fn clear(&mut self) {
        if self.table.capacity() > KEPT_CAPACITY {
            *self = Self::default();
        } else {
            self.table.clear();
            self.ids.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Record = Record { granted: 3, expires: None };

    #[test]
    fn an_id_lives_between_one_and_two_periods() {
        let mut dedup = Dedup::new(1000, 10);
        dedup.advance(1005);
        dedup.insert(1, b"x", ANSWER);
        for (now, found) in [(1009, true), (1010, true), (1019, true), (1020, false)] {
            dedup.advance(now);
            assert_eq!(dedup.find(1, b"x").is_some(), found, "{now}");
        }
        dedup.insert(1, b"x", ANSWER);
        dedup.advance(2000);
        assert_eq!(dedup.find(1, b"x"), None);
    }

    #[test]
    fn ids_are_compared_in_full() {
        let mut dedup = Dedup::new(0, 10);
        dedup.insert(1, b"x", ANSWER);
        assert_eq!(dedup.find(1, b"y"), None);
        assert_eq!(dedup.find(1, b""), None);
        assert_eq!(dedup.find(1, b"x"), Some(ANSWER));
    }

    #[test]
    fn memory_is_bounded() {
        let mut dedup = Dedup::new(0, u64::MAX);
        for i in 0..200_000_u64 {
            dedup.insert(i, &i.to_le_bytes(), ANSWER);
        }
        assert!(dedup.recent.table.len() <= MAX_IDS / SHARDS);
        assert!(dedup.old.table.len() <= MAX_IDS / SHARDS);
        assert_eq!(dedup.find(199_999, &199_999_u64.to_le_bytes()), Some(ANSWER));
        dedup.insert(1, &vec![0; MAX_ID_BYTES + 1], ANSWER);
        assert!(dedup.recent.ids.len() <= MAX_ID_BYTES);
    }
}
