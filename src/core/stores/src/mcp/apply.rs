//! From the changes of a source to resources.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mixer_base::load::{self, Load};
use mixer_base::secrets::mask_text;
use mixer_config::RawResource;
use mixer_config::store::{
    Feed, MAX_OBJECT_BYTES, ReadObject, SourceObject, object_size, read_object, unreadable_object,
};
use mixer_mcp::{Applying, Change, Refusal, Resource, Sink, Updater};
use mixer_schema::Kind;
use parking_lot::Mutex;

/// Characters of a refusal that are told.
const MAX_TOLD: usize = 512;
/// Length of a body from which what it takes meanwhile is returned to the system at once, in bytes.
const LARGE: usize = 256 << 10;

/// Writes changes into a feed. Clones write the same feed, one after the other.
#[derive(Clone)]
pub(super) struct Applier {
    pub(super) feed: Feed,
    kinds: Arc<HashMap<&'static str, &'static Kind>>,
    /// What resources may need beside the collections that are asked for, and who asks for it.
    needed: Arc<[Needed]>,
    sink: Option<Arc<Sink>>,
    /// What was applied, by collection and name, so that what comes again is not read again. A hash of all that counts.
    applied: Arc<Mutex<HashMap<&'static str, Applied>>>,
    hasher: RandomState,
    /// Maximum [size](object_size) of all objects.
    pub(super) max_bytes: usize,
    /// Held while a change is applied elsewhere.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// How many streams have begun. It changes with the feed locked.
    streams: Arc<AtomicU64>,
    /// The stream of the changes that this value applies.
    stream: u64,
    ignores_unknown_fields: bool,
}

/// Kinds that are asked for once a resource needs them.
pub(super) struct Needed {
    pub(super) kinds: Vec<&'static Kind>,
    pub(super) is_needed_by: Arc<dyn Fn(&RawResource) -> bool + Send + Sync>,
}

type Applied = HashMap<Box<str>, u64>;

/// A resource that differs from what was applied.
struct Different {
    name: Box<str>,
    hash: u64,
    read: ReadObject,
}

impl Applier {
    /// Objects may take as much as those of any store.
    pub(super) fn new(feed: Feed, kinds: &[&'static Kind]) -> Self {
        let kinds = kinds.iter().map(|kind| (kind.collection, *kind)).collect();
        Self {
            feed,
            kinds: Arc::new(kinds),
            needed: Arc::default(),
            sink: None,
            applied: Arc::default(),
            hasher: RandomState::new(),
            max_bytes: MAX_OBJECT_BYTES,
            turn: Arc::default(),
            streams: Arc::default(),
            stream: 0,
            ignores_unknown_fields: false,
        }
    }

    /// With kinds that this sink is told to ask for once a resource needs them.
    pub(super) fn asking_for(mut self, needed: Vec<Needed>, sink: Arc<Sink>) -> Self {
        let mut kinds = HashMap::clone(&self.kinds);
        kinds.extend(needed.iter().flat_map(|needed| &needed.kinds).map(|kind| (kind.collection, *kind)));
        (self.kinds, self.needed, self.sink) = (Arc::new(kinds), needed.into(), Some(sink));
        self
    }

    /// The collections that these resources need.
    fn needed_by(&self, different: &[Different]) -> Vec<&'static str> {
        let read = || different.iter().filter_map(|different| different.read.as_ref().ok());
        let needed =
            self.needed.iter().filter(|needed| read().any(|resource| (needed.is_needed_by)(resource)));
        needed.flat_map(|needed| &needed.kinds).map(|kind| kind.collection).collect()
    }

    /// Whether a resource is read without the fields that this program does not know; otherwise it cannot be read.
    pub(super) fn ignoring_unknown_fields(self, ignores_unknown_fields: bool) -> Self {
        Self { ignores_unknown_fields, ..self }
    }

    /// The turn to apply changes, which others wait for.
    #[cfg(test)]
    pub(super) fn turn(&self) -> tokio::sync::OwnedMutexGuard<()> {
        Arc::clone(&self.turn).try_lock_owned().expect("nothing is applied")
    }

    /// Errors: a body cannot be decoded.
    fn read(&self, kind: &Kind, resource: Resource) -> Result<ReadObject, Refusal> {
        let (spec, unknown) = mixer_schema::to_json_with_unknown(&resource.type_url, &resource.body)
            .map_err(|why| Refusal::undecodable(format!("{}: {why}", resource.name)))?;
        let origin = self.feed.origin(kind.collection, Some(&resource.name));
        let (namespace, name) = resource.namespace_and_name();
        let object = SourceObject {
            api_version: kind.api_version(),
            kind: kind.kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            version: resource.version.to_string(),
            labels: resource.labels,
            annotations: resource.annotations,
            spec,
            ..SourceObject::default()
        };
        Ok(match unknown.filter(|_| !self.ignores_unknown_fields) {
            None => read_object(&origin, object),
            Some(field) => {
                let why = format!("unknown field with number {} in `{}`", field.number, field.message);
                let hint = "a source of a newer version may have it: update this server, or have it removed";
                unreadable_object(&origin, object, &why, hint)
            }
        })
    }

