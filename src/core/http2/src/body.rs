//! The body of a request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

use super::Reason;
use super::credit::Credit;

/// Read bytes after which the window of a stream is opened again.
const WINDOW_STEP: usize = 256 << 10;

/// A body that broke off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BodyError(pub Reason);

/// The body of a request: whole from the start, or as it arrives.
#[derive(Debug)]
pub struct RequestBody {
    whole: Bytes,
    rest: Option<Arc<Inbox>>,
}

impl RequestBody {
    /// A body that is all there.
    pub fn whole(data: Bytes) -> Self {
        Self { whole: data, rest: None }
    }

    pub(super) fn arriving(inbox: Arc<Inbox>) -> Self {
        Self { whole: Bytes::new(), rest: Some(inbox) }
    }

    /// Takes the body if all of it is there and has no trailers.
    pub fn take_whole(&mut self) -> Option<Bytes> {
        self.rest.is_none().then(|| std::mem::take(&mut self.whole))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if !self.whole.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.whole)))));
        }
        self.rest.as_ref().map_or(Poll::Ready(None), |inbox| inbox.poll(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.whole.is_empty() && self.rest.as_ref().is_none_or(|inbox| inbox.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest {
            None => SizeHint::with_exact(self.whole.len() as u64),
            Some(_) => SizeHint::default(),
        }
    }
}

/// Where the rest of a body arrives; its bound is the window of the stream.
#[derive(Debug)]
pub(super) struct Inbox {
    stream: u32,
    credit: Arc<Credit>,
    state: Mutex<InboxState>,
}

#[derive(Debug, Default)]
struct InboxState {
    data: BytesMut,
    trailers: Option<HeaderMap>,
    end: Option<Result<(), Reason>>,
    /// Read, and not given back yet.
    read: usize,
    reader: Option<Waker>,
}

impl Inbox {
    /// `data` arrived already, and counts from now on.
    pub(super) fn new(stream: u32, data: BytesMut, credit: Arc<Credit>) -> Self {
        credit.buffer(data.len());
        Self { stream, credit, state: Mutex::new(InboxState { data, ..InboxState::default() }) }
    }

    pub(super) fn push(&self, data: &[u8]) {
        self.credit.buffer(data.len());
        self.change(|state| state.data.extend_from_slice(data));
    }

    pub(super) fn end(&self, trailers: Option<HeaderMap>) {
        self.change(|state| {
            state.trailers = trailers;
            state.end.get_or_insert(Ok(()));
        });
    }

    pub(super) fn fail(&self, reason: Reason) {
        self.change(|state| {
            state.end.get_or_insert(Err(reason));
        });
    }

    fn change(&self, change: impl FnOnce(&mut InboxState)) {
        let reader = {
            let mut state = self.state.lock();
            change(&mut state);
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.data.is_empty() && state.trailers.is_none() && state.end == Some(Ok(()))
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut state = self.state.lock();
        if let Some(Err(reason)) = state.end {
            // A caller that takes its request back after the end of its body does no harm.
            let error = (reason != Reason::NO_ERROR).then_some(Err(BodyError(reason)));
            return Poll::Ready(error);
        }
        if !state.data.is_empty() {
            let data = state.data.split().freeze();
            state.read += data.len();
            let opened =
                (state.read >= WINDOW_STEP && state.end.is_none()).then(|| std::mem::take(&mut state.read));
            drop(state);
            self.credit.take(data.len());
            if let Some(count) = opened {
                self.credit.open(self.stream, count);
            }
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if let Some(trailers) = state.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        if state.end.is_some() {
            return Poll::Ready(None);
        }
        if !state.reader.as_ref().is_some_and(|reader| reader.will_wake(cx.waker())) {
            state.reader = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let unread = self.state.get_mut().data.len();
        self.credit.take(unread);
    }
}
