//! A stream: one request and its response.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use tokio::sync::oneshot;

use super::body::BodyBuffer;
use super::flow_control::FlowControl;
use super::frame::MAX_FRAME;
use super::{ErrorCode, RequestBody, RequestHead};

/// Memory that a call takes besides its request while it waits for the rest of it, or while its answer is a stream: the HTTP/2 stream, the
/// task, and what its service keeps. A head that takes no more does not count once its complete request is delivered.
pub(super) const CALL_MEMORY: usize = 10 << 10;
/// Memory that an answer takes besides its bytes while it waits: the stream, its place among the blocked ones, and its queue.
pub(super) const ANSWER_MEMORY: usize = 1 << 10;

/// Part of a response that waits for flow-control window.
#[derive(Debug)]
pub(super) enum Outgoing {
    Data(Bytes),
    /// END_STREAM with trailers.
    Trailers(HeaderMap),
    /// END_STREAM with the trailer of the fixed response.
    FixedTrailer,
    /// END_STREAM without trailers.
    End,
}

/// What the answer of a stream waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Wait {
    /// Nothing waits.
    #[default]
    Nothing,
    /// Room in the output, since so many others began to wait.
    Output(u64),
    /// Window of the connection, in the same order.
    Connection(u64),
    /// Window of its own.
    Window,
}

/// A stream in state open or half-closed (remote).
#[derive(Debug)]
pub(super) struct Stream {
    /// Taken when the request is delivered.
    pub(super) head: Option<Rc<RequestHead>>,
    /// Memory of the head until then; 0 for one of the cache.
    pub(super) head_memory: usize,
    /// Body received before the request is delivered.
    body: BytesMut,
    buffer: Option<Arc<BodyBuffer>>,
    /// Memory of the request that is counted before it is delivered.
    held: usize,
    /// Counted from delivery to the end of the stream: [`CALL_MEMORY`] if the request was not complete or its answer is a stream, and a
    /// large head if the request was complete.
    call: usize,
    /// Half-closed (remote): END_STREAM was received.
    pub(super) is_half_closed: bool,
    /// Bytes that content-length promises and that have not arrived.
    remaining: Option<u64>,
    /// Receive window in bytes.
    pub(super) receive_window: i64,
    /// Send window in bytes, relative to the initial window of the client: WINDOW_UPDATEs minus sent DATA.
    pub(super) send_credit: i64,
    pub(super) outgoing: VecDeque<Outgoing>,
    /// Bytes of DATA in `outgoing` that count in memory.
    waiting: usize,
    /// What `outgoing` counts besides: [`ANSWER_MEMORY`] while it waits, and 0 while it is empty.
    answer: usize,
    /// Whether DATA was queued on an idle stream, or encoded, since the last search for stalled streams.
    pub(super) has_moved: bool,
    /// What `outgoing` waits for.
    pub(super) wait: Wait,
    /// Whether it is to be told when `outgoing` is empty.
    pub(super) is_watched: bool,
    /// Dropped with the stream, which notifies the receiver.
    closed: Option<oneshot::Sender<()>>,
}

impl Stream {
    pub(super) fn new(head: Rc<RequestHead>, head_memory: usize, receive_window: i64) -> Self {
        Self {
            remaining: head.content_length(),
            head: Some(head),
            head_memory,
            body: BytesMut::new(),
            buffer: None,
            held: 0,
            call: 0,
            is_half_closed: false,
            receive_window,
            send_credit: 0,
            outgoing: VecDeque::new(),
            waiting: 0,
            answer: 0,
            has_moved: false,
            wait: Wait::Nothing,
            is_watched: false,
            closed: None,
        }
    }

    /// Counts bytes of the request. Errors: the limits of the connection or of its account are reached.
    pub(super) fn hold(&mut self, count: usize, flow_control: &FlowControl) -> Result<(), ErrorCode> {
        let holds = match &self.buffer {
            Some(buffer) => buffer.hold(count),
            None => {
                let holds = flow_control.hold(count);
                self.held += if holds { count } else { 0 };
                holds
            }
        };
        if holds { Ok(()) } else { Err(ErrorCode::ENHANCE_YOUR_CALM) }
    }

    /// Releases what is counted before the request is delivered.
    fn release(&mut self, flow_control: &FlowControl) {
        let held = std::mem::take(&mut self.held);
        if held > 0 {
            flow_control.release(held);
        }
    }

    /// Releases everything that the stream itself counts: what precedes delivery, the call, and what was not sent.
    pub(super) fn release_all(&mut self, flow_control: &FlowControl) {
        self.release(flow_control);
        let call = std::mem::take(&mut self.call);
        if call > 0 {
            flow_control.release(call);
        }
        self.sent(self.waiting, flow_control);
        self.all_sent(flow_control);
    }

