//! What is distributed: collections and snapshots. All of it is immutable and shared.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;

use mixer_base::metrics::Counter;
use mixer_base::shared_map::SharedMap;

use crate::encode::{Dialect, put_removed};
use crate::resource::Resource;

/// Versions from which differences to the current one are kept. Sinks that acknowledge have one of the last few.
const MAX_DELTAS: usize = 8;
/// A message above this size is more than sinks of Istio take.
const COMPATIBLE_SIZE: usize = 4 << 20;

/// The resources of a collection by name. A clone shares them; changing one resource of a clone copies a small part.
pub type Content = SharedMap<Arc<Resource>>;

/// The content of a collection in one version, as far as it is needed to tell what has changed since.
#[derive(Debug)]
pub(crate) struct State {
    name: Arc<str>,
    version: Arc<str>,
    content: Content,
}

impl State {
    pub(crate) fn version(&self) -> &Arc<str> {
        &self.version
    }
}

/// A collection in one version, with its messages: each is encoded when the first sink needs it, and shared by all that do.
#[derive(Debug)]
pub struct Collection {
    state: Arc<State>,
    full: OnceLock<Bytes>,
    aggregated: OnceLock<Bytes>,
    /// By the version that a sink has.
    deltas: Mutex<VecDeque<Delta>>,
}

/// The version that a sink has, and the message that brings it to the current one.
type Delta = (Arc<State>, Arc<OnceLock<Bytes>>);

impl Collection {
    /// A collection. Of several resources with one name the last one counts.
    pub fn new(
        name: impl Into<Arc<str>>,
        version: impl Into<Arc<str>>,
        resources: impl IntoIterator<Item = Arc<Resource>>,
    ) -> Arc<Self> {
        Self::of(name, version, resources.into_iter().collect())
    }

    /// A collection with this content. Cost: independent of the number of resources; whoever edits a clone of the content of the last
    /// version pays for the edit alone, here and where deltas are computed.
    pub fn of(name: impl Into<Arc<str>>, version: impl Into<Arc<str>>, content: Content) -> Arc<Self> {
        let state = Arc::new(State { name: name.into(), version: version.into(), content });
        Arc::new(Self { state, full: OnceLock::new(), aggregated: OnceLock::new(), deltas: Mutex::default() })
    }

    /// The name under which sinks ask for it.
    pub fn name(&self) -> &Arc<str> {
        &self.state.name
    }

    /// Its version; sinks that have this version are not sent the collection again.
    pub fn version(&self) -> &Arc<str> {
        &self.state.version
    }

    /// Its resources, by name.
    pub fn content(&self) -> &Content {
        &self.state.content
    }

    pub(crate) fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// All resources, encoded. `encodings` counts how often that was done.
    pub(crate) fn full(&self, dialect: Dialect, encodings: &Counter) -> Bytes {
        let cell = match dialect {
            Dialect::Resources => &self.full,
            Dialect::Aggregated => &self.aggregated,
        };
        let bytes = cell.get_or_init(|| {
            encodings.increment();
            let bytes = dialect.resources_of(self.content().iter().map(|resource| &**resource)).freeze();
            if bytes.len() > COMPATIBLE_SIZE {
                let (collection, resources) = (&**self.name(), self.content().len());
                tracing::warn!(
                    collection,
                    resources,
                    bytes = bytes.len(),
                    "the collection is larger than 4 MiB, the most that sinks of Istio take in one message"
                );
            }
            bytes
        });
        bytes.clone()
    }

    /// What is new, different and gone since `before`, encoded. Cost: a step for each part that both versions share, and the changes; once
    /// for all sinks that have that version.
    pub(crate) fn delta(&self, before: &Arc<State>, encodings: &Counter) -> Bytes {
        let cell = {
            let mut deltas = self.deltas.lock();
            match deltas.iter().find(|(from, _)| Arc::ptr_eq(from, before)) {
                Some((_, cell)) => Arc::clone(cell),
                None => {
                    let cell = Arc::<OnceLock<Bytes>>::default();
                    deltas.truncate(MAX_DELTAS - 1);
                    deltas.push_front((Arc::clone(before), Arc::clone(&cell)));
                    cell
                }
            }
        };
        let bytes = cell.get_or_init(|| {
            encodings.increment();
            let changes = before.content.changes(self.content(), |old, new| old.version == new.version);
            let new = changes.iter().filter_map(|(_, new)| new.map(|new| &**new));
            let mut bytes = Dialect::Resources.resources_of(new);
            let gone = changes.iter().filter(|(_, new)| new.is_none()).filter_map(|(old, _)| *old);
            put_removed(&mut bytes, gone.map(|old| &*old.name));
            bytes.freeze()
        });
        bytes.clone()
    }

    /// As [`delta`](Self::delta), since a state of which only names and versions are known: what is new and different. Cost: that of a look
    /// at every resource.
    pub(crate) fn delta_from_versions(
        &self,
        before: &BTreeMap<String, String>,
        encodings: &Counter,
    ) -> Bytes {
        encodings.increment();
        let is_new = |new: &&Resource| before.get(&*new.name).is_none_or(|old| **old != *new.version);
        let resources = self.content().iter().map(|resource| &**resource);
        Dialect::Resources.resources_of(resources.filter(is_new)).freeze()
    }

    /// The names of a state that are gone.
    pub(crate) fn gone<'b>(&self, before: &'b BTreeMap<String, String>) -> Vec<&'b str> {
        before.keys().map(String::as_str).filter(|name| !self.content().contains_key(name)).collect()
    }
}

/// The collections of a group at one time. Collections that did not change are shared with the snapshot before.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    collections: BTreeMap<Arc<str>, Arc<Collection>>,
}

impl Snapshot {
    /// A snapshot of these collections. Of several with one name the last one counts.
    pub fn of(collections: impl IntoIterator<Item = Arc<Collection>>) -> Self {
        let collections =
            collections.into_iter().map(|collection| (Arc::clone(collection.name()), collection));
        Self { collections: collections.collect() }
    }

    /// This snapshot with another version of a collection. Cost: one step a collection.
    #[must_use]
    pub fn with(&self, collection: Arc<Collection>) -> Self {
        let mut collections = self.collections.clone();
        collections.insert(Arc::clone(collection.name()), collection);
        Self { collections }
    }

    /// A collection; `None` if it is not part of the snapshot: sinks see it empty, in version "".
    pub fn get(&self, collection: &str) -> Option<&Arc<Collection>> {
        self.collections.get(collection)
    }

    /// All collections, by name.
    pub fn collections(&self) -> impl Iterator<Item = &Arc<Collection>> {
        self.collections.values()
    }
}
