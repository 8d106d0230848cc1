//! One kind of objects: what a reflector finds, as events that wait to be delivered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use mixer_config::{Diagnostic, Severity};
use mixer_kube::{Object, Store};
use mixer_schema::Kind;

use super::document::Document;
use crate::convert::{Converter, decides};
use crate::event::{Batch, Change, Entry, Event};
use crate::options::collection;
use crate::source::Emitter;

/// An object that is created so soon after one was deleted may be what becomes of it: `kubectl replace --force` deletes and creates, and a
/// rename creates another one. An error in it is known before the deletion counts.
const REPLACED_WITHIN: Duration = Duration::from_secs(2);

/// Events of a kind that wait to be delivered. Of several about one object the last counts, so that there are never more than objects.
#[derive(Debug)]
pub(super) struct Outbox {
    kind: &'static Kind,
    /// What holds up deletions, if any can.
    hold: Option<Arc<Hold>>,
    waiting: Mutex<Waiting>,
    /// Where it is told how many changes wait.
    pending: Arc<Pending>,
    pub(super) arrived: Notify,
}

/// The changes of all kinds that wait, or are on their way to the pipeline.
#[derive(Debug)]
pub(super) struct Pending {
    by_collection: Mutex<BTreeMap<&'static str, usize>>,
    out: Emitter,
}

impl Pending {
    /// None yet.
    pub(super) fn new(out: &Emitter) -> Arc<Self> {
        out.health().pending(0);
        Arc::new(Self { by_collection: Mutex::default(), out: out.clone() })
    }

    fn set(&self, collection: &'static str, changes: usize) {
        let mut all = self.by_collection.lock();
        all.insert(collection, changes);
        if !self.out.is_stopped() {
            self.out.health().pending(all.values().sum());
        }
    }
}

#[derive(Debug, Default)]
struct Waiting {
    changes: BTreeMap<Box<str>, Change>,
    /// When objects were deleted of which the deletion waits.
    deleted: BTreeMap<Box<str>, Instant>,
    is_synced: bool,
    /// The names of what was delivered, or waits.
    delivered: BTreeSet<Box<str>>,
    /// What is wrong with objects, by full name.
    problems: BTreeMap<Box<str>, Vec<Diagnostic>>,
}

impl Outbox {
    /// Of a kind; `hold` is what the kinds have in common that decide about requests.
    pub(super) fn new(kind: &'static Kind, hold: Option<Arc<Hold>>, pending: Arc<Pending>) -> Self {
        Self { kind, hold, waiting: Mutex::default(), pending, arrived: Notify::new() }
    }

    /// What was taken has arrived: what waits by now is all that is pending.
    pub(super) fn delivered(&self) {
        let waiting = self.waiting.lock();
        self.pending.set(self.kind.collection, waiting.changes.len());
    }

    /// What waits and may go. A sync is the last event.
    pub(super) fn take(&self) -> Batch {
        let collection = self.kind.collection;
        let mut waiting = self.waiting.lock();
        let now = Instant::now();
        let is_held = self.hold.as_ref().is_some_and(|hold| hold.is_held());
        let Waiting { changes, deleted, .. } = &mut *waiting;
        let stays = |name: &str, change: &Change| {
            let is_deletion = matches!(change, Change::Delete(_));
            self.hold.is_some()
                && is_deletion
                && (is_held || deleted.get(name).is_some_and(|since| *since + REPLACED_WITHIN > now))
        };
        let (stay, go): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(changes).into_iter().partition(|(name, change)| stays(name, change));
        *changes = stay;
        deleted.retain(|name, _| changes.contains_key(name));
        let is_synced = !is_held && std::mem::take(&mut waiting.is_synced);
        let is_synced = is_synced.then(|| Event::full_sync(collection));
        go.into_values().map(|change| Event { collection, change }).chain(is_synced).collect()
    }

