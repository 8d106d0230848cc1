//! What arrives of a request while nobody reads it: whether it is complete.

use std::time::Duration;

use bytes::BytesMut;
use tokio::time::Instant;

use super::client::{Client, ReadEnd};
use super::framing::Remaining;

/// A request of which something was not there when it began to wait for its host.
#[derive(Debug)]
pub(super) struct Arrival {
    /// What is left of the body behind what was looked at; `None` before the first look.
    rest: Option<Remaining>,
    /// The rest before the first look: of what was not passed on.
    begin: Remaining,
    /// Bytes of the input that were looked at, and the last line of them, if its end is yet to come.
    seen: usize,
    line: BytesMut,
    complete: Option<Instant>,
    /// Since when there is no room for more.
    full: Option<Instant>,
    /// Time limit of the response.
    timeout: Option<Duration>,
}

impl Arrival {
    /// Nothing was looked at of a body, of which this is left; its response has a time limit.
    pub(super) fn new(begin: Remaining, timeout: Option<Duration>) -> Self {
        let (rest, line) = (None, BytesMut::new());
        Self { rest, begin, seen: 0, line, complete: None, full: None, timeout }
    }

    /// When the request was complete.
    pub(super) fn complete(&self) -> Option<Instant> {
        self.complete
    }

    /// When the response is too late. The time begins when the request is complete, or when no more of it is received: what its client does then is
    /// no reason to wait for a host.
    pub(super) fn response_deadline(&self) -> Option<Instant> {
        Some(self.complete.or(self.full)? + self.timeout?)
    }

    /// Looks at what came since the last look.
    ///
    /// Errors: it is no valid body.
    pub(super) fn look(&mut self, client: &Client) -> Result<(), ReadEnd> {
        if self.complete.is_some() {
            return Ok(());
        }
        let is_complete = match client.waiting_input() {
            Some((input, kept)) => {
                let rest = self.rest.get_or_insert(kept.unwrap_or(self.begin));
                self.line.extend_from_slice(input.get(self.seen..).unwrap_or_default());
                self.seen = input.len();
                rest.decode(&mut self.line, usize::MAX, |_| ()).map_err(|_| ReadEnd::Invalid)?;
                rest.is_done()
            }
            None => client.has_arrived(),
        };
        if is_complete {
            self.complete = Some(Instant::now());
        } else if self.full.is_none() && client.is_paused() {
            self.full = Some(Instant::now());
        }
        Ok(())
    }
}
