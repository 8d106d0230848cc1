//! Follows a cluster: discovery, and a reflector for each kind that is served.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{AbortHandle, JoinSet};

use mixer_config::store::Feed;
use mixer_kube::{Client, Error, Pace, Progress, Reflector, Resource, Selection};

use super::CRITICAL;
use super::discovery::{Look, look};
use super::kind::KindStore;
use super::status::Statuses;
use crate::StoreKind;

/// How often kinds are looked for while one is missing that every configuration has, or of which the last good configuration has objects, or
/// one cannot be followed.
const FIRST_LOOKS: Duration = Duration::from_secs(1);
/// How often kinds are looked for later, and definitions of kinds that are not served.
const LATER_LOOKS: Duration = Duration::from_secs(10);
/// How long after a start kinds are looked for as often as while one is missing: API servers that start serve their definitions one by one.
const STARTING: Duration = Duration::from_secs(60);
/// How often it is looked whether all kinds are followed.
const HEALTH_LOOKS: Duration = Duration::from_millis(500);
/// How long all looks have to find a kind missing before it may be gone: an API server that starts serves its definitions one by one.
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
    /// What the server does not serve although the last good configuration has objects of it.
    absent: Vec<Arc<str>>,
    started: Instant,
    /// When it was asked for definitions last.
    asked: Option<Instant>,
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
    /// Since when looks do not find it. A look that fails finds out nothing, and all begins again.
    lost: Option<Instant>,
    /// Why it has objects although it is not served.
    held: Option<String>,
    parts: Vec<Part>,
}

/// A namespace of a kind, or all of them.
struct Part {
    collection: Arc<str>,
    progress: Arc<Progress>,
    task: AbortHandle,
}

impl Followed {
    /// Whether all looks have not found it for so long that its definition may be deleted.
    fn may_be_gone(&self) -> bool {
        !self.is_critical && self.lost.is_some_and(|lost| lost.elapsed() >= GONE_AFTER)
    }
}

