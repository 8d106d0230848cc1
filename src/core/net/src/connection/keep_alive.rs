//! Detection of dead peers by PING.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use mixer_http2::Session;

/// Sends a PING per interval and expects its acknowledgement within the next. Resets streams whose response does not move for an interval.
pub(super) struct KeepAlive {
    interval: Duration,
    timer: Pin<Box<Sleep>>,
    is_awaiting_ack: bool,
}

impl KeepAlive {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, timer: Box::pin(tokio::time::sleep(interval)), is_awaiting_ack: false }
    }

    /// Ready when a PING was not acknowledged in time, or when the connection preface did not arrive within an interval.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, session: &mut Session) -> Poll<()> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let is_dead = self.is_awaiting_ack && !session.take_ping_ack();
            if is_dead || !session.is_established() {
                return Poll::Ready(());
            }
            session.ping();
            session.reset_stalled();
            session.forget_violations();
            self.is_awaiting_ack = true;
            self.timer.as_mut().reset(Instant::now() + self.interval);
        }
        Poll::Pending
    }
}
