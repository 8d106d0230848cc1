//! One HTTP/2 connection on a worker: calls are answered where they arrive.
//!
//! All requests that have arrived are taken first, then each is polled once in place: one that has its whole message and asks only
//! handlers that answer at once is finished there, without a task or a wake-up, and the answers leave in one write. Calls that wait
//! are kept and polled when they are woken.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use http::Response;
use http_body::{Body, Frame};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use super::listener::{Accepted, Peer, Stream};
use crate::callers::{Connection, Entry};
use mixer_http2::{
    ConnectionError, FixedResponse, Incoming, Limits, Reason, RequestBody, RequestHead, Session,
};

/// How long a caller may take to hear that the server stops, before what it has not sent is no longer waited for.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of the headers of one call.
const MAX_HEADER_BYTES: u32 = 64 << 10;
/// Bytes that are read at once. What is left of them between reads is less than a frame.
const READ_BYTES: usize = 64 << 10;
/// Reads before what they brought is answered.
const READS_A_TURN: usize = 4;

/// The body of an answer.
#[derive(Debug)]
pub enum Answer<B> {
    /// The one message of a [fixed response](FixedResponse); head and trailers are the fixed ones, those of the response are empty.
    Fixed(Bytes),
    /// Nothing: the head says all.
    Empty,
    /// A body that comes piece by piece.
    Stream(B),
}

/// Answers the calls of one worker. Made on its thread, so it need be neither `Send` nor `Sync`.
pub trait WorkerService: 'static {
    /// Bodies that come piece by piece.
    type Body: Body<Data = Bytes> + Unpin + 'static;

    /// The head and trailers of [`Answer::Fixed`].
    fn fixed_response() -> &'static FixedResponse;

    /// Answers one call.
    fn call(
        self: Rc<Self>,
        head: Rc<RequestHead>,
        body: RequestBody,
        peer: Rc<Peer>,
    ) -> impl Future<Output = Response<Answer<Self::Body>>> + 'static;
}

/// Limits of one connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Calls in flight.
    pub max_concurrent_streams: u32,
    /// A connection that does not answer a ping for this long is dropped.
    pub keep_alive_timeout: Duration,
    /// A caller whose connection is this old is asked to make another one.
    pub max_age: Option<Duration>,
}