    /// Errors: a resource cannot be decoded, one is there twice and differently, or there is no room, after which nothing is applied.
    /// Resources are decoded one at a time, and what was read of a resource takes its place.
    fn apply_change(&mut self, change: Change) -> Result<(), Refusal> {
        let Some(kind) = self.kinds.get(&*change.collection).copied() else {
            return Err(Refusal::from(format!("unsupported collection {}", change.collection)));
        };
        let mut applied = self.applied.lock();
        let applied = applied.entry(kind.collection).or_default();
        let (mut different, mut sent) = (Vec::new(), Applied::new());
        let held = self.feed.bytes();
        let mut added = 0;
        let place = mask_text(&self.feed.origin(kind.collection, None)).to_string();
        let load = Load::begin(place, "resources", "read", change.resources.len());
        for resource in change.resources {
            let resource = resource?;
            load::documents_done(load.id(), 1);
            let Resource { name, type_url, body, labels, annotations, .. } = &resource;
            let hash = self.hasher.hash_one((type_url, body, labels, annotations));
            match sent.insert(name.clone(), hash) {
                None => {}
                Some(same) if same == hash => continue,
                Some(_) => return Err(format!("{name} is there twice, and differently").into()),
            }
            if applied.get(name) != Some(&hash) {
                let name = name.clone();
                let is_large = resource.body.len() >= LARGE;
                let read = self.read(kind, resource)?;
                if is_large {
                    // What it took meanwhile, up to thirty times its length, lies between what stays.
                    mixer_base::memory::release();
                }
                added += object_size(&read);
                // What is replaced stays until all is read.
                if added > self.max_bytes || held + added > self.max_bytes + self.max_bytes / 2 {
                    return Err(self.no_room(held, added));
                }
                different.push(Different { name, hash, read });
            }
        }
        if held + added > self.max_bytes {
            let replaced: HashSet<&str> = different.iter().map(|different| &*different.name).collect();
            let gone = if change.incremental {
                let removed = change.removed.iter().map(String::as_str);
                let gone: HashSet<&str> = removed.chain(replaced).collect();
                self.feed.bytes_of(kind.collection, gone)
            } else {
                let kept = sent.keys().map(|name| &**name).filter(|name| !replaced.contains(name));
                let all = self.feed.bytes_of_collection(kind.collection);
                all.saturating_sub(self.feed.bytes_of(kind.collection, kept))
            };
            if held - gone.min(held) + added > self.max_bytes {
                return Err(self.no_room(held - gone.min(held), added));
            }
        }
        if change.incremental {
            change.removed.iter().for_each(|name| _ = applied.remove(name.as_str()));
        } else {
            applied.retain(|name, _| sent.contains_key(&**name));
        }
        let needed = self.needed_by(&different);
        applied.extend(different.iter().map(|different| (different.name.clone(), different.hash)));
        let left_out: Vec<Box<str>> = self.feed.change(|draft| {
            match change.incremental {
                // What was left out does not come again with a difference.
                true => change.removed.iter().for_each(|name| draft.remove(kind.collection, name)),
                false => draft.retain(kind.collection, |name| applied.contains_key(name)),
            }
            let put = different.into_iter().filter_map(|Different { name, read, .. }| {
                (!draft.put(kind.collection, &name, read)).then_some(name)
            });
            let left_out = put.collect();
            // Of a source that is connected again nothing is known by what came before.
            if self.streams.load(Ordering::Relaxed) == self.stream {
                draft.received(kind.collection, &change.system_version);
            }
            // Nothing serves that needs what is not received yet.
            for collection in &needed {
                draft.expect(collection);
                if !draft.is_synced(collection) {
                    draft.connected(collection);
                }
            }
            left_out
        });
        if let Some(sink) = &self.sink {
            needed.iter().for_each(|collection| sink.ask_for(collection));
        }
        // They are read again with the next change, for which there may be room.
        left_out.iter().for_each(|name| _ = applied.remove(name));
        Ok(())
    }
}

impl Applier {
    /// The refusal of a change for which there is no room.
    fn no_room(&self, held: usize, added: usize) -> Refusal {
        let limit = self.max_bytes;
        Refusal::from(format!(
            "new and different objects take {added} bytes or more beside {held} bytes of others; all may take {limit}, and half as much more \
             while objects are replaced: remove objects, of which each takes three times its text, 2048 bytes and 48 for each value beyond the first 64, or large labels and \
             annotations, or have several servers with a part each"
        ))
    }
}

impl Updater for Applier {
    fn begin(&mut self) {
        let (streams, stream) = (Arc::clone(&self.streams), &mut self.stream);
        self.feed.change(|draft| {
            *stream = streams.fetch_add(1, Ordering::Relaxed) + 1;
            let again = Some("it is not received again yet since the source was connected");
            for collection in self.kinds.keys() {
                draft.connected(collection);
                if draft.is_synced(collection) {
                    draft.unfollowed(collection, again);
                }
            }
        });
    }

    fn refused(&mut self, collection: &str, refusal: &Refusal) {
        let end = refusal.message.char_indices().nth(MAX_TOLD).map_or(refusal.message.len(), |(at, _)| at);
        let told = refusal.message.get(..end).unwrap_or_default();
        let why = format!("its last change is refused: {told}");
        self.feed.change(|draft| draft.refused(collection, &why));
    }

    fn apply(&mut self, change: Change) -> Result<(), Refusal> {
        self.apply_change(change)
    }

    fn apply_elsewhere(&mut self, change: Change) -> Applying<'_> {
        let mut this = self.clone();
        Box::pin(async move {
            // Off the event loop, since health and ControlZ run on the same threads; and one change at a time on one thread, however fast
            // a source sends. A change of a stream that has ended meanwhile is applied before those of the next one.
            let turn = Arc::clone(&this.turn).lock_owned().await;
            let applied = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                this.apply_change(change)
            });
            match applied.await {
                Ok(applied) => applied,
                Err(error) => match error.try_into_panic() {
                    // Counted by the task of the store, which starts again.
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Err(Refusal::from("the process ends".to_owned())),
                },
            }
        })
    }
}
