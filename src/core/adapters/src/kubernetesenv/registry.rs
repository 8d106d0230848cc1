//! More clusters: those whose kubeconfigs are in secrets with the label `istio/multiCluster=true`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine as _;
use serde::Deserialize;
use tokio_util::sync::{CancellationToken, DropGuard};

use mixer_base::task::Task;
use mixer_engine::check_cache::AnswerEpoch;
use mixer_kube::{
    Access, Client, Object, PartialMetadata, Progress, Resource, Selection, Versioned, Versions,
};

use super::cluster::{Cluster, Scope, follow};

/// The label of the secrets.
const LABEL: &str = "istio/multiCluster=true";
const SECRETS: Resource = Resource::new("", "v1", "secrets");
/// Most secrets, and most clusters.
const MAX_SECRETS: usize = 1000;
const MAX_CLUSTERS: usize = 64;

/// A secret. It has no `Debug`, because its data is secret.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Secret {
    metadata: PartialMetadata,
    data: Option<BTreeMap<String, String>>,
}

impl Object for Secret {
    fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

/// A cluster of a secret.
#[derive(Clone)]
pub(super) struct Remote {
    pub(super) id: Arc<str>,
    /// The kubeconfig.
    text: Arc<str>,
    newest: Arc<Cluster>,
    /// As the kubeconfig before this one reached it: it serves until the newest one has settled.
    before: Option<Arc<Cluster>>,
}

impl Remote {
    /// What is known of it; `None` before it was listed once.
    pub(super) fn serving(&self) -> Option<&Cluster> {
        let before = self.before.as_ref().filter(|_| !self.newest.is_settled());
        Some(&**before.unwrap_or(&self.newest)).filter(|cluster| cluster.is_synced())
    }

    /// As its current kubeconfig reaches it.
    pub(super) fn newest(&self) -> &Cluster {
        &self.newest
    }
}

/// All clusters of the secrets at one moment.
#[derive(Default, Clone)]
pub(super) struct Remotes {
    /// In byte order of their ids.
    pub(super) clusters: Vec<Remote>,
    /// Entries of secrets that cannot be used, for operators.
    pub(super) problems: Vec<String>,
}

/// Follows the secrets until it is dropped.
pub(super) struct Registry {
    shared: Arc<ArcSwap<Remotes>>,
    progress: Arc<Progress>,
    _stop: DropGuard,
}

impl Registry {
    pub(super) fn start(client: &Client, namespace: &str, scope: Scope, answers: &Arc<AnswerEpoch>) -> Self {
        let stop = CancellationToken::new();
        let (secrets, store) = Versioned::<Secret>::new(MAX_SECRETS);
        let selection = Selection::of("Secret", SECRETS).in_namespace(namespace).with_labels(LABEL);
        let (_, progress) = follow("secrets", namespace, client, selection, store, &stop);
        let shared = Arc::new(ArcSwap::<Remotes>::default());
        let (stopped, answers, of_task) = (stop.clone(), Arc::clone(answers), Arc::clone(&shared));
        Task::restarted("kubernetes clusters").of(namespace).spawn(stop.clone(), move || {
            let (secrets, shared) = (Arc::clone(&secrets), Arc::clone(&of_task));
            let (stopped, answers) = (stopped.clone(), Arc::clone(&answers));
            async move {
                tokio::select! {
                    () = stopped.cancelled() => {}
                    never = keep(&secrets, &shared, scope, &answers) => match never {},
                }
            }
        });
        Self { shared, progress, _stop: stop.drop_guard() }
    }

    /// The clusters. Takes no lock.
    pub(super) fn remotes(&self) -> arc_swap::Guard<Arc<Remotes>> {
        self.shared.load()
    }

    /// How the secrets are followed.
    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }
}

