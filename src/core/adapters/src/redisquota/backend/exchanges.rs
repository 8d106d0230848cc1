//! The task of a handler that exchanges leases with Redis: all requests that are due at once go over the connection at once, and none waits for
//! the answer to another one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::sleep;

use super::answers::{Failure, Redis};
use super::lease::Answer;
use super::leases::{Exchange, Found, Leases, Next, Work};
use super::scripts::answer_of;
use crate::quotas::nanos;
use mixer_base::metrics::{Counter, Family, Metrics};
use mixer_engine::adapter::Clock;

/// Most exchanges under way when leases end.
const AT_ONCE: usize = 512;

/// Exchanges leases with Redis.
pub(super) struct Exchanges {
    pub(super) leases: Arc<Leases>,
    redis: Arc<Redis>,
    clock: Arc<dyn Clock>,
    answered: Counter,
    failed: Counter,
}

impl Exchanges {
    pub(super) fn new(
        leases: Arc<Leases>,
        redis: Arc<Redis>,
        clock: Arc<dyn Clock>,
        metrics: &Metrics,
        handler_name: &str,
    ) -> Self {
        let counter =
            |result: &str| metrics.counter(Family::RedisquotaLeaseRequests, &[handler_name, result]);
        let (answered, failed) = (counter("answered"), counter("failed"));
        Self { leases, redis, clock, answered, failed }
    }

    pub(super) fn now(&self) -> u64 {
        nanos(&*self.clock)
    }

    /// Sends a request.
    async fn ask(&self, exchange: Exchange) -> (Exchange, Result<Option<Answer>, Failure>) {
        let invocation = exchange.window.invocation(&exchange.id, &exchange.request);
        // Redis answers a repeated request as it did.
        let answer = self.redis.ask::<Vec<i64>>(&invocation, &exchange.window.meta, true).await;
        // Anybody who writes to the same Redis can write answers: none to this request grants more than it asks for.
        let most = exchange.request.need.saturating_add(exchange.request.extra);
        let answer = answer.map(|numbers| answer_of(&numbers).filter(|answer| answer.granted <= most));
        (exchange, answer)
    }

    fn finish(&self, exchange: &Exchange, result: &Result<Option<Answer>, Failure>) {
        match result {
            Ok(answer) => {
                self.answered.increment();
                self.leases.answered(exchange, answer.as_ref(), self.now());
            }
            Err(failure) => {
                self.failed.increment();
                self.leases.failed(exchange, failure, self.now());
            }
        }
    }

    /// Serves leases for as long as the handler lives.
    pub(super) async fn serve(&self) {
        // An exchange ends before; this is for a task that was restarted.
        let patience = u64::try_from(self.redis.timeout().as_nanos()).unwrap_or(u64::MAX).saturating_mul(2);
        let mut under_way = FuturesUnordered::new();
        let mut due: BinaryHeap<Reverse<(u64, Found)>> = BinaryHeap::new();
        let mut looks: Vec<(Found, Option<u64>)> =
            self.leases.all().into_iter().map(|found| (found, None)).collect();
        loop {
            let now = self.now();
            while let Some(Reverse((at, found))) = due.peek().copied().filter(|next| next.0.0 <= now) {
                due.pop();
                looks.push((found, Some(at)));
            }
            for (found, was_due) in looks.drain(..) {
                match self.leases.look(found, now, patience, was_due) {
                    Next::Send(exchange) => under_way.push(self.ask(exchange)),
                    Next::Later(at) => due.push(Reverse((at, found))),
                    Next::Nothing => {}
                }
            }
            let pause = due.peek().map(|next| Duration::from_nanos(next.0.0.saturating_sub(now)));
            tokio::select! {
                work = self.leases.work() => {
                    for work in work {
                        match work {
                            Work::Look(found) => looks.push((found, None)),
                            Work::Send(exchange) => under_way.push(self.ask(exchange)),
                        }
                    }
                }
                Some((exchange, result)) = under_way.next() => {
                    self.finish(&exchange, &result);
                    looks.push((exchange.found, None));
                }
                () = sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
        }
    }

    /// Gives back what leases hold.
    pub(super) async fn end(&self) {
        let requests = futures_util::stream::iter(self.leases.end(self.now()));
        let asked = requests.map(|exchange| self.ask(exchange)).buffer_unordered(AT_ONCE);
        asked.for_each(async |(exchange, result)| self.finish(&exchange, &result)).await;
    }
}
