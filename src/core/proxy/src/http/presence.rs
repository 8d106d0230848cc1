//! Waiting for something on behalf of a client, for as long as the client is there.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::time::Instant;

use super::arrival::Arrival;
use super::body::Missing;
use super::connection::Connection;
use super::exchange::{Event, WATCH_INTERVAL};
use super::filters::Step;
use super::forward::Request;
use super::framing::Framing;
use super::transaction::Transaction;
use crate::stats::ManagerStat;
use crate::timer::earlier;

/// Time limits of a request that waits.
#[derive(Debug, Default)]
struct Limits {
    /// Since its client last sent something.
    idle: Option<std::time::Duration>,
    /// Of the request, until it has passed the filters, or, if `arrival` tells, is complete.
    late: Option<Instant>,
    /// When the response is too late.
    response: Option<Instant>,
    /// What arrives of a request that is not complete. Boxed: most requests are.
    arrival: Option<Box<Arrival>>,
}

impl Limits {
    /// The limit of the request, as long as it holds.
    fn late(&self) -> Option<Instant> {
        let is_complete = self.arrival.as_ref().is_some_and(|arrival| arrival.complete().is_some());
        self.late.filter(|_| !is_complete)
    }

    /// When the response is too late.
    fn response(&self) -> Option<Instant> {
        self.response.or_else(|| self.arrival.as_ref()?.response_deadline())
    }
}

/// Why a wait has ended without a result.
enum Ended {
    /// The client is gone.
    Gone,
    /// What came of the request is not valid.
    Invalid,
    /// A time limit has passed.
    Late,
    Response,
    Idle,
}

impl Connection<'_> {
    /// Waits for `future` on behalf of a filter: no longer than a stream on which nothing happens, and than a request may take
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
        let mut limits = Limits { idle: self.manager.stream_idle_timeout, late, ..Limits::default() };
        self.wait(&mut limits, future).await.map_err(|ended| {
            // 408 says that the request was not received: its client may send it again.
            let missing = match (ended, self.client.is_incomplete(framing)) {
                (Ended::Gone | Ended::Invalid | Ended::Response, _) => Missing::Gone,
                (Ended::Late, true) => Missing::Late,
                (Ended::Late, false) => Missing::LateDecision,
                (Ended::Idle, true) => Missing::Idle,
                (Ended::Idle, false) => Missing::Decision,
            };
            self.without_body(transaction, missing)
        })
    }

    /// Waits for `future` on behalf of the router: no longer than a stream on which nothing happens, than the request may
    /// take until it is complete, and than its response may take from then on. A request may become complete meanwhile.
    ///
    /// Errors: what ends the request.
    pub(super) async fn while_routed<T>(
        &mut self,
        transaction: &Transaction<'_>,
        request: &mut Request<'_>,
        future: impl Future<Output = T>,
    ) -> Result<T, Event> {
        let (idle, body) = (self.manager.stream_idle_timeout, &request.body);
        let mut limits = Limits { idle, response: request.deadline(), ..Limits::default() };
        if body.complete.is_none() {
            limits.late = self.manager.request_timeout.map(|limit| transaction.began + limit);
            // A request to change the protocol is never complete, and of a copy its end tells.
            limits.arrival = (transaction.upgrade.is_none() && !self.client.is_copy())
                .then(|| Box::new(Arrival::new(body.remaining, request.forward.timeout)));
        }
        let waited = self.wait(&mut limits, future).await;
        if let Some(arrival) = limits.arrival {
            request.body.complete = arrival.complete();
        }
        waited.map_err(|ended| match (ended, request.body.complete) {
            (Ended::Gone, _) => Event::DownstreamGone,
            (Ended::Invalid, _) => Event::InvalidBody,
            (Ended::Late, _) => Event::RequestTimeout,
            (Ended::Response, _) => Event::ResponseTimeout,
            (Ended::Idle, Some(_)) => Event::HostIdle,
            (Ended::Idle, None) => Event::IdleTimeout,
        })
    }

    /// Waits for `future`. What the client sends meanwhile is kept, 64 KiB or the window of a stream at most, and its end ends the wait. Of a client
    /// that is not read from any more, a reset is noticed within a second.
    async fn wait<T>(&mut self, limits: &mut Limits, future: impl Future<Output = T>) -> Result<T, Ended> {
        let mut future = pin!(future);
        let (client, timer) = (&mut self.client, &mut self.timer);
        let limit = limits.idle;
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
            if let Some(arrival) = &mut limits.arrival
                && arrival.look(client).is_err()
            {
                return Poll::Ready(Err(Ended::Invalid));
            }
            let (late, response) = (limits.late(), limits.response());
            loop {
                let is_paused = client.is_paused();
                if is_paused && client.is_reset() {
                    return Poll::Ready(Err(Ended::Gone));
                }
                look = look.filter(|_| is_paused);
                look = look.or_else(|| is_paused.then(|| Instant::now() + WATCH_INTERVAL));
                let next = earlier(earlier(earlier(idle, late), response), look);
                timer.set(next);
                if timer.poll(cx).is_pending() {
                    return Poll::Pending;
                }
                if next == response {
                    return Poll::Ready(Err(Ended::Response));
                } else if next == late {
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
