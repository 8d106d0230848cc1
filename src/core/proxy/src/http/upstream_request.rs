//! The host's side of a request: where it goes, and where the response comes from. The counterpart of [`Client`](super::client::Client).

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BufMut as _;
use http::HeaderMap;

use super::exchange::{Event, encode_chunk};
use super::framing::{Framing, Remaining};
use super::http2::ClientStream;
use crate::buffer::{self, HIGH_WATERMARK};
use crate::cluster::Host;
use crate::upstream::Upstream;

/// A request on its way to a host.
pub(super) enum UpstreamRequest {
    /// On a connection of HTTP/1.1.
    Http1(Upstream),
    /// On a stream of HTTP/2.
    Http2(Box<ClientStream>),
}

impl UpstreamRequest {
    /// The host.
    pub(super) fn host(&self) -> &Arc<Host> {
        match self {
            UpstreamRequest::Http1(upstream) => &upstream.counted.host,
            UpstreamRequest::Http2(stream) => &stream.place().host,
        }
    }

    /// Whether more may be written.
    pub(super) fn has_room(&self) -> bool {
        match self {
            UpstreamRequest::Http1(upstream) => upstream.output.len() < HIGH_WATERMARK,
            UpstreamRequest::Http2(stream) => stream.has_room(),
        }
    }

    /// Writes data of the body.
    pub(super) fn write_data(&mut self, framing: Framing, data: &[u8]) {
        match self {
            UpstreamRequest::Http1(upstream) if framing == Framing::Chunked => {
                encode_chunk(data, &mut upstream.output);
            }
            UpstreamRequest::Http1(upstream) => upstream.output.put_slice(data),
            UpstreamRequest::Http2(stream) => stream.outgoing().write(data),
        }
    }

    /// Ends the body.
    pub(super) fn write_end(&mut self, framing: Framing, trailers: Option<HeaderMap>) {
        match self {
            UpstreamRequest::Http1(upstream) if framing == Framing::Chunked => {
                upstream.output.put_slice(b"0\r\n\r\n");
            }
            UpstreamRequest::Http1(_) => {}
            UpstreamRequest::Http2(stream) => stream.outgoing().end(trailers),
        }
    }

    /// Whether anything waits to be sent.
    pub(super) fn has_output(&self) -> bool {
        match self {
            UpstreamRequest::Http1(upstream) => buffer::has_output(&upstream.stream, &upstream.output),
            UpstreamRequest::Http2(stream) => stream.has_output(),
        }
    }

    /// Sends on. Ready when nothing waits, or something was sent; of an HTTP/2 connection the bytes are counted by itself, and 0 here.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ()>> {
        match self {
            UpstreamRequest::Http1(upstream) => {
                buffer::poll_write(&mut upstream.stream, &mut upstream.output, cx).map_err(|_| ())
            }
            UpstreamRequest::Http2(stream) => stream.outgoing().poll_flush(cx).map_ok(|()| 0).map_err(|_| ()),
        }
    }

    /// What is left of the body of a response with this framing, of which nothing was read.
    pub(super) fn body(&self, framing: Framing) -> Remaining {
        match self {
            UpstreamRequest::Http1(_) => Remaining::of(framing),
            UpstreamRequest::Http2(stream) => stream.body(),
        }
    }

    /// Passes data of the response to `take`: of HTTP/1.1 only what was received before. Returns how much it was.
    pub(super) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        rest: &mut Remaining,
        take: impl FnMut(&[u8]),
    ) -> Result<usize, Event> {
        match self {
            UpstreamRequest::Http1(upstream) => {
                let decoded = rest.decode(&mut upstream.input, HIGH_WATERMARK, take);
                decoded.map_err(|_| Event::UpstreamInvalid)
            }
            UpstreamRequest::Http2(stream) => stream.poll_body(cx, rest, take),
        }
    }

    /// Receives what cannot wait elsewhere, while there is no room for it.
    pub(super) fn hold(&mut self, cx: &mut Context<'_>) -> Result<(), Event> {
        match self {
            // It waits in the socket.
            UpstreamRequest::Http1(_) => Ok(()),
            UpstreamRequest::Http2(stream) => stream.hold(cx),
        }
    }

    /// The trailers of a response that was read.
    pub(super) fn take_trailers(&mut self) -> Option<HeaderMap> {
        match self {
            // Checked and dropped.
            UpstreamRequest::Http1(_) => None,
            UpstreamRequest::Http2(stream) => stream.take_trailers(),
        }
    }

    /// The connection of HTTP/1.1, if it is one.
    pub(super) fn http1(&mut self) -> Option<&mut Upstream> {
        match self {
            UpstreamRequest::Http1(upstream) => Some(upstream),
            UpstreamRequest::Http2(_) => None,
        }
    }
}
