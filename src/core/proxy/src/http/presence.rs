//! Waiting for something on behalf of a client, for as long as the client is there.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::time::Instant;

use super::connection::Connection;
use super::exchange::WATCH_INTERVAL;
use crate::stats::ManagerStat;

impl Connection<'_> {
    /// Waits for `future`. What the client sends meanwhile is kept, 64 KiB at most, and its end ends the wait: `None`. Of a client that is
    /// not read from any more, a reset is noticed within a second.
    pub(super) async fn while_there<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let (client, timer) = (&mut self.client, &mut self.timer);
        let (mut received, mut ended) = (0, None);
        poll_fn(|cx| {
            if let Poll::Ready(done) = future.as_mut().poll(cx) {
                ended = Some(done);
                return Poll::Ready(());
            }
            if client.poll_gone(cx, &mut received).is_ready() {
                return Poll::Ready(());
            }
            while client.is_paused() {
                if client.is_reset() {
                    return Poll::Ready(());
                }
                timer.set(Some(Instant::now() + WATCH_INTERVAL));
                if timer.poll(cx).is_pending() {
                    break;
                }
            }
            Poll::Pending
        })
        .await;
        self.manager.stats.add(ManagerStat::DownstreamCxRxBytesTotal, received);
        ended
    }
}
