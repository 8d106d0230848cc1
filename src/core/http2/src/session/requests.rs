//! Delivers the received requests.

use tokio::sync::oneshot;

use super::super::IncomingRequest;
use super::super::frame::ErrorCode;
use super::super::stream::Stream;
use super::Session;

/// Memory of the heads of undelivered requests beyond which no frame is taken: few bytes of a block may refer to many of the dynamic
/// table.
const MAX_WAITING_HEADS: usize = 128 << 10;

impl Session {
    /// Whether no frame is taken before a request is, because the heads of those that wait are large.
    pub fn is_full(&self) -> bool {
        self.waiting_heads >= MAX_WAITING_HEADS
    }

    /// Number of requests that wait for [`Session::next_request`].
    pub fn waiting_requests(&self) -> usize {
        self.new_requests.len()
    }

    /// The next request in order of arrival.
    pub fn next_request(&mut self) -> Option<IncomingRequest> {
        loop {
            let id = self.new_requests.pop_front()?;
            // It may have been reset.
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            self.waiting_heads -= std::mem::take(&mut stream.head_memory);
            match stream.request(&self.flow_control, id) {
                Some(Ok((head, body))) => return Some(IncomingRequest { stream: id, head, body }),
                // No part of it was processed.
                Some(Err(_)) => self.reset(id, ErrorCode::REFUSED_STREAM),
                None => {}
            }
        }
    }

    /// Refuses the requests that were not taken.
    pub(super) fn refuse_waiting(&mut self) {
        while let Some(id) = self.new_requests.pop_front() {
            if self.streams.contains_key(&id) {
                self.reset(id, ErrorCode::REFUSED_STREAM);
            }
        }
    }

    /// Counts what a call takes whose answer is a stream, until its HTTP/2 stream is closed. Without memory for it, the HTTP/2 stream is reset
    /// with ENHANCE_YOUR_CALM. Returns whether it is open.
    pub fn hold_call(&mut self, id: u32) -> bool {
        let Some(stream) = self.streams.get_mut(&id) else { return false };
        let holds = stream.hold_call(&self.flow_control);
        if !holds {
            self.reset(id, ErrorCode::ENHANCE_YOUR_CALM);
        }
        holds
    }

    /// Completes when the stream is closed by either side; `None` if it is already closed. A new watch replaces the previous one.
    pub fn watch_closed(&mut self, stream: u32) -> Option<oneshot::Receiver<()>> {
        self.streams.get_mut(&stream).map(Stream::watch_closed)
    }
}
