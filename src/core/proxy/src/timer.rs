//! Time limits of a connection, of which the timer is set again as rarely as possible.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep};

/// A timer whose deadline moves often and passes rarely: moving it to a later time costs nothing until the earlier one has passed.
#[derive(Debug)]
pub(crate) struct Timer {
    sleep: Pin<Box<Sleep>>,
    deadline: Option<Instant>,
}

impl Timer {
    pub(crate) fn new() -> Self {
        Self { sleep: Box::pin(tokio::time::sleep_until(Instant::now())), deadline: None }
    }

    /// Sets the deadline, or removes it.
    pub(crate) fn set(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// Ready once the deadline has passed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline else { return Poll::Pending };
        if self.sleep.is_elapsed() || self.sleep.deadline() > deadline {
            self.sleep.as_mut().reset(deadline);
        }
        loop {
            if self.sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if self.sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(deadline);
        }
    }
}

/// The earlier of two deadlines.
pub(crate) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_moves_is_met() {
        let start = Instant::now();
        let seconds = |count| Some(start + Duration::from_secs(count));
        let mut timer = Timer::new();
        let poll = async |timer: &mut Timer| {
            let waited =
                tokio::time::timeout(Duration::from_secs(1), std::future::poll_fn(|cx| timer.poll(cx)));
            waited.await.is_ok()
        };
        assert!(!poll(&mut timer).await, "none is set");
        timer.set(seconds(4));
        assert!(!poll(&mut timer).await, "2 s");
        timer.set(seconds(6));
        assert!(!poll(&mut timer).await, "3 s");
        assert!(!poll(&mut timer).await, "4 s: the earlier one has passed");
        assert!(!poll(&mut timer).await, "5 s");
        assert!(poll(&mut timer).await, "6 s");
        timer.set(seconds(60));
        assert!(!poll(&mut timer).await);
        timer.set(seconds(8));
        assert!(poll(&mut timer).await, "an earlier one");
        timer.set(None);
        assert!(!poll(&mut timer).await);
    }
}
