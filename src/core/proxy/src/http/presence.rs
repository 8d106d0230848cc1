//! Waiting for something on behalf of a client, for as long as the client is there.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::time::Instant;

use super::body::Missing;
use super::connection::Connection;
use super::exchange::WATCH_INTERVAL;
use super::filters::Step;
use super::framing::Framing;
use super::transaction::Transaction;
use crate::stats::ManagerStat;
use crate::timer::earlier;

/// Time limits of a request that waits.
#[derive(Debug, Default)]
struct Limits {
    /// Since its client last sent something.
    idle: Option<std::time::Duration>,
    /// Of the request, until it has passed the filters.
    late: Option<Instant>,
}

/// Why a wait has ended without a result.
enum Ended {
    /// The client is gone.
    Gone,
    /// A time limit has passed.
    Late,
    Idle,
}

impl Connection<'_> {
    /// Waits for `future`. What the client sends meanwhile is kept, 64 KiB or the window of a stream at most, and its end ends the wait: `None`.
    /// Of a client that is not read from any more, a reset is noticed within a second.
    pub(super) async fn while_there<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        self.wait(Limits::default(), future).await.ok()
    }

    /// As [`while_there`](Self::while_there), on behalf of a filter: no longer than a stream on which nothing happens, and than a request may take
    /// until it has passed the filters.
    ///
    /// Errors: what becomes of the request.
    pub(super) async fn while_filtered<T>(
        &mut self,
        transaction: &mut Transaction<'_>,
        framing: Framing,
        future: impl Future<Output = T>,
    ) -> Result<T, Step> {
        let late = self.manager.request_timeout.map(|limit| transaction.began + limit);
        let limits = Limits { idle: self.manager.stream_idle_timeout, late };
        self.wait(limits, future).await.map_err(|ended| {
            // 408 says that the request was not received: its client may send it again.
            let missing = match (ended, self.client.is_incomplete(framing)) {
                (Ended::Gone, _) => Missing::Gone,
                (Ended::Late, true) => Missing::Late,
                (Ended::Late, false) => Missing::LateDecision,
                (Ended::Idle, true) => Missing::Idle,
                (Ended::Idle, false) => Missing::Decision,
            };
            self.without_body(transaction, missing)
        })
    }

    async fn wait<T>(&mut self, limits: Limits, future: impl Future<Output = T>) -> Result<T, Ended> {
        let mut future = pin!(future);
        let (client, timer) = (&mut self.client, &mut self.timer);
        let Limits { idle: limit, late } = limits;
        let mut idle = limit.map(|limit| Instant::now() + limit);
        let (mut received, mut look) = (0, None);
        let ended = poll_fn(|cx| {
            if let Poll::Ready(done) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(done));
            }
            let progress = client.watch(cx);
            received += u64::try_from(progress.bytes).unwrap_or(0);
            if progress.end.is_some() {
                return Poll::Ready(Err(Ended::Gone));
            }
            if progress.moved {
                idle = limit.map(|limit| Instant::now() + limit);
            }
            loop {
                let is_paused = client.is_paused();
                if is_paused && client.is_reset() {
                    return Poll::Ready(Err(Ended::Gone));
                }
                look = look.filter(|_| is_paused);
                look = look.or_else(|| is_paused.then(|| Instant::now() + WATCH_INTERVAL));
                let next = earlier(earlier(idle, late), look);
                timer.set(next);
                if timer.poll(cx).is_pending() {
                    return Poll::Pending;
                }
                if next == late {
                    return Poll::Ready(Err(Ended::Late));
                } else if next == idle {
                    return Poll::Ready(Err(Ended::Idle));
                } else {
                    look = None;
                }
            }
        })
        .await;
        self.manager.stats.add(ManagerStat::DownstreamCxRxBytesTotal, received);
        ended
    }
}
