//! Last good answers of handlers with `on-error: lastKnown`.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::adapter::{CheckResult, Instance};
use crate::handler::LiveHandler;
use mixer_attribute::Value;

/// Bounded store of good answers by answer key: a handler and an instance with its values.
#[derive(Debug)]
pub struct LastKnownAnswers {
    max_age: Duration,
    max_entries: usize,
    answers: Mutex<LastKnownState>,
}

#[derive(Debug, Default)]
struct LastKnownState {
    by_key: HashMap<u64, (Instant, CheckResult)>,
    /// Keys in the order of their first answer.
    order: VecDeque<u64>,
}

impl LastKnownAnswers {
    /// Stores at most `max_entries` answers, each for at most `max_age`.
    pub fn new(max_age: Duration, max_entries: usize) -> Self {
        Self { max_age, max_entries, answers: Mutex::default() }
    }

    /// Stores an answer; drops the oldest key when full.
    pub(super) fn remember(&self, key: u64, answer: &CheckResult) {
        let mut answers = self.answers.lock();
        if answers.by_key.insert(key, (Instant::now(), answer.clone())).is_none() {
            answers.order.push_back(key);
        }
        while answers.order.len() > self.max_entries {
            if let Some(oldest) = answers.order.pop_front() {
                answers.by_key.remove(&oldest);
            }
        }
    }

    /// The last good answer, unless expired.
    pub(super) fn recall(&self, key: u64) -> Option<CheckResult> {
        let answers = self.answers.lock();
        let (when, answer) = answers.by_key.get(&key)?;
        (when.elapsed() <= self.max_age).then(|| answer.clone())
    }
}

impl Default for LastKnownAnswers {
    /// Ten minutes, ten thousand answers.
    fn default() -> Self {
        Self::new(Duration::from_secs(600), 10_000)
    }
}

/// Hash of handler, its signature, instance and values.
pub(super) fn answer_key(handler: &Arc<LiveHandler>, instance: &Instance<'_>) -> u64 {
    let mut state = DefaultHasher::new();
    handler.name().hash(&mut state);
    handler.signature().hash(&mut state);
    instance.name.hash(&mut state);
    for value in instance.values {
        match value {
            None => state.write_u8(0),
            Some(value) => hash_value(*value, &mut state),
        }
    }
    state.finish()
}

fn hash_value(value: Value<'_>, state: &mut DefaultHasher) {
    std::mem::discriminant(&value).hash(state);
    match value {
        Value::String(bytes) | Value::Bytes(bytes) => bytes.hash(state),
        Value::Int64(number) => number.hash(state),
        Value::Double(number) => number.to_bits().hash(state),
        Value::Bool(flag) => flag.hash(state),
        Value::Timestamp(instant) => instant.hash(state),
        Value::Duration(duration) => duration.hash(state),
        Value::StringMap(map) => {
            let mut entries = map.entries.to_vec();
            entries.sort_unstable();
            entries.hash(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(uses: i32) -> CheckResult {
        CheckResult { valid_use_count: uses, ..CheckResult::default() }
    }

    #[test]
    fn the_latest_answer_is_returned_until_it_expires_or_is_evicted() {
        let answers = LastKnownAnswers::new(Duration::from_secs(60), 2);
        assert_eq!(answers.recall(1), None);
        answers.remember(1, &answer(1));
        answers.remember(1, &answer(2));
        assert_eq!(answers.recall(1), Some(answer(2)));
        answers.remember(2, &answer(3));
        answers.remember(3, &answer(4));
        assert_eq!((answers.recall(1), answers.recall(3)), (None, Some(answer(4))), "two at most");
        let expiring = LastKnownAnswers::new(Duration::ZERO, 2);
        expiring.remember(1, &answer(1));
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(expiring.recall(1), None, "expired");
    }
}
