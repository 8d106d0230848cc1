//! The pods of a cluster by name and address, a few fields of each.
//!
//! What pods of one workload have in common (labels, service account, owner, ports) is kept once. Readers hold one version of the index;
//! the next one shares with it what did not change.

mod object;

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use arc_swap::ArcSwap;

use mixer_base::shared_map::{Keyed, SharedMap};
use mixer_engine::check_cache::AnswerEpoch;
use mixer_kube::{Object as _, Store};

pub use object::PodObject;

use super::budget::{Budget, MAX_REFUSED};
use super::intern::Interner;
use super::owners::{ALLOCATION, Owner};
use super::services::Resolved;

/// What is kept of a pod.
#[derive(Debug, PartialEq, Eq)]
pub struct Pod {
    /// `NAMESPACE/NAME`
    key: Box<str>,
    namespace_len: u32,
    /// Seconds since 1970; 0: unknown.
    created: u32,
    /// `UNSPECIFIED`: none, as for the host.
    ip: Ipv6Addr,
    /// Its addresses beside that, as in clusters with two families. Few pods have any.
    other_ips: Option<Box<OtherIps>>,
    host_ip: Ipv6Addr,
    is_running: bool,
    is_on_host_network: bool,
    pub(super) common: Arc<Common>,
}

/// Addresses of a pod, without those that are none, and its first.
#[derive(Debug, PartialEq, Eq)]
struct OtherIps(Box<[Ipv6Addr]>);

/// What the pods of a workload have in common.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Common {
    /// If services are looked for: those of a pod are in its namespace.
    namespace: Option<Arc<str>>,
    /// Its service.
    pub(super) service: Resolved,
    /// In byte order of their keys.
    pub(super) labels: Box<[(Arc<str>, Arc<str>)]>,
    pub(super) service_account: Arc<str>,
    pub(super) owner: Option<Arc<Owner>>,
    /// Of a pod without a controller, if the API server still has it.
    pub(super) self_link: Option<Arc<str>>,
    /// Declared ports and the names of their containers, in order.
    ports: Box<[(u16, Arc<str>)]>,
}

impl Pod {
    /// Its namespace.
    pub fn namespace(&self) -> &str {
        self.key.get(..self.namespace_len as usize).unwrap_or_default()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.key.get(self.namespace_len as usize + 1..).unwrap_or_default()
    }

    /// Its first address.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        shown(self.ip)
    }

    /// All its addresses.
    fn ips(&self) -> impl Iterator<Item = Ipv6Addr> {
        let first = Some(self.ip).filter(|ip| !ip.is_unspecified());
        first.into_iter().chain(self.other_ips.iter().flat_map(|others| others.0.iter().copied()))
    }

    /// The address of its node.
    pub(super) fn host_ip(&self) -> Option<IpAddr> {
        shown(self.host_ip)
    }

    /// The first container that declares a port.
    pub(super) fn container(&self, port: i64) -> Option<&Arc<str>> {
        self.common.ports.iter().find(|(declared, _)| i64::from(*declared) == port).map(|(_, name)| name)
    }

    /// Bytes with its entries in the indexes, without what it shares.
    fn size(&self) -> usize {
        let of_others = |others: &OtherIps| size_of_val(others) + size_of_val(&*others.0) + 2 * ALLOCATION;
        let others = self.other_ips.as_deref().map_or(0, of_others);
        let by_ip = others + self.ips().count() * size_of::<IpKey>();
        size_of::<Self>() + size_of::<Arc<Self>>() + self.key.len() + 2 * ALLOCATION + by_ip
    }
}

fn shown(ip: Ipv6Addr) -> Option<IpAddr> {
    (!ip.is_unspecified()).then(|| ip.to_canonical())
}

/// All addresses have 16 bytes.
pub(super) fn stored(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

impl Keyed for Pod {
    type Key = str;

    fn key(&self) -> &str {
        &self.key
    }
}

/// An address and a pod that has it. The first one of an address is its pod: running before others, in a network of its own before the
/// node's, and the newest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct IpKey {
    ip: Ipv6Addr,
    is_not_running: bool,
    is_on_host_network: bool,
    /// Less for younger ones.
    age: u32,
    /// `None` before all.
    pod: Option<ByName>,
}

/// A pod in the order of its name.
#[derive(Debug, Clone)]
struct ByName(Arc<Pod>);

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for ByName {}

impl PartialOrd for ByName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.key.cmp(&other.0.key)
    }
}

impl Keyed for IpKey {
    type Key = IpKey;

    fn key(&self) -> &IpKey {
        self
    }
}

