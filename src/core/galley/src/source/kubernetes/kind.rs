//! One kind of objects: what a reflector finds, as events that wait to be delivered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::Notify;

use mixer_config::{Diagnostic, Severity};
use mixer_kube::{Object, Store};
use mixer_schema::Kind;

use super::document::Document;
use crate::convert::Converter;
use crate::event::{Batch, Change, Entry, Event};
use crate::options::collection;

/// Events of a kind that wait to be delivered. Of several about one object the last counts, so that there are never more than objects.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: Mutex<Waiting>,
    pub(super) arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    changes: BTreeMap<Box<str>, Change>,
    is_synced: bool,
    /// The names of what was delivered, or waits.
    delivered: BTreeSet<Box<str>>,
    /// What is wrong with objects, by full name.
    problems: BTreeMap<Box<str>, Vec<Diagnostic>>,
}

impl Outbox {
    /// What waits. A sync is the last event.
    pub(super) fn take(&self, collection: &'static str) -> Batch {
        let mut waiting = self.waiting.lock();
        let changes = std::mem::take(&mut waiting.changes).into_values();
        let is_synced = std::mem::take(&mut waiting.is_synced).then(|| Event::full_sync(collection));
        changes.map(|change| Event { collection, change }).chain(is_synced).collect()
    }

    /// The deletion of everything that was delivered.
    pub(super) fn forget(&self, collection: &'static str) -> Batch {
        let mut waiting = self.waiting.lock();
        waiting.changes.clear();
        let names = std::mem::take(&mut waiting.delivered);
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
        let converted = self.converter.convert(self.kind, &document.root, version);
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
        let mut waiting = self.outbox.waiting.lock();
        for (key, change) in self.changes.drain(..) {
            match change {
                Change::Delete(_) => drop(waiting.delivered.remove(&key)),
                _ => drop(waiting.delivered.insert(key.clone())),
            }
            waiting.changes.insert(key, change);
        }
        for (key, problems) in self.problems.drain(..) {
            match problems.is_empty() {
                true => drop(waiting.problems.remove(&key)),
                false => drop(waiting.problems.insert(key, problems)),
            }
        }
        // Each sync that the pipeline does not wait for is ignored there.
        waiting.is_synced |= std::mem::take(&mut self.is_synced);
        drop(waiting);
        self.outbox.arrived.notify_one();
    }
}
