//! One kind of objects: what a reflector finds, as events that wait to be delivered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use mixer_config::store::refill::{Cause, QUIET, Refill};
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
pub(super) const REPLACED_WITHIN: Duration = Duration::from_secs(2);

/// What follows from an object with an error.
const WITHHELD: &str = "the object stays as it was, and deletions are not published";

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
    /// Whether a list had none of the objects that there were, or they come back.
    refill: Refill,
    /// What is wrong with objects, by full name.
    problems: BTreeMap<Box<str>, Vec<Diagnostic>>,
    /// The number of those that cannot be decoded.
    skipped: usize,
}

impl Waiting {
    fn known(&self) -> Known {
        Known { present: self.delivered.len(), lacks_any: !self.deleted.is_empty() }
    }

    /// What is wrong with an object by now.
    fn set_problems(&mut self, key: Box<str>, problems: Vec<Diagnostic>) {
        let is_skipped =
            |problems: &[Diagnostic]| problems.iter().any(|problem| problem.severity == Severity::Error);
        self.skipped += usize::from(is_skipped(&problems));
        let before = match problems.is_empty() {
            true => self.problems.remove(&key),
            false => self.problems.insert(key, problems),
        };
        self.skipped -= usize::from(before.is_some_and(|before| is_skipped(&before)));
    }
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
        waiting.refill.complete(now);
        let is_held =
            waiting.refill.expected().is_some() || self.hold.as_ref().is_some_and(|hold| hold.is_held(now));
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
        if let Some(hold) = &self.hold {
            hold.known(collection, waiting.known());
        }
        let is_synced = !is_held && std::mem::take(&mut waiting.is_synced);
        let is_synced = is_synced.then(|| Event::full_sync(collection));
        go.into_values().map(|change| Event { collection, change }).chain(is_synced).collect()
    }

    /// When a deletion that waits may go, if that is a matter of time.
    pub(super) fn due(&self) -> Option<Instant> {
        let hold = self.hold.as_ref()?;
        let waiting = self.waiting.lock();
        let mut due = waiting.deleted.values().min().map(|since| *since + REPLACED_WITHIN);
        for refill in [waiting.refill, hold.refill()?] {
            if refill.expected().is_some() {
                due = due.max(Some(refill.due()?));
            }
        }
        due
    }

    /// Why no object of the kind is deleted, besides what holds up all kinds.
    pub(super) fn why(&self) -> Option<String> {
        match self.waiting.lock().refill {
            Refill::Empty(_) => Some(emptied(&format!("object of kind {}", self.kind.kind))),
            Refill::Complete | Refill::Filling { .. } => None,
        }
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
        self.waiting.lock().skipped
    }

    /// What is wrong with objects: so many of them at most.
    pub(super) fn problems(&self, most: usize) -> Vec<Diagnostic> {
        self.waiting.lock().problems.values().flatten().take(most).cloned().collect()
    }
}

/// What the kinds have in common that decide about requests, with [`Options::keeps_last`](crate::Options::keeps_last).
///
/// While an object has an error, nothing of these kinds is deleted, because the object may be what becomes of one that was deleted, and none of
/// them counts as complete, because a start does not know what the object was before. Nor is anything deleted while no object of these kinds is
/// left, unless [`Options::allows_empty`](crate::Options::allows_empty): nobody deletes all of them on purpose, but a cluster that was made
/// anew, or restored without its objects, has none.
#[derive(Debug)]
pub(super) struct Hold {
    allows_empty: bool,
    held: watch::Sender<Held>,
}

/// Why deletions wait.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The errors, by collection and full name.
    broken: BTreeMap<(&'static str, Box<str>), String>,
    /// Objects by collection.
    objects: BTreeMap<&'static str, Known>,
    /// Whether they are gone altogether, or come back.
    refill: Refill,
}

/// Objects of a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Known {
    present: usize,
    /// Whether some are gone, and published.
    lacks_any: bool,
}

/// Why nothing is deleted while there is no object. `what`: of which kinds.
fn emptied(what: &str) -> String {
    format!(
        "the cluster has no {what} any more: what is published stays until it has one, and for {} s more, in which the others may come; only \
         --allow-empty-config, at a start, takes none for what is meant",
        QUIET.as_secs()
    )
}

