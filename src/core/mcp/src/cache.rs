//! The published snapshots, and the watches that wait for the next ones.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use mixer_base::time::Timestamp;

use crate::inbox::{Answer, Inbox};
use crate::ledger::{Ledger, Publication};
use crate::message::SinkNode;
use crate::model::{Collection, Snapshot};

/// The group whose snapshot serves a collection to a sink.
type GroupIndex = Box<dyn Fn(&str, &SinkNode) -> Arc<str> + Send + Sync>;

/// What is known of the watches of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupStatus {
    /// Open watches.
    pub watches: usize,
    /// When the last request came.
    pub last_request: Option<Timestamp>,
    /// By collection and peer: whether the peer asked from the current version, which is to say that it has answered it.
    pub synced: BTreeMap<Arc<str>, BTreeMap<String, bool>>,
}

/// The published snapshots by group, and the watches of streams. Versions are compared as texts, and for equality only.
pub struct Cache {
    index: GroupIndex,
    groups: Mutex<HashMap<Arc<str>, Group>>,
    ledger: Arc<Ledger>,
}

#[derive(Default)]
struct Group {
    snapshot: Option<Arc<Snapshot>>,
    /// By collection, its last version, and the publication that brought it. Kept while there is no snapshot.
    published: HashMap<Arc<str>, (Arc<str>, Publication)>,
    /// By collection and stream.
    watches: HashMap<Arc<str>, HashMap<u64, Watch>>,
    last_request: Option<Timestamp>,
}

struct Watch {
    from: Arc<str>,
    incremental: bool,
    inbox: Arc<Inbox>,
}

/// What a stream watches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WatchRequest<'r> {
    pub(crate) stream: u64,
    pub(crate) inbox: &'r Arc<Inbox>,
    pub(crate) group: &'r Arc<str>,
    pub(crate) collection: &'r Arc<str>,
    /// The version that the sink answered last.
    pub(crate) from: &'r Arc<str>,
    pub(crate) incremental: bool,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("groups", &self.groups()).finish_non_exhaustive()
    }
}

impl Group {
    /// The collection in its current version, and the publication that brought it; `None` without a snapshot. One that the snapshot does not
    /// have is empty, in version "".
    fn current(&self, collection: &Arc<str>) -> Option<(Arc<Collection>, Publication)> {
        let snapshot = self.snapshot.as_ref()?;
        let found = snapshot.get(collection).map(Arc::clone);
        let current = found.unwrap_or_else(|| Collection::new(Arc::clone(collection), "", []));
        Some((current, self.published.get(collection).map(|(_, at)| *at).unwrap_or_default()))
    }

    /// Gives a collection to the watches that have another version.
    fn push(&mut self, collection: &Arc<str>) {
        let Some((current, publication)) = self.current(collection) else { return };
        let Some(watches) = self.watches.get_mut(collection) else { return };
        watches.retain(|_, watch| {
            let is_current = watch.from == *current.version();
            if !is_current {
                let collection = Arc::clone(&current);
                watch.inbox.put(Answer { collection, publication, incremental: watch.incremental });
            }
            is_current
        });
    }

    /// The collections of a snapshot whose version is not the one that was published last, with that version. Those that it does not have
    /// are empty, in version "".
    fn changed(&self, snapshot: &Snapshot) -> Vec<(Arc<str>, Arc<str>)> {
        let pair = |name: &Arc<str>, version: &Arc<str>| (Arc::clone(name), Arc::clone(version));
        let last = |name: &Arc<str>| self.published.get(name).map(|(version, _)| version);
        let there = snapshot.collections().filter(|c| last(c.name()) != Some(c.version()));
        let gone = self
            .published
            .iter()
            .filter(|(name, (version, _))| !version.is_empty() && snapshot.get(name).is_none());
        let gone = gone.map(|(name, _)| pair(name, &"".into()));
        there.map(|collection| pair(collection.name(), collection.version())).chain(gone).collect()
    }

    fn is_forgotten(&self) -> bool {
        self.snapshot.is_none() && self.watches.values().all(HashMap::is_empty)
    }
}

