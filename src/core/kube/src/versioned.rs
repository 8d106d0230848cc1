//! A store of versions.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use mixer_base::shared_map::{Keyed, SharedMap};

use crate::object::Object;
use crate::reflector::Store;

/// Objects in versions that share what did not change. Readers hold the version that they began with; nothing that they do changes what
/// others see.
#[derive(Debug)]
pub struct Versioned<T> {
    current: ArcSwap<Versions<T>>,
    changed: watch::Sender<u64>,
}

/// All objects at one moment.
#[derive(Debug)]
pub struct Versions<T> {
    /// Grows with every change; 0: nothing was listed yet.
    pub version: u64,
    /// By their [keys](Object::key).
    pub objects: SharedMap<Kept<T>>,
    /// Objects that were left out, because there are more than the store takes.
    pub left_out: usize,
}

/// An object under its key.
#[derive(Debug)]
pub struct Kept<T> {
    key: Arc<str>,
    /// The object.
    pub object: Arc<T>,
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self { key: Arc::clone(&self.key), object: Arc::clone(&self.object) }
    }
}

impl<T> Keyed for Kept<T> {
    type Key = str;

    fn key(&self) -> &str {
        &self.key
    }
}

impl<T> Clone for Versions<T> {
    fn clone(&self) -> Self {
        Self { version: self.version, objects: self.objects.clone(), left_out: self.left_out }
    }
}

impl<T> Default for Versions<T> {
    fn default() -> Self {
        Self { version: 0, objects: SharedMap::default(), left_out: 0 }
    }
}

/// The writer of a [`Versioned`].
#[derive(Debug)]
pub struct VersionedStore<T> {
    shared: Arc<Versioned<T>>,
    next: Versions<T>,
    /// The list that has begun.
    listed: Versions<T>,
    has_changed: bool,
    most: usize,
}

impl<T: Object + Sync> Versioned<T> {
    /// An empty store and its writer, for at most so many objects.
    pub fn new(most: usize) -> (Arc<Self>, VersionedStore<T>) {
        let shared = Arc::new(Self { current: ArcSwap::default(), changed: watch::Sender::new(0) });
        let store = VersionedStore {
            shared: Arc::clone(&shared),
            next: Versions::default(),
            listed: Versions::default(),
            has_changed: false,
            most,
        };
        (shared, store)
    }

    /// The current version. Takes no lock.
    pub fn current(&self) -> Arc<Versions<T>> {
        self.current.load_full()
    }

    /// Waits for a later version than this one. Changes in quick succession are one change. Cancel safe.
    pub async fn after(&self, version: u64) -> Arc<Versions<T>> {
        let mut changes = self.changed.subscribe();
        loop {
            let current = self.current();
            // The sender lives as long as this.
            if current.version > version || changes.changed().await.is_err() {
                return current;
            }
        }
    }
}

impl<T: Object + Sync> VersionedStore<T> {
    fn put(objects: &mut Versions<T>, object: T, most: usize) {
        let key: Arc<str> = object.key().into();
        if objects.objects.len() >= most && !objects.objects.contains_key(&key) {
            objects.left_out += 1;
            return;
        }
        objects.objects.put(Kept { key, object: Arc::new(object) });
    }
}

impl<T: Object + Sync> Store for VersionedStore<T> {
    type Object = T;

    fn begin(&mut self) {
        self.listed = Versions::default();
    }

    fn list(&mut self, object: T) {
        Self::put(&mut self.listed, object, self.most);
    }

    fn complete(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        self.next = Versions { version: self.next.version, ..listed };
        self.has_changed = true;
    }

    fn apply(&mut self, object: T) {
        Self::put(&mut self.next, object, self.most);
        self.has_changed = true;
    }

    fn delete(&mut self, object: T) {
        self.has_changed |= self.next.objects.remove(&object.key()).is_some();
    }

    fn publish(&mut self) {
        if std::mem::take(&mut self.has_changed) {
            self.next.version += 1;
            self.shared.current.store(Arc::new(self.next.clone()));
            self.shared.changed.send_replace(self.next.version);
        }
    }

    fn wants_list(&self) -> bool {
        self.next.left_out > 0 && self.next.objects.len() < self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{PartialMetadata, PartialObject};

    fn object(name: &str, version: &str) -> PartialObject {
        let (namespace, name) = ("shop".to_owned(), name.to_owned());
        let metadata = PartialMetadata {
            namespace,
            name,
            resource_version: version.to_owned(),
            ..PartialMetadata::default()
        };
        PartialObject { metadata }
    }

    fn shown(versions: &Versions<PartialObject>) -> (u64, Vec<String>) {
        let of =
            |kept: &Kept<PartialObject>| format!("{}@{}", kept.key(), kept.object.metadata.resource_version);
        (versions.version, versions.objects.iter().map(of).collect())
    }

    #[tokio::test]
    async fn readers_keep_their_version_and_wait_for_the_next() {
        let (shared, mut store) = Versioned::new(2);
        store.begin();
        store.list(object("a", "1"));
        assert_eq!(shown(&shared.current()), (0, vec![]), "the list is not complete");
        store.begin();
        store.list(object("b", "2"));
        store.complete();
        assert_eq!(shown(&shared.current()), (0, vec![]), "it is not published");
        store.publish();
        let first = shared.after(0).await;
        assert_eq!(shown(&first), (1, vec!["shop/b@2".to_owned()]));
        store.apply(object("b", "3"));
        store.apply(object("c", "4"));
        store.apply(object("d", "5"));
        store.publish();
        let second = shared.after(first.version).await;
        assert_eq!(shown(&second), (2, vec!["shop/b@3".to_owned(), "shop/c@4".to_owned()]));
        assert_eq!((second.left_out, shown(&first).0), (1, 1));
        assert!(!store.wants_list(), "there is no room");
        store.delete(object("x", "6"));
        store.publish();
        assert_eq!(shared.current().version, 2, "nothing changed");
        store.delete(object("b", "7"));
        store.publish();
        assert_eq!(shown(&shared.current()), (3, vec!["shop/c@4".to_owned()]));
        assert!(store.wants_list(), "one was left out");
    }
}
