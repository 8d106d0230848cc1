//! Connections of clients: streams are accepted, and each is a request that is served beside the others.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use tokio::time::Instant;

use mixer_net::stream::Stream;

use super::super::HttpManager;
use super::super::client::Client;
use super::super::connection::Connection;
use super::{ServerStream, convert};
use crate::connection_info::ConnectionInfo;
use crate::context::WorkerContext;
use crate::flags::Flag;
use crate::head::HeadError;
use crate::stats::{Http2Stat, ManagerStat};
use crate::timer::Timer;
use crate::transport::{SEND_BUFFER, Traffic, Transport};

/// Time between two looks at what no event tells of: draining, idleness, a client that takes nothing.
const TICK: Duration = Duration::from_secs(1);
/// Time for a connection to end after its GOAWAY, once no stream is open.
const GRACE: Duration = Duration::from_secs(1);
/// A request that its client resets within this time was reset early. More than half of at least `MAX_EARLY` end a connection, as with Envoy:
/// a defence against clients that begin work and never wait for it.
const EARLY: Duration = Duration::from_secs(1);
const MAX_EARLY: u64 = 500;
/// What a header block may take besides twice its head.
const BLOCK_OVERHEAD: usize = 16 << 10;
/// What small frames of data may take, in bytes, until their streams have received them; a frame counts up to 256. Beyond, `h2` ends a connection,
/// with all its requests: more than is received at a turn, whatever the windows.
const FRAME_BUDGET: usize = 4 << 20;
/// Requests that were reset before this side has seen them, at most.
const MAX_UNREAD_RESETS: usize = 256;

/// How a request ended.
struct Outcome {
    /// Whether its client reset it, and early.
    is_early_reset: bool,
}

type Running<'m> = Pin<Box<dyn Future<Output = Outcome> + 'm>>;

/// What a connection waits for.
enum Next {
    Request(Box<http::Request<RecvStream>>, SendResponse<Bytes>),
    Finished(Outcome),
    Ended(Result<(), h2::Error>),
    /// The filter chain was replaced or removed, and its drain time is over.
    Drained,
    /// The client sends too much that is only to be answered.
    Flooded,
    Tick,
}

/// A connection that is served.
struct Driver<'m> {
    manager: &'m HttpManager,
    worker: &'m Rc<WorkerContext>,
    info: Rc<ConnectionInfo>,
    connection: h2::server::Connection<Transport, Bytes>,
    traffic: Rc<Traffic>,
    requests: FuturesUnordered<Running<'m>>,
    timer: Timer,
    idle_since: Instant,
    /// When the last look was.
    ticked: Instant,
    /// When the connection is closed, whatever is left of it.
    ends: Option<Instant>,
    is_leaving: bool,
    /// What the client is told at the end.
    reason: Reason,
    begun: u32,
    finished: u64,
    early_resets: u64,
}

/// Serves a connection, of which `input` was read, until it ends. Returns whether this side ended it.
pub(crate) async fn serve(
    manager: &HttpManager,
    worker: &Rc<WorkerContext>,
    stream: Stream,
    input: BytesMut,
    info: Rc<ConnectionInfo>,
) -> bool {
    let options = &manager.http2;
    let max_block = 2 * manager.max_head + BLOCK_OVERHEAD;
    let (transport, traffic) = Transport::of_client(stream, input, max_block, manager.max_head);
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(options.max_streams)
        .initial_window_size(options.stream_window)
        .max_pending_accept_reset_streams(MAX_UNREAD_RESETS)
        .data_frame_budget(FRAME_BUDGET)
        .initial_connection_window_size(options.connection_window)
        .max_header_list_size(u32::try_from(manager.max_head).unwrap_or(u32::MAX))
        .max_send_buffer_size(SEND_BUFFER);
    let handshake = builder.handshake::<_, Bytes>(transport);
    let limit = manager.headers_timeout.or(manager.idle_timeout);
    let connected = match limit {
        Some(limit) => tokio::time::timeout(limit, handshake).await,
        None => Ok(handshake.await),
    };
    let connection = match connected {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => {
            count_bytes(manager, &traffic);
            return count_failure(manager, &traffic, &error);
        }
        Err(_) => {
            count_bytes(manager, &traffic);
            manager.stats.increment(ManagerStat::DownstreamCxIdleTimeout);
            return true;
        }
    };
    let now = Instant::now();
    let mut driver = Driver {
        manager,
        worker,
        info,
        connection,
        traffic,
        requests: FuturesUnordered::new(),
        timer: Timer::new(),
        idle_since: now,
        ticked: now,
        ends: None,
        is_leaving: false,
        reason: Reason::NO_ERROR,
        begun: 0,
        finished: 0,
        early_resets: 0,
    };
    driver.run().await
}

