//! What a connection keeps between two events, besides delivered requests and answers.

use super::super::stream::Stream;
use super::head_cache::HeadCache;
use super::{ConnectionError, ErrorCode, Session};

/// Bytes in which it is counted, so that small changes cost nothing.
const GRAIN: usize = 4 << 10;
/// Bytes that do not count: the frame that arrives, tables of usual size, and the output that there is before reading pauses. A connection
/// with one call at a time is served although others took all memory.
const FREE: usize = 40 << 10;
/// Entries of nearly empty tables that are kept: their memory is a part of what does not count.
const KEPT_ENTRIES: usize = 48;

impl Session {
    /// Counts what the connection keeps until something happens: `input` bytes of its driver, unsent output, tables and caches, its streams, and
    /// the heads of requests that wait. Without memory for them the caches are emptied, then those requests are refused.
    ///
    /// Errors: there is no memory for the rest.
    pub fn count_kept(&mut self, input: usize) -> Result<(), ConnectionError> {
        self.shrink_tables(4 * KEPT_ENTRIES);
        if self.adjust_kept(input) {
            return Ok(());
        }
        self.head_cache = HeadCache::default();
        self.output.shrink_to_fit();
        self.shrink_tables(0);
        if self.adjust_kept(input) {
            return Ok(());
        }
        if self.waiting_requests() > 0 {
            self.refuse_waiting();
            self.shrink_tables(0);
            if self.adjust_kept(input) {
                return Ok(());
            }
        }
        Err(ConnectionError {
            code: ErrorCode::ENHANCE_YOUR_CALM,
            message: "no memory for what the connection keeps",
        })
    }

    /// Shrinks the tables of streams with room for more than `entries`, if at most a quarter of it is used.
    fn shrink_tables(&mut self, entries: usize) {
        let wanted =
            |used: usize, room: usize| (room > entries && used <= room / 4).then_some(used.max(entries / 4));
        if let Some(room) = wanted(self.streams.len(), self.streams.capacity()) {
            self.streams.shrink_to(room);
        }
        for queue in [&mut self.new_requests, &mut self.drained] {
            if let Some(room) = wanted(queue.len(), queue.capacity()) {
                queue.shrink_to(room);
            }
        }
    }

    /// Bytes of the tables of streams. What streams refer to counts by itself.
    fn stream_tables(&self) -> usize {
        // An entry of the table has a byte of its hash besides, and one of eight is always free.
        let entry = size_of::<(u32, Stream)>() + 1;
        let queued = self.new_requests.capacity() + self.drained.capacity();
        self.streams.capacity() / 7 * 8 * entry + queued * size_of::<u32>()
    }

    /// Returns false, and counts as before, if there is no memory.
    fn adjust_kept(&mut self, input: usize) -> bool {
        let tables = self.head_cache.memory() + self.decoder.memory() + self.stream_tables();
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
