//! Files of a directory. Spec: galley.md, "File source".
//!
//! The store of `mixer-config` walks, splits, parses and watches, and reads a file once its writer has closed it. This source
//! compares its versions and converts what changed.

mod flaws;
mod losses;
mod meant;

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use mixer_base::load::{self, Load};
use mixer_config::store::refill::Refill;
use mixer_config::store::{
    ConfigStore, IdentityRule, Reading, Separator, StoreContents, WhenLost, open_path,
};
use mixer_config::{Diagnostic, FieldPath, RawResource, ResourceKey};
use mixer_schema::{Kind, by_api, by_kind};

use super::{Emitter, Ended, MAX_PROBLEMS, Source, Stopped};
use crate::convert::Converter;
use crate::event::{Batch, Entry, Event};
use crate::options::{Face, Options};
use flaws::Flaw;
use losses::sort_by_place;

/// How long a start waits for its directory before what an earlier process published is published.
const PATIENCE: Duration = Duration::from_secs(3);
/// Maximum size of all files, in bytes.
const MAX_BYTES: u64 = 256 << 20;
/// Kinds of the policy engine that MCP has no collection for.
const KINDS_OF_SERVER: [&str; 3] = ["attributemapping", "envoybridge", "ratelimit"];
/// The code of a document of which the kind is unknown.
const KIND_UNKNOWN: &str = "kind-unknown";

/// Resources in files.
pub struct Files {
    store: Box<dyn ConfigStore>,
    face: Face,
    options: Options,
    converter: Converter,
    state: Mutex<Kept>,
    /// The version of the store that was delivered, or is held.
    taken: AtomicU64,
    /// The number of documents that are new, different or gone, and held.
    withheld: AtomicUsize,
    collections: Vec<&'static str>,
}

/// What outlives a start of the source: versions go on.
#[derive(Default)]
struct Kept {
    /// The contents that [`converted`](Self::converted) has.
    contents: Arc<StoreContents>,
    /// What could be decoded, with its version.
    converted: FxHashMap<ResourceKey, (&'static str, Entry)>,
    /// What is wrong with documents.
    problems: FxHashMap<ResourceKey, Vec<Diagnostic>>,
    /// Those among them of which nothing is delivered.
    skipped: FxHashSet<ResourceKey>,
    /// The number of documents of the contents that are of kinds which are distributed.
    with_effect: usize,
    /// The number of the last version.
    number: u64,
    /// Whether everything was read once.
    has_read: bool,
    /// The contents that were looked at last.
    seen: Option<Arc<StoreContents>>,
    /// Whether what they lack may still come.
    refill: Refill,
    /// Whether what an earlier process published was asked for.
    has_asked: bool,
    /// When that was written which an earlier process published, until contents are taken over.
    restored: Option<String>,
    /// Why nothing is published whatever the directory has.
    mismatch: Option<String>,
    /// Why newer contents are not taken over.
    held: Option<Held>,
    /// Whether contents are taken over again, which is not told yet.
    is_mended: bool,
}

/// Contents of the store, as they differ from those that were taken over last.
struct Found<'f> {
    contents: &'f Arc<StoreContents>,
    gone: &'f [Arc<RawResource>],
    /// New and different ones.
    changed: &'f [Arc<RawResource>],
    /// The number of documents of kinds that are distributed.
    with_effect: usize,
}

/// Contents that are not taken over.
struct Held {
    why: String,
    /// It is taken over by itself after some time.
    is_delayed: bool,
    problems: Vec<Diagnostic>,
    broken: usize,
}

impl Files {
    /// Files at or below a path, which are read again when they change, or with `watch` false when an operator asks.
    pub fn new(path: &Path, watch: bool, options: &Options) -> Arc<Self> {
        let reading =
            Reading { on_request: !watch, max_bytes: Some(MAX_BYTES), ..Self::reading(options.face) };
        Self::of(open_path(path, WhenLost::Keep, reading), options)
    }

    /// How a face reads documents.
    pub fn reading(face: Face) -> Reading {
        match face {
            Face::First => Reading { identity: IdentityRule::Kind, is_urgent: true, ..Reading::default() },
            Face::Second => Reading {
                identity: IdentityRule::GroupAndKind,
                separator: Separator::Line,
                is_urgent: true,
                ..Reading::default()
            },
        }
    }

