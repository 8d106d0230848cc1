//! A sink: asks a source for collections, passes changes to an [`Updater`], and answers each with an ACK or a NACK.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use mixer_base::metrics::Metrics;
use mixer_base::time::Timestamp;

use crate::client::ClientOptions;
use crate::message::SinkNode;
use crate::model::Resource;

/// Code of a NACK for a collection that the sink did not ask for.
pub const UNIMPLEMENTED: i32 = 12;
/// Code of a NACK for a body that cannot be decoded.
pub const UNKNOWN: i32 = 2;
/// Code of a NACK for content that the application refuses.
pub const INVALID_ARGUMENT: i32 = 3;

/// A change of one collection, as it came from the source.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The collection.
    pub collection: Arc<str>,
    /// All resources of the collection; or, if `incremental`, those that are new or different. In the order of the message.
    pub resources: Vec<Resource>,
    /// Names of the resources that are gone; only if `incremental`.
    pub removed: Vec<String>,
    /// Whether it is a difference to the last change that was applied; otherwise it replaces everything.
    pub incremental: bool,
    /// The version of the collection.
    pub system_version: String,
}

/// Why a change is refused: code and text of the NACK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A code of gRPC.
    pub code: i32,
    /// For the operators of the source.
    pub message: String,
}

impl Refusal {
    /// A body that cannot be decoded.
    pub fn undecodable(message: impl Into<String>) -> Self {
        Self { code: UNKNOWN, message: message.into() }
    }
}

/// Refused by the application.
impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self { code: INVALID_ARGUMENT, message }
    }
}

/// Takes the changes of a sink.
pub trait Updater: Send + 'static {
    /// Takes a change as a whole, or refuses it as a whole, after which the content is as before. Called on the task of the sink, one change
    /// at a time; the answer is sent when it returns, so that it must not block.
    ///
    /// Errors: what the source is told in the NACK.
    fn apply(&mut self, change: Change) -> Result<(), Refusal>;
}

/// A collection that a sink asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkCollection {
    /// Its name.
    pub name: Arc<str>,
    /// The type URL of its resources; a message with others is refused. `None`: any.
    pub type_url: Option<Arc<str>>,
    /// Whether the sink takes differences; the source decides whether it sends some.
    pub incremental: bool,
}

/// Settings of a sink.
#[derive(Debug, Clone)]
pub struct SinkOptions {
    /// Who asks.
    pub node: SinkNode,
    /// What it asks for.
    pub collections: Vec<SinkCollection>,
    /// Most bytes of a message.
    pub max_message: usize,
    /// The pauses before a stream is opened again: the first one, and the longest. They double, with jitter, and start over with the first
    /// message of a stream.
    pub pauses: (Duration, Duration),
    /// The label `component` of the metrics.
    pub component: &'static str,
}

impl SinkOptions {
    /// The defaults for these collections: node `default`, messages of 64 MiB, pauses of 1 s to 30 s.
    pub fn new(component: &'static str, collections: Vec<SinkCollection>) -> Self {
        Self {
            node: SinkNode { id: "default".to_owned(), annotations: BTreeMap::new() },
            collections,
            max_message: 64 << 20,
            pauses: (Duration::from_secs(1), Duration::from_secs(30)),
            component,
        }
    }
}

/// What a sink knows of one collection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SinkCollectionStatus {
    /// The version of the last change that was applied; `None` before the first.
    pub version: Option<String>,
    /// Resources in it.
    pub resources: usize,
    /// Time since the last message; `None` before the first.
    pub age: Option<Duration>,
    /// Changes that were applied, and refused.
    pub changes: (u64, u64),
    /// The last refusal, until a change is applied.
    pub refusal: Option<Refusal>,
}

/// What a sink shows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SinkStatus {
    /// The address of the source that it is connected to.
    pub source: Option<String>,
    /// Why the last stream ended or could not be opened, unless one is open.
    pub error: Option<String>,
    /// By name.
    pub collections: BTreeMap<Arc<str>, SinkCollectionStatus>,
}

/// A request that a sink sent.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEntry {
    /// When.
    pub time: Timestamp,
    /// The collection.
    pub collection: Arc<str>,
    /// The nonce that it answers; empty for a first request.
    pub nonce: String,
    /// The refusal, if it is a NACK.
    pub refusal: Option<Refusal>,
    /// Whether the sink asked for differences.
    pub incremental: bool,
}

/// A sink. One value is used for all streams, one after the other: what it has is kept while there is none.
#[derive(Debug)]
pub struct Sink {
    options: SinkOptions,
}

impl Sink {
    /// A sink without a stream.
    pub fn new(options: SinkOptions, _metrics: &Metrics) -> Arc<Self> {
        Arc::new(Self { options })
    }

    /// Follows a source until `stop`: opens a stream, and another one when it ends. A task of its own, supervised by the caller.
    pub async fn follow(&self, _source: &ClientOptions, _updater: &mut dyn Updater, stop: CancellationToken) {
        stop.cancelled().await;
    }

    /// Its settings.
    pub fn options(&self) -> &SinkOptions {
        &self.options
    }

    /// What it has, and where from.
    pub fn status(&self) -> SinkStatus {
        SinkStatus::default()
    }

    /// The last 32 requests, oldest first.
    pub fn journal(&self) -> Vec<JournalEntry> {
        Vec::new()
    }
}