    /// When a deletion that waits may go, unless something else holds it up.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.hold.as_ref().is_some_and(|hold| hold.is_held()) {
            return None;
        }
        self.waiting.lock().deleted.values().min().map(|since| *since + REPLACED_WITHIN)
    }

    /// The deletion of everything that was delivered.
    pub(super) fn forget(&self) -> Batch {
        let collection = self.kind.collection;
        let mut waiting = self.waiting.lock();
        let changes = std::mem::take(&mut waiting.changes);
        waiting.deleted.clear();
        self.pending.set(collection, 0);
        // Of those whose deletion waits, it is not known here any more that they were delivered.
        let is_deletion = |change: &Change| matches!(change, Change::Delete(_));
        let deleted = changes.into_iter().filter(|(_, change)| is_deletion(change)).map(|(name, _)| name);
        let mut names = std::mem::take(&mut waiting.delivered);
        names.extend(deleted);
        names.into_iter().map(|name| Event::delete(collection, name)).collect()
    }

    /// The number of objects that cannot be decoded.
    pub(super) fn skipped(&self) -> usize {
        let waiting = self.waiting.lock();
        let is_skipped =
            |problems: &&Vec<Diagnostic>| problems.iter().any(|problem| problem.severity == Severity::Error);
        waiting.problems.values().filter(is_skipped).count()
    }

    /// What is wrong with objects.
    pub(super) fn problems(&self) -> Vec<Diagnostic> {
        self.waiting.lock().problems.values().flatten().cloned().collect()
    }
}

/// What the kinds have in common that decide about requests, with [`Options::keeps_last`](crate::Options::keeps_last): the objects with an
/// error. Until there is none, nothing of these kinds is deleted, because the object may be what becomes of one that was deleted, and none of
/// them counts as complete, because a start does not know what the object was before.
#[derive(Debug)]
pub(super) struct Hold {
    /// The errors, by collection and full name.
    broken: watch::Sender<BTreeMap<(&'static str, Box<str>), String>>,
}

impl Hold {
    /// No object has an error.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { broken: watch::Sender::new(BTreeMap::new()) })
    }

    fn is_held(&self) -> bool {
        !self.broken.borrow().is_empty()
    }

    /// Why nothing is deleted, if so.
    pub(super) fn why(&self) -> Option<String> {
        self.broken.borrow().values().next().cloned()
    }

    /// Says when that changes.
    pub(super) fn subscribe(&self) -> watch::Receiver<BTreeMap<(&'static str, Box<str>), String>> {
        self.broken.subscribe()
    }

    fn set(&self, collection: &'static str, name: &str, error: Option<String>) {
        let key = (collection, Box::from(name));
        self.broken.send_if_modified(|broken| match error {
            Some(error) => broken.insert(key, error.clone()).is_none_or(|before| before != error),
            None => broken.remove(&key).is_some(),
        });
    }
}

/// The store of a reflector: converts objects as they arrive.
pub(super) struct Objects {
    kind: &'static Kind,
    converter: Converter,
    outbox: Arc<Outbox>,
    /// What was delivered, or waits.
    known: FxHashMap<Box<str>, Entry>,
    /// The names of the list that goes on.
    listed: FxHashSet<Box<str>>,
    /// Changes that readers do not see yet.
    changes: Vec<(Box<str>, Change)>,
    problems: Vec<(Box<str>, Vec<Diagnostic>)>,
    is_synced: bool,
}

/// Converts where that stops nothing else: the policy engine may take long to judge a document. A loop of one thread has no other place.
fn off_the_loop<T>(convert: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(convert),
        _ => convert(),
    }
}

impl Objects {
    pub(super) fn new(kind: &'static Kind, converter: Converter, outbox: Arc<Outbox>) -> Self {
        Self {
            kind,
            converter,
            outbox,
            known: FxHashMap::default(),
            listed: FxHashSet::default(),
            changes: Vec::new(),
            problems: Vec::new(),
            is_synced: false,
        }
    }

