//! How long a turn is.

use std::time::{Duration, Instant};

/// Time after which other connections of the worker have their turn: some twenty checks, or the batch of a proxy.
const LENGTH: Duration = Duration::from_micros(60);
/// Input that is read before the requests in it are served, in bytes: the answers to all of them leave in one write.
pub(crate) const MAX_INPUT: usize = 256 << 10;
/// Requests after which other connections have their turn, however short they were.
pub(crate) const MAX_REQUESTS: usize = 256;

/// How long a worker has served one connection without a look at its others. A turn ends by time and by requests, which are checked
/// after each piece of work that a caller can make long: after input, and after each request, whose time only its service knows. Reading the
/// clock is less than 1 % of the time of a short one.
#[derive(Debug)]
pub(super) struct Length {
    begin: Instant,
    end: Instant,
    requests: usize,
    is_over: bool,
}

impl Length {
    /// A turn that begins at `now`.
    pub(super) fn begin(now: Instant) -> Self {
        Self { begin: now, end: now + LENGTH, requests: 0, is_over: false }
    }

    /// A turn in which a connection is opened or closed. One in which another is served may be before the same look at the others.
    pub(super) fn begin_short(now: Instant) -> Self {
        Self { begin: now, end: now + LENGTH / 4, requests: 0, is_over: false }
    }

    /// Counts input.
    pub(super) fn count_input(&mut self, now: impl FnOnce() -> Instant) {
        self.is_over |= now() >= self.end;
    }

    /// Counts a request that was polled.
    pub(super) fn count_request(&mut self, now: impl FnOnce() -> Instant) {
        self.requests += 1;
        self.is_over |= self.requests >= MAX_REQUESTS || now() >= self.end;
    }

    /// How long it was until `now`.
    pub(super) fn until(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begin)
    }

    /// Whether others are to be served.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_by_its_time() {
        let begin = Instant::now();
        let mut length = Length::begin(begin);
        length.count_input(|| begin + LENGTH / 2);
        length.count_request(|| begin + LENGTH / 2);
        assert!(!length.is_over());
        length.count_request(|| begin + LENGTH);
        assert!(length.is_over());
    }

    #[test]
    fn a_turn_ends_by_its_requests() {
        let begin = Instant::now();
        let mut length = Length::begin(begin);
        for _ in 1..MAX_REQUESTS {
            length.count_request(|| begin);
            assert!(!length.is_over());
        }
        length.count_request(|| begin);
        assert!(length.is_over());
    }
}
