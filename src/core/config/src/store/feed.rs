//! A store of objects that a server sends: somebody else follows the server, and writes what arrives into a [`Feed`].
//!
//! Objects come by collection, or kind. There are no contents until every collection was received once. From then on the last
//! contents stay in effect, whatever becomes of the server; [`ConfigStore::availability`] tells of an outage.

use std::collections::BTreeMap;
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
/// Maximum size of the texts of all objects. A cache holds as much.
const MAX_BYTES: usize = 256 << 20;
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
    /// When the first and the last change after that version were made.
    pending: Option<(Instant, Instant)>,
    /// Why the server cannot be followed.
    outage: Option<String>,
    status: SourceStatus,
}

/// What the server has, while it is written.
pub struct FeedDraft {
    collections: BTreeMap<Arc<str>, Collection>,
    resources: SharedMap<Arc<RawResource>>,
    /// Size of the texts of all objects.
    bytes: usize,
    max_bytes: usize,
    has_changed: bool,
    /// Whether all collections are known that the contents wait for.
    is_closed: bool,
    status: SourceStatus,
}

#[derive(Default)]
struct Collection {
    objects: BTreeMap<Box<str>, ReadObject>,
    /// Number of those that cannot be read.
    broken: usize,
    version: Arc<str>,
    is_synced: bool,
    last_message: Option<std::time::Instant>,
}

