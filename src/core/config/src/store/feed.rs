//! A store of objects that a server sends: somebody else follows the server, and writes what arrives into a [`Feed`].
//!
//! Objects come by collection, or kind. There are no contents until every collection was received once. From then on the last
//! contents stay in effect, whatever becomes of the server; [`ConfigStore::availability`] tells of an outage.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Broken, CollectionStatus, ConfigStore, Outage, ReadObject, SourceStatus, StoreContents};
use crate::{Diagnostic, FieldPath, RawResource};
use mixer_base::shared_map::SharedMap;

/// Changes are announced when none arrives for this long: those of one configuration arrive by collection.
const QUIET: Duration = Duration::from_millis(20);
/// Changes are announced at the latest this long after the first one.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// The same two of a change that leaves a collection empty: a server that has lost its configuration sends one empty collection after the
/// other, and only all of them together tell what has happened.
const EMPTIED_QUIET: Duration = Duration::from_secs(1);
const EMPTIED_MAX_DELAY: Duration = Duration::from_secs(5);
/// Maximum [size](object_size) of all objects, in bytes.
pub const MAX_OBJECT_BYTES: usize = 256 << 20;
/// What an object takes beside its text and its annotations, and a problem of an object beside the text of the object.
const BYTES_PER_OBJECT: usize = 512;
const BYTES_PER_PROBLEM: usize = 1 << 10;
/// Names of collections that an outage lists.
const LISTED: usize = 8;

/// A store that a [`Feed`] writes.
pub struct FeedStore {
    url: String,
    shared: Arc<Shared>,
    /// Ends who writes when it is dropped.
    _writer: Box<dyn Send + Sync>,
}

/// What writes a [`FeedStore`]. Clones write the same store.
#[derive(Clone)]
pub struct Feed(Arc<Shared>);

struct Shared {
    /// The name of the server, as the beginning of the names of origins.
    root: Box<str>,
    /// Held by writers only, and never across I/O.
    draft: Mutex<FeedDraft>,
    published: Mutex<Published>,
    /// Signals a new version to [`ConfigStore::changed`].
    changed: Notify,
    /// Signals the first version to [`ConfigStore::load`].
    loaded: Condvar,
}

struct Published {
    contents: Arc<StoreContents>,
    /// 0 before everything was received once.
    version: u64,
    /// The version that `changed` last announced.
    announced: u64,
    /// The changes after that version.
    pending: Option<Pending>,
    /// Why the server cannot be followed.
    outage: Option<String>,
    status: SourceStatus,
}

/// Changes that are not announced yet.
#[derive(Clone, Copy)]
struct Pending {
    first: Instant,
    last: Instant,
    /// Whether one of them left a collection empty.
    has_emptied: bool,
}

/// What the server has, while it is written.
pub struct FeedDraft {
    collections: BTreeMap<Arc<str>, Collection>,
    resources: SharedMap<Arc<RawResource>>,
    /// [Size](object_size) of all objects.
    bytes: usize,
    max_bytes: usize,
    has_changed: bool,
    /// The collections that became empty since the last version.
    emptied: BTreeSet<Arc<str>>,
    /// Whether there were contents.
    is_begun: bool,
    /// Whether all collections are known that the contents wait for.
    is_closed: bool,
    /// The name of the server.
    root: Box<str>,
    status: SourceStatus,
}

#[derive(Default)]
struct Collection {
    objects: BTreeMap<Box<str>, ReadObject>,
    /// Number of those that cannot be read.
    broken: usize,
    version: Arc<str>,
    is_synced: bool,
    /// Why it is unknown what it has now, although its last objects stay.
    trouble: Option<Arc<str>>,
    /// Whether the contents say that it is unknown.
    is_told: bool,
    last_message: Option<std::time::Instant>,
}

impl Collection {
    /// What is unknown of it. `origin`: its name.
    fn unknown(&self, origin: impl FnOnce() -> Arc<str>) -> Option<Broken> {
        let why = match &self.trouble {
            None if self.is_synced => return None,
            None => "it is not received yet",
            Some(why) => why,
        };
        let file = origin();
        let problem = Diagnostic::error("store-unreadable", FieldPath::root(), format!("{file}: {why}"))
            .with_hint("what it had before stays in effect; what may refuse fewer requests waits for it");
        let problem = Diagnostic { file: Some(Arc::clone(&file)), ..problem };
        Some(Broken { file, document: None, text: "".into(), problem, keeps_last: self.is_synced })
    }
}

