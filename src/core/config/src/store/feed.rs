//! A store of objects that a server sends: somebody else follows the server, and writes what arrives into a [`Feed`].
//!
//! Objects come by collection, or kind. There are no contents until every collection was received once. From then on the last
//! contents stay in effect, whatever becomes of the server; [`ConfigStore::availability`] tells of an outage.

mod collection;
mod unknown;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Broken, CollectionStatus, ConfigStore, Outage, ReadObject, SourceStatus, StoreContents};
use crate::RawResource;
use collection::{Collection, MAX_LISTED};
use mixer_base::shared_map::SharedMap;
pub use unknown::object_size;
use unknown::{first_segment, is_left_out, no_room, origin_of, unknown, unread};

/// Changes are announced when none arrives for this long: those of one configuration arrive by collection.
const QUIET: Duration = Duration::from_millis(20);
/// Changes are announced at the latest this long after the first one.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// The same two of a change that leaves a collection empty: a server that has lost its configuration sends one empty collection after the
/// other, and only all of them together tell what has happened.
const EMPTIED_QUIET: Duration = Duration::from_secs(1);
const EMPTIED_MAX_DELAY: Duration = Duration::from_secs(5);
/// Maximum [size](object_size) of all objects, in bytes: more than that of 100 000 rules.
pub const MAX_OBJECT_BYTES: usize = 304 << 20;
/// Whether a collection may come later.
type MayCome = Box<dyn Fn(&str) -> bool + Send>;

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
    /// See [`StoreContents::lapses`].
    lapses: u64,
    /// The collections that became empty since the last version.
    emptied: BTreeSet<Arc<str>>,
    /// Whether there were contents.
    is_begun: bool,
    /// Whether all collections are known that the contents wait for.
    is_closed: bool,
    /// The first segments of the names of objects that an earlier process had.
    earlier: BTreeSet<Arc<str>>,
    /// Which of those the server may have although it does not serve them.
    may_come: Option<MayCome>,
    /// Those that it may have.
    absent: Vec<Arc<str>>,
    /// The name of the server.
    root: Box<str>,
    status: SourceStatus,
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
            lapses: 0,
            emptied: BTreeSet::new(),
            is_begun: false,
            is_closed: false,
            earlier: BTreeSet::new(),
            may_come: None,
            absent: Vec::new(),
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

    /// What all objects take, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.draft.lock().bytes
    }

    /// What all objects of a collection take, in bytes.
    pub fn bytes_of_collection(&self, collection: &str) -> usize {
        self.0.draft.lock().collections.get(collection).map_or(0, |known| known.bytes)
    }

    /// What the objects of a collection with these names take, in bytes. Cost: a look at each of these.
    pub fn bytes_of<'n>(&self, collection: &str, names: impl IntoIterator<Item = &'n str>) -> usize {
        let draft = self.0.draft.lock();
        let Some(known) = draft.collections.get(collection) else { return 0 };
        names.into_iter().filter_map(|name| known.objects.get(name)).map(object_size).sum()
    }

    /// Whether objects of a collection were left out for which there may be room by now.
    pub fn has_left_out(&self, collection: &str) -> bool {
        let draft = self.0.draft.lock();
        let known = draft.collections.get(collection);
        known.is_some_and(|known| known.has_left_out || known.no_room > 0)
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

    /// Which of the collections that an earlier process had objects of, by the first segment of the names of objects, the server may have
    /// although it does not serve them: until it does, or [they are forgotten](Self::forget_earlier), it is unknown what they have.
    pub fn may_come(&mut self, may_come: impl Fn(&str) -> bool + Send + 'static) {
        self.may_come = Some(Box::new(may_come));
        self.find_absent();
    }

    /// What an earlier process had of a collection was deleted.
    pub fn forget_earlier(&mut self, collection: &str) {
        if self.earlier.remove(collection) {
            self.find_absent();
        }
    }

    /// The collections that an earlier process had, that are not served, and [may come](Self::may_come). In order.
    pub fn absent(&self) -> Vec<Arc<str>> {
        self.absent.clone()
    }

    fn find_absent(&mut self) {
        let is_known = |name: &str| {
            let mut known = self.collections.keys();
            known.any(|known| {
                known.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        let may_come = |name: &str| self.may_come.as_ref().is_some_and(|may_come| may_come(name));
        let absent = self.earlier.iter().filter(|name| may_come(name) && !is_known(name));
        let absent: Vec<Arc<str>> = absent.cloned().collect();
        self.has_changed |= absent != self.absent;
        self.absent = absent;
    }

    /// Whether a collection was received, and has no objects.
    pub fn is_known_to_be_empty(&self, collection: &str) -> bool {
        let known = self.collections.get(collection);
        known.is_some_and(|known| known.is_synced && known.objects.is_empty() && !known.has_left_out)
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
        known.last_message = Some(now);
        let was_unknown = known.is_told && (known.trouble.is_some() || !known.is_synced);
        (known.is_synced, known.trouble) = (true, None);
        let is_filled = known.awaits_objects && !known.objects.is_empty();
        known.awaits_objects &= !is_filled;
        let is_news = known.is_always_empty() != known.is_told_to_await;
        if *known.version != *version {
            known.version = version.into();
        }
        // One that has all may still be followed by one that lacks what belongs to it.
        let has_lapsed = is_filled && self.collections.values().any(|known| known.has_lapsed);
        self.lapses += u64::from(has_lapsed);
        self.has_changed |= was_unknown || is_news || has_lapsed;
    }

    /// The server was connected, again or for the first time: as long as it had no object of a collection since then, that may be a loss
    /// instead of deletions.
    pub fn connected(&mut self, collection: &str) {
        if let Some(known) = self.collections.get_mut(collection) {
            (known.awaits_objects, known.has_lapsed) = (true, false);
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

    /// Makes or replaces an object. One for which there is no room cannot be read; of many of a collection, all of the collection is
    /// unknown. Returns whether there was room: if not, it has to be put again once there is.
    pub fn put(&mut self, collection: &str, name: &str, object: ReadObject) -> bool {
        let (bytes, max_bytes) = (self.bytes, self.max_bytes);
        let known = self.collection(collection);
        let before = known.objects.get(name);
        let others = bytes.saturating_sub(before.map_or(0, object_size));
        let has_room = others.saturating_add(object_size(&object)) <= max_bytes;
        let had_room = before.is_none_or(|before| !is_left_out(before));
        if !has_room && had_room && known.no_room >= MAX_LISTED {
            let is_news = !std::mem::replace(&mut known.has_left_out, true);
            self.has_changed |= is_news;
            self.remove(collection, name);
            return false;
        }
        let object = if has_room { object } else { Err(Box::new(no_room(object, max_bytes))) };
        let (more, less) = (object_size(&object), before.map_or(0, object_size));
        let bytes = others.saturating_add(more);
        let is_same = match (before, &object) {
            (Some(Ok(before)), Ok(object)) => before.revision == object.revision && before.key == object.key,
            (Some(Err(before)), Err(object)) => before == object,
            _ => false,
        };
        if is_same {
            return has_room;
        }
        let resource = object.as_ref().ok().cloned();
        match object.is_err() {
            true => drop(known.broken.insert(name.into())),
            false => drop(known.broken.remove(name)),
        }
        known.no_room += usize::from(!has_room);
        let before = known.objects.insert(name.into(), object);
        known.bytes = (known.bytes + more).saturating_sub(less);
        known.no_room -= usize::from(before.as_ref().is_some_and(is_left_out));
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
        has_room
    }

    /// Removes an object.
    pub fn remove(&mut self, collection: &str, name: &str) {
        let Some(known) = self.collections.get_mut(collection) else { return };
        let Some(removed) = known.objects.remove(name) else { return };
        self.has_changed = true;
        if known.objects.is_empty() {
            self.emptied.insert(collection.into());
        }
        let bytes = object_size(&removed);
        self.bytes = self.bytes.saturating_sub(bytes);
        known.bytes = known.bytes.saturating_sub(bytes);
        known.no_room -= usize::from(is_left_out(&removed));
        match removed {
            Ok(removed) => drop(self.resources.remove(&removed.key)),
            Err(_) => drop(known.broken.remove(name)),
        }
    }

    /// Removes all objects but these. All that the collection has is put again, or was and had room. What is gone when the collection has objects
    /// for the first time since its server was connected counts as a [lapse](StoreContents::lapses).
    pub fn retain(&mut self, collection: &str, is_kept: impl Fn(&str) -> bool) {
        if let Some(known) = self.collections.get_mut(collection) {
            self.has_changed |= std::mem::take(&mut known.has_left_out);
        }
        let known = self.collections.get(collection);
        let names = known.into_iter().flat_map(|known| known.objects.keys());
        let gone: Vec<Box<str>> = names.filter(|name| !is_kept(name)).cloned().collect();
        if let Some(known) = self.collections.get_mut(collection) {
            known.has_lapsed |= known.awaits_objects && !gone.is_empty();
        }
        gone.iter().for_each(|name| self.remove(collection, name));
    }

    /// The server has the collection no more: neither its objects nor, from now on, the wait for it.
    pub fn forget(&mut self, collection: &str) {
        self.retain(collection, |_| false);
        self.has_changed |= self.collections.remove(collection).is_some();
        self.earlier.remove(collection.split('/').next().unwrap_or(collection));
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
        let (mut broken, mut always_empty): (Vec<Broken>, Vec<Arc<str>>) = (Vec::new(), Vec::new());
        for (name, known) in &mut self.collections {
            let unknown = known.unknown(|| origin_of(&self.root, name), self.max_bytes);
            known.is_told = unknown.is_some();
            known.is_told_to_await = known.is_always_empty();
            if known.is_told_to_await {
                always_empty.push(origin_of(&self.root, name));
            }
            broken.extend(unknown);
            let unread = known.broken.iter().filter_map(|name| known.objects.get(name)?.as_ref().err());
            broken.extend(unread.map(|unread| Broken::clone(unread)));
        }
        let why = "it is not served yet, and the last good configuration has objects of it";
        let absent = self.absent.iter();
        broken.extend(absent.map(|name| unknown(origin_of(&self.root, name), why, false)));
        StoreContents {
            resources: self.resources.clone(),
            diagnostics: broken.iter().map(|broken| broken.problem.clone()).collect(),
            broken,
            always_empty,
            is_of_server: true,
            documents: self.resources.len(),
            lapses: self.lapses,
            ..StoreContents::default()
        }
    }

    fn status(&self) -> SourceStatus {
        let collections = self.collections.iter().map(|(name, known)| CollectionStatus {
            name: Arc::clone(name),
            version: Arc::clone(&known.version),
            objects: known.objects.len(),
            broken: known.broken.len(),
            is_synced: known.is_synced,
            trouble: known.trouble.clone(),
            last_message: known.last_message,
        });
        SourceStatus { collections: collections.collect(), ..self.status.clone() }
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

    fn expect(&self, files: &[&Path]) {
        let root = &self.shared.root;
        let names: BTreeSet<&str> =
            files.iter().filter_map(|file| first_segment(root, file.to_str()?)).collect();
        Feed(Arc::clone(&self.shared)).change(|draft| {
            draft.earlier.extend(names.into_iter().map(Arc::from));
            draft.find_absent();
        });
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
