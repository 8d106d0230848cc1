//! The services of a cluster by namespace and cluster address, a few fields of each.
//!
//! A pod belongs to the services of its namespace whose selector is a part of its labels. Which one that is, is looked for once after a
//! change of the services of the namespace, for all pods that have everything in common ([`Resolved`]).

mod object;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

use arc_swap::ArcSwap;

use mixer_base::shared_map::{Keyed, SharedMap};
use mixer_engine::check_cache::AnswerEpoch;
use mixer_kube::{Object as _, Store};

pub(super) use object::ServiceObject;

use super::budget::Budget;
use super::owners::ALLOCATION;
use super::pods::{Pod, stored};

/// What is kept of a service.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Service {
    /// `NAMESPACE/NAME`
    key: Box<str>,
    namespace_len: u32,
    /// Seconds since 1970; unknown: the greatest, as of the youngest.
    created: u32,
    /// In byte order of the keys. Without any, no pod belongs to it.
    selector: Box<[(Box<str>, Box<str>)]>,
    /// Its addresses in the cluster.
    ips: Box<[Ipv6Addr]>,
}

impl Service {
    /// Its namespace.
    pub(super) fn namespace(&self) -> &str {
        self.key.get(..self.namespace_len as usize).unwrap_or_default()
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        self.key.get(self.namespace_len as usize + 1..).unwrap_or_default()
    }

    /// Bytes with its entries in the indexes, as if it were alone in its namespace.
    fn size(&self) -> usize {
        let selector = self.selector.iter();
        let selector: usize = selector
            .map(|(key, value)| size_of::<(Box<str>, Box<str>)>() + key.len() + value.len() + 2 * ALLOCATION)
            .sum();
        let of_namespace = size_of::<Namespace>() + self.namespace_len as usize + 3 * ALLOCATION;
        let of_ips = self.ips.len() * (size_of::<Ipv6Addr>() + size_of::<IpKey>());
        // A vector that grows has room for twice as many.
        let entries = 3 * size_of::<Arc<Self>>();
        size_of::<Self>() + self.key.len() + selector + of_ips + entries + of_namespace + 4 * ALLOCATION
    }

    /// Whether a pod with these labels belongs to it. Both are in byte order of their keys.
    fn selects(&self, labels: &[(Arc<str>, Arc<str>)]) -> bool {
        let mut labels = labels.iter();
        !self.selector.is_empty()
            && self.selector.iter().all(|(key, value)| {
                let label = labels.find(|(label, _)| **label >= **key);
                label.is_some_and(|(label, is)| **label == **key && **is == **value)
            })
    }

    /// The oldest first, and then in byte order of their names.
    fn order(&self, other: &Self) -> Ordering {
        self.created.cmp(&other.created).then_with(|| self.key.cmp(&other.key))
    }
}

impl Keyed for Service {
    type Key = str;

    fn key(&self) -> &str {
        &self.key
    }
}

/// The services of a namespace that have a selector.
#[derive(Debug, Clone)]
struct Namespace {
    name: Box<str>,
    /// Another one after every change.
    generation: u64,
    /// In their order.
    services: Vec<Arc<Service>>,
}

impl Keyed for Namespace {
    type Key = str;

    fn key(&self) -> &str {
        &self.name
    }
}

impl Namespace {
    /// Where a service is, or would be.
    fn place(&self, service: &Service) -> Result<usize, usize> {
        self.services.binary_search_by(|known| known.order(service))
    }
}

/// The service of pods that have everything in common: where it is in its namespace, and as of which change of that. It takes no part in
/// comparisons.
#[derive(Debug, Default)]
pub(super) struct Resolved(AtomicU64);

/// Bits of a place in a namespace. The others are those of the change.
const PLACE_BITS: u32 = 24;
/// The place of no service.
const NOWHERE: u64 = (1 << PLACE_BITS) - 1;

impl Resolved {
    /// The place that was found after this change, or else the one that is looked for.
    fn of(&self, generation: u64, look: impl FnOnce() -> Option<usize>) -> Option<usize> {
        // INVARIANT: readers hold the namespace of the generation that they ask for, so that nothing else has to be seen with it.
        let known = self.0.load(atomic::Ordering::Relaxed);
        if known >> PLACE_BITS == generation {
            return (known & NOWHERE != NOWHERE).then_some((known & NOWHERE) as usize);
        }
        let found = look();
        let place = found.map_or(NOWHERE, |place| place as u64);
        // Services beyond those that can be noted are looked for each time.
        if found.is_none() || place < NOWHERE {
            self.0.store(generation << PLACE_BITS | place, atomic::Ordering::Relaxed);
        }
        found
    }
}

