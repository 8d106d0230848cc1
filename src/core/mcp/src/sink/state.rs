//! What a sink has, and its answers to messages, without input and output.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

use mixer_base::time::Timestamp;

use super::arrived::Arrived;
use super::{
    Change, JournalEntry, Refusal, SinkCollection, SinkCollectionStatus, SinkOptions, SinkStatus,
    UNIMPLEMENTED,
};
use crate::message::google::rpc;
use crate::message::{RequestResources, SinkNode};

/// Requests that the journal keeps.
const JOURNAL: usize = 32;
/// Most bytes of names and versions in a first request: sources take requests of 1 MiB. Beyond it the sink asks for everything.
const MAX_VERSIONS: usize = 768 << 10;

#[derive(Debug)]
pub(super) struct State {
    pub(super) source: Option<String>,
    pub(super) error: Option<String>,
    rows: BTreeMap<Arc<str>, Row>,
    journal: VecDeque<JournalEntry>,
}

#[derive(Debug)]
struct Row {
    options: SinkCollection,
    /// By name; of incremental collections only.
    versions: BTreeMap<String, String>,
    /// Whether the next message has everything, because the source was not told what the sink has.
    is_fresh: bool,
    /// Whether the stream was asked for it.
    is_asked_for: bool,
    received: Option<Instant>,
    status: SinkCollectionStatus,
}

/// What a change brings, for the state.
pub(super) struct Applied {
    collection: Arc<str>,
    version: String,
    incremental: bool,
    /// Number of resources.
    count: usize,
    /// Their names and versions; of incremental collections only.
    resources: Vec<(String, String)>,
    removed: Vec<String>,
}

/// How a message of a collection is to be understood.
pub(super) struct Understanding {
    collection: Arc<str>,
    type_url: Option<Arc<str>>,
    /// Whether the versions are kept.
    keeps_versions: bool,
    /// Whether a difference is one to what the sink has.
    takes_differences: bool,
}

impl Understanding {
    /// The change that a message brings. Errors: the message is refused.
    pub(super) fn change(self, message: &Arrived) -> Result<(Change, Applied), Refusal> {
        let incremental = message.head.incremental && self.takes_differences;
        if incremental && !self.keeps_versions {
            return Err(Refusal::from("differences were not asked for".to_owned()));
        }
        let removed = if incremental { message.removed()? } else { Vec::new() };
        let gone: HashSet<&str> = removed.iter().map(String::as_str).collect();
        let (mut versions, mut both) = (Vec::new(), None);
        let resources = message.resources(self.type_url, |name, version| {
            if gone.contains(name.as_str()) {
                both.get_or_insert_with(|| name.clone());
            }
            if self.keeps_versions {
                versions.push((name, version));
            }
        })?;
        if let Some(name) = both {
            return Err(format!("{name} is there and removed").into());
        }
        let version = message.head.system_version_info.clone();
        let applied = Applied {
            collection: Arc::clone(&self.collection),
            version: version.clone(),
            incremental,
            count: resources.len(),
            resources: versions,
            removed: removed.clone(),
        };
        let change =
            Change { collection: self.collection, resources, removed, incremental, system_version: version };
        Ok((change, applied))
    }
}

impl Row {
    fn new(options: &SinkCollection) -> Self {
        Self {
            options: options.clone(),
            versions: BTreeMap::new(),
            is_fresh: true,
            is_asked_for: false,
            received: None,
            status: SinkCollectionStatus::default(),
        }
    }

    fn apply(&mut self, applied: Applied) {
        if !self.options.incremental {
            self.status.resources = applied.count;
        } else {
            if !applied.incremental {
                self.versions.clear();
            }
            for name in &applied.removed {
                self.versions.remove(name);
            }
            self.versions.extend(applied.resources);
            self.status.resources = self.versions.len();
        }
        self.status.version = Some(applied.version);
        self.status.changes.0 += 1;
        self.status.refusal = None;
    }
}

impl State {
    pub(super) fn new(options: &SinkOptions) -> Self {
        let row = |collection: &SinkCollection| (Arc::clone(&collection.name), Row::new(collection));
        Self {
            source: None,
            error: None,
            rows: options.collections.iter().map(row).collect(),
            journal: VecDeque::new(),
        }
    }

