//! A stream of a client: the request that arrives on it, and the response.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::HeaderMap;

use super::super::client::{NotAhead, Progress, ReadEnd};
use super::super::framing::Remaining;
use super::super::kept::Kept;
use super::super::pieces::Pieces;
use super::convert;
use super::outgoing::Outgoing;
use crate::bodies::{Budget, Room};
use crate::buffer;
use crate::head::Head;

/// A stream of a client. Dropped before the response is complete, it is reset.
#[derive(Debug)]
pub(crate) struct ServerStream {
    body: RecvStream,
    /// Whether the request ended with its head. Decided once: the end of a body that has none may arrive at any time.
    is_empty: bool,
    /// What filters have seen of the body, and the host is yet to get.
    ahead: Option<Box<Kept>>,
    /// What follows it, and was received while nobody wanted it: at most the window of the stream. In `h2` small frames would take many times
    /// their length, and it ends a connection that has too many of them, with all requests on it.
    held: Pieces,
    /// Whether all data was received, and trailers may follow.
    is_read: bool,
    /// How the body ends behind what is held.
    end: Option<Result<(), ReadEnd>>,
    /// Fields that trailers may have.
    max_trailers: usize,
    trailers: Option<HeaderMap>,
    respond: SendResponse<Bytes>,
    /// The body of the response, once its head was sent.
    outgoing: Option<Outgoing>,
    /// Why the stream is gone.
    gone: Option<Gone>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// The client reset the stream.
    Reset,
    /// The connection has ended.
    Closed,
}

impl ServerStream {
    pub(super) fn new(body: RecvStream, respond: SendResponse<Bytes>, max_trailers: usize) -> Self {
        Self {
            is_empty: body.is_end_stream(),
            body,
            ahead: None,
            held: Pieces::default(),
            is_read: false,
            end: None,
            max_trailers,
            trailers: None,
            respond,
            outgoing: None,
            gone: None,
        }
    }

    /// What is left of the body.
    pub(crate) fn body(&self) -> Remaining {
        if self.is_empty { Remaining::Done } else { Remaining::UntilClose }
    }

