//! A cluster of Kubernetes as a store: its custom resources of the kinds that the server knows, listed and watched.
//!
//! Kinds are found by discovery, so that custom resource definitions may come later: the kinds that every configuration has
//! ([`CRITICAL`]) are waited for, others are looked for every ten seconds. One of the others whose definition is gone, and is still gone at
//! the next look, has no objects any more. Everything else that goes wrong (an outage, a refusal, 410 Gone) leaves what was known.

mod discovery;
mod follow;
mod kind;
mod object;
mod status;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use mixer_base::task::Task;
use mixer_config::store::{Feed, FeedStore, StoreError};
use mixer_kube::{Access, Client, Pace};

use crate::StoreOptions;
use follow::Follower;
use status::Statuses;

/// The kinds without which there is no configuration: a cluster that does not serve all of them has no Mixer installed, or not yet.
pub const CRITICAL: [&str; 6] = ["adapter", "attributemanifest", "handler", "instance", "rule", "template"];

/// What the URL of a cluster says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The kubeconfig; `None`: the service account of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// The namespaces that are read; none: all.
    pub namespaces: Vec<String>,
}

impl Settings {
    /// From `[KUBECONFIG][?ns=A,B]`. `retry-timeout` of Istio Mixer is accepted and has no effect: kinds are waited for until
    /// `--config-wait-timeout`.
    ///
    /// Errors: an unknown parameter.
    pub fn parse(url: &str, rest: &str) -> Result<Self, StoreError> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let invalid = |cause: String| StoreError::Invalid { url: url.to_owned(), cause };
        let mut settings =
            Self { kubeconfig: (!path.is_empty()).then(|| path.into()), namespaces: Vec::new() };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "ns" => {
                    settings.namespaces.extend(value.split(',').filter(|ns| !ns.is_empty()).map(Into::into))
                }
                "retry-timeout" => {}
                other => return Err(invalid(format!("unknown parameter `{other}`; it may have `ns`"))),
            }
        }
        settings.namespaces.sort();
        settings.namespaces.dedup();
        Ok(settings)
    }

    fn access(&self) -> Result<Access, StoreError> {
        match &self.kubeconfig {
            Some(path) => Ok(Access::of_file(path)),
            // The reason is that there is no cluster around this process.
            None => Access::of_pod().map_err(|_| StoreError::NoCluster),
        }
    }
}

/// Follows a cluster on the current runtime, until the store is dropped.
///
/// Errors: the cluster is not known, or a credential cannot be used.
pub fn open(url: &str, settings: Settings, options: &StoreOptions) -> Result<FeedStore, StoreError> {
    open_at(url, settings, options, Pace::default())
}

fn open_at(
    url: &str,
    settings: Settings,
    options: &StoreOptions,
    pace: Pace,
) -> Result<FeedStore, StoreError> {
    let client = Client::new(settings.access()?)
        .map_err(|error| StoreError::Unusable { what: "configuration", why: error.to_string() })?;
    let stop = CancellationToken::new();
    let (store, feed) = Feed::new(url, &format!("k8s://{}", client.server()), stop.clone().drop_guard());
    let statuses = options.faults.clone().map(|faults| (Statuses::new(client.clone()), faults));
    let (kinds, ended) = (options.kinds.clone(), stop.clone());
    let make = move || {
        let written = statuses.as_ref().map(|(statuses, _)| Arc::clone(statuses));
        let follower =
            Follower::new(client.clone(), feed.clone(), &kinds, &settings.namespaces, pace, written);
        let (ended, statuses) = (ended.clone(), statuses.clone());
        async move {
            let writes = async {
                match &statuses {
                    Some((statuses, faults)) => statuses.run(faults.clone()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = ended.cancelled() => {}
                () = follower.run() => {}
                () = writes => {}
            }
        }
    };
    // The handle is not kept: the task ends with the store.
    drop(Task::restarted("store").spawn(stop, make));
    Ok(store)
}
