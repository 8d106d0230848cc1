//! What is known of one cluster.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};

use mixer_base::task::Task;
use mixer_engine::check_cache::AnswerEpoch;
use mixer_kube::{Client, Progress, Reflector, Resource, Selection, Store};

use super::budget::Budget;
use super::lookup::Wanted;
use super::output::FoundPod;
use super::owners::{Owner, OwnerStore, Owners};
use super::pods::{Pod, PodStore, Pods};
use super::services::{Service, ServiceStore, Services, Table};

/// How long changes may not be followed before anybody is told: API servers are restarted.
const PATIENCE: Duration = Duration::from_secs(5);
/// Controllers of controllers that are followed at most.
const MAX_CONTROLLERS: usize = 8;

/// What is followed of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Scope {
    /// Whether services are.
    pub(super) services: bool,
    /// Most bytes for everything.
    pub(super) most: usize,
}

/// Follows the objects of a cluster until it is dropped.
pub(super) struct Cluster {
    /// Host and port of its API server.
    server: String,
    pods: Arc<Pods>,
    replica_sets: Arc<Owners>,
    replication_controllers: Arc<Owners>,
    /// If they are followed.
    services: Option<FollowedServices>,
    budget: Arc<Budget>,
    progress: [(&'static str, Arc<Progress>); 3],
    _stop: DropGuard,
}

struct FollowedServices {
    shared: Arc<Services>,
    progress: (&'static str, Arc<Progress>),
}

/// Why it is not known whether there is a pod, or to which workload it belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unknown(pub(super) String);

impl Cluster {
    /// Starts to follow it. `id`: for operators.
    pub(super) fn start(id: &str, client: &Client, scope: Scope, answers: &Arc<AnswerEpoch>) -> Self {
        let stop = CancellationToken::new();
        let budget = Arc::new(Budget::of(scope.most));
        let (pods, replica_sets, replication_controllers) =
            <(Arc<Pods>, Arc<Owners>, Arc<Owners>)>::default();
        let owners = |owners: &Arc<Owners>| OwnerStore::new(owners, &budget, answers);
        let progress = [
            follow(
                "pods",
                id,
                client,
                Selection::of("Pod", PODS),
                PodStore::new(&pods, &budget, answers).with_services(scope.services),
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
        let services = scope.services.then(|| {
            let shared = Arc::<Services>::default();
            let store = ServiceStore::new(&shared, &budget, answers);
            let selection = Selection::of("Service", SERVICES);
            let progress = follow("services", id, client, selection, store, &stop);
            FollowedServices { shared, progress }
        });
        let server = client.server();
        let _stop = stop.drop_guard();
        Self { server, pods, replica_sets, replication_controllers, services, budget, progress, _stop }
    }

    /// Whether all pods and owners were listed once.
    pub(super) fn is_synced(&self) -> bool {
        self.progress.iter().all(|(_, progress)| progress.reached().is_synced)
    }

    /// Whether services were listed once, if they are followed.
    pub(super) fn has_services(&self) -> bool {
        self.services.as_ref().is_none_or(|services| services.progress.1.reached().is_synced)
    }

    /// Whether all pods and owners were listed once, and services unless the account may not: pods do not wait for those.
    pub(super) fn is_settled(&self) -> bool {
        let has_settled = |services: &FollowedServices| services.progress.1.reached().is_settled();
        self.is_synced() && self.services.as_ref().is_none_or(has_settled)
    }

    /// Waits for that.
    pub(super) async fn settled(&self) {
        for (_, progress) in &self.progress {
            progress.synced().await;
        }
        if let Some(services) = &self.services {
            services.progress.1.settled().await;
        }
    }

    /// A pod, and its service if it is wanted. Errors: it may be one of those that had no room, or its service is not known.
    pub(super) fn find(&self, wanted: &Wanted) -> Result<Option<FoundPod>, Unknown> {
        let index = self.pods.index();
        let of_ip = wanted.ip.and_then(|ip| index.by_ip(ip));
        let found = of_ip.or_else(|| index.by_name(wanted.key.as_deref()?));
        match found {
            Some(pod) => {
                let service = if wanted.service { self.service_of(pod)? } else { None };
                Ok(Some(FoundPod { root: self.root(pod)?, service, pod: Arc::clone(pod) }))
            }
            None if index.is_incomplete => Err(self.incomplete()),
            None => Ok(None),
        }
    }

    fn service_of(&self, pod: &Pod) -> Result<Option<Arc<Service>>, Unknown> {
        Ok(self.services()?.and_then(|table| table.of_pod(pod).cloned()))
    }

    /// The service with an address in the cluster. Errors: whether there is one is not known.
    pub(super) fn service_at(&self, ip: IpAddr) -> Result<Option<Arc<Service>>, Unknown> {
        Ok(self.services()?.and_then(|table| table.by_ip(ip).cloned()))
    }

    /// All services; `None` if they are not followed.
    fn services(&self) -> Result<Option<arc_swap::Guard<Arc<Table>>>, Unknown> {
        let Some(services) = &self.services else { return Ok(None) };
        if !self.has_services() {
            let why = self.trouble_of(&services.progress).unwrap_or_default();
            return Err(Unknown(format!("the services of the cluster are not known yet: {why}")));
        }
        let table = services.shared.table();
        if table.is_incomplete { Err(self.incomplete()) } else { Ok(Some(table)) }
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
        let services = self.services.as_ref();
        let incomplete = self.pods.index().is_incomplete
            || self.replica_sets.table().is_incomplete
            || self.replication_controllers.table().is_incomplete
            || services.is_some_and(|services| services.shared.table().is_incomplete);
        let mut all = self.progress.iter().chain(services.map(|services| &services.progress));
        all.find_map(|of| self.trouble_of(of)).or_else(|| incomplete.then(|| self.incomplete().0))
    }

    fn trouble_of(&self, (what, progress): &(&str, Arc<Progress>)) -> Option<String> {
        let trouble = trouble(&self.server, what, progress)?;
        // Whoever asks for them may not know that they need a rule of their own.
        let reached = progress.reached();
        let is_forbidden = reached.trouble.as_ref().is_some_and(|trouble| trouble.is_forbidden);
        Some(match is_forbidden && *what == SERVICES.plural {
            true => format!("{trouble}; {SERVICES_RULE}"),
            false => trouble,
        })
    }

    /// Host and port of its API server.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Number of pods.
    pub(super) fn pods(&self) -> usize {
        self.pods.index().len()
    }

    /// Number of services; `None` if they are not followed.
    pub(super) fn services_known(&self) -> Option<usize> {
        self.services.as_ref().map(|services| services.shared.table().len())
    }

    /// Bytes of everything that is known.
    pub(super) fn bytes(&self) -> usize {
        self.budget.used()
    }

    /// Requests that failed.
    pub(super) fn failures(&self) -> u64 {
        self.all_progress().map(Progress::failures).sum()
    }

    fn all_progress(&self) -> impl Iterator<Item = &Progress> {
        let services = self.services.as_ref().map(|services| &services.progress);
        self.progress.iter().chain(services).map(|(_, progress)| &**progress)
    }

    /// One line for operators.
    pub(super) fn shown(&self) -> String {
        let owners = self.replica_sets.table().len() + self.replication_controllers.table().len();
        let services =
            self.services_known().map_or_else(String::new, |number| format!(" {number} services,"));
        let lists: u64 = self.all_progress().map(Progress::lists).sum();
        format!(
            "{}: {} pods, {owners} owners,{services} {} KiB, {lists} lists, {} failures, {}",
            self.server,
            self.pods(),
            self.bytes() >> 10,
            self.failures(),
            if self.is_synced() && self.has_services() { "synced" } else { "not synced" }
        )
    }
}

const PODS: Resource = Resource::new("", "v1", "pods");
const SETS: Resource = Resource::new("apps", "v1", "replicasets");
const CONTROLLERS: Resource = Resource::new("", "v1", "replicationcontrollers");
const SERVICES: Resource = Resource::new("", "v1", "services");
/// What the account lacks if it may not see services.
const SERVICES_RULE: &str = "`services: true` needs {apiGroups: [\"\"], resources: [services], verbs: [list, watch]} in the ClusterRole of the \
                             account";

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