impl Feed {
    /// An empty store and its writer. `root`: the name of the server, with which the names of origins begin. `writer` is dropped with
    /// the store.
    pub fn new(url: &str, root: &str, writer: impl Send + Sync + 'static) -> (FeedStore, Feed) {
        let draft = FeedDraft {
            collections: BTreeMap::new(),
            resources: SharedMap::default(),
            bytes: 0,
            max_bytes: MAX_OBJECT_BYTES,
            has_changed: false,
            emptied: BTreeSet::new(),
            is_begun: false,
            is_closed: false,
            root: root.into(),
            status: SourceStatus::default(),
        };
        let published = Published {
            contents: Arc::new(unread(root)),
            version: 0,
            announced: 0,
            pending: None,
            outage: None,
            status: SourceStatus::default(),
        };
        let shared = Arc::new(Shared {
            root: root.into(),
            draft: Mutex::new(draft),
            published: Mutex::new(published),
            changed: Notify::new(),
            loaded: Condvar::new(),
        });
        let store = FeedStore { url: url.to_owned(), shared: Arc::clone(&shared), _writer: Box::new(writer) };
        (store, Feed(shared))
    }

    /// Changes what the server has. Readers see the whole change at once, and a new version if any resource differs.
    pub fn change<T>(&self, change: impl FnOnce(&mut FeedDraft) -> T) -> T {
        let mut draft = self.0.draft.lock();
        let changed = change(&mut draft);
        let is_first = !draft.is_begun && draft.is_complete();
        let is_due = is_first || (draft.is_begun && draft.has_changed);
        let contents = is_due.then(|| Arc::new(draft.next_contents()));
        let has_emptied = is_due && draft.take_emptied();
        let status = draft.status();
        let mut published = self.0.published.lock();
        published.status = status;
        if let Some(contents) = contents {
            published.contents = contents;
            published.version += 1;
            let last = Instant::now();
            let before = published.pending;
            published.pending = Some(Pending {
                first: before.map_or(last, |before| before.first),
                last,
                has_emptied: has_emptied || before.is_some_and(|before| before.has_emptied),
            });
            drop(published);
            self.0.announce();
        }
        changed
    }

    /// The name of an origin: of a collection, or of an object of it.
    pub fn origin(&self, collection: &str, name: Option<&str>) -> Arc<str> {
        let root = &self.0.root;
        match name {
            Some(name) => format!("{root}/{collection}/{name}").into(),
            None => origin_of(root, collection),
        }
    }

    /// Changes what is told to operators beside the collections.
    pub fn tell(&self, change: impl FnOnce(&mut SourceStatus)) {
        let mut draft = self.0.draft.lock();
        change(&mut draft.status);
        let status = draft.status();
        self.0.published.lock().status = status;
    }

    /// Whether all collections are known that the contents wait for.
    pub fn is_closed(&self) -> bool {
        self.0.draft.lock().is_closed
    }

    /// What objects take, in bytes: all of them, and those of a collection with these names.
    pub fn sizes(&self, collection: &str, is_meant: impl Fn(&str) -> bool) -> (usize, usize) {
        let draft = self.0.draft.lock();
        let objects = draft.collections.get(collection).into_iter().flat_map(|known| &known.objects);
        let meant = objects.filter(|(name, _)| is_meant(name)).map(|(_, object)| object_size(object)).sum();
        (draft.bytes, meant)
    }

    /// Says why the server cannot be followed, or that it can again.
    pub fn outage(&self, why: Option<String>) {
        self.0.published.lock().outage = why;
    }
}

impl FeedDraft {
    /// Waits for a collection.
    pub fn expect(&mut self, collection: &str) {
        self.collection(collection);
    }

    /// All collections are known that have to be received before there are contents.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Whether a collection was received once.
    pub fn is_synced(&self, collection: &str) -> bool {
        self.collections.get(collection).is_some_and(|known| known.is_synced)
    }

    /// A collection was received up to this version.
    pub fn received(&mut self, collection: &str, version: &str) {
        let now = std::time::Instant::now();
        self.status.last_message = Some(now);
        let known = self.collection(collection);
        known.is_synced = true;
        known.last_message = Some(now);
        let was_unknown = known.is_told;
        known.trouble = None;
        self.has_changed |= was_unknown;
        let known = self.collection(collection);
        if *known.version != *version {
            known.version = version.into();
        }
    }

    /// A change of a collection was received that cannot be used: what it has now is unknown, and its last objects stay, until the next one.
    pub fn refused(&mut self, collection: &str, why: &str) {
        let Some(known) = self.collections.get_mut(collection) else { return };
        if known.trouble.as_deref() != Some(why) || !known.is_told {
            known.trouble = Some(why.into());
            self.has_changed = true;
        }
    }

    /// A collection cannot be followed, for this reason, or is followed again. What it has now is unknown meanwhile. As long as nothing else
    /// changes, that is no other version.
    pub fn unfollowed(&mut self, collection: &str, why: Option<&str>) {
        let Some(known) = self.collections.get_mut(collection) else { return };
        if known.trouble.as_deref() != why {
            known.trouble = why.map(Into::into);
            self.has_changed |= why.is_none() && known.is_synced && known.is_told;
        }
    }

