//! Last good answers of handlers with `on-error: lastKnown`.

use std::hash::{BuildHasher as _, Hash as _, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::adapter::{CheckResult, Instance};
use crate::handler::LiveHandler;
use mixer_attribute::Value;
use mixer_base::bounded::{Bounded, BoundedTable, Modified, WhenFull, stored_key};
use mixer_base::budget::{MemoryBudget, Purpose, Share};

/// How long an answer is remembered.
const MAX_AGE: Duration = Duration::from_secs(600);

/// Good answers by handler and instance with its values, within a share of the memory budget. The oldest are forgotten first.
#[derive(Debug)]
pub struct LastKnownAnswers {
    started: Instant,
    /// Seeded, so that callers cannot choose keys of one hash.
    hasher: std::hash::RandomState,
    answers: Mutex<BoundedTable<KnownAnswer>>,
}

/// What an answer was given to: the handler, its signature, the version of its answers, the instance and its values; a digest if that is
/// long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerKey(Box<[u8]>);

#[derive(Debug)]
struct KnownAnswer {
    key: AnswerKey,
    /// When it was given, in milliseconds since the start.
    since: u64,
    result: CheckResult,
}

impl KnownAnswer {
    fn is_too_old(&self, now: u64) -> bool {
        u128::from(now.saturating_sub(self.since)) > MAX_AGE.as_millis()
    }
}

impl Bounded for KnownAnswer {
    fn heap_bytes(&self) -> usize {
        let status = &self.result.status;
        let details = status.details.iter().map(|d| size_of_val(d) + d.type_url.len() + d.value.len() + 32);
        self.key.0.len() + status.message.len() + 16 + details.sum::<usize>()
    }

    fn is_expired(&self, now: u64) -> bool {
        self.is_too_old(now)
    }
}

impl LastKnownAnswers {
    /// No answers yet. Bytes are taken from `share`.
    pub fn new(share: &Arc<Share>) -> Self {
        let table = BoundedTable::within(Arc::new(share.open()), WhenFull::Evict);
        Self { started: Instant::now(), hasher: Default::default(), answers: Mutex::new(table) }
    }

    /// Stores an answer in the place of an earlier one to the same key.
    pub(super) fn remember(&self, key: AnswerKey, answer: &CheckResult) {
        self.remember_at(self.now(), key, answer);
    }

    /// The last good answer, unless it is older than ten minutes.
    pub(super) fn recall(&self, key: &AnswerKey) -> Option<CheckResult> {
        self.recall_at(self.now(), key)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn remember_at(&self, now: u64, key: AnswerKey, answer: &CheckResult) {
        let hash = self.hasher.hash_one(&key.0);
        let mut answers = self.answers.lock();
        let known = answers.modify(
            hash,
            |known| known.key == key,
            now,
            |known| {
                (known.since, known.result) = (now, answer.clone());
                (Modified::Used, ())
            },
        );
        if known.is_none() {
            answers.insert(hash, KnownAnswer { key, since: now, result: answer.clone() }, now);
        }
    }

    fn recall_at(&self, now: u64, key: &AnswerKey) -> Option<CheckResult> {
        let answers = self.answers.lock();
        let known = answers.find(self.hasher.hash_one(&key.0), |known| known.key == *key)?;
        (!known.is_too_old(now)).then(|| known.result.clone())
    }
}

impl Default for LastKnownAnswers {
    /// With the default memory budget.
    fn default() -> Self {
        Self::new(MemoryBudget::default().share(Purpose::LastKnown))
    }
}

/// The key of an answer of `handler` to `instance`. Made before the check, so that no answer is kept under a later version than its own.
pub(super) fn answer_key(handler: &Arc<LiveHandler>, instance: &Instance<'_>) -> AnswerKey {
    let mut key = KeyBytes(Vec::with_capacity(128));
    handler.name().hash(&mut key);
    handler.signature().hash(&mut key);
    handler.answers_version().hash(&mut key);
    instance.name.hash(&mut key);
    for value in instance.values {
        match value {
            None => key.write_u8(0),
            Some(value) => write_value(*value, &mut key),
        }
    }
    AnswerKey((*stored_key(&key.0)).into())
}

/// Collects what is hashed instead of hashing it: `Hash` writes the parts of a value so that different values write different bytes.
struct KeyBytes(Vec<u8>);

impl Hasher for KeyBytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

fn write_value(value: Value<'_>, key: &mut KeyBytes) {
    // Absent values are 0.
    key.write_u8(match value {
        Value::String(_) => 1,
        Value::Bytes(_) => 2,
        Value::Int64(_) => 3,
        Value::Double(_) => 4,
        Value::Bool(_) => 5,
        Value::Timestamp(_) => 6,
        Value::Duration(_) => 7,
        Value::StringMap(_) => 8,
    });
    match value {
        Value::String(bytes) | Value::Bytes(bytes) => bytes.hash(key),
        Value::Int64(number) => number.hash(key),
        Value::Double(number) => number.to_bits().hash(key),
        Value::Bool(flag) => flag.hash(key),
        Value::Timestamp(instant) => instant.hash(key),
        Value::Duration(duration) => duration.hash(key),
        Value::StringMap(map) => {
            let mut entries = map.entries.to_vec();
            entries.sort_unstable();
            entries.hash(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(uses: i32) -> CheckResult {
        CheckResult { valid_use_count: uses, ..CheckResult::default() }
    }

    fn key(text: &str) -> AnswerKey {
        AnswerKey((*stored_key(text.as_bytes())).into())
    }

    #[test]
    fn the_latest_answer_is_returned_until_it_expires() {
        let answers = LastKnownAnswers::default();
        assert_eq!(answers.recall(&key("a")), None);
        answers.remember_at(0, key("a"), &answer(1));
        answers.remember_at(1, key("a"), &answer(2));
        assert_eq!(answers.recall_at(600_001, &key("a")), Some(answer(2)));
        assert_eq!(answers.recall_at(600_002, &key("a")), None, "expired");
        answers.remember(key("b"), &answer(3));
        assert_eq!(answers.recall(&key("b")), Some(answer(3)));
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_answers_are_forgotten() {
        let share = Arc::new(Share::new(1 << 20));
        let answers = LastKnownAnswers::new(&share);
        let long = "x".repeat(1 << 20);
        for n in 0..10_000 {
            answers.remember(key(&format!("{long}{n}").split_off((n % 2) << 20)), &answer(n as i32));
            assert!(share.used() <= share.limit());
        }
        assert!(answers.answers.lock().len() > 1000);
        assert_eq!(answers.recall(&key(&format!("{long}9998"))), Some(answer(9998)));
        assert_eq!(answers.recall(&key("9999")), Some(answer(9999)));
        assert_eq!(answers.recall(&key("1")), None);
    }

    #[test]
    fn keys_of_one_hash_have_their_own_answers() {
        let mut table = LastKnownAnswers::default().answers.into_inner();
        for name in ["a", "b"] {
            table.insert(7, KnownAnswer { key: key(name), since: 0, result: answer(1) }, 0);
        }
        assert!(table.find(7, |known| known.key == key("c")).is_none());
        assert_eq!(table.find(7, |known| known.key == key("b")).map(|k| k.key.clone()), Some(key("b")));
    }

    #[test]
    fn values_of_different_types_and_parts_have_different_keys() {
        let bytes = |values: &[Option<Value<'_>>]| {
            let mut key = KeyBytes(Vec::new());
            for value in values {
                match value {
                    None => key.write_u8(0),
                    Some(value) => write_value(*value, &mut key),
                }
            }
            key.0
        };
        let values: [&[Option<Value<'_>>]; 6] = [
            &[Some(Value::String(b"ab")), Some(Value::String(b"c"))],
            &[Some(Value::String(b"a")), Some(Value::String(b"bc"))],
            &[Some(Value::Bytes(b"ab")), Some(Value::String(b"c"))],
            &[Some(Value::Int64(1)), None],
            &[None, Some(Value::Int64(1))],
            &[Some(Value::Bool(true)), None],
        ];
        for (i, a) in values.iter().enumerate() {
            for b in values.iter().skip(i + 1) {
                assert_ne!(bytes(a), bytes(b));
            }
        }
    }
}
