//! `TCPAccessLogEntry`, and the counters of connections.

use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::common::Common;
use crate::attributes::{Attributes, Known};
use crate::wire::{FieldValue, each_field, int64};
use mixer_attribute::{DecodeError, Value};
use mixer_base::bounded::{Bounded, BoundedTable, Modified, WhenFull, stored_key};
use mixer_base::budget::Account;

/// Access log types.
const UPSTREAM_CONNECTED: u64 = 1;
const PERIODIC: u64 = 2;

/// The byte counts of the last entry of each open connection of a stream. Envoy logs totals; reports need the differences.
///
/// Bounded in connections and in bytes: beyond them the connections without an entry for the longest time are evicted.
#[derive(Debug)]
pub struct ConnectionCounters {
    table: BoundedTable<ByteCounts>,
    hasher: foldhash::quality::RandomState,
    max_connections: usize,
    idle: Duration,
    began: Instant,
}

#[derive(Debug)]
struct ByteCounts {
    id: Box<[u8]>,
    received: i64,
    sent: i64,
    /// In milliseconds since the table began.
    expires: u64,
}

impl Bounded for ByteCounts {
    fn heap_bytes(&self) -> usize {
        self.id.len()
    }

    fn is_expired(&self, now: u64) -> bool {
        self.expires <= now
    }
}

impl ConnectionCounters {
    /// No connections yet; keeps at most `connections`, each up to `idle` after its last entry.
    pub fn new(connections: usize, idle: Duration) -> Self {
        Self::with(BoundedTable::new(usize::MAX, WhenFull::Evict), connections, idle)
    }

    /// As [`new`](Self::new), with the bytes of an account.
    pub(crate) fn within(account: Arc<Account>, connections: usize, idle: Duration) -> Self {
        Self::with(BoundedTable::within(account, WhenFull::Evict), connections, idle)
    }

    fn with(table: BoundedTable<ByteCounts>, connections: usize, idle: Duration) -> Self {
        let hasher = foldhash::quality::RandomState::default();
        Self { table, hasher, max_connections: connections, idle, began: Instant::now() }
    }

    /// Changes the bounds, from the next entry on.
    pub(crate) fn set_bounds(&mut self, connections: usize, idle: Duration) {
        (self.max_connections, self.idle) = (connections, idle);
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Open connections that were evicted so far.
    pub(crate) fn evicted(&self) -> u64 {
        self.table.evicted()
    }

    /// The bytes received and sent since the last entry.
    fn difference(&mut self, id: &[u8], received: i64, sent: i64, ends: bool) -> (i64, i64) {
        if id.is_empty() {
            return (received, sent);
        }
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let now = milliseconds(self.began.elapsed());
        let expires = now.saturating_add(milliseconds(self.idle));
        let id = &*stored_key(id);
        let hash = self.hasher.hash_one(id);
        let is_id = |counts: &ByteCounts| *counts.id == *id;
        let before = self.table.modify(hash, is_id, now, |counts| {
            let before = (!counts.is_expired(now)).then_some((counts.received, counts.sent));
            (counts.received, counts.sent, counts.expires) = (received, sent, expires);
            (if ends { Modified::Removed } else { Modified::Used }, before)
        });
        if before.is_none() && !ends && self.max_connections > 0 {
            while self.table.len() >= self.max_connections && self.table.evict_one(now) {}
            let counts = ByteCounts { id: id.into(), received, sent, expires };
            // Without memory for it, the next entry counts from zero.
            self.table.insert(hash, counts, now);
        }
        let (old_received, old_sent) = before.flatten().unwrap_or_default();
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
    use mixer_base::budget::Share;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn differences_add_up_to_the_totals() {
        let mut counters = ConnectionCounters::new(10, MINUTE);
        let steps = [(0, 0, false), (5, 7, false), (9, 7, false), (12, 20, true)];
        let found: Vec<_> =
            steps.iter().map(|(r, s, ends)| counters.difference(b"a", *r, *s, *ends)).collect();
        assert_eq!(found, [(0, 0), (5, 7), (4, 0), (3, 13)]);
        assert!(counters.is_empty(), "a closed connection is removed");
    }

    #[test]
    fn connections_are_bounded_in_number_and_bytes() {
        let share = Arc::new(Share::new(1 << 20));
        let account = Arc::new(share.open());
        let mut counters = ConnectionCounters::within(Arc::clone(&account), 100, MINUTE);
        for index in 0..300_u32 {
            // Ids of a megabyte are stored as digests.
            let mut id = vec![b'x'; 1 << 20];
            id.extend_from_slice(&index.to_le_bytes());
            counters.difference(&id, 1, 1, false);
        }
        assert_eq!((counters.len(), counters.evicted()), (100, 200));
        assert!(share.used() < 100 * 1024, "{} bytes", share.used());
        counters.set_bounds(1_000_000, MINUTE);
        for index in 0..50_000_u32 {
            counters.difference(&index.to_le_bytes(), 1, 1, false);
        }
        assert!(counters.len() > 1000 && share.used() <= 1 << 20, "{} in {}", counters.len(), share.used());
        assert_eq!(
            counters.difference(&49_999_u32.to_le_bytes(), 3, 4, false),
            (2, 3),
            "the newest are kept"
        );
        drop(counters);
        assert_eq!(share.used(), 0, "the connections end with their stream");
    }

    #[test]
    fn bounds_follow_the_settings() {
        let mut counters = ConnectionCounters::new(10, MINUTE);
        counters.difference(b"a", 5, 5, false);
        counters.set_bounds(10, Duration::ZERO);
        assert_eq!(counters.difference(b"a", 7, 7, false), (2, 2));
        assert_eq!(counters.difference(b"a", 9, 9, false), (9, 9), "it expired at once");
        counters.set_bounds(0, MINUTE);
        counters.difference(b"b", 1, 1, false);
        assert_eq!(counters.len(), 1);
    }
}
