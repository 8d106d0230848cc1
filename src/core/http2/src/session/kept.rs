//! What a connection keeps between two events, besides delivered requests and answers.

use super::head_cache::HeadCache;
use super::{ConnectionError, ErrorCode, Session};

/// Bytes in which it is counted, so that small changes cost nothing.
const GRAIN: usize = 4 << 10;
/// Bytes that do not count: the frame that arrives, tables of usual size, and the output that there is before reading pauses. A connection
/// with one call at a time is served although others took all memory.
const FREE: usize = 40 << 10;
/// Entries of empty queues and maps that are kept.
const KEPT_ENTRIES: usize = 256;

impl Session {
    /// Counts what the connection keeps until something happens: `input` bytes of its driver, unsent output, tables and caches, and the heads of
    /// requests that wait. Without memory for them the caches are emptied, then those requests are refused.
    ///
    /// Errors: there is no memory for the rest.
    pub fn count_kept(&mut self, input: usize) -> Result<(), ConnectionError> {
        if self.streams.is_empty() && self.streams.capacity() > 4 * KEPT_ENTRIES {
            self.streams.shrink_to(KEPT_ENTRIES);
        }
        for queue in [&mut self.new_requests, &mut self.blocked] {
            if queue.is_empty() && queue.capacity() > 4 * KEPT_ENTRIES {
                queue.shrink_to(KEPT_ENTRIES);
            }
        }
        if self.adjust_kept(input) {
            return Ok(());
        }
        self.head_cache = HeadCache::default();
        self.output.shrink_to_fit();
        if self.adjust_kept(input) {
            return Ok(());
        }
        if self.waiting_heads > 0 {
            self.refuse_waiting();
            if self.adjust_kept(input) {
                return Ok(());
            }
        }
        Err(ConnectionError {
            code: ErrorCode::ENHANCE_YOUR_CALM,
            message: "no memory for what the connection keeps",
        })
    }

    /// Returns false, and counts as before, if there is no memory.
    fn adjust_kept(&mut self, input: usize) -> bool {
        let tables = self.head_cache.memory() + self.decoder.memory();
        let bytes = input + self.output.capacity() + tables + self.waiting_heads;
        let kept = bytes.saturating_sub(FREE).div_ceil(GRAIN) * GRAIN;
        if kept < self.kept {
            self.flow_control.give_up(self.kept - kept);
        } else if kept > self.kept && !self.flow_control.keep(kept - self.kept) {
            return false;
        }
        self.kept = kept;
        true
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.kept > 0 {
            self.flow_control.give_up(self.kept);
        }
    }
}
