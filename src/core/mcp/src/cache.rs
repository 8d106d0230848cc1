//! The published snapshots, and the watches that wait for the next ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use mixer_base::time::Timestamp;
use parking_lot::Mutex;

use crate::ledger::{Ledger, Publication};
use crate::message::SinkNode;
use crate::model::Snapshot;

/// The group whose snapshot serves a collection to a sink.
type GroupIndex = Box<dyn Fn(&str, &SinkNode) -> Arc<str> + Send + Sync>;

/// What is known of the watches of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupStatus {
    /// Open watches.
    pub watches: usize,
    /// When the last request came.
    pub last_request: Option<Timestamp>,
    /// By collection and peer: whether the peer asked from the current version, which is to say that it has it.
    pub synced: BTreeMap<Arc<str>, BTreeMap<String, bool>>,
}

/// The published snapshots by group.
pub struct Cache {
    index: GroupIndex,
    snapshots: Mutex<BTreeMap<Arc<str>, Arc<Snapshot>>>,
    ledger: Arc<Ledger>,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

impl Cache {
    /// Without snapshots. `index` is the group of a collection and a sink.
    pub fn new(index: impl Fn(&str, &SinkNode) -> Arc<str> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { index: Box::new(index), snapshots: Mutex::default(), ledger: Arc::default() })
    }

    /// Publishes a snapshot of a group: watches that wait for another version of a collection get it. Never waits for a sink.
    pub fn set_snapshot(&self, group: &str, snapshot: Arc<Snapshot>) -> Publication {
        self.snapshots.lock().insert(group.into(), snapshot);
        Publication::default()
    }

    /// Removes the snapshot of a group. Its watches stay, and nothing is sent.
    pub fn clear_snapshot(&self, group: &str) {
        self.snapshots.lock().remove(group);
    }

    /// Ends the streams that watch a group.
    pub fn clear_status(&self, _group: &str) {}

    /// The snapshot of a group.
    pub fn snapshot(&self, group: &str) -> Option<Arc<Snapshot>> {
        self.snapshots.lock().get(group).cloned()
    }

    /// The groups that have a snapshot, sorted.
    pub fn groups(&self) -> Vec<Arc<str>> {
        self.snapshots.lock().keys().cloned().collect()
    }

    /// The group whose snapshot serves a collection to a sink.
    pub fn group_of(&self, collection: &str, node: &SinkNode) -> Arc<str> {
        (self.index)(collection, node)
    }

    /// What is known of the watches of a group; `None` if nobody ever asked for it, or since its status was cleared.
    pub fn status(&self, _group: &str) -> Option<GroupStatus> {
        None
    }

    /// What every sink was sent, acknowledged and refused.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }
}
