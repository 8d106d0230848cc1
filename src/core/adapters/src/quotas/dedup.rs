//! Recorded answers by deduplication id.

use std::sync::Arc;

use mixer_base::bounded::{Bounded, BoundedTable, WhenFull, stored_key};
use mixer_base::budget::Account;

/// A recorded answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    /// The amount granted or released.
    pub(crate) granted: i64,
    /// On the clock of the handler, in nanoseconds; `None`: the grant has no duration.
    pub(crate) expires: Option<u64>,
}

/// Answers of the current period and of the one before. Beyond the account of the handler, the oldest answers are evicted: ids are then
/// remembered for less than the configured time.
#[derive(Debug)]
pub(crate) struct Dedup {
    start: u64,
    length: u64,
    period: u64,
    answers: BoundedTable<Answer>,
}

#[derive(Debug)]
struct Answer {
    id: Box<[u8]>,
    period: u64,
    record: Record,
}

impl Bounded for Answer {
    fn heap_bytes(&self) -> usize {
        self.id.len()
    }

    /// The time of the table is the number of the current period.
    fn is_expired(&self, period: u64) -> bool {
        self.period + 1 < period
    }
}

impl Dedup {
    /// Periods of `length` nanoseconds, counted from `start`. Bytes are taken from `account`.
    pub(crate) fn new(start: u64, length: u64, account: Arc<Account>) -> Self {
        let answers = BoundedTable::within(account, WhenFull::Evict);
        Self { start, length, period: 0, answers }
    }

    /// Moves to the period of `now`, never back.
    pub(crate) fn advance(&mut self, now: u64) {
        self.period = self.period.max(now.saturating_sub(self.start) / self.length.max(1));
    }

    /// The answer recorded for `id`.
    pub(crate) fn find(&self, hash: u64, id: &[u8]) -> Option<Record> {
        let id = &*stored_key(id);
        let is_current = |answer: &Answer| *answer.id == *id && !answer.is_expired(self.period);
        self.answers.find(hash, is_current).map(|answer| answer.record)
    }

    /// Records another answer for an id that has one.
    #[cfg_attr(
        not(feature = "adapter-redisquota"),
        expect(dead_code, reason = "redisquota forgets answers early")
    )]
    pub(crate) fn replace(&mut self, hash: u64, id: &[u8], record: Record) {
        let stored = &*stored_key(id);
        self.answers.remove(hash, |answer| *answer.id == *stored);
        self.insert(hash, id, record);
    }

    /// Records the answer for an id that has none.
    pub(crate) fn insert(&mut self, hash: u64, id: &[u8], record: Record) {
        let answer = Answer { id: (*stored_key(id)).into(), period: self.period, record };
        self.answers.insert(hash, answer, self.period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_base::budget::Share;

    const BYTES: usize = 6 << 20;

    fn within(start: u64, length: u64) -> Dedup {
        Dedup::new(start, length, Arc::new(Arc::new(Share::new(BYTES)).open()))
    }

    const ANSWER: Record = Record { granted: 3, expires: None };

    #[test]
    fn an_id_lives_between_one_and_two_periods() {
        let mut dedup = within(1000, 10);
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
        let mut dedup = within(0, 10);
        dedup.insert(1, b"x", ANSWER);
        assert_eq!(dedup.find(1, b"y"), None);
        assert_eq!(dedup.find(1, b""), None);
        assert_eq!(dedup.find(1, b"x"), Some(ANSWER));
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_ids_are_evicted() {
        let mut dedup = within(0, u64::MAX);
        for i in 0..200_000_u64 {
            dedup.insert(i, &i.to_le_bytes(), ANSWER);
        }
        assert!(dedup.answers.bytes() <= BYTES);
        assert!(dedup.answers.len() > 32_768, "{}", dedup.answers.len());
        assert_eq!(dedup.find(199_999, &199_999_u64.to_le_bytes()), Some(ANSWER));
        assert_eq!(dedup.find(0, &0_u64.to_le_bytes()), None);
        let long = vec![0; BYTES];
        dedup.insert(1, &long, ANSWER);
        assert_eq!(dedup.find(1, &long), Some(ANSWER), "a long id takes no more room than a short one");
        assert_eq!(dedup.find(199_999, &199_999_u64.to_le_bytes()), Some(ANSWER));
    }

    #[test]
    fn answers_of_past_periods_are_removed() {
        let mut dedup = within(0, 10);
        for i in 0..100_000_u64 {
            dedup.advance(i);
            dedup.insert(i, &i.to_le_bytes(), ANSWER);
            assert!(dedup.answers.len() <= 22, "{}", dedup.answers.len());
        }
    }
}