thread_local! {
    /// All connections of a worker read into the same memory, one after another.
    static INPUT: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Why a connection ended before its time.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Protocol(#[from] ConnectionError),
    #[error("the caller does not answer pings")]
    Silent,
}

/// Serves a connection until its end, or until `stop` and the end of its calls.
pub(super) async fn serve<S: WorkerService>(
    accepted: Accepted,
    service: Rc<S>,
    limits: ConnectionLimits,
    stop: CancellationToken,
    entry: Entry,
) {
    let caller = accepted.peer.clone();
    let opened = tokio::select! {
        opened = accepted.open() => opened,
        () = stop.cancelled() => return,
    };
    let (stream, peer) = match opened {
        Ok(opened) => opened,
        Err(error) if error.is_silent() => {
            tracing::debug!(%caller, "a connection was closed before anything was said");
            return;
        }
        Err(error) => {
            mixer_base::warn_limited!(10, %caller, "a connection was refused: {error}");
            return;
        }
    };
    let entered = entry.enter(peer.to_string());
    let mut driver = Driver::new(stream, service, Rc::new(peer), limits, &entered.connection);
    let ended = tokio::select! {
        biased;
        ended = std::future::poll_fn(|cx| driver.poll(cx)) => ended,
        () = over(stop, limits.max_age) => {
            if !driver.session.is_open() {
                return;
            }
            driver.session.shut_down();
            // A caller that is asleep does not hear of it; only its calls are waited for.
            tokio::select! {
                biased;
                ended = std::future::poll_fn(|cx| driver.poll(cx)) => ended,
                () = tokio::time::sleep(GOODBYE_PATIENCE) => {
                    driver.session.leave();
                    std::future::poll_fn(|cx| driver.poll(cx)).await
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// When callers are asked to go elsewhere: at the stop of the server, or when their connection is old. A tenth more or less, so that
/// connections that began together do not end together.
async fn over(stop: CancellationToken, max_age: Option<Duration>) {
    let Some(age) = max_age else { return stop.cancelled().await };
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(age.mul_f64(0.9 + 0.2 * fastrand::f64())) => {}
    }
}

/// A connection and its calls.
struct Driver<'c, S: WorkerService> {
    caller: &'c Connection,
    socket: Stream,
    session: Session,
    service: Rc<S>,
    peer: Rc<Peer>,
    /// The beginning of a frame whose end has not come.
    partial: Vec<u8>,
    /// Begun and waiting for something.
    waiting: FuturesUnordered<Call<S::Body>>,
    /// Answers that come piece by piece, each waiting for its next piece.
    bodies: FuturesUnordered<NextPiece<S::Body>>,
    /// Answers whose last piece has not left yet.
    full: Vec<NextPiece<S::Body>>,
    keep_alive: KeepAlive,
    closing: bool,
}

impl<'c, S: WorkerService> Driver<'c, S> {
    fn new(
        socket: Stream,
        service: Rc<S>,
        peer: Rc<Peer>,
        limits: ConnectionLimits,
        caller: &'c Connection,
    ) -> Self {
        let limits_of_session =
            Limits { max_streams: limits.max_concurrent_streams, max_header_bytes: MAX_HEADER_BYTES };
        let session = Session::new(limits_of_session, S::fixed_response());
        Self {
            caller,
            socket,
            session,
            service,
            peer,
            partial: Vec::new(),
            waiting: FuturesUnordered::new(),
            bodies: FuturesUnordered::new(),
            full: Vec::new(),
            keep_alive: KeepAlive::new(limits.keep_alive_timeout),
            closing: false,
        }
    }

    /// Ready when the connection is closed; calls that still wait then have nobody to answer.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        if self.keep_alive.poll(cx, &mut self.session).is_ready() {
            return Poll::Ready(Err(Ended::Silent));
        }
        self.session.register(cx.waker());
        loop {
            if self.closing {
                return self.poll_close(cx);
            }
            let mut goes_on = match self.poll_read(cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(_)) => true,
                Poll::Ready(Err(Ended::Protocol(error))) => {
                    self.session.abort(error.reason);
                    // The caller hears of it if it listens; nobody waits for that.
                    let _ = self.poll_write(cx);
                    return Poll::Ready(Err(error.into()));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => false,
            };
            let mut arrived = 0;
            while let Some(request) = self.session.next_request() {
                arrived += 1;
                self.begin(request, cx);
            }
            if arrived > 0 {
                self.caller.count(arrived);
            }
            goes_on |= self.poll_waiting(cx);
            self.session.open_windows();
            self.session.send_blocked();
            let was_congested = self.session.is_congested();
            if self.poll_write(cx)?.is_ready() {
                // There is room again for what waits and for what was not read.
                goes_on |= was_congested | self.session.send_blocked();
            }
            self.closing = self.session.is_done();
            if !goes_on && !self.closing {
                return Poll::Pending;
            }
        }
    }

    /// Reads what is there, up to a bound. `Ok(0)` means that the caller has closed.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Ended>> {
        let mut all = 0;
        while !self.session.is_congested() {
            match INPUT.with_borrow_mut(|input| self.read_once(input, cx)) {
                Poll::Ready(Ok(count)) if count > 0 => all += count,
                Poll::Pending if all > 0 => return Poll::Ready(Ok(all)),
                other => return other,
            }
            if all >= READS_A_TURN * READ_BYTES {
                return Poll::Ready(Ok(all));
            }
        }
        if all > 0 { Poll::Ready(Ok(all)) } else { Poll::Pending }
    }

    fn read_once(&mut self, input: &mut [u8], cx: &mut Context<'_>) -> Poll<Result<usize, Ended>> {
        // INVARIANT: less than a frame is left over, which is less than a quarter of the input.
        let kept = self.partial.len();
        let Some((begin, room)) = input.split_at_mut_checked(kept) else { return Poll::Pending };
        let mut buffer = ReadBuf::new(room);
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut buffer))?;
        let count = buffer.filled().len();
        begin.copy_from_slice(&self.partial);
        self.partial.clear();
        let received = input.get(..kept + count).unwrap_or_default();
        let taken = self.session.receive(received)?;
        self.partial.extend_from_slice(received.get(taken..).unwrap_or_default());
        Poll::Ready(Ok(count))
    }

    /// Writes what can be written; ready when that is all.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, Ended> {
        while !self.session.output().is_empty() {
            match Pin::new(&mut self.socket).poll_write(cx, self.session.output()) {
                Poll::Ready(Ok(0)) => return Err(std::io::Error::from(std::io::ErrorKind::WriteZero).into()),
                Poll::Ready(Ok(count)) => self.session.advance(count),
                Poll::Ready(Err(error)) => return Err(error.into()),
                Poll::Pending => return Ok(Poll::Pending),
            }
        }
        match Pin::new(&mut self.socket).poll_flush(cx) {
            Poll::Ready(flushed) => Ok(Poll::Ready(flushed?)),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        if self.poll_write(cx)?.is_pending() {
            return Poll::Pending;
        }
        Pin::new(&mut self.socket).poll_shutdown(cx).map_err(Ended::from)
    }

    /// Polls a call once, and keeps it if it waits.
    fn begin(&mut self, request: Incoming, cx: &mut Context<'_>) {
        let Incoming { stream, head, body } = request;
        let call = Rc::clone(&self.service).call(head, body, Rc::clone(&self.peer));
        let mut call: PendingCall<S::Body> = Box::pin(call);
        match call.as_mut().poll(cx) {
            Poll::Ready(response) => self.answer(stream, response),
            Poll::Pending => {
                if let Some(watch) = self.session.watch(stream) {
                    self.waiting.push(Call { stream, call, watch });
                }
            }
        }
    }

    /// Polls what waits; says whether anything came of it.
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        if !self.waiting.is_empty() {
            while let Poll::Ready(Some((stream, response))) = self.waiting.poll_next_unpin(cx) {
                any = true;
                if let Some(response) = response {
                    self.answer(stream, response);
                }
            }
        }
        let session = &self.session;
        for waits in self.full.extract_if(.., |body| session.is_drained(body.stream) != Some(false)) {
            any = true;
            self.bodies.push(waits);
        }
        if !self.bodies.is_empty() {
            while let Poll::Ready(Some(next)) = self.bodies.poll_next_unpin(cx) {
                any = true;
                if let Some((body, piece)) = next {
                    self.send_piece(body, piece);
                }
            }
        }
        any
    }

    fn answer(&mut self, stream: u32, response: Response<Answer<S::Body>>) {
        let (head, body) = response.into_parts();
        match body {
            Answer::Fixed(message) => self.session.answer_fixed(stream, message),
            Answer::Empty => self.session.send_head(stream, head.status, &head.headers, true),
            Answer::Stream(body) => {
                let is_empty = body.is_end_stream();
                self.session.send_head(stream, head.status, &head.headers, is_empty);
                if !is_empty && let Some(watch) = self.session.watch(stream) {
                    self.bodies.push(NextPiece { stream, body: Some(body), watch });
                }
            }
        }
    }

    /// Sends a piece of an answer, and asks for the next one when it has left.
    fn send_piece(&mut self, body: NextPiece<S::Body>, piece: Piece<S::Body>) {
        let stream = body.stream;
        match piece.map(|piece| piece.map(Frame::into_data)) {
            Some(Ok(Ok(data))) => {
                self.session.send_data(stream, data);
                self.full.push(body);
            }
            Some(Ok(Err(other))) => match other.into_trailers() {
                Ok(trailers) => self.session.send_end(stream, Some(trailers)),
                Err(_) => self.full.push(body),
            },
            Some(Err(_)) => self.session.send_reset(stream, Reason::INTERNAL_ERROR),
            None => self.session.send_end(stream, None),
        }
    }
}

