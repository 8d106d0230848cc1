//! Whether the caller that waits for a profile is still there.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Held by the request; dropped when it is answered or its caller leaves.
#[derive(Debug)]
pub(super) struct Presence(#[expect(dead_code, reason = "only its end is observed")] Sender<()>);

/// A caller, as seen by the thread that works for it.
#[derive(Debug)]
pub(super) struct Caller(Receiver<()>);

/// A caller that stays as long as its presence is held.
pub(super) fn arrive() -> (Presence, Caller) {
    let (sender, receiver) = channel();
    (Presence(sender), Caller(receiver))
}

impl Caller {
    /// Blocks the thread for `length`, or until the caller leaves.
    pub(super) fn wait(&self, length: Duration) {
        let _ = self.0.recv_timeout(length);
    }
}