    fn put(&mut self, document: &Document) -> Box<str> {
        let version = document.resource_version();
        let key: Box<str> = document.key().into();
        if self
            .known
            .get(&key)
            .is_some_and(|known| !version.is_empty() && *known.resource.version == *version)
        {
            return key;
        }
        let convert = || self.converter.convert(self.kind, &document.root, version);
        let converted = match self.converter.keeps_last() && decides(self.kind) {
            true => off_the_loop(convert),
            false => convert(),
        };
        let named = |problems: Vec<Diagnostic>| {
            let (kind, namespace, name) = (self.kind.kind, document.namespace(), document.name());
            let named = |problem: Diagnostic| {
                let file = Some(format!("{kind} {key}").into());
                Diagnostic { file, ..problem }.with_resource(format!("{name}.{kind}.{namespace}"))
            };
            problems.into_iter().map(named).collect()
        };
        match converted {
            Ok(converted) => {
                self.problems.push((key.clone(), named(converted.warnings)));
                // Leaders are elected by updates of endpoints that change nothing else.
                let known = self.known.get(&key).and_then(|known| known.object.as_ref());
                let is_same = self.kind.collection == collection::ENDPOINTS
                    && known.is_some_and(|known| converted.entry.object.as_ref() == Some(known));
                if !is_same {
                    self.known.insert(key.clone(), converted.entry.clone());
                    self.changes.push((key.clone(), Change::Put(converted.entry)));
                }
            }
            Err(problems) => {
                self.problems.push((key.clone(), named(problems)));
                if !self.converter.keeps_last() {
                    self.remove(&key);
                }
            }
        }
        key
    }

    fn remove(&mut self, key: &str) {
        if self.known.remove(key).is_some() {
            self.changes.push((key.into(), Change::Delete(key.into())));
        }
    }
}

impl Store for Objects {
    type Object = Document;

    fn begin(&mut self) {
        self.listed.clear();
    }

    fn list(&mut self, object: Document) {
        let key = self.put(&object);
        self.listed.insert(key);
    }

    fn complete(&mut self) {
        let gone: Vec<Box<str>> =
            self.known.keys().filter(|key| !self.listed.contains(*key)).cloned().collect();
        for key in gone {
            self.problems.push((key.clone(), Vec::new()));
            self.remove(&key);
        }
        // One with an error may never have been delivered.
        let faulty: Vec<Box<str>> = self.outbox.waiting.lock().problems.keys().cloned().collect();
        let gone = faulty.into_iter().filter(|key| !self.listed.contains(key));
        self.problems.extend(gone.map(|key| (key, Vec::new())));
        self.listed = FxHashSet::default();
        self.is_synced = true;
    }

    fn apply(&mut self, object: Document) {
        self.put(&object);
    }

    fn delete(&mut self, object: Document) {
        let key = object.key();
        self.problems.push((key.as_str().into(), Vec::new()));
        self.remove(&key);
    }

    fn publish(&mut self) {
        let outbox = Arc::clone(&self.outbox);
        let mut waiting = outbox.waiting.lock();
        for (key, change) in self.changes.drain(..) {
            match change {
                Change::Delete(_) => {
                    waiting.delivered.remove(&key);
                    waiting.deleted.insert(key.clone(), Instant::now());
                }
                _ => {
                    waiting.delivered.insert(key.clone());
                    waiting.deleted.remove(&key);
                }
            }
            waiting.changes.insert(key, change);
        }
        for (key, problems) in self.problems.drain(..) {
            if let Some(hold) = &self.outbox.hold {
                let error = problems.iter().find(|problem| problem.severity == Severity::Error);
                hold.set(self.kind.collection, &key, error.map(Diagnostic::brief));
            }
            match problems.is_empty() {
                true => drop(waiting.problems.remove(&key)),
                false => drop(waiting.problems.insert(key, problems)),
            }
        }
        self.outbox.pending.set(self.kind.collection, waiting.changes.len());
        // Each sync that the pipeline does not wait for is ignored there.
        waiting.is_synced |= std::mem::take(&mut self.is_synced);
        drop(waiting);
        self.outbox.arrived.notify_one();
    }
}
