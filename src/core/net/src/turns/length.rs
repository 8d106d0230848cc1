//! How long a turn is.

use std::time::{Duration, Instant};

/// Time after which other connections of the worker have their turn: some forty checks, or the batches of three proxies.
const LENGTH: Duration = Duration::from_micros(150);
/// Input that is read before the requests in it are served, in bytes: the answers to all of them leave in one write.
pub(crate) const MAX_INPUT: usize = 256 << 10;
/// Requests after which other connections have their turn, however short they were.
pub(crate) const MAX_REQUESTS: usize = 256;
/// Bytes of input and of requests after which the clock is read again: often enough for long requests, and less than 1 % of the time of
/// short ones.
const BYTES_PER_READING: usize = 4 << 10;
/// What a request counts besides its body, in bytes.
const REQUEST_BYTES: usize = 512;

/// How long a worker has served one connection without a look at its others. A turn ends by time and by requests, which are checked
/// after each piece of work that a caller can make long.
#[derive(Debug)]
pub(super) struct Length {
    end: Instant,
    requests: usize,
    /// Bytes since the clock was read.
    bytes: usize,
    is_over: bool,
}

impl Length {
    /// A turn that begins at `now`.
    pub(super) fn begin(now: Instant) -> Self {
        Self { end: now + LENGTH, requests: 0, bytes: 0, is_over: false }
    }

    /// Counts input.
    pub(super) fn count_input(&mut self, bytes: usize, now: impl FnOnce() -> Instant) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes >= BYTES_PER_READING {
            self.bytes = 0;
            self.is_over |= now() >= self.end;
        }
    }

    /// Counts a request with so many bytes that was polled.
    pub(super) fn count_request(&mut self, bytes: usize, now: impl FnOnce() -> Instant) {
        self.requests += 1;
        self.is_over |= self.requests >= MAX_REQUESTS;
        self.count_input(bytes.saturating_add(REQUEST_BYTES), now);
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
        length.count_input(BYTES_PER_READING, || begin + LENGTH / 2);
        length.count_request(BYTES_PER_READING, || begin + LENGTH / 2);
        assert!(!length.is_over());
        length.count_request(BYTES_PER_READING, || begin + LENGTH);
        assert!(length.is_over());
    }

    #[test]
    fn a_turn_ends_by_its_requests() {
        let begin = Instant::now();
        let mut length = Length::begin(begin);
        for _ in 1..MAX_REQUESTS {
            length.count_request(0, || begin);
            assert!(!length.is_over());
        }
        length.count_request(0, || begin);
        assert!(length.is_over());
    }

    #[test]
    fn the_clock_is_read_once_for_several_short_requests() {
        let begin = Instant::now();
        let mut length = Length::begin(begin);
        let mut readings = 0;
        for _ in 0..64 {
            length.count_request(100, || {
                readings += 1;
                begin
            });
        }
        assert!((1..=16).contains(&readings), "{readings}");
    }
}
