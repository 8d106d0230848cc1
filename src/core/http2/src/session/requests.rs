//! Delivers the received requests.

use tokio::sync::oneshot;

use super::super::IncomingRequest;
use super::super::frame::ErrorCode;
use super::super::stream::Stream;
use super::Session;

impl Session {
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
            match stream.request(&self.flow_control, id) {
                Some(Ok((head, body))) => return Some(IncomingRequest { stream: id, head, body }),
                // No part of it was processed.
                Some(Err(_)) => self.reset(id, ErrorCode::REFUSED_STREAM),
                None => {}
            }
        }
    }

    /// Completes when the stream is closed by either side; `None` if it is already closed. A new watch replaces the previous one.
    pub fn watch_closed(&mut self, stream: u32) -> Option<oneshot::Receiver<()>> {
        self.streams.get_mut(&stream).map(Stream::watch_closed)
    }
}