/// A call that waits.
type PendingCall<B> = Pin<Box<dyn Future<Output = Response<Answer<B>>>>>;

/// A piece of a body, if there is one more.
type Piece<B> = Option<Result<Frame<Bytes>, <B as Body>::Error>>;

/// A call under way. It ends early, without a response, when its stream does.
struct Call<B> {
    stream: u32,
    call: PendingCall<B>,
    watch: oneshot::Receiver<()>,
}

impl<B> Future for Call<B> {
    type Output = (u32, Option<Response<Answer<B>>>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(response) = self.call.as_mut().poll(cx) {
            return Poll::Ready((self.stream, Some(response)));
        }
        Pin::new(&mut self.watch).poll(cx).map(|_| (self.stream, None))
    }
}

/// Waits for the next piece of an answer; without result when its stream has ended.
struct NextPiece<B> {
    stream: u32,
    body: Option<B>,
    watch: oneshot::Receiver<()>,
}

impl<B: Body<Data = Bytes> + Unpin> Future for NextPiece<B> {
    type Output = Option<(NextPiece<B>, Piece<B>)>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        if let Poll::Ready(piece) = Pin::new(body).poll_frame(cx) {
            let (_, no_watch) = oneshot::channel();
            let watch = std::mem::replace(&mut this.watch, no_watch);
            let next = NextPiece { stream: this.stream, body: this.body.take(), watch };
            return Poll::Ready(Some((next, piece)));
        }
        Pin::new(&mut this.watch).poll(cx).map(|_| None)
    }
}

/// Finds callers that are gone without a word.
struct KeepAlive {
    every: Duration,
    timer: Pin<Box<Sleep>>,
    unanswered: bool,
}

impl KeepAlive {
    fn new(every: Duration) -> Self {
        Self { every, timer: Box::pin(tokio::time::sleep(every)), unanswered: false }
    }

    /// Ready when a ping was not answered in time, or when nothing at all was heard.
    fn poll(&mut self, cx: &mut Context<'_>, session: &mut Session) -> Poll<()> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let is_silent = self.unanswered && !session.take_pong();
            if is_silent || !session.is_open() {
                return Poll::Ready(());
            }
            session.ping();
            self.unanswered = true;
            self.timer.as_mut().reset(Instant::now() + self.every);
        }
        Poll::Pending
    }
}