    /// Makes or replaces an object. One for which there is no room cannot be read.
    pub fn put(&mut self, collection: &str, name: &str, object: ReadObject) {
        let (bytes, max_bytes) = (self.bytes, self.max_bytes);
        let known = self.collection(collection);
        let before = known.objects.get(name);
        let others = bytes.saturating_sub(before.map_or(0, object_size));
        let has_room = others.saturating_add(object_size(&object)) <= max_bytes;
        let object = if has_room { object } else { Err(Box::new(no_room(object, max_bytes))) };
        let bytes = others.saturating_add(object_size(&object));
        let is_same = match (before, &object) {
            (Some(Ok(before)), Ok(object)) => before.revision == object.revision && before.key == object.key,
            (Some(Err(before)), Err(object)) => before == object,
            _ => false,
        };
        if is_same {
            return;
        }
        let resource = object.as_ref().ok().cloned();
        known.broken += usize::from(object.is_err());
        let before = known.objects.insert(name.into(), object);
        known.broken -= usize::from(before.as_ref().is_some_and(|before| before.is_err()));
        self.bytes = bytes;
        self.has_changed = true;
        if let Some(Ok(before)) = before
            && resource.as_ref().is_none_or(|resource| resource.key != before.key)
        {
            self.resources.remove(&before.key);
        }
        if let Some(resource) = resource {
            self.resources.put(resource);
        }
    }

    /// Removes an object.
    pub fn remove(&mut self, collection: &str, name: &str) {
        let Some(known) = self.collections.get_mut(collection) else { return };
        let Some(removed) = known.objects.remove(name) else { return };
        self.has_changed = true;
        if known.objects.is_empty() {
            self.emptied.insert(collection.into());
        }
        self.bytes = self.bytes.saturating_sub(object_size(&removed));
        match removed {
            Ok(removed) => drop(self.resources.remove(&removed.key)),
            Err(_) => known.broken -= 1,
        }
    }

    /// Removes all objects but these.
    pub fn retain(&mut self, collection: &str, is_kept: impl Fn(&str) -> bool) {
        let known = self.collections.get(collection);
        let names = known.into_iter().flat_map(|known| known.objects.keys());
        let gone: Vec<Box<str>> = names.filter(|name| !is_kept(name)).cloned().collect();
        gone.iter().for_each(|name| self.remove(collection, name));
    }

    /// The server has the collection no more: neither its objects nor, from now on, the wait for it.
    pub fn forget(&mut self, collection: &str) {
        self.retain(collection, |_| false);
        self.has_changed |= self.collections.remove(collection).is_some();
    }

    /// Whether a collection is empty that was not at the last version.
    fn take_emptied(&mut self) -> bool {
        let emptied = std::mem::take(&mut self.emptied);
        emptied.iter().any(|name| self.collections.get(name).is_none_or(|known| known.objects.is_empty()))
    }

    fn collection(&mut self, name: &str) -> &mut Collection {
        if !self.collections.contains_key(name) {
            self.collections.insert(name.into(), Collection::default());
        }
        self.collections.entry(name.into()).or_default()
    }

    fn is_complete(&self) -> bool {
        self.is_closed && self.collections.values().all(|collection| collection.is_synced)
    }

    /// The contents from now on.
    fn next_contents(&mut self) -> StoreContents {
        (self.has_changed, self.is_begun) = (false, true);
        let mut broken: Vec<Broken> = Vec::new();
        for (name, known) in &mut self.collections {
            let unknown = known.unknown(|| origin_of(&self.root, name));
            known.is_told = unknown.is_some();
            broken.extend(unknown);
            if known.broken > 0 {
                let objects = known.objects.values();
                let unread = objects.filter_map(|object| object.as_ref().err());
                broken.extend(unread.map(|unread| Broken::clone(unread)));
            }
        }
        StoreContents {
            resources: self.resources.clone(),
            diagnostics: broken.iter().map(|broken| broken.problem.clone()).collect(),
            broken,
            is_of_server: true,
            documents: self.resources.len(),
            ..StoreContents::default()
        }
    }

    fn status(&self) -> SourceStatus {
        let collections = self.collections.iter().map(|(name, known)| CollectionStatus {
            name: Arc::clone(name),
            version: Arc::clone(&known.version),
            objects: known.objects.len(),
            broken: known.broken,
            is_synced: known.is_synced,
            trouble: known.trouble.clone(),
            last_message: known.last_message,
        });
        SourceStatus { collections: collections.collect(), ..self.status.clone() }
    }
}

/// The name of the origin of a collection.
fn origin_of(root: &str, collection: &str) -> Arc<str> {
    format!("{root}/{collection}").into()
}

