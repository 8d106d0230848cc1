//! What is known of one cluster.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};

use mixer_base::task::Task;
use mixer_engine::check_cache::AnswerEpoch;
use mixer_kube::{Client, Progress, Reflector, Resource, Selection, Store};

use super::budget::Budget;
use super::lookup::Wanted;
use super::output::Found;
use super::owners::{Owner, OwnerStore, Owners};
use super::pods::{Pod, PodStore, Pods};

/// How long changes may not be followed before anybody is told: API servers are restarted.
const PATIENCE: Duration = Duration::from_secs(5);
/// Controllers of controllers that are followed at most.
const MAX_CONTROLLERS: usize = 8;

/// Follows the objects of a cluster until it is dropped.
pub(super) struct Cluster {
    /// Host and port of its API server.
    server: String,
    pods: Arc<Pods>,
    replica_sets: Arc<Owners>,
    replication_controllers: Arc<Owners>,
    budget: Arc<Budget>,
    progress: [(&'static str, Arc<Progress>); 3],
    _stop: DropGuard,
}

/// Why it is not known whether there is a pod, or to which workload it belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unknown(pub(super) String);

impl Cluster {
    /// Starts to follow it. `id`: for operators.
    pub(super) fn start(id: &str, client: &Client, most: usize, answers: &Arc<AnswerEpoch>) -> Self {
        let stop = CancellationToken::new();
        let budget = Arc::new(Budget::of(most));
        let (pods, replica_sets, replication_controllers) =
            <(Arc<Pods>, Arc<Owners>, Arc<Owners>)>::default();
        let owners = |owners: &Arc<Owners>| OwnerStore::new(owners, &budget, answers);
        let progress = [
            follow(
                "pods",
                id,
                client,
                Selection::of("Pod", PODS),
                PodStore::new(&pods, &budget, answers),
                &stop,
            ),
            follow(
                "replicasets",
                id,
                client,
                Selection::of("ReplicaSet", SETS).metadata_only(),
                owners(&replica_sets),
                &stop,
            ),
            follow(
                "replicationcontrollers",
                id,
                client,
                Selection::of("ReplicationController", CONTROLLERS).metadata_only(),
                owners(&replication_controllers),
                &stop,
            ),
        ];
        let server = client.server();
        let _stop = stop.drop_guard();
        Self { server, pods, replica_sets, replication_controllers, budget, progress, _stop }
    }

    /// Whether all objects were listed once.
    pub(super) fn is_synced(&self) -> bool {
        self.progress.iter().all(|(_, progress)| progress.reached().is_synced)
    }

    /// Waits for that.
    pub(super) async fn synced(&self) {
        for (_, progress) in &self.progress {
            progress.synced().await;
        }
    }

    /// A pod. Errors: it may be one of those that had no room.
    pub(super) fn find(&self, wanted: &Wanted) -> Result<Option<Found>, Unknown> {
        let index = self.pods.index();
        let of_ip = wanted.ip.and_then(|ip| index.by_ip(ip));
        let found = of_ip.or_else(|| index.by_name(wanted.key.as_deref()?));
        match found {
            Some(pod) => Ok(Some(Found { root: self.root(pod)?, pod: Arc::clone(pod) })),
            None if index.is_incomplete => Err(self.incomplete()),
            None => Ok(None),
        }
    }

    /// The controller of a pod that nothing known controls.
    fn root(&self, pod: &Pod) -> Result<Option<Arc<Owner>>, Unknown> {
        let Some(mut owner) = pod.common.owner.clone() else { return Ok(None) };
        for _ in 0..MAX_CONTROLLERS {
            let owners = match &*owner.kind {
                "ReplicaSet" => &self.replica_sets,
                "ReplicationController" => &self.replication_controllers,
                _ => break,
            };
            let table = owners.table();
            match table.get(&format!("{}/{}", pod.namespace(), owner.name)) {
                Some(next) => owner = Arc::clone(next),
                None if table.is_incomplete => return Err(self.incomplete()),
                None => break,
            }
        }
        Ok(Some(owner))
    }

    fn incomplete(&self) -> Unknown {
        Unknown(format!("{}: there is no room for all its objects, see maxCacheMegabytes", self.server))
    }

    /// Why it is not known as it is, for operators.
    pub(super) fn trouble(&self) -> Option<String> {
        let of = |(what, progress): &(&str, Arc<Progress>)| trouble(&self.server, what, progress);
        let incomplete = self.pods.index().is_incomplete
            || self.replica_sets.table().is_incomplete
            || self.replication_controllers.table().is_incomplete;
        self.progress.iter().find_map(of).or_else(|| incomplete.then(|| self.incomplete().0))
    }

    /// Host and port of its API server.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Number of pods.
    pub(super) fn pods(&self) -> usize {
        self.pods.index().len()
    }

    /// Bytes of everything that is known.
    pub(super) fn bytes(&self) -> usize {
        self.budget.used()
    }

    /// Requests that failed.
    pub(super) fn failures(&self) -> u64 {
        self.progress.iter().map(|(_, progress)| progress.failures()).sum()
    }

    /// One line for operators.
    pub(super) fn shown(&self) -> String {
        let owners = self.replica_sets.table().len() + self.replication_controllers.table().len();
        let lists: u64 = self.progress.iter().map(|(_, progress)| progress.lists()).sum();
        format!(
            "{}: {} pods, {owners} owners, {} KiB, {lists} lists, {} failures, {}",
            self.server,
            self.pods(),
            self.bytes() >> 10,
            self.failures(),
            if self.is_synced() { "synced" } else { "not synced" }
        )
    }
}

const PODS: Resource = Resource::new("", "v1", "pods");
const SETS: Resource = Resource::new("apps", "v1", "replicasets");
const CONTROLLERS: Resource = Resource::new("", "v1", "replicationcontrollers");

/// Why objects are not known as they are, for operators.
pub(super) fn trouble(server: &str, what: &str, progress: &Progress) -> Option<String> {
    let reached = progress.reached();
    match &reached.trouble {
        Some(trouble) if !reached.is_synced => Some(format!("{what} cannot be listed: {}", trouble.why)),
        Some(trouble) if trouble.has_lasted(PATIENCE) => {
            Some(format!("changes of {what} are not followed: {}", trouble.why))
        }
        None if !reached.is_synced => Some(format!("{server}: {what} are not listed yet")),
        _ => None,
    }
}

/// Keeps a store equal to the objects of a cluster, in a task.
pub(super) fn follow(
    what: &'static str,
    id: &str,
    client: &Client,
    selection: Selection,
    store: impl Store,
    stop: &CancellationToken,
) -> (&'static str, Arc<Progress>) {
    let reflector = Reflector::new(client.clone(), selection, store);
    let progress = reflector.progress();
    let reflector = Arc::new(tokio::sync::Mutex::new(reflector));
    let stopped = stop.clone();
    Task::restarted("kubernetes watch").of(format!("{what} of {id}")).spawn(stop.clone(), move || {
        let (reflector, stopped) = (Arc::clone(&reflector), stopped.clone());
        async move {
            let mut reflector = reflector.lock().await;
            tokio::select! {
                () = stopped.cancelled() => {}
                never = reflector.run() => match never {},
            }
        }
    });
    (what, progress)
}
