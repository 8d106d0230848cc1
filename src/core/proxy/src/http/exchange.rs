//! One attempt: the bytes of a request to a host, and of its response back, both directions at the same time.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, BytesMut};
use http::HeaderMap;
use tokio::time::Instant;

use super::client::{Client, ReadEnd};
use super::framing::{Framing, Remaining};
use super::shadow::CopyWriter;
use super::upstream_request::UpstreamRequest;
use crate::bodies::{Budget, Room};
use crate::buffer::{self, HIGH_WATERMARK};
use crate::head::{Head, HeadError, end_of_head};
use crate::timer::{Timer, earlier};

/// Maximum size of the head of a response, in bytes, and of its fields.
const MAX_RESPONSE_HEAD: usize = 60 << 10;
const MAX_RESPONSE_FIELDS: usize = 100;
/// Time between two looks at a client that is not read from, because the host does not keep up: it may have reset the connection.
pub(super) const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of a request body that are kept for a retry. A longer one is not sent again.
const MAX_REPLAY: usize = 1 << 20;

/// What ends a step of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The head of the response is there.
    Head,
    /// The response is complete, and so is what was sent of it.
    Complete,
    /// The deadline of the response has passed.
    ResponseTimeout,
    /// The deadline of this attempt has passed.
    TryTimeout,
    /// Nothing happened for too long.
    IdleTimeout,
    /// Nothing happened for too long, and the request was complete.
    HostIdle,
    /// The request did not arrive in time.
    RequestTimeout,
    /// The host closed or reset the connection.
    UpstreamGone,
    /// The host says that it ends the connection, because of an error.
    UpstreamLeft,
    /// The host reset the stream of the request.
    UpstreamReset,
    /// The host says that nothing of the request was begun.
    UpstreamRefused,
    /// The host sent what is no valid response.
    UpstreamInvalid,
    /// The client closed or reset the connection.
    DownstreamGone,
    /// The body of the request is not valid.
    InvalidBody,
}

/// Deadlines of an exchange.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Deadlines {
    /// Of the response, from when the request was complete.
    pub(super) response: Option<Duration>,
    /// Of the head of the response to this attempt, from when the request was complete and the attempt had begun.
    pub(super) attempt: Option<Duration>,
    pub(super) idle: Option<Duration>,
    pub(super) request: Option<Instant>,
}

/// The client's side.
pub(super) struct Downstream<'c> {
    pub(super) client: &'c mut Client,
    pub(super) timer: &'c mut Timer,
}

/// The state of a request across its attempts.
pub(super) struct RequestBody {
    pub(super) remaining: Remaining,
    pub(super) framing: Framing,
    /// Bytes of the body, without framing.
    pub(super) received: u64,
    /// What was read of the body, for a retry; `None` if it is not kept.
    pub(super) replay: Option<Replay>,
    /// What followed it.
    pub(super) trailers: Option<HeaderMap>,
    /// Copies of the request, which get what is read of it.
    pub(super) copies: Vec<CopyWriter>,
    /// When it had arrived as a whole.
    pub(super) complete: Option<Instant>,
    /// Whether a host has begun to answer, with an informational response: the request is sent to no other then, as with Envoy.
    pub(super) is_taken: bool,
}

/// What was read of the body of a request, for a retry: within the memory of the process for bodies.
pub(super) struct Replay {
    data: BytesMut,
    room: Room,
}

impl Replay {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Self { data: BytesMut::new(), room: Room::new(budget) }
    }

    /// Keeps more. Returns false if it is too much: nothing of it can be sent again then.
    fn keep(&mut self, data: &[u8]) -> bool {
        let fits = self.data.len() + data.len() <= MAX_REPLAY && self.room.grow_spare(data.len());
        if fits {
            self.data.put_slice(data);
        }
        fits
    }
}

impl RequestBody {
    /// Whether the request ends with its head.
    pub(super) fn has_none(&self) -> bool {
        matches!(self.framing, Framing::Empty | Framing::Length(0))
    }
}

