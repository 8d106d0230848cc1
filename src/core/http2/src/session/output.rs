//! The queued output.

use super::Session;

/// Queued output in bytes beyond which no input is read and no DATA is encoded.
pub(super) const MAX_OUTPUT: usize = 256 << 10;
/// Capacity of the output buffer that is kept while it is empty, and bytes of the sent prefix beyond which it is freed.
pub(super) const KEPT_OUTPUT: usize = 64 << 10;
/// What the output of a connection counts in its memory while it exceeds [`KEPT_OUTPUT`].
const COUNTED_OUTPUT: usize = MAX_OUTPUT - KEPT_OUTPUT;

impl Session {
    /// Bytes to write to the socket.
    pub fn output(&self) -> &[u8] {
        self.output.get(self.sent..).unwrap_or_default()
    }

    /// Removes `count` written bytes from the output.
    pub fn advance(&mut self, count: usize) {
        self.sent += count;
        self.may_unblock = true;
        if self.sent >= self.output.len() {
            self.output.clear();
            self.sent = 0;
            self.output.shrink_to(KEPT_OUTPUT);
            if std::mem::take(&mut self.holds_output) {
                self.flow_control.release(COUNTED_OUTPUT);
            }
        } else if self.sent >= KEPT_OUTPUT && self.sent >= self.output.len() / 2 {
            // A client that reads slowly may never take everything. Fewer bytes are moved than were sent.
            self.output.drain(..self.sent);
            self.sent = 0;
            if self.output.len().max(KEPT_OUTPUT) < self.output.capacity() / 4 {
                self.output.shrink_to(KEPT_OUTPUT);
            }
        }
    }

    /// Whether the output is so large that reading should pause: 256 KiB, or 64 KiB if there is no memory for more.
    pub fn is_congested(&mut self) -> bool {
        let unsent = self.output.len() - self.sent;
        if unsent <= KEPT_OUTPUT {
            return false;
        }
        self.holds_output = self.holds_output || self.flow_control.hold(COUNTED_OUTPUT);
        unsent > MAX_OUTPUT || !self.holds_output
    }
}