impl PartialEq for Resolved {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Resolved {}

impl Hash for Resolved {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// An address and a service that has it. The first one of an address is its service.
#[derive(Debug, Clone)]
struct IpKey {
    ip: Ipv6Addr,
    /// `None` before all.
    service: Option<Arc<Service>>,
}

impl PartialEq for IpKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for IpKey {}

impl PartialOrd for IpKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for IpKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ip.cmp(&other.ip).then_with(|| match (&self.service, &other.service) {
            (Some(a), Some(b)) => a.order(b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        })
    }
}

impl Keyed for IpKey {
    type Key = IpKey;

    fn key(&self) -> &IpKey {
        self
    }
}

impl IpKey {
    fn all_of(service: &Arc<Service>) -> impl Iterator<Item = Self> {
        service.ips.iter().map(|ip| Self { ip: *ip, service: Some(Arc::clone(service)) })
    }
}

/// The services of a cluster, for concurrent readers.
#[derive(Debug, Default)]
pub(super) struct Services(ArcSwap<Table>);

/// The services at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    by_name: SharedMap<Arc<Service>>,
    by_ip: SharedMap<IpKey>,
    /// Those with services that have selectors.
    namespaces: SharedMap<Arc<Namespace>>,
    /// Whether some had no room.
    pub(super) is_incomplete: bool,
}

impl Services {
    /// The current ones. Takes no lock.
    pub(super) fn table(&self) -> arc_swap::Guard<Arc<Table>> {
        self.0.load()
    }
}

impl Table {
    /// The service to which a pod belongs.
    pub(super) fn of_pod(&self, pod: &Pod) -> Option<&Arc<Service>> {
        let namespace = self.namespaces.get(pod.namespace())?;
        let look = || namespace.services.iter().position(|service| service.selects(&pod.common.labels));
        namespace.services.get(pod.common.service.of(namespace.generation, look)?)
    }

    /// The service with this address in the cluster.
    pub(super) fn by_ip(&self, ip: IpAddr) -> Option<&Arc<Service>> {
        let ip = stored(ip);
        let found = self.by_ip.neighbours(&IpKey { ip, service: None }).1.filter(|entry| entry.ip == ip)?;
        found.service.as_ref()
    }

    /// Number of services.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// In place of the service with its key. `generation`: another one than ever before.
    fn put(&mut self, service: Arc<Service>, generation: u64) {
        if let Some(old) = self.by_name.put(Arc::clone(&service)) {
            self.unindex(&old, generation);
        }
        for entry in IpKey::all_of(&service) {
            self.by_ip.put(entry);
        }
        if !service.selector.is_empty() {
            let name = service.namespace();
            let empty = || Arc::new(Namespace { name: name.into(), generation, services: Vec::new() });
            let mut namespace = self.namespaces.remove(name).unwrap_or_else(empty);
            let changed = Arc::make_mut(&mut namespace);
            changed.generation = generation;
            if let Err(place) = changed.place(&service) {
                changed.services.insert(place, service);
            }
            self.namespaces.put(namespace);
        }
    }

    fn remove(&mut self, key: &str, generation: u64) -> Option<Arc<Service>> {
        let old = self.by_name.remove(key)?;
        self.unindex(&old, generation);
        Some(old)
    }

    fn unindex(&mut self, old: &Arc<Service>, generation: u64) {
        for entry in IpKey::all_of(old) {
            self.by_ip.remove(&entry);
        }
        if old.selector.is_empty() {
            return;
        }
        let Some(mut namespace) = self.namespaces.remove(old.namespace()) else { return };
        let changed = Arc::make_mut(&mut namespace);
        changed.generation = generation;
        if let Ok(place) = changed.place(old) {
            changed.services.remove(place);
        }
        if !changed.services.is_empty() {
            self.namespaces.put(namespace);
        }
    }
}

/// The writer of [`Services`].
pub(super) struct ServiceStore {
    shared: Arc<Services>,
    next: Table,
    /// The list that has begun, and the bytes of its services that are not in `next`.
    listed: SharedMap<Arc<Service>>,
    listed_bytes: usize,
    is_list_incomplete: bool,
    has_changed: bool,
    /// Changes of namespaces.
    generation: u64,
    budget: Arc<Budget>,
    answers: Arc<AnswerEpoch>,
}

impl ServiceStore {
    pub(super) fn new(shared: &Arc<Services>, budget: &Arc<Budget>, answers: &Arc<AnswerEpoch>) -> Self {
        Self {
            shared: Arc::clone(shared),
            next: Table::default(),
            listed: SharedMap::default(),
            listed_bytes: 0,
            is_list_incomplete: false,
            has_changed: false,
            generation: 0,
            budget: Arc::clone(budget),
            answers: Arc::clone(answers),
        }
    }

