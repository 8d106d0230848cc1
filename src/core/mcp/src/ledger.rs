//! What every sink was sent, acknowledged and refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use mixer_base::time::Timestamp;

/// The number of a publication: of a call of [`Cache::set_snapshot`](crate::Cache::set_snapshot), from 1. A later one is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Publication(pub u64);

/// A version of a collection that was sent or acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The version.
    pub version: Arc<str>,
    /// The publication that brought it.
    pub publication: Publication,
    /// When.
    pub at: Timestamp,
}

/// A version of a collection that a sink refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What was refused, and when.
    pub delivered: Delivered,
    /// The code of the NACK.
    pub code: i32,
    /// The text of the NACK.
    pub message: String,
}

/// What is known of a collection of a sink.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SinkCollectionRecord {
    /// The group whose snapshot it is served from.
    pub group: Arc<str>,
    /// The version of the last request that opened a watch.
    pub requested: Arc<str>,
    /// The last message.
    pub sent: Option<Delivered>,
    /// The last message that the sink acknowledged.
    pub acknowledged: Option<Delivered>,
    /// The last message that the sink refused, until it acknowledges a later one.
    pub refused: Option<Refused>,
}

/// What is known of a sink: of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkRecord {
    /// The number of the stream, from 1.
    pub id: u64,
    /// The address of the peer.
    pub peer: String,
    /// The node id of its last request.
    pub node: String,
    /// When the stream began.
    pub since: Timestamp,
    /// When the stream ended, and why; `None` while it is open.
    pub ended: Option<(Timestamp, String)>,
    /// By collection.
    pub collections: BTreeMap<Arc<str>, SinkCollectionRecord>,
}

/// What can be waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Everything that had been published then.
    Publication(Publication),
    /// A version of a collection, or a later one.
    Version {
        /// The collection.
        collection: Arc<str>,
        /// Its version.
        version: Arc<str>,
    },
}

/// A sink, as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkName {
    /// The number of the stream.
    pub id: u64,
    /// The address of the peer.
    pub peer: String,
    /// The node id.
    pub node: String,
}

/// How far a target is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// Sinks that acknowledged all of it.
    pub acknowledged: Vec<SinkName>,
    /// Sinks that refused a part of it and acknowledged nothing later: the collection, and the last refusal.
    pub refused: Vec<(SinkName, Arc<str>, Refused)>,
    /// Sinks that have not answered, with a collection of which the answer is missing.
    pub outstanding: Vec<(SinkName, Arc<str>)>,
}

impl Progress {
    /// Whether at least `sinks` sinks acknowledged it, and no other one is there.
    pub fn is_complete(&self, sinks: usize) -> bool {
        self.acknowledged.len() >= sinks && self.refused.is_empty() && self.outstanding.is_empty()
    }
}

/// What every sink was sent, acknowledged and refused.
#[derive(Debug, Default)]
pub struct Ledger {}

impl Ledger {
    /// The open streams, and the last ones that ended, by number.
    pub fn sinks(&self) -> Vec<SinkRecord> {
        Vec::new()
    }

    /// How far a target is; `None` if it was never published, or so long ago that it is forgotten.
    pub fn progress(&self, _target: &Target) -> Option<Progress> {
        None
    }

    /// Waits until `is_enough` of the progress of a target; see [`progress`](Self::progress). The caller limits the time.
    pub async fn wait(&self, target: &Target, is_enough: impl Fn(&Progress) -> bool) -> Progress {
        loop {
            match self.progress(target) {
                Some(progress) if is_enough(&progress) => return progress,
                _ => std::future::pending().await,
            }
        }
    }
}