/// Appends a chunk.
pub(super) fn encode_chunk(data: &[u8], out: &mut BytesMut) {
    if data.is_empty() {
        return;
    }
    let digits = (usize::BITS - data.len().leading_zeros()).div_ceil(4);
    for place in (0..digits).rev() {
        let digit = (data.len() >> (4 * place)) & 0xf;
        out.put_u8(b"0123456789abcdef".get(digit).copied().unwrap_or(b'0'));
    }
    out.put_slice(b"\r\n");
    out.put_slice(data);
    out.put_slice(b"\r\n");
}

/// One attempt at a request.
pub(super) struct Exchange<'e> {
    pub(super) downstream: Downstream<'e>,
    pub(super) upstream: &'e mut UpstreamRequest,
    pub(super) body: &'e mut RequestBody,
    pub(super) response: &'e mut Head,
    pub(super) to_head: bool,
    /// Whether the client asked for another protocol.
    pub(super) upgrades: bool,
    pub(super) deadlines: Deadlines,
    /// When the attempt began.
    pub(super) began: Instant,
    active: Instant,
    /// The next look at a client that is not read from.
    look: Option<Instant>,
    scanned: usize,
    /// Bytes of informational responses.
    informational: usize,
    /// Whether the host cannot be written to; its response may be there.
    is_deaf: bool,
    /// Set with `Event::Head`.
    pub(super) framing: Framing,
    rest: Option<Remaining>,
    /// How the response is framed for the client.
    pub(super) outgoing: Framing,
    pub(super) sent: u64,
    /// Whether the host keeps the connection open.
    pub(super) keeps_upstream: bool,
    pub(super) bytes: (u64, u64, u64, u64),
}

impl<'e> Exchange<'e> {
    pub(super) fn new(
        downstream: Downstream<'e>,
        upstream: &'e mut UpstreamRequest,
        body: &'e mut RequestBody,
        response: &'e mut Head,
        to_head: bool,
        deadlines: Deadlines,
    ) -> Self {
        let now = Instant::now();
        if let Some(replay) = &body.replay {
            upstream.write_data(body.framing, &replay.data);
            if body.remaining.is_done() && !body.has_none() {
                upstream.write_end(body.framing, body.trailers.clone());
            }
        }
        Self {
            downstream,
            upstream,
            body,
            response,
            to_head,
            upgrades: false,
            deadlines,
            began: now,
            active: now,
            look: None,
            scanned: 0,
            informational: 0,
            is_deaf: false,
            framing: Framing::Empty,
            rest: None,
            outgoing: Framing::Empty,
            sent: 0,
            keeps_upstream: false,
            bytes: (0, 0, 0, 0),
        }
    }

