//! The sizes of all state that a client can make grow.

use super::Session;

/// Sizes of the state of a connection; each is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSizes {
    /// Open streams.
    pub streams: usize,
    /// Requests not yet delivered, including reset ones.
    pub new_requests: usize,
    /// Streams reset by the server on which frames may still be in flight.
    pub recently_reset: usize,
    /// Streams blocked on flow control, or drained and not told.
    pub blocked: usize,
    /// Bytes of an incomplete header block.
    pub block: usize,
    /// Bytes of requests in memory.
    pub held: usize,
    /// Capacity of the output buffer in bytes.
    pub output: usize,
}

impl Session {
    /// The current sizes.
    #[doc(hidden)]
    pub fn sizes(&self) -> SessionSizes {
        SessionSizes {
            streams: self.streams.len(),
            new_requests: self.new_requests.len(),
            recently_reset: self.recently_reset.len(),
            blocked: self.blocked.len() + self.drained.len(),
            block: self.partial_block.as_ref().map_or(0, |block| block.bytes.len()),
            held: self.flow_control.held(),
            output: self.output.capacity(),
        }
    }
}