    pub(super) fn status(&self) -> SinkStatus {
        let collection = |(name, row): (&Arc<str>, &Row)| {
            let age = row.received.map(|at| at.elapsed());
            (Arc::clone(name), SinkCollectionStatus { age, ..row.status.clone() })
        };
        SinkStatus {
            source: self.source.clone(),
            error: self.error.clone(),
            collections: self.rows.iter().map(collection).collect(),
        }
    }

    pub(super) fn journal(&self) -> Vec<JournalEntry> {
        self.journal.iter().cloned().collect()
    }

    /// The requests with which a stream begins.
    pub(super) fn initial_requests(&mut self, node: &SinkNode) -> Vec<RequestResources> {
        self.rows.values_mut().for_each(|row| row.is_asked_for = false);
        self.later_requests(node)
    }

    /// Requests for the collections that the stream was not asked for yet.
    pub(super) fn later_requests(&mut self, node: &SinkNode) -> Vec<RequestResources> {
        let request = |(name, row): (&Arc<str>, &mut Row)| {
            let size: usize = row.versions.iter().map(|(name, version)| name.len() + version.len() + 8).sum();
            let versions = if size <= MAX_VERSIONS { row.versions.clone() } else { BTreeMap::new() };
            (row.is_fresh, row.is_asked_for) = (versions.is_empty(), true);
            RequestResources {
                sink_node: Some(node.clone()),
                collection: name.to_string(),
                initial_resource_versions: versions,
                incremental: row.options.incremental,
                ..RequestResources::default()
            }
        };
        let missing = self.rows.iter_mut().filter(|(_, row)| !row.is_asked_for);
        let requests: Vec<RequestResources> = missing.map(request).collect();
        requests.iter().for_each(|request| self.record(request, None));
        requests
    }

    /// Whether this version of a collection was the last one that was applied.
    pub(super) fn has_version(&self, collection: &str, version: &str) -> bool {
        self.rows.get(collection).is_some_and(|row| row.status.version.as_deref() == Some(version))
    }

    /// Adds a collection, unless it is there.
    pub(super) fn add(&mut self, collection: &SinkCollection) {
        if !self.rows.contains_key(&collection.name) {
            self.rows.insert(Arc::clone(&collection.name), Row::new(collection));
        }
    }

    /// How a message is to be understood, which has arrived now. Errors: nobody asked for its collection.
    pub(super) fn understand(&mut self, message: &Arrived) -> Result<Understanding, Refusal> {
        let Some(row) = self.rows.get_mut(&*message.head.collection) else {
            let message = format!("unsupported collection {}", message.head.collection);
            return Err(Refusal { code: UNIMPLEMENTED, message });
        };
        row.received = Some(Instant::now());
        Ok(Understanding {
            collection: Arc::clone(&row.options.name),
            type_url: row.options.type_url.clone(),
            keeps_versions: row.options.incremental,
            takes_differences: !row.is_fresh,
        })
    }

    /// The answer to a message, after it was applied or refused.
    pub(super) fn answer(
        &mut self,
        node: &SinkNode,
        collection: String,
        nonce: String,
        applied: Result<Applied, Refusal>,
    ) -> RequestResources {
        let row = self.rows.get_mut(&*collection);
        let mut request = RequestResources {
            sink_node: Some(node.clone()),
            collection,
            response_nonce: nonce,
            ..RequestResources::default()
        };
        let refusal = match (row, applied) {
            (Some(row), Ok(applied)) => {
                debug_assert_eq!(row.options.name, applied.collection);
                request.incremental = row.options.incremental;
                row.is_fresh = false;
                row.apply(applied);
                None
            }
            (row, Err(refusal)) => {
                if let Some(row) = row {
                    row.status.changes.1 += 1;
                    row.status.refusal = Some(refusal.clone());
                }
                request.error_detail = Some(rpc::Status {
                    code: refusal.code,
                    message: refusal.message.clone(),
                    details: Vec::new(),
                });
                Some(refusal)
            }
            (None, Ok(_)) => None,
        };
        self.record(&request, refusal);
        request
    }

    fn record(&mut self, request: &RequestResources, refusal: Option<Refusal>) {
        if self.journal.len() >= JOURNAL {
            self.journal.pop_front();
        }
        self.journal.push_back(JournalEntry {
            time: Timestamp::from_system_time(std::time::SystemTime::now()),
            collection: request.collection.as_str().into(),
            nonce: request.response_nonce.clone(),
            refusal,
            incremental: request.incremental,
        });
    }
}