impl Feed {
    /// An empty store and its writer. `root`: the name of the server, with which the names of origins begin. `writer` is dropped with
    /// the store.
    pub fn new(url: &str, root: &str, writer: impl Send + Sync + 'static) -> (FeedStore, Feed) {
        let draft = FeedDraft {
            collections: BTreeMap::new(),
            resources: SharedMap::default(),
            bytes: 0,
            max_bytes: MAX_BYTES,
            has_changed: false,
            is_closed: false,
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
        let has_changed = std::mem::take(&mut draft.has_changed);
        let is_complete = draft.is_complete();
        let is_first = is_complete && self.0.published.lock().version == 0;
        let contents = (is_first || (is_complete && has_changed)).then(|| Arc::new(draft.contents()));
        let status = draft.status();
        let mut published = self.0.published.lock();
        published.status = status;
        if let Some(contents) = contents {
            published.contents = contents;
            published.version += 1;
            let now = Instant::now();
            published.pending = Some((published.pending.map_or(now, |(first, _)| first), now));
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
            None => format!("{root}/{collection}").into(),
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
        if *known.version != *version {
            known.version = version.into();
        }
    }

    /// Makes or replaces an object. One for which there is no room cannot be read.
    pub fn put(&mut self, collection: &str, name: &str, object: ReadObject) {
        let (bytes, max_bytes) = (self.bytes, self.max_bytes);
        let known = self.collection(collection);
        let before = known.objects.get(name);
        let others = bytes.saturating_sub(before.map_or(0, size));
        let has_room = others.saturating_add(size(&object)) <= max_bytes;
        let object = if has_room { object } else { Err(Box::new(no_room(object, max_bytes))) };
        let bytes = others.saturating_add(size(&object));
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
        self.bytes = self.bytes.saturating_sub(size(&removed));
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

    fn collection(&mut self, name: &str) -> &mut Collection {
        if !self.collections.contains_key(name) {
            self.collections.insert(name.into(), Collection::default());
        }
        self.collections.entry(name.into()).or_default()
    }

    fn is_complete(&self) -> bool {
        self.is_closed && self.collections.values().all(|collection| collection.is_synced)
    }

    fn contents(&self) -> StoreContents {
        let collections = self.collections.values().filter(|collection| collection.broken > 0);
        let objects = collections.flat_map(|collection| collection.objects.values());
        let broken: Vec<Broken> =
            objects.filter_map(|object| object.as_ref().err().map(|broken| Broken::clone(broken))).collect();
        StoreContents {
            resources: self.resources.clone(),
            diagnostics: broken.iter().map(|broken| broken.problem.clone()).collect(),
            broken,
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
            last_message: known.last_message,
        });
        SourceStatus { collections: collections.collect(), ..self.status.clone() }
    }
}

/// The size of the text of an object.
fn size(object: &ReadObject) -> usize {
    match object {
        Ok(resource) => resource.origin.text.len(),
        Err(broken) => broken.text.len(),
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
        .with_hint("remove objects, or have several servers with a part each");
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
        let (first, last) = self.pending.filter(|_| self.version != self.announced)?;
        Some((last + QUIET).min(first + MAX_DELAY))
    }

    fn outage(&self) -> Option<String> {
        if self.outage.is_some() || self.version > 0 {
            return self.outage.clone();
        }
        let missing = self.status.collections.iter().filter(|known| !known.is_synced);
        let mut names: Vec<&str> = missing.map(|known| &*known.name).collect();
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
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{SourceObject, read_object};

    fn object(feed: &Feed, name: &str, text: &str) -> ReadObject {
        let object = SourceObject {
            kind: "rule".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            spec: json!({"match": text}),
            ..SourceObject::default()
        };
        read_object(&feed.origin("rules", Some(name)), object)
    }

    fn put(feed: &Feed, name: &str, text: &str) {
        let read = object(feed, name, text);
        feed.change(|draft| {
            draft.put("rules", name, read);
            draft.received("rules", "1");
        });
    }

    fn names(store: &FeedStore) -> Vec<String> {
        store.contents().resources.iter().map(|resource| resource.key.to_string()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_contents_once_every_collection_was_received() {
        let (store, feed) = Feed::new("mcp://h:1", "mcp://h:1", ());
        assert_eq!(store.availability().unwrap_err().why, "not connected yet");
        feed.change(|draft| ["rules", "handlers"].into_iter().for_each(|name| draft.expect(name)));
        feed.change(FeedDraft::close);
        put(&feed, "a", "true");
        assert_eq!(store.availability().unwrap_err().why, "not yet ready: [handlers]");
        assert!(!store.availability().unwrap_err().keeps_last);
        assert_eq!(store.contents().unavailable.as_deref(), Some("not read yet"));
        assert_eq!(store.contents().unread()[0].path, "mcp://h:1".into());
        assert!(!store.has_changed());
        feed.change(|draft| draft.received("handlers", ""));
        store.loaded().await;
        assert_eq!((names(&store), store.availability()), (vec!["a.rule.shop".to_owned()], Ok(())));
        feed.outage(Some("h:1: connection refused".to_owned()));
        let outage = Outage { why: "h:1: connection refused".to_owned(), keeps_last: true };
        assert_eq!(store.availability(), Err(outage));
        assert_eq!(names(&store), ["a.rule.shop"]);
    }

    #[tokio::test(start_paused = true)]
    async fn only_differences_are_changes_and_those_in_quick_succession_are_one() {
        let (store, feed) = Feed::new("mcp://h:1", "mcp://h:1", ());
        feed.change(FeedDraft::close);
        put(&feed, "a", "true");
        store.changed().await;
        let first = store.contents();
        put(&feed, "a", "true");
        assert!(!store.has_changed() && Arc::ptr_eq(&first, &store.contents()), "the same again");
        let begun = Instant::now();
        for number in 0..5 {
            put(&feed, &format!("b{number}"), "true");
            tokio::time::advance(QUIET / 2).await;
        }
        assert!(store.has_changed());
        store.changed().await;
        assert!(begun.elapsed() < QUIET * 4 && !store.has_changed());
        assert_eq!((names(&store).len(), first.resources.len()), (6, 1));
        feed.change(|draft| draft.retain("rules", |name| name == "b3"));
        store.changed().await;
        assert_eq!(names(&store), ["b3.rule.shop"]);
        feed.change(|draft| draft.forget("rules"));
        store.changed().await;
        assert_eq!((names(&store).len(), store.source().unwrap().collections.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn changes_that_never_pause_are_announced_all_the_same() {
        let (store, feed) = Feed::new("mcp://h:1", "mcp://h:1", ());
        feed.change(FeedDraft::close);
        put(&feed, "a", "0");
        store.changed().await;
        let begun = Instant::now();
        let write = async {
            for number in 0.. {
                put(&feed, "a", &number.to_string());
                tokio::time::sleep(QUIET / 2).await;
            }
        };
        tokio::select! {
            () = write => {}
            () = store.changed() => {}
        }
        let took = begun.elapsed();
        assert!(took >= MAX_DELAY && took < MAX_DELAY * 2, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_for_which_there_is_no_room_cannot_be_read() {
        let (store, feed) = Feed::new("mcp://h:1", "mcp://h:1", ());
        feed.change(|draft| {
            draft.max_bytes = 4 << 20;
            draft.close();
        });
        let large = "x".repeat(3 << 20);
        put(&feed, "a", &large);
        put(&feed, "b", &large);
        let contents = store.contents();
        assert_eq!((names(&store), contents.broken.len()), (vec!["a.rule.shop".to_owned()], 1));
        let text = "mcp://h:1/rules/b: it is not read: all objects have more than 4 MiB";
        assert_eq!(contents.broken[0].problem.message, text);
        put(&feed, "b", "small");
        assert_eq!((names(&store).len(), store.contents().broken.len()), (2, 0));
        put(&feed, "a", &large.replace('x', "y"));
        feed.change(|draft| draft.remove("rules", "a"));
        put(&feed, "b", &large);
        assert_eq!(store.contents().broken.len(), 0, "there is room again");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_cannot_be_read_is_unknown_and_not_gone() {
        let (store, feed) = Feed::new("mcp://h:1", "mcp://h:1", ());
        feed.change(FeedDraft::close);
        put(&feed, "a", "true");
        let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
        feed.change(|draft| {
            let object = SourceObject {
                kind: "rule".into(),
                namespace: "shop".into(),
                name: "a".into(),
                spec: deep,
                ..SourceObject::default()
            };
            draft.put("rules", "a", read_object(&feed.origin("rules", Some("a")), object));
        });
        let contents = store.contents();
        assert_eq!((contents.resources.len(), contents.broken.len(), contents.diagnostics.len()), (0, 1, 1));
        assert_eq!(&*contents.broken[0].file, "mcp://h:1/rules/a");
        assert_eq!(store.source().unwrap().collections[0].broken, 1);
        put(&feed, "a", "true");
        assert_eq!((names(&store).len(), store.contents().broken.len()), (1, 0));
    }
}
