//! Nodes of a cluster that give no answer: the windows of each wait for it now and then, and not with every call.
//!
//! A call that has no answer in time says little: the next one may have. Once another one, begun after that, has none either, and none was answered
//! meanwhile, calls fail at once for a pause, after which one of them tries the node again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use tokio::time::Instant;

/// How long calls fail at once, until one of them tries the node again.
const PAUSE: Duration = Duration::from_secs(1);
/// How long after that a node is told that nobody has tried again.
const TOLD: Duration = Duration::from_secs(30);
/// Nodes and slots that are remembered. Clusters have fewer.
const MAX_NODES: usize = 4096;
/// Slots of a cluster.
const SLOTS: u16 = 16384;

/// Which node has which slots, as the cluster said when it was connected to.
#[derive(Debug, Default)]
pub(super) struct Slots(Vec<Range>);

#[derive(Debug, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    node: Arc<str>,
}

impl Slots {
    /// What an answer to `CLUSTER SLOTS` says. What is none says nothing.
    pub(super) fn of(answer: &Value) -> Self {
        let Value::Array(ranges) = answer else { return Self::default() };
        let mut ranges: Vec<Range> = ranges.iter().take(MAX_NODES).filter_map(range).collect();
        ranges.sort_unstable_by_key(|range| range.first);
        Self(ranges)
    }

    /// The node of a key, as it is shown.
    pub(super) fn node_of(&self, key: &[u8]) -> Arc<str> {
        let slot = slot_of(key);
        let after = self.0.partition_point(|range| range.first <= slot);
        let range = after.checked_sub(1).and_then(|at| self.0.get(at)).filter(|range| slot <= range.last);
        range.map_or_else(|| format!("that of slot {slot}").into(), |range| Arc::clone(&range.node))
    }
}

fn range(answer: &Value) -> Option<Range> {
    let Value::Array(parts) = answer else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(node), ..] = parts.as_slice() else { return None };
    let [host, Value::Int(port), ..] = node.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => String::from_utf8_lossy(host),
        Value::SimpleString(host) => host.into(),
        _ => "".into(),
    };
    let node = format!("{host}:{port}").into();
    Some(Range { first: u16::try_from(*first).ok()?, last: u16::try_from(*last).ok()?, node })
}

/// The slot of a key: that of what is in its first braces, if something is.
fn slot_of(key: &[u8]) -> u16 {
    let braced = || {
        let open = key.iter().position(|byte| *byte == b'{')? + 1;
        let inner = key.get(open..)?;
        let close = inner.iter().position(|byte| *byte == b'}').filter(|at| *at > 0)?;
        inner.get(..close)
    };
    // CRC-16 of XMODEM.
    let sum = braced().unwrap_or(key).iter().fold(0_u16, |sum, byte| {
        (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum, _| {
            let shifted = sum << 1;
            if sum & 0x8000 == 0 { shifted } else { shifted ^ 0x1021 }
        })
    });
    sum % SLOTS
}

/// Nodes that gave no answer.
#[derive(Debug, Default)]
pub(super) struct SilentNodes {
    /// Whether there are some.
    are_there: AtomicBool,
    nodes: Mutex<BTreeMap<Arc<str>, Silence>>,
}

/// The silence of a node.
#[derive(Debug)]
struct Silence {
    /// When a call first had no answer.
    since: Instant,
    /// Until when calls fail at once; `None`: they do not yet.
    until: Option<Instant>,
}

impl SilentNodes {
    /// Whether some gave no answer. Takes no lock.
    pub(super) fn are_there(&self) -> bool {
        self.are_there.load(Ordering::Relaxed)
    }

    /// Whether a call, which takes `timeout` at most, asks a node. One that does after a pause does so for all of them.
    pub(super) fn may_ask(&self, node: &str, now: Instant, timeout: Duration) -> bool {
        match self.nodes.lock().get_mut(node).and_then(|silence| silence.until.as_mut()) {
            Some(until) if now < *until => false,
            Some(until) => {
                *until = now + timeout;
                true
            }
            None => true,
        }
    }