/// A look that goes on.
type Looking = dyn Future<Output = Result<Look, Error>> + Send;

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
            absent: Vec::new(),
            started: Instant::now(),
            asked: None,
            connected_since: None,
            connections: 0,
        }
    }

    /// Goes on until the future is dropped. Panics as its reflectors do, so that all is started again.
    pub(super) async fn run(mut self) {
        let mut looked: Option<tokio::time::Instant> = None;
        // What is told does not wait for a look: an API server may leave it unanswered for long.
        let mut looking: Option<Pin<Box<Looking>>> = None;
        loop {
            let pause = if self.is_unsettled() { FIRST_LOOKS } else { LATER_LOOKS };
            if looking.is_none() && looked.is_none_or(|looked| looked.elapsed() >= pause) {
                looking = Some(Box::pin(look(self.client.clone(), self.kinds.clone(), self.missed())));
            }
            let found = async {
                match &mut looking {
                    Some(looking) => looking.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                found = found => {
                    looking = None;
                    self.take(found);
                    looked = Some(tokio::time::Instant::now());
                }
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
        let is_starting = self.started.elapsed() < STARTING && self.followed.len() < self.kinds.len();
        !self.missing.is_empty()
            || is_starting
            || !self.absent.is_empty()
            || self.discovery.is_some()
            || parts.any(|part| part.progress.reached().trouble.is_some())
    }

    /// What the next look asks the definitions of: kinds that have not been served for long, and have or had objects.
    fn missed(&mut self) -> Vec<Arc<str>> {
        let lost = self.followed.values().filter(|followed| followed.may_be_gone());
        let lost = lost.map(|followed| Arc::<str>::from(followed.resource.to_string()));
        let missed: Vec<Arc<str>> = lost.chain(self.absent.iter().cloned()).collect();
        let is_due = self.asked.is_none_or(|asked| asked.elapsed() >= LATER_LOOKS);
        if missed.is_empty() || !is_due {
            return Vec::new();
        }
        self.asked = Some(Instant::now());
        missed
    }

    /// Takes what a look found.
    fn take(&mut self, found: Result<Look, Error>) {
        match found {
            Ok(look) => {
                self.discovery = None;
                self.follow(&look);
            }
            Err(error) => {
                tracing::debug!("kinds are not known: {error}");
                self.discovery = Some(error.to_string());
                self.followed.values_mut().for_each(|followed| followed.lost = None);
            }
        }
    }

    fn follow(&mut self, look: &Look) {
        let served = &look.served;
        let critical = CRITICAL.into_iter().filter(|name| self.kinds.iter().any(|kind| kind.kind == *name));
        let missing = critical.filter(|name| !served.keys().any(|kind| kind.kind == *name));
        self.missing = missing.collect();
        for (kind, resource) in served {
            match self.followed.get_mut(kind) {
                Some(followed) if followed.resource == *resource => {
                    (followed.lost, followed.held) = (None, None);
                }
                // In another version, or for the first time.
                _ => self.begin(*kind, resource),
            }
        }
        let mut gone = Vec::new();
        for (kind, followed) in self.followed.iter_mut().filter(|(kind, _)| !served.contains_key(kind)) {
            followed.lost.get_or_insert_with(Instant::now);
            if !followed.may_be_gone() {
                continue;
            }
            let name = followed.resource.to_string();
            let is_empty = self.feed.change(|draft| {
                followed.parts.iter().all(|part| draft.is_known_to_be_empty(&part.collection))
            });
            match look.definitions.get(&*name) {
                Some(Ok(false)) => gone.push(*kind),
                // Whoever deletes a definition has the objects deleted before.
                _ if is_empty => gone.push(*kind),
                Some(Ok(true)) => followed.held = Some("it is defined, and not served".to_owned()),
                Some(Err(error)) => {
                    let why =
                        format!("it is not served, and unknown whether its definition is deleted: {error}");
                    followed.held = Some(why);
                }
                None => {}
            }
        }
        gone.iter().for_each(|kind| self.forget(*kind));
        let groups: BTreeSet<&'static str> = self.kinds.iter().map(|kind| kind.group).collect();
        let names = look.names.clone();
        let may_come = move |name: &str| {
            let group = name.split_once('.').map(|(_, group)| group);
            group.is_some_and(|group| groups.contains(group)) && !names.contains(name)
        };
        let is_complete = self.missing.is_empty();
        let deleted = look.definitions.iter().filter(|(_, defined)| matches!(defined, Ok(false)));
        self.absent = self.feed.change(|draft| {
            deleted.for_each(|(name, _)| draft.forget_earlier(name));
            draft.may_come(may_come);
            if is_complete {
                draft.close();
            }
            draft.absent()
        });
    }

    fn begin(&mut self, kind: StoreKind, resource: &Resource) {
        tracing::info!("{resource} of {} are followed", self.client.server());
        let namespaces: Vec<Option<&String>> = match self.namespaces.is_empty() {
            true => vec![None],
            false => self.namespaces.iter().map(Some).collect(),
        };
        let mut parts = Vec::new();
        for namespace in namespaces {
            let mut selection = Selection::of(kind.kind, resource.clone());
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
            Followed {
                resource: resource.clone(),
                is_critical: is_critical(kind),
                lost: None,
                held: None,
                parts,
            },
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
            if let Some(statuses) = &self.statuses {
                statuses.retain(&self.feed.origin(&part.collection, None), |_| false);
            }
        }
    }

    /// Tells how far this is.
    fn tell(&mut self) {
        let parts = || {
            self.followed
                .values()
                .flat_map(|followed| followed.parts.iter().map(move |part| (followed, part)))
        };
        let absent = self.feed.change(|draft| {
            for (followed, part) in parts() {
                let reached = part.progress.reached();
                let trouble = reached.trouble.as_ref().map(|trouble| &*trouble.why);
                let why = trouble.map(|trouble| followed.held.as_deref().unwrap_or(trouble));
                draft.unfollowed(&part.collection, why);
            }
            draft.absent()
        });
        let trouble = parts().find_map(|(followed, part)| {
            let reached = part.progress.reached();
            let trouble = reached.trouble.as_ref()?;
            // It may be that the definition is gone, which discovery finds out.
            (followed.lost.is_none() || followed.held.is_some() || followed.is_critical).then(|| {
                let why = followed.held.as_deref().unwrap_or(&trouble.why);
                format!("{} are not followed: {why}", part.collection)
            })
        });
        let trouble = trouble.or_else(|| {
            let names = absent.join(", ");
            (!absent.is_empty())
                .then(|| format!("not served, and the last good configuration has them: {names}"))
        });
        let why = match (&self.discovery, self.missing.is_empty()) {
            (Some(why), _) => Some(why.clone()),
            // compat(1.3): the text that operators of Mixer know.
            (None, false) if !self.feed.is_closed() => {
                Some(format!("failed to discover critical kinds: [{}]", self.missing.join(" ")))
            }
            _ => trouble,
        };
        self.absent = absent;
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