/// Keeps the clusters equal to the secrets.
async fn keep(
    secrets: &Versioned<Secret>,
    shared: &ArcSwap<Remotes>,
    scope: Scope,
    answers: &Arc<AnswerEpoch>,
) -> std::convert::Infallible {
    let mut version = 0;
    loop {
        let remotes = shared.load_full();
        let replaced = remotes.clusters.iter().find(|remote| remote.before.is_some());
        let settled = async {
            match replaced {
                Some(remote) => remote.newest.settled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            changed = secrets.after(version) => {
                version = changed.version;
                shared.store(Arc::new(reconcile(&remotes, &changed, scope, answers)));
            }
            () = settled => {
                let mut remotes = Remotes::clone(&remotes);
                for remote in remotes.clusters.iter_mut().filter(|remote| remote.newest.is_settled()) {
                    remote.before = None;
                }
                shared.store(Arc::new(remotes));
            }
        }
        answers.advance();
    }
}

/// The clusters of the secrets. Those whose kubeconfigs did not change go on.
fn reconcile(
    known: &Remotes,
    secrets: &Versions<Secret>,
    scope: Scope,
    answers: &Arc<AnswerEpoch>,
) -> Remotes {
    let mut wanted: BTreeMap<&str, Result<Arc<str>, String>> = BTreeMap::new();
    let mut problems = Vec::new();
    if secrets.left_out > 0 {
        problems.push(format!("there are more than {MAX_SECRETS} secrets with the label {LABEL}"));
    }
    for kept in secrets.objects.iter() {
        for (id, encoded) in kept.object.data.iter().flatten() {
            let name = kept.object.name();
            if wanted.contains_key(&**id) {
                problems.push(format!("cluster `{id}` of secret `{name}` is in another secret as well"));
            } else if wanted.len() >= MAX_CLUSTERS {
                problems
                    .push(format!("cluster `{id}` of secret `{name}`: there are more than {MAX_CLUSTERS}"));
            } else {
                let text =
                    decoded(encoded).map_err(|why| format!("cluster `{id}` of secret `{name}`: {why}"));
                wanted.insert(id, text);
            }
        }
    }
    let mut clusters = Vec::new();
    for (id, text) in wanted {
        let before = known.clusters.iter().find(|remote| *remote.id == *id);
        let started = text.and_then(|text| match before {
            Some(before) if before.text == text => Ok(before.clone()),
            _ => started(id, text, before, scope, answers),
        });
        match started {
            Ok(remote) => clusters.push(remote),
            Err(problem) => {
                // What worked goes on: a mistake in a secret makes no pods unknown.
                clusters.extend(before.cloned());
                problems.push(problem);
            }
        }
    }
    for gone in known.clusters.iter().filter(|old| clusters.iter().all(|new| new.id != old.id)) {
        tracing::info!(target: "adapters", "deleted remote controller {}", gone.id);
    }
    for problem in problems.iter().filter(|problem| !known.problems.contains(problem)) {
        tracing::warn!(target: "adapters", "{problem}");
    }
    Remotes { clusters, problems }
}

fn started(
    id: &str,
    text: Arc<str>,
    before: Option<&Remote>,
    scope: Scope,
    answers: &Arc<AnswerEpoch>,
) -> Result<Remote, String> {
    let client = Client::new(Access::of_text(&*text))
        .map_err(|error| format!("cluster `{id}` of a secret: {error}"))?;
    let newest = Arc::new(Cluster::start(id, &client, scope, answers));
    if before.is_none() {
        tracing::info!(target: "adapters", "created remote controller {id}");
    }
    let serving = |remote: &Remote| match &remote.before {
        Some(before) if !remote.newest.is_settled() => Arc::clone(before),
        _ => Arc::clone(&remote.newest),
    };
    Ok(Remote { id: id.into(), text, newest, before: before.map(serving) })
}

/// The kubeconfig in an entry of a secret.
fn decoded(encoded: &str) -> Result<Arc<str>, String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded);
    let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    match text {
        Some(text) if text.trim().is_empty() => Err("it is empty".to_owned()),
        Some(text) => Ok(text.into()),
        None => Err("it is no text".to_owned()),
    }
}