    /// A call that began at `begun` had no answer.
    pub(super) fn note(&self, node: Arc<str>, begun: Instant, now: Instant) {
        let mut nodes = self.nodes.lock();
        let is_full = nodes.len() >= MAX_NODES;
        match nodes.get_mut(&node) {
            Some(silence) if begun >= silence.since => silence.until = Some(now + PAUSE),
            Some(_) => {}
            None if is_full => {}
            None => drop(nodes.insert(node, Silence { since: now, until: None })),
        }
        self.are_there.store(true, Ordering::Relaxed);
    }

    /// The first of the nodes for which calls do not wait, and for how long it has given no answer. Takes no lock if there is none.
    pub(super) fn first(&self, now: Instant) -> Option<(Arc<str>, Duration)> {
        if !self.are_there() {
            return None;
        }
        let nodes = self.nodes.lock();
        let is_told = |silence: &Silence| silence.until.is_some_and(|until| now < until + TOLD);
        let (node, silence) = nodes.iter().find(|(_, silence)| is_told(silence))?;
        Some((Arc::clone(node), now.saturating_duration_since(silence.since)))
    }

    /// A call was answered.
    pub(super) fn answers(&self, node: &str) {
        let mut nodes = self.nodes.lock();
        nodes.remove(node);
        self.are_there.store(!nodes.is_empty(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use redis::cluster_routing::Slot;

    use super::*;

    #[test]
    fn keys_have_the_slots_of_redis() {
        for key in
            ["", "a", "123456789", "{q.instance.ns;svc=a}.meta", "a{b}c{d}", "a{}b", "a{b", "}{", "x}{y}"]
        {
            assert_eq!(Slot::new(slot_of(key.as_bytes())), Some(Slot::for_key(key)), "{key:?}");
        }
    }

    #[test]
    fn slots_have_nodes() {
        let node = |host: Value, port| Value::Array(vec![host, Value::Int(port), Value::Nil]);
        let range =
            |first, last, node| Value::Array(vec![Value::Int(first), Value::Int(last), node, Value::Nil]);
        let host = || Value::BulkString(b"10.0.0.1".to_vec());
        // 12739 is the slot of 123456789.
        let answer = Value::Array(vec![
            range(12740, 16383, node(host(), 3)),
            Value::Nil,
            range(0, 12738, node(host(), 1)),
            range(12739, 12739, node(Value::Nil, 2)),
            range(-1, 99_999, node(host(), 4)),
        ]);
        let slots = Slots::of(&answer);
        assert_eq!(&*slots.node_of(b"123456789"), ":2");
        assert_eq!(&*slots.node_of(b"{123456789}.meta"), ":2");
        assert_eq!(&*slots.node_of(b""), "10.0.0.1:1");
        assert_eq!(&*Slots::of(&Value::Okay).node_of(b"123456789"), "that of slot 12739");
    }

    #[test]
    fn a_node_is_silent_once_two_calls_in_a_row_had_no_answer() {
        let (nodes, start, timeout) = (SilentNodes::default(), Instant::now(), Duration::from_millis(300));
        let at = |millis| start + Duration::from_millis(millis);
        let may = |millis| nodes.may_ask("a", at(millis), timeout);
        assert!(!nodes.are_there() && may(0));
        // Many at once.
        (0..10).for_each(|_| nodes.note("a".into(), at(0), at(300)));
        assert!(nodes.are_there() && may(300) && may(300));
        nodes.note("a".into(), at(300), at(600));
        assert!(!may(600) && !may(1599) && nodes.may_ask("b", at(600), timeout));
        // One tries it for all.
        assert!(may(1600) && !may(1600) && !may(1899));
        nodes.note("a".into(), at(1600), at(1900));
        assert!(!may(2899) && may(2900));
        assert_eq!(nodes.first(at(2900)), Some(("a".into(), Duration::from_millis(2600))));
        assert_eq!(nodes.first(at(100_000)), None, "nobody has tried since");
        nodes.answers("a");
        assert!(!nodes.are_there() && may(2900) && may(2900) && nodes.first(at(2900)).is_none());
        // An answer in between.
        nodes.note("a".into(), at(2900), at(3200));
        nodes.answers("a");
        nodes.note("a".into(), at(3200), at(3500));
        assert!(may(3500));
    }
}
