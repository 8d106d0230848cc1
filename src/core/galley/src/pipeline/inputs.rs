//! What all sources have: the latch of their syncs, and the resources of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mixer_mcp::Resource;

use super::overlay::{Origin, Overlay, Seen};
use crate::event::{Change, Entry, Event};

/// What sources feed.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    sources: Vec<Feeds>,
    /// The collections that several sources feed.
    shared: BTreeSet<&'static str>,
    collections: BTreeMap<&'static str, Overlay<Entry>>,
}

/// What one source feeds.
#[derive(Debug, Default)]
struct Feeds {
    /// Which start of the source counts; 0 before the first.
    generation: u64,
    feeds: BTreeMap<&'static str, Feed>,
}

/// A collection of a source.
#[derive(Debug, Default)]
struct Feed {
    /// Whether it was synced since it was started for the first time.
    was_synced: bool,
    /// What was delivered since the last start, until its sync. It replaces then what was delivered before.
    arriving: Option<BTreeMap<Box<str>, Entry>>,
}

/// A change of what all sources have together.
#[derive(Debug)]
pub(super) struct InputChange {
    pub(super) collection: &'static str,
    pub(super) seen: Seen<Entry>,
}

impl Inputs {
    /// Sources in the order of their precedence, by the collections that each feeds.
    pub(super) fn of(sources: impl IntoIterator<Item = Vec<&'static str>>) -> Self {
        let feeds = |collections: Vec<&'static str>| {
            let feeds = collections.into_iter().map(|collection| (collection, Feed::default()));
            Feeds { generation: 0, feeds: feeds.collect() }
        };
        let sources: Vec<Feeds> = sources.into_iter().map(feeds).collect();
        let (mut known, mut shared) = (BTreeSet::new(), BTreeSet::new());
        for collection in sources.iter().flat_map(|source| source.feeds.keys()) {
            if !known.insert(*collection) {
                shared.insert(*collection);
            }
        }
        Self { sources, shared, collections: BTreeMap::new() }
    }

    /// A source was started, for the first time or again: what it delivers now is of this generation.
    pub(super) fn started(&mut self, source: usize, generation: u64) {
        let Some(feeds) = self.sources.get_mut(source) else { return };
        feeds.generation = generation;
        feeds.feeds.values_mut().for_each(|feed| feed.arriving = Some(BTreeMap::new()));
    }

    /// The generation of a source that counts.
    pub(super) fn generation(&self, source: usize) -> u64 {
        self.sources.get(source).map_or(0, |feeds| feeds.generation)
    }

    /// Whether every source of a collection was synced once.
    pub(super) fn is_synced(&self, collection: &str) -> bool {
        let mut feeds = self.sources.iter().filter_map(|source| source.feeds.get(collection));
        feeds.all(|feed| feed.was_synced)
    }

    /// Whether everything of a source was synced since its last start, and which collections were not.
    pub(super) fn missing(&self, source: usize) -> Vec<&'static str> {
        let feeds = self.sources.get(source).into_iter().flat_map(|source| &source.feeds);
        feeds.filter(|(_, feed)| !feed.was_synced || feed.arriving.is_some()).map(|(name, _)| *name).collect()
    }

    /// What all sources have of a collection.
    pub(super) fn collection(&self, collection: &str) -> Option<&Overlay<Entry>> {
        self.collections.get(collection)
    }

    /// Applies an event; the caller has compared the generation. Collections that the source does not feed are ignored.
    pub(super) fn apply(&mut self, source: usize, event: Event, out: &mut Vec<InputChange>) {
        let Some(feed) = self.sources.get_mut(source).and_then(|feeds| feeds.feeds.get_mut(event.collection))
        else {
            tracing::warn!(collection = event.collection, "unhandled resource event");
            return;
        };
        let Ok(origin) = Origin::try_from(source) else { return };
        let change = match event.change {
            Change::Put(entry) if origin > 0 && self.shared.contains(event.collection) => {
                Change::Put(of_source(&entry, origin))
            }
            change => change,
        };
        let overlay = self.collections.entry(event.collection).or_default();
        let mut push = |seen: Option<Seen<Entry>>| {
            out.extend(seen.map(|seen| InputChange { collection: event.collection, seen }));
        };
        match (change, &mut feed.arriving) {
            (Change::Put(entry), Some(arriving)) => drop(arriving.insert(entry.resource.name.clone(), entry)),
            (Change::Put(entry), None) => {
                if !overlay.get(origin, &entry.resource.name).is_some_and(|old| is_same(old, &entry)) {
                    push(overlay.put(origin, entry));
                }
            }
            (Change::Delete(name), Some(arriving)) => drop(arriving.remove(&name)),
            (Change::Delete(name), None) => push(overlay.remove(origin, &name)),
            (Change::FullSync, arriving) => {
                feed.was_synced = true;
                let Some(arrived) = arriving.take() else { return };
                for name in overlay.names_of(origin) {
                    if !arrived.contains_key(&name) {
                        push(overlay.remove(origin, &name));
                    }
                }
                for entry in arrived.into_values() {
                    if !overlay.get(origin, &entry.resource.name).is_some_and(|old| is_same(old, &entry)) {
                        push(overlay.put(origin, entry));
                    }
                }
            }
        }
    }
}

/// An entry with a version that no other source gives: each numbers its own resources.
fn of_source(entry: &Entry, origin: Origin) -> Entry {
    let version = format!("{}@{origin}", entry.resource.version).into();
    Entry { resource: Arc::new(Resource { version, ..Resource::clone(&entry.resource) }), ..entry.clone() }
}

/// Whether two entries have the same content; the object is a function of it.
fn is_same(a: &Entry, b: &Entry) -> bool {
    Arc::ptr_eq(&a.resource, &b.resource) || (a.resource == b.resource && a.object == b.object)
}
