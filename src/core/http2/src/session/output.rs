//! The queued output.

use super::Session;

/// Queued output in bytes beyond which no input is read and no DATA is encoded.
pub(super) const MAX_OUTPUT: usize = 256 << 10;
/// Queued output that needs no memory of the account, and bytes of the sent prefix beyond which it is freed.
pub(super) const FREE_OUTPUT: usize = 16 << 10;
/// What the output of a connection counts in its memory while it exceeds [`FREE_OUTPUT`].
const COUNTED_OUTPUT: usize = MAX_OUTPUT - FREE_OUTPUT;
/// Capacity of a buffer that is lent again.
const LENT_OUTPUT: usize = 256 << 10;

impl Session {
    /// Bytes to write to the socket.
    pub fn output(&self) -> &[u8] {
        self.output.get(self.sent..).unwrap_or_default()
    }

    /// Removes `count` written bytes from the output.
    pub fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.sent >= self.output.len() {
            self.output.clear();
            self.sent = 0;
            if std::mem::take(&mut self.holds_output) {
                self.flow_control.release(COUNTED_OUTPUT);
            }
        } else if self.sent >= FREE_OUTPUT && self.sent >= self.output.len() / 2 {
            // A client that reads slowly may never take everything. Fewer bytes are moved than were sent.
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Whether the output is so large that reading should pause: 256 KiB, or 16 KiB if there is no memory for more.
    pub fn is_congested(&mut self) -> bool {
        let unsent = self.output.len() - self.sent;
        if unsent <= FREE_OUTPUT {
            return false;
        }
        self.holds_output = self.holds_output || self.flow_control.hold(COUNTED_OUTPUT);
        unsent > MAX_OUTPUT || !self.holds_output
    }

    /// Takes a buffer for the output if there is none, so that connections whose output is sent keep nothing of their own.
    pub fn borrow_output(&mut self, buffer: &mut Vec<u8>) {
        if self.output.capacity() == 0 {
            std::mem::swap(&mut self.output, buffer);
        }
    }

    /// Gives the buffer of the output back, unless more than half of it is not sent.
    pub fn return_output(&mut self, buffer: &mut Vec<u8>) {
        let unsent = self.output.len() - self.sent;
        if std::mem::take(&mut self.holds_output) {
            // Between events what there is counts, see `count_kept`.
            self.flow_control.release(COUNTED_OUTPUT);
        }
        if unsent > self.output.capacity() / 2 {
            return;
        }
        let unsent = self.output().to_vec();
        self.sent = 0;
        let mut lent = std::mem::replace(&mut self.output, unsent);
        if lent.capacity() > buffer.capacity() {
            lent.clear();
            lent.shrink_to(LENT_OUTPUT);
            *buffer = lent;
        }
    }
}