    /// Goes on up to the next event.
    pub(super) async fn step(&mut self) -> Event {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Starts with the body of the response, whose head was written.
    pub(super) fn forward_body(&mut self) {
        self.rest = Some(self.upstream.body(self.framing));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        // Each round moves at most two buffers; after some rounds others have their turn.
        for _ in 0..8 {
            let mut moved = false;
            if let Some(event) = self.poll_request(cx, &mut moved) {
                return Poll::Ready(event);
            }
            if let Some(event) = self.poll_response(cx, &mut moved) {
                return Poll::Ready(event);
            }
            if !moved {
                return self.poll_deadlines(cx);
            }
            self.active = Instant::now();
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// The request: from the client to the host.
    fn poll_request(&mut self, cx: &mut Context<'_>, moved: &mut bool) -> Option<Event> {
        let was_done = self.body.remaining.is_done();
        // What a copy passes on is not counted any more: no more of it than one piece waits.
        let has_room = match self.downstream.client.is_copy() {
            true => !self.upstream.has_output(),
            false => self.upstream.has_room(),
        };
        let wants = !was_done && (has_room || self.is_deaf);
        let (upstream, framing) = (&mut *self.upstream, self.body.framing);
        let (replay, copies, is_deaf) = (&mut self.body.replay, &self.body.copies, self.is_deaf);
        let progress = self.downstream.client.poll_body(cx, &mut self.body.remaining, wants, |data| {
            if !is_deaf {
                upstream.write_data(framing, data);
            }
            if !replay.as_mut().is_some_and(|kept| kept.keep(data)) {
                *replay = None;
            }
            copies.iter().for_each(|copy| copy.write(data));
        });
        self.body.received += u64::try_from(progress.data).unwrap_or(0);
        self.bytes.0 += u64::try_from(progress.bytes).unwrap_or(0);
        *moved |= progress.moved;
        if !was_done && self.body.remaining.is_done() {
            self.body.trailers = self.downstream.client.take_trailers();
            if !is_deaf && !self.body.has_none() {
                self.upstream.write_end(framing, self.body.trailers.clone());
            }
            for copy in self.body.copies.drain(..) {
                copy.complete(self.body.trailers.clone());
            }
            self.body.complete.get_or_insert_with(Instant::now);
        }
        match progress.end {
            Some(ReadEnd::Gone) => return Some(Event::DownstreamGone),
            Some(ReadEnd::Invalid) => return Some(Event::InvalidBody),
            None => {}
        }
        if !self.is_deaf && self.upstream.has_output() {
            match self.upstream.poll_flush(cx) {
                Poll::Ready(Ok(count)) => {
                    self.bytes.2 += u64::try_from(count).unwrap_or(0);
                    *moved = true;
                    if self.body.remaining.is_done()
                        && let Some(upstream) = self.upstream.http1()
                    {
                        // It is sent, and the response may take long.
                        buffer::release(&mut upstream.output);
                    }
                }
                Poll::Ready(Err(())) => {
                    self.is_deaf = true;
                    if let Some(upstream) = self.upstream.http1() {
                        upstream.output.clear();
                    }
                }
                Poll::Pending => {}
            }
        }
        None
    }

    /// The response: from the host to the client.
    fn poll_response(&mut self, cx: &mut Context<'_>, moved: &mut bool) -> Option<Event> {
        if self.rest.is_none() {
            match self.poll_head(cx) {
                Ok(true) => return Some(Event::Head),
                Ok(false) => {}
                Err(event) => return Some(event),
            }
        }
        let is_full = self.downstream.client.is_full();
        if let Some(rest) = &mut self.rest
            && !rest.is_done()
            && is_full
        {
            if let Err(event) = self.upstream.hold(cx) {
                return Some(event);
            }
        } else if let Some(rest) = &mut self.rest
            && !rest.is_done()
        {
            let (client, outgoing) = (&mut *self.downstream.client, self.outgoing);
            let read = self.upstream.poll_body(cx, rest, |data| client.write_data(outgoing, data));
            let count = match read {
                Ok(count) => count,
                Err(event) => return Some(event),
            };
            self.sent += u64::try_from(count).unwrap_or(0);
            *moved |= count > 0;
            if rest.is_done() {
                self.end_body();
                *moved = true;
            }
        }
        if let Some(event) = self.poll_upstream(cx, moved) {
            return Some(event);
        }
        if self.downstream.client.has_output() {
            match self.downstream.client.poll_flush(cx) {
                Poll::Ready(Ok(count)) => {
                    self.bytes.1 += u64::try_from(count).unwrap_or(0);
                    *moved = true;
                }
                Poll::Ready(Err(_)) => return Some(Event::DownstreamGone),
                Poll::Pending => {}
            }
        }
        let is_complete = self.rest.is_some_and(Remaining::is_done) && !self.downstream.client.has_output();
        is_complete.then_some(Event::Complete)
    }

    /// Reads on from a connection of HTTP/1.1.
    fn poll_upstream(&mut self, cx: &mut Context<'_>, moved: &mut bool) -> Option<Event> {
        let is_full = self.downstream.client.is_full();
        let upstream = self.upstream.http1()?;
        let wants_more = match self.rest {
            None => upstream.input.len() <= MAX_RESPONSE_HEAD,
            Some(rest) => !rest.is_done() && upstream.input.len() < HIGH_WATERMARK && !is_full,
        };
        if !wants_more {
            return None;
        }
        match buffer::poll_read(&mut upstream.stream, &mut upstream.input, cx) {
            Poll::Ready(Ok(0)) => {
                upstream.counted.closed_by_host = true;
                match &mut self.rest {
                    Some(rest) if *rest == Remaining::UntilClose => {
                        *rest = Remaining::Done;
                        self.end_body();
                        *moved = true;
                    }
                    _ => return Some(Event::UpstreamGone),
                }
            }
            Poll::Ready(Err(_)) => {
                upstream.counted.closed_by_host = true;
                return Some(Event::UpstreamGone);
            }
            Poll::Ready(Ok(count)) => {
                self.bytes.3 += u64::try_from(count).unwrap_or(0);
                *moved = true;
            }
            Poll::Pending => {}
        }
        None
    }

    fn end_body(&mut self) {
        let trailers = self.upstream.take_trailers();
        self.downstream.client.write_end(self.outgoing, trailers);
    }

    /// Reads the head of the response. Returns whether it is there.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Result<bool, Event> {
        if let UpstreamRequest::Http2(stream) = &mut *self.upstream {
            let polled = stream.poll_head(cx, self.response);
            self.body.is_taken |= stream.has_informational();
            return match polled {
                Poll::Ready(framing) => {
                    self.framing = framing?;
                    Ok(true)
                }
                Poll::Pending => Ok(false),
            };
        }
        self.read_head().map_err(|()| Event::UpstreamInvalid)
    }

    /// Reads the head of a response of HTTP/1.1; informational ones are dropped. Returns whether it is there.
    fn read_head(&mut self) -> Result<bool, ()> {
        let Some(upstream) = self.upstream.http1() else { return Ok(false) };
        loop {
            let found = end_of_head(&upstream.input, &mut self.scanned, MAX_RESPONSE_HEAD);
            let Some(end) = found.map_err(|_| ())? else { return Ok(false) };
            let text = upstream.input.get(..end).unwrap_or_default();
            let is_http11 =
                self.response.read_response(text, MAX_RESPONSE_FIELDS).map_err(|_: HeadError| ())?;
            upstream.input.advance(end);
            self.scanned = 0;
            let framing = super::framing::of_response(self.response, self.to_head, is_http11);
            let framing = framing.map_err(|_| ())?;
            match self.response.status {
                101 if self.upgrades => {
                    self.framing = Framing::Empty;
                    self.keeps_upstream = false;
                    return Ok(true);
                }
                // Nobody asked for an upgrade.
                101 => return Err(()),
                100..=199 => {
                    self.informational += end;
                    self.body.is_taken = true;
                    if self.informational > MAX_RESPONSE_HEAD {
                        return Err(());
                    }
                    continue;
                }
                _ => {}
            }
            self.framing = framing;
            let says = |token: &[u8]| self.response.has_element("connection", token);
            let stays = if is_http11 { !says(b"close") } else { says(b"keep-alive") };
            self.keeps_upstream = stays && framing != Framing::UntilClose;
            return Ok(true);
        }
    }

    /// The deadline that comes first, and what it means.
    fn poll_deadlines(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let limits = self.deadlines;
        let complete = self.body.complete;
        let response = complete.and_then(|complete| Some(complete + limits.response?));
        // An attempt ends with the head of its response; the time limit of the response with its end. A client that sends slowly takes nothing
        // of either: otherwise it could have hosts ejected.
        let attempt = limits.attempt.filter(|_| self.rest.is_none());
        let attempt = complete.and_then(|complete| Some(complete.max(self.began) + attempt?));
        let idle = limits.idle.map(|limit| self.active + limit);
        let request = limits.request.filter(|_| self.body.complete.is_none());
        let first = earlier(earlier(response, attempt), earlier(idle, request));
        loop {
            let is_paused = self.downstream.client.is_paused();
            let look = self.look.filter(|_| is_paused);
            self.look = look.or_else(|| is_paused.then(|| Instant::now() + WATCH_INTERVAL));
            let next = earlier(first, self.look);
            self.downstream.timer.set(next);
            if self.downstream.timer.poll(cx).is_pending() {
                return Poll::Pending;
            }
            if next == first {
                break;
            }
            if self.downstream.client.is_reset() {
                return Poll::Ready(Event::DownstreamGone);
            }
            self.look = None;
        }
        let has_passed = |deadline: Option<Instant>| deadline.is_some() && deadline <= first;
        Poll::Ready(if has_passed(response) {
            Event::ResponseTimeout
        } else if has_passed(attempt) {
            Event::TryTimeout
        } else if has_passed(request) {
            Event::RequestTimeout
        } else if complete.is_some() {
            Event::HostIdle
        } else {
            Event::IdleTimeout
        })
    }
}
