//! Requests and streamed bodies that wait, as futures that end with their stream.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame};
use tokio::sync::oneshot;

use crate::service::{Answer, WorkerService};
use mixer_base::task;

/// The future of a request.
pub(super) type CallFuture<B> = Pin<Box<dyn Future<Output = Response<Answer<B>>>>>;

/// The next frame of a body; `None` at its end, an error if the body failed or panicked.
pub(super) type NextFrame = Option<Result<Frame<Bytes>, ()>>;

/// A request that waits for something. Completes without a response when its stream is closed.
pub(super) struct PendingCall<S: WorkerService> {
    pub(super) stream: u32,
    pub(super) call: CallFuture<S::Body>,
    pub(super) closed: oneshot::Receiver<()>,
}

/// Polls a request. A panic becomes the response of [`WorkerService::failed`], and leaves the other requests of the connection alone.
pub(super) fn poll_call<S: WorkerService>(
    call: Pin<&mut (dyn Future<Output = Response<Answer<S::Body>>> + 'static)>,
    cx: &mut Context<'_>,
) -> Poll<Response<Answer<S::Body>>> {
    let polled = std::panic::catch_unwind(AssertUnwindSafe(|| call.poll(cx)));
    polled.unwrap_or_else(|panic| {
        task::calls().count_panic(&task::panic_text(&*panic));
        Poll::Ready(S::failed())
    })
}

impl<S: WorkerService> Future for PendingCall<S> {
    type Output = (u32, Option<Response<Answer<S::Body>>>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(response) = poll_call::<S>(self.call.as_mut(), cx) {
            return Poll::Ready((self.stream, Some(response)));
        }
        Pin::new(&mut self.closed).poll(cx).map(|_| (self.stream, None))
    }
}

/// Waits for the next frame of a streamed body. Completes with `None` when its stream is closed.
pub(super) struct PendingFrame<B> {
    pub(super) stream: u32,
    pub(super) body: Option<B>,
    pub(super) closed: oneshot::Receiver<()>,
}

impl<B: Body<Data = Bytes> + Unpin> Future for PendingFrame<B> {
    type Output = Option<(PendingFrame<B>, NextFrame)>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| Pin::new(body).poll_frame(cx)));
        let polled = polled.map(|frame| frame.map(|frame| frame.map(|frame| frame.map_err(drop))));
        let polled = polled.unwrap_or_else(|panic| {
            task::calls().count_panic(&task::panic_text(&*panic));
            Poll::Ready(Some(Err(())))
        });
        if let Poll::Ready(frame) = polled {
            let (_, never) = oneshot::channel();
            let closed = std::mem::replace(&mut this.closed, never);
            let next = PendingFrame { stream: this.stream, body: this.body.take(), closed };
            return Poll::Ready(Some((next, frame)));
        }
        Pin::new(&mut this.closed).poll(cx).map(|_| None)
    }
}
