//! The sending direction of a stream: a body that waits for window.

use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::SendStream;
use http::HeaderMap;

use super::HIGH_WATERMARK;

/// A body that is being sent, and its trailers.
#[derive(Debug)]
pub(crate) struct Outgoing {
    stream: SendStream<Bytes>,
    pending: BytesMut,
    end: Option<End>,
}

/// What follows the data.
#[derive(Debug)]
enum End {
    Plain,
    Trailers(HeaderMap),
}

impl Outgoing {
    /// The body of a message whose head was sent, and did not end the stream.
    pub(crate) fn new(stream: SendStream<Bytes>) -> Self {
        Self { stream, pending: BytesMut::new(), end: None }
    }

    /// Adds data.
    pub(crate) fn write(&mut self, data: &[u8]) {
        self.pending.put_slice(data);
    }

    /// Ends the body.
    pub(crate) fn end(&mut self, trailers: Option<HeaderMap>) {
        self.end = Some(trailers.map_or(End::Plain, End::Trailers));
    }

    /// Whether so much waits that no more is to be written.
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() >= HIGH_WATERMARK
    }

    /// Whether anything waits.
    pub(crate) fn has_output(&self) -> bool {
        !self.pending.is_empty() || self.end.is_some()
    }

    /// Sends as much as windows allow. Ready when nothing waits, or something was sent. Errors: the stream or its connection is gone.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        let mut has_moved = false;
        while !self.pending.is_empty() {
            self.stream.reserve_capacity(self.pending.len());
            let room = match self.stream.capacity() {
                0 => match self.stream.poll_capacity(cx) {
                    Poll::Ready(Some(Ok(room))) => room,
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                    // No more can be sent: the stream was reset.
                    Poll::Ready(None) => return Poll::Ready(Err(h2::Reason::CANCEL.into())),
                    Poll::Pending if has_moved => return Poll::Ready(Ok(())),
                    Poll::Pending => return Poll::Pending,
                },
                room => room,
            };
            if room == 0 {
                continue;
            }
            let data = self.pending.split_to(room.min(self.pending.len())).freeze();
            let is_last = self.pending.is_empty() && matches!(self.end, Some(End::Plain));
            if is_last {
                self.end = None;
            }
            self.stream.send_data(data, is_last)?;
            has_moved = true;
        }
        match self.end.take() {
            None => {}
            Some(End::Plain) => self.stream.send_data(Bytes::new(), true)?,
            Some(End::Trailers(trailers)) => self.stream.send_trailers(trailers)?,
        }
        Poll::Ready(Ok(()))
    }

    /// Ends the stream with an error.
    pub(crate) fn reset(&mut self, reason: h2::Reason) {
        self.stream.send_reset(reason);
    }

    /// Ready once the stream is reset, or its connection is gone.
    pub(crate) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<Result<h2::Reason, h2::Error>> {
        self.stream.poll_reset(cx)
    }
}
