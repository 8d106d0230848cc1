//! Last good answers, for handlers that are configured to repeat them when they fail.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::adapter::{CheckResult, Instance};
use crate::handler::LiveHandler;
use mixer_attribute::Value;

/// A bounded memory of good answers by question. A question is a handler and an instance with its values.
#[derive(Debug)]
pub struct LastKnownAnswers {
    max_age: Duration,
    max_entries: usize,
    answers: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    by_question: HashMap<u64, (Instant, CheckResult)>,
    /// Questions in the order in which they were first asked.
    order: VecDeque<u64>,
}

impl LastKnownAnswers {
    /// A memory of at most `max_entries` answers that are repeated for at most `max_age`.
    pub fn new(max_age: Duration, max_entries: usize) -> Self {
        Self { max_age, max_entries, answers: Mutex::default() }
    }

    /// Keeps an answer; drops the oldest question when full.
    pub(super) fn remember(&self, question: u64, answer: &CheckResult) {
        let mut answers = self.answers.lock();
        if answers.by_question.insert(question, (Instant::now(), answer.clone())).is_none() {
            answers.order.push_back(question);
        }
        while answers.order.len() > self.max_entries {
            if let Some(oldest) = answers.order.pop_front() {
                answers.by_question.remove(&oldest);
            }
        }
    }

    /// The last good answer, if it is young enough.
    pub(super) fn recall(&self, question: u64) -> Option<CheckResult> {
        let answers = self.answers.lock();
        let (when, answer) = answers.by_question.get(&question)?;
        (when.elapsed() <= self.max_age).then(|| answer.clone())
    }
}

impl Default for LastKnownAnswers {
    /// Ten minutes, ten thousand answers.
    fn default() -> Self {
        Self::new(Duration::from_secs(600), 10_000)
    }
}

/// The number of a question: handler, its signature, instance and values.
pub(super) fn question(handler: &Arc<LiveHandler>, instance: &Instance<'_>) -> u64 {
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
    fn the_latest_answer_is_repeated_until_it_is_too_old_or_pushed_out() {
        let memory = LastKnownAnswers::new(Duration::from_secs(60), 2);
        assert_eq!(memory.recall(1), None);
        memory.remember(1, &answer(1));
        memory.remember(1, &answer(2));
        assert_eq!(memory.recall(1), Some(answer(2)));
        memory.remember(2, &answer(3));
        memory.remember(3, &answer(4));
        assert_eq!((memory.recall(1), memory.recall(3)), (None, Some(answer(4))), "two at most");
        let forgetful = LastKnownAnswers::new(Duration::ZERO, 2);
        forgetful.remember(1, &answer(1));
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(forgetful.recall(1), None, "too old");
    }
}
