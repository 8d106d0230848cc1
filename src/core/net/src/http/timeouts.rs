//! Time limits of one connection: a body that does not arrive, a client that does not read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::connections::{InRequest, Slot};

/// A socket whose writes fail when the client has taken nothing for a time.
pub(super) struct WriteTimeout<S> {
    socket: S,
    limit: Duration,
    /// Runs while a write waits.
    timer: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(socket: S, limit: Duration) -> Self {
        Self { socket, limit, timer: Box::pin(tokio::time::sleep(limit)), is_waiting: false }
    }

    /// Passes a result through; one that waits for too long becomes an error.
    fn limited<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.is_waiting = false;
            return result;
        }
        if !self.is_waiting {
            self.is_waiting = true;
            self.timer.as_mut().reset(Instant::now() + self.limit);
        }
        match self.timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, data);
        self.limited(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, data);
        self.limited(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        self.limited(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.socket).poll_shutdown(cx);
        self.limited(cx, shut)
    }
}

/// Why a body does not arrive: its connection gives way to a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("all connections are in use, and this one has waited longest for its request to arrive; try again")]
pub struct Displaced;

/// How often the rate of a body is looked at; the first time after twice as long.
const LOOKS: Duration = Duration::from_secs(1);

/// The body of a request, which fails when it is not complete in time from its first read on, or arrives too slowly.
pub struct RequestBody<B> {
    body: B,
    slot: Arc<Slot>,
    /// Since when it is read; a request may wait for its turn before.
    begun: Option<Instant>,
    limit: Duration,
    /// Bytes a second; 0: any.
    min_rate: u64,
    received: u64,
    timer: Pin<Box<Sleep>>,
}

impl<B: Body> RequestBody<B> {
    /// A body that is complete within `limit`, and of which `min_rate` bytes arrive in a second; 0: any.
    pub(super) fn new(body: B, slot: &Arc<Slot>, limit: Duration, min_rate: u64) -> Self {
        Self {
            body,
            slot: Arc::clone(slot),
            begun: None,
            limit,
            min_rate,
            received: 0,
            timer: Box::pin(tokio::time::sleep(limit)),
        }
    }

    /// Why the body fails, now that the timer has ended.
    fn failure(&self, begun: Instant) -> Option<&'static str> {
        let elapsed = begun.elapsed();
        if elapsed >= self.limit {
            return Some("the body did not arrive in time");
        }
        (self.received < self.min_rate.saturating_mul(elapsed.as_secs()))
            .then_some("the body arrives too slowly")
    }
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let begun = match self.begun {
            Some(begun) => begun,
            None => {
                let (now, limit) = (Instant::now(), self.limit);
                let first = if self.min_rate > 0 { limit.min(LOOKS * 2) } else { limit };
                self.timer.as_mut().reset(now + first);
                self.begun = Some(now);
                // While it waits for its turn, it is not the client that is slow.
                self.slot.body(self.body.is_end_stream());
                now
            }
        };
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(frame) = polled {
            if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
                self.received += data.len() as u64;
            }
            if frame.is_none() || self.body.is_end_stream() {
                self.slot.body(true);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        if self.slot.is_closed() {
            return Poll::Ready(Some(Err(Displaced.into())));
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if let Some(why) = self.failure(begun) {
                return Poll::Ready(Some(Err(why.into())));
            }
            let next = (begun + self.limit).min(Instant::now() + LOOKS);
            self.timer.as_mut().reset(next);
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response, at whose end the request ends.
pub(super) struct ResponseBody<B> {
    pub(super) body: B,
    pub(super) _request: InRequest,
}

impl<B: Body + Unpin> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