impl Cache {
    /// Without snapshots. `index` is the group of a collection and a sink.
    pub fn new(index: impl Fn(&str, &SinkNode) -> Arc<str> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { index: Box::new(index), groups: Mutex::default(), ledger: Arc::default() })
    }

    /// Publishes a snapshot of a group: watches that wait for another version of a collection get it.
    ///
    /// Never waits for a sink. Cost: a step for each collection, and for each watch of the collections that changed.
    pub fn set_snapshot(&self, group: &str, snapshot: Arc<Snapshot>) -> Publication {
        let (publication, replaced) = {
            let mut groups = self.groups.lock();
            let name: Arc<str> = group.into();
            let group = groups.entry(Arc::clone(&name)).or_default();
            let publication = self.ledger.next_publication();
            let changed = group.changed(&snapshot);
            for (collection, version) in &changed {
                group.published.insert(Arc::clone(collection), (Arc::clone(version), publication));
                self.ledger.published(&name, collection, version, publication);
            }
            let replaced = group.snapshot.replace(snapshot);
            if replaced.is_some() {
                changed.iter().for_each(|(collection, _)| group.push(collection));
            } else {
                // Watches that waited without a snapshot may have any version.
                let watched: Vec<Arc<str>> = group.watches.keys().cloned().collect();
                watched.iter().for_each(|collection| group.push(collection));
            }
            (publication, replaced)
        };
        self.ledger.notify();
        // Without the lock: it may be large.
        drop(replaced);
        publication
    }

    /// Removes the snapshot of a group. Its watches stay, and nothing is sent.
    pub fn clear_snapshot(&self, group: &str) {
        let mut groups = self.groups.lock();
        let removed = groups.get_mut(group).and_then(|group| group.snapshot.take());
        self.forget(&mut groups, group);
        drop(groups);
        drop(removed);
    }

    /// Ends the streams that watch a group, and forgets its status.
    pub fn clear_status(&self, group: &str) {
        let mut groups = self.groups.lock();
        let Some(found) = groups.get_mut(group) else { return };
        found.last_request = None;
        let watches = std::mem::take(&mut found.watches);
        watches.values().flat_map(HashMap::values).for_each(|watch| watch.inbox.cancel());
        self.forget(&mut groups, group);
    }

    /// Forgets a group that has neither a snapshot nor watches: sinks may make up groups.
    fn forget(&self, groups: &mut HashMap<Arc<str>, Group>, group: &str) {
        if groups.get(group).is_some_and(Group::is_forgotten) {
            groups.remove(group);
            self.ledger.forget_group(group);
        }
    }

    /// The snapshot of a group.
    pub fn snapshot(&self, group: &str) -> Option<Arc<Snapshot>> {
        self.groups.lock().get(group)?.snapshot.clone()
    }

    /// The groups that have a snapshot, sorted.
    pub fn groups(&self) -> Vec<Arc<str>> {
        let groups = self.groups.lock();
        let with_snapshot = groups.iter().filter(|(_, group)| group.snapshot.is_some());
        let mut names: Vec<Arc<str>> = with_snapshot.map(|(name, _)| Arc::clone(name)).collect();
        names.sort();
        names
    }

    /// The group whose snapshot serves a collection to a sink.
    pub fn group_of(&self, collection: &str, node: &SinkNode) -> Arc<str> {
        (self.index)(collection, node)
    }

    /// What is known of the watches of a group; `None` if nobody asked for it, or not since its status was cleared.
    pub fn status(&self, group: &str) -> Option<GroupStatus> {
        let (watches, last_request, snapshot) = {
            let groups = self.groups.lock();
            let group = groups.get(group)?;
            let watches = group.watches.values().map(HashMap::len).sum();
            (watches, Some(group.last_request?), group.snapshot.clone())
        };
        let version = |collection: &str| match &snapshot {
            Some(snapshot) => {
                snapshot.get(collection).map_or(Some(""), |collection| Some(&**collection.version()))
            }
            None => None,
        };
        let mut synced: BTreeMap<Arc<str>, BTreeMap<String, bool>> = BTreeMap::new();
        self.ledger.for_each_open(|sink| {
            for (collection, record) in sink.collections.iter().filter(|(_, record)| *record.group == *group)
            {
                let is_synced = version(collection) == Some(&*record.requested);
                synced.entry(Arc::clone(collection)).or_default().insert(sink.peer.clone(), is_synced);
            }
        });
        Some(GroupStatus { watches, last_request, synced })
    }

    /// The version of every collection, by group and name.
    pub(crate) fn current_versions(&self) -> HashMap<(Arc<str>, Arc<str>), Arc<str>> {
        let groups = self.groups.lock();
        let mut versions = HashMap::new();
        for (name, group) in groups.iter() {
            for collection in group.snapshot.iter().flat_map(|snapshot| snapshot.collections()) {
                let key = (Arc::clone(name), Arc::clone(collection.name()));
                versions.insert(key, Arc::clone(collection.version()));
            }
        }
        versions
    }

    /// What every sink was sent, acknowledged and refused.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Answers at once if there is another version, or keeps the watch. The stream has no other watch of the collection.
    pub(crate) fn watch(&self, request: &WatchRequest<'_>) {
        let &WatchRequest { stream, inbox, group, collection, from, incremental } = request;
        let mut groups = self.groups.lock();
        let group = groups.entry(Arc::clone(group)).or_default();
        group.last_request = Some(Timestamp::from_system_time(std::time::SystemTime::now()));
        match group.current(collection) {
            Some((current, publication)) if current.version() != from => {
                inbox.put(Answer { collection: current, publication, incremental });
            }
            _ => {
                let watch = Watch { from: Arc::clone(from), incremental, inbox: Arc::clone(inbox) };
                group.watches.entry(Arc::clone(collection)).or_default().insert(stream, watch);
            }
        }
    }

    /// Removes the watch of a stream, if it is still open.
    pub(crate) fn cancel(&self, group: &str, collection: &str, stream: u64) {
        let mut groups = self.groups.lock();
        let Some(found) = groups.get_mut(group) else { return };
        if let Some(watches) = found.watches.get_mut(collection) {
            watches.remove(&stream);
            if watches.is_empty() {
                found.watches.remove(collection);
            }
        }
        self.forget(&mut groups, group);
    }
}