impl IpKey {
    fn all_of(pod: &Arc<Pod>) -> impl Iterator<Item = Self> {
        pod.ips().map(|ip| Self {
            ip,
            is_not_running: !pod.is_running,
            is_on_host_network: pod.is_on_host_network,
            age: u32::MAX - pod.created,
            pod: Some(ByName(Arc::clone(pod))),
        })
    }
}

/// The pods of a cluster, for concurrent readers.
#[derive(Debug, Default)]
pub struct Pods(ArcSwap<Index>);

/// The pods at one moment.
#[derive(Debug, Clone, Default)]
pub struct Index {
    by_name: SharedMap<Arc<Pod>>,
    by_ip: SharedMap<IpKey>,
    /// Whether some had no room.
    pub(super) is_incomplete: bool,
}

impl Pods {
    /// The current ones. Takes no lock.
    pub fn index(&self) -> arc_swap::Guard<Arc<Index>> {
        self.0.load()
    }
}

impl Index {
    /// The pod with this `NAMESPACE/NAME`.
    pub fn by_name(&self, key: &str) -> Option<&Arc<Pod>> {
        self.by_name.get(key)
    }

    /// The pod with this address.
    pub fn by_ip(&self, ip: IpAddr) -> Option<&Arc<Pod>> {
        let ip = stored(ip);
        let first = IpKey { ip, is_not_running: false, is_on_host_network: false, age: 0, pod: None };
        let found = self.by_ip.neighbours(&first).1.filter(|entry| entry.ip == ip)?;
        found.pod.as_ref().map(|pod| &pod.0)
    }

    /// Number of pods.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    fn put(&mut self, pod: Arc<Pod>) -> Option<Arc<Pod>> {
        let old = self.by_name.put(Arc::clone(&pod));
        for entry in old.iter().flat_map(IpKey::all_of) {
            self.by_ip.remove(&entry);
        }
        for entry in IpKey::all_of(&pod) {
            self.by_ip.put(entry);
        }
        old
    }

    fn remove(&mut self, key: &str) -> Option<Arc<Pod>> {
        let old = self.by_name.remove(key)?;
        for entry in IpKey::all_of(&old) {
            self.by_ip.remove(&entry);
        }
        Some(old)
    }
}

/// The writer of [`Pods`].
pub struct PodStore {
    shared: Arc<Pods>,
    next: Index,
    /// The list that has begun, and the bytes of its pods that are not in `next`.
    listed: Index,
    listed_bytes: usize,
    has_changed: bool,
    texts: Interner<str>,
    owners: Interner<Owner>,
    commons: Interner<Common>,
    /// Bytes that pods without room added to the three.
    refused_bytes: usize,
    /// Whether services of pods are looked for.
    services: bool,
    budget: Arc<Budget>,
    answers: Arc<AnswerEpoch>,
}

impl PodStore {
    pub(super) fn new(shared: &Arc<Pods>, budget: &Arc<Budget>, answers: &Arc<AnswerEpoch>) -> Self {
        Self {
            shared: Arc::clone(shared),
            next: Index::default(),
            listed: Index::default(),
            listed_bytes: 0,
            has_changed: false,
            texts: Interner::default(),
            owners: Interner::default(),
            commons: Interner::default(),
            refused_bytes: 0,
            services: false,
            budget: Arc::clone(budget),
            answers: Arc::clone(answers),
        }
    }

    /// For pods whose services are looked for.
    pub(super) fn with_services(self, services: bool) -> Self {
        Self { services, ..self }
    }

    /// An empty store of at most so many bytes, and its readers' side.
    pub fn of(bytes: usize) -> (Arc<Pods>, Self) {
        let pods = Arc::default();
        let store = Self::new(&pods, &Arc::new(Budget::of(bytes)), &Arc::default());
        (pods, store)
    }

    /// Bytes of everything that is kept, as they are counted.
    pub fn bytes(&self) -> usize {
        self.budget.used()
    }

