//! What controls the replica sets and replication controllers of a cluster: their names lead from a pod to its workload.

use std::sync::Arc;

use arc_swap::ArcSwap;

use mixer_base::shared_map::{Keyed, SharedMap};
use mixer_engine::check_cache::AnswerEpoch;
use mixer_kube::{Object as _, OwnerReference, PartialObject, Store};

use super::budget::{Budget, MAX_REFUSED};
use super::intern::Interner;

/// What the allocator and the reference counts take for an allocation, about.
pub(super) const ALLOCATION: usize = 32;

/// What controls an object.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    /// For example `apps/v1`.
    pub(super) api_version: Arc<str>,
    /// For example `Deployment`.
    pub(super) kind: Arc<str>,
    /// Its name, in the namespace of the object.
    pub(super) name: Arc<str>,
}

impl Owner {
    /// The controller among the owners of an object. compat(1.3): the first one; a reference that does not say so is none, where Istio Mixer
    /// crashes.
    pub(super) fn of(
        references: Option<Vec<OwnerReference>>,
        texts: &mut Interner<str>,
    ) -> Option<(Self, usize)> {
        let controls = |owner: &OwnerReference| owner.controller == Some(true);
        let owner = references.into_iter().flatten().find(controls)?;
        let mut bytes = 0;
        let mut keep = |text: String| {
            let length = text.len();
            let (text, is_new) = texts.keep(text.as_str());
            bytes += if is_new { length + ALLOCATION } else { 0 };
            text
        };
        let owner =
            Self { api_version: keep(owner.api_version), kind: keep(owner.kind), name: keep(owner.name) };
        Some((owner, bytes))
    }
}

/// An object and what controls it.
#[derive(Debug, Clone)]
struct Owned {
    /// `NAMESPACE/NAME`
    key: Arc<str>,
    owner: Arc<Owner>,
}

impl Keyed for Owned {
    type Key = str;

    fn key(&self) -> &str {
        &self.key
    }
}

impl Owned {
    fn size(&self) -> usize {
        size_of::<Self>() + self.key.len() + ALLOCATION
    }
}

/// The controllers of all objects of one kind, for concurrent readers.
#[derive(Debug, Default)]
pub(super) struct Owners(ArcSwap<Table>);

#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// Those without a controller are left out.
    owned: SharedMap<Owned>,
    /// Whether some had no room.
    pub(super) is_incomplete: bool,
}

impl Owners {
    /// The current ones. Takes no lock.
    pub(super) fn table(&self) -> arc_swap::Guard<Arc<Table>> {
        self.0.load()
    }
}

impl Table {
    /// What controls the object with this `NAMESPACE/NAME`.
    pub(super) fn get(&self, key: &str) -> Option<&Arc<Owner>> {
        self.owned.get(key).map(|owned| &owned.owner)
    }

    /// Number of objects.
    pub(super) fn len(&self) -> usize {
        self.owned.len()
    }
}

/// The writer of [`Owners`].
pub(super) struct OwnerStore {
    shared: Arc<Owners>,
    next: Table,
    /// The list that has begun, and the bytes of its objects that are not in `next`.
    listed: Table,
    listed_bytes: usize,
    has_changed: bool,
    texts: Interner<str>,
    owners: Interner<Owner>,
    /// Bytes that objects without room added to both.
    refused_bytes: usize,
    budget: Arc<Budget>,
    answers: Arc<AnswerEpoch>,
}

impl OwnerStore {
    pub(super) fn new(shared: &Arc<Owners>, budget: &Arc<Budget>, answers: &Arc<AnswerEpoch>) -> Self {
        Self {
            shared: Arc::clone(shared),
            next: Table::default(),
            listed: Table::default(),
            listed_bytes: 0,
            has_changed: false,
            texts: Interner::default(),
            owners: Interner::default(),
            refused_bytes: 0,
            budget: Arc::clone(budget),
            answers: Arc::clone(answers),
        }
    }

    /// An object with a controller, and how many bytes more it and others share.
    fn owned(&mut self, object: PartialObject) -> Option<(Owned, usize)> {
        let key = object.key();
        let (owner, texts) = Owner::of(object.metadata.owner_references, &mut self.texts)?;
        let (owner, is_new) = self.owners.keep(owner);
        // What objects share is not refused, because others may need it.
        let shared = texts + if is_new { size_of::<Owner>() + ALLOCATION } else { 0 };
        self.budget.charge(shared);
        Some((Owned { key: key.into(), owner }, shared))
    }

    /// An object had no room, which is dropped: what nobody else shares goes as well, before there is much of it.
    fn refuse(&mut self, owned: Owned, shared: usize) {
        drop(owned);
        self.refused_bytes += shared;
        if self.refused_bytes >= MAX_REFUSED {
            self.refused_bytes = 0;
            let budget = &self.budget;
            self.owners.drop_unused(|_| budget.give(size_of::<Owner>() + ALLOCATION));
            self.texts.drop_unused(|text| budget.give(text.len() + ALLOCATION));
        }
    }

