//! Objects of a Kubernetes API server. Spec: galley.md, "Kubernetes source".
//!
//! Discovery says which kinds the server serves. Each of them has a reflector of `mixer-kube`, which lists it in pages and follows
//! its changes. Kinds that the server does not have are synced at once, and followed as soon as their definition appears: the
//! definitions of custom resources are watched, and discovery is repeated while kinds are missing.

mod document;
mod kind;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use mixer_kube::{
    Client, Error, Object as _, Pace, PartialObject, Progress, Reflector, Resource, Selection, Store,
    discover,
};
use mixer_schema::{Kind, Origin};

use super::{Emitter, Ended, MAX_PROBLEMS, Source, Stopped};
use crate::convert::{Converter, decides};
use crate::event::{Batch, Event};
use crate::options::Options;
use kind::{Hold, Objects, Outbox, Pending};

/// Discovery waits so long after a definition changed: a server serves a kind some time after its definition was created.
const AFTER_DEFINITION: Duration = Duration::from_millis(300);
/// Discovery is repeated so often while kinds are missing.
const REDISCOVER: Duration = Duration::from_secs(30);
/// The pause after a discovery that failed; it doubles up to [`REDISCOVER`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// How often a check of the kinds asks the server, and for how long at most. Those of Istio Galley.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
const CHECK_LIMIT: Duration = Duration::from_secs(60);
/// With [`Options::allows_empty`], a kind that decides about requests has no objects if it was not served for so long, and nobody knows
/// whether it is defined.
const UNSERVED_FOR: Duration = Duration::from_secs(10);
/// What to do about kinds of which it is unknown whether they are defined.
const MAY_BE_UNDEFINED: &str = "let the account `list` and `watch` customresourcedefinitions of apiextensions.k8s.io, create the definitions, leave the kinds out with --excluded-resource-kinds, or set --allow-empty-config if that is meant";
/// Kinds that are named in a text.
const MAX_NAMES: usize = 3;
/// Health is looked at so often.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);

/// Objects of an API server.
pub struct Kubernetes {
    client: Client,
    kinds: Vec<&'static Kind>,
    converter: Converter,
    pace: Pace,
    /// How often all objects are listed again; `None`: when the server has forgotten changes.
    resync: Option<Duration>,
    /// Definitions changed, or an operator asks.
    rediscover: Arc<Notify>,
    /// What the kinds have in common that decide about requests, also when the source starts again.
    hold: Arc<Hold>,
}

/// Why the kinds that are needed are not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The server does not serve them.
    #[error(
        "Expected resources (CRDs) not found: [{}]: create them, or leave their kinds out with --excludedResourceKinds",
        .0.join(" ")
    )]
    Missing(Vec<String>),
    /// The server does not answer.
    #[error("cannot ask for the resources that the API server serves: {0}")]
    Unreachable(#[from] Error),
}

/// A kind that is followed.
struct Followed {
    resource: Resource,
    progress: Arc<Progress>,
    outbox: Arc<Outbox>,
    tasks: [AbortHandle; 2],
}

/// The kinds that are followed, by collection, and their tasks.
struct Following<'s> {
    source: &'s Kubernetes,
    out: &'s Emitter,
    kinds: BTreeMap<&'static str, Followed>,
    tasks: JoinSet<()>,
    /// What the kinds have in common that decide about requests.
    hold: Arc<Hold>,
    definitions: Arc<Mutex<KnownDefinitions>>,
    /// Since when kinds that decide about requests are not served, by collection.
    unserved: BTreeMap<&'static str, Instant>,
    /// Kinds that decide about requests, are not served, and may be defined.
    unknown: Vec<&'static Kind>,
    pending: Arc<Pending>,
}

impl Kubernetes {
    /// The kinds that these settings read, of a server. All objects are listed again after every `resync`; zero: only when the server has
    /// forgotten changes.
    pub fn new(client: Client, options: &Options, resync: Duration) -> Arc<Self> {
        Self::at(client, options, Pace::default(), resync)
    }

    /// [`new`](Self::new), at another pace.
    pub fn at(client: Client, options: &Options, pace: Pace, resync: Duration) -> Arc<Self> {
        Arc::new(Self {
            client,
            kinds: options.read_kinds().collect(),
            converter: Converter::new(options),
            pace,
            resync: (!resync.is_zero()).then_some(resync),
            rediscover: Arc::default(),
            hold: Hold::new(options.allows_empty),
        })
    }

