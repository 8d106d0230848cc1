//! The body of a request as filters see it: read ahead, and kept for the host.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use tokio::time::Instant;

use super::client::{Client, NotAhead, ReadEnd};
use super::connection::Connection;
use super::filters::{LocalReply, Step};
use super::framing::Framing;
use super::transaction::Transaction;
use crate::bodies::NoRoom;
use crate::flags::Flag;
use crate::stats::ManagerStat;
use crate::timer::earlier;

/// Parts of a body that are read before the other connections of the worker have their turn.
const MAX_PARTS: usize = 4;

/// The beginning of a body.
#[derive(Debug)]
pub(super) struct Ahead {
    /// At most as many bytes as were asked for, in pieces.
    pub(super) data: Vec<Bytes>,
    /// Bytes of the body that have arrived.
    pub(super) received: u64,
    /// Whether there is more, or may be: its end is not seen.
    pub(super) is_partial: bool,
}

/// Why a filter does not have what it waits for, such as the beginning of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Gone,
    Invalid,
    TooLarge,
    Busy,
    Idle,
    Late,
    /// It is there, and a filter does not decide: nothing happens, or it takes too long.
    Decision,
    LateDecision,
}

impl From<NotAhead> for Missing {
    fn from(why: NotAhead) -> Self {
        match why {
            NotAhead::Ended(ReadEnd::Gone) => Missing::Gone,
            NotAhead::Ended(ReadEnd::Invalid) => Missing::Invalid,
            NotAhead::NoRoom(NoRoom::TooLarge) => Missing::TooLarge,
            NotAhead::NoRoom(NoRoom::Busy) => Missing::Busy,
        }
    }
}

/// The beginning of a body, if enough of it was read.
fn look(
    client: &mut Client,
    framing: Framing,
    max: usize,
    allow_partial: bool,
) -> Result<Option<Ahead>, Missing> {
    let (length, is_whole) = client.ahead(framing);
    let is_longer = length > max;
    if is_longer && !allow_partial {
        return Err(Missing::TooLarge);
    }
    if !(is_whole || is_longer || (allow_partial && length >= max)) {
        return Ok(None);
    }
    let received = u64::try_from(length).unwrap_or(0);
    Ok(Some(Ahead { data: client.share_ahead(max), received, is_partial: is_longer || !is_whole }))
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
        let read = self.poll_ahead(transaction.began, framing, max, allow_partial).await;
        transaction.received = u64::try_from(self.client.ahead(framing).0).unwrap_or(0);
        match read {
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
        let budget = &self.worker.shared.bodies;
        let (client, timer) = (&mut self.client, &mut self.timer);
        let mut received = 0;
        let read = poll_fn(|cx| {
            for _ in 0..MAX_PARTS {
                if let Some(ahead) = look(client, framing, max, allow_partial)? {
                    return Poll::Ready(Ok(ahead));
                }
                match client.poll_ahead(cx, framing, budget, &mut received) {
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
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        self.manager.stats.add(ManagerStat::DownstreamCxRxBytesTotal, received);
        read
    }

    /// What becomes of a request whose body cannot be read.
    pub(super) fn without_body(&self, transaction: &mut Transaction<'_>, missing: Missing) -> Step {
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
            Missing::Busy => {
                stats.increment(ManagerStat::DownstreamRqBodyOverflow);
                mixer_base::warn_limited!(1, "no memory is left for a body that a filter waits for");
                (503, "no memory for the request", "request_body_overflow", Some(Flag::UO))
            }
            Missing::Idle => {
                stats.increment(ManagerStat::DownstreamRqIdleTimeout);
                (408, "stream timeout", "stream_idle_timeout", Some(Flag::SI))
            }
            Missing::Decision => {
                stats.increment(ManagerStat::DownstreamRqIdleTimeout);
                (504, "stream timeout", "stream_idle_timeout", Some(Flag::SI))
            }
            Missing::Late => {
                stats.increment(ManagerStat::DownstreamRqTimeout);
                (408, "request timeout", "request_overall_timeout", None)
            }
            Missing::LateDecision => {
                stats.increment(ManagerStat::DownstreamRqTimeout);
                (504, "request timeout", "request_overall_timeout", None)
            }
        };
        transaction.closes = true;
        Step::Reply(LocalReply { status, body: body.to_owned(), details, flag, ..LocalReply::default() })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::{TcpListener, TcpStream};

    use mixer_net::stream::Stream;

    use super::*;
    use crate::bodies::Budget;
    use crate::http::client::Http1Client;

    /// How much is seen of a body, and whether it is told as partial.
    async fn seen(framing: Framing, sent: &[u8]) -> (usize, bool) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut client = Client::Http1(Http1Client::new(Stream::Tcp(listener.accept().await.unwrap().0)));
        sender.write_all(sent).await.unwrap();
        let budget = Budget::new(1 << 20);
        let mut received = 0;
        loop {
            if let Some(ahead) = look(&mut client, framing, 16, true).unwrap() {
                return (ahead.data.iter().map(Bytes::len).sum(), ahead.is_partial);
            }
            poll_fn(|cx| client.poll_ahead(cx, framing, &budget, &mut received)).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_body_whose_end_is_not_seen_is_partial() {
        for (framing, sent, partial) in [
            (Framing::Length(20), "aaaaaaaaaaaaaaaa", true),
            (Framing::Length(20), "aaaaaaaaaaaaaaaaEVIL", true),
            (Framing::Length(16), "aaaaaaaaaaaaaaaa", false),
            (Framing::Chunked, "10\r\naaaaaaaaaaaaaaaa\r\n", true),
            (Framing::Chunked, "10\r\naaaaaaaaaaaaaaaa\r\n0\r\n\r\n", false),
        ] {
            assert_eq!(seen(framing, sent.as_bytes()).await, (16, partial), "{framing:?} {sent}");
        }
    }
}
