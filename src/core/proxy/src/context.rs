//! What connections share: of all workers, and of one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::cluster::Cluster;
use crate::upstream::Pool;

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
    pub(crate) pools: Vec<Pool>,
    pub(crate) shared: Arc<Shared>,
}

impl WorkerContext {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let pools = shared.clusters.iter().map(|cluster| Pool::new(Arc::clone(cluster))).collect();
        Self { pools, shared }
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
