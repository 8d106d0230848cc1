//! Who is connected to the API now.
//!
//! A connection is entered when it is known who calls and leaves when it ends; what it carries is counted by the worker that owns it, on a
//! cache line of its own. Nothing here is touched for a single call but that count.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;

/// All connections of a server.
#[derive(Debug, Default)]
pub struct Callers {
    next: AtomicU64,
    connections: Mutex<BTreeMap<u64, Arc<Connection>>>,
}

/// A connection.
#[derive(Debug)]
#[repr(align(128))]
pub struct Connection {
    /// Counts up from 1.
    pub id: u64,
    /// Address of the caller, or `unix`; with its identity where it has one.
    pub peer: String,
    /// Number of the worker that serves it.
    pub worker: usize,
    /// When it was taken.
    pub since: SystemTime,
    calls: AtomicU64,
}

impl Connection {
    /// Counts calls that arrived. Only the worker of the connection does so.
    #[inline]
    pub fn count(&self, calls: u64) {
        self.calls.fetch_add(calls, Ordering::Relaxed);
    }

    /// Calls that arrived so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// A connection that is entered; it leaves when this is dropped.
#[derive(Debug)]
pub struct Entered {
    callers: Arc<Callers>,
    /// The connection.
    pub connection: Arc<Connection>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.callers.connections.lock().remove(&self.connection.id);
    }
}

/// A place to enter one connection at, once it is known who calls.
#[derive(Debug)]
pub struct Entry {
    /// Where it is entered.
    pub callers: Arc<Callers>,
    /// Number of the worker that serves it.
    pub worker: usize,
}

impl Entry {
    /// Enters the connection of `peer`.
    pub fn enter(self, peer: impl Into<String>) -> Entered {
        let Self { callers, worker } = self;
        let id = callers.next.fetch_add(1, Ordering::Relaxed) + 1;
        let since = SystemTime::now();
        let connection =
            Arc::new(Connection { id, peer: peer.into(), worker, since, calls: AtomicU64::new(0) });
        callers.connections.lock().insert(id, Arc::clone(&connection));
        Entered { callers, connection }
    }
}

impl Callers {
    /// Connections now.
    pub fn len(&self) -> usize {
        self.connections.lock().len()
    }

    /// Whether nobody is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Connections since the start.
    pub fn total(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// All connections, oldest first.
    pub fn list(&self) -> Vec<Arc<Connection>> {
        self.connections.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_come_count_and_go() {
        let callers = Arc::new(Callers::default());
        let enter = |peer: &str, worker| Entry { callers: Arc::clone(&callers), worker }.enter(peer);
        let first = enter("10.0.0.1:5", 0);
        let second = enter("unix", 1);
        second.connection.count(3);
        second.connection.count(1);
        drop(first);
        let list = callers.list();
        assert_eq!(
            list.iter().map(|c| (c.id, &*c.peer, c.worker, c.calls())).collect::<Vec<_>>(),
            [(2, "unix", 1, 4)]
        );
        drop(second);
        assert!(callers.is_empty());
        assert_eq!(callers.total(), 2);
    }
}
