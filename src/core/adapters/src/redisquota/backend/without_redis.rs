//! What calls get while Redis does not answer.

use std::sync::Arc;

use parking_lot::Mutex;

use super::super::{OutageMode, Params};
use super::answers::{Failure, Redis};
use crate::quotas::cells::Cells;
use crate::quotas::{Limit, SHARDS, Shard, shard_of};
use mixer_attribute::SignedDuration;
use mixer_base::budget::Account;
use mixer_base::metrics::{Counter, Family, Metrics};
use mixer_engine::adapter::{HandlerError, QuotaResult};

/// The mode of a handler, and the amounts that it grants by itself.
pub(super) struct WithoutRedis {
    mode: OutageMode,
    percent: i64,
    cells: Option<[Shard<Cells>; SHARDS]>,
    answered: Counter,
    failed: Counter,
}

/// A call that has no answer.
pub(super) struct Unanswered<'c> {
    pub(super) key: &'c [u8],
    pub(super) hash: u64,
    pub(super) limit: i64,
    /// Of the window, in nanoseconds.
    pub(super) length: i64,
    pub(super) amount: i64,
    pub(super) best_effort: bool,
}

impl WithoutRedis {
    /// Amounts take their bytes from `account`.
    pub(super) fn new(
        params: &Params,
        account: &Arc<Account>,
        metrics: &Metrics,
        handler_name: &str,
    ) -> Self {
        let mode = params.outage_mode;
        let shard = |_| Shard(Mutex::new(Cells::new(Arc::clone(account))));
        let counter = |answer: &str| metrics.counter(Family::RedisquotaCalls, &[answer, handler_name]);
        let failed = counter("failed");
        let answered = if mode == OutageMode::Fail { failed.clone() } else { counter(name(mode)) };
        Self {
            mode,
            percent: params.local_share_percent,
            cells: (mode == OutageMode::LocalShare).then(|| std::array::from_fn(shard)),
            answered,
            failed,
        }
    }

    /// The label of the mode.
    pub(super) fn name(&self) -> &'static str {
        name(self.mode)
    }

    /// Whether answers depend on the key of a call.
    pub(super) fn needs_key(&self) -> bool {
        self.mode == OutageMode::LocalShare
    }

    /// For operators.
    pub(super) fn describe(&self) -> String {
        match self.mode {
            OutageMode::Fail => "calls fail, and `mixer.dev/on-error` decides".to_owned(),
            OutageMode::FailOpen => "grants what is asked for; calls that Redis refuses fail".to_owned(),
            OutageMode::FailClosed => "grants nothing".to_owned(),
            OutageMode::LocalShare => format!("grants {} % of each limit by itself", self.percent),
        }
    }

    /// The part of each limit that is granted, in percent, if a part is.
    pub(super) fn local_share(&self) -> Option<i64> {
        self.cells.is_some().then_some(self.percent)
    }

    /// The part of a limit.
    pub(super) fn part_of(&self, limit: i64) -> i64 {
        let part = i128::from(limit) * i128::from(self.percent) / 100;
        i64::try_from(part).unwrap_or(limit)
    }

    /// Looks at each key of which something is granted, and at the amount. Holds one lock at a time, and none in `look`.
    pub(super) fn each(&self, now: u64, mut look: impl FnMut(Box<[u8]>, i64)) {
        for shard in self.cells.iter().flatten() {
            let used: Vec<(Box<[u8]>, i64)> = {
                let cells = shard.0.lock();
                cells.in_use(now).map(|(key, used)| (key.into(), used)).collect()
            };
            used.into_iter().for_each(|(key, used)| look(key, used));
        }
    }

    /// Answers a call. Errors: in the mode in which it fails.
    pub(super) fn answer(
        &self,
        redis: &Redis,
        failure: &Failure,
        call: &Unanswered<'_>,
        now: u64,
    ) -> Result<QuotaResult, HandlerError> {
        let why = redis.describe(failure);
        let valid_duration = SignedDuration::from_nanos(call.length);
        let answer = match self.mode {
            OutageMode::Fail => Err(HandlerError::new(why)),
            // What lasts until somebody mends it, and callers may bring about, takes no limit away: a Redis that is full, for example.
            OutageMode::FailOpen if !failure.is_outage() => Err(HandlerError::new(why)),
            OutageMode::FailOpen => Ok(QuotaResult { granted: call.amount, valid_duration }),
            OutageMode::FailClosed => Ok(QuotaResult::default()),
            OutageMode::LocalShare => Ok(self.local(call, valid_duration, now)),
        };
        let counter = if answer.is_ok() { &self.answered } else { &self.failed };
        counter.increment();
        answer
    }

    fn local(&self, call: &Unanswered<'_>, valid_duration: SignedDuration, now: u64) -> QuotaResult {
        let shard = self.cells.as_ref().and_then(|shards| shards.get(shard_of(call.hash)));
        let Some(shard) = shard else { return QuotaResult::default() };
        let mut cells = shard.0.lock();
        if call.amount < 0 {
            let granted = cells.release(call.hash, call.key, call.amount.saturating_neg(), now);
            return QuotaResult { granted: granted.saturating_neg(), valid_duration: SignedDuration::ZERO };
        }
        let limit = Limit { max_amount: self.part_of(call.limit), valid_duration };
        let (granted, _) = cells.allocate(call.hash, call.key, limit, call.amount, call.best_effort, now);
        if granted == 0 { QuotaResult::default() } else { QuotaResult { granted, valid_duration } }
    }
}

fn name(mode: OutageMode) -> &'static str {
    match mode {
        OutageMode::Fail => "fails",
        OutageMode::FailOpen => "open",
        OutageMode::FailClosed => "closed",
        OutageMode::LocalShare => "local",
    }
}
