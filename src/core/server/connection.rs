//! One HTTP/2 connection on a worker: calls are answered where they arrive.
//!
//! h2 is driven directly. All calls that a read brought are taken first, then each is polled once in place: one that has its whole
//! message and asks only handlers that answer at once is finished there, without a task, a wake-up or a copy of its future, and
//! the answers of a read leave in one write. Calls that wait are kept and polled when they are woken.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use h2::server::{Connection, SendResponse};
use h2::{Ping, PingPong, Reason, RecvStream, SendStream};
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use super::listener::{Accepted, Peer, Stream};
use super::workers::{ConnectionLimits, WorkerService};
use crate::core::api::ApiBody;

/// Bytes that a caller may send on one stream before it hears of them being read.
const STREAM_WINDOW: u32 = 1 << 20;
/// Bytes that a caller may send on all streams of a connection.
const CONNECTION_WINDOW: u32 = 8 << 20;
/// Bytes of the headers of one call.
const MAX_HEADER_BYTES: u32 = 64 << 10;

/// The body of a request as it arrives.
pub struct RequestBody {
    stream: RecvStream,
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let stream = &mut self.stream;
        match ready!(stream.poll_data(cx)) {
            Some(Ok(data)) => {
                // The window is already open again: what was read is held by nobody else.
                Poll::Ready(Some(
                    stream.flow_control().release_capacity(data.len()).map(|()| Frame::data(data)),
                ))
            }
            // A caller that takes its request back after the end of its body does no harm.
            Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => Poll::Ready(None),
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => stream.poll_trailers(cx).map(|trailers| Some(trailers.transpose()?.map(Frame::trailers))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}

/// Serves a connection until its end, or until `stop` and the end of its calls.
pub(super) async fn serve<S: WorkerService>(
    accepted: Accepted,
    service: Rc<S>,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    let stream = match accepted.socket.into_stream() {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!(%error, "a connection could not be taken over");
            return;
        }
    };
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(limits.max_concurrent_streams)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADER_BYTES);
    let connection = tokio::select! {
        connection = builder.handshake(stream) => connection,
        () = stop.cancelled() => return,
    };
    let ended = match connection {
        Err(error) => Err(error),
        Ok(connection) => {
            let mut driver =
                Driver::new(connection, service, Rc::new(accepted.peer), limits.keep_alive_timeout);
            tokio::select! {
                biased;
                ended = std::future::poll_fn(|cx| driver.poll(cx)) => ended,
                () = stop.cancelled() => {
                    driver.connection.graceful_shutdown();
                    std::future::poll_fn(|cx| driver.poll(cx)).await
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// A call under way.
type Call = Pin<Box<dyn Future<Output = ()>>>;

/// A connection and its calls.
struct Driver<S> {
    connection: Connection<Stream, Bytes>,
    service: Rc<S>,
    peer: Rc<Peer>,
    /// Taken from the connection and not begun; bounded by the number of concurrent streams.
    taken: Vec<(Request<RecvStream>, SendResponse<Bytes>)>,
    /// Begun and waiting for something.
    waiting: FuturesUnordered<Call>,
    keep_alive: Option<KeepAlive>,
}

impl<S: WorkerService> Driver<S> {
    fn new(
        mut connection: Connection<Stream, Bytes>,
        service: Rc<S>,
        peer: Rc<Peer>,
        keep_alive: Duration,
    ) -> Self {
        let keep_alive = connection.ping_pong().map(|pings| KeepAlive::new(pings, keep_alive));
        Self { connection, service, peer, taken: Vec::new(), waiting: FuturesUnordered::new(), keep_alive }
    }

    /// Ready when the connection is closed; calls that still wait then have nobody to answer.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        if let Some(keep_alive) = &mut self.keep_alive
            && keep_alive.poll(cx).is_ready()
        {
            tracing::debug!("a connection is dropped because its caller does not answer pings");
            return Poll::Ready(Ok(()));
        }
        loop {
            // This also writes what was answered in the turn before.
            while let Poll::Ready(next) = self.connection.poll_accept(cx) {
                match next {
                    Some(call) => self.taken.push(call?),
                    None => return Poll::Ready(Ok(())),
                }
            }
            let mut answered = false;
            for (request, respond) in self.taken.drain(..) {
                let call = answer(Rc::clone(&self.service), Rc::clone(&self.peer), request, respond);
                let mut call: Call = Box::pin(call);
                match call.as_mut().poll(cx) {
                    Poll::Ready(()) => answered = true,
                    Poll::Pending => self.waiting.push(call),
                }
            }
            while let Poll::Ready(Some(())) = self.waiting.poll_next_unpin(cx) {
                answered = true;
            }
            if !answered {
                return Poll::Pending;
            }
        }
    }
}

/// One call, from its request to its answer. It ends early when its caller takes it back.
async fn answer<S: WorkerService>(
    service: Rc<S>,
    peer: Rc<Peer>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let call = service.call(request.map(|stream| RequestBody { stream }), peer);
    let mut call = std::pin::pin!(call);
    let response = std::future::poll_fn(|cx| match call.as_mut().poll(cx) {
        Poll::Ready(response) => Poll::Ready(Some(response)),
        Poll::Pending => respond.poll_reset(cx).map(|_| None),
    });
    let sent = match response.await {
        Some(response) => send(response, respond).await,
        None => Ok(()),
    };
    if let Err(error) = sent {
        tracing::debug!(%error, "an answer could not be sent");
    }
}

async fn send(response: Response<ApiBody>, mut respond: SendResponse<Bytes>) -> Result<(), h2::Error> {
    let (head, body) = response.into_parts();
    let head = Response::from_parts(head, ());
    match body {
        ApiBody::Unary { data, trailers } => {
            let mut stream = respond.send_response(head, data.is_none() && trailers.is_none())?;
            if let Some(data) = data {
                stream.send_data(data, trailers.is_none())?;
            }
            trailers.map_or(Ok(()), |trailers| stream.send_trailers(trailers))
        }
        ApiBody::Other(body) => {
            let empty = body.is_end_stream();
            let stream = respond.send_response(head, empty)?;
            if empty { Ok(()) } else { Box::pin(send_frames(body, stream)).await }
        }
    }
}

/// Sends a body piece by piece, as fast as the caller takes it.
async fn send_frames(mut body: tonic::body::Body, mut stream: SendStream<Bytes>) -> Result<(), h2::Error> {
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            stream.send_reset(Reason::INTERNAL_ERROR);
            return Ok(());
        };
        match frame.into_data() {
            Ok(mut data) => {
                while !data.is_empty() {
                    stream.reserve_capacity(data.len());
                    let granted = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
                    let Some(granted) = granted.transpose()? else { return Ok(()) };
                    stream.send_data(data.split_to(granted.min(data.len())), false)?;
                }
            }
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    return stream.send_trailers(trailers);
                }
            }
        }
    }
    stream.send_data(Bytes::new(), true)
}

/// Finds callers that are gone without a word.
struct KeepAlive {
    pings: PingPong,
    every: Duration,
    timer: Pin<Box<Sleep>>,
    unanswered: bool,
}

impl KeepAlive {
    fn new(pings: PingPong, every: Duration) -> Self {
        Self { pings, every, timer: Box::pin(tokio::time::sleep(every)), unanswered: false }
    }

    /// Ready when a ping was not answered in time.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.unanswered && self.pings.poll_pong(cx).is_ready() {
            self.unanswered = false;
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if self.unanswered {
                return Poll::Ready(());
            }
            // A connection that cannot be pinged is ending.
            if self.pings.send_ping(Ping::opaque()).is_err() {
                return Poll::Pending;
            }
            self.unanswered = true;
            self.timer.as_mut().reset(Instant::now() + self.every);
            // Only a poll leaves a waker.
            if self.pings.poll_pong(cx).is_ready() {
                self.unanswered = false;
            }
        }
        Poll::Pending
    }
}
