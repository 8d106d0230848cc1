//! The client's side of a request: where its body comes from, and where the response goes.
//!
//! This is the seam between the protocols: a [`Head`], a source of data and a sink. Routes, filters, the router and exchanges know no more of
//! a client than this. HTTP/1.1 connections, streams of HTTP/2 and copies of requests implement it.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::HeaderMap;

use mixer_net::stream::Stream;

use super::framing::{Framing, Remaining};
use super::http2::ServerStream;
use super::kept::Kept;
use super::shadow::CopyReader;
use super::{exchange, reply};
use crate::bodies::{Budget, NoRoom, Room};
use crate::buffer::{self, HIGH_WATERMARK};
use crate::flags::Flag;
use crate::head::Head;

/// The client of a request.
pub(super) enum Client {
    /// A connection of HTTP/1.1.
    Http1(Http1Client),
    /// A stream of an HTTP/2 connection. Boxed, so that idle connections of HTTP/1.1 have no room for it.
    Http2(Box<ServerStream>),
    /// The request that a copy is of, and whether that has no body. The response goes nowhere.
    Copy(CopyReader, bool),
}

/// A connection of HTTP/1.1.
pub(super) struct Http1Client {
    pub(super) stream: Stream,
    /// Received and not yet read.
    pub(super) input: BytesMut,
    /// To be sent.
    pub(super) output: BytesMut,
    /// What filters have seen of the body of the request, and its host is yet to get. It comes before `input`.
    ahead: Option<Box<Kept>>,
}

/// What was read of a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Bytes of the body, without framing.
    pub(super) data: usize,
    /// Bytes of the connection; those of HTTP/2 connections are counted by themselves.
    pub(super) bytes: usize,
    /// Whether anything changed.
    pub(super) moved: bool,
    /// Why there will be no more.
    pub(super) end: Option<ReadEnd>,
}

/// Why reading a request ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadEnd {
    /// The client closed or reset the connection or the stream.
    Gone,
    /// The body is not valid.
    Invalid,
}

/// Why a body cannot be read ahead of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotAhead {
    /// There will be no more of it.
    Ended(ReadEnd),
    /// There is no memory for it.
    NoRoom(NoRoom),
}

impl From<NoRoom> for NotAhead {
    fn from(why: NoRoom) -> Self {
        NotAhead::NoRoom(why)
    }
}

impl From<ReadEnd> for NotAhead {
    fn from(end: ReadEnd) -> Self {
        NotAhead::Ended(end)
    }
}

impl Client {
    /// What is left of the body of a request with this framing, of which nothing was passed on.
    pub(super) fn body(&self, framing: Framing) -> Remaining {
        match self {
            Client::Http1(http1) => match &http1.ahead {
                // Also if nothing is left of it: its end is yet to be passed on.
                Some(_) => Remaining::Ahead,
                None => Remaining::of(framing),
            },
            Client::Http2(stream) => stream.body(),
            Client::Copy(_, true) => Remaining::Done,
            Client::Copy(_, false) => Remaining::UntilClose,
        }
    }