fn count_bytes(manager: &HttpManager, traffic: &Traffic) {
    let (received, sent) = traffic.take();
    manager.stats.add(ManagerStat::DownstreamCxRxBytesTotal, received);
    manager.stats.add(ManagerStat::DownstreamCxTxBytesTotal, sent);
}

/// Counts why a connection failed. Returns whether this side ended it.
fn count_failure(manager: &HttpManager, traffic: &Traffic, error: &h2::Error) -> bool {
    tracing::debug!(%error, "an HTTP/2 connection has failed");
    if error.is_io() || error.is_remote() || traffic.has_ended() {
        return false;
    }
    manager.stats.increment(ManagerStat::DownstreamCxProtocolError);
    manager.http2_stats.increment(Http2Stat::GoawaySent);
    true
}

impl<'m> Driver<'m> {
    async fn run(&mut self) -> bool {
        let is_local = loop {
            match poll_fn(|cx| self.poll(cx)).await {
                Next::Request(request, respond) => self.begin(*request, respond),
                Next::Finished(outcome) => {
                    if self.finish(&outcome) {
                        break true;
                    }
                }
                Next::Drained => break true,
                Next::Flooded => {
                    self.manager.http2_stats.increment(Http2Stat::OutboundControlFlood);
                    self.manager.stats.increment(ManagerStat::DownstreamCxProtocolError);
                    self.reason = Reason::ENHANCE_YOUR_CALM;
                    break true;
                }
                Next::Ended(Ok(())) => break self.is_leaving,
                Next::Ended(Err(error)) => break count_failure(self.manager, &self.traffic, &error),
                Next::Tick => {
                    if self.tick() {
                        break true;
                    }
                }
            }
        };
        self.close(is_local).await;
        is_local
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        if self.info.poll_drained(cx).is_ready() {
            return Poll::Ready(Next::Drained);
        }
        // First what writes: the connection sends it next.
        if let Poll::Ready(Some(outcome)) = self.requests.poll_next_unpin(cx) {
            return Poll::Ready(Next::Finished(outcome));
        }
        match self.connection.poll_accept(cx) {
            Poll::Ready(Some(Ok((request, respond)))) => {
                return Poll::Ready(Next::Request(Box::new(request), respond));
            }
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Next::Ended(Err(error))),
            Poll::Ready(None) => return Poll::Ready(Next::Ended(Ok(()))),
            Poll::Pending => {}
        }
        if self.traffic.is_flooded() {
            return Poll::Ready(Next::Flooded);
        }
        let idle = self.manager.idle_timeout.filter(|_| self.requests.is_empty() && !self.is_leaving);
        let idle = idle.map(|limit| self.idle_since + limit);
        let next = [idle, self.ends].into_iter().flatten().fold(self.ticked + TICK, Instant::min);
        self.timer.set(Some(next));
        self.timer.poll(cx).map(|()| Next::Tick)
    }

    /// Begins a request.
    fn begin(&mut self, request: http::Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        // As many as there may be streams: others are those of streams that were reset, and are not done with yet.
        if self.requests.len() >= usize::try_from(self.manager.http2.max_streams).unwrap_or(usize::MAX) {
            self.manager.http2_stats.increment(Http2Stat::TxReset);
            respond.send_reset(Reason::REFUSED_STREAM);
            return;
        }
        self.begun = self.begun.saturating_add(1);
        if self.manager.max_requests.is_some_and(|max| self.begun >= max) && !self.is_leaving {
            self.manager.stats.increment(ManagerStat::DownstreamCxMaxRequestsReached);
            self.leave();
        }
        let (parts, body) = request.into_parts();
        let client = Client::Http2(Box::new(ServerStream::new(body, respond, self.manager.max_fields)));
        let connection = Connection::new(self.manager, self.worker, client, Rc::clone(&self.info));
        self.requests.push(Box::pin(answer(connection, parts)));
    }

    /// Counts a request that has ended. Returns whether the connection is closed for what its client does.
    fn finish(&mut self, outcome: &Outcome) -> bool {
        self.idle_since = Instant::now();
        self.finished += 1;
        self.early_resets += u64::from(outcome.is_early_reset);
        self.drain();
        if self.finished >= MAX_EARLY && self.early_resets > self.finished / 2 {
            self.manager.stats.increment(ManagerStat::DownstreamRqTooManyPrematureResets);
            self.reason = Reason::ENHANCE_YOUR_CALM;
            return true;
        }
        false
    }

    /// Looks at what no event tells of. Returns whether the connection is to be closed.
    fn tick(&mut self) -> bool {
        let now = Instant::now();
        self.ticked = now;
        count_bytes(self.manager, &self.traffic);
        self.drain();
        if self.is_leaving {
            // A client that does not confirm the GOAWAY keeps nothing open.
            self.ends = match self.requests.is_empty() {
                true => self.ends.or(Some(now + GRACE)),
                false => None,
            };
        }
        if self.ends.is_some_and(|ends| ends <= now) {
            return true;
        }
        let is_over =
            |limit: Option<Duration>, since: Instant| limit.is_some_and(|limit| since + limit <= now);
        if self.traffic.stalled().is_some_and(|since| is_over(self.manager.stream_idle_timeout, since)) {
            return true;
        }
        if self.requests.is_empty() && !self.is_leaving && is_over(self.manager.idle_timeout, self.idle_since)
        {
            self.manager.stats.increment(ManagerStat::DownstreamCxIdleTimeout);
            self.leave();
        }
        false
    }

    /// Ends the connection once its requests are answered, if the process or the filter chain is draining.
    fn drain(&mut self) {
        if !self.is_leaving && (self.worker.is_draining() || self.info.closes()) {
            self.manager.stats.increment(ManagerStat::DownstreamCxDrainClose);
            self.leave();
        }
    }

    /// Tells the client to send no further requests.
    fn leave(&mut self) {
        self.is_leaving = true;
        self.manager.http2_stats.increment(Http2Stat::GoawaySent);
        self.connection.graceful_shutdown();
    }

    /// Ends the connection, and the requests that are left.
    async fn close(&mut self, is_local: bool) {
        if !self.requests.is_empty() {
            self.manager.stats.increment(ManagerStat::DownstreamCxDestroyActiveRq);
            self.manager.stats.increment(match is_local {
                true => ManagerStat::DownstreamCxDestroyLocalActiveRq,
                false => ManagerStat::DownstreamCxDestroyRemoteActiveRq,
            });
        }
        self.connection.abrupt_shutdown(self.reason);
        // Without the peer's end after this time, the connection is closed in any case.
        let _ = tokio::time::timeout(GRACE, poll_fn(|cx| self.connection.poll_closed(cx))).await;
        // They notice that their connection has ended.
        while self.requests.next().await.is_some() {}
        count_bytes(self.manager, &self.traffic);
    }
}

