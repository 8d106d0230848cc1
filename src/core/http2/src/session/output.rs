//! The queued output.

use super::Session;

/// Queued output in bytes beyond which no input is read and no DATA is encoded.
const MAX_OUTPUT: usize = 256 << 10;
/// Capacity of the output buffer that is kept while it is empty.
pub(super) const KEPT_OUTPUT: usize = 64 << 10;

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
            self.output.shrink_to(KEPT_OUTPUT);
        }
    }

    /// Whether the output is so large that reading should pause.
    pub fn is_congested(&self) -> bool {
        self.output.len() - self.sent > MAX_OUTPUT
    }
}