    /// Reads on: passes data of the body to `take`, if it `wants` any, and notices a client that is gone.
    pub(super) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        rest: &mut Remaining,
        wants: bool,
        mut take: impl FnMut(&[u8]),
    ) -> Progress {
        let http1 = match self {
            Client::Http1(http1) => http1,
            Client::Http2(stream) => return stream.poll_body(cx, rest, wants, take),
            Client::Copy(copy, _) => return copy.poll_body(cx, rest, wants, take),
        };
        let mut progress = Progress::default();
        if wants && !rest.is_done() {
            if let Some(kept) = &mut http1.ahead {
                progress.data = kept.take(&mut take);
                if kept.len() == 0 {
                    *rest = kept.follows;
                    http1.ahead = None;
                }
            }
            let room = HIGH_WATERMARK.saturating_sub(progress.data);
            let Ok(count) = rest.decode(&mut http1.input, room, take) else {
                return Progress { end: Some(ReadEnd::Invalid), ..progress };
            };
            progress.data += count;
            progress.moved = progress.data > 0 || rest.is_done();
        }
        // Also after the request: the client may close the connection, or send the next one.
        if http1.input.len() < HIGH_WATERMARK {
            match buffer::poll_read(&mut http1.stream, &mut http1.input, cx) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => progress.end = Some(ReadEnd::Gone),
                Poll::Ready(Ok(count)) => {
                    progress.bytes = count;
                    progress.moved |= !rest.is_done();
                    if rest.is_done() {
                        // Pipelined: read once more, so that the end of the connection is noticed.
                        cx.waker().wake_by_ref();
                    }
                }
                Poll::Pending => {}
            }
        }
        progress
    }

    /// How much was read of a body ahead of its host, and whether that is all of it.
    pub(super) fn ahead(&self, framing: Framing) -> (usize, bool) {
        match self {
            Client::Http1(http1) => match &http1.ahead {
                Some(kept) => (kept.len(), kept.follows.is_done()),
                None => (0, Remaining::of(framing).is_done()),
            },
            Client::Http2(stream) => stream.ahead(),
            // Filters do not see copies.
            Client::Copy(..) => (0, true),
        }
    }

    /// Bytes of a body that have arrived, and were not passed on: what Envoy counts of one that nobody reads.
    pub(super) fn arrived(&self, framing: Framing) -> usize {
        self.of_body(framing).0
    }

    /// Whether some of a body is yet to come.
    pub(super) fn is_incomplete(&self, framing: Framing) -> bool {
        !self.of_body(framing).1
    }

    /// Bytes of a body that have arrived, and were not passed on, and whether that is all of it.
    fn of_body(&self, framing: Framing) -> (usize, bool) {
        self.unread(self.body(framing))
    }

    /// As of a body with this framing, of one of which this is left.
    pub(super) fn unread(&self, rest: Remaining) -> (usize, bool) {
        let http1 = match self {
            Client::Http1(http1) => http1,
            Client::Http2(stream) => return stream.arrived(),
            // Filters do not see copies.
            Client::Copy(..) => return (0, true),
        };
        let (kept, mut rest) = match &http1.ahead {
            Some(kept) => (kept.len(), kept.follows),
            None => (0, rest),
        };
        let (mut input, mut count) = (BytesMut::from(http1.input.as_ref()), kept);
        // What is not valid is nobody's concern any more.
        let _ = rest.decode(&mut input, usize::MAX, |data| count += data.len());
        (count, rest.is_done())
    }

    /// Of HTTP/1.1: what was received and not read, and what it begins with if filters have read before it.
    pub(super) fn waiting_input(&self) -> Option<(&[u8], Option<Remaining>)> {
        match self {
            Client::Http1(http1) => Some((&http1.input, http1.ahead.as_ref().map(|kept| kept.follows))),
            Client::Http2(_) | Client::Copy(..) => None,
        }
    }

    /// Of HTTP/2: whether the request has arrived as a whole.
    pub(super) fn has_arrived(&self) -> bool {
        match self {
            Client::Http2(stream) => stream.arrived().1,
            Client::Http1(_) | Client::Copy(..) => false,
        }
    }

    /// Reads more of a body ahead of its host: ready when there is more, or its end is seen. `received` counts bytes of the
    /// connection; those of HTTP/2 connections are counted by themselves.
    pub(super) fn poll_ahead(
        &mut self,
        cx: &mut Context<'_>,
        framing: Framing,
        budget: &Arc<Budget>,
        received: &mut u64,
    ) -> Poll<Result<(), NotAhead>> {
        match self {
            Client::Http1(http1) => http1.poll_ahead(cx, framing, budget, received),
            Client::Http2(stream) => stream.poll_ahead(cx, budget),
            Client::Copy(..) => Poll::Ready(Err(ReadEnd::Gone.into())),
        }
    }

    /// The beginning of what was read ahead, of at most so many bytes. It is not copied.
    pub(super) fn share_ahead(&mut self, max: usize) -> Vec<Bytes> {
        let kept = match self {
            Client::Http1(http1) => http1.ahead.as_deref_mut(),
            Client::Http2(stream) => stream.kept(),
            Client::Copy(..) => None,
        };
        kept.map(|kept| kept.share(max)).unwrap_or_default()
    }

    /// Whether the host is yet to get some of what was read ahead.
    pub(super) fn has_ahead(&self) -> bool {
        match self {
            Client::Http1(http1) => http1.ahead.as_ref().is_some_and(|kept| kept.len() > 0),
            Client::Http2(stream) => stream.ahead().0 > 0,
            Client::Copy(..) => false,
        }
    }

    /// Frees what was read ahead.
    pub(super) fn forget_ahead(&mut self) {
        match self {
            Client::Http1(http1) => http1.ahead = None,
            Client::Http2(stream) => stream.forget_ahead(),
            Client::Copy(..) => {}
        }
    }

    /// Watches the client of a request that waits: notices that it is gone, and keeps what it sends, as far as there is room.
    pub(super) fn watch(&mut self, cx: &mut Context<'_>) -> Progress {
        let mut progress = Progress::default();
        let is_gone = match self {
            Client::Http1(http1) => loop {
                if http1.input.len() >= HIGH_WATERMARK {
                    break false;
                }
                match buffer::poll_read(&mut http1.stream, &mut http1.input, cx) {
                    Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => break true,
                    Poll::Ready(Ok(count)) => progress.bytes += count,
                    Poll::Pending => break false,
                }
            },
            Client::Http2(stream) => {
                progress.moved = stream.receive(cx);
                stream.poll_gone(cx).is_ready()
            }
            Client::Copy(copy, _) => copy.poll_gone(cx).is_ready(),
        };
        progress.moved |= progress.bytes > 0;
        progress.end = is_gone.then_some(ReadEnd::Gone);
        progress
    }

    /// Whether so much was received that reading pauses: then nothing else tells that the client is gone.
    pub(super) fn is_paused(&self) -> bool {
        match self {
            Client::Http1(http1) => http1.input.len() >= HIGH_WATERMARK,
            Client::Http2(_) | Client::Copy(..) => false,
        }
    }

    /// Whether a client that is not read from has reset its connection.
    pub(super) fn is_reset(&self) -> bool {
        match self {
            Client::Http1(http1) => http1.stream.is_reset(),
            Client::Http2(_) | Client::Copy(..) => false,
        }
    }

    /// How a client that is gone left: the flag and the details of the response code.
    pub(super) fn gone(&self) -> (Flag, &'static str) {
        match self {
            Client::Http2(stream) if stream.is_reset() => (Flag::DR, "http2.remote_reset"),
            _ => (Flag::DC, "downstream_remote_disconnect"),
        }
    }

    /// The trailers of a request whose body was read.
    pub(super) fn take_trailers(&mut self) -> Option<HeaderMap> {
        match self {
            // Checked and dropped.
            Client::Http1(_) => None,
            Client::Http2(stream) => stream.take_trailers(),
            Client::Copy(copy, _) => copy.take_trailers(),
        }
    }

    /// Whether a client that expects it can be told to send the body, of which nothing is there yet.
    pub(super) fn write_continue(&mut self) -> bool {
        match self {
            Client::Http1(http1) if http1.input.is_empty() => {
                http1.output.put_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                true
            }
            Client::Http1(_) | Client::Copy(..) => false,
            Client::Http2(stream) => stream.write_continue(),
        }
    }

    /// Writes the head of the response. `is_end`: there is no body.
    pub(super) fn write_head(&mut self, response: &Head, is_end: bool) {
        match self {
            Client::Http1(http1) => {
                reply::write_status(response.status, &mut http1.output);
                response.write_fields(&mut http1.output);
                http1.output.put_slice(b"\r\n");
            }
            Client::Http2(stream) => stream.write_head(response, is_end),
            Client::Copy(..) => {}
        }
    }

    /// Writes data of the body.
    pub(super) fn write_data(&mut self, framing: Framing, data: &[u8]) {
        match self {
            Client::Http1(http1) if framing == Framing::Chunked => {
                exchange::encode_chunk(data, &mut http1.output);
            }
            // There is no body, whatever the host sends.
            Client::Http1(_) if framing == Framing::Empty => {}
            Client::Http1(http1) => http1.output.put_slice(data),
            Client::Http2(stream) => stream.write_data(data),
            Client::Copy(..) => {}
        }
    }

    /// Ends the body.
    pub(super) fn write_end(&mut self, framing: Framing, trailers: Option<HeaderMap>) {
        match self {
            Client::Http1(http1) if framing == Framing::Chunked => http1.output.put_slice(b"0\r\n\r\n"),
            Client::Http1(_) | Client::Copy(..) => {}
            Client::Http2(stream) => stream.write_end(trailers),
        }
    }

    /// Whether so much waits to be sent that no more is to be written.
    pub(super) fn is_full(&self) -> bool {
        match self {
            Client::Http1(http1) => http1.output.len() >= HIGH_WATERMARK,
            Client::Http2(stream) => stream.is_full(),
            Client::Copy(..) => false,
        }
    }

    /// Whether anything waits to be sent.
    pub(super) fn has_output(&self) -> bool {
        match self {
            Client::Http1(http1) => buffer::has_output(&http1.stream, &http1.output),
            Client::Http2(stream) => stream.has_output(),
            Client::Copy(..) => false,
        }
    }

    /// Sends on. Ready when nothing waits, or something was sent; of an HTTP/2 connection the bytes are counted by itself, and 0 here.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        match self {
            Client::Http1(http1) => buffer::poll_write(&mut http1.stream, &mut http1.output, cx),
            Client::Http2(stream) => stream.poll_flush(cx),
            Client::Copy(..) => Poll::Ready(Ok(0)),
        }
    }

    /// Tells the client that a response which was begun will not be complete.
    pub(super) fn abort(&mut self) {
        if let Client::Http2(stream) = self {
            stream.abort();
        }
    }

    /// The connection of HTTP/1.1, if it is one.
    pub(super) fn http1(&mut self) -> Option<&mut Http1Client> {
        match self {
            Client::Http1(http1) => Some(http1),
            Client::Http2(_) | Client::Copy(..) => None,
        }
    }

    /// The name of its protocol in logs and calls.
    pub(super) fn protocol(&self) -> &'static str {
        if self.is_http2() { "HTTP/2" } else { "HTTP/1.1" }
    }

    /// Whether it is the request that a copy is of.
    pub(super) fn is_copy(&self) -> bool {
        matches!(self, Client::Copy(..))
    }

    /// Whether it is a stream of HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        matches!(self, Client::Http2(_))
    }
}

