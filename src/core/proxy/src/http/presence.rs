//! Waiting for something on behalf of a client, for as long as the client is there.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::time::Instant;

use super::connection::Connection;
use super::exchange::WATCH_INTERVAL;
use crate::buffer::{self, HIGH_WATERMARK};
use crate::stats::ManagerStat;

impl Connection<'_> {
    /// Waits for `future`. What the client sends meanwhile is kept, 64 KiB at most, and its end ends the wait: `None`. Of a client that is
    /// not read from any more, a reset is noticed within a second.
    pub(super) async fn while_there<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let (stream, input, timer) = (&mut self.stream, &mut self.input, &mut self.timer);
        let stats = &self.manager.stats;
        poll_fn(|cx| {
            if let Poll::Ready(done) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            while input.len() < HIGH_WATERMARK {
                match buffer::poll_read(stream, input, cx) {
                    Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(None),
                    Poll::Ready(Ok(count)) => {
                        stats.add(ManagerStat::DownstreamCxRxBytesTotal, u64::try_from(count).unwrap_or(0));
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
            loop {
                if stream.is_reset() {
                    return Poll::Ready(None);
                }
                timer.set(Some(Instant::now() + WATCH_INTERVAL));
                if timer.poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }
}
