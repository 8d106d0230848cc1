//! `TCPAccessLogEntry`, and the counters of connections.

use std::time::{Duration, Instant};

use quick_cache::unsync::Cache;

use super::common::Common;
use crate::attributes::{Attributes, Known};
use crate::wire::{FieldValue, each_field, int64};
use mixer_attribute::{DecodeError, Value};

/// Access log types.
const UPSTREAM_CONNECTED: u64 = 1;
const PERIODIC: u64 = 2;

/// The byte counts of the last entry of each open connection. Envoy logs totals; reports need the differences.
///
/// Bounded: connections beyond the bound are evicted, and idle ones expire.
pub struct ConnectionCounters {
    last: Cache<(u64, Box<[u8]>), ByteCounts>,
    idle: Duration,
    stream: u64,
}

#[derive(Clone, Copy)]
struct ByteCounts {
    received: i64,
    sent: i64,
    at: Instant,
}

impl ConnectionCounters {
    /// No connections yet; keeps at most `entries`, each up to `idle` after its last entry.
    pub fn new(entries: usize, idle: Duration) -> Self {
        Self { last: Cache::new(entries.max(1)), idle, stream: 0 }
    }

    /// Selects the stream of the next entries: connection ids are unique within a stream only.
    pub(crate) fn set_stream(&mut self, stream: u64) {
        self.stream = stream;
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.last.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// The bytes received and sent since the last entry.
    fn difference(&mut self, id: &[u8], received: i64, sent: i64, ends: bool) -> (i64, i64) {
        if id.is_empty() {
            return (received, sent);
        }
        let key = (self.stream, Box::from(id));
        let now = Instant::now();
        let before = self.last.get(&key).copied();
        let before = before.filter(|last| now.saturating_duration_since(last.at) <= self.idle);
        if ends {
            self.last.remove(&key);
        } else {
            self.last.insert(key, ByteCounts { received, sent, at: now });
        }
        let (old_received, old_sent) = before.map_or((0, 0), |last| (last.received, last.sent));
        // A counter that decreases was reset.
        let more = |new: i64, old: i64| if new >= old { new - old } else { new };
        (more(received, old_received), more(sent, old_sent))
    }
}

pub(super) fn set<'a>(
    body: &'a [u8],
    common: &Common<'a>,
    counters: &mut ConnectionCounters,
    out: &mut Attributes<'a>,
) -> Result<(), DecodeError> {
    let (mut received, mut sent) = (0, 0);
    each_field(body, |number, value| match (number, value) {
        (1, FieldValue::Varint(bytes)) => received = int64(bytes),
        (2, FieldValue::Varint(bytes)) => sent = int64(bytes),
        _ => {}
    })?;
    let event: &[u8] = match common.kind {
        UPSTREAM_CONNECTED => b"open",
        PERIODIC => b"continue",
        _ => b"close",
    };
    let ends = event == b"close";
    let (more_received, more_sent) = counters.difference(common.stream_id, received, sent, ends);
    out.text(Known::ContextProtocol, b"tcp");
    out.text(Known::ConnectionEvent, event);
    out.some_text(Known::ConnectionId, common.stream_id);
    out.number(Known::ConnectionReceivedBytes, more_received);
    out.number(Known::ConnectionReceivedBytesTotal, received);
    out.number(Known::ConnectionSentBytes, more_sent);
    out.number(Known::ConnectionSentBytesTotal, sent);
    if ends && let Some(took) = common.took() {
        out.set(Known::ConnectionDuration, Value::Duration(took));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_add_up_to_the_totals() {
        let mut counters = ConnectionCounters::new(10, Duration::from_secs(60));
        counters.set_stream(1);
        let steps = [(0, 0, false), (5, 7, false), (9, 7, false), (12, 20, true)];
        let found: Vec<_> =
            steps.iter().map(|(r, s, ends)| counters.difference(b"a", *r, *s, *ends)).collect();
        assert_eq!(found, [(0, 0), (5, 7), (4, 0), (3, 13)]);
        assert!(counters.is_empty(), "a closed connection is removed");
    }

    #[test]
    fn streams_do_not_share_connections() {
        let mut counters = ConnectionCounters::new(10, Duration::from_secs(60));
        counters.set_stream(1);
        counters.difference(b"a", 100, 100, false);
        counters.set_stream(2);
        assert_eq!(counters.difference(b"a", 3, 4, false), (3, 4));
    }
}
