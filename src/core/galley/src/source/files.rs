//! Files of a directory. Spec: galley.md, "File source".
//!
//! The store of `mixer-config` walks, splits, parses and watches, and reads a file once its writer has closed it. This source
//! compares its versions and converts what changed.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use mixer_config::store::{
    ConfigStore, IdentityRule, Reading, Separator, StoreContents, WhenLost, open_path,
};
use mixer_config::{Diagnostic, FieldPath, RawResource, ResourceKey};
use mixer_schema::{Kind, by_api, by_kind};

use super::{Emitter, Ended, Source, Stopped};
use crate::convert::Converter;
use crate::event::{Batch, Entry, Event};
use crate::options::{Face, Options};

/// Maximum size of all files, in bytes.
const MAX_BYTES: u64 = 256 << 20;
/// The code of a document of which the kind is unknown.
const KIND_UNKNOWN: &str = "kind-unknown";

/// Resources in files.
pub struct Files {
    store: Box<dyn ConfigStore>,
    face: Face,
    options: Options,
    converter: Converter,
    state: Mutex<Kept>,
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
    /// The number of the last version.
    number: u64,
    /// Whether everything was read once.
    has_read: bool,
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
            Face::First => Reading { identity: IdentityRule::Kind, ..Reading::default() },
            Face::Second => Reading {
                identity: IdentityRule::GroupAndKind,
                separator: Separator::Line,
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
            let hint = "a document of another program; remove it, or correct its kind";
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
        for change in changes {
            match change {
                (_, Some(new)) => changed.push(Arc::clone(new)),
                (Some(old), None) => gone.push(Arc::clone(old)),
                (None, None) => {}
            }
        }
        if !state.has_read {
            // What others replace has taken a version in the order of reading, too.
            changed.extend(next.overridden.iter().cloned());
        }
        changed.sort_by(|a, b| {
            let place = |resource: &RawResource| resource.origin.first_line;
            Path::new(&*a.origin.file).cmp(Path::new(&*b.origin.file)).then_with(|| place(a).cmp(&place(b)))
        });
        let mut batch: Batch = gone.iter().filter_map(|resource| forget(state, &resource.key)).collect();
        batch.extend(self.put(state, &changed));
        state.contents = Arc::clone(next);
        state.has_read = true;
        batch
    }

    fn put(&self, state: &mut Kept, changed: &[Arc<RawResource>]) -> Batch {
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
        }
        if self.face == Face::First && has_put {
            state.number = together;
        }
        batch
    }

    fn report(&self, state: &Kept, out: &Emitter) {
        let unread = self.store.availability();
        out.health().connected(unread.is_ok());
        if let Err(outage) = unread {
            out.health().failed(outage.why);
        }
        let of_store = state.contents.diagnostics.iter().cloned();
        let problems: Vec<Diagnostic> = of_store.chain(state.problems.values().flatten().cloned()).collect();
        let skipped = state.problems.keys().filter(|key| !state.converted.contains_key(*key)).count();
        out.health().problems(skipped + state.contents.broken.len(), problems);
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
        self.store.loaded().await;
        let mut is_first = true;
        loop {
            // Converting many documents takes long.
            let (this, of_health) = (Arc::clone(self), out.clone());
            let take = move || {
                let mut state = this.state.lock();
                let batch = this.take(&mut state, &this.store.contents());
                this.report(&state, &of_health);
                batch
            };
            let batch = tokio::task::spawn_blocking(take).await;
            let batch =
                batch.map_err(|error| Ended::Failed(format!("cannot read the configuration: {error}")))?;
            tracing::debug!(events = batch.len(), "configuration was read");
            match std::mem::take(&mut is_first) {
                true => self.deliver_all(out).await.map_err(|Stopped| Ended::Stopped)?,
                false if batch.is_empty() => {}
                false => out.send(batch).await.map_err(|Stopped| Ended::Stopped)?,
            }
            self.store.changed().await;
        }
    }
}

/// Forgets a document. Returns what that deletes.
fn forget(state: &mut Kept, key: &ResourceKey) -> Option<Event> {
    state.problems.remove(key);
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
        self.store.reread();
    }
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").field("url", &self.store.url()).finish_non_exhaustive()
    }
}
