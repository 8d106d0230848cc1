//! Files of a directory. Spec: galley.md, "File source".
//!
//! The store of `mixer-config` walks, splits, parses and watches, and reads a file once its writer has closed it. This source
//! compares its versions and converts what changed.

mod losses;

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use mixer_base::load::{self, Load};
use mixer_config::message::resembles;
use mixer_config::store::refill::{LIMIT, QUIET, Refill, no_configuration};
use mixer_config::store::{
    ConfigStore, IdentityRule, Reading, Separator, StoreContents, WhenLost, open_path, read_document,
};
use mixer_config::{Diagnostic, FieldPath, Node, NodeKind, RawResource, ResourceKey, Severity};
use mixer_schema::{Kind, by_api, by_kind, kinds};

use super::{Emitter, Ended, MAX_PROBLEMS, Source, Stopped};
use crate::convert::{Converter, decides, is_of_engine};
use crate::event::{Batch, Entry, Event};
use crate::options::{Face, Options};
use losses::sort_by_place;

/// How long a start waits for its directory before what an earlier process published is published.
const PATIENCE: Duration = Duration::from_secs(3);
/// Maximum size of all files, in bytes.
const MAX_BYTES: u64 = 256 << 20;
/// Kinds of the policy engine that MCP has no collection for.
const KINDS_OF_SERVER: [&str; 3] = ["attributemapping", "envoybridge", "ratelimit"];
/// The code of a document of which the kind is unknown.
const KIND_UNKNOWN: &str = "kind-unknown";
/// The code of a directory or file that cannot be read.
const STORE: &str = "store-unreadable";
/// What to do about a directory that is empty at a start.
const MAY_BE_EMPTY: &str = "it may not be mounted yet: fill it, or set --allow-empty-config if that is meant";
/// When a directory without resources is meant.
const ONLY: &str = "if sinks are to have nothing of it, --allow-empty-config publishes that";
/// The code of a field, or a name, that has no effect.
const POLICY: &str = "document-field";
/// Kinds of which a resource without a spec means nothing, unlike those of some adapters and templates.
const NEED_SPEC: [&str; 8] = [
    "adapter",
    "attributemanifest",
    "handler",
    "instance",
    "rule",
    "template",
    "ServiceRole",
    "ServiceRoleBinding",
];

/// Resources in files.
pub struct Files {
    store: Box<dyn ConfigStore>,
    face: Face,
    options: Options,
    converter: Converter,
    state: Mutex<Kept>,
    /// The version of the store that was delivered, or is held.
    taken: AtomicU64,
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

/// Why contents are not taken over.
struct Flaw {
    problem: Diagnostic,
    /// They are after some time.
    is_delay: bool,
}

impl From<Diagnostic> for Flaw {
    fn from(problem: Diagnostic) -> Self {
        Self { problem, is_delay: false }
    }
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
            return Batch::new();
        }
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

    /// Why contents are not taken over: what they lack may not have been deleted.
    fn flaw(&self, found: &Found<'_>, state: &Kept) -> Option<Flaw> {
        let &Found { contents: next, gone, changed, .. } = found;
        if !self.options.keeps_last {
            return None;
        }
        let about_store = |why: String| Flaw::from(Diagnostic::error(STORE, FieldPath::root(), why));
        if let Some(why) = &state.mismatch {
            return Some(about_store(why.clone()));
        }
        if let Some(unread) = next.unread().into_iter().next() {
            return Some(unread.problem.into());
        }
        if let Some(why) = &next.unavailable {
            return Some(about_store(why.clone()));
        }
        if let Some(file) = next.unsettled() {
            return Some(about_store(format!("{file} is being changed")));
        }
        if self.is_emptied(found) {
            return Some(about_store(no_configuration("--config-path", ONLY)));
        }
        // What it had before this start is unknown, or is there no more.
        let may_be_lost = |directory: &&Arc<str>| {
            let is_below =
                |resource: &Arc<RawResource>| Path::new(&*resource.origin.file).starts_with(&***directory);
            !state.has_read || gone.iter().any(is_below)
        };
        let lost = next.always_empty.iter().find(may_be_lost).filter(|_| !self.options.allows_empty);
        if let Some(directory) = lost {
            return Some(about_store(format!("{directory} is empty; {MAY_BE_EMPTY}")));
        }
        if let Some(cause) = state.refill.expected() {
            let (quiet, limit) = (QUIET.as_secs(), LIMIT.as_secs());
            let why = format!(
                "{}: it is published when nothing has changed for {quiet} s, or after {limit} s",
                cause.text()
            );
            // What is empty is not filled by itself.
            let is_delay = state.refill.due().is_some();
            return Some(Flaw { is_delay, ..about_store(why) });
        }
        let mut errors =
            next.diagnostics.iter().filter(|problem| problem.severity == Severity::Error).peekable();
        let of_store = errors.peek().is_some().then(|| {
            // What another document replaces may be a rule that has the wrong name: it is gone, and nothing of what is seen has changed.
            let deciding = changed.iter().chain(&next.overridden).filter(|resource| self.decides(resource));
            let names: FxHashSet<String> = deciding.map(|resource| resource.key.to_string()).collect();
            errors.find(|problem| names.contains(&problem.resource)).cloned()
        });
        let load = Load::begin(self.name(), "documents", "checked", changed.len());
        let error_of = |resource: &Arc<RawResource>| {
            let error = self.error_of(resource);
            load::documents_done(load.id(), 1);
            error
        };
        let found = of_store.flatten().or_else(|| changed.iter().find_map(error_of));
        found.map(Flaw::from)
    }

