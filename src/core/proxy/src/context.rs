//! What connections share: of all workers, and of one.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::cluster::Cluster;
use crate::drain::Waiting;
use crate::mixer::Clients;
use crate::upstream::{Pool, Pools};

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clusters: Vec<Arc<Cluster>>,
    /// Whether responses end their connections.
    pub(crate) draining: AtomicBool,
    /// Open connections of all listeners.
    pub(crate) connections: AtomicU64,
}

/// What the connections of a worker share.
#[derive(Debug)]
pub(crate) struct WorkerContext {
    pub(crate) pools: Rc<Pools>,
    pub(crate) shared: Arc<Shared>,
    /// Of the Mixer filters.
    pub(crate) mixer: Clients,
    /// Connections that wait for the end of a drain.
    pub(crate) drains: Rc<Waiting>,
}

impl WorkerContext {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let pools = Rc::new(Pools::new(&shared.clusters));
        Self { mixer: Clients::new(Rc::clone(&pools)), pools, shared, drains: Rc::default() }
    }

    /// A cluster by its index.
    pub(crate) fn pool(&self, cluster: usize) -> Option<&Pool> {
        self.pools.get(cluster)
    }

    /// Whether responses end their connections.
    pub(crate) fn is_draining(&self) -> bool {
        self.shared.draining.load(Ordering::Relaxed)
    }
}
