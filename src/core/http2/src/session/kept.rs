//! What a connection keeps between two events.

use super::head_cache::HeadCache;
use super::output::COUNTED_OUTPUT;
use super::{ConnectionError, ErrorCode, Session};
use crate::stream::Stream;

/// Bytes in which it is counted, so that small changes cost nothing.
const GRAIN: usize = 4 << 10;

impl Session {
    /// Counts what the connection keeps until something happens: `input` bytes of its driver, unsent output, tables and caches.
    ///
    /// Errors: there is no memory for it, also without caches.
    pub fn count_kept(&mut self, input: usize) -> Result<(), ConnectionError> {
        if self.adjust_kept(input) {
            return Ok(());
        }
        self.head_cache = HeadCache::default();
        self.streams.shrink_to_fit();
        self.output.shrink_to_fit();
        if self.adjust_kept(input) {
            return Ok(());
        }
        Err(ConnectionError {
            code: ErrorCode::ENHANCE_YOUR_CALM,
            message: "no memory for what the connection keeps",
        })
    }

    /// Returns false, and counts as before, if there is no memory.
    fn adjust_kept(&mut self, input: usize) -> bool {
        let kept = (input + self.memory()).div_ceil(GRAIN) * GRAIN;
        if kept < self.kept {
            self.flow_control.release(self.kept - kept);
        } else if kept > self.kept && !self.flow_control.hold(kept - self.kept) {
            return false;
        }
        self.kept = kept;
        true
    }

    /// Bytes that requests do not count.
    fn memory(&self) -> usize {
        let output =
            self.output.capacity().saturating_sub(if self.holds_output { COUNTED_OUTPUT } else { 0 });
        let streams = self.streams.capacity() * size_of::<(u32, Stream)>();
        let queues = self.new_requests.capacity() + self.blocked.capacity() + self.recently_reset.capacity();
        output + streams + queues * size_of::<u32>() + self.head_cache.memory() + self.decoder.memory()
    }
}
