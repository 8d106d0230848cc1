//! A stream: one request and its response.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use tokio::sync::oneshot;

use super::body::BodyBuffer;
use super::flow_control::FlowControl;
use super::{ErrorCode, RequestBody, RequestHead};

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

/// A stream in state open or half-closed (remote).
#[derive(Debug)]
pub(super) struct Stream {
    /// Taken when the request is delivered.
    pub(super) head: Option<Rc<RequestHead>>,
    /// Body received before the request is delivered.
    body: BytesMut,
    buffer: Option<Arc<BodyBuffer>>,
    /// Half-closed (remote): END_STREAM was received.
    pub(super) is_half_closed: bool,
    /// Bytes that content-length promises and that have not arrived.
    remaining: Option<u64>,
    /// Receive window in bytes.
    pub(super) receive_window: i64,
    /// Send window in bytes.
    pub(super) send_window: i64,
    pub(super) outgoing: VecDeque<Outgoing>,
    /// Dropped with the stream, which notifies the receiver.
    closed: Option<oneshot::Sender<()>>,
}

impl Stream {
    pub(super) fn new(head: Rc<RequestHead>, receive_window: i64, send_window: i64) -> Self {
        Self {
            remaining: head.content_length(),
            head: Some(head),
            body: BytesMut::new(),
            buffer: None,
            is_half_closed: false,
            receive_window,
            send_window,
            outgoing: VecDeque::new(),
            closed: None,
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

    /// Delivers the request, once.
    pub(super) fn request(
        &mut self,
        flow_control: &Arc<FlowControl>,
        id: u32,
    ) -> Option<(Rc<RequestHead>, RequestBody)> {
        let head = self.head.take()?;
        let body = if self.is_half_closed && self.buffer.is_none() {
            RequestBody::complete(std::mem::take(&mut self.body).freeze())
        } else {
            RequestBody::arriving(Arc::clone(self.buffer(flow_control, id)))
        };
        Some((head, body))
    }

    fn buffer(&mut self, flow_control: &Arc<FlowControl>, id: u32) -> &Arc<BodyBuffer> {
        let body = &mut self.body;
        self.buffer.get_or_insert_with(|| {
            Arc::new(BodyBuffer::new(id, std::mem::take(body), Arc::clone(flow_control)))
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