/// Counts a stream as active.
struct Active<'m>(&'m HttpManager);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.http2_stats.decrement(Http2Stat::StreamsActive);
    }
}

/// Answers a request.
async fn answer(mut connection: Connection<'_>, parts: http::request::Parts) -> Outcome {
    let manager = connection.manager;
    manager.http2_stats.increment(Http2Stat::StreamsActive);
    let _active = Active(manager);
    connection.request.acquire();
    connection.response.acquire();
    let mut transaction = connection.begin();
    let is_end = match &connection.client {
        Client::Http2(stream) => stream.body().is_done(),
        Client::Http1(_) | Client::Copy(..) => true,
    };
    match convert::request(&parts, is_end, manager.max_fields, &mut connection.request) {
        Ok(framing) => {
            drop(parts);
            connection.answer_http2(&mut transaction, framing).await;
        }
        Err(error) => {
            // A reply to HEAD has no body.
            connection.request.start_request(parts.method.as_str().as_bytes(), b"", b"", b"");
            drop(parts);
            let (status, details, body) = match error {
                HeadError::TooManyFields | HeadError::TooLarge => {
                    (431, "http2.too_many_headers", "Request Header Fields Too Large")
                }
                _ => (400, "http2.violation.of.messaging.rule", "Bad Request"),
            };
            manager.http2_stats.increment(Http2Stat::RxMessagingError);
            connection.refuse_request(&mut transaction, status, details, body, Some(Flag::Dpe)).await;
        }
    }
    // What precedes an early end of the request is not sent yet.
    if !transaction.is_aborted && connection.client.has_output() && connection.flush().await.is_err() {
        transaction.is_aborted = true;
    }
    let is_reset = matches!(&connection.client, Client::Http2(stream) if stream.is_reset());
    if transaction.is_aborted && !is_reset {
        // What was written goes out before the reset, as far as the client takes it: the connection has its turn. A reset drops what waits.
        tokio::task::yield_now().await;
    }
    if transaction.is_aborted {
        manager.http2_stats.increment(if is_reset { Http2Stat::RxReset } else { Http2Stat::TxReset });
        connection.client.abort();
    } else if transaction.is_early() {
        // It is reset when it is given up.
        manager.http2_stats.increment(Http2Stat::TxReset);
    }
    connection.end(&mut transaction);
    // The stream is reset if the request was not read to its end.
    drop(connection.finish());
    Outcome { is_early_reset: is_reset && transaction.began.elapsed() < EARLY }
}
