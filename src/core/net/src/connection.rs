//! One HTTP/2 connection on a worker.
//!
//! The connection delivers all requests that have arrived, then polls each once in place: a request with a complete body that needs
//! only synchronous work is answered without a task or a wake-up, and all responses leave in one write. Other requests are kept and
//! polled when woken.

mod call;
mod foreign;
mod keep_alive;

use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use http::Response;
use http_body::{Body as _, Frame};
use rustc_hash::FxBuildHasher;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio_util::sync::CancellationToken;

use self::call::{CallFuture, NextFrame, PendingCall, PendingFrame, Polls};
use self::keep_alive::KeepAlive;
use crate::accepted::{Accepted, OpenError};
use crate::peer::Peer;
use crate::registry::{ConnectionInfo, ConnectionRegistry};
use crate::service::{Answer, WorkerService};
use crate::stream::Stream;
use crate::turns::{MAX_INPUT, MAX_REQUESTS, Place};
use mixer_base::budget::{Account, Share};
use mixer_http2::{ConnectionError, ErrorCode, IncomingRequest, Limits, MemoryAccount, Session};

/// Time between the first and the final GOAWAY if the client does not acknowledge the PING.
const GOAWAY_GRACE_PERIOD: Duration = Duration::from_secs(1);
/// SETTINGS_MAX_HEADER_LIST_SIZE.
const MAX_HEADER_BYTES: u32 = 64 << 10;
/// Size of the input buffer in bytes. Less than a frame stays between reads.
const READ_BYTES: usize = 64 << 10;

/// The wait for a turn after which it is worth a system call to know whether the client has left.
const LONG_WAIT: Duration = Duration::from_millis(10);

/// Limits of one connection.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    pub max_concurrent_streams: u32,
    /// Interval of PINGs; a connection that does not acknowledge one within it is closed.
    pub keep_alive_timeout: Duration,
    /// Age at which a connection is shut down gracefully, with 10 % jitter.
    pub max_age: Option<Duration>,
    /// Memory of the requests of a connection that are not answered.
    pub max_request_bytes: usize,
    /// Memory of such requests of all connections.
    pub memory: Arc<Share>,
}

/// The account of a connection.
#[derive(Debug)]
struct ConnectionAccount(Account);

impl MemoryAccount for ConnectionAccount {
    fn acquire(&self, bytes: usize) -> bool {
        self.0.acquire(bytes)
    }

    fn release(&self, bytes: usize) {
        self.0.release(bytes);
    }
}

