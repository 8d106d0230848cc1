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
    /// The name of its origin.
    origin: Arc<str>,
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
        let origin = feed.origin(&collection, None);
        Self { feed, kind, collection, origin, is_of_namespace, statuses, listed, changes, version }
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
            statuses.seen(&self.origin, &origin, object.status());
        }
        let read = object.read(self.kind, &origin);
        (name, read)
    }
}

impl Store for KindStore {
    type Object = ConfigObject;

    fn begin(&mut self) {
        self.listed.clear();
        if let Some(statuses) = &self.statuses {
            statuses.begin(&self.origin);
        }
    }

    fn list(&mut self, object: ConfigObject) {
        let (name, read) = self.read(object);
        self.listed.insert(name, read);
    }

    fn complete(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        if let Some(statuses) = &self.statuses {
            statuses.retain(&self.origin, |name| listed.contains_key(name));
        }
        self.changes = vec![Change::All(listed)];
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

    fn failed(&mut self, why: &str) {
        // At once: a change of another kind that arrives next may open what only this kind closes.
        self.feed.change(|draft| draft.unfollowed(&self.collection, Some(why)));
    }

    fn wants_list(&self) -> bool {
        self.feed.has_left_out(&self.collection)
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
                        all.into_iter().for_each(|(name, read)| _ = draft.put(collection, &name, read));
                    }
                    Change::Put(name, read) => _ = draft.put(collection, &name, read),
                    Change::Remove(name) => draft.remove(collection, &name),
                }
            }
            draft.received(collection, version);
        });
    }
}