/// What an object takes while it is held, in bytes.
pub fn object_size(object: &ReadObject) -> usize {
    match object {
        Ok(resource) => resource.origin.text.len() + resource.annotations.size() + BYTES_PER_OBJECT,
        Err(broken) => broken.text.len() + BYTES_PER_PROBLEM,
    }
}

/// An object for which there is no room.
fn no_room(object: ReadObject, max_bytes: usize) -> Broken {
    let file = match object {
        Ok(resource) => Arc::clone(&resource.origin.file),
        Err(broken) => broken.file,
    };
    let text = format!("{file}: it is not read: all objects have more than {} MiB", max_bytes >> 20);
    let problem = Diagnostic::error("store-unreadable", FieldPath::root(), text)
        .with_hint(format!(
            "remove objects, of which each counts {BYTES_PER_OBJECT} bytes more than it has, or labels and annotations, or have several \
             servers with a part each"
        ));
    let problem = Diagnostic { file: Some(Arc::clone(&file)), ..problem };
    Broken { file, document: None, text: "".into(), problem, keeps_last: false }
}

/// The contents before everything was received.
fn unread(root: &str) -> StoreContents {
    let why = "not read yet";
    let problem = Diagnostic::error("store-unreadable", FieldPath::root(), format!("{root}: {why}"))
        .with_hint("ControlZ and /readyz?verbose say what it waits for");
    let problem = Diagnostic { file: Some(root.into()), ..problem };
    let broken = Broken {
        file: root.into(),
        document: None,
        text: "".into(),
        problem: problem.clone(),
        keeps_last: false,
    };
    StoreContents {
        broken: vec![broken],
        diagnostics: vec![problem],
        unavailable: Some(why.to_owned()),
        is_of_server: true,
        ..StoreContents::default()
    }
}

impl Shared {
    async fn until(&self, mut condition: impl FnMut(&mut Published) -> bool) {
        loop {
            let changed = self.changed.notified();
            if condition(&mut self.published.lock()) {
                return;
            }
            changed.await;
        }
    }

    fn announce(&self) {
        self.loaded.notify_all();
        self.changed.notify_waiters();
    }
}

impl Published {
    /// When the changes after the announced version are announced; `None` without any.
    fn due(&self) -> Option<Instant> {
        let Pending { first, last, has_emptied } = self.pending.filter(|_| self.version != self.announced)?;
        let (quiet, longest) =
            if has_emptied { (EMPTIED_QUIET, EMPTIED_MAX_DELAY) } else { (QUIET, MAX_DELAY) };
        Some((last + quiet).min(first + longest))
    }

    fn outage(&self) -> Option<String> {
        if self.outage.is_some() || self.version > 0 {
            return self.outage.clone();
        }
        let missing = self.status.collections.iter().filter(|known| !known.is_synced);
        let shown = |known: &CollectionStatus| match &known.trouble {
            None => known.name.to_string(),
            Some(why) => format!("{}: {why}", known.name),
        };
        let mut names: Vec<String> = missing.map(shown).collect();
        // What is in the way first.
        names.sort_by_key(|name| !name.contains(": "));
        let more = names.len().saturating_sub(LISTED);
        names.truncate(LISTED);
        Some(match (names.is_empty(), more) {
            (true, _) => "not connected yet".to_owned(),
            (false, 0) => format!("not yet ready: [{}]", names.join(", ")),
            (false, more) => format!("not yet ready: [{} and {more} more]", names.join(", ")),
        })
    }
}

impl ConfigStore for FeedStore {
    fn url(&self) -> &str {
        &self.url
    }

    fn contents(&self) -> Arc<StoreContents> {
        Arc::clone(&self.shared.published.lock().contents)
    }

    fn load(&self) -> Arc<StoreContents> {
        let mut published = self.shared.published.lock();
        while published.version == 0 {
            self.shared.loaded.wait(&mut published);
        }
        Arc::clone(&published.contents)
    }

    fn loaded(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.shared.until(|published| published.version > 0))
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            loop {
                let changed = self.shared.changed.notified();
                let due = self.shared.published.lock().due();
                match due {
                    Some(due) if due <= Instant::now() => {
                        let mut published = self.shared.published.lock();
                        published.announced = published.version;
                        published.pending = None;
                        return;
                    }
                    Some(due) => tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep_until(due) => {}
                    },
                    None => changed.await,
                }
            }
        })
    }

    fn availability(&self) -> Result<(), Outage> {
        let published = self.shared.published.lock();
        published.outage().map_or(Ok(()), |why| Err(Outage { why, keeps_last: published.version > 0 }))
    }

    fn source(&self) -> Option<SourceStatus> {
        Some(self.shared.published.lock().status.clone())
    }

    fn has_changed(&self) -> bool {
        let published = self.shared.published.lock();
        published.version != published.announced
    }
}

#[cfg(test)]
mod tests;
