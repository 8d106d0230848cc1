//! The body of a request as filters see it: read ahead, and left where it is for the host.

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::time::Instant;

use super::client::{Client, ReadEnd};
use super::connection::Connection;
use super::filters::{LocalReply, Step};
use super::framing::{Framing, Remaining};
use super::transaction::Transaction;
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

/// Reads the beginning of a body, of which nothing is taken.
struct Reader {
    max: usize,
    allow_partial: bool,
    remaining: Remaining,
    /// Of HTTP/1.1: what is not decoded yet, and how much of the input was looked at.
    raw: BytesMut,
    seen: usize,
    data: Vec<u8>,
}

impl Reader {
    fn new(framing: Framing, max: usize, allow_partial: bool) -> Self {
        Self {
            max,
            allow_partial,
            remaining: Remaining::of(framing),
            raw: BytesMut::new(),
            seen: 0,
            data: Vec::new(),
        }
    }

    /// The beginning of the body, if enough of it is there.
    fn look(&mut self, client: &mut Client) -> Result<Option<Ahead>, Missing> {
        let Self { max, allow_partial, remaining, raw, seen, data } = self;
        let max = *max;
        let (length, is_whole) = match client {
            Client::Http1(http1) => {
                raw.extend_from_slice(http1.input.get(*seen..).unwrap_or_default());
                *seen = http1.input.len();
                // One byte more shows that there is more.
                while !remaining.is_done() && data.len() <= max {
                    let room = max + 1 - data.len();
                    match remaining.decode(raw, room, |piece| data.extend_from_slice(piece)) {
                        Ok(0) => break,
                        Ok(_) => {}
                        Err(_) => return Err(Missing::Invalid),
                    }
                }
                (data.len(), remaining.is_done())
            }
            Client::Http2(stream) => {
                let (ahead, is_whole) = stream.ahead();
                (ahead.len(), is_whole)
            }
            // Filters do not see copies.
            Client::Copy(..) => return Err(Missing::Gone),
        };
        let is_longer = length > max;
        if is_longer && !*allow_partial {
            return Err(Missing::TooLarge);
        }
        if !(is_whole || is_longer || (*allow_partial && length >= max)) {
            return Ok(None);
        }
        let mut received = u64::try_from(length).unwrap_or(0);
        let mut data = match client {
            Client::Http1(_) | Client::Copy(..) => {
                while let Ok(count @ 1..) = remaining.decode(raw, usize::MAX, |_| {}) {
                    received += u64::try_from(count).unwrap_or(0);
                }
                std::mem::take(data)
            }
            Client::Http2(stream) => stream.ahead().0.get(..length.min(max)).unwrap_or_default().to_vec(),
        };
        data.truncate(max);
        Ok(Some(Ahead { data, received, is_partial: is_longer }))
    }

    /// Reads more. `received` counts the bytes of HTTP/1.1; those of HTTP/2 connections are counted by themselves.
    fn poll_more(
        &self,
        client: &mut Client,
        cx: &mut Context<'_>,
        received: &mut u64,
    ) -> Poll<Result<(), Missing>> {
        match client {
            Client::Http1(http1) => {
                // Chunks may be small: what stands between them is bounded, too.
                let most = self.max.saturating_mul(2).saturating_add(buffer::HIGH_WATERMARK);
                if http1.input.len() >= most {
                    return Poll::Ready(Err(Missing::TooLarge));
                }
                buffer::poll_read(&mut http1.stream, &mut http1.input, cx).map(|read| match read {
                    Ok(0) | Err(_) => Err(Missing::Gone),
                    Ok(count) => {
                        *received += u64::try_from(count).unwrap_or(0);
                        Ok(())
                    }
                })
            }
            Client::Http2(stream) => stream.poll_ahead(cx).map_err(|end| match end {
                ReadEnd::Gone => Missing::Gone,
                ReadEnd::Invalid => Missing::Invalid,
            }),
            Client::Copy(..) => Poll::Ready(Err(Missing::Gone)),
        }
    }
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
        let mut idle = idle_limit.map(|limit| Instant::now() + limit);
        let mut reader = Reader::new(framing, max, allow_partial);
        let (client, timer) = (&mut self.client, &mut self.timer);
        let mut received = 0;
        let read = poll_fn(|cx| {
            loop {
                if let Some(ahead) = reader.look(client)? {
                    return Poll::Ready(Ok(ahead));
                }
                match reader.poll_more(client, cx, &mut received) {
                    Poll::Ready(more) => {
                        more?;
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
        .await;
        self.manager.stats.add(ManagerStat::DownstreamCxRxBytesTotal, received);
        read
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
