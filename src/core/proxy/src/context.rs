//! What connections share: of all workers, and of one.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::bodies::Budget;
use crate::cluster::Cluster;
use crate::copies::Copies;
use crate::drain::Waiting;
use crate::grpc::Channels;
use crate::log_stream::Senders;
use crate::mixer::Clients;
use crate::node::NodeIdentity;
use crate::upstream::{Pool, Pools};

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clusters: Vec<Arc<Cluster>>,
    pub(crate) node: NodeIdentity,
    /// Whether responses end their connections.
    pub(crate) draining: AtomicBool,
    /// Open connections of all listeners.
    pub(crate) connections: AtomicU64,
    /// The memory for bodies that filters wait for.
    pub(crate) bodies: Arc<Budget>,
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
    /// Of the filters that call others.
    pub(crate) channels: Rc<Channels>,
    /// Of access logs that are sent to servers.
    pub(crate) logs: Senders,
    /// Copies of requests.
    pub(crate) copies: Copies,
}

impl WorkerContext {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let pools = Rc::new(Pools::new(&shared.clusters));
        let channels = Rc::new(Channels::new(Rc::clone(&pools)));
        let logs = Senders::new(Rc::clone(&channels));
        Self {
            mixer: Clients::new(Rc::clone(&pools)),
            channels,
            logs,
            pools,
            shared,
            drains: Rc::default(),
            copies: Copies::default(),
        }
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
