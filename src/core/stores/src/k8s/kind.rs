//! The objects of one kind, from a reflector into the feed.

use std::collections::BTreeMap;
use std::sync::Arc;

use mixer_config::store::{Feed, ReadObject};
use mixer_kube::{Object as _, Store};

use super::object::ConfigObject;
use super::status::Statuses;

/// Writes the objects of a kind, in all namespaces or in one.
pub(super) struct KindStore {
    feed: Feed,
    kind: &'static str,
    /// `PLURAL.GROUP`, with the namespace if it is of one.
    collection: Arc<str>,
    is_of_namespace: bool,
    /// What is told of the status of objects, if it is written.
    statuses: Option<Arc<Statuses>>,
    listed: BTreeMap<String, ReadObject>,
    changes: Vec<Change>,
    /// The version of the last change.
    version: String,
}

enum Change {
    /// These are all.
    All(BTreeMap<String, ReadObject>),
    Put(String, ReadObject),
    Remove(String),
}

impl KindStore {
    pub(super) fn new(
        feed: Feed,
        kind: &'static str,
        collection: Arc<str>,
        is_of_namespace: bool,
        statuses: Option<Arc<Statuses>>,
    ) -> Self {
        let (listed, changes, version) = (BTreeMap::new(), Vec::new(), String::new());
        Self { feed, kind, collection, is_of_namespace, statuses, listed, changes, version }
    }

    /// The name within the collection.
    fn name(&self, object: &ConfigObject) -> String {
        if self.is_of_namespace { object.name().to_owned() } else { object.key() }
    }

    fn read(&mut self, object: ConfigObject) -> (String, ReadObject) {
        object.resource_version().clone_into(&mut self.version);
        let name = self.name(&object);
        let origin = self.feed.origin(&self.collection, Some(&name));
        if let Some(statuses) = &self.statuses {
            statuses.seen(&origin, object.status());
        }
        let read = object.read(self.kind, &origin);
        (name, read)
    }
}

impl Store for KindStore {
    type Object = ConfigObject;

    fn begin(&mut self) {
        self.listed.clear();
    }

    fn list(&mut self, object: ConfigObject) {
        let (name, read) = self.read(object);
        self.listed.insert(name, read);
    }

    fn complete(&mut self) {
        self.changes = vec![Change::All(std::mem::take(&mut self.listed))];
    }

    fn apply(&mut self, object: ConfigObject) {
        let (name, read) = self.read(object);
        self.changes.push(Change::Put(name, read));
    }

    fn delete(&mut self, object: ConfigObject) {
        object.resource_version().clone_into(&mut self.version);
        let name = self.name(&object);
        if let Some(statuses) = &self.statuses {
            statuses.gone(&self.feed.origin(&self.collection, Some(&name)));
        }
        self.changes.push(Change::Remove(name));
    }

    fn publish(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return;
        }
        let (collection, version) = (&*self.collection, &*self.version);
        self.feed.change(|draft| {
            for change in changes {
                match change {
                    Change::All(all) => {
                        draft.retain(collection, |name| all.contains_key(name));
                        all.into_iter().for_each(|(name, read)| draft.put(collection, &name, read));
                    }
                    Change::Put(name, read) => draft.put(collection, &name, read),
                    Change::Remove(name) => draft.remove(collection, &name),
                }
            }
            draft.received(collection, version);
        });
    }
}
