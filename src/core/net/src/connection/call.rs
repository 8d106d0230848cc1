//! Requests and streamed bodies that wait, as futures that end with their stream.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

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

/// Requests and bodies that are polled one after the other although none of them gets further: very many take as long as some calls.
pub(super) const POLLS_AT_ONCE: usize = 16;

/// How many of the requests and bodies of a connection may be polled before it looks whether its turn is over. The others stay woken.
#[derive(Debug, Clone, Default)]
pub(super) struct Polls(Rc<Cell<usize>>);

impl Polls {
    /// Allows some.
    pub(super) fn allow_some(&self) {
        self.0.set(POLLS_AT_ONCE);
    }

    /// Whether all that were allowed were made: others may wait for theirs.
    pub(super) fn are_spent(&self) -> bool {
        self.0.get() == 0
    }

    /// Spends one, or has the future of `cx` polled again if there is none.
    fn poll_one(&self, cx: &Context<'_>) -> Poll<()> {
        match self.0.get().checked_sub(1) {
            Some(left) => {
                self.0.set(left);
                Poll::Ready(())
            }
            None => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

/// A request that waits for something. Completes without a response when its stream is closed.
pub(super) struct PendingCall<S: WorkerService> {
    pub(super) polls: Polls,
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
        ready!(self.polls.poll_one(cx));
        if let Poll::Ready(response) = poll_call::<S>(self.call.as_mut(), cx) {
            return Poll::Ready((self.stream, Some(response)));
        }
        Pin::new(&mut self.closed).poll(cx).map(|_| (self.stream, None))
    }
}

/// Waits for the next frame of a streamed body. Completes with `None` when its stream is closed.
pub(super) struct PendingFrame<B> {
    pub(super) polls: Polls,
    pub(super) stream: u32,
    pub(super) body: Option<B>,
    pub(super) closed: oneshot::Receiver<()>,
}

impl<B: Body<Data = Bytes> + Unpin> Future for PendingFrame<B> {
    type Output = Option<(PendingFrame<B>, NextFrame)>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        ready!(this.polls.poll_one(cx));
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
            let polls = this.polls.clone();
            let next = PendingFrame { polls, stream: this.stream, body: this.body.take(), closed };
            return Poll::Ready(Some((next, frame)));
        }
        Pin::new(&mut this.closed).poll(cx).map(|_| None)
    }
}