    /// The resources of any store that reads documents as [`reading`](Self::reading) says.
    pub fn of(store: Box<dyn ConfigStore>, options: &Options) -> Arc<Self> {
        let collections = options.read_kinds().map(|kind| kind.collection).collect();
        Arc::new(Self {
            store,
            face: options.face,
            options: options.clone(),
            converter: Converter::new(options),
            state: Mutex::default(),
            taken: AtomicU64::new(0),
            withheld: AtomicUsize::new(0),
            collections,
        })
    }

    /// The kind of a document. Errors: there is none, which is a problem.
    fn kind(&self, resource: &RawResource) -> Result<&'static Kind, Vec<Diagnostic>> {
        let api_version = &resource.envelope.api_version;
        let written = &*resource.key.kind;
        let (kind, written) = match self.face {
            Face::First => (by_kind(written), written.to_owned()),
            Face::Second => {
                let (kind, group) = written.split_once('.').unwrap_or((written, ""));
                (by_api(api_version, kind), format!("{group}/{kind}"))
            }
        };
        kind.ok_or_else(|| {
            let legacy = match self.face {
                Face::First => format!("failed finding spec for kind: {written}"),
                Face::Second => format!("failed finding spec for group/kind: {written}"),
            };
            let text = format!("unknown kind `{written}`");
            let problem = Diagnostic::error(KIND_UNKNOWN, FieldPath::root().field("kind"), text);
            let hint = match written.split('.').next() {
                Some(kind) if KINDS_OF_SERVER.contains(&kind) => {
                    "only a server that reads files has this kind, MCP has no collection of it: remove it, or give the server the files"
                }
                Some("" | "/") if resource.document().get("descriptors").is_some() => {
                    "limits of descriptors are no resource, and galley distributes none: give the file to the policy server, in a directory of its own"
                }
                _ => "a document of another program; remove it, or correct its kind",
            };
            vec![problem.with_legacy(legacy).with_hint(hint)]
        })
    }

    /// Converts a document; `None` if it is of a kind that is not read, or cannot be decoded, which is noted.
    fn convert(
        &self,
        state: &mut Kept,
        resource: &RawResource,
        version: u64,
    ) -> Option<(&'static str, Entry)> {
        let converted = self.kind(resource).and_then(|kind| {
            if !self.options.reads(kind) {
                return Ok(None);
            }
            let converted = self.converter.convert(kind, &resource.document(), &format!("v{version}"))?;
            Ok(Some((kind.collection, converted)))
        });
        let (entry, problems) = match converted {
            Ok(Some((collection, converted))) => (Some((collection, converted.entry)), converted.warnings),
            Ok(None) => (None, Vec::new()),
            Err(problems) => (None, problems),
        };
        match problems.is_empty() {
            true => drop(state.problems.remove(&resource.key)),
            false => {
                let place = |problem| placed(problem, resource);
                state.problems.insert(resource.key.clone(), problems.into_iter().map(place).collect());
            }
        }
        match entry.is_none() && state.problems.contains_key(&resource.key) {
            true => drop(state.skipped.insert(resource.key.clone())),
            false => drop(state.skipped.remove(&resource.key)),
        }
        entry
    }

    /// Takes over the next contents of the store. Returns what that changes.
    fn take(&self, state: &mut Kept, next: &Arc<StoreContents>) -> Batch {
        let before = Arc::clone(&state.contents);
        let changes = before
            .resources
            .changes(&next.resources, |a, b| Arc::ptr_eq(a, b) || a.origin.text == b.origin.text);
        let mut gone: Vec<Arc<RawResource>> = Vec::new();
        let mut changed: Vec<Arc<RawResource>> = Vec::new();
        let mut with_effect = state.with_effect;
        for change in changes {
            let [less, more] =
                [change.0, change.1].map(|side| side.is_some_and(|resource| self.has_effect(resource)));
            with_effect = with_effect + usize::from(more) - usize::from(less);
            match change {
                (_, Some(new)) => changed.push(Arc::clone(new)),
                (Some(old), None) => gone.push(Arc::clone(old)),
                (None, None) => {}
            }
        }
        let withheld = gone.len() + changed.len();
        if !state.has_read {
            // What others replace has taken a version in the order of reading, too.
            changed.extend(next.overridden.iter().cloned());
        }
        let found = Found { contents: next, gone: &gone, changed: &changed, with_effect };
        self.note_losses(state, &found);
        let held = self.flaw(&found, state);
        if let Some(Flaw { problem: flaw, is_delay: is_delayed }) = held {
            let why = flaw.brief();
            if state.held.as_ref().is_none_or(|held| held.why != why) {
                tracing::warn!(source = self.name(), "{}: {why}", Self::consequence(state));
            }
            let mut problems: Vec<Diagnostic> = next.diagnostics.to_vec();
            if !problems.contains(&flaw) {
                problems.insert(0, flaw);
            }
            state.held = Some(Held { why, is_delayed, problems, broken: next.broken.len() });
            self.withheld.store(withheld, Ordering::Release);
            return Batch::new();
        }
        self.withheld.store(0, Ordering::Release);
        state.is_mended |= state.held.take().is_some();
        sort_by_place(&mut changed);
        let mut batch: Batch = gone.iter().filter_map(|resource| forget(state, &resource.key)).collect();
        batch.extend(self.put(state, &changed));
        state.contents = Arc::clone(next);
        state.with_effect = with_effect;
        state.has_read = true;
        state.restored = None;
        batch
    }

    /// What follows from a flaw.
    fn consequence(state: &Kept) -> String {
        let published = match (&state.restored, state.has_read) {
            (Some(written), _) => {
                return format!("the configuration in --config-cache of {written} is published");
            }
            (None, true) => "the configuration is not published, and the last one stays",
            (None, false) => "nothing is published until the configuration is mended",
        };
        published.to_owned()
    }

    fn put(&self, state: &mut Kept, changed: &[Arc<RawResource>]) -> Batch {
        let load = Load::begin(self.name(), "documents", "converted", changed.len());
        let mut batch = Batch::with_capacity(changed.len());
        // Of the first face, everything that is read at a time has one number, and what is read first has 0.
        let together = state.number + u64::from(state.has_read);
        let mut has_put = false;
        for resource in changed {
            let number = match self.face {
                Face::First => together,
                Face::Second => state.number + 1,
            };
            match self.convert(state, resource, number) {
                Some((collection, entry)) => {
                    if self.face == Face::Second {
                        state.number = number;
                    }
                    has_put = true;
                    batch.push(Event::put(collection, entry.clone()));
                    state.converted.insert(resource.key.clone(), (collection, entry));
                }
                None => batch.extend(forget_converted(state, &resource.key)),
            }
            load::documents_done(load.id(), 1);
        }
        if self.face == Face::First && has_put {
            state.number = together;
        }
        batch
    }

    fn report(&self, state: &mut Kept, out: &Emitter) {
        if std::mem::take(&mut state.is_mended) {
            out.health().mended();
        }
        let unread = self.store.availability();
        out.health().connected(unread.is_ok());
        if let Err(outage) = unread {
            out.health().failed(outage.why);
        }
        let why = state.held.as_ref().map(|held| format!("{}: {}", Self::consequence(state), held.why));
        match (why, &state.held) {
            (Some(why), Some(held)) if held.is_delayed => out.health().delayed(why),
            (why, _) => out.health().held(why),
        }
        if let Some(held) = &state.held {
            out.health().failed(format!("{}: {}", Self::consequence(state), held.why));
            out.health().problems(held.broken.max(1), held.problems.clone());
            return;
        }
        let of_store = state.contents.diagnostics.iter().cloned();
        let all = of_store.chain(state.problems.values().flatten().cloned());
        out.health()
            .problems(state.skipped.len() + state.contents.broken.len(), all.take(MAX_PROBLEMS).collect());
    }

    /// Delivers everything that was read.
    async fn deliver_all(&self, out: &Emitter) -> Result<(), Stopped> {
        let all: Vec<Event> = {
            let state = self.state.lock();
            let entries = state.converted.values();
            entries.map(|(collection, entry)| Event::put(collection, entry.clone())).collect()
        };
        out.send_everything(all, &self.collections).await
    }

    async fn follow(self: &Arc<Self>, out: &Emitter) -> Result<Infallible, Ended> {
        self.restore().await?;
        // Changes are followed from the first read on: who asks for them later has everything read again.
        drop(self.store.changed());
        let has_substitute = self.state.lock().has_read;
        match has_substitute {
            false => self.store.loaded().await,
            true => _ = tokio::time::timeout(PATIENCE, self.store.loaded()).await,
        }
        let mut is_first = true;
        loop {
            // Converting many documents takes long. The contents are those of this version, or of a later one.
            let version = self.store.version();
            let (this, of_health) = (Arc::clone(self), out.clone());
            let take = move || {
                let mut state = this.state.lock();
                let before = Arc::clone(&state.contents);
                let batch = this.take(&mut state, &this.store.contents());
                this.report(&mut state, &of_health);
                let news = (state.held.is_none() && !Arc::ptr_eq(&before, &state.contents))
                    .then(|| state.contents.resources.clone());
                (batch, state.has_read, state.refill.due(), news)
            };
            let batch = tokio::task::spawn_blocking(take).await;
            let (batch, has_read, due, news) =
                batch.map_err(|error| Ended::Failed(format!("cannot read the configuration: {error}")))?;
            tracing::debug!(events = batch.len(), "configuration was read");
            // Before it is published: whenever the process ends, a restart publishes no older one.
            if let (Some(documents), Some(keeper), true) =
                (news, &self.options.keeper, self.options.keeps_last)
            {
                keeper.keep(documents).await;
            }
            match is_first {
                true if !has_read => {}
                true => {
                    is_first = false;
                    self.deliver_all(out).await.map_err(|Stopped| Ended::Stopped)?;
                }
                false if batch.is_empty() => {}
                // What is published of it is known before it counts as delivered.
                false => out.send_and_show(batch).await.map_err(|Stopped| Ended::Stopped)?,
            }
            self.taken.store(version, Ordering::Release);
            let complete = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.store.changed() => {}
                () = complete => {}
            }
        }
    }
}

