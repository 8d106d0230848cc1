//! The open connections of a server.
//!
//! A connection is registered after the TLS handshake. Its worker counts requests on a cache line of its own; a request touches
//! nothing else here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use mixer_base::time::Moment;

/// The open connections of a server.
#[derive(Debug, Default)]
pub struct ConnectionRegistry {
    next: AtomicU64,
    connections: Mutex<BTreeMap<u64, Arc<ConnectionInfo>>>,
}

/// An open connection.
#[derive(Debug)]
#[repr(align(128))]
pub struct ConnectionInfo {
    /// Sequence number from 1.
    pub id: u64,
    /// Address of the peer or `unix`, with its principal if it has one.
    pub peer: String,
    /// Index of its worker; `None` for a connection of an endpoint over HTTP, which has a thread of its own.
    pub worker: Option<usize>,
    /// Time of registration.
    pub since: Moment,
    calls: AtomicU64,
}

impl ConnectionInfo {
    /// Counts requests. Called by the worker of the connection only.
    #[inline]
    pub(crate) fn count(&self, calls: u64) {
        self.calls.fetch_add(calls, Ordering::Relaxed);
    }

    /// Requests received so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// An entry of the registry; removed when this is dropped.
#[derive(Debug)]
pub struct Registration {
    registry: Arc<ConnectionRegistry>,
    /// The connection.
    pub(crate) connection: Arc<ConnectionInfo>,
}

impl Registration {
    /// Counts a request.
    pub fn count_request(&self) {
        self.connection.count(1);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.connections.lock().remove(&self.connection.id);
    }
}

impl ConnectionRegistry {
    /// Registers the connection of `peer` on a worker, if it has one.
    pub fn register(self: &Arc<Self>, peer: String, worker: Option<usize>) -> Registration {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let since = Moment::now();
        let connection = Arc::new(ConnectionInfo { id, peer, worker, since, calls: AtomicU64::new(0) });
        self.connections.lock().insert(id, Arc::clone(&connection));
        Registration { registry: Arc::clone(self), connection }
    }

    /// Number of open connections.
    pub fn len(&self) -> usize {
        self.connections.lock().len()
    }

    /// Whether there is no open connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of connections since the start.
    pub fn total(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Open connections, oldest first.
    pub fn list(&self) -> Vec<Arc<ConnectionInfo>> {
        self.connections.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_register_count_and_leave() {
        let registry = Arc::new(ConnectionRegistry::default());
        let register = |peer: &str, worker| registry.register(peer.to_owned(), worker);
        let first = register("10.0.0.1:5", Some(0));
        let second = register("unix", Some(1));
        second.connection.count(3);
        second.connection.count(1);
        drop(first);
        let list = registry.list();
        assert_eq!(
            list.iter().map(|c| (c.id, &*c.peer, c.worker, c.calls())).collect::<Vec<_>>(),
            [(2, "unix", Some(1), 4)]
        );
        drop(second);
        assert!(registry.is_empty());
        assert_eq!(registry.total(), 2);
    }
}
