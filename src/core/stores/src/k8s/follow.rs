//! Follows a cluster: discovery, and a reflector for each kind that is served.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{AbortHandle, JoinSet};

use mixer_config::store::Feed;
use mixer_kube::{Client, Pace, Progress, Reflector, Resource, Selection};

use super::CRITICAL;
use super::discovery::{Served, discover};
use super::kind::KindStore;
use super::status::Statuses;
use crate::StoreKind;

/// How often kinds are looked for while one is missing that every configuration has, or cannot be followed.
const FIRST_LOOKS: Duration = Duration::from_secs(1);
/// How often kinds are looked for later.
const LATER_LOOKS: Duration = Duration::from_secs(10);
/// How often it is looked whether all kinds are followed.
const HEALTH_LOOKS: Duration = Duration::from_millis(500);
/// How long looks have to find a kind missing before it counts as gone: an API server that starts serves its definitions one by one.
const GONE_AFTER: Duration = Duration::from_secs(10);

/// Follows a cluster.
pub(super) struct Follower {
    client: Client,
    feed: Feed,
    kinds: Vec<StoreKind>,
    /// Empty: all.
    namespaces: Vec<String>,
    pace: Pace,
    /// What is told of the status of objects, if it is written.
    statuses: Option<Arc<Statuses>>,
    followed: BTreeMap<StoreKind, Followed>,
    tasks: JoinSet<std::convert::Infallible>,
    /// Why kinds are not known.
    discovery: Option<String>,
    /// Kinds that every configuration has and that are not served.
    missing: Vec<&'static str>,
    connected_since: Option<Instant>,
    connections: u64,
}

/// Whether every configuration has a kind: its definition does not end, whatever looks find. When somebody deletes it, the objects are deleted
/// before, one by one.
fn is_critical(kind: StoreKind) -> bool {
    CRITICAL.contains(&kind.kind)
}

/// A kind that is followed.
struct Followed {
    resource: Resource,
    is_critical: bool,
    /// Since when looks do not find it.
    lost: Option<Instant>,
    parts: Vec<Part>,
}

/// A namespace of a kind, or all of them.
struct Part {
    collection: Arc<str>,
    progress: Arc<Progress>,
    task: AbortHandle,
}

impl Follower {
    pub(super) fn new(
        client: Client,
        feed: Feed,
        kinds: &[StoreKind],
        namespaces: &[String],
        pace: Pace,
        statuses: Option<Arc<Statuses>>,
    ) -> Self {
        Self {
            client,
            feed,
            kinds: kinds.to_vec(),
            namespaces: namespaces.to_vec(),
            pace,
            statuses,
            followed: BTreeMap::new(),
            tasks: JoinSet::new(),
            discovery: None,
            missing: CRITICAL.to_vec(),
            connected_since: None,
            connections: 0,
        }
    }