/// Forgets a document. Returns what that deletes.
fn forget(state: &mut Kept, key: &ResourceKey) -> Option<Event> {
    state.problems.remove(key);
    state.skipped.remove(key);
    forget_converted(state, key)
}

fn forget_converted(state: &mut Kept, key: &ResourceKey) -> Option<Event> {
    let (collection, entry) = state.converted.remove(key)?;
    Some(Event::delete(collection, entry.resource.name.clone()))
}

/// A problem of a document with its place in the file.
fn placed(mut problem: Diagnostic, resource: &RawResource) -> Diagnostic {
    problem.span = problem.span.map(|span| resource.origin.in_file(span));
    if problem.span.is_none() {
        let mut span = mixer_config::Span::default();
        span.start.line = resource.origin.document_line();
        problem.span = Some(span);
    }
    problem.file = Some(Arc::clone(&resource.origin.file));
    problem.resource = resource.key.to_string();
    problem
}

impl Source for Files {
    fn name(&self) -> String {
        format!("files {}", self.store.url().trim_start_matches("fs://"))
    }

    fn collections(&self) -> Vec<&'static str> {
        self.collections.clone()
    }

    fn run(self: Arc<Self>, out: Emitter) -> BoxFuture<'static, Ended> {
        Box::pin(async move {
            match self.follow(&out).await {
                Ok(never) => match never {},
                Err(ended) => ended,
            }
        })
    }

    fn reload(&self) {
        self.store.rescan();
    }

    fn look(&self) -> BoxFuture<'_, ()> {
        self.store.looked()
    }

    fn pending(&self) -> usize {
        let is_taken = self.taken.load(Ordering::Acquire) == self.store.version();
        let unread = usize::from(self.store.awaits_change() || !is_taken);
        self.withheld.load(Ordering::Acquire).max(unread)
    }
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").field("url", &self.store.url()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