    /// Whether a document is of a kind that decides about requests.
    fn decides(&self, resource: &RawResource) -> bool {
        self.kind(resource).is_ok_and(decides)
    }

    /// Why a document that decides about requests, or may be meant to, does not do what it says.
    fn error_of(&self, resource: &RawResource) -> Option<Diagnostic> {
        let error =
            |field: FieldPath, text: String| Some(placed(Diagnostic::error(POLICY, field, text), resource));
        // With what an object of Kubernetes needs no more than a name for.
        let whole = read_document(resource.origin.clone());
        let kind = match self.kind(resource) {
            Ok(kind) => kind,
            Err(problems) => {
                let is_ours = is_meant_for_us(resource)
                    || stands_for_ours(resource)
                    || whole.is_some_and(|whole| whole.envelope.is_like_ours);
                return problems
                    .into_iter()
                    .next()
                    .filter(|_| is_ours)
                    .map(|problem| placed(problem, resource));
            }
        };
        let group = group_of(resource);
        if is_of_engine(group) && !is_of_engine(kind.group) {
            let field = FieldPath::root().field("kind");
            return error(field, format!("`{}` is no kind of {group}: correct one of them", kind.kind));
        }
        if !decides(kind) {
            // Of its own kind it says nothing: it may be a rule that has the wrong one.
            if !whole.is_some_and(|whole| whole.envelope.is_like_ours) {
                return None;
            }
            if !self.options.reads(kind) {
                let field = FieldPath::root().field("kind");
                return error(field, format!("`{}` is no kind with such contents: correct it", kind.kind));
            }
            let converted = self.converter.convert(kind, &resource.document(), "");
            let problems = converted.map_or_else(|all| all, |good| good.warnings);
            return problems.into_iter().next().map(|problem| placed(problem, resource));
        }
        if !self.options.reads(kind) {
            return None;
        }
        let Some(whole) = whole else {
            let text = "it has no name or no namespace, or one that YAML reads as something else than text";
            return error(FieldPath::root().field("metadata"), text.to_owned());
        };
        if let Some(field) = whole.envelope.unknown.first() {
            let text = match &*field.name {
                name @ ("name" | "namespace") => {
                    format!(
                        "`{name}` is no text, or not where it has an effect: quote its value in `metadata`"
                    )
                }
                name => format!("`{name}` has no effect where it is"),
            };
            return error(FieldPath::root(), text);
        }
        if let Some(name) = whole.envelope.untyped_annotations.first() {
            return error(
                FieldPath::root(),
                format!("the value of annotation `{name}` is no text: quote it"),
            );
        }
        let document = resource.document();
        let has_spec = document.get("spec").is_some_and(|spec| !matches!(spec.kind, NodeKind::Null));
        if !has_spec && NEED_SPEC.contains(&kind.kind) {
            return error(
                FieldPath::root().field("spec"),
                "it has no spec: it may have been cut off".to_owned(),
            );
        }
        let problems = self.converter.convert(kind, &document, "").err();
        problems.into_iter().flatten().next().map(|problem| placed(problem, resource))
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

/// The API group of a document, as it is written.
fn group_of(resource: &RawResource) -> &str {
    let api_version = &*resource.envelope.api_version;
    api_version.split_once('/').map_or(api_version, |(group, _)| group)
}

/// Whether a document of an unknown kind is probably meant as one that decides about requests.
fn is_meant_for_us(resource: &RawResource) -> bool {
    let group = group_of(resource);
    let kind = resource.key.kind.split('.').next().unwrap_or_default();
    let is_of_istio = group.is_empty() || group == "istio.io" || group.ends_with(".istio.io");
    let resembles_ours = || {
        let ours = kinds().iter().filter(|known| decides(known));
        ours.into_iter().any(|known| resembles(kind, known.kind))
    };
    kind.is_empty() || is_of_engine(group) || (is_of_istio && resembles_ours())
}

/// Whether a document is what is left of one that decides about requests: a list with such items, as `kubectl get -o yaml` writes it, or the
/// answer to a failed request.
fn stands_for_ours(resource: &RawResource) -> bool {
    let kind = resource.key.kind.split('.').next().unwrap_or_default();
    if kind == "Status" {
        return &*resource.envelope.api_version == "v1";
    }
    let is_ours = |item: &Node| {
        let text = |key: &str| item.get(key).and_then(Node::as_str).unwrap_or_default();
        let known = by_api(text("apiVersion"), text("kind"));
        known.is_some_and(decides) || item.entries().is_empty()
    };
    kind.ends_with("List")
        && resource.document().get("items").is_some_and(|all| all.items().iter().any(is_ours))
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
        self.store.reread();
    }

    fn look(&self) -> BoxFuture<'_, ()> {
        self.store.looked()
    }

    fn pending(&self) -> usize {
        let is_taken = self.taken.load(Ordering::Acquire) == self.store.version();
        usize::from(self.store.awaits_change() || !is_taken)
    }
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").field("url", &self.store.url()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