thread_local! {
    /// The connections of a worker share an input buffer.
    static INPUT: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
    /// They also share an output buffer; what a client does not read at once is moved to one of its connection.
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
enum ConnectionEnd {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Protocol(#[from] ConnectionError),
    #[error("keep-alive timeout")]
    Unresponsive,
}

/// Serves a connection until it is closed. After `stop` it is shut down gracefully.
pub(crate) async fn serve<S: WorkerService>(
    accepted: Accepted,
    service: Rc<S>,
    limits: ConnectionLimits,
    stop: CancellationToken,
    place: Place,
    registry: Arc<ConnectionRegistry>,
    worker: usize,
) {
    let mut place = place;
    let peer = accepted.peer.clone();
    let mut accepted = accepted;
    // Held until the connection is closed.
    let _descriptor = accepted.place.take();
    let account = ConnectionAccount(limits.memory.open());
    let opened = tokio::select! {
        opened = open(accepted, &mut place) => opened,
        () = stop.cancelled() => return,
    };
    let (stream, peer) = match opened {
        Ok(opened) => opened,
        Err(error) if error.is_health_check() => {
            tracing::debug!(%peer, "connection closed before the TLS handshake");
            return;
        }
        Err(error) => {
            mixer_base::warn_limited!(10, caller = %peer, "a connection was refused: {error}");
            return;
        }
    };
    let registration = registry.register(peer.to_string(), Some(worker));
    let mut driver =
        Driver::new(stream, service, Rc::new(peer), &limits, account, (&registration.connection, place));
    let ended = tokio::select! {
        biased;
        ended = driver.run() => ended,
        () = shutdown_due(stop, limits.max_age) => {
            if !driver.session.is_established() {
                return;
            }
            driver.session.begin_shutdown();
            // An unresponsive client does not delay the shutdown beyond its open streams.
            tokio::select! {
                biased;
                ended = std::future::poll_fn(|cx| driver.poll(cx)) => ended,
                () = tokio::time::sleep(GOAWAY_GRACE_PERIOD) => {
                    driver.session.finish_shutdown();
                    std::future::poll_fn(|cx| driver.poll(cx)).await
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
    driver.free().await;
}

/// Opens a connection in its turn. Each step of a TLS handshake takes one.
async fn open(accepted: Accepted, place: &mut Place) -> Result<(Stream, Peer), OpenError> {
    let mut opening = std::pin::pin!(accepted.open());
    std::future::poll_fn(|cx| {
        place.looked();
        if place.is_over() {
            ready!(place.poll_open(cx));
        }
        place.count_opening();
        let opened = opening.as_mut().poll(cx);
        if opened.is_pending() {
            place.rest();
        }
        opened
    })
    .await
}

/// Completes at `stop` or at the maximum age. Jitter keeps connections that were opened together from closing together.
async fn shutdown_due(stop: CancellationToken, max_age: Option<Duration>) {
    let Some(age) = max_age else { return stop.cancelled().await };
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(age.mul_f64(0.9 + 0.2 * fastrand::f64())) => {}
    }
}

/// A connection and its requests.
struct Driver<'c, S: WorkerService> {
    info: &'c ConnectionInfo,
    socket: Stream,
    session: Session,
    service: Rc<S>,
    peer: Rc<Peer>,
    /// Input that the session has not taken: an incomplete frame, or more while the session has stopped.
    partial: Vec<u8>,
    /// Requests that are not answered yet.
    calls: FuturesUnordered<PendingCall<S>>,
    /// Streamed bodies that wait for their next frame.
    bodies: FuturesUnordered<PendingFrame<S::Body>>,
    /// Streamed bodies whose last frame is not sent yet, by stream.
    draining: HashMap<u32, PendingFrame<S::Body>, FxBuildHasher>,
    /// How many of the requests and bodies may be polled at once.
    polls: Polls,
    keep_alive: KeepAlive,
    closing: bool,
    place: Place,
}

impl<'c, S: WorkerService> Driver<'c, S> {
    fn new(
        socket: Stream,
        service: Rc<S>,
        peer: Rc<Peer>,
        limits: &ConnectionLimits,
        account: ConnectionAccount,
        (info, place): (&'c ConnectionInfo, Place),
    ) -> Self {
        let session_limits = Limits {
            max_streams: limits.max_concurrent_streams,
            max_header_bytes: MAX_HEADER_BYTES,
            max_request_bytes: limits.max_request_bytes,
        };
        let session = Session::new(session_limits, S::fixed_response(), account);
        Self {
            info,
            socket,
            session,
            service,
            peer,
            partial: Vec::new(),
            calls: FuturesUnordered::new(),
            bodies: FuturesUnordered::new(),
            draining: HashMap::default(),
            polls: Polls::default(),
            keep_alive: KeepAlive::new(limits.keep_alive_timeout),
            closing: false,
            place,
        }
    }

    /// Serves a new connection until it is closed.
    ///
    /// The server preface is sent first: a client that has closed the connection meanwhile answers with a reset, and nothing that it sent is
    /// served. Under a flood of connections most are closed before they are served.
    async fn run(&mut self) -> Result<(), ConnectionEnd> {
        std::future::poll_fn(|cx| Poll::Ready(self.poll_write(cx).map(drop))).await?;
        if self.socket.is_reset() {
            return Ok(());
        }
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    /// Frees what is pending, in turns: very many calls take as long as answering some. What they count is released after them.
    async fn free(mut self) {
        std::future::poll_fn(|cx| self.place.poll_open(cx)).await;
        let calls = std::mem::take(&mut self.calls).into_iter().map(drop);
        let bodies = std::mem::take(&mut self.bodies).into_iter().map(drop);
        let draining = std::mem::take(&mut self.draining).into_values().map(drop);
        let streams = self.session.close_all();
        for () in calls.chain(bodies).chain(draining).chain(streams) {
            self.place.count_call(0);
            self.place.count_request();
            if self.place.is_over() {
                // Or the next one who needs memory sorts what all of these turns freed.
                mixer_base::memory::sort_freed();
                std::future::poll_fn(|cx| self.place.poll_open(cx)).await;
            }
        }
        mixer_base::memory::sort_freed();
    }

    /// Ready when the connection is closed.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionEnd>> {
        OUTPUT.with_borrow_mut(|output| self.session.borrow_output(output));
        let polled = self.poll_in_turns(cx);
        OUTPUT.with_borrow_mut(|output| self.session.return_output(output));
        if polled.is_pending()
            && let Err(error) = self.count_kept()
        {
            return self.abort(error, cx);
        }
        polled
    }

    /// Counts what the connection keeps. Without memory for the frames that are left, they are processed first.
    fn count_kept(&mut self) -> Result<(), ConnectionError> {
        let counted = self.session.count_kept(self.partial.capacity());
        if counted.is_ok() || !self.session.has_stopped() {
            return counted;
        }
        while self.session.has_stopped() && !self.session.is_full() {
            let input = std::mem::take(&mut self.partial);
            self.receive(&input)?;
        }
        self.session.count_kept(self.partial.capacity())
    }

    /// Tells the client why its connection is closed, if the socket is writable.
    fn abort(&mut self, error: ConnectionError, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionEnd>> {
        self.session.abort(error.code);
        let _ = self.poll_write(cx);
        Poll::Ready(Err(error.into()))
    }

    fn poll_in_turns(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionEnd>> {
        if self.keep_alive.poll(cx, &mut self.session).is_ready() {
            return Poll::Ready(Err(ConnectionEnd::Unresponsive));
        }
        self.session.register_waker(cx.waker());
        self.place.looked();
        loop {
            if self.closing {
                // The client may take its time.
                self.place.rest();
                return self.poll_close(cx);
            }
            if self.place.is_over() {
                // Goes on after the event loop has looked for events of others, and after the others that wait for their turn.
                let waited = ready!(self.place.poll_next(cx));
                // Whoever waited long may have left.
                if waited >= LONG_WAIT && self.socket.is_reset() {
                    return Poll::Ready(Ok(()));
                }
            }
            let is_behind = self.session.waiting_requests() > 0;
            let mut has_progress = match self.poll_read(cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(_)) => true,
                Poll::Ready(Err(ConnectionEnd::Protocol(error))) => return self.abort(error, cx),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => is_behind,
            };
            let mut arrived = 0;
            while !self.place.is_over()
                && let Some(request) = self.session.next_request()
            {
                arrived += 1;
                self.counted(|driver| driver.start_call(request, cx));
                self.place.count_request();
            }
            if arrived > 0 {
                has_progress = true;
                self.info.count(arrived);
            }
            has_progress |= self.poll_pending(cx);
            self.session.send_window_updates();
            // Bodies whose last frame is sent go on.
            has_progress |= self.session.send_blocked();
            let was_congested = self.session.is_congested();
            if self.poll_write(cx)?.is_ready() {
                // Output space is available again for blocked streams and for reading.
                if self.session.send_blocked() {
                    self.place.count_call(0);
                    self.place.count_request();
                    has_progress = true;
                }
                has_progress |= was_congested;
            }
            self.closing = self.session.is_finished();
            // What is left when a turn is over was not asked whether it has progress.
            if !has_progress && !self.place.is_over() && !self.closing {
                self.place.rest();
                return Poll::Pending;
            }
        }
    }

    /// Counts the work of a call.
    fn counted<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = S::work_done();
        let result = work(self);
        self.place.count_call(S::work_done().wrapping_sub(before));
        result
    }

    /// Reads until the socket is empty, or as much as one turn serves. Requests that the last turn left come before further input.
    /// `Ok(0)`: end of stream.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ConnectionEnd>> {
        let mut all = 0;
        if self.session.waiting_requests() > 0 {
            return Poll::Pending;
        }
        while !self.session.is_congested()
            && !self.place.is_over()
            && all < MAX_INPUT
            && self.session.waiting_requests() < MAX_REQUESTS
            && !self.session.is_full()
        {
            if self.session.has_stopped() {
                let input = std::mem::take(&mut self.partial);
                self.receive(&input)?;
                self.place.count_input(input.len() - self.partial.len());
                // Bytes that were read before: there is progress, whatever they hold.
                all = all.max(1);
                continue;
            }
            match INPUT.with_borrow_mut(|input| self.read_once(input, cx)) {
                Poll::Ready(Ok(count)) if count > 0 => {
                    all += count;
                    self.place.count_input(count);
                }
                Poll::Pending if all > 0 => return Poll::Ready(Ok(all)),
                other => return other,
            }
        }
        if all > 0 { Poll::Ready(Ok(all)) } else { Poll::Pending }
    }

    fn read_once(&mut self, input: &mut [u8], cx: &mut Context<'_>) -> Poll<Result<usize, ConnectionEnd>> {
        // INVARIANT: `partial` is shorter than a frame unless the session has stopped. A frame is about a quarter of the buffer.
        let kept = self.partial.len();
        let Some((begin, room)) = input.split_at_mut_checked(kept) else { return Poll::Pending };
        let mut buffer = ReadBuf::new(room);
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut buffer))?;
        let count = buffer.filled().len();
        begin.copy_from_slice(&self.partial);
        self.partial.clear();
        self.receive(input.get(..kept + count).unwrap_or_default())?;
        Poll::Ready(Ok(count))
    }

    /// Tells of a client that speaks another protocol: nobody else does, neither it nor what asks through it.
    #[cold]
    fn tell_foreign(&self, input: &[u8]) {
        let what = foreign::foreign(input, matches!(*self.peer, Peer::Tls(..)));
        mixer_base::warn_limited!(10, caller = %self.peer, "a connection was refused: {what}");
    }

    /// Passes input to the session and keeps what it does not take. INVARIANT: `partial` is empty.
    fn receive(&mut self, input: &[u8]) -> Result<(), ConnectionError> {
        let taken = self.session.receive(input).inspect_err(|_| {
            if self.session.expects_preface() {
                self.tell_foreign(input);
            }
        })?;
        let rest = input.get(taken..).unwrap_or_default();
        // Not more than what is left.
        self.partial.reserve_exact(rest.len());
        self.partial.extend_from_slice(rest);
        Ok(())
    }

    /// Writes output; ready when all is written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, ConnectionEnd> {
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

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionEnd>> {
        if self.poll_write(cx)?.is_pending() {
            return Poll::Pending;
        }
        Pin::new(&mut self.socket).poll_shutdown(cx).map_err(ConnectionEnd::from)
    }

    /// Polls a request once and keeps it if it is pending.
    fn start_call(&mut self, request: IncomingRequest, cx: &mut Context<'_>) {
        let IncomingRequest { stream, head, body } = request;
        let call = Rc::clone(&self.service).call(head, body, Rc::clone(&self.peer));
        let mut call: CallFuture<S::Body> = Box::pin(call);
        match call::poll_call::<S>(call.as_mut(), cx) {
            Poll::Ready(response) => self.answer(stream, response),
            Poll::Pending => {
                if let Some(closed) = self.session.watch_closed(stream) {
                    self.calls.push(PendingCall { polls: self.polls.clone(), stream, call, closed });
                }
            }
        }
    }

    /// Polls pending requests and bodies until the turn is over. Returns whether any made progress.
    fn poll_pending(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        if !self.calls.is_empty() {
            while let Some(next) = self.poll_some(cx, |driver, cx| driver.calls.poll_next_unpin(cx)) {
                any = true;
                if let Some((stream, Some(response))) = next {
                    self.answer(stream, response);
                }
            }
        }
        while let Some(stream) = self.session.next_drained() {
            any = true;
            self.bodies.extend(self.draining.remove(&stream));
        }
        if !self.bodies.is_empty() {
            while let Some(next) = self.poll_some(cx, |driver, cx| driver.bodies.poll_next_unpin(cx)) {
                any = true;
                if let Some(Some((body, frame))) = next {
                    self.send_frame(body, frame);
                }
            }
        }
        any
    }

    /// Polls some of the pending requests or bodies: `None` if the turn is over or none can go on, `Some(None)` if others are to be polled.
    fn poll_some<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Self, &mut Context<'_>) -> Poll<Option<T>>,
    ) -> Option<Option<T>> {
        if self.place.is_over() {
            return None;
        }
        self.polls.allow_some();
        let polled = self.counted(|driver| poll(driver, cx));
        let next = match polled {
            Poll::Ready(next) => Some(next?),
            Poll::Pending if self.polls.are_spent() => None,
            Poll::Pending => return None,
        };
        self.place.count_request();
        Some(next)
    }

    fn answer(&mut self, stream: u32, response: Response<Answer<S::Body>>) {
        let (head, body) = response.into_parts();
        match body {
            Answer::Fixed(message) => self.session.send_fixed_response(stream, message),
            Answer::Empty => self.session.send_headers(stream, head.status, &head.headers, true),
            Answer::Stream(body) if body.is_end_stream() => {
                self.session.send_headers(stream, head.status, &head.headers, true);
            }
            Answer::Stream(body) => {
                if !self.session.hold_call(stream) {
                    return;
                }
                self.session.send_headers(stream, head.status, &head.headers, false);
                if let Some(closed) = self.session.watch_closed(stream) {
                    let polls = self.polls.clone();
                    self.bodies.push(PendingFrame { polls, stream, body: Some(body), closed });
                }
            }
        }
    }

    /// Sends a frame of a body; the next one is polled when it has left the session.
    fn send_frame(&mut self, body: PendingFrame<S::Body>, frame: NextFrame) {
        let stream = body.stream;
        match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(data))) => {
                self.session.send_data(stream, data);
                self.wait_until_drained(body);
            }
            Some(Ok(Err(other))) => match other.into_trailers() {
                Ok(trailers) => self.session.send_end_stream(stream, Some(trailers)),
                Err(_) => self.wait_until_drained(body),
            },
            Some(Err(_)) => self.session.send_reset(stream, ErrorCode::INTERNAL_ERROR),
            None => self.session.send_end_stream(stream, None),
        }
    }

    /// Polls the next frame of a body once the last one has left the session.
    fn wait_until_drained(&mut self, body: PendingFrame<S::Body>) {
        match self.session.watch_drained(body.stream) {
            Some(true) => self.bodies.push(body),
            Some(false) => drop(self.draining.insert(body.stream, body)),
            // The stream is closed.
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