impl Hold {
    /// No object has an error.
    pub(super) fn new(allows_empty: bool) -> Arc<Self> {
        Arc::new(Self { allows_empty, held: watch::Sender::default() })
    }

    /// The source starts: what it had serves on until it has something again.
    pub(super) fn begin(&self) {
        self.held.send_modify(|held| {
            let had_any = held.objects.values().any(|known| known.present > 0 || known.lacks_any);
            held.refill = match had_any && !self.allows_empty {
                true => Refill::Empty(Cause::Emptied),
                false => Refill::Complete,
            };
            // What it had is what it lacks.
            held.objects.values_mut().for_each(|known| *known = Known { present: 0, lacks_any: had_any });
            held.broken.clear();
        });
    }

    /// Whether nothing is deleted now.
    fn is_held(&self, now: Instant) -> bool {
        self.held.send_if_modified(|held| {
            let is_due = held.refill.due().is_some_and(|due| due <= now);
            held.refill.complete(now);
            is_due
        });
        let held = self.held.borrow();
        !held.broken.is_empty() || held.refill.expected().is_some()
    }

    /// What becomes of all objects; `None` while one has an error.
    fn refill(&self) -> Option<Refill> {
        let held = self.held.borrow();
        held.broken.is_empty().then_some(held.refill)
    }

    /// Why nothing is deleted, if so.
    pub(super) fn why(&self) -> Option<String> {
        let held = self.held.borrow();
        let error = held.broken.values().next().map(|error| format!("{WITHHELD}: {error}"));
        error.or_else(|| match held.refill {
            Refill::Complete => None,
            Refill::Empty(_) => Some(emptied("object that decides about requests")),
            Refill::Filling { cause, .. } => Some(cause.text().to_owned()),
        })
    }

    /// Says when that changes.
    pub(super) fn subscribe(&self) -> watch::Receiver<Held> {
        self.held.subscribe()
    }

    fn set(&self, collection: &'static str, name: &str, error: Option<String>) {
        let key = (collection, Box::from(name));
        self.held.send_if_modified(|held| match error {
            Some(error) => held.broken.insert(key, error.clone()).is_none_or(|before| before != error),
            None => held.broken.remove(&key).is_some(),
        });
    }

    /// After objects of a kind that are gone were published as such.
    fn known(&self, collection: &'static str, known: Known) {
        self.held.send_if_modified(|held| {
            held.objects.insert(collection, known);
            false
        });
    }

    /// After objects of a kind came or went.
    fn note(&self, collection: &'static str, known: Known) {
        self.held.send_if_modified(|held| {
            held.objects.insert(collection, known);
            let (mut present, mut lacks_any) = (0, false);
            for known in held.objects.values() {
                (present, lacks_any) = (present + known.present, lacks_any | known.lacks_any);
            }
            let is_empty = present == 0 && lacks_any && !self.allows_empty;
            let after = held.refill.after(is_empty, lacks_any, Instant::now());
            std::mem::replace(&mut held.refill, after) != after
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
    /// Whether a list had no object.
    is_emptied: bool,
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
            is_emptied: false,
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
        self.is_emptied = self.listed.is_empty();
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
        let has_changed = !self.changes.is_empty();
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
            waiting.set_problems(key, problems);
        }
        if let Some(hold) = self.outbox.hold.as_ref().filter(|_| has_changed) {
            let known = waiting.known();
            let was_emptied = std::mem::take(&mut self.is_emptied) && !hold.allows_empty;
            let is_empty =
                known.present == 0 && known.lacks_any && (was_emptied || waiting.refill.expected().is_some());
            waiting.refill = waiting.refill.after(is_empty, known.lacks_any, Instant::now());
            hold.note(self.kind.collection, known);
        }
        self.outbox.pending.set(self.kind.collection, waiting.changes.len());
        // Each sync that the pipeline does not wait for is ignored there.
        waiting.is_synced |= std::mem::take(&mut self.is_synced);
        drop(waiting);
        self.outbox.arrived.notify_one();
    }
}