    fn generation(&mut self) -> u64 {
        self.generation += 1;
        self.generation
    }

    fn remove(&mut self, key: &str) {
        let generation = self.generation();
        if let Some(removed) = self.next.remove(key, generation) {
            self.budget.give(removed.size());
            self.has_changed = true;
        }
    }
}

impl Store for ServiceStore {
    type Object = ServiceObject;

    fn begin(&mut self) {
        self.listed = SharedMap::default();
        self.is_list_incomplete = false;
        self.budget.give(std::mem::take(&mut self.listed_bytes));
    }

    fn list(&mut self, object: ServiceObject) {
        let service = object.service().filter(|service| !self.listed.contains_key(&service.key));
        let Some(service) = service else { return };
        // Those that did not change are those that readers have.
        if let Some(known) = self.next.by_name.get(&service.key).filter(|known| ***known == service) {
            self.listed.put(Arc::clone(known));
            return;
        }
        let size = service.size();
        if !self.budget.take(size) {
            self.is_list_incomplete = true;
            return;
        }
        self.listed_bytes += size;
        self.listed.put(Arc::new(service));
    }

    fn complete(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        let is_incomplete = std::mem::take(&mut self.is_list_incomplete);
        self.listed_bytes = 0;
        let changes = self.next.by_name.changes(&listed, Arc::ptr_eq);
        self.has_changed |= !changes.is_empty() || self.next.is_incomplete != is_incomplete;
        self.budget.give(changes.iter().filter_map(|(old, _)| *old).map(|service| service.size()).sum());
        let mut by_ip = self.next.by_ip.clone();
        for entry in changes.iter().filter_map(|(old, _)| *old).flat_map(IpKey::all_of) {
            by_ip.remove(&entry);
        }
        for entry in changes.iter().filter_map(|(_, new)| *new).flat_map(IpKey::all_of) {
            by_ip.put(entry);
        }
        let both = changes.iter().flat_map(|(old, new)| [*old, *new]).flatten();
        let changed: BTreeSet<&str> = both.map(|service| service.namespace()).collect();
        self.generation += 1;
        let namespaces = namespaces(&listed, &changed, &self.next.namespaces, self.generation);
        self.next = Table { by_name: listed, by_ip, namespaces, is_incomplete };
    }

    fn apply(&mut self, object: ServiceObject) {
        let Some(service) = object.service() else {
            self.remove(&object.key());
            return;
        };
        let known = self.next.by_name.get(&service.key);
        if known.is_some_and(|known| **known == service) {
            return;
        }
        let (size, known) = (service.size(), known.map_or(0, |known| known.size()));
        if size > known && !self.budget.take(size - known) {
            // Its old state would be wrong.
            self.remove(&service.key);
            self.next.is_incomplete = true;
            self.has_changed = true;
            return;
        }
        self.budget.give(known.saturating_sub(size));
        self.has_changed = true;
        let generation = self.generation();
        self.next.put(Arc::new(service), generation);
    }

    fn delete(&mut self, object: ServiceObject) {
        self.remove(&object.key());
    }

    fn publish(&mut self) {
        if std::mem::take(&mut self.has_changed) {
            self.shared.0.store(Arc::new(self.next.clone()));
            // Answers that were made from the services before.
            self.answers.advance();
        }
    }

    fn wants_list(&self) -> bool {
        self.next.is_incomplete && self.budget.has_room()
    }
}

/// The namespaces of all services: those that did not change are those that there were.
fn namespaces(
    services: &SharedMap<Arc<Service>>,
    changed: &BTreeSet<&str>,
    known: &SharedMap<Arc<Namespace>>,
    generation: u64,
) -> SharedMap<Arc<Namespace>> {
    let mut next = known.clone();
    for name in changed {
        next.remove(name);
    }
    let all = services.iter().filter(|service| !service.selector.is_empty());
    let all: Vec<&Arc<Service>> = all.filter(|service| changed.contains(service.namespace())).collect();
    // Those of a namespace follow each other, because they begin alike.
    for of_one in all.chunk_by(|a, b| a.namespace() == b.namespace()) {
        let Some(first) = of_one.first() else { continue };
        let mut services: Vec<Arc<Service>> = of_one.iter().copied().cloned().collect();
        services.sort_by(|a, b| a.order(b));
        next.put(Arc::new(Namespace { name: first.namespace().into(), generation, services }));
    }
    next
}

#[cfg(test)]
mod tests;