    fn sweep(&mut self) {
        let budget = &self.budget;
        self.owners.sweep(|_| budget.give(size_of::<Owner>() + ALLOCATION));
        self.texts.sweep(|text| budget.give(text.len() + ALLOCATION));
    }
}

impl Store for OwnerStore {
    type Object = PartialObject;

    fn begin(&mut self) {
        self.listed = Table::default();
        self.budget.give(std::mem::take(&mut self.listed_bytes));
    }

    fn list(&mut self, object: PartialObject) {
        let Some((owned, shared)) = self.owned(object) else { return };
        // Those that did not change are those that readers have: a list takes no room for them.
        if let Some(known) = self.next.owned.get(&owned.key).filter(|known| known.owner == owned.owner) {
            let known = known.clone();
            self.listed.owned.put(known);
            return;
        }
        let size = owned.size();
        if !self.budget.take(size) {
            self.listed.is_incomplete = true;
            self.refuse(owned, shared);
            return;
        }
        self.listed_bytes += size;
        self.listed.owned.put(owned);
    }

    fn complete(&mut self) {
        let old = std::mem::replace(&mut self.next, std::mem::take(&mut self.listed));
        self.listed_bytes = 0;
        let is_same = |a: &Owned, b: &Owned| Arc::ptr_eq(&a.key, &b.key);
        let changes = old.owned.changes(&self.next.owned, is_same);
        self.has_changed |= !changes.is_empty() || old.is_incomplete != self.next.is_incomplete;
        let gone = changes.iter().filter_map(|(old, _)| *old);
        self.budget.give(gone.map(Owned::size).sum());
    }

    fn apply(&mut self, object: PartialObject) {
        let key = object.key();
        let Some((owned, shared)) = self.owned(object) else {
            self.remove(&key);
            return;
        };
        if self.next.get(&key) == Some(&owned.owner) {
            return;
        }
        self.has_changed = true;
        let size = owned.size();
        if self.next.owned.contains_key(&key) {
            // Of the same size.
            self.next.owned.put(owned);
        } else if self.budget.take(size) {
            self.next.owned.put(owned);
        } else {
            self.next.is_incomplete = true;
            self.refuse(owned, shared);
        }
    }

    fn delete(&mut self, object: PartialObject) {
        self.remove(&object.key());
    }

    fn publish(&mut self) {
        if std::mem::take(&mut self.has_changed) {
            self.shared.0.store(Arc::new(self.next.clone()));
            self.answers.advance();
            self.sweep();
        }
    }

    fn wants_list(&self) -> bool {
        self.next.is_incomplete && self.budget.has_room()
    }
}

impl OwnerStore {
    fn remove(&mut self, key: &str) {
        if let Some(removed) = self.next.owned.remove(key) {
            self.budget.give(removed.size());
            self.has_changed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_kube::PartialMetadata;

    fn set(name: &str, owner: &str) -> PartialObject {
        let owner = OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            name: owner.to_owned(),
            controller: Some(true),
        };
        let metadata = PartialMetadata {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            owner_references: Some(vec![owner]),
            ..PartialMetadata::default()
        };
        PartialObject { metadata }
    }

    fn list(store: &mut OwnerStore, sets: impl IntoIterator<Item = PartialObject>) {
        store.begin();
        sets.into_iter().for_each(|set| store.list(set));
        store.complete();
        store.publish();
    }

    #[test]
    fn a_list_takes_no_room_for_what_is_known() {
        let owners = Arc::<Owners>::default();
        let budget = Arc::new(Budget::of(12 << 10));
        let mut store = OwnerStore::new(&owners, &budget, &Arc::default());
        let sets = || (0..100).map(|n| set(&format!("cart-{n}"), "cart"));
        list(&mut store, sets());
        let used = budget.used();
        assert!(!owners.table().is_incomplete && used > 6 << 10, "more than half of it: {used}");
        list(&mut store, sets());
        assert!(!owners.table().is_incomplete && owners.table().len() == 100);
        assert_eq!(budget.used(), used);
        // Of those that changed, the old ones are given back.
        list(&mut store, (0..50).map(|n| set(&format!("cart-{n}"), if n < 10 { "other" } else { "cart" })));
        let table = owners.table();
        assert_eq!((table.len(), &*table.get("shop/cart-3").unwrap().name), (50, "other"));
        (0..50).for_each(|n| store.delete(set(&format!("cart-{n}"), "")));
        assert!(budget.used() < 512, "what both owners share: {}", budget.used());
    }

    #[test]
    fn what_objects_without_room_would_share_is_bounded() {
        let owners = Arc::<Owners>::default();
        let budget = Arc::new(Budget::of(1 << 20));
        let mut store = OwnerStore::new(&owners, &budget, &Arc::default());
        for n in 0..200 {
            store.apply(set(&format!("s{n}"), &n.to_string().repeat(50_000)));
            assert!(budget.used() < (1 << 20) + MAX_REFUSED + (400 << 10), "{n}: {}", budget.used());
        }
        store.publish();
        assert!(owners.table().is_incomplete && !store.wants_list());
    }
}
