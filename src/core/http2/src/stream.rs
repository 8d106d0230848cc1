//! One exchange: a request and its answer.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use tokio::sync::oneshot;

use super::body::Inbox;
use super::credit::Credit;
use super::{Reason, RequestBody, RequestHead};

/// What waits for room in a window.
#[derive(Debug)]
pub(super) enum Outgoing {
    Data(Bytes),
    /// The end, with these trailers.
    Trailers(HeaderMap),
    /// The end of a gRPC answer that succeeded.
    FixedTrailer,
    /// The end, without trailers.
    End,
}

/// A stream that is open, at least on this side.
#[derive(Debug)]
pub(super) struct Stream {
    /// Until the request is given out.
    pub(super) head: Option<Rc<RequestHead>>,
    /// What arrived before the request is given out.
    body: BytesMut,
    inbox: Option<Arc<Inbox>>,
    /// The caller has sent everything.
    pub(super) received: bool,
    /// Bytes of the body that were announced and have not come.
    missing: Option<u64>,
    /// Bytes that the caller may send.
    pub(super) receive_window: i64,
    /// Bytes that this side may send.
    pub(super) send_window: i64,
    pub(super) outgoing: VecDeque<Outgoing>,
    /// Dropped with the stream, which tells the one who waits.
    alive: Option<oneshot::Sender<()>>,
}

impl Stream {
    pub(super) fn new(head: Rc<RequestHead>, receive_window: i64, send_window: i64) -> Self {
        Self {
            missing: head.content_length(),
            head: Some(head),
            body: BytesMut::new(),
            inbox: None,
            received: false,
            receive_window,
            send_window,
            outgoing: VecDeque::new(),
            alive: None,
        }
    }

    /// Takes a piece of the body.
    ///
    /// Errors: more than was announced.
    pub(super) fn push(&mut self, data: &[u8]) -> Result<(), Reason> {
        if let Some(missing) = &mut self.missing {
            *missing = missing.checked_sub(data.len() as u64).ok_or(Reason::PROTOCOL_ERROR)?;
        }
        match &self.inbox {
            Some(inbox) => inbox.push(data),
            None => self.body.extend_from_slice(data),
        }
        Ok(())
    }

    /// Takes the end of the body.
    ///
    /// Errors: less than was announced.
    pub(super) fn end(
        &mut self,
        trailers: Option<HeaderMap>,
        credit: &Arc<Credit>,
        id: u32,
    ) -> Result<(), Reason> {
        if self.missing.is_some_and(|missing| missing > 0) {
            return Err(Reason::PROTOCOL_ERROR);
        }
        self.received = true;
        if trailers.is_some() {
            self.inbox(credit, id).end(trailers);
        } else if let Some(inbox) = &self.inbox {
            inbox.end(None);
        }
        Ok(())
    }

    /// Gives the request out, once.
    pub(super) fn request(
        &mut self,
        credit: &Arc<Credit>,
        id: u32,
    ) -> Option<(Rc<RequestHead>, RequestBody)> {
        let head = self.head.take()?;
        let body = if self.received && self.inbox.is_none() {
            RequestBody::whole(std::mem::take(&mut self.body).freeze())
        } else {
            RequestBody::arriving(Arc::clone(self.inbox(credit, id)))
        };
        Some((head, body))
    }

    fn inbox(&mut self, credit: &Arc<Credit>, id: u32) -> &Arc<Inbox> {
        let body = &mut self.body;
        self.inbox.get_or_insert_with(|| Arc::new(Inbox::new(id, std::mem::take(body), Arc::clone(credit))))
    }

    /// The stream is over, and its request may not be.
    pub(super) fn break_off(&self, reason: Reason) {
        if let Some(inbox) = &self.inbox {
            inbox.fail(reason);
        }
    }

    /// Ends when the stream does.
    pub(super) fn watch(&mut self) -> oneshot::Receiver<()> {
        let (alive, watch) = oneshot::channel();
        self.alive = Some(alive);
        watch
    }
}