    /// Waits until the server serves every kind that is needed, at most a minute.
    ///
    /// Errors: kinds are missing for so long; a group is missing altogether; the server does not answer.
    pub async fn check(&self) -> Result<(), CheckError> {
        let deadline = tokio::time::Instant::now() + CHECK_LIMIT;
        loop {
            let (served, groups) = self.served().await?;
            let needed = self.kinds.iter().filter(|kind| !kind.optional && kind.origin == Origin::Istio);
            let missing: Vec<&&Kind> = needed.filter(|kind| !served.contains_key(kind.collection)).collect();
            if missing.is_empty() {
                return Ok(());
            }
            let is_hopeless = missing.iter().any(|kind| !groups.contains(&kind.group));
            if is_hopeless || tokio::time::Instant::now() >= deadline {
                let name = |kind: &&&Kind| format!("{}.{}/{}", kind.plural, kind.group, kind.version);
                return Err(CheckError::Missing(missing.iter().map(name).collect()));
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// How the server serves the kinds, by collection, and the groups that it has.
    async fn served(&self) -> Result<(BTreeMap<&'static str, Resource>, Vec<&'static str>), Error> {
        let mut wanted: Vec<&'static str> = self.kinds.iter().map(|kind| kind.group).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let (mut served, mut groups) = (BTreeMap::new(), Vec::new());
        for group in wanted {
            let found = discover(&self.client, group).await?;
            if !found.is_empty() {
                groups.push(group);
            }
            for kind in self.kinds.iter().filter(|kind| kind.group == group) {
                let mut versions = found.iter().filter(|served| served.kind == kind.kind);
                // The version that the messages are of goes before the one that the server prefers.
                let exact = versions.clone().find(|served| served.resource.version == kind.version);
                // An object of another version of a core kind has another shape.
                let other = if kind.origin == Origin::Core { None } else { versions.next() };
                if let Some(found) = exact.or(other) {
                    served.insert(kind.collection, found.resource.clone());
                }
            }
        }
        Ok((served, groups))
    }

    async fn follow(&self, out: &Emitter) -> Result<Infallible, Ended> {
        self.hold.begin();
        let mut following = Following {
            source: self,
            out,
            kinds: BTreeMap::new(),
            tasks: JoinSet::new(),
            hold: Arc::clone(&self.hold),
            definitions: Arc::default(),
            unserved: BTreeMap::new(),
            unknown: Vec::new(),
            pending: Pending::new(out),
        };
        following.watch_definitions();
        let mut pause = FIRST_PAUSE;
        loop {
            let wait = match self.served().await {
                Ok((served, _)) => {
                    pause = FIRST_PAUSE;
                    if following.kinds.is_empty() {
                        out.health().connected(true);
                    }
                    let is_complete = served.len() == self.kinds.len();
                    let is_waiting = following.update(&served).await?;
                    match (is_complete, is_waiting) {
                        (true, _) => None,
                        (false, true) => Some(CHECK_INTERVAL),
                        (false, false) => Some(REDISCOVER),
                    }
                }
                Err(error) => {
                    // Whether a kind was served meanwhile is unknown.
                    following.unserved.clear();
                    out.health().connected(false);
                    out.health().failed(error.to_string());
                    let wait = pause;
                    pause = (pause * 2).min(REDISCOVER);
                    Some(wait)
                }
            };
            let next = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.rediscover.notified() => tokio::time::sleep(AFTER_DEFINITION).await,
                () = next => {}
                ended = following.tend() => return Err(ended),
            }
        }
    }
}

impl Following<'_> {
    /// Has discovery repeated when definitions of custom resources change.
    fn watch_definitions(&mut self) {
        let (client, pace) = (self.source.client.clone(), self.source.pace);
        let (changed, known) = (Arc::clone(&self.source.rediscover), Arc::clone(&self.definitions));
        self.tasks.spawn(async move {
            let group = "apiextensions.k8s.io";
            let versions = loop {
                match discover(&client, group).await {
                    Ok(versions) => break versions,
                    Err(_) => tokio::time::sleep(FIRST_PAUSE).await,
                }
            };
            let definitions = versions.into_iter().find(|served| served.kind == "CustomResourceDefinition");
            // Without permission to watch them, discovery is repeated while kinds are missing.
            let Some(definitions) = definitions else { return };
            let selection = Selection::of(definitions.kind, definitions.resource).metadata_only();
            let definitions = Definitions { changed, known, listed: BTreeSet::new() };
            Reflector::new(client, selection, definitions).at(pace).run().await;
        });
    }

    /// Follows what is served, and no more what is not defined. With [`Options::keeps_last`] the objects of a kind outlast its definition,
    /// too: whoever deletes that has its objects deleted before, one by one.
    ///
    /// Returns whether a kind is to be looked for again soon. Errors: the source has to be started again, or was stopped.
    async fn update(&mut self, served: &BTreeMap<&'static str, Resource>) -> Result<bool, Ended> {
        let kinds = &self.source.kinds;
        let (mut synced, mut is_waiting) = (Batch::new(), false);
        self.unknown.clear();
        for kind in kinds {
            let followed = self.kinds.get(kind.collection).map(|followed| &followed.resource);
            let resource = served.get(kind.collection);
            if followed == resource && followed.is_some() {
                continue;
            }
            // A server that has just started serves kinds one after the other.
            if followed.is_some() && resource.is_none() && self.definitions.lock().defines(kind) == Some(true)
            {
                continue;
            }
            if followed.is_some() && self.source.converter.keeps_last() {
                match resource {
                    // In another version: what it has takes the place of what there is in one step.
                    Some(_) => return Err(Ended::Reset),
                    None => continue,
                }
            }
            if let Some(old) = self.kinds.remove(kind.collection) {
                old.tasks.iter().for_each(AbortHandle::abort);
                let deletions = old.outbox.forget();
                self.out.send(deletions).await.map_err(|Stopped| Ended::Stopped)?;
            }
            match resource {
                Some(resource) => {
                    self.unserved.remove(kind.collection);
                    let followed = self.start(kind, resource.clone());
                    self.kinds.insert(kind.collection, followed);
                }
                None if self.is_absent(kind) => synced.push(Event::full_sync(kind.collection)),
                None => {
                    is_waiting = true;
                    if self.definitions.lock().0.is_none() {
                        self.unknown.push(kind);
                    }
                }
            }
        }
        self.out.send(synced).await.map_err(|Stopped| Ended::Stopped)?;
        Ok(is_waiting)
    }

    /// Whether a kind that is not served has no objects. With [`Options::keeps_last`], of one that decides about requests only if its
    /// definition is known not to exist: a server that has just started serves kinds one after the other. Without permission to list
    /// definitions that is never known; with [`Options::allows_empty`] it counts if the server has not served the kind for a while.
    fn is_absent(&mut self, kind: &'static Kind) -> bool {
        if !self.source.converter.keeps_last() || !decides(kind) {
            return true;
        }
        match self.definitions.lock().defines(kind) {
            Some(is_defined) => !is_defined,
            None if !self.source.converter.allows_empty() => false,
            None => {
                let since = *self.unserved.entry(kind.collection).or_insert_with(Instant::now);
                since.elapsed() >= UNSERVED_FOR
            }
        }
    }

    /// Why kinds are neither followed nor empty, if so.
    fn why_unknown(&self) -> Option<String> {
        let names: Vec<String> =
            self.unknown.iter().map(|kind| format!("{}.{}", kind.plural, kind.group)).collect();
        let listed = match names.split_at_checked(MAX_NAMES) {
            Some((first, [_, ..])) => format!("{} and {} more", first.join(", "), names.len() - MAX_NAMES),
            _ => names.join(", "),
        };
        (!names.is_empty()).then(|| {
            format!(
                "not served, and unknown whether they are defined, so that they may have objects: {listed}; {MAY_BE_UNDEFINED}"
            )
        })
    }

    fn start(&mut self, kind: &'static Kind, resource: Resource) -> Followed {
        let holds = self.source.converter.keeps_last() && decides(kind);
        let outbox =
            Arc::new(Outbox::new(kind, holds.then(|| Arc::clone(&self.hold)), Arc::clone(&self.pending)));
        let mut held = self.hold.subscribe();
        let objects = Objects::new(kind, self.source.converter.clone(), Arc::clone(&outbox));
        let selection = Selection::of(kind.kind, resource.clone());
        let mut reflector =
            Reflector::new(self.source.client.clone(), selection, objects).at(self.source.pace);
        reflector = reflector.listing_every(self.source.resync);
        let progress = reflector.progress();
        let reflect = self.tasks.spawn(async move {
            reflector.run().await;
        });
        let (out, waiting) = (self.out.clone(), Arc::clone(&outbox));
        let deliver = self.tasks.spawn(async move {
            loop {
                let due = waiting.due();
                let may_go = async {
                    match due {
                        Some(due) => tokio::time::sleep_until(due).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = waiting.arrived.notified() => {}
                    Ok(()) = held.changed(), if holds => {}
                    () = may_go, if holds => {}
                }
                let batch = waiting.take();
                if batch.is_empty() {
                    continue;
                }
                if out.send_and_show(batch).await.is_err() {
                    return;
                }
                waiting.delivered();
            }
        });
        Followed { resource, progress, outbox, tasks: [reflect, deliver] }
    }

    /// Tells the health, until the source was stopped, or a task failed.
    async fn tend(&mut self) -> Ended {
        let mut held = self.hold.subscribe();
        loop {
            let why =
                self.hold.why().or_else(|| self.kinds.values().find_map(|followed| followed.outbox.why()));
            self.out.health().held(why.or_else(|| self.why_unknown()));
            tokio::select! {
                () = tokio::time::sleep(HEALTH_INTERVAL) => {}
                Ok(()) = held.changed() => {}
                Some(ended) = self.tasks.join_next() => {
                    if let Some(error) = ended.err().filter(tokio::task::JoinError::is_panic) {
                        return Ended::Failed(format!("a task failed: {error}"));
                    }
                    continue;
                }
            }
            if self.out.is_stopped() {
                return Ended::Stopped;
            }
            let trouble =
                self.kinds.values().find_map(|followed| followed.progress.reached().trouble.clone());
            self.out.health().connected(trouble.is_none());
            if let Some(trouble) = trouble {
                self.out.health().failed(trouble.why.to_string());
            }
            let problems: Vec<_> =
                self.kinds.values().flat_map(|followed| followed.outbox.problems(MAX_PROBLEMS)).collect();
            let skipped = self.kinds.values().map(|followed| followed.outbox.skipped()).sum();
            self.out.health().problems(skipped, problems);
        }
    }
}

/// The names of the definitions of custom resources that a server has.
#[derive(Debug, Default)]
struct KnownDefinitions(Option<BTreeSet<String>>);

impl KnownDefinitions {
    /// Whether a kind is defined; `None` if that is unknown.
    fn defines(&self, kind: &Kind) -> Option<bool> {
        self.0.as_ref().map(|names| names.contains(&format!("{}.{}", kind.plural, kind.group)))
    }
}

/// Definitions of custom resources: their names, and that they changed. While they are listed, which may fail for long, those before count.
struct Definitions {
    changed: Arc<Notify>,
    known: Arc<Mutex<KnownDefinitions>>,
    listed: BTreeSet<String>,
}

impl Store for Definitions {
    type Object = PartialObject;

    fn begin(&mut self) {
        self.listed.clear();
    }

    fn list(&mut self, object: PartialObject) {
        self.listed.insert(object.name().to_owned());
    }

    fn complete(&mut self) {
        self.known.lock().0 = Some(std::mem::take(&mut self.listed));
    }

    fn apply(&mut self, object: PartialObject) {
        if let Some(names) = &mut self.known.lock().0 {
            names.insert(object.name().to_owned());
        }
    }

    fn delete(&mut self, object: PartialObject) {
        if let Some(names) = &mut self.known.lock().0 {
            names.remove(object.name());
        }
    }

    fn publish(&mut self) {
        self.changed.notify_one();
    }
}

impl Source for Kubernetes {
    fn name(&self) -> String {
        format!("kubernetes {}", self.client.server())
    }

    fn collections(&self) -> Vec<&'static str> {
        self.kinds.iter().map(|kind| kind.collection).collect()
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
        self.rediscover.notify_one();
    }
}

#[cfg(test)]
mod tests;