impl Http1Client {
    /// A connection that has nothing to read or to send.
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, input: BytesMut::new(), output: BytesMut::new(), ahead: None }
    }

    fn poll_ahead(
        &mut self,
        cx: &mut Context<'_>,
        framing: Framing,
        budget: &Arc<Budget>,
        received: &mut u64,
    ) -> Poll<Result<(), NotAhead>> {
        let of_body = || Box::new(Kept::new(Room::new(budget), Remaining::of(framing)));
        let kept = self.ahead.get_or_insert_with(of_body);
        loop {
            let (mut follows, mut kept_all) = (kept.follows, Ok(()));
            let decoded = follows.decode(&mut self.input, usize::MAX, |data| {
                kept_all = kept_all.and_then(|()| kept.push(data));
            });
            kept.follows = follows;
            kept_all?;
            match decoded {
                Err(_) => return Poll::Ready(Err(ReadEnd::Invalid.into())),
                Ok(0) if !follows.is_done() => {}
                Ok(_) => return Poll::Ready(Ok(())),
            }
            match buffer::poll_read(&mut self.stream, &mut self.input, cx) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(Err(ReadEnd::Gone.into())),
                Poll::Ready(Ok(count)) => *received += u64::try_from(count).unwrap_or(0),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Gives up what only a request needs.
    pub(super) fn release(&mut self) {
        buffer::release(&mut self.input);
        buffer::release(&mut self.output);
    }

    /// Removes empty lines before a request line, which have no meaning.
    pub(super) fn skip_empty_lines(&mut self) {
        while self.input.starts_with(b"\r\n") {
            self.input.advance(2);
        }
    }
}