    /// The pod of an object, and how many bytes more it and others share.
    fn pod(&mut self, object: PodObject) -> (Arc<Pod>, usize) {
        let mut bytes = 0;
        let texts = &mut self.texts;
        let mut keep = |text: &str| {
            let (kept, is_new) = texts.keep(text);
            bytes += if is_new { text.len() + ALLOCATION } else { 0 };
            kept
        };
        let parts = object.parts();
        let namespace = self.services.then(|| keep(object.namespace()));
        let labels = object.metadata.labels.iter().flatten();
        let labels = labels.map(|(key, value)| (keep(key), keep(value))).collect();
        let service_account = keep(&object.spec.service_account_name);
        let ports = object.ports().map(|(port, container)| (port, keep(container))).collect();
        let self_link = keep(&object.metadata.self_link);
        let owner = Owner::of(object.metadata.owner_references, texts).map(|(owner, texts)| {
            let (owner, is_new) = self.owners.keep(owner);
            bytes += texts + if is_new { size_of::<Owner>() + ALLOCATION } else { 0 };
            owner
        });
        let self_link = Some(self_link).filter(|link| owner.is_none() && !link.is_empty());
        let service = Resolved::default();
        let common = Common { namespace, service, labels, service_account, owner, self_link, ports };
        let size = common.size();
        let (common, is_new) = self.commons.keep(common);
        // What pods share is not refused, because others may need it.
        bytes += if is_new { size } else { 0 };
        self.budget.charge(bytes);
        let object::Parts { key, namespace_len, created, host_ip, is_running, is_on_host_network, .. } =
            parts;
        let (ip, other_ips) = (parts.ip, parts.other_ips);
        let other_ips = (!other_ips.is_empty()).then(|| Box::new(OtherIps(other_ips.into())));
        let pod = Pod {
            key,
            namespace_len,
            created,
            ip,
            other_ips,
            host_ip,
            is_running,
            is_on_host_network,
            common,
        };
        (Arc::new(pod), bytes)
    }

    /// A pod had no room, which is dropped: what nobody else shares goes as well, before there is much of it.
    fn refuse(&mut self, pod: Arc<Pod>, shared: usize) {
        drop(pod);
        self.refused_bytes += shared;
        if self.refused_bytes >= MAX_REFUSED {
            self.refused_bytes = 0;
            let budget = &self.budget;
            self.commons.drop_unused(|common| budget.give(common.size()));
            self.owners.drop_unused(|_| budget.give(size_of::<Owner>() + ALLOCATION));
            self.texts.drop_unused(|text| budget.give(text.len() + ALLOCATION));
        }
    }

    fn sweep(&mut self) {
        let budget = &self.budget;
        self.commons.sweep(|common| budget.give(common.size()));
        self.owners.sweep(|_| budget.give(size_of::<Owner>() + ALLOCATION));
        self.texts.sweep(|text| budget.give(text.len() + ALLOCATION));
    }
}

impl Common {
    fn size(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.labels) + size_of_val(&*self.ports) + 3 * ALLOCATION
    }
}

impl Store for PodStore {
    type Object = PodObject;

    fn begin(&mut self) {
        self.listed = Index::default();
        self.budget.give(std::mem::take(&mut self.listed_bytes));
    }

    fn list(&mut self, object: PodObject) {
        let (pod, shared) = self.pod(object);
        // Pods that did not change are those that readers have.
        if let Some(known) = self.next.by_name(&pod.key).filter(|known| **known == pod) {
            let known = Arc::clone(known);
            self.listed.put(known);
            return;
        }
        let size = pod.size();
        if !self.budget.take(size) {
            self.listed.is_incomplete = true;
            self.refuse(pod, shared);
            return;
        }
        self.listed_bytes += size;
        self.listed.put(pod);
    }

    fn complete(&mut self) {
        let old = std::mem::replace(&mut self.next, std::mem::take(&mut self.listed));
        self.listed_bytes = 0;
        let changes = old.by_name.changes(&self.next.by_name, Arc::ptr_eq);
        self.has_changed |= !changes.is_empty() || old.is_incomplete != self.next.is_incomplete;
        let gone = changes.iter().filter_map(|(old, _)| *old);
        self.budget.give(gone.map(|pod| pod.size()).sum());
    }

    fn apply(&mut self, object: PodObject) {
        let (pod, shared) = self.pod(object);
        let size = pod.size();
        let known = self.next.by_name(&pod.key);
        if known.is_some_and(|known| *known == pod) {
            return;
        }
        self.has_changed = true;
        let known = known.map_or(0, |known| known.size());
        if size > known && !self.budget.take(size - known) {
            self.next.is_incomplete = true;
            // Its old state would be wrong.
            if self.next.remove(&pod.key).is_some() {
                self.budget.give(known);
            }
            self.refuse(pod, shared);
            return;
        }
        self.budget.give(known.saturating_sub(size));
        self.next.put(pod);
    }

    fn delete(&mut self, object: PodObject) {
        if let Some(removed) = self.next.remove(&object.key()) {
            self.budget.give(removed.size());
            self.has_changed = true;
        }
    }

    fn publish(&mut self) {
        if std::mem::take(&mut self.has_changed) {
            self.shared.0.store(Arc::new(self.next.clone()));
            // Answers that were made from the pods before.
            self.answers.advance();
            self.sweep();
        }
    }

    fn wants_list(&self) -> bool {
        self.next.is_incomplete && self.budget.has_room()
    }
}

#[cfg(test)]
mod tests;