    /// Goes on until the future is dropped. Panics as its reflectors do, so that all is started again.
    pub(super) async fn run(mut self) {
        let mut looked: Option<tokio::time::Instant> = None;
        loop {
            let pause = if self.is_unsettled() { FIRST_LOOKS } else { LATER_LOOKS };
            if looked.is_none_or(|looked| looked.elapsed() >= pause) {
                self.look().await;
                looked = Some(tokio::time::Instant::now());
                self.tell();
            }
            tokio::select! {
                ended = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    if let Some(Err(error)) = ended && error.is_panic() {
                        std::panic::resume_unwind(error.into_panic());
                    }
                }
                () = tokio::time::sleep(HEALTH_LOOKS) => {}
            }
            self.tell();
        }
    }

    /// Whether the next look may find other kinds: one is missing, or cannot be followed.
    fn is_unsettled(&self) -> bool {
        let mut parts = self.followed.values().flat_map(|followed| &followed.parts);
        !self.missing.is_empty()
            || self.discovery.is_some()
            || parts.any(|part| part.progress.reached().trouble.is_some())
    }

    /// Looks which kinds are served.
    async fn look(&mut self) {
        match discover(&self.client, &self.kinds).await {
            Ok(served) => {
                self.discovery = None;
                self.follow(&served);
            }
            Err(error) => {
                tracing::debug!("kinds are not known: {error}");
                self.discovery = Some(error.to_string());
            }
        }
    }

    fn follow(&mut self, served: &Served) {
        let critical = CRITICAL.into_iter().filter(|name| self.kinds.iter().any(|kind| kind.kind == *name));
        let missing = critical.filter(|name| !served.keys().any(|kind| kind.kind == *name));
        self.missing = missing.collect();
        for (kind, resource) in served {
            match self.followed.get_mut(kind) {
                Some(followed) if followed.resource == *resource => followed.lost = None,
                // In another version, or for the first time.
                _ => self.begin(*kind, resource),
            }
        }
        let mut gone = Vec::new();
        for (kind, followed) in self.followed.iter_mut().filter(|(kind, _)| !served.contains_key(kind)) {
            let lost = followed.lost.get_or_insert_with(Instant::now);
            if !is_critical(*kind) && lost.elapsed() >= GONE_AFTER {
                gone.push(*kind);
            }
        }
        gone.iter().for_each(|kind| self.forget(*kind));
        if self.missing.is_empty() {
            self.feed.change(|draft| draft.close());
        }
    }

    fn begin(&mut self, kind: StoreKind, resource: &Resource) {
        tracing::info!("{resource} of {} are followed", self.client.server());
        let namespaces: Vec<Option<&String>> = match self.namespaces.is_empty() {
            true => vec![None],
            false => self.namespaces.iter().map(Some).collect(),
        };
        let mut parts = Vec::new();
        for namespace in namespaces {
            let mut selection = Selection::of(resource.clone());
            let collection: Arc<str> = match namespace {
                None => resource.to_string().into(),
                Some(namespace) => {
                    selection = selection.in_namespace(namespace.clone());
                    format!("{resource}/{namespace}").into()
                }
            };
            self.feed.change(|draft| draft.expect(&collection));
            if let Some(statuses) = &self.statuses {
                statuses.follow(&collection, resource);
            }
            let (feed, statuses) = (self.feed.clone(), self.statuses.clone());
            let (named, is_of_namespace) = (Arc::clone(&collection), namespace.is_some());
            let store = KindStore::new(feed, kind.kind, named, is_of_namespace, statuses);
            let mut reflector = Reflector::new(self.client.clone(), selection, store).at(self.pace);
            let progress = reflector.progress();
            let task = self.tasks.spawn(async move { reflector.run().await });
            parts.push(Part { collection, progress, task });
        }
        let before = self.followed.insert(
            kind,
            Followed { resource: resource.clone(), is_critical: is_critical(kind), lost: None, parts },
        );
        before.iter().flat_map(|before| &before.parts).for_each(|part| part.task.abort());
    }

    /// The cluster does not have this kind any more.
    fn forget(&mut self, kind: StoreKind) {
        let Some(gone) = self.followed.remove(&kind) else { return };
        tracing::warn!("{} are not served any more", gone.resource);
        for part in gone.parts {
            part.task.abort();
            self.feed.change(|draft| draft.forget(&part.collection));
        }
    }

    /// Tells how far this is.
    fn tell(&mut self) {
        let parts = || {
            self.followed
                .values()
                .flat_map(|followed| followed.parts.iter().map(move |part| (followed, part)))
        };
        self.feed.change(|draft| {
            for (_, part) in parts() {
                let reached = part.progress.reached();
                draft.unfollowed(&part.collection, reached.trouble.as_ref().map(|trouble| &*trouble.why));
            }
        });
        let trouble = parts().find_map(|(followed, part)| {
            let reached = part.progress.reached();
            let trouble = reached.trouble.as_ref()?;
            // It may be that the definition is gone, which discovery finds out.
            (followed.lost.is_none() || followed.is_critical)
                .then(|| format!("{} are not followed: {}", part.collection, trouble.why))
        });
        let why = match (&self.discovery, self.missing.is_empty()) {
            (Some(why), _) => Some(why.clone()),
            // compat(1.3): the text that operators of Mixer know.
            (None, false) if !self.feed.is_closed() => {
                Some(format!("failed to discover critical kinds: [{}]", self.missing.join(" ")))
            }
            _ => trouble,
        };
        let is_synced =
            !self.followed.is_empty() && parts().all(|(_, part)| part.progress.reached().is_synced);
        match (why.is_none() && is_synced, self.connected_since) {
            (true, None) => {
                self.connections += 1;
                self.connected_since = Some(Instant::now());
            }
            (false, _) => self.connected_since = None,
            (true, Some(_)) => {}
        }
        let (since, connections, peer) = (self.connected_since, self.connections, self.client.server());
        self.feed.outage(why);
        self.feed.tell(|status| {
            status.connected_since = since;
            status.connections = connections;
            status.peer = peer;
        });
    }
}
