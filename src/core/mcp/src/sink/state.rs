//! What a sink has, and its answers to messages, without input and output.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

use mixer_base::time::Timestamp;

use super::{
    Change, JournalEntry, Refusal, SinkCollection, SinkCollectionStatus, SinkOptions, SinkStatus,
    UNIMPLEMENTED,
};
use crate::message::google::rpc;
use crate::message::{RequestResources, Resources, SinkNode};
use crate::resource::Resource;

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
    received: Option<Instant>,
    status: SinkCollectionStatus,
}

/// What a change brings, for the state.
pub(super) struct Applied {
    collection: Arc<str>,
    version: String,
    incremental: bool,
    /// Names and versions.
    resources: Vec<(String, String)>,
    removed: Vec<String>,
}

impl Applied {
    pub(super) fn of(change: &Change) -> Self {
        let pair = |resource: &Resource| (resource.name.to_string(), resource.version.to_string());
        Self {
            collection: Arc::clone(&change.collection),
            version: change.system_version.clone(),
            incremental: change.incremental,
            resources: change.resources.iter().map(pair).collect(),
            removed: change.removed.clone(),
        }
    }
}

impl Row {
    fn new(options: &SinkCollection) -> Self {
        Self {
            options: options.clone(),
            versions: BTreeMap::new(),
            is_fresh: true,
            received: None,
            status: SinkCollectionStatus::default(),
        }
    }

    fn apply(&mut self, applied: Applied) {
        if !self.options.incremental {
            self.status.resources = applied.resources.len();
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
        let request = |(name, row): (&Arc<str>, &mut Row)| {
            let size: usize = row.versions.iter().map(|(name, version)| name.len() + version.len() + 8).sum();
            let versions = if size <= MAX_VERSIONS { row.versions.clone() } else { BTreeMap::new() };
            row.is_fresh = versions.is_empty();
            RequestResources {
                sink_node: Some(node.clone()),
                collection: name.to_string(),
                initial_resource_versions: versions,
                incremental: row.options.incremental,
                ..RequestResources::default()
            }
        };
        let requests: Vec<RequestResources> = self.rows.iter_mut().map(request).collect();
        requests.iter().for_each(|request| self.record(request, None));
        requests
    }

    /// Whether this version of a collection was the last one that was applied.
    pub(super) fn has_version(&self, collection: &str, version: &str) -> bool {
        self.rows.get(collection).is_some_and(|row| row.status.version.as_deref() == Some(version))
    }

    /// The change that a message brings. Errors: the message is refused.
    pub(super) fn change(&mut self, message: Resources) -> Result<Change, Refusal> {
        let Some((name, row)) = self.rows.get_key_value(&*message.collection) else {
            let message = format!("unsupported collection {}", message.collection);
            return Err(Refusal { code: UNIMPLEMENTED, message });
        };
        let (name, expected) = (Arc::clone(name), row.options.type_url.clone());
        let incremental = message.incremental && !row.is_fresh;
        if let Some(row) = self.rows.get_mut(&*message.collection) {
            row.received = Some(Instant::now());
        }
        let mut resources = Vec::with_capacity(message.resources.len());
        for resource in message.resources {
            let mut resource = Resource::of_message(resource).map_err(Refusal::undecodable)?;
            match &expected {
                Some(expected) if **expected == *resource.type_url => {
                    resource.type_url = Arc::clone(expected)
                }
                Some(expected) => {
                    let (name, found) = (&resource.name, &resource.type_url);
                    return Err(
                        format!("resource `{name}` has type `{found}`; expected is `{expected}`").into()
                    );
                }
                None => {}
            }
            resources.push(resource);
        }
        let removed = if incremental { message.removed_resources } else { Vec::new() };
        Ok(Change {
            collection: name,
            resources,
            removed,
            incremental,
            system_version: message.system_version_info,
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
