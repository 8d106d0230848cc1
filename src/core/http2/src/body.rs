//! The body of a request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

use super::ErrorCode;
use super::flow_control::FlowControl;

/// Bytes read before a stream's WINDOW_UPDATE is sent.
const WINDOW_STEP: usize = 256 << 10;

/// The stream was reset before the end of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BodyError(pub ErrorCode);

/// The body of a request: complete, or still arriving.
#[derive(Debug)]
pub struct RequestBody(Source);

#[derive(Debug)]
enum Source {
    Complete(Bytes),
    Arriving(Arc<BodyBuffer>),
}

impl RequestBody {
    /// A complete body without trailers.
    pub fn complete(data: Bytes) -> Self {
        Self(Source::Complete(data))
    }

    /// The body, if it is complete and has no trailers.
    #[cfg(test)]
    pub(super) fn take_complete(&mut self) -> Option<Bytes> {
        match &mut self.0 {
            Source::Complete(data) => Some(std::mem::take(data)),
            Source::Arriving(_) => None,
        }
    }

    pub(super) fn arriving(buffer: Arc<BodyBuffer>) -> Self {
        Self(Source::Arriving(buffer))
    }
}

/// A body whose bytes count as memory of the connection until the request is answered and the body is dropped.
pub trait CountedBody: Body<Data = Bytes> {
    /// States how many of the bytes read so far the reader still has in memory; only these go on counting.
    fn keep(&self, bytes: usize);
}

impl CountedBody for RequestBody {
    fn keep(&self, bytes: usize) {
        if let Source::Arriving(buffer) = &self.0 {
            buffer.keep(bytes);
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Source::Complete(data) if data.is_empty() => Poll::Ready(None),
            Source::Complete(data) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(data))))),
            Source::Arriving(buffer) => buffer.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Complete(data) => data.is_empty(),
            Source::Arriving(buffer) => buffer.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Complete(data) => SizeHint::with_exact(data.len() as u64),
            Source::Arriving(_) => SizeHint::default(),
        }
    }
}

/// Received body data that is not read yet; bounded by the window of the stream.
#[derive(Debug)]
pub(super) struct BodyBuffer {
    stream: u32,
    flow_control: Arc<FlowControl>,
    state: Mutex<BufferState>,
}

#[derive(Debug, Default)]
struct BufferState {
    data: BytesMut,
    trailers: Option<HeaderMap>,
    end: Option<Result<(), ErrorCode>>,
    /// Read, and not credited to the window yet.
    read: usize,
    /// Counted as memory of the connection: unread, or kept by the reader.
    held: usize,
    reader: Option<Waker>,
}

impl BodyBuffer {
    /// A buffer that starts with `data`, of which `held` bytes count as memory.
    pub(super) fn new(stream: u32, data: BytesMut, held: usize, flow_control: Arc<FlowControl>) -> Self {
        flow_control.add_buffered(data.len());
        let state = BufferState { data, held, ..BufferState::default() };
        Self { stream, flow_control, state: Mutex::new(state) }
    }

    /// Counts bytes of the request; false beyond the limits.
    pub(super) fn hold(&self, count: usize) -> bool {
        let holds = self.flow_control.hold(count);
        self.state.lock().held += if holds { count } else { 0 };
        holds
    }

    fn keep(&self, bytes: usize) {
        let mut state = self.state.lock();
        let kept = state.held.min(state.data.len() + bytes);
        let released = state.held - kept;
        state.held = kept;
        drop(state);
        self.release(released);
    }

    fn release(&self, count: usize) {
        if count > 0 {
            self.flow_control.release(count);
        }
    }

    pub(super) fn push(&self, data: &[u8]) {
        self.flow_control.add_buffered(data.len());
        self.change(|state| state.data.extend_from_slice(data));
    }

    pub(super) fn end(&self, trailers: Option<HeaderMap>) {
        self.change(|state| {
            state.trailers = trailers;
            state.end.get_or_insert(Ok(()));
        });
    }

    pub(super) fn fail(&self, code: ErrorCode) {
        self.change(|state| {
            state.end.get_or_insert(Err(code));
        });
    }

    fn change(&self, change: impl FnOnce(&mut BufferState)) {
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
        if let Some(Err(code)) = state.end {
            // A reset with NO_ERROR is not an error for the reader.
            let error = (code != ErrorCode::NO_ERROR).then_some(Err(BodyError(code)));
            return Poll::Ready(error);
        }
        if !state.data.is_empty() {
            let data = state.data.split().freeze();
            state.read += data.len();
            let update =
                (state.read >= WINDOW_STEP && state.end.is_none()).then(|| std::mem::take(&mut state.read));
            drop(state);
            self.flow_control.remove_buffered(data.len());
            if let Some(count) = update {
                self.flow_control.request_update(self.stream, count);
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

impl Drop for BodyBuffer {
    fn drop(&mut self) {
        let BufferState { data, held, .. } = self.state.get_mut();
        let (unread, held) = (data.len(), *held);
        self.flow_control.remove_buffered(unread);
        self.release(held);
    }
}
