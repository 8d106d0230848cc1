//! What controls the replica sets and replication controllers of a cluster: their names lead from a pod to its workload.

use std::sync::Arc;

use arc_swap::ArcSwap;

use mixer_base::shared_map::{Keyed, SharedMap};
use mixer_engine::check_cache::AnswerEpoch;
use mixer_kube::{Object as _, OwnerReference, PartialObject, Store};

use super::budget::Budget;
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
    /// The list that has begun, and the bytes it took.
    listed: Table,
    listed_bytes: usize,
    has_changed: bool,
    texts: Interner<str>,
    owners: Interner<Owner>,
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
            budget: Arc::clone(budget),
            answers: Arc::clone(answers),
        }
    }

    fn owned(&mut self, object: PartialObject) -> Option<Owned> {
        let key = object.key();
        let (owner, texts) = Owner::of(object.metadata.owner_references, &mut self.texts)?;
        let (owner, is_new) = self.owners.keep(owner);
        // What objects share is not refused: it is little, and others need it.
        self.budget.charge(texts + if is_new { size_of::<Owner>() + ALLOCATION } else { 0 });
        Some(Owned { key: key.into(), owner })
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
        let Some(owned) = self.owned(object) else { return };
        let size = owned.size();
        if !self.budget.take(size) {
            self.listed.is_incomplete = true;
            return;
        }
        self.listed_bytes += size;
        self.listed.owned.put(owned);
    }

    fn complete(&mut self) {
        let old = std::mem::replace(&mut self.next, std::mem::take(&mut self.listed));
        self.listed_bytes = 0;
        self.budget.give(old.owned.iter().map(Owned::size).sum());
        let same = |a: &Owned, b: &Owned| a.owner == b.owner;
        self.has_changed |= !old.owned.changes(&self.next.owned, same).is_empty()
            || old.is_incomplete != self.next.is_incomplete;
    }

    fn apply(&mut self, object: PartialObject) {
        let key = object.key();
        let Some(owned) = self.owned(object) else {
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
}

impl OwnerStore {
    fn remove(&mut self, key: &str) {
        if let Some(removed) = self.next.owned.remove(key) {
            self.budget.give(removed.size());
            self.has_changed = true;
        }
    }
}
