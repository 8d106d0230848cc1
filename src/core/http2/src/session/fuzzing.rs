//! The sizes of what a client can make grow.

use super::Session;

/// Sizes of the state of a connection, each of which has a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSizes {
    /// Streams that have not ended.
    pub streams: usize,
    /// Requests that are not delivered yet, reset ones included.
    pub new_requests: usize,
    /// Streams reset by the server on which frames may still be in flight.
    pub recently_reset: usize,
    /// Streams that wait for a window, repeated ones included.
    pub blocked: usize,
    /// Bytes of a header block that is not complete.
    pub block: usize,
}

impl Session {
    /// The sizes now.
    #[doc(hidden)]
    pub fn sizes(&self) -> SessionSizes {
        SessionSizes {
            streams: self.streams.len(),
            new_requests: self.new_requests.len(),
            recently_reset: self.recently_reset.len(),
            blocked: self.blocked.len(),
            block: self.partial_block.as_ref().map_or(0, |block| block.bytes.len()),
        }
    }
}