    pub(crate) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        rest: &mut Remaining,
        wants: bool,
        mut take: impl FnMut(&[u8]),
    ) -> Progress {
        let mut progress = Progress::default();
        if wants && let Some(kept) = &mut self.ahead {
            progress.data = kept.take(&mut take);
            progress.moved = progress.data > 0;
            if kept.len() == 0 {
                self.ahead = None;
            }
        }
        let has_more = self.ahead.is_some();
        if !wants || has_more {
            progress.moved |= self.receive(cx);
        }
        while wants && !rest.is_done() && !has_more && progress.data < buffer::READ_SIZE {
            match self.poll_piece(cx) {
                Poll::Ready(Ok(Some(data))) => {
                    take(&data);
                    progress.data += data.len();
                    progress.moved = true;
                    // It was taken. A stream that has ended needs no window.
                    let _ = self.body.flow_control().release_capacity(data.len());
                }
                Poll::Ready(Ok(None)) => {
                    *rest = Remaining::Done;
                    progress.moved = true;
                }
                Poll::Ready(Err(end)) => return Progress { end: Some(end), ..progress },
                Poll::Pending => break,
            }
        }
        if self.poll_gone(cx).is_ready() {
            progress.end = Some(ReadEnd::Gone);
        }
        progress
    }

    /// How much was read of the body ahead of its host, and whether that is all of it.
    pub(in crate::http) fn ahead(&self) -> (usize, bool) {
        (self.ahead_len(), self.held.is_empty() && self.has_ended())
    }

    /// How much of the body has arrived, and was not passed on, and whether that is all of it.
    pub(in crate::http) fn arrived(&self) -> (usize, bool) {
        (self.ahead_len() + self.held.len(), self.has_ended())
    }

    fn ahead_len(&self) -> usize {
        self.ahead.as_ref().map_or(0, |kept| kept.len())
    }

    /// Whether the end of the body has arrived, and nothing before it is left in `h2`.
    fn has_ended(&self) -> bool {
        self.is_empty || self.end == Some(Ok(())) || self.body.is_end_stream()
    }

    /// What was read ahead.
    pub(in crate::http) fn kept(&mut self) -> Option<&mut Kept> {
        self.ahead.as_deref_mut()
    }

    /// Frees what was read ahead, and what follows it. The window stays as it is: nobody reads on.
    pub(crate) fn forget_ahead(&mut self) {
        self.ahead = None;
        self.held = Pieces::default();
    }

    /// Reads more of the body ahead: ready when there is more, or its end is seen.
    pub(in crate::http) fn poll_ahead(
        &mut self,
        cx: &mut Context<'_>,
        budget: &Arc<Budget>,
    ) -> Poll<Result<(), NotAhead>> {
        // All of it: small frames may arrive faster than they are looked at one by one.
        self.receive(cx);
        match self.poll_piece(cx) {
            Poll::Ready(Ok(Some(data))) => {
                let of_body = || Box::new(Kept::new(Room::new(budget), Remaining::UntilClose));
                self.ahead.get_or_insert_with(of_body).push(&data)?;
                // Who reads ahead bounds what is kept.
                let _ = self.body.flow_control().release_capacity(data.len());
            }
            Poll::Ready(Ok(None)) => {}
            Poll::Ready(Err(end)) => return Poll::Ready(Err(end.into())),
            Poll::Pending if self.poll_gone(cx).is_ready() => return Poll::Ready(Err(ReadEnd::Gone.into())),
            Poll::Pending => return Poll::Pending,
        }
        Poll::Ready(Ok(()))
    }

    /// Receives what has arrived, for which there is no use yet. Returns whether there was anything.
    pub(in crate::http) fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while !self.is_empty && self.end.is_none() {
            match self.poll_received(cx) {
                Poll::Ready(Ok(Some(data))) => {
                    moved |= !data.is_empty();
                    self.held.push(&data, |_| true);
                }
                Poll::Ready(Ok(None)) => moved = true,
                // Who reads on gets it again.
                Poll::Ready(Err(_)) | Poll::Pending => break,
            }
        }
        moved
    }

    /// The next data; `None` at the end, trailers included.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ReadEnd>> {
        match (self.held.pop(), self.end) {
            (Some(piece), _) => Poll::Ready(Ok(Some(piece.into()))),
            (None, Some(end)) => Poll::Ready(end.map(|()| None)),
            (None, None) => self.poll_received(cx),
        }
    }

    /// As [`poll_piece`](Self::poll_piece), of what is not held yet.
    fn poll_received(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ReadEnd>> {
        if !self.is_read {
            match self.body.poll_data(cx) {
                Poll::Ready(Some(Ok(data))) => return Poll::Ready(Ok(Some(data))),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(self.failed(&error))),
                Poll::Ready(None) => self.is_read = true,
                Poll::Pending => return Poll::Pending,
            }
        }
        match self.body.poll_trailers(cx) {
            Poll::Ready(Ok(Some(trailers)))
                if !convert::are_request_trailers(&trailers, self.max_trailers) =>
            {
                self.end = Some(Err(ReadEnd::Invalid));
                Poll::Ready(Err(ReadEnd::Invalid))
            }
            Poll::Ready(Ok(trailers)) => {
                self.trailers = trailers;
                self.end = Some(Ok(()));
                Poll::Ready(Ok(None))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(self.failed(&error))),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Notes why the stream cannot be read.
    fn failed(&mut self, error: &h2::Error) -> ReadEnd {
        if error.is_reset() && error.is_library() {
            // A body that is not as long as the head says, for example: the stream was reset for it.
            return ReadEnd::Invalid;
        }
        let is_reset = error.is_reset() && error.is_remote();
        self.gone = Some(if is_reset { Gone::Reset } else { Gone::Closed });
        ReadEnd::Gone
    }

    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.gone.is_some() {
            return Poll::Ready(());
        }
        let reset = match &mut self.outgoing {
            Some(outgoing) => outgoing.poll_reset(cx),
            None => self.respond.poll_reset(cx),
        };
        match reset {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(_)) => self.gone = Some(Gone::Reset),
            Poll::Ready(Err(error)) => {
                self.failed(&error);
                self.gone.get_or_insert(Gone::Closed);
            }
        }
        Poll::Ready(())
    }

    /// Whether the client reset the stream.
    pub(crate) fn is_reset(&self) -> bool {
        self.gone == Some(Gone::Reset)
    }

    pub(crate) fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }

    /// Tells the client to send the body. Returns whether it was told.
    pub(crate) fn write_continue(&mut self) -> bool {
        let mut response = http::Response::new(());
        *response.status_mut() = http::StatusCode::CONTINUE;
        self.respond.send_informational(response).is_ok()
    }

    pub(crate) fn write_head(&mut self, head: &Head, is_end: bool) {
        match self.respond.send_response(convert::response(head), is_end) {
            Ok(stream) => self.outgoing = Some(Outgoing::new(stream)),
            Err(error) => {
                tracing::debug!(%error, "a response could not be sent");
                self.failed(&error);
                self.gone.get_or_insert(Gone::Closed);
            }
        }
    }

    pub(crate) fn write_data(&mut self, data: &[u8]) {
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.write(data);
        }
    }

    pub(crate) fn write_end(&mut self, trailers: Option<HeaderMap>) {
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.end(trailers);
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.outgoing.as_ref().is_some_and(Outgoing::is_full)
    }

    pub(crate) fn has_output(&self) -> bool {
        self.gone.is_none() && self.outgoing.as_ref().is_some_and(Outgoing::has_output)
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        if self.gone.is_some() {
            return Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into()));
        }
        let Some(outgoing) = &mut self.outgoing else { return Poll::Ready(Ok(0)) };
        match outgoing.poll_flush(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(0)),
            Poll::Ready(Err(error)) => {
                // What the reset says is more exact than what sending says.
                if self.poll_gone(cx).is_pending() {
                    self.failed(&error);
                    self.gone.get_or_insert(Gone::Closed);
                }
                Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into()))
            }
            Poll::Pending => {
                self.receive(cx);
                Poll::Pending
            }
        }
    }

    /// Resets the stream, unless the client did.
    pub(crate) fn abort(&mut self) {
        if self.gone.is_none() {
            match &mut self.outgoing {
                Some(outgoing) => outgoing.reset(h2::Reason::INTERNAL_ERROR),
                None => self.respond.send_reset(h2::Reason::INTERNAL_ERROR),
            }
        }
    }
}
