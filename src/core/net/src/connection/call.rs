//! Requests and streamed bodies that wait, as futures that end with their stream.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame};
use tokio::sync::oneshot;

use crate::service::Answer;

/// The future of a request.
pub(super) type CallFuture<B> = Pin<Box<dyn Future<Output = Response<Answer<B>>>>>;

/// The next frame of a body; `None` at its end.
pub(super) type NextFrame<B> = Option<Result<Frame<Bytes>, <B as Body>::Error>>;

/// A request that waits for something. Completes without a response when its stream is closed.
pub(super) struct PendingCall<B> {
    pub(super) stream: u32,
    pub(super) call: CallFuture<B>,
    pub(super) closed: oneshot::Receiver<()>,
}

impl<B> Future for PendingCall<B> {
    type Output = (u32, Option<Response<Answer<B>>>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(response) = self.call.as_mut().poll(cx) {
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
    type Output = Option<(PendingFrame<B>, NextFrame<B>)>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
            let (_, never) = oneshot::channel();
            let closed = std::mem::replace(&mut this.closed, never);
            let next = PendingFrame { stream: this.stream, body: this.body.take(), closed };
            return Poll::Ready(Some((next, frame)));
        }
        Pin::new(&mut this.closed).poll(cx).map(|_| None)
    }
}
