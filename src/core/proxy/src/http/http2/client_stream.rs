//! A stream to a host: a request, and the response that arrives on it.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use h2::RecvStream;
use h2::client::ResponseFuture;
use http::HeaderMap;

use super::super::exchange::Event;
use super::super::framing::{Framing, Remaining};
use super::convert;
use super::outgoing::Outgoing;
use crate::buffer;
use crate::head::Head;
use crate::upstream::Place;

/// Informational responses before the final one.
const MAX_INFORMATIONAL: usize = 64;

/// A stream to a host. Dropped before both directions are complete, it is reset.
#[derive(Debug)]
pub(crate) struct ClientStream {
    outgoing: Outgoing,
    response: ResponseFuture,
    informational: usize,
    /// The body of the response, once its head was read.
    body: Option<RecvStream>,
    /// Whether the response has no body. Decided once: the end of one that is empty may arrive at any time.
    is_empty: bool,
    /// Data that was received while the client took nothing: at most the window of the stream. In `h2` small frames would take many times
    /// their length, and it ends a connection that has too many of them, with all requests on it.
    held: BytesMut,
    /// Whether all data was received, and trailers may follow.
    is_read: bool,
    trailers: Option<HeaderMap>,
    /// How the stream has ended behind data that was passed on.
    failed: Option<Event>,
    /// Last, so that it is given back after the stream has ended.
    pub(super) place: Place,
}

impl ClientStream {
    /// Sends the head of a request. `is_end`: there is no body.
    ///
    /// Errors: the connection has ended, or the head cannot be written.
    pub(crate) fn open(mut place: Place, head: &Head, is_end: bool) -> Result<Self, Event> {
        let request = convert::to_request(head).ok_or(Event::UpstreamInvalid)?;
        let sent = place.sender.send_request(request, is_end);
        let (response, stream) = sent.map_err(|error| event_of(&error))?;
        place.set_unanswered(true);
        let outgoing = Outgoing::new(stream);
        let (body, trailers) = (None, None);
        Ok(Self {
            outgoing,
            response,
            informational: 0,
            body,
            is_empty: false,
            held: BytesMut::new(),
            is_read: false,
            trailers,
            failed: None,
            place,
        })
    }

    pub(crate) fn outgoing(&mut self) -> &mut Outgoing {
        &mut self.outgoing
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.outgoing.is_full()
    }

    pub(crate) fn has_output(&self) -> bool {
        self.outgoing.has_output()
    }

    /// The host of the stream.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Reads the head of the response into `head`; returns the framing of its body.
    pub(crate) fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut Head,
    ) -> Poll<Result<Framing, Event>> {
        while let Poll::Ready(Some(informational)) = self.response.poll_informational(cx) {
            match informational {
                Ok(_) if self.informational < MAX_INFORMATIONAL => self.informational += 1,
                Ok(_) => return Poll::Ready(Err(Event::UpstreamInvalid)),
                // The response itself tells.
                Err(_) => break,
            }
        }
        let response = match Pin::new(&mut self.response).poll(cx) {
            Poll::Ready(Ok(response)) => response,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(event_of(&error))),
            Poll::Pending => return Poll::Pending,
        };
        let (parts, body) = response.into_parts();
        let framing = convert::response_head(&parts, body.is_end_stream(), head);
        self.is_empty = framing == Ok(Framing::Empty);
        if self.is_empty {
            self.place.set_unanswered(false);
        }
        self.body = Some(body);
        Poll::Ready(framing.map_err(|_| Event::UpstreamInvalid))
    }

    /// Whether an informational response came.
    pub(crate) fn has_informational(&self) -> bool {
        self.informational > 0
    }

    /// What is left of the body of the response.
    pub(crate) fn body(&self) -> Remaining {
        if self.is_empty { Remaining::Done } else { Remaining::UntilClose }
    }

    /// Passes data of the response to `take`. Returns how much it was.
    pub(crate) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        rest: &mut Remaining,
        mut take: impl FnMut(&[u8]),
    ) -> Result<usize, Event> {
        if let Some(event) = self.failed {
            return Err(event);
        }
        let Some(body) = &mut self.body else { return Ok(0) };
        let mut count = self.held.len();
        if count > 0 {
            take(&self.held);
            // A stream that has ended needs no window.
            let _ = body.flow_control().release_capacity(count);
            self.held = BytesMut::new();
        }
        while !self.is_read && count < buffer::READ_SIZE {
            match body.poll_data(cx) {
                Poll::Ready(Some(Ok(data))) => {
                    take(&data);
                    count += data.len();
                    // It was taken.
                    let _ = body.flow_control().release_capacity(data.len());
                }
                Poll::Ready(Some(Err(error))) => {
                    self.failed = Some(event_of(&error));
                    break;
                }
                Poll::Ready(None) => self.is_read = true,
                Poll::Pending => return Ok(count),
            }
        }
        if self.is_read {
            match body.poll_trailers(cx) {
                Poll::Ready(Ok(Some(trailers))) if !convert::are_response_trailers(&trailers) => {
                    self.failed = Some(Event::UpstreamInvalid);
                }
                Poll::Ready(Ok(mut trailers)) => {
                    trailers.iter_mut().for_each(convert::trim);
                    self.trailers = trailers;
                    self.place.set_unanswered(false);
                    *rest = Remaining::Done;
                }
                Poll::Ready(Err(error)) => self.failed = Some(event_of(&error)),
                Poll::Pending => {}
            }
        }
        match self.failed {
            // What was passed on counts, and goes before the end.
            Some(event) if count == 0 => Err(event),
            _ => Ok(count),
        }
    }

    /// Receives data for which there is no room yet.
    pub(crate) fn hold(&mut self, cx: &mut Context<'_>) -> Result<(), Event> {
        let Some(body) = &mut self.body else { return Ok(()) };
        while !self.is_read {
            match body.poll_data(cx) {
                Poll::Ready(Some(Ok(data))) => self.held.extend_from_slice(&data),
                Poll::Ready(Some(Err(error))) => return Err(event_of(&error)),
                Poll::Ready(None) => self.is_read = true,
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// The trailers of a response that was read.
    pub(crate) fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }
}

/// What an error means for an attempt.
fn event_of(error: &h2::Error) -> Event {
    if mixer_remote::was_not_begun(error) {
        Event::UpstreamRefused
    } else if error.is_reset() && error.is_remote() {
        Event::UpstreamReset
    } else if error.is_io() {
        Event::UpstreamGone
    } else if error.is_remote() {
        Event::UpstreamLeft
    } else {
        Event::UpstreamInvalid
    }
}