    /// Counts [`CALL_MEMORY`] until the stream is closed, once. Returns false beyond the limits of the connection or of its account.
    pub(super) fn hold_call(&mut self, flow_control: &FlowControl) -> bool {
        let missing = CALL_MEMORY.saturating_sub(self.call);
        let holds = missing == 0 || flow_control.hold(missing);
        self.call += if holds { missing } else { 0 };
        holds
    }

    /// Counts `count` bytes of the response that wait, and the answer that they belong to. Errors: as [`hold`](Self::hold).
    pub(super) fn count_waiting(
        &mut self,
        count: usize,
        flow_control: &FlowControl,
    ) -> Result<(), ErrorCode> {
        let answer = ANSWER_MEMORY - self.answer;
        if !flow_control.hold(count + answer) {
            return Err(ErrorCode::ENHANCE_YOUR_CALM);
        }
        self.waiting += count;
        self.answer += answer;
        Ok(())
    }

    /// Nothing of the response waits any more.
    pub(super) fn all_sent(&mut self, flow_control: &FlowControl) {
        let answer = std::mem::take(&mut self.answer);
        if answer > 0 {
            flow_control.release(answer);
        }
    }

    /// Notes that `count` bytes of the response were encoded; those that waited no longer count.
    pub(super) fn sent(&mut self, count: usize, flow_control: &FlowControl) {
        self.has_moved = true;
        let released = self.waiting.min(count);
        if released > 0 {
            self.waiting -= released;
            flow_control.release(released);
        }
    }

    /// Adds body data. Errors: more than content-length.
    pub(super) fn push(&mut self, data: &[u8]) -> Result<(), ErrorCode> {
        if let Some(remaining) = &mut self.remaining {
            *remaining = remaining.checked_sub(data.len() as u64).ok_or(ErrorCode::PROTOCOL_ERROR)?;
        }
        match &self.buffer {
            Some(buffer) => buffer.push(data),
            None => self.body.extend_from_slice(data),
        }
        Ok(())
    }

    /// Handles END_STREAM. Errors: less data than content-length.
    pub(super) fn end(
        &mut self,
        trailers: Option<HeaderMap>,
        flow_control: &Arc<FlowControl>,
        id: u32,
    ) -> Result<(), ErrorCode> {
        if self.remaining.is_some_and(|remaining| remaining > 0) {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        self.is_half_closed = true;
        if trailers.is_some() {
            self.buffer(flow_control, id).end(trailers);
        } else if let Some(buffer) = &self.buffer {
            buffer.end(None);
        }
        Ok(())
    }

    /// Delivers the request, once. The head of a request that is not complete counts as well, and its call until the stream is closed; of a
    /// request that is complete and no larger than a frame only a large head counts.
    ///
    /// Errors: as [`hold`](Self::hold).
    pub(super) fn request(
        &mut self,
        flow_control: &Arc<FlowControl>,
        id: u32,
    ) -> Option<Result<(Rc<RequestHead>, RequestBody), ErrorCode>> {
        let head = self.head.take()?;
        if self.is_half_closed && self.buffer.is_none() && self.body.len() <= MAX_FRAME {
            self.release(flow_control);
            if head.memory() > CALL_MEMORY {
                if !flow_control.hold(head.memory()) {
                    return Some(Err(ErrorCode::ENHANCE_YOUR_CALM));
                }
                self.call = head.memory();
            }
            return Some(Ok((head, RequestBody::complete(std::mem::take(&mut self.body).freeze()))));
        }
        if !self.is_half_closed {
            if !self.hold_call(flow_control) {
                return Some(Err(ErrorCode::ENHANCE_YOUR_CALM));
            }
            if let Err(code) = self.hold(head.memory(), flow_control) {
                return Some(Err(code));
            }
        }
        let is_complete = self.is_half_closed && self.buffer.is_none();
        let buffer = Arc::clone(self.buffer(flow_control, id));
        if is_complete {
            buffer.end(None);
        }
        Some(Ok((head, RequestBody::arriving(buffer))))
    }

    fn buffer(&mut self, flow_control: &Arc<FlowControl>, id: u32) -> &Arc<BodyBuffer> {
        let (body, held) = (&mut self.body, &mut self.held);
        self.buffer.get_or_insert_with(|| {
            let (body, held) = (std::mem::take(body), std::mem::take(held));
            Arc::new(BodyBuffer::new(id, body, held, Arc::clone(flow_control)))
        })
    }

    /// Fails a body that is still being read.
    pub(super) fn fail_body(&self, code: ErrorCode) {
        if let Some(buffer) = &self.buffer {
            buffer.fail(code);
        }
    }

    /// Completes when the stream is closed.
    pub(super) fn watch_closed(&mut self) -> oneshot::Receiver<()> {
        let (closed, receiver) = oneshot::channel();
        self.closed = Some(closed);
        receiver
    }
}
