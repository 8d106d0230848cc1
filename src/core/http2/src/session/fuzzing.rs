//! The sizes of what a client can make grow.

use super::Session;

/// Sizes of the state of a connection, each of which has a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSizes {
    /// Streams that have not ended.
    pub streams: usize,
    /// Requests that were not taken yet, reset ones included.
    pub begun: usize,
    /// Streams that are remembered because this side ended them first.
    pub ended_early: usize,
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
            begun: self.begun.len(),
            ended_early: self.ended_early.len(),
            blocked: self.blocked.len(),
            block: self.block.as_ref().map_or(0, |block| block.bytes.len()),
        }
    }
}
