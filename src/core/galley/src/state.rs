//! What operators see of a running pipeline.

use std::collections::VecDeque;

use tokio::time::Instant;

use mixer_base::time::Moment;
use mixer_config::Diagnostic;

use crate::event::Entry;

/// Everything at one time.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// In the order of precedence.
    pub sources: Vec<SourceState>,
    /// Those that are published.
    pub groups: Vec<GroupState>,
    /// Those that are served.
    pub collections: Vec<CollectionState>,
}

/// A source.
#[derive(Debug, Clone)]
pub struct SourceState {
    /// For example `files config/`.
    pub name: String,
    /// How often it was started.
    pub generation: u64,
    /// Whether it reaches what it reads.
    pub is_connected: bool,
    /// The collections of which not everything was delivered since its last start.
    pub missing: Vec<&'static str>,
    /// What went wrong last, and when.
    pub last_error: Option<(String, Moment)>,
    /// Why something that was read is not published.
    pub held: Option<String>,
    /// Whether it is published by itself after some time.
    pub is_delayed: bool,
    /// Changes that it has read and not delivered; one at least, if something is [held](Self::held).
    pub pending: usize,
    /// Resources that could not be decoded.
    pub skipped: usize,
    /// What is wrong with its resources: the first ones.
    pub problems: Vec<Diagnostic>,
    /// How often it lost what it reads, since the process started.
    pub outages: u64,
}

impl SourceState {
    /// Whether everything was delivered since its last start.
    pub fn is_synced(&self) -> bool {
        self.generation > 0 && self.missing.is_empty()
    }

    /// What it has that is not published yet, if anything.
    pub fn waiting(&self) -> Option<Waiting> {
        let (changes, why) = match &self.held {
            Some(why) => (Some(self.pending), why.clone()),
            None if !self.is_synced() => (None, self.why_not_synced()),
            None if self.pending > 0 => (Some(self.pending), "it is being read".to_owned()),
            None => return None,
        };
        Some(Waiting { source: self.name.clone(), changes, why })
    }

    fn why_not_synced(&self) -> String {
        match &self.last_error {
            Some((why, _)) if !self.is_connected => format!("not everything was read yet: {why}"),
            _ => "not everything was read yet".to_owned(),
        }
    }
}

/// A group of collections.
#[derive(Debug, Clone)]
pub struct GroupState {
    /// Its name.
    pub name: &'static str,
    /// Whether it was published once.
    pub is_published: bool,
    /// When it was published last.
    pub published_at: Option<Instant>,
    /// Changes that are not published yet; at least so many, if [`waiting`](Self::waiting) has one without a number.
    pub pending_events: u64,
    /// How often it was published.
    pub publications: u64,
    /// The inputs for which the first publication waits.
    pub waits_for: Vec<&'static str>,
    /// What sources have that is not published yet, and why.
    pub waiting: Vec<Waiting>,
}

/// What a source has that is not published yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The name of the source.
    pub source: String,
    /// The number of changes; `None`: it is not known before they are read.
    pub changes: Option<usize>,
    /// What they wait for.
    pub why: String,
}

/// A collection that sinks see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionState {
    /// Its name.
    pub name: &'static str,
    /// The group with which it is published.
    pub group: &'static str,
    /// The published version.
    pub version: Box<str>,
    /// The number of resources of that version.
    pub published: usize,
    /// The number of resources by now.
    pub resources: usize,
}

/// What happened to a resource, as seen over all sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It is new.
    Added,
    /// It is another one.
    Updated,
    /// It is gone.
    Deleted,
    /// A source delivered all of a collection.
    FullSync,
    /// A source was started, or started again.
    Started,
}

/// An event that was processed.
#[derive(Debug, Clone)]
pub struct EventRecord {
    /// When.
    pub at: Moment,
    /// The index of the source.
    pub source: usize,
    /// What happened.
    pub kind: EventKind,
    /// The collection; empty for all of them.
    pub collection: &'static str,
    /// The full name; empty for none.
    pub name: Box<str>,
    /// The version of the resource.
    pub version: Box<str>,
}

impl EventRecord {
    pub(crate) fn new(source: usize, kind: EventKind, collection: &'static str, name: &str) -> Self {
        let at = Moment::now();
        Self { at, source, kind, collection, name: name.into(), version: Box::default() }
    }

    pub(crate) fn of(
        source: usize,
        collection: &'static str,
        old: Option<&Entry>,
        new: Option<&Entry>,
    ) -> Self {
        let kind = match (old, new) {
            (None, _) => EventKind::Added,
            (Some(_), Some(_)) => EventKind::Updated,
            (Some(_), None) => EventKind::Deleted,
        };
        let resource = new.or(old).map(|entry| &entry.resource);
        let record = Self::new(source, kind, collection, resource.map_or("", |resource| &*resource.name));
        Self { version: resource.map(|resource| resource.version.clone()).unwrap_or_default(), ..record }
    }
}

/// The last events, oldest first.
#[derive(Debug, Default)]
pub struct EventLog(VecDeque<EventRecord>);

impl EventLog {
    /// Events that are kept.
    pub const LENGTH: usize = 256;

    /// Adds one; the oldest gives way.
    pub fn push(&mut self, record: EventRecord) {
        if self.0.len() >= Self::LENGTH {
            self.0.pop_front();
        }
        self.0.push_back(record);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &EventRecord> {
        self.0.iter()
    }
}
