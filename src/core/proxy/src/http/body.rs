//! The body of a request as filters see it: read ahead, and left where it is for the host.

use std::future::poll_fn;
use std::task::Poll;

use bytes::BytesMut;
use tokio::time::Instant;

use super::connection::{Connection, Transaction};
use super::filters::{LocalReply, Step};
use super::framing::{Framing, Remaining};
use crate::buffer;
use crate::flags::Flag;
use crate::stats::ManagerStat;
use crate::timer::earlier;

/// The beginning of a body.
#[derive(Debug)]
pub(super) struct Ahead {
    /// At most as many bytes as were asked for.
    pub(super) data: Vec<u8>,
    /// Bytes of the body that have arrived.
    pub(super) received: u64,
    /// Whether there is more.
    pub(super) is_partial: bool,
}

/// Why the beginning of a body is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Gone,
    Invalid,
    TooLarge,
    Idle,
    Late,
}

impl Connection<'_> {
    /// Reads a body up to its end or `max` bytes, without taking it from the input. If it is longer it is refused, unless `allow_partial`.
    ///
    /// Errors: what becomes of the request without it.
    pub(super) async fn read_ahead(
        &mut self,
        transaction: &mut Transaction<'_>,
        framing: Framing,
        max: usize,
        allow_partial: bool,
    ) -> Result<Ahead, Step> {
        // The client may wait to be told that it may send.
        if self.flush().await.is_err() {
            return Err(Step::Gone);
        }
        match self.poll_ahead(transaction.began, framing, max, allow_partial).await {
            Ok(ahead) => Ok(ahead),
            Err(missing) => Err(self.without_body(transaction, missing)),
        }
    }

    async fn poll_ahead(
        &mut self,
        began: Instant,
        framing: Framing,
        max: usize,
        allow_partial: bool,
    ) -> Result<Ahead, Missing> {
        let idle_limit = self.manager.stream_idle_timeout;
        let late = self.manager.request_timeout.map(|limit| began + limit);
        // Chunks may be small: what stands between them is bounded, too.
        let most = max.saturating_mul(2).saturating_add(buffer::HIGH_WATERMARK);
        let (mut remaining, mut raw, mut seen) = (Remaining::of(framing), BytesMut::new(), 0);
        let mut data = Vec::new();
        let mut idle = idle_limit.map(|limit| Instant::now() + limit);
        let stats = &self.manager.stats;
        let (stream, input, timer) = (&mut self.stream, &mut self.input, &mut self.timer);
        poll_fn(|cx| {
            loop {
                raw.extend_from_slice(input.get(seen..).unwrap_or_default());
                seen = input.len();
                // One byte more shows that there is more.
                while !remaining.is_done() && data.len() <= max {
                    let room = max + 1 - data.len();
                    match remaining.decode(&mut raw, room, |piece| data.extend_from_slice(piece)) {
                        Ok(0) => break,
                        Ok(_) => {}
                        Err(_) => return Poll::Ready(Err(Missing::Invalid)),
                    }
                }
                let is_longer = data.len() > max;
                if is_longer && !allow_partial {
                    return Poll::Ready(Err(Missing::TooLarge));
                }
                if remaining.is_done() || is_longer || (allow_partial && data.len() >= max) {
                    let mut received = u64::try_from(data.len()).unwrap_or(0);
                    while let Ok(count @ 1..) = remaining.decode(&mut raw, usize::MAX, |_| {}) {
                        received += u64::try_from(count).unwrap_or(0);
                    }
                    data.truncate(max);
                    let (data, is_partial) = (std::mem::take(&mut data), is_longer);
                    return Poll::Ready(Ok(Ahead { data, received, is_partial }));
                }
                if input.len() >= most {
                    return Poll::Ready(Err(Missing::TooLarge));
                }
                match buffer::poll_read(stream, input, cx) {
                    Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(Err(Missing::Gone)),
                    Poll::Ready(Ok(count)) => {
                        let count = u64::try_from(count).unwrap_or(0);
                        stats.add(ManagerStat::DownstreamCxRxBytesTotal, count);
                        idle = idle_limit.map(|limit| Instant::now() + limit);
                    }
                    Poll::Pending => {
                        timer.set(earlier(idle, late));
                        let is_late = late.is_some_and(|late| idle.is_none_or(|idle| late <= idle));
                        let missing = if is_late { Missing::Late } else { Missing::Idle };
                        return timer.poll(cx).map(|()| Err(missing));
                    }
                }
            }
        })
        .await
    }

    /// What becomes of a request whose body cannot be read.
    fn without_body(&self, transaction: &mut Transaction<'_>, missing: Missing) -> Step {
        let stats = &self.manager.stats;
        let (status, body, details, flag) = match missing {
            Missing::Gone => return Step::Gone,
            Missing::Invalid => {
                stats.increment(ManagerStat::DownstreamCxProtocolError);
                (400, "Bad Request", "http1.codec_error", Some(Flag::Dpe))
            }
            Missing::TooLarge => {
                stats.increment(ManagerStat::DownstreamRqTooLarge);
                (413, "Payload Too Large", "request_payload_too_large", None)
            }
            Missing::Idle => {
                stats.increment(ManagerStat::DownstreamRqIdleTimeout);
                (408, "stream timeout", "stream_idle_timeout", Some(Flag::SI))
            }
            Missing::Late => {
                stats.increment(ManagerStat::DownstreamRqTimeout);
                (408, "request timeout", "request_overall_timeout", None)
            }
        };
        transaction.closes = true;
        Step::Reply(LocalReply { status, body: body.to_owned(), details, flag, ..LocalReply::default() })
    }
}
